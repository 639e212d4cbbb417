package pipeline

import (
	"sync/atomic"
	"time"

	"weir/internal/event"
	"weir/internal/filter"
)

// failures are the events of one tag that filters could not process.
type failures struct {
	tag         string
	entries     []byte
	count       int
	first, last event.Time
}

var _ filter.ErrorSink = (*work)(nil)

// FilterError implements filter.ErrorSink: the event goes on to the label @ERROR, if there
// is one and it is not from there. It is said now and then what fails, with the last
// message; the books have all of it.
func (w *work) FilterError(tag string, entry []byte, message string) {
	if w.in.failed.due() {
		where := "they are dropped; a <label @ERROR> would get them"
		if w.in.o.Errors != nil && !w.erring {
			where = "they go to the label @ERROR"
		}
		w.in.o.Log.Warn("events fail on their way", "tag", tag, "error", message, "what", where)
	}
	if w.in.o.Errors == nil || w.erring {
		return
	}
	e, _, err := event.Next(entry)
	if err != nil {
		return
	}
	n := len(w.errors)
	if n == w.routed || w.errors[n-1].tag != tag { // those before routed are on their way already
		if n < cap(w.errors) {
			w.errors = w.errors[:n+1]
			w.errors[n] = failures{tag: tag, entries: w.errors[n].entries[:0]}
		} else {
			w.errors = append(w.errors, failures{tag: tag})
		}
		n++
	}
	f := &w.errors[n-1]
	if f.count == 0 || e.Time < f.first {
		f.first = e.Time
	}
	if f.count == 0 || e.Time > f.last {
		f.last = e.Time
	}
	f.entries = append(f.entries, entry...)
	f.count++
}

// FilterPassed implements filter.ErrorSink.
func (w *work) FilterPassed(tag, message string) {
	if w.in.failed.due() {
		w.in.o.Log.Warn("events go on though a filter could not look at them", "tag", tag, "error", message)
	}
}

// routeErrors sends what failed to the label @ERROR.
func (w *work) routeErrors() {
	if len(w.errors) == w.routed {
		return
	}
	before := w.erring
	defer func() { w.erring = before }()
	w.erring = true
	for ; w.routed < len(w.errors); w.routed++ {
		f := &w.errors[w.routed]
		b := event.Batch{Tag: f.tag, Entries: f.entries, Count: f.count, First: f.first, Last: f.last}
		if n := w.in.o.Errors.Route(f.tag); n != nil {
			w.walk(n, b, false, 0, 0)
		} else {
			w.appends = append(w.appends, appendTo{target: w.in.o.Nowhere, batch: b})
		}
	}
}

// often says yes at most once in ten seconds.
type often struct{ last atomic.Int64 } // Unix nanoseconds

func (o *often) due() bool {
	now, last := time.Now().UnixNano(), o.last.Load()
	return now-last >= int64(10*time.Second) && o.last.CompareAndSwap(last, now)
}
