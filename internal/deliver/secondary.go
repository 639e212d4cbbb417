package deliver

import (
	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// toSecondary hands a flight's events to the <secondary> output and settles what became of
// them there. False means that it failed too; pieces that it took have a Count of 0 then.
func (d *Deliverer) toSecondary(f *flight) bool {
	split, req := d.o.Secondary.Splitter(), d.o.Secondary.Request()
	for i := range f.pieces {
		p := &f.pieces[i]
		v, err := d.o.Buffer.View(p.Ref)
		if err != nil {
			return false
		}
		count, first, last, _, _ := event.Check(v.Bytes)
		b := event.Batch{Tag: p.tag, Entries: v.Bytes, Count: count, First: first, Last: last}
		ok := true
		split.Split(b, func(lane []byte, r output.Run) {
			ok = ok && lane != nil && d.sendAll(req, string(lane), b.Entries[r.Off:r.Off+r.Len])
		})
		v.Release()
		if !ok {
			return false
		}
		f.parts = append(f.parts[:0], buffer.Part{Seq: p.Seq, Span: p.Span, Fate: ledger.Fate{Class: ledger.Delivered}})
		d.settle(f.parts)
		p.Count = 0
	}
	return true
}

// sendAll sends entries in as many requests as they need, once each.
func (d *Deliverer) sendAll(req output.Request, lane string, entries []byte) bool {
	const all = int(^uint(0) >> 1)
	for len(entries) > 0 {
		req.Reset(lane)
		_, n, _ := req.Add(entries, all)
		if n == 0 || req.Send(d.ctx).Err != nil {
			return false
		}
		entries = entries[n:]
	}
	return true
}
