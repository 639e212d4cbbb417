package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/event"
)

// reader is where Next is. Only Next changes it, with mu held.
type reader struct {
	pos segment.Pos  // numbering of the next batch to hand out
	seg *segmentFile // being read; nil: look it up by pos
	off int64        // of the next frame in it

	refused int // times in a row that something could not be read for the moment
}

// openAgain is how long the reader waits when a segment cannot be read for the moment.
const openAgain = time.Second

// Run is one frame, read back: batches in order of acceptance. Its memory is shared and
// bounded: Release it soon, and use Refs and View for what has to wait.
type Run struct {
	// Gap tells of batches lost at this place, nil normally. A run that brings a Gap has no
	// items.
	Gap *Gap

	items []Item
	spans []Span // backing of the items' Ended
	f     *frame
	b     *Buffer
}

// Items lists the batches, except those that had ended as a whole before a
// restart. It is valid until Release.
func (k *Run) Items() []Item { return k.items }

// Release gives the memory back. The run and all that its items point to, except their
// tags, must not be used any more.
func (k *Run) Release() {
	b := k.b
	if k.f != nil {
		b.pool.release(k.f)
	}
	clear(k.items)
	k.items, k.spans, k.f, k.Gap = k.items[:0], k.spans[:0], nil, nil
	if cap(k.items) <= 1<<16 {
		b.blocks.Put(k)
	}
}

// Next returns the next stored frame, in order of acceptance. It blocks until there is one
// and fails with ctx's cause, or with io.EOF after Seal or Close once everything stored
// was read. Only one goroutine at a time may call it.
func (b *Buffer) Next(ctx context.Context) (*Run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, _ := b.blocks.Get().(*Run)
	if k == nil {
		k = &Run{}
	}
	k.b = b
	for {
		if b.finished {
			return nil, io.EOF
		}
		refused := b.reader.refused
		if b.again.from < b.again.to && b.nextAgain(k) {
			return k, nil
		}
		var wake *time.Timer // ends a wait that nobody else ends
		d := b.nextDrop()
		switch {
		case b.reader.refused > refused:
			wake = time.AfterFunc(openAgain, b.wakeReader)
		case d != nil && d.ready && !b.holdBack(d):
			if k.Gap = b.passDrop(d); k.Gap != nil {
				return k, nil
			}
			continue
		case d == nil && b.reader.pos.Seq < b.stored.Seq:
			gap, found := b.readNext(k)
			k.Gap = gap
			if found || gap != nil {
				return k, nil
			}
			if b.reader.refused <= refused {
				continue
			}
			wake = time.AfterFunc(openAgain, b.wakeReader)
		case d == nil && b.sealed && b.stored.Seq == b.next.Seq, b.ended && !b.dropping && (d == nil || !d.ready):
			return nil, io.EOF
		}
		err := b.sleep(ctx, &b.readWait, 0)
		if wake != nil {
			wake.Stop()
		}
		if err != nil {
			return nil, err
		}
	}
}

// readNext hands out the next frame, or passes damage. Neither means: look again. mu is
// held at entry and return.
func (b *Buffer) readNext(k *Run) (*Gap, bool) {
	f := b.mem.unread
	if f != nil && f.hdr.Start.Seq == b.reader.pos.Seq {
		b.mem.unread = f.next
		f.refs.Add(1)
	} else {
		var gap *Gap
		if f, gap = b.readCold(); f == nil {
			return gap, false
		}
	}
	was := b.reader.seg
	b.reader.seg, b.reader.off = f.seg, f.off+f.hdr.Size()
	if was != f.seg && was != nil {
		b.rest(was)
	}
	h := b.window.take()
	h.init(f)
	b.mu.Unlock()
	good := b.index(k, h, f)
	b.mu.Lock()
	if !good {
		b.mem.remove(f)
		b.pool.release(f)
		b.reader.off = f.off // it is passed as damage
		return b.passDamage(h.end, damagedBytes{f.seg, f.off, f.hdr.Size()}), false
	}
	b.handOut(k, h, f)
	if h.left == 0 {
		// All of it had ended before a restart.
		b.pool.release(f)
		k.items, k.spans, k.f = k.items[:0], k.spans[:0], nil
		return nil, false
	}
	return nil, true
}

// index lists the payload's batches in k and h. False: the payload is not what its header
// says.
func (b *Buffer) index(k *Run, h *held, f *frame) bool {
	payload := f.payload()
	k.f = f
	var n uint64
	seq := h.start.Seq
	for off := 0; off < len(payload); {
		t, next, err := segment.NextBatch(payload, off)
		if err != nil {
			return false
		}
		h.starts = append(h.starts, uint32(n))
		n += uint64(t.Count)
		k.items = append(k.items, Item{
			Seq: Seq(seq),
			Batch: event.Batch{
				Tag:     b.tags.get(t.Tag),
				Entries: payload[t.Off : t.Off+t.Len : t.Off+t.Len],
				Count:   t.Count,
				First:   t.First,
				Last:    t.Last,
			},
			frame: Seq(h.start.Seq),
			off:   uint32(t.Off),
		})
		seq++
		off = next
	}
	h.starts = append(h.starts, uint32(n))
	if seq != h.end.Seq || n != h.end.Events-h.start.Events {
		k.items, k.f = k.items[:0], nil
		return false
	}
	return true
}

// handOut puts h into the window with what had ended before a restart.
func (b *Buffer) handOut(k *Run, h *held, f *frame) {
	was := b.reader.pos
	b.reader.pos = h.end
	if was.Seq > h.start.Seq {
		h.mark(0, was.Events-h.start.Events)
	}
	if f.listed {
		f.held, h.mem = h, f
	} else {
		b.mem.read(f, h)
	}
	b.window.push(h)
	if was.Seq > h.start.Seq || len(b.restored) > 0 {
		b.recall(k, h)
	}
	if h.left == 0 {
		b.advance()
	}
}

// recall marks what had ended before the restart in h and in k's items.
func (b *Buffer) recall(k *Run, h *held) {
	keep := k.items[:0]
	for _, it := range k.items {
		seq := uint64(it.Seq)
		from, to, _ := h.batch(seq)
		for _, s := range b.restored[seq] {
			i, j := from+uint64(s.First), from+uint64(s.First)+uint64(s.Count)
			if j <= to && h.mark(i, j) {
				continue
			}
			// The journal passed its checksum, so this is a bug, and the balance will show it.
			b.o.Log.Error("BUG: buffer journal speaks of entries that a batch does not have", "dir", b.o.Dir, "seq", seq, "first", s.First, "count", s.Count)
		}
		for _, s := range b.restored[seq] {
			b.ahead -= uint64(s.Count)
		}
		delete(b.restored, seq)
		switch n := h.count(from, to); {
		case n == to-from:
			continue // nothing left of it
		case n > 0:
			at := len(k.spans)
			k.spans = h.spans(k.spans, from, to)
			it.Ended = k.spans[at:len(k.spans):len(k.spans)]
		}
		keep = append(keep, it)
	}
	clear(k.items[len(keep):])
	k.items = keep
}

// readCold reads the frame at the reader from its file. Without a frame it has either
// passed damage, which the gap tells, or moved on within the files, or been refused. mu is
// held at entry and return.
func (b *Buffer) readCold() (*frame, *Gap) {
	r := &b.reader
	s, limit := b.readerSegment()
	if s == nil {
		return nil, b.passDamage(b.stored, damagedBytes{})
	}
	if r.pos.Seq < s.start.Seq && r.off == 0 && !s.guess {
		return nil, b.passDamage(s.start, damagedBytes{})
	}
	off, size := r.off, s.size
	if err := b.openFile(s); err != nil {
		if !Lasting(err) {
			b.refuse(err)
			return nil, nil
		}
		b.o.Log.Error("buffer cannot read a segment", "segment", s.name, "error", err)
		r.off = size
		return nil, nil
	}
	s.refs++
	pos := r.pos
	b.mu.Unlock()
	res := b.readFrame(s, off, size, pos.Seq, limit)
	b.mu.Lock()
	b.unref(s)
	if res.err != nil {
		b.refuse(res.err)
		return nil, nil
	}
	b.agree()
	r.off = res.next
	switch {
	case res.f != nil && res.f.hdr.Start.Seq > pos.Seq:
		// What should come before it is not there: pass that first, then read it again.
		r.off = res.f.off
		start := res.f.hdr.Start
		b.pool.release(res.f)
		return nil, b.passDamage(start, damagedBytes{s, off, res.f.off - off})
	case res.f != nil:
		return res.f, nil
	case res.end.Seq > pos.Seq:
		return nil, b.passDamage(res.end, damagedBytes{s, off, res.next - off})
	}
	return nil, nil
}

// Lasting says whether what cannot be read, for an error of Next or View, is lost. Want of
// descriptors or memory, or of permission, passes.
func Lasting(err error) bool {
	for _, lost := range []error{
		ErrDamaged, ErrGone, segment.ErrHeader, segment.ErrVersion, segment.ErrShort, io.EOF, io.ErrUnexpectedEOF, fs.ErrNotExist, syscall.EIO,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// refuse notes that the reader has to wait, and agree that it need not any more. mu is held.
func (b *Buffer) refuse(err error) {
	if b.reader.refused++; b.reader.refused == 1 {
		b.o.Log.Error("buffer cannot read a segment just now; it is tried again", "dir", b.o.Dir, "error", err)
	}
}

func (b *Buffer) agree() {
	if b.reader.refused > 0 {
		b.o.Log.Info("buffer can read its segments again", "dir", b.o.Dir, "failures", b.reader.refused)
		b.reader.refused = 0
	}
}

func (b *Buffer) wakeReader() {
	b.mu.Lock()
	b.readWait.wakeAll()
	b.mu.Unlock()
}

// readerSegment returns the segment to read from and the Seq at which the next one takes
// over; nil if there is none left.
func (b *Buffer) readerSegment() (*segmentFile, uint64) {
	r := &b.reader
	for i, s := range b.segments {
		limit := b.stored.Seq
		if i+1 < len(b.segments) {
			limit = min(limit, b.segments[i+1].first)
		}
		if s == r.seg {
			if r.off < s.size && r.pos.Seq < limit {
				return s, limit
			}
			continue
		}
		if limit <= r.pos.Seq || s.size == 0 {
			continue
		}
		if r.seg != nil && s.first < r.seg.first {
			continue
		}
		was := r.seg
		r.seg, r.off = s, 0
		if was != nil {
			b.rest(was)
		}
		return s, limit
	}
	return nil, 0
}

type frameRead struct {
	f    *frame      // the frame
	next int64       // where to go on
	end  segment.Pos // without f: numbering behind a frame whose payload is damaged
	err  error       // it cannot be read for the moment
}

// readFrame reads the first frame at or behind off that ends behind seq and begins before
// limit. mu is not held.
func (b *Buffer) readFrame(s *segmentFile, off, size int64, seq, limit uint64) frameRead {
	for {
		h, err := segment.ReadHeader(s.file, off, size, b.id)
		if err != nil && !Lasting(err) {
			return frameRead{err: err}
		}
		if err != nil {
			at, found, ok, ferr := segment.FindHeader(s.file, off+1, size, b.id, seq)
			if ferr != nil && !Lasting(ferr) {
				return frameRead{err: ferr}
			}
			if ferr != nil || !ok || found.Start.Seq >= limit {
				return frameRead{next: size}
			}
			off, h = at, found
		}
		if h.End().Seq <= seq {
			off += h.Size()
			continue
		}
		if h.Start.Seq >= limit {
			return frameRead{next: size} // written again to the next segment
		}
		f := b.pool.get(segment.HeaderSize + int(h.Raw))
		f.hdr, f.seg, f.off = h, s, off
		if err := b.load(f, s, off, &h); err != nil {
			b.pool.release(f)
			if !Lasting(err) {
				return frameRead{err: err}
			}
			return frameRead{next: off + h.Size(), end: h.End()}
		}
		return frameRead{f: f, next: off + h.Size()}
	}
}

// load reads and checks the payload of the frame at off into f, whose buffer has room for
// it. What is read and is not what the header says is ErrDamaged.
func (b *Buffer) load(f *frame, s *segmentFile, off int64, h *segment.Header) error {
	if h.Codec == segment.Plain {
		buf := f.buf[:segment.HeaderSize+int(h.Stored)]
		if n, err := s.file.ReadAt(buf[segment.HeaderSize:], off+segment.HeaderSize); n < int(h.Stored) {
			return err
		}
		f.buf = buf
		return damagedIf(segment.CheckPayload(h, f.payload()))
	}
	packed := b.pool.get(segment.HeaderSize + int(h.Stored))
	defer b.pool.release(packed)
	stored := packed.buf[:h.Stored]
	if n, err := s.file.ReadAt(stored, off+segment.HeaderSize); n < int(h.Stored) {
		return err
	}
	if err := segment.CheckPayload(h, stored); err != nil {
		return damagedIf(err)
	}
	d, _ := b.decomp.Get().(*segment.Decompressor)
	if d == nil {
		d = &segment.Decompressor{}
	}
	defer b.decomp.Put(d)
	buf, err := d.Decompress(h, f.buf[:segment.HeaderSize], stored)
	if err == nil {
		f.buf = buf
	}
	return damagedIf(err)
}

func damagedIf(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// openFile opens s for reading if it is not open. mu is held.
func (b *Buffer) openFile(s *segmentFile) (err error) {
	if s.file == nil {
		s.file, err = b.o.FS.Open(s.name)
	}
	return err
}

// unref ends a read of s. mu is held.
func (b *Buffer) unref(s *segmentFile) {
	s.refs--
	if s.refs == 0 && s.gone {
		b.closeFile(s)
	}
	b.rest(s)
}

// closeFile closes s, now or with the last read. mu is held.
func (b *Buffer) closeFile(s *segmentFile) {
	s.gone = true
	if s.refs == 0 && s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// tagCache turns tag bytes into strings without allocating for a tag seen before. It is
// the reader's alone and is emptied when it grows beyond its bound.
type tagCache struct {
	last string
	all  map[string]string
}

const maxTags = 16384 // ten thousand streams that take turns find theirs

func (c *tagCache) get(tag []byte) string {
	if c.last == string(tag) {
		return c.last
	}
	s, ok := c.all[string(tag)]
	if !ok {
		if c.all == nil || len(c.all) >= maxTags {
			c.all = map[string]string{}
		}
		s = string(tag)
		c.all[s] = s
	}
	c.last = s
	return s
}
