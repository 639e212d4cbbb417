package buffer

import (
	"weir/internal/buffer/segment"
	"weir/internal/event"
)

// again is the part of the window that Next hands out once more. Guarded by Buffer.mu.
type again struct{ from, to uint64 }

// Rewind makes Next begin again at the first event that has not ended, for a new reader in
// place of one that has given up its references. What has ended is left out, as after a
// restart. The old reader must have stopped, and nothing of it may be settled any more.
func (b *Buffer) Rewind() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again = again{from: b.mark.Seq, to: b.reader.pos.Seq}
	b.readWait.wakeAll()
}

// nextAgain puts the next frame of the rewound part into k; false when there is none left, or
// it cannot be read for the moment. mu is held at entry and return.
func (b *Buffer) nextAgain(k *Run) bool {
	for b.again.from < b.again.to {
		h := b.window.after(b.again.from)
		if h == nil || h.start.Seq >= b.again.to {
			break
		}
		if h.untold {
			b.again.from = h.end.Seq
			k.Gap = h.drop.gap(h.start.Seq)
			return true
		}
		if h.drop != nil || h.left == 0 {
			b.again.from = h.end.Seq
			continue
		}
		ref := Ref{Seq: Seq(h.start.Seq), Frame: Seq(h.start.Seq), Len: h.raw}
		b.mu.Unlock()
		v, err := b.View(ref)
		b.mu.Lock()
		if err != nil && !Lasting(err) {
			b.refuse(err)
			return false
		}
		b.again.from = h.end.Seq
		if err != nil {
			b.o.Log.Error("a part of the buffer cannot be read again; it waits for the next start", "dir", b.o.Dir, "error", err)
			continue
		}
		b.agree()
		k.f = v.f // the view's reference becomes the run's
		b.indexAgain(k, h)
		return true
	}
	b.again = again{}
	return false
}

// indexAgain lists what has not ended of h, which index has seen before. mu is held.
func (b *Buffer) indexAgain(k *Run, h *held) {
	payload := k.f.payload()
	seq := h.start.Seq
	for off := 0; off < len(payload); seq++ {
		t, next, err := segment.NextBatch(payload, off)
		if err != nil {
			return // cannot be: the frame's checksum was right
		}
		off = next
		from, to, _ := h.batch(seq)
		n := h.count(from, to)
		if n == to-from {
			continue
		}
		it := Item{
			Seq: Seq(seq),
			Batch: event.Batch{
				Tag: b.tags.get(t.Tag), Entries: payload[t.Off : t.Off+t.Len : t.Off+t.Len],
				Count: t.Count, First: t.First, Last: t.Last,
			},
			frame: Seq(h.start.Seq), off: uint32(t.Off),
		}
		if n > 0 {
			at := len(k.spans)
			k.spans = h.spans(k.spans, from, to)
			it.Ended = k.spans[at:len(k.spans):len(k.spans)]
		}
		k.items = append(k.items, it)
	}
}

// after returns the first record that ends behind seq, or nil.
func (w *window) after(seq uint64) *held {
	for _, h := range w.list[w.head:] {
		if h.end.Seq > seq {
			return h
		}
	}
	return nil
}
