package s3

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir/internal/event"
)

// underway keeps a note of each object that is about to be put, in a file of its own beside
// the buffer: a process that comes after a kill finds the same events in the buffer, and
// with the note it makes the same object of them, under the same key. Without it the object
// would be there twice. A note is gone when its events are settled.
type underway struct {
	dir string // "": there are no notes

	mu   sync.Mutex // guards left
	left map[string]*note
}

// note is what the key of an object was made of, and what tells whether it is the same.
type note struct {
	Lane   []byte     `json:"lane"`
	Events int        `json:"events"`
	First  event.Time `json:"first"`
	Sum    []byte     `json:"md5"`
	Chunk  []byte     `json:"chunk"`
	UUID   []byte     `json:"uuid"`
	Index  int        `json:"index"`
	At     time.Time  `json:"at"`

	file string
}

const noteBegin, noteEnd = "s3-put-", ".json" // of the names of notes

// IsNote tells names of notes beside a buffer.
func IsNote(name string) bool {
	return strings.HasPrefix(name, noteBegin) && strings.HasSuffix(name, noteEnd)
}

// load reads the notes that an earlier process has left in dir. Of two for one lane the
// newer one counts. What cannot be read is of an object that was not begun.
func (u *underway) load(dir string) {
	u.dir, u.left = dir, map[string]*note{}
	files, _ := filepath.Glob(filepath.Join(dir, noteBegin+"*"+noteEnd)) // the pattern is right
	for _, f := range files {
		n := &note{file: f}
		data, err := os.ReadFile(f)
		if err != nil || json.Unmarshal(data, n) != nil || n.Events < 1 || len(n.Chunk) != 16 || len(n.UUID) != 16 {
			_ = os.Remove(f) // it stands in nobody's way
			continue
		}
		old := u.left[string(n.Lane)]
		if old != nil && old.At.After(n.At) {
			old, n = n, old
		}
		if old != nil {
			_ = os.Remove(old.file)
		}
		u.left[string(n.Lane)] = n
	}
}

// of gives the note for the next object of a lane; nil for none.
func (u *underway) of(lane string) *note {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left[lane]
}

// resume gives the attempt that r's object was in, if it is the one of its lane's note. The
// note counts once.
func (u *underway) resume(r *request, f *keyFormat) *attempt {
	n := r.noted
	if n == nil {
		return nil
	}
	r.noted = nil
	u.mu.Lock()
	delete(u.left, r.lane)
	u.mu.Unlock()
	sum := r.spool.total()
	if _, err := os.Stat(n.file); err != nil || n.Events != r.count || n.First != r.first || !bytes.Equal(n.Sum, sum[:]) {
		_ = os.Remove(n.file)
		return nil
	}
	a := &attempt{fresh: fresh{chunk: [16]byte(n.Chunk), uuid: [16]byte(n.UUID), index: n.Index, at: n.At}, unsure: true, note: n.file}
	a.key = f.expand(r.key, &a.fresh)
	return a
}

// write notes the key that an attempt has now. Without the note a kill in the next moment
// makes a second object, no more: errors are not worth a line.
func (u *underway) write(r *request, a *attempt) {
	if u.dir == "" {
		return
	}
	if a.note == "" {
		a.note = filepath.Join(u.dir, noteBegin+hex.EncodeToString(a.chunk[:])+noteEnd)
	}
	sum := r.spool.total()
	data, err := json.Marshal(&note{[]byte(r.lane), r.count, r.first, sum[:], a.chunk[:], a.uuid[:], a.index, a.at, ""})
	if err == nil {
		_ = os.WriteFile(a.note, data, 0o600)
	}
}

// erase ends the note of an attempt.
func (a *attempt) erase() {
	if a.note != "" {
		_ = os.Remove(a.note) // one that stays is looked at once
		a.note = ""
	}
}
