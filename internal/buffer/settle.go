package buffer

import (
	"fmt"
	"slices"

	"weir/internal/buffer/segment"
)

// Settle books what became of entries that Next has handed out. Each entry ends once:
// a part of which anything has ended before, or which is not in the buffer, is left out
// and reported in the error (ErrGone); the other parts are booked. When Settle returns, a
// killed process does not hand these parts out again. The parts are only read.
//
// With Options.Tell, told names the gaps (Gap.First) of which the destination has been told:
// they end in the same record as the parts.
func (b *Buffer) Settle(parts []Part, told ...Seq) error {
	b.journalMu.Lock()
	defer b.journalMu.Unlock()
	rec := &b.journal.rec
	rec.BeginSettle()
	b.mu.Lock()
	if b.finished {
		b.mu.Unlock()
		return fmt.Errorf("settle in buffer %s: %w", b.o.Dir, ErrClosed)
	}
	var wrong *Part
	var h *held
	for i := range parts {
		p := &parts[i]
		if p.Count == 0 {
			continue
		}
		seq := uint64(p.Seq)
		if h == nil || seq < h.start.Seq || seq >= h.end.Seq {
			h = b.window.find(seq)
		}
		if h == nil || !h.settle(seq, p.Span) {
			wrong = p
			continue
		}
		b.own.Add(p.Fate, uint64(p.Count))
		b.o.Book.End(p.Fate, int(p.Count))
		rec.Part(segment.Part{Seq: seq, First: p.First, Count: p.Count, Fate: p.Fate})
	}
	var stranger Seq
	owed := false
	for _, first := range told {
		h := b.tell(first, rec)
		if h == nil {
			stranger = first
		} else if len(b.journal.owed) > 0 {
			owed = b.toldOwed(h.drop.Start.Seq) || owed
		}
	}
	moved := b.advance()
	rec.Mark(b.mark)
	b.dirty = true
	clean := moved && b.cleanable()
	b.mu.Unlock()
	b.record(rec.Bytes())
	if owed {
		b.writeDoor()
	}
	if moved {
		b.mu.Lock()
		b.markSeq.Store(b.mark.Seq - 1)
		b.markWait.wake(b.mark.Seq)
		b.wantClean = b.wantClean || clean
		b.mu.Unlock()
	}
	b.kickCommitter()
	if stranger != 0 {
		return fmt.Errorf("note in buffer %s that the gap at %d was told: %w", b.o.Dir, stranger, ErrGone)
	}
	if wrong != nil {
		return fmt.Errorf("settle entries %d+%d of batch %d in buffer %s: %w", wrong.First, wrong.Count, wrong.Seq, b.o.Dir, ErrGone)
	}
	return nil
}

// tell ends the gap that begins at first; nil if it is not there or was told before. mu is
// held.
func (b *Buffer) tell(first Seq, rec *segment.Builder) *held {
	h := b.window.find(uint64(first))
	if h == nil || !h.untold || h.start.Seq != uint64(first) {
		return nil
	}
	h.untold, h.drop.Told = false, true
	b.untold--
	rec.Told(h.drop.Start.Seq)
	b.readWait.wakeAll() // a gap may have been held back
	return h
}

// settle marks a span of a batch as ended; false if it is not there or ended before.
func (h *held) settle(seq uint64, s Span) bool {
	from, to, ok := h.batch(seq)
	if !ok || uint64(s.First)+uint64(s.Count) > to-from {
		return false
	}
	i := from + uint64(s.First)
	return h.mark(i, i+uint64(s.Count))
}

// advance moves the mark past what has ended and tells whether it moved. The caller tells
// those who wait. mu is held.
func (b *Buffer) advance() bool {
	was := b.mark.Seq
	for {
		h := b.window.front()
		if h == nil {
			b.mark = b.reader.pos
			break
		}
		if h.left > 0 {
			if m := h.advance(); m.Seq > b.mark.Seq {
				b.mark = m
			}
			break
		}
		if h.untold {
			if h.start.Seq > b.mark.Seq {
				b.mark = h.start
			}
			break
		}
		b.mark = h.end
		if h.mem != nil {
			b.mem.remove(h.mem)
		}
		b.window.pop()
	}
	return b.mark.Seq > was
}

// passed moves the mark after the reader has passed something that had ended. mu is held.
func (b *Buffer) passed() {
	if b.advance() {
		b.markSeq.Store(b.mark.Seq - 1)
		b.markWait.wake(b.mark.Seq)
		b.dirty = true
		b.kickCommitter()
	}
}

// cleanable tells whether there is a segment to remove and a reason not to wait for the
// next tick.
func (b *Buffer) cleanable() bool {
	if len(b.segments) == 0 || b.segmentEnd(0) > b.mark.Seq {
		return false
	}
	return b.volatile || b.tight || b.noSpace != nil || b.used > b.limit/2
}

// segmentEnd is the Seq behind the last batch of segment i; the tail has none yet.
func (b *Buffer) segmentEnd(i int) uint64 {
	if b.segments[i] == b.tail {
		return 1<<64 - 1
	}
	return b.endOf(i).Seq
}

// endOf is the numbering behind segment i, as far as it is written.
func (b *Buffer) endOf(i int) segment.Pos {
	end := b.stored
	if i+1 < len(b.segments) {
		end = b.segments[i+1].start
	}
	if e := b.segments[i].end; e.Seq > 0 && e.Seq < end.Seq {
		end = e
	}
	for _, d := range slices.Backward(b.drops) {
		// What was given up behind the segment is none of it; a gap between its frames is.
		if d.End.Seq >= end.Seq && d.Start.Seq < end.Seq && d.Start.Seq > b.segments[i].first {
			end = d.Start
		}
	}
	return end
}

// condemnFinished lists the segments that lie before mark, which must be durable, for
// removal. Only the committer calls it.
func (b *Buffer) condemnFinished(mark uint64) {
	b.mu.Lock()
	// The tail is given up too when room is short and all of it has ended.
	if t := b.tail; t != nil && mark >= b.stored.Seq && t.size > 0 &&
		(b.roomFor(b.o.Segment) != 0 || (b.volatile || b.o.Lean) && t.size > b.o.Segment/4) {
		b.tail = nil
	}
	for len(b.segments) > 0 && b.segmentEnd(0) <= mark && b.segments[0].refs == 0 {
		s := b.segments[0]
		if b.reader.seg == s {
			b.reader.seg, b.reader.off = nil, 0
		}
		b.condemned = append(b.condemned, s) // its file is closed when its name is gone
		b.segments[0] = nil
		b.segments = b.segments[1:]
		b.cleaning = true
	}
	b.mu.Unlock()
}
