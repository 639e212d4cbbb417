package pipeline

import "weir/internal/event"

// copied is a <store> of a copy that has fallbacks, for one batch.
type copied struct {
	around   int // the store that this one is part of, counted from 1; 0: none
	optional bool
	failed   bool // a target that belongs to it has refused
}

// fallback is a <store ignore_if_prev_success> that has not been asked, for one batch.
type fallback struct {
	end              *End
	at, before       int // this store, and the one that must have failed
	batch            event.Batch
	optional         bool
	filtered, failed int
	depth            int
	erring           bool
	asked            bool
}

// walkStores notes what goes to the ends of a copy, and which are asked later.
func (w *work) walkStores(ends []End, b event.Batch, optional bool, filtered, failed int) {
	around, before := w.at, 0
	for i := range ends {
		e := &ends[i]
		w.stores = append(w.stores, copied{around: around, optional: e.Optional})
		at := len(w.stores)
		if e.Fallback && before > 0 {
			w.later = append(w.later, fallback{end: e, at: at, before: before, batch: b, optional: optional, filtered: filtered, failed: failed,
				depth: w.depth, erring: w.erring})
		} else {
			w.at = at
			w.walkEnd(e, b, optional, filtered, failed)
			w.at = around
		}
		before = at
	}
}

// failStore notes that a target has refused which belongs to a store: that one has failed,
// and what is around it up to where errors are ignored.
func (w *work) failStore(at int) {
	for at > 0 {
		s := &w.stores[at-1]
		s.failed = true
		if s.optional {
			return
		}
		at = s.around
	}
}

// fallBack walks the stores whose turn it is: the one before has refused, or got nothing
// itself, which Fluentd takes for no success. False: there is none.
func (w *work) fallBack() (more bool) {
	for i := range w.later {
		l := &w.later[i]
		if l.asked {
			continue
		}
		turn := w.stores[l.before-1].failed
		for j := range w.later[:i] {
			turn = turn || w.later[j].at == l.before && !w.later[j].asked
		}
		if !turn {
			continue
		}
		l.asked, more = true, true
		at, depth, erring := w.at, w.depth, w.erring
		w.at, w.depth, w.erring = l.at, l.depth, l.erring
		w.walkEnd(l.end, l.batch, l.optional, l.filtered, l.failed) // it may add to later
		w.at, w.depth, w.erring = at, depth, erring
	}
	if more {
		w.routeErrors()
		if !w.known.IsZero() {
			w.leaveOut(w.known)
		}
	}
	return more
}
