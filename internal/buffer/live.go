package buffer

import "weir/internal/event"

// Live calls fn for each stretch of neighbouring entries that have not ended, in order: as
// a rule that is once, with the whole batch. off is where the stretch begins within the
// batch's entries in bytes, first in entries. The batch is borrowed until fn returns.
func (it *Item) Live(fn func(b event.Batch, off int, first uint32)) {
	if len(it.Ended) == 0 {
		fn(it.Batch, 0, 0)
		return
	}
	ended := it.Ended
	part := event.Batch{Tag: it.Batch.Tag}
	lo, i := 0, uint32(0)
	flush := func(hi int) {
		if part.Count > 0 {
			part.Entries = it.Batch.Entries[lo:hi]
			fn(part, lo, i-uint32(part.Count))
		}
		part.Count = 0
	}
	for at := 0; at < len(it.Batch.Entries); i++ {
		e, n, err := event.Next(it.Batch.Entries[at:])
		if err != nil {
			break // cannot be: the frame's checksum was right and the entries were checked
		}
		for len(ended) > 0 && ended[0].First+ended[0].Count <= i {
			ended = ended[1:]
		}
		if len(ended) > 0 && ended[0].First <= i {
			flush(at)
			at += n
			lo = at
			continue
		}
		if part.Count == 0 {
			lo, part.First, part.Last = at, e.Time, e.Time
		}
		part.First, part.Last = min(part.First, e.Time), max(part.Last, e.Time)
		part.Count++
		at += n
	}
	flush(len(it.Batch.Entries))
}
