package buffer

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"sync/atomic"

	"weir/internal/vfs"
)

// tailRoom is what the tail can take for sure when the disk is full. mu is held.
func (b *Buffer) tailRoom() int64 {
	if b.tail == nil {
		return 0
	}
	return min(b.tail.alloc, b.o.Segment) - b.tail.size
}

// diskRoom is what the tail or the next segment can take for sure when the disk is full. mu is held.
func (b *Buffer) diskRoom() int64 {
	room := b.tailRoom()
	if s := b.spare; s != nil && s.alloc > 0 {
		room = max(room, s.alloc)
	} else if s != nil {
		room = math.MaxInt64 // not known: it will be seen
	}
	return room
}

// prepareSpare makes the next segment ready before it is needed, so that a full disk is
// known while a batch can still be refused. A failure is kept in noSpace.
func (b *Buffer) prepareSpare() {
	b.makeDoor() // before anything else takes the room
	if b.o.Lean {
		b.prepareLean(0)
		return
	}
	if b.spare != nil {
		return // only the committer changes it
	}
	b.mu.Lock()
	b.askedAt = b.freedAt
	early := b.tail != nil && b.tail.size < b.o.Segment/2 && !b.wantSpare
	b.wantSpare = false
	b.mu.Unlock()
	if early {
		return
	}
	s, err := b.makeSpare(b.o.Segment)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prepared(err)
	if err == nil {
		b.spare = s
	}
}

// prepared notes whether there is space. mu is held.
func (b *Buffer) prepared(err error) {
	was := b.noSpace
	b.noSpace = err
	b.roomWait.wakeAll()
	if err != nil && was == nil && !vfs.IsFull(err) {
		b.o.Log.Error("buffer cannot make a segment; it will keep trying", "dir", b.o.Dir, "error", err)
	}
}

// leanStep is what a lean buffer reserves on disk at first; then twice as much each time.
const leanStep = 64 << 10

// prepareLean reserves space when somebody asks for it, or for a frame of least bytes: more for
// the tail if it may still grow, or else for the next segment. Only the committer calls it.
func (b *Buffer) prepareLean(least int64) {
	b.mu.Lock()
	b.askedAt = b.freedAt
	want := max(b.wantBytes, least)
	if want == 0 && b.noSpace == nil {
		b.wantSpare = false
		b.mu.Unlock()
		return
	}
	b.wantSpare = false
	s := b.spare
	if t := b.tail; s == nil && t != nil && t.alloc > 0 && t.size+want <= b.o.Segment {
		s = t
	}
	b.mu.Unlock()
	var err error
	var made *segmentFile
	to := int64(0)
	if s == nil {
		made, err = b.makeSpare(max(min(stepUp(want), b.o.Segment), least))
	} else if to = min(max(2*s.alloc, stepUp(s.size+want)), b.o.Segment); s.alloc > 0 && to > s.alloc {
		err = b.extend(s, to)
	} else {
		to = s.alloc
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prepared(err)
	if err != nil {
		return // wantBytes stays for the next attempt
	}
	b.wantBytes = 0
	if made != nil {
		b.spare = made
	} else {
		s.alloc = to
	}
}

func stepUp(n int64) int64 { return max((n+leanStep-1)/leanStep, 1) * leanStep }

// extend reserves space for s up to a size.
func (b *Buffer) extend(s *segmentFile, size int64) error {
	if err := b.aboveFloor(size - s.alloc); err != nil {
		return err
	}
	if err := s.file.Allocate(size); err != nil {
		b.floor.add(size - s.alloc)
		return fmt.Errorf("extend buffer segment %s: %w", s.name, err)
	}
	return nil
}

// idleTail tells whether a lean buffer could give up a tail of which all has ended. mu is held.
func (b *Buffer) idleTail() bool {
	return b.o.Lean && b.tail != nil && b.mark.Seq >= b.stored.Seq && b.tail.size >= min(leanStep, b.o.Segment/2)
}

// leaveTail gives up the tail of a lean buffer that has delivered all and took nothing since
// the last time.
func (b *Buffer) leaveTail() {
	b.mu.Lock()
	if b.idleTail() && b.stored.Seq == b.restedAt && !b.unstored() {
		b.tail = nil
		b.dirty = true
	}
	b.restedAt = b.stored.Seq
	b.mu.Unlock()
}

// rest closes the file of a segment that a lean buffer does not use for a while. mu is held.
func (b *Buffer) rest(s *segmentFile) {
	if b.o.Lean && s.refs == 0 && s.file != nil && s != b.tail && s != b.reader.seg {
		_ = s.file.Close()
		s.file = nil
	}
}

// aboveFloor fails if the file system has no n bytes above its free-space floor, and no as many
// were given back below it.
func (b *Buffer) aboveFloor(n int64) error {
	if b.o.MinFree <= 0 {
		return nil
	}
	free, err := b.o.FS.Free(b.o.Dir)
	if err != nil {
		return fmt.Errorf("make a buffer segment: %w", err)
	}
	if !b.floor.allows(n, free-n < b.o.MinFree) {
		return fmt.Errorf("make a buffer segment in %s: %d bytes are free, the floor is %d: %w", b.o.Dir, free, b.o.MinFree, errFloor)
	}
	return nil
}

// floor lets a buffer below the free-space floor take again what it gave back there: the
// newest events replace the oldest, as at the limit.
type floor struct {
	below  atomic.Bool
	credit atomic.Int64
}

// add notes that n bytes were given back.
func (f *floor) add(n int64) {
	if f.below.Load() {
		f.credit.Add(n)
	}
}

// allows tells whether n bytes may be taken, which would lie below the floor or not.
func (f *floor) allows(n int64, below bool) bool {
	f.below.Store(below)
	if !below {
		f.credit.Store(0)
		return true
	}
	for {
		have := f.credit.Load()
		if have < n {
			return false
		}
		if f.credit.CompareAndSwap(have, have-n) {
			return true
		}
	}
}

func (b *Buffer) makeSpare(size int64) (*segmentFile, error) {
	if err := b.aboveFloor(size); err != nil {
		return nil, err
	}
	name := path.Join(b.o.Dir, spareName)
	f, err := b.create(name)
	if err != nil {
		b.floor.add(size)
		return nil, fmt.Errorf("make a buffer segment: %w", err)
	}
	s := &segmentFile{name: name, file: f, alloc: size}
	switch err := f.Allocate(size); {
	case errors.Is(err, errors.ErrUnsupported):
		s.alloc = 0
	case err != nil:
		b.floor.add(size)
		return nil, errors.Join(fmt.Errorf("make a buffer segment: %w", err), f.Close(), b.o.FS.Remove(name))
	}
	return s, nil
}

// create makes a file that holds nothing worth keeping if it exists: it is left over from
// an attempt that failed.
func (b *Buffer) create(name string) (vfs.File, error) {
	f, err := b.o.FS.Create(name)
	if errors.Is(err, os.ErrExist) {
		if err = b.o.FS.Remove(name); err == nil {
			f, err = b.o.FS.Create(name)
		}
	}
	return f, err
}

func (b *Buffer) discardSpare() {
	b.mu.Lock()
	s := b.spare
	b.spare = nil
	b.mu.Unlock()
	if s != nil {
		_ = s.file.Close()
		_ = b.o.FS.Remove(s.name)
	}
}
