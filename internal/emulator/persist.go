package emulator

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Files of a directory:
//
//	meta.log             groups and streams: creations, settings, deletions
//	events-00000001.log  accepted calls in order of acceptance, of all streams
//	events-00000002.log  …, a new file every 64 MiB
//
// All are sequences of records: length (4 bytes, little endian), CRC-32C of
// the payload (4 bytes), payload. A record is written with one write, so a
// kill can only tear the last one, which the next start cuts off. Nothing is
// fsynced: after a power cut the tail may be missing, which is good enough for
// a test endpoint.
//
// One log for all streams, and not one each, keeps the number of open files
// constant and makes forgetting the oldest calls a matter of deleting files.
const (
	metaFile     = "meta.log"
	segmentBytes = 64 << 20
	headerBytes  = 8
	// maxRecord is far above what a call of 1 MiB needs; a larger length is damage.
	maxRecord = 64 << 20
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// metaRecord is one line of history of groups and streams.
type metaRecord struct {
	Op        string            `json:"op"` // group, stream, delete_group, delete_stream
	Group     string            `json:"group"`
	Stream    string            `json:"stream,omitempty"`
	ID        uint64            `json:"id,omitempty"`
	Created   int64             `json:"created,omitempty"`
	Class     string            `json:"class,omitempty"`
	KMSKey    string            `json:"kms_key,omitempty"`
	Protected bool              `json:"protected,omitempty"`
	Retention int               `json:"retention,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
}

func (g *group) record() metaRecord {
	return metaRecord{Op: "group", Group: g.name, Created: g.created, Class: g.class, KMSKey: g.kmsKey,
		Protected: g.protected, Retention: g.retention, Tags: g.tags}
}

func (st *stream) record() metaRecord {
	return metaRecord{Op: "stream", Group: st.group.name, Stream: st.name, ID: st.id, Created: st.created}
}

// journal writes the files.
type journal struct {
	dir   string
	table *crc32.Table

	mu       sync.Mutex
	buf      []byte
	meta     *os.File
	metaSize int64
	seg      *os.File
	segSize  int64
	segments []segment // the last is open for writing
}

type segment struct {
	number  int
	lastReq int64 // largest request number in it
}

func (j *journal) path(number int) string {
	return filepath.Join(j.dir, fmt.Sprintf("events-%08d.log", number))
}

// saveMeta appends a record when there is a directory. The caller holds Server.mu.
func (s *Server) saveMeta(r metaRecord) *apiError {
	if s.journal == nil {
		return nil
	}
	if err := s.journal.appendMeta(r); err != nil {
		s.log.Error("writing groups and streams failed; answered 500", "err", err)
		return errInternal()
	}
	return nil
}

func (j *journal) appendMeta(r metaRecord) error {
	payload, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", r.Op, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = append(append(j.buf[:0], make([]byte, headerBytes)...), payload...)
	n, err := j.write(j.meta, j.metaSize)
	j.metaSize += n
	return err
}

// write seals j.buf and writes it at off. A failed write leaves off as it is,
// so the next one overwrites the torn record.
func (j *journal) write(f *os.File, off int64) (int64, error) {
	if f == nil {
		return 0, errors.New("the server is closed")
	}
	payload := j.buf[headerBytes:]
	binary.LittleEndian.PutUint32(j.buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(j.buf[4:], crc32.Checksum(payload, j.table))
	if _, err := f.WriteAt(j.buf, off); err != nil {
		return 0, fmt.Errorf("writing %s: %w", f.Name(), err)
	}
	return int64(len(j.buf)), nil
}

// appendChunk writes an accepted call and the token that it carried. The
// caller holds c.stream.mu.
func (j *journal) appendChunk(c *chunk, token string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.segSize >= segmentBytes {
		if err := j.roll(); err != nil {
			return err
		}
	}
	j.buf = append(j.buf[:0], make([]byte, headerBytes)...)
	j.buf = encodeChunk(j.buf, c, token)
	n, err := j.write(j.seg, j.segSize)
	if err != nil {
		return err
	}
	j.segSize += n
	last := &j.segments[len(j.segments)-1]
	last.lastReq = max(last.lastReq, c.request)
	return nil
}

// roll opens the next segment.
func (j *journal) roll() error {
	number := 1
	if n := len(j.segments); n > 0 {
		number = j.segments[n-1].number + 1
	}
	f, err := os.OpenFile(j.path(number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if j.seg != nil {
		if err := j.seg.Close(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	j.seg, j.segSize = f, 0
	j.segments = append(j.segments, segment{number: number})
	return nil
}

// drop deletes segments whose calls have all been forgotten.
func (j *journal) drop(oldest int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.segments) > 1 && j.segments[0].lastReq < oldest {
		if os.Remove(j.path(j.segments[0].number)) != nil {
			return // tried again with the next eviction
		}
		j.segments = j.segments[1:]
	}
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, f := range []*os.File{j.meta, j.seg} {
		if f != nil {
			errs = append(errs, f.Sync(), f.Close())
		}
	}
	j.meta, j.seg = nil, nil
	return errors.Join(errs...)
}

func encodeChunk(b []byte, c *chunk, token string) []byte {
	b = binary.AppendUvarint(b, c.stream.id)
	b = binary.AppendUvarint(b, uint64(c.request))
	b = binary.AppendUvarint(b, c.ordinal)
	b = binary.AppendUvarint(b, uint64(c.ingested))
	b = binary.AppendUvarint(b, uint64(len(token)))
	b = append(b, token...)
	b = binary.AppendUvarint(b, uint64(len(c.ts)))
	prev := int64(0)
	for _, ts := range c.ts {
		b = binary.AppendVarint(b, ts-prev)
		prev = ts
	}
	end := uint32(0)
	for _, e := range c.ends {
		b = binary.AppendUvarint(b, uint64(e-end))
		end = e
	}
	return append(b, c.data...)
}

var errDamaged = errors.New("damaged record")

// decodeChunk is the inverse of encodeChunk; it returns the stream's id.
func decodeChunk(b []byte) (c *chunk, id uint64, token string, err error) {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = errDamaged
			return 0
		}
		b = b[n:]
		return v
	}
	id = next()
	c = &chunk{request: int64(next()), ordinal: next(), ingested: int64(next())}
	n := next()
	if err != nil || n > uint64(len(b)) {
		return nil, 0, "", errDamaged
	}
	token, b = string(b[:n]), b[n:]
	count := next()
	if err != nil || count == 0 || count > uint64(len(b)) {
		return nil, 0, "", errDamaged
	}
	c.ts, c.ends = make([]int64, count), make([]uint32, count)
	prev := int64(0)
	for i := range c.ts {
		d, n := binary.Varint(b)
		if n <= 0 {
			return nil, 0, "", errDamaged
		}
		b = b[n:]
		prev += d
		c.ts[i] = prev
	}
	end := uint64(0)
	for i := range c.ends {
		if end += next(); err != nil || end > maxRecord {
			return nil, 0, "", errDamaged
		}
		c.ends[i] = uint32(end)
	}
	if end != uint64(len(b)) {
		return nil, 0, "", errDamaged
	}
	c.data = bytes.Clone(b)
	return c, id, token, nil
}

// readRecords calls fn for each whole record and returns the length of the
// sound part of the file.
func readRecords(f io.Reader, table *crc32.Table, fn func(payload []byte) error) (int64, error) {
	var sound int64
	var buf []byte
	header := make([]byte, headerBytes)
	for {
		if _, err := io.ReadFull(f, header); err != nil {
			return sound, ignoreEOF(err)
		}
		n := int(binary.LittleEndian.Uint32(header))
		if n > maxRecord {
			return sound, nil
		}
		buf = slices.Grow(buf[:0], n)[:n]
		if _, err := io.ReadFull(f, buf); err != nil {
			return sound, ignoreEOF(err)
		}
		if crc32.Checksum(buf, table) != binary.LittleEndian.Uint32(header[4:]) {
			return sound, nil
		}
		if err := fn(buf); err != nil {
			if errors.Is(err, errDamaged) {
				return sound, nil
			}
			return sound, err
		}
		sound += int64(headerBytes + n)
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

func isSegment(name string) (number int, ok bool) {
	var tail string
	if !strings.HasPrefix(name, "events-") {
		return 0, false
	}
	n, _ := fmt.Sscanf(name, "events-%08d%s", &number, &tail)
	return number, n == 2 && tail == ".log" && number > 0
}
