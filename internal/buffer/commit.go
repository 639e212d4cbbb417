package buffer

import (
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/vfs"
)

// segmentFile is one file of the log. first, name and alloc never change; the rest is
// guarded by Buffer.mu.
type segmentFile struct {
	first    uint64 // from its name
	name     string
	alloc    int64       // bytes reserved on disk; 0 if unknown
	file     vfs.File    // nil while not open
	size     int64       // bytes of whole frames
	length   int64       // of the file, as counted in Buffer.used
	start    segment.Pos // numbering before it
	guess    bool        // its first frame is damaged, so start.Events is only a lower bound
	end      segment.Pos // numbering behind it, set when it was the last at Open; else it ends where the next begins
	accepted int64       // when its first frame was accepted
	refs     int         // reads under way
	gone     bool        // its file is to be closed with the last read
}

const (
	segmentExt = ".seg"
	spareName  = "spare"
)

func segmentName(first uint64) string { return fmt.Sprintf("%016x%s", first, segmentExt) }

// run is the committer: it stores open frames, keeps the checkpoint and removes segments
// that have ended.
func (b *Buffer) run() {
	defer close(b.done)
	tick := time.Second
	if b.o.Durability == Interval {
		tick = min(tick, b.o.SyncEvery)
	}
	timer := time.NewTimer(tick)
	timer.Stop()
	armed := false
	for {
		f, state := b.takeOpen()
		if state.gaps {
			b.recordMisses(state.before)
		}
		if f != nil {
			b.store(f)
		}
		if state.clean {
			b.persist()
		}
		if state.spare {
			b.prepareSpare()
		}
		b.report()
		if !armed && state.arm {
			timer.Reset(tick)
			armed = true
		}
		select {
		case <-timer.C:
			armed = false
			b.tick()
			continue
		default:
		}
		if f != nil {
			continue
		}
		if state.stop {
			timer.Stop()
			b.finish()
			return
		}
		select {
		case <-b.kick:
		case <-timer.C:
			armed = false
			b.tick()
		}
	}
}

type todo struct {
	clean, spare, arm, stop bool
	gaps                    bool   // gaps are to be written down:
	before                  uint64 // those before this Seq
}

// takeOpen takes the open frame if it holds anything, and tells what else is to be done.
func (b *Buffer) takeOpen() (*frame, todo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do := todo{
		clean: b.wantClean || b.tight,
		spare: b.wantSpare,
		arm:   b.dirty || b.unsynced || b.noSpace != nil || b.fault != nil || !b.full.since.IsZero(),
	}
	b.wantClean, b.tight = false, false
	do.arm = do.arm || len(b.misses) > 0 || b.idleTail()
	if b.roomElsewhere.Swap(false) {
		b.roomWait.wakeAll()
	}
	f := b.takeFrame()
	if f == nil {
		do.gaps, do.before = b.gapsDue && len(b.misses) > 0, math.MaxUint64
		b.gapsDue = false
		do.stop = b.stopping && !do.gaps
		return nil, do
	}
	do.gaps, do.before = len(b.misses) > 0, f.hdr.Start.Seq
	b.flying = int64(len(f.buf))
	b.waitingBytes -= int64(len(f.buf) - segment.HeaderSize)
	b.storing = true
	do.arm = true
	b.roomWait.wakeAll()
	return f, do
}

// takeFrame takes the oldest frame that waits, nil if there is none. mu is held.
func (b *Buffer) takeFrame() *frame {
	if len(b.line) > 0 {
		f := b.line[0]
		b.line = slices.Delete(b.line, 0, 1)
		b.lineBytes -= int64(len(f.buf))
		return f
	}
	if b.open.empty() {
		return nil
	}
	f := b.open
	b.open = b.newFrame(len(f.buf))
	return f
}

// newFrame returns the next open frame. A lean buffer gives it memory with the first batch.
func (b *Buffer) newFrame(size int) *frame {
	if b.o.Lean {
		f := &frame{buf: make([]byte, segment.HeaderSize)}
		f.refs.Store(1)
		return f
	}
	return b.pool.get(size)
}

// tick does what is done about every second.
func (b *Buffer) tick() {
	b.ticks++
	b.recordMisses(math.MaxUint64)
	b.restDoor()
	b.syncInterval()
	b.leaveTail()
	b.persist()
	b.prepareSpare()
	b.report()
}

// store writes f until that succeeds, and publishes it.
func (b *Buffer) store(f *frame) {
	bytes := b.encode(f)
	pause := 10 * time.Millisecond
	for attempt := 0; ; attempt++ {
		b.mu.Lock()
		b.askedAt = b.freedAt
		b.mu.Unlock()
		err := b.write(f, bytes)
		if err == nil {
			break
		}
		again := attempt == 0 && !vfs.IsFull(err)
		if !again && !b.failing(err, pause) {
			b.pool.release(f)
			return
		}
		if !again {
			pause = min(2*pause, time.Second)
		}
	}
	b.chunks = appendChunks(b.chunks, segment.MaxChunks, f.ids...)
	f = b.fit(f)
	b.mu.Lock()
	b.storing, b.flying, b.fault = false, 0, nil
	b.account()
	b.stored = f.hdr.End()
	b.storedSeq.Store(b.stored.Seq - 1)
	b.mem.stored(f, b.reader.pos.Seq)
	b.storedWait.wake(b.stored.Seq)
	b.readWait.wakeAll()
	b.roomWait.wakeAll()
	b.mu.Unlock()
	b.pool.release(f)
	b.prepareSpare()
}

// failing notes a failed write and waits before the next attempt. False: give up.
func (b *Buffer) failing(err error, pause time.Duration) bool {
	b.mu.Lock()
	if b.fault == nil {
		b.fault, b.faultSince = err, time.Now()
		b.o.Log.Error("buffer cannot write; it will keep trying", "dir", b.o.Dir, "error", err)
	}
	b.fault = err
	giveUp := b.giveUp
	b.roomWait.wakeAll()
	b.mu.Unlock()
	if giveUp {
		return false
	}
	b.persist() // may free room
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-b.kick:
		}
		b.mu.Lock()
		giveUp, room := b.giveUp, b.freedAt != b.askedAt && vfs.IsFull(err)
		b.mu.Unlock()
		if giveUp || room {
			return !giveUp
		}
	}
}

// encode completes the header and returns the frame's bytes as stored.
func (b *Buffer) encode(f *frame) []byte {
	h := &f.hdr
	h.Log = b.id
	h.Raw = uint32(len(f.payload()))
	h.Stored, h.Codec = h.Raw, segment.Plain
	out := f.buf
	if b.comp.Codec() != segment.Plain {
		if cap(b.scratch) < segment.HeaderSize || cap(b.scratch) > 2*maxOpen {
			b.scratch = make([]byte, segment.HeaderSize, 64<<10)
		}
		packed, ok := b.comp.Compress(b.scratch[:segment.HeaderSize], f.payload())
		b.scratch = packed
		if ok {
			out = packed
			h.Codec, h.Stored = b.comp.Codec(), uint32(len(packed)-segment.HeaderSize)
		}
	}
	h.Sum = segment.Sum(out[segment.HeaderSize:])
	segment.PutHeader(out, h)
	return out
}

// fit moves a small frame out of a large buffer before it is kept in memory.
func (b *Buffer) fit(f *frame) *frame {
	if cap(f.buf) <= smallest || len(f.buf) > cap(f.buf)/4 {
		return f
	}
	g := b.pool.get(len(f.buf))
	g.buf = append(g.buf[:0], f.buf...)
	g.hdr, g.seg, g.off = f.hdr, f.seg, f.off
	b.pool.release(f)
	return g
}

// write appends one frame to the tail: one write, one fdatasync. After an error other than
// a full disk the tail is abandoned: what the kernel did with its pages is unknown, and a
// second fdatasync that succeeds would prove nothing.
func (b *Buffer) write(f *frame, bytes []byte) error {
	s, err := b.tailFor(f, int64(len(bytes)))
	if err != nil {
		return err
	}
	b.mu.Lock()
	over := b.used + int64(len(bytes)) - b.ceiling
	b.mu.Unlock()
	if over > 0 {
		// Room was reserved for it, but an attempt that failed has left bytes behind.
		return fmt.Errorf("write to buffer segment %s: total_limit_size: %w", s.name, errNoSpace)
	}
	off := s.size // only the committer changes it
	if _, err := s.file.WriteAt(bytes, off); err != nil {
		err = fmt.Errorf("write to buffer segment %s: %w", s.name, err)
		if cut := s.file.Truncate(off); cut != nil || !vfs.IsFull(err) {
			b.abandon(s)
		} else {
			b.mu.Lock()
			s.alloc = min(s.alloc, off) // what was reserved behind it is gone
			b.mu.Unlock()
		}
		return err
	}
	if b.o.Durability == Sync {
		if err := s.file.Datasync(); err != nil {
			// The frame may or may not survive. It is written again to the next segment, under
			// whose name its numbers are then found; the copy here is no longer counted.
			_ = s.file.Truncate(off)
			b.abandon(s)
			return fmt.Errorf("sync buffer segment %s: %w", s.name, err)
		}
	}
	b.mu.Lock()
	f.seg, f.off = s, off
	if off == 0 {
		s.start, s.accepted = f.hdr.Start, f.hdr.Accepted
	}
	s.size += int64(len(bytes))
	b.used += s.size - s.length
	s.length = s.size
	b.unsynced = b.o.Durability == Interval
	b.mu.Unlock()
	return nil
}

// tailFor returns the segment that takes the next n bytes, beginning a new one if the
// tail is full.
func (b *Buffer) tailFor(f *frame, n int64) (*segmentFile, error) {
	if s := b.tail; s != nil {
		if s.size == 0 || s.size+n <= b.o.Segment {
			return s, nil
		}
		if b.o.Durability == Interval {
			b.syncInterval()
		}
		b.mu.Lock()
		b.tail = nil
		b.rest(s)
		b.mu.Unlock()
	}
	if b.spare == nil {
		if b.o.Lean {
			b.prepareLean(n)
		} else {
			b.prepareSpare()
		}
	}
	s := b.spare
	if s == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return nil, b.noSpace
	}
	first := f.hdr.Start.Seq
	name := path.Join(b.o.Dir, segmentName(first))
	if err := b.o.FS.Rename(s.name, name); err != nil {
		return nil, fmt.Errorf("begin buffer segment: %w", err)
	}
	if !b.volatile && b.o.Durability != OS {
		if err := b.o.FS.SyncDir(b.o.Dir); err != nil {
			// The name may not be durable: the file is not used. Take the name back so that
			// the next attempt finds it free.
			s.name = name
			b.discardSpare()
			return nil, fmt.Errorf("begin buffer segment %s: %w", name, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.first, s.name, s.start, s.accepted = first, name, f.hdr.Start, f.hdr.Accepted
	// A segment of the same name is one that was abandoned before it held a whole frame; the
	// rename has replaced it.
	if k := len(b.segments); k > 0 && b.segments[k-1].first == first {
		b.used -= b.segments[k-1].length
		b.account()
		b.closeFile(b.segments[k-1])
		b.segments = b.segments[:k-1]
	}
	b.spare, b.tail = nil, s
	b.segments = append(b.segments, s)
	return s, nil
}

// abandon stops writing to s.
func (b *Buffer) abandon(s *segmentFile) {
	size, err := s.file.Size()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.used += size - s.length
		s.length = size
		b.account()
	}
	b.tail = nil
}

// syncInterval makes what was written since the last call durable, for Interval.
func (b *Buffer) syncInterval() {
	b.mu.Lock()
	s, todo := b.tail, b.unsynced
	b.unsynced = false
	b.mu.Unlock()
	if !todo || s == nil {
		return
	}
	if err := s.file.Datasync(); err != nil {
		b.o.Log.Error("buffer cannot sync a segment; it begins another one", "segment", s.name, "error", err)
		b.abandon(s)
	}
}
