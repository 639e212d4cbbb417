package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
)

// reserve asks every target for room, and those that stand in for one that refused; if one
// refuses that must not, none has taken anything.
func (w *work) reserve(ctx context.Context) error {
	for {
		if err := w.reserveAll(ctx); err != nil {
			return err
		}
		if !w.fallBack() {
			return nil
		}
		// All is given back: who waits for room must not hold any that comes later in the order.
		w.unreserve(len(w.appends))
	}
}

// reserveAll asks every target for room; if one refuses, none has taken anything. It asks in
// the order of the targets' names, whatever the route: two batches that each wait for room
// which the other has reserved would wait for ever. What goes to one target is one
// reservation, for all of it or for nothing.
func (w *work) reserveAll(ctx context.Context) error {
	if len(w.appends) > 1 {
		slices.SortStableFunc(w.appends, func(a, b appendTo) int { return strings.Compare(a.id(), b.id()) })
	}
	for i, j := 0, 0; i < len(w.appends); i = j {
		first, optional := &w.appends[i], true
		w.batches = w.batches[:0]
		events, size := 0, 0
		var last *appendTo
		for j = i; j < len(w.appends) && w.appends[j].sameEnd(first); j++ {
			a := &w.appends[j]
			if a.refused || a.dropped {
				continue // in a round before
			}
			a.batch.Chunk, last = event.Chunk{}, a
			w.batches = append(w.batches, a.batch)
			optional = optional && a.optional
			events += a.batch.Count
			size += len(a.batch.Entries)
		}
		if last == nil || first.hold == nil && first.target.Buffer == nil {
			continue
		}
		// The last batch of a message carries its Chunk: it is stored after the others.
		last.batch.Chunk = w.chunk
		w.batches[len(w.batches)-1].Chunk = w.chunk
		var err error
		var buf *buffer.Buffer
		if first.hold != nil {
			err = first.shard.reserve(ctx, size)
		} else {
			buf, err = first.target.reserve(ctx, w.batches)
		}
		dropped := errors.Is(err, buffer.ErrDropped) // by its policy, and booked
		if err != nil && !dropped && !optional {
			w.unreserve(i)
			if first.hold != nil {
				return fmt.Errorf("pass on %d events of tag %q: %w", events, first.batch.Tag, err)
			}
			return fmt.Errorf("append %d events of tag %q to output %s: %w", events, first.batch.Tag, first.id(), err)
		}
		for k := i; k < j; k++ {
			a := &w.appends[k]
			if a.refused || a.dropped {
				continue
			}
			a.buf = buf
			a.reserved, a.refused, a.dropped = err == nil, err != nil && !dropped, dropped
			if a.refused {
				w.failStore(a.at)
			}
		}
	}
	return nil
}

// sameEnd says whether two appends are one reservation.
func (a *appendTo) sameEnd(b *appendTo) bool { return a.target == b.target && a.shard == b.shard }

// unreserve gives back what was reserved for w.appends[:end].
func (w *work) unreserve(end int) {
	for i := range w.appends[:end] {
		a := &w.appends[i]
		switch {
		case !a.reserved:
		case a.hold != nil:
			a.shard.unreserve(len(a.batch.Entries))
		default:
			a.buf.Unreserve(a.batch)
		}
		a.reserved = false
	}
}

// commit appends what was reserved, and notes the places.
func (w *work) commit() {
	w.bookDrops()
	nth := 0
	for i := range w.appends {
		a := &w.appends[i]
		if a.hold != nil {
			if nth++; i == 0 || w.appends[i-1].shard != a.shard {
				nth = 0
			}
			w.commitHold(a, nth)
			continue
		}
		a.target.In.add(a.batch.Count, len(a.batch.Entries))
		switch {
		case a.target.Buffer == nil:
			a.target.Book.AdmitEnded(a.target.End, a.batch.Count)
		case a.refused:
			a.target.Book.AdmitEnded(ledger.BufferFull.Fate(), a.batch.Count)
		case a.reserved:
			w.places = append(w.places, input.Place{Store: a.buf, Seq: uint64(a.buf.Commit(a.batch))})
		}
	}
}

// commitHold hands a batch to a hold; nth counts those of this work for the same
// shard.
func (w *work) commitHold(a *appendTo, nth int) {
	if a.refused {
		w.in.lose(a.hold.Next, a.batch, ledger.BufferFull.Fate())
		return
	}
	a.batch.Chunk = w.chunk
	t := a.shard.commit(delivery{batch: a.batch, door: a.hold, depth: a.depth, nth: nth, optional: a.optional, erring: a.erring})
	w.places = append(w.places, input.Place{Store: t})
}

// lose books events with a fate wherever they would have gone.
func (in *Ingress) lose(n *Node, b event.Batch, fate ledger.Fate) {
	w := in.begin()
	defer w.release()
	w.through = true
	w.walk(n, b, false, 0, 0)
	w.routeErrors()
	w.lose(fate)
}

// lose books what is on its way with a fate.
func (w *work) lose(fate ledger.Fate) {
	w.bookDrops()
	for i := range w.appends {
		a := &w.appends[i]
		if a.hold != nil {
			w.in.lose(a.hold.Next, a.batch, fate)
			continue
		}
		a.target.In.add(a.batch.Count, len(a.batch.Entries))
		switch {
		case a.target.Buffer == nil:
			a.target.Book.AdmitEnded(a.target.End, a.batch.Count)
		case !a.dropped:
			a.target.Book.AdmitEnded(fate, a.batch.Count)
		}
	}
}
