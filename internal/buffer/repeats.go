package buffer

import (
	"slices"
	"sync"

	"weir/internal/buffer/segment"
	"weir/internal/event"
)

// maxRepeats is how many messages are remembered from before a restart, if Options.Repeats does not
// say it; twice as many at most. Known costs 2 MB when that is full.
const maxRepeats = 32 << 10

// leastChunks is how many messages are looked for at a start, even if that takes a look
// into more segments than the last one.
const leastChunks = 64

// repeats knows the messages that were stored last before a restart. A killed process may
// have stored a message without its sender having seen the acknowledgement: the sender
// repeats it then, and a second copy can be avoided.
type repeats struct {
	list  []event.Chunk // found in the segments, oldest first
	older []event.Chunk // before them: their segments are gone
	newer []event.Chunk // behind them: likewise
	once  sync.Once
	known map[event.Chunk]struct{} // list, for the first who asks
}

// note remembers the messages of a payload. Whoever is called later is remembered longer.
func (r *repeats) note(payload []byte, limit int) {
	for off := 0; off < len(payload); {
		t, next, err := segment.NextBatch(payload, off)
		if err != nil {
			return
		}
		off = next
		if !t.Chunk.IsZero() {
			r.list = appendChunks(r.list, limit, t.Chunk)
		}
	}
}

// noteEarlier looks into some segments before the last one, if that holds few messages, and as far as none between was given up: ids of those are remembered
// elsewhere, and the order is kept.
func (b *Buffer) noteEarlier(drops []segment.Drop) error {
	r := &b.repeats
	budget := int64(4 << 20)
	for i := len(b.segments) - 2; i >= 0 && budget > 0 && len(r.list) < min(leastChunks, b.o.Repeats); i-- {
		budget -= b.segments[i].size
		from, to := b.segments[i].first, b.segments[i+1].first
		given := slices.ContainsFunc(drops, func(d segment.Drop) bool { return !d.Miss && from < d.End.Seq && d.Start.Seq < to })
		if given && len(r.list) > 0 {
			break
		}
		later := r.list
		r.list = nil
		if _, _, err := b.scan(b.segments[i], b.segments[i].size, true); err != nil {
			return err
		}
		r.list = appendChunks(r.list, b.o.Repeats, later...)
		if given {
			break
		}
	}
	return nil
}

// rememberChunks takes what the checkpoint and the journal know, which outlives the segments.
func (b *Buffer) rememberChunks(k *kept) {
	r := &b.repeats
	r.list = slices.Clip(r.list[max(0, len(r.list)-2*b.o.Repeats):])
	found := make(map[event.Chunk]struct{}, len(r.list))
	for _, c := range r.list {
		found[c] = struct{}{}
	}
	older, newer := k.chunks, k.given
	if n := len(b.segments); n == 0 || !b.droppedBehind(b.segments[n-1].first) {
		older, newer = append(slices.Clone(older), newer...), nil
	} else {
		for i, c := range slices.Backward(k.chunks) {
			if _, ok := found[c]; ok {
				older, newer = k.chunks[:i], append(slices.Clone(k.chunks[i+1:]), newer...)
				break
			}
		}
	}
	add := func(dst []event.Chunk, list []event.Chunk) []event.Chunk {
		for _, c := range list {
			if _, ok := found[c]; !ok {
				found[c] = struct{}{}
				dst = append(dst, c)
			}
		}
		return dst
	}
	r.older = add(nil, older)
	r.newer = add(nil, newer)
	all := b.Chunks()
	b.chunks = slices.Clone(all[max(0, len(all)-segment.MaxChunks):])
}

// droppedBehind tells whether a segment behind the one that begins at first was given up.
func (b *Buffer) droppedBehind(first uint64) bool {
	return slices.ContainsFunc(b.drops, func(d *drop) bool { return !d.Miss && d.Start.Seq > first })
}

// Known says whether a message was stored here shortly before the restart, whatever has
// become of it since. It may be called from any goroutine and takes no lock, except
// the first time.
func (b *Buffer) Known(c event.Chunk) bool {
	r := &b.repeats
	if c.IsZero() || len(r.list) == 0 {
		return false
	}
	r.once.Do(func() {
		r.known = make(map[event.Chunk]struct{}, len(r.list))
		for _, c := range r.list {
			r.known[c] = struct{}{}
		}
	})
	_, ok := r.known[c]
	return ok
}

// Chunks lists the ids of the batches that were stored last before this start, oldest first: all
// that the last segment holds, within Options.Repeats, and at least the last 64 even if
// they were delivered long ago. (Fewer only if segments were given up within the last second
// before a kill; the last ones are always there.)
func (b *Buffer) Chunks() []event.Chunk {
	return slices.Concat(b.repeats.older, b.repeats.list, b.repeats.newer)
}
