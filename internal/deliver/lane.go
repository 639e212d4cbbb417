package deliver

import (
	"container/heap"
	"slices"
	"time"

	"weir/internal/buffer"
	"weir/internal/output"
)

// piece is some neighbouring entries of a batch that wait in a lane: a reference, not the
// bytes, so that a lane that cannot send holds no memory beyond this.
type piece struct {
	buffer.Ref
	due int64  // when it has waited long enough for company
	tag string // of its batch; only kept for a <secondary> and for requests that need it

	// loss makes it a mark: it has no entries, and says what the lane has lost here.
	loss *loss
}

// lane is the waiting line of one destination. It is data, not a goroutine: ten thousand
// lanes are ten thousand small structs. All fields are guarded by Deliverer.mu.
type lane struct {
	key      string
	pieces   []piece // waiting, in order; pieces[:head] are gone
	head     int
	events   int       // in pieces
	bytes    int       // of entries in pieces
	marks    int       // pieces that are marks
	kept     int       // room in pieces that counts in Deliverer.kept, while none are waiting
	flights  []*flight // built or being sent, in order; the first `sending` are under way
	returned []piece   // of requests that failed while the next was being filled

	building bool  // a worker is filling a flight
	sending  int   // flights in flight
	queued   bool  // in the ready queue
	heapIdx  int   // in Deliverer.timers; -1 when not
	wake     int64 // when the timer fires for this lane

	backoff   int64      // no request before this time; 0 when well
	attempts  int        // failures in a row
	failing   time.Time  // when the first of them was
	limit     int        // most entries in the next request; 0: no limit
	refusals  int        // events that were refused alone since something was accepted
	flushTo   buffer.Seq // Flush made due what came up to here
	lastError string
	lastKind  output.Kind
	givenUp   bool // for this run: weir is stopping and the lane does nothing but fail
	parked    bool // the lane's head went to the parking lot, everything follows it

	delivered uint64 // events, for the status page
}

func (l *lane) waiting() int { return len(l.pieces) - l.head }

func (l *lane) idle() bool {
	return l.waiting() == 0 && len(l.flights) == 0 && !l.building && !l.queued && l.attempts == 0 && !l.parked
}

func (l *lane) push(p piece) {
	if l.head > 0 && (l.head == len(l.pieces) || len(l.pieces) == cap(l.pieces) && l.head > len(l.pieces)/2) {
		// Else a lane that is never empty would grow for ever.
		l.pieces, l.head = l.pieces[:copy(l.pieces, l.pieces[l.head:])], 0
	}
	if n := len(l.pieces); p.loss != nil {
		if n > l.head && l.pieces[n-1].loss != nil {
			l.pieces[n-1].loss.join(p.loss)
			return
		}
		l.marks++
	}
	// Neighbouring pieces of one batch become one: lanes named by record fields would
	// otherwise hold a reference for each event.
	if n := len(l.pieces); n > l.head {
		last := &l.pieces[n-1]
		if p.loss == nil && last.loss == nil && last.Seq == p.Seq && last.Off+last.Len == p.Off && last.First+last.Count == p.First {
			last.Len += p.Len
			last.Count += p.Count
			l.events += int(p.Count)
			l.bytes += int(p.Len)
			return
		}
	}
	l.pieces = append(l.pieces, p)
	l.events += int(p.Count)
	l.bytes += int(p.Len)
}

// take moves pieces from the front to dst until they hold at least size bytes or count
// entries.
func (l *lane) take(dst []piece, size, count int) []piece {
	for size > 0 && count > 0 && l.head < len(l.pieces) {
		p := l.pieces[l.head]
		l.head++
		l.events -= int(p.Count)
		l.bytes -= int(p.Len)
		size -= int(p.Len)
		count -= int(p.Count)
		if p.loss != nil {
			l.marks--
		}
		dst = append(dst, p)
	}
	if l.head == len(l.pieces) {
		l.pieces, l.head = l.pieces[:0], 0
	}
	return dst
}

// takeEvents is take, but leaves the marks where they are.
func (l *lane) takeEvents(dst []piece, size, count int) []piece {
	from := len(dst)
	dst = l.take(dst, size, count)
	if !slices.ContainsFunc(dst[from:], isMark) {
		return dst
	}
	var marks []piece
	for _, p := range dst[from:] {
		if isMark(p) {
			marks = append(marks, p)
		}
	}
	l.untake(marks)
	return slices.DeleteFunc(dst, isMark)
}

func isMark(p piece) bool { return p.loss != nil }

// before says whether p was accepted before q.
func (p *piece) before(q *piece) bool {
	return p.Seq < q.Seq || p.Seq == q.Seq && p.First < q.First
}

// untake puts pieces back before all others, in their order.
func (l *lane) untake(ps []piece) {
	if len(ps) == 0 {
		return
	}
	for i := range ps {
		l.events += int(ps[i].Count)
		l.bytes += int(ps[i].Len)
		if ps[i].loss != nil {
			l.marks++
		}
	}
	if l.waiting() > 0 && l.pieces[l.head].before(&ps[len(ps)-1]) {
		l.pieces, l.head = merged(ps, l.pieces[l.head:]), 0
		return
	}
	if l.head >= len(ps) {
		l.head -= len(ps)
		copy(l.pieces[l.head:], ps)
		return
	}
	rest := l.pieces[l.head:]
	all := make([]piece, 0, len(ps)+len(rest)+16)
	all = append(all, ps...)
	l.pieces, l.head = append(all, rest...), 0
}

// merged is all of ps and rest in order: with several requests of a lane under way, a later
// one can fail after an earlier one.
func merged(ps, rest []piece) []piece {
	all := make([]piece, 0, len(ps)+len(rest)+16)
	for len(ps) > 0 && len(rest) > 0 {
		if ps[0].before(&rest[0]) {
			all, ps = append(all, ps[0]), ps[1:]
		} else {
			all, rest = append(all, rest[0]), rest[1:]
		}
	}
	return append(append(all, ps...), rest...)
}

// due is when the first waiting piece has waited long enough, or what stands behind a
// mark: a notice may wait for longer, and goes with the events that come.
func (l *lane) due() int64 {
	due := l.pieces[l.head].due
	for i := l.head + 1; i < len(l.pieces) && l.pieces[i-1].loss != nil; i++ {
		due = min(due, l.pieces[i].due)
	}
	return due
}

// timers is the one heap of everything that waits for a moment: linger and back-off.
type timers []*lane

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].wake < t[j].wake }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].heapIdx, t[j].heapIdx = i, j
}
func (t *timers) Push(x any) {
	l := x.(*lane)
	l.heapIdx = len(*t)
	*t = append(*t, l)
}
func (t *timers) Pop() any {
	old := *t
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	l.heapIdx = -1
	return l
}

// set puts l at wake, or moves it there.
func (t *timers) set(l *lane, wake int64) {
	if l.heapIdx >= 0 {
		if l.wake != wake {
			l.wake = wake
			heap.Fix(t, l.heapIdx)
		}
		return
	}
	l.wake = wake
	heap.Push(t, l)
}

func (t *timers) drop(l *lane) {
	if l.heapIdx >= 0 {
		heap.Remove(t, l.heapIdx)
	}
}
