package buffer

import (
	"weir/internal/buffer/segment"
	"weir/internal/event"
)

// maxRepeats is how many messages are remembered from before a restart, at least; twice as
// many at most. It costs 2 MB when full.
const maxRepeats = 32 << 10

// repeats knows the messages that were stored last before a restart. A killed process may
// have stored a message without its sender having seen the acknowledgement: the sender
// repeats it then, and a second copy can be avoided.
type repeats struct{ cur, old map[event.Chunk]struct{} }

// note remembers the messages of a payload. Whoever is called later is remembered longer.
func (r *repeats) note(payload []byte) {
	for off := 0; off < len(payload); {
		t, next, err := segment.NextBatch(payload, off)
		if err != nil {
			return
		}
		off = next
		if t.Chunk.IsZero() {
			continue
		}
		if r.cur == nil || len(r.cur) >= maxRepeats {
			r.cur, r.old = map[event.Chunk]struct{}{}, r.cur
		}
		r.cur[t.Chunk] = struct{}{}
	}
}

// Known says whether a message was stored here shortly before the restart, whatever has
// become of it since. It may be called from any goroutine and takes no lock.
func (b *Buffer) Known(c event.Chunk) bool {
	if c.IsZero() {
		return false
	}
	if _, ok := b.repeats.cur[c]; ok {
		return true
	}
	_, ok := b.repeats.old[c]
	return ok
}

// Chunks lists the ids of the messages that were stored last before this start, oldest
// first: at least the last 64, if there were so many and Options.Repeats does not say less.
func (b *Buffer) Chunks() []event.Chunk {
	var list []event.Chunk
	for _, m := range []map[event.Chunk]struct{}{b.repeats.old, b.repeats.cur} {
		for c := range m {
			list = append(list, c)
		}
	}
	return list
}
