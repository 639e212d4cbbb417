package docker

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/awslogs"
	"weir/internal/vfs"
)

// store keeps the sessions for the next process: for each a file that says what it is, and
// two that take turns to say what is held of events that are not complete. Nothing is
// synced: a killed process leaves what it wrote to the kernel, and after a power cut the
// containers and what was in their pipes are gone as well.
type store struct {
	fs  vfs.FS
	dir string
}

const (
	infoSuffix  = ".json"
	badSuffix   = ".damaged"
	stateFormat = 1
	maxInfo     = 6 * maxBody // as JSON a byte of an option can take six
	maxHeld     = 64 << 20
)

var heldSuffixes = [2]string{".a", ".b"}

// saved is a session as it is stored.
type saved struct {
	Format  int
	File    string
	ID      string
	Name    string
	Since   time.Time
	Options *awslogs.Options
}

// keyOf gives the name under which the session of a pipe is stored: the pipe's own name,
// which Docker draws at random, or a hash of the path if it has another form.
func keyOf(file string) string {
	if base := filepath.Base(file); isKey(base) {
		return base
	}
	sum := sha256.Sum256([]byte(file))
	return hex.EncodeToString(sum[:])
}

// isKey says whether name has the form of Docker's names of pipes.
func isKey(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// save stores what a session is.
func (st *store) save(s *saved) error {
	s.Format = stateFormat
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	key := keyOf(s.File)
	tmp := st.path(key + ".tmp")
	if err := st.write(tmp, b); err != nil {
		return fmt.Errorf("store the session of %s: %w", s.File, errors.Join(err, st.remove(tmp)))
	}
	if err := st.fs.Rename(tmp, st.path(key+infoSuffix)); err != nil {
		return fmt.Errorf("store the session of %s: %w", s.File, err)
	}
	return nil
}

// damage is a session that cannot be read.
type damage struct {
	key string
	err error
}

// errBlank is the error of a file that a power cut has left without what was written to it.
var errBlank = errors.New("it is blank")

// load reads all sessions. Damaged ones are set aside.
func (st *store) load() (all []*saved, damaged []damage, err error) {
	names, err := st.fs.List(st.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list the sessions: %w", err)
	}
	known := map[string]bool{}
	for _, name := range names {
		key, ok := strings.CutSuffix(name, infoSuffix)
		if !ok || !isKey(key) {
			continue
		}
		s, err := st.loadOne(key)
		if errors.Is(err, errBlank) { // its container and its pipe ended with the power
			if err := st.forget(key); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err != nil {
			aside := st.path(key + badSuffix)
			err = errors.Join(fmt.Errorf("read session %s, which is set aside as %s: %w", key, aside, err), st.fs.Rename(st.path(name), aside))
			damaged = append(damaged, damage{key, err})
			continue
		}
		known[key] = true
		all = append(all, s)
	}
	for _, name := range names {
		if key, suffix, _ := strings.Cut(name, "."); isKey(key) && !known[key] && "."+suffix != infoSuffix && "."+suffix != badSuffix {
			if err := st.remove(st.path(name)); err != nil {
				return nil, nil, fmt.Errorf("remove what a session that has ended left: %w", err)
			}
		}
	}
	return all, damaged, nil
}

func (st *store) loadOne(key string) (*saved, error) {
	b, err := st.read(st.path(key+infoSuffix), maxInfo)
	if err != nil {
		return nil, err
	}
	if len(bytes.Trim(b, "\x00")) == 0 {
		return nil, errBlank
	}
	return decodeSaved(key, b)
}

func decodeSaved(key string, b []byte) (*saved, error) {
	var s saved
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Format != stateFormat:
		return nil, fmt.Errorf("it has format %d; this version knows %d", s.Format, stateFormat)
	case s.File == "" || keyOf(s.File) != key:
		return nil, fmt.Errorf("it speaks of pipe %q", s.File)
	case s.ID == "" || s.Options == nil:
		return nil, errors.New("it does not say which container it belongs to")
	}
	return &s, nil
}

// forget removes all files of a session: what it is first, since the rest means nothing
// without it.
func (st *store) forget(key string) error {
	err := st.remove(st.path(key + infoSuffix))
	for _, suffix := range heldSuffixes {
		err = errors.Join(err, st.remove(st.path(key+suffix)))
	}
	if err != nil {
		return fmt.Errorf("remove the session of %s: %w", key, err)
	}
	return nil
}

func (st *store) path(name string) string { return filepath.Join(st.dir, name) }

// remove removes a file that may be missing.
func (st *store) remove(path string) error {
	if err := st.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write replaces the beginning of a file, which is made if it is missing.
func (st *store) write(path string, b []byte) error {
	f, err := st.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = st.fs.Create(path)
	}
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the directory
		if err = st.fs.MkdirAll(st.dir); err == nil {
			f, err = st.fs.Create(path)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}

func (st *store) read(path string, limit int64) ([]byte, error) {
	f, err := st.fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("it has %d bytes, more than %d", size, limit)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n == len(b) {
		err = nil
	}
	return b, err
}

// held is what a session has taken out of its pipe and not given to the spool.
type held struct {
	gen   uint64
	block event.Chunk // the look that it includes last; zero after a flush
	state []byte      // of package lines
	// pending was, or was to be, given to the spool right after this was written.
	pending []event.Batch
}

const (
	heldMagic  = "wdh1"
	heldHeader = 4 + 8 + 16 + 4 + 4
	batchSize  = 2 + 4 + 8 + 8 + 16 + 4 // of a batch without tag and entries
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saveHeld writes h into the file whose turn it is.
func (st *store) saveHeld(key string, h *held, buf []byte) ([]byte, error) {
	buf = appendHeld(buf[:0], h)
	if err := st.write(st.path(key+heldSuffixes[h.gen%2]), buf); err != nil {
		return buf, fmt.Errorf("store what is held of %s: %w", key, err)
	}
	return buf, nil
}

// loadHeld gives the newest that is whole; a zero one if there is none.
func (st *store) loadHeld(key string) (newest held) {
	for _, suffix := range heldSuffixes {
		b, err := st.read(st.path(key+suffix), maxHeld)
		if err != nil {
			continue
		}
		if h, ok := decodeHeld(b); ok && h.gen > newest.gen {
			newest = h
		}
	}
	return newest
}

func appendHeld(dst []byte, h *held) []byte {
	be := binary.BigEndian
	dst = append(dst, heldMagic...)
	dst = be.AppendUint64(dst, h.gen)
	dst = append(dst, h.block[:]...)
	dst = be.AppendUint32(dst, uint32(len(h.state)))
	dst = be.AppendUint32(dst, uint32(len(h.pending)))
	dst = append(dst, h.state...)
	for i := range h.pending {
		b := &h.pending[i]
		dst = be.AppendUint16(dst, uint16(len(b.Tag)))
		dst = be.AppendUint32(dst, uint32(b.Count))
		dst = be.AppendUint64(dst, uint64(b.First))
		dst = be.AppendUint64(dst, uint64(b.Last))
		dst = append(dst, b.Chunk[:]...)
		dst = be.AppendUint32(dst, uint32(len(b.Entries)))
		dst = append(dst, b.Tag...)
		dst = append(dst, b.Entries...)
	}
	return be.AppendUint32(dst, crc32.Checksum(dst, castagnoli))
}

// decodeHeld reads what appendHeld wrote; the file may be longer.
func decodeHeld(b []byte) (h held, ok bool) {
	be := binary.BigEndian
	if len(b) < heldHeader || string(b[:4]) != heldMagic {
		return h, false
	}
	h.gen = be.Uint64(b[4:])
	copy(h.block[:], b[12:])
	size, count := int64(be.Uint32(b[28:])), be.Uint32(b[32:])
	at := heldHeader + size
	if at > int64(len(b)) {
		return held{}, false
	}
	h.state = b[heldHeader:at]
	for range count {
		if int64(len(b))-at < batchSize {
			return held{}, false
		}
		p := b[at:]
		var batch event.Batch
		batch.Count = int(be.Uint32(p[2:]))
		batch.First, batch.Last = event.Time(be.Uint64(p[6:])), event.Time(be.Uint64(p[14:]))
		copy(batch.Chunk[:], p[22:])
		tag, entries := int64(be.Uint16(p)), int64(be.Uint32(p[38:]))
		if int64(len(p)) < batchSize+tag+entries {
			return held{}, false
		}
		batch.Tag = string(p[batchSize : batchSize+tag])
		batch.Entries = p[batchSize+tag : batchSize+tag+entries]
		h.pending = append(h.pending, batch)
		at += batchSize + tag + entries
	}
	if int64(len(b))-at < 4 || crc32.Checksum(b[:at], castagnoli) != be.Uint32(b[at:]) {
		return held{}, false
	}
	return h, true
}
