package cloudwatch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// wire returns the complete JSON body for items[from:to]. The slice is valid until the
// next call of wire or reset. The first call puts the items in order of time.
//
// tail follows the events: an entity, or "".
func (b *body) wire(from, to int, token, tail string) []byte {
	if !b.ordered && !b.pieces {
		b.sort()
	}
	n := len(b.buf)
	if from == 0 && to == len(b.items) {
		b.buf = appendTail(b.buf, token, tail)
		out := b.buf
		b.buf = b.buf[:n]
		return out
	}
	b.scratch = append(b.scratch[:0], b.buf[:b.head]...)
	for i, it := range b.items[from:to] {
		if i > 0 {
			b.scratch = append(b.scratch, ',')
		}
		b.scratch = append(b.scratch, b.buf[it.off:it.end]...)
	}
	b.scratch = appendTail(b.scratch, token, tail)
	return b.scratch
}

func appendTail(dst []byte, token, tail string) []byte {
	dst = append(dst, ']')
	if token != "" {
		dst = append(dst, `,"sequenceToken":"`...)
		dst, _ = event.AppendStringEscaped(dst, []byte(token))
		dst = append(dst, '"')
	}
	dst = append(dst, tail...)
	return append(dst, '}')
}

// sort rebuilds the events in order of time. Events of one time keep the order in which
// they were added.
func (b *body) sort() {
	slices.SortStableFunc(b.items, func(x, y item) int { return cmp.Compare(x.ms, y.ms) })
	b.scratch = append(b.scratch[:0], b.buf[:b.head]...)
	for i := range b.items {
		it := &b.items[i]
		if i > 0 {
			b.scratch = append(b.scratch, ',')
		}
		off := len(b.scratch)
		b.scratch = append(b.scratch, b.buf[it.off:it.end]...)
		it.off, it.end = uint32(off), uint32(len(b.scratch))
	}
	b.buf, b.scratch = b.scratch, b.buf
	b.ordered = true
}

// hexSum is the hexadecimal SHA-256 sum of a body, as a signature needs it.
func hexSum(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// rejection is rejectedLogEventsInfo: indexes into the events as they were sent.
type rejection struct {
	TooOldEnd   *int `json:"tooOldLogEventEndIndex"`   // events before it are older than 14 days
	TooNewStart *int `json:"tooNewLogEventStartIndex"` // this one and those behind it are more than 2 h ahead
	ExpiredEnd  *int `json:"expiredLogEventEndIndex"`  // events before it are older than the retention
}

// reject notes in fates, which has an element for each entry, what the service said about
// items[from:to]. An entry of which one piece is rejected is rejected.
func (b *body) reject(fates []ledger.Reason, from, to int, r *rejection) {
	mark := func(lo, hi int, why ledger.Reason) {
		for i := max(lo, 0); i < min(hi, to-from); i++ {
			entry := b.items[from+i].entry
			if entry == noEntry {
				b.notice.untold = true
			} else if f := &fates[entry]; *f == ledger.None {
				*f = why
			}
		}
	}
	if r.TooOldEnd != nil {
		mark(0, *r.TooOldEnd, ledger.TooOld)
	}
	if r.ExpiredEnd != nil {
		mark(0, *r.ExpiredEnd, ledger.Expired) // what is also too old keeps that reason
	}
	if r.TooNewStart != nil {
		mark(*r.TooNewStart, to-from, ledger.TooNew)
	}
}

// settle merges the entries that were never sent with those that the service rejected
// into runs.
func (b *body) settle(dst []output.Ended, fates []ledger.Reason) []output.Ended {
	for _, e := range b.ended {
		for i := e.First; i < e.First+e.Count; i++ {
			fates[i] = e.Fate.Reason
		}
	}
	for i, why := range fates {
		if why == ledger.None {
			continue
		}
		if k := len(dst); k > 0 && dst[k-1].Fate.Reason == why && dst[k-1].First+dst[k-1].Count == i {
			dst[k-1].Count++
			continue
		}
		dst = append(dst, output.Ended{First: i, Count: 1, Fate: why.Fate()})
	}
	return dst
}
