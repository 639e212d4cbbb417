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
	item  *buffer.Item
	off   int    // where the part being split begins within the item's entries, in bytes
	first uint32 // likewise, in entries
	due   int64  // of the item's pieces, Unix milliseconds
	tag   string // likewise, for a <secondary>
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
	for r.next() {
	}
	if d.lot != nil {
		d.lot.readUpTo(0, true)
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
	}
	r.keys, r.cuts, r.lost = r.keys[:0], r.cuts[:0], r.lost[:0]
	items := b.Items()
	due := time.Now().Add(d.o.Linger.Interval).UnixMilli()
	for i := range items {
		r.item, r.due = &items[i], due
		if hold := d.o.Linger.Hold; hold != nil {
			r.due = hold(r.item.Batch.Last).UnixMilli()
		}
		if d.o.Secondary != nil {
			r.tag = r.item.Batch.Tag
		}
		r.cutItem()
	}
	b.Release()
	if len(r.lost) > 0 {
		d.settle(r.lost)
	}
	return r.handOver()
}

// cutItem splits those entries of the item that have not ended before a restart.
func (r *reader) cutItem() {
	r.item.Live(func(b event.Batch, off int, first uint32) {
		r.off, r.first = off, first
		r.split.Split(b, r.add)
	})
}

func (r *reader) add(key []byte, run output.Run) {
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

// handOver moves the cuts into their lanes and waits while too much is waiting there.
func (r *reader) handOver() bool {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range r.cuts {
		c := &r.cuts[i]
		d.enqueue(r.keys[c.keyOff:c.keyEnd], piece{c.ref, c.due, c.tag})
		if d.lot != nil {
			d.lot.read(string(r.keys[c.keyOff:c.keyEnd]), c.ref)
		}
	}
	if d.lot != nil { // it must know all lanes that it holds: it reads on without waiting
		if len(r.cuts) > 0 {
			d.lot.readUpTo(r.cuts[len(r.cuts)-1].ref.Seq, false)
		}
		return !d.stopped
	}
	for !d.stopped && (d.pieces >= maxPieces || d.dueBytes >= readAhead) {
		d.room.Wait()
	}
	return !d.stopped
}

func (d *Deliverer) reportGap(g *buffer.Gap) {
	var n uint64
	for _, l := range g.Tags {
		n += l.Events
	}
	d.o.Log.Warn("events are missing from the buffer", "output", d.o.ID, "events", n, "reason", g.Reason.String(),
		"batches", uint64(g.Last-g.First)+1)
}
