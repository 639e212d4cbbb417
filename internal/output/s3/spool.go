package s3

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strconv"
	"sync"
)

const (
	// inMemory is how much of an object under construction is kept in memory; what is
	// larger goes to a file.
	inMemory = 2 << 20
	// withoutDisk is where an object ends for which there is no file.
	withoutDisk = 8 << 20
	// partSize is the size of the parts of an upload, and the largest object that is sent
	// in one piece. S3 takes 10 000 parts of 5 MiB or more.
	partSize = 16 << 20
)

// spool holds the bytes of one object, in memory or in a file without a name, and their
// MD5 sums. The events in it are safe elsewhere: in the buffer.
type spool struct {
	dir  string
	mem  []byte
	file *os.File
	size int64
	none error // why there is no file; nil if there is one, or none was needed
	err  error // the file cannot be written

	part hash.Hash // MD5 of the part being written
	sums []byte    // MD5 of each part
}

func newSpool(dir string) *spool { return &spool{dir: dir, part: md5.New()} }

// reset empties the spool. Its file is gone with its last descriptor.
func (s *spool) reset() {
	s.release()
	s.mem, s.size, s.none, s.err, s.sums = s.mem[:0], 0, nil, nil, s.sums[:0]
	if cap(s.mem) > 2*inMemory {
		s.mem = nil
	}
	s.part.Reset()
}

// release gives the file back when the object has arrived.
func (s *spool) release() {
	if s.file != nil {
		_ = s.file.Close() // it has no name any more: nothing of it is kept
		s.file = nil
	}
}

// Write appends p. After an error the spool cannot be used until reset.
func (s *spool) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.sum(p)
	if s.file == nil && s.none == nil && len(s.mem)+len(p) > inMemory {
		f, err := openSpool(s.dir)
		if err == nil {
			if _, err = f.Write(s.mem); err != nil {
				_ = f.Close() // nothing of it is needed: what it should hold is in memory
			}
		}
		if s.none = err; err == nil {
			s.file, s.mem = f, s.mem[:0]
		}
	}
	if s.file == nil {
		s.mem = append(s.mem, p...)
	} else if _, err := s.file.Write(p); err != nil {
		return 0, s.fail(err)
	}
	s.size += int64(len(p))
	return len(p), nil
}

func (s *spool) fail(err error) error {
	s.err = fmt.Errorf("write an object under construction: %w", err)
	return s.err
}

// crowded says that the object has to end because there is no file for it.
func (s *spool) crowded() bool { return s.err != nil || s.file == nil && len(s.mem) >= withoutDisk }

func openSpool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "weir-s3-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sum adds p to the sums.
func (s *spool) sum(p []byte) {
	at := s.size
	for len(p) > 0 {
		room := partSize - at%partSize
		n := min(int64(len(p)), room)
		_, _ = s.part.Write(p[:n]) // a hash takes everything
		if n == room {
			s.sums = s.part.Sum(s.sums)
			s.part.Reset()
		}
		at, p = at+n, p[n:]
	}
}

// finish completes the sums.
func (s *spool) finish() {
	if s.size%partSize != 0 || s.size == 0 {
		s.sums = s.part.Sum(s.sums)
	}
}

// total tells objects apart: their MD5, or that of the sums of their parts.
func (s *spool) total() [md5.Size]byte {
	if s.parts() == 1 {
		return [md5.Size]byte(s.sums)
	}
	return md5.Sum(s.sums)
}

// parts is how many parts the object has when it is sent in parts.
func (s *spool) parts() int { return len(s.sums) / md5.Size }

// partSum is the MD5 of a part, from 0.
func (s *spool) partSum(i int) []byte { return s.sums[i*md5.Size : (i+1)*md5.Size] }

// etag is the entity tag that S3 gives the object, unless it is encrypted with KMS or with a
// customer's key.
func (s *spool) etag() string {
	sum := s.total()
	if s.parts() == 1 {
		return `"` + hex.EncodeToString(sum[:]) + `"`
	}
	return `"` + hex.EncodeToString(sum[:]) + "-" + strconv.Itoa(s.parts()) + `"`
}

// reader reads n bytes from off.
func (s *spool) reader(off, n int64) *payload {
	var at io.ReaderAt = bytes.NewReader(s.mem)
	if s.file != nil {
		at = s.file
	}
	return &payload{r: io.NewSectionReader(at, off, n)}
}

// payload is a part of a spool on its way. net/http may go on reading a body after it has
// given up on a request: end keeps it from reading what has become another object.
type payload struct {
	mu sync.Mutex // guards all
	r  *io.SectionReader
}

func (p *payload) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r == nil {
		return 0, os.ErrClosed
	}
	return p.r.Read(b)
}

// Seek lets the SDK find the size and compute sums.
func (p *payload) Seek(off int64, whence int) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r == nil {
		return 0, os.ErrClosed
	}
	return p.r.Seek(off, whence)
}

func (p *payload) end() {
	p.mu.Lock()
	p.r = nil
	p.mu.Unlock()
}
