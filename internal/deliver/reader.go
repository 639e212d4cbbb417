package deliver

import (
	"context"
	"errors"
	"io"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/output"
)

// reader distributes what the buffer has stored to the lanes. It splits outside the
// Deliverer's lock and hands over a block at a time.
type reader struct {
	d     *Deliverer
	split output.Splitter
	add   func(lane []byte, r output.Run)            // addRun, made once
	part  func(b event.Batch, off int, first uint32) // splitPart, likewise
	item  *buffer.Item
	off   int    // where the part being split begins within the item's entries, in bytes
	first uint32 // likewise, in entries
	due   int64  // of the item's pieces, see Deliverer.at
	tag   string // likewise, for a <secondary> and for requests that need it
	keys  []byte
	cuts  []cut
	lost  []buffer.Part
}

// cut is one run, waiting to be handed over; its lane's key is keys[keyOff:keyEnd].
type cut struct {
	keyOff, keyEnd int
	ref            buffer.Ref
	due            int64
	tag            string
}

func (d *Deliverer) read() {
	r := &reader{d: d, split: d.o.Output.Splitter()}
	r.add, r.part = r.addRun, r.splitPart
	for r.next() {
	}
	d.mu.Lock()
	d.readDone = true
	d.work.Broadcast()
	d.mu.Unlock()
}

// next moves one block to the lanes; false ends the reader.
func (r *reader) next() bool {
	d := r.d
	b, err := d.o.Buffer.Next(d.reading)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
			d.o.Log.Error("reading the buffer failed, delivery of this output stands still", "output", d.o.ID, "error", err)
		}
		return false
	}
	if b.Gap != nil {
		d.reportGap(b.Gap)
		if d.o.Tell {
			r.markGap(b.Gap)
		}
	}
	r.keys, r.cuts, r.lost = r.keys[:0], r.cuts[:0], r.lost[:0]
	items := b.Items()
	due := d.at(time.Now().Add(d.o.Linger.Interval))
	for i := range items {
		r.item, r.due = &items[i], due
		if hold := d.o.Linger.Hold; hold != nil {
			r.due = max(due, d.at(time.Now().Add(time.Until(hold(r.item.Batch.Last))))) // by the clock on the wall as it is now
		}
		if d.o.Secondary != nil || d.tags {
			r.tag = r.item.Batch.Tag
			if d.lot != nil {
				_, r.tag = ParkedTag(r.tag)
			}
		}
		r.item.Live(r.part) // what has not ended before a restart
	}
	to := buffer.Seq(0)
	if n := len(items); n > 0 {
		to = items[n-1].Seq
	}
	b.Release()
	if len(r.lost) > 0 {
		d.settle("", r.lost)
	}
	if d.o.Tell {
		d.unburden()
	}
	return r.handOver(to)
}

func (r *reader) splitPart(b event.Batch, off int, first uint32) {
	r.off, r.first = off, first
	r.split.Split(b, r.add)
}

func (r *reader) addRun(key []byte, run output.Run) {
	span := buffer.Span{First: r.first, Count: uint32(run.Count)}
	r.first += span.Count
	if key == nil {
		r.lost = append(r.lost, buffer.Part{Seq: r.item.Seq, Span: span, Fate: run.Fate})
		return
	}
	off := len(r.keys)
	r.keys = append(r.keys, key...)
	r.cuts = append(r.cuts, cut{off, len(r.keys), r.item.Ref(r.off+run.Off, run.Len, span), r.due, r.tag})
}

// handOver moves the cuts into their lanes, which have all up to to then, and waits while too
// much is waiting there.
func (r *reader) handOver(to buffer.Seq) bool {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readTo = max(d.readTo, to)
	for i := range r.cuts {
		c := &r.cuts[i]
		d.enqueue(r.keys[c.keyOff:c.keyEnd], piece{Ref: c.ref, due: c.due, tag: c.tag})
	}
	for !d.stopped && (d.crowded() || d.dueBytes >= d.o.ReadAhead || d.pausedByOutage()) {
		d.relieve()
		d.hasten()
		d.room.Wait()
	}
	return !d.stopped
}

// pausedByOutage tells that nothing more is to be read while the whole output stands still:
// what stays unread a full buffer can give up as its oldest, and nobody is held up by it.
// Callers hold d.mu.
func (d *Deliverer) pausedByOutage() bool {
	// What a request has taken comes back when it fails: without the second condition every
	// attempt would read some more.
	return d.gate.shut && !d.draining && d.lot == nil && (d.bytes >= d.o.ReadAhead || d.building+d.flights > 0)
}

func (d *Deliverer) reportGap(g *buffer.Gap) {
	// The buffer itself has told how much it lost: here a line now and then is enough.
	if !d.stat.saidLately("gap " + g.Reason.String()) {
		d.o.Log.Warn("events are missing from the buffer", "output", d.o.ID, "events", g.Events, "reason", g.Reason.String(),
			"batches", uint64(g.Last-g.First)+1)
	}
	if d.lot != nil {
		d.lot.gap(g)
	}
}
