package buffer

import (
	"sync"
	"sync/atomic"
)

// Share is a limit that several buffers of a process have together, beside the Limit of
// each: a buffer that finds no room in it acts as if it were at its own. They also share the memory
// of frames that are not in use. It may be used from any goroutine.
type Share struct {
	limit int64
	used  atomic.Int64
	floor floor
	pool  pool

	waits   atomic.Bool // somebody is in waiting
	mu      sync.Mutex  // guards waiting
	waiting map[*Buffer]struct{}
}

// NewShare makes a share of limit bytes for Options.Share.
func NewShare(limit int64) *Share {
	return &Share{limit: limit, waiting: map[*Buffer]struct{}{}}
}

// Used is how many bytes the segment files of all its open buffers take, with what is on
// its way to them. Only what was there at Open can make it exceed the limit.
func (s *Share) Used() int64 { return s.used.Load() }

// Hold books n bytes that a buffer has left on disk that is not open now, even beyond the
// limit; n < 0 takes them out again.
func (s *Share) Hold(n int64) {
	if n > 0 {
		s.used.Add(n)
	} else {
		s.give(-n)
	}
}

// fits tells whether n more bytes fit.
func (s *Share) fits(n int64) bool { return n <= 0 || s.used.Load()+n <= s.limit }

// take books n more bytes, if they fit.
func (s *Share) take(n int64) bool {
	for {
		used := s.used.Load()
		if n > 0 && used+n > s.limit {
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// give takes n bytes out, and wakes the buffers that wait for room.
func (s *Share) give(n int64) {
	s.used.Add(-n)
	if n <= 0 || !s.waits.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.waiting {
		b.roomElsewhere.Store(true)
		b.kickCommitter()
	}
	clear(s.waiting)
	s.waits.Store(false)
}

// wait notes that b waits for room. The caller looks once more before it sleeps.
func (s *Share) wait(b *Buffer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[b] = struct{}{}
	s.waits.Store(true)
	return true
}

// occupied is what the buffer takes, or may take with what was reserved. mu is held.
func (b *Buffer) occupied() int64 { return b.used + b.flying + b.openSize() + b.reserved }

// claim reserves need bytes; false if the Share has no room for them. mu is held.
func (b *Buffer) claim(need int64) bool {
	if s := b.o.Share; s != nil {
		n := b.occupied() + need - b.shared
		if !s.take(n) {
			return false
		}
		b.shared += n
	}
	b.reserved += need
	return true
}

// account tells the Share what the buffer occupies now. mu is held.
func (b *Buffer) account() {
	s := b.o.Share
	if s == nil {
		return
	}
	if n := b.shared - b.occupied(); n != 0 {
		b.shared -= n
		s.give(n)
	}
}

// leaveShare is for a buffer that is closed. mu is held.
func (b *Buffer) leaveShare() {
	if s := b.o.Share; s != nil {
		s.give(b.shared)
		b.shared = 0
		s.mu.Lock()
		delete(s.waiting, b)
		s.mu.Unlock()
	}
}
