package deliver

import (
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

// flight is one request from its making to its end.
type flight struct {
	lane     *lane
	req      output.Request
	pieces   []piece // what it carries, in order of Add
	events   int
	raw      int  // bytes of entries
	cutShort bool // the lane has failed meanwhile: give the pieces back
	parts    []buffer.Part
}

// run is a worker.
func (d *Deliverer) run() {
	f := &flight{req: d.o.Output.Request()}
	for {
		if !d.build(f) {
			return
		}
		if f.events == 0 {
			continue
		}
		if d.turn(f) {
			d.finish(f, d.send(f))
		}
	}
}

// build waits for a lane that is due and fills f from it. False ends the worker.
func (d *Deliverer) build(f *flight) bool {
	d.mu.Lock()
	var l *lane
	for {
		if d.stopped || d.draining && d.drained() {
			d.work.Broadcast()
			d.mu.Unlock()
			return false
		}
		if d.gate.until == 0 && d.readyAt < len(d.ready) {
			break
		}
		d.work.Wait()
	}
	l = d.ready[d.readyAt]
	d.ready[d.readyAt] = nil
	d.readyAt++
	if d.readyAt == len(d.ready) {
		d.ready, d.readyAt = d.ready[:0], 0
	}
	l.queued, l.building = false, true
	d.dueBytes -= l.bytes
	limit := l.limit
	count := d.o.Linger.Events * 2
	if limit > 0 {
		count = limit
	}
	before := l.waiting()
	f.pieces = l.take(f.pieces[:0], d.full+d.full/2, count)
	d.pieces -= before - l.waiting()
	parked := l.parked
	d.mu.Unlock()

	f.lane, f.events, f.raw, f.cutShort = l, 0, 0, false
	if parked {
		d.parking.move(f)
		return true
	}
	rest, full := d.fill(f, limit)

	d.mu.Lock()
	d.putBack(l, rest)
	if len(l.returned) > 0 { // the request before this one failed meanwhile
		d.putBack(l, f.pieces)
		d.putBack(l, l.returned)
		l.returned, l.building, f.events = nil, false, 0
		d.schedule(l)
		d.mu.Unlock()
		return true
	}
	if f.events == 0 { // nothing in it could be read
		l.building = false
		d.schedule(l)
		d.mu.Unlock()
		return true
	}
	if full && limit == 0 {
		// What really fills a request decides what counts as full from now on.
		d.full = (3*d.full + f.raw) / 4
	}
	l.building = false
	l.flights = append(l.flights, f)
	d.schedule(l)
	d.room.Signal()
	d.mu.Unlock()
	return true
}

func (d *Deliverer) putBack(l *lane, ps []piece) {
	before := l.waiting()
	l.untake(ps)
	d.pieces += l.waiting() - before
	if l.queued {
		for i := range ps {
			d.dueBytes += int(ps[i].Len)
		}
	}
}

// fill encodes f.pieces until the request is full. It cuts the piece at which that
// happens, and returns what is left over.
func (d *Deliverer) fill(f *flight, limit int) (rest []piece, full bool) {
	f.req.Reset(f.lane.key)
	left := limit
	if left == 0 {
		left = int(^uint(0) >> 1)
	}
	for i := range f.pieces {
		p := &f.pieces[i]
		v, err := d.o.Buffer.View(p.Ref)
		if err != nil {
			d.unreadable(f, i, err)
			return append([]piece(nil), f.pieces[i:]...), false
		}
		n, size, isFull := f.req.Add(v.Bytes, left)
		v.Release()
		f.events += n
		f.raw += size
		left -= n
		if n == int(p.Count) && !isFull && left > 0 {
			continue
		}
		rest = append(rest, f.pieces[i:]...)
		if n > 0 {
			head, tail := *p, *p
			head.Len, head.Count = uint32(size), uint32(n)
			tail.Off += uint32(size)
			tail.Len -= uint32(size)
			tail.First += uint32(n)
			tail.Count -= uint32(n)
			f.pieces[i] = head
			i++
			rest[0] = tail
			if tail.Count == 0 {
				rest = rest[1:]
			}
		}
		f.pieces = f.pieces[:i]
		return rest, isFull
	}
	return nil, false
}

// unreadable books a piece whose bytes cannot be had any more; its neighbours go on.
func (d *Deliverer) unreadable(f *flight, i int, err error) {
	p := f.pieces[i]
	d.o.Log.Error("a part of the buffer cannot be read and is given up", "output", d.o.ID, "events", p.Count, "error", err)
	d.settle([]buffer.Part{{Seq: p.Seq, Span: p.Span, Fate: ledger.Fate{Class: ledger.Dropped, Reason: ledger.Damaged}}})
	if d.lot != nil {
		d.lot.ended(f.lane.key, int(p.Count))
	}
	copy(f.pieces[i:], f.pieces[i+1:])
	f.pieces = f.pieces[:len(f.pieces)-1]
}

// turn waits until f may be sent: its lane's earlier requests have been answered, there is
// a free place among the workers, the gate is open and the throttle agrees. It returns
// false if the lane has failed meanwhile or everything ends.
func (d *Deliverer) turn(f *flight) bool {
	l := f.lane
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.stopped || f.cutShort {
			// Whoever cut it short has given its pieces back. After a stop they stay where
			// they are: in the buffer, unsettled.
			return false
		}
		first := l.flights[min(l.sending, len(l.flights)-1)] == f
		free := d.inFlight < d.o.Workers
		if d.gate.shut { // one request finds out whether the endpoint is back
			free = d.inFlight == 0 && d.gate.until == 0
		}
		if first && free && l.sending < d.o.PerLane {
			wait := d.o.Throttle.Wait(time.Now())
			if wait == 0 {
				break
			}
			wake := time.AfterFunc(wait, d.wake)
			d.work.Wait()
			wake.Stop()
			continue
		}
		d.work.Wait()
	}
	l.sending++
	d.inFlight++
	return true
}

func (d *Deliverer) wake() {
	d.mu.Lock()
	d.work.Broadcast()
	d.mu.Unlock()
}

func (d *Deliverer) send(f *flight) output.Result {
	start := time.Now()
	res := f.req.Send(d.ctx)
	d.stat.put(res, time.Since(start), f)
	return res
}

// finish books a result and decides what the lane does next.
func (d *Deliverer) finish(f *flight, res output.Result) {
	ended := true
	if res.Err == nil {
		f.parts = appendParts(f.parts[:0], f.pieces, res.Ended)
		d.settle(f.parts)
		d.succeeded(f)
	} else {
		ended = d.failed(f, res.Err, res.Resent)
	}
	if ended && d.lot != nil {
		d.lot.ended(f.lane.key, f.events)
	}
}

// settle writes to the buffer's books. The journal is what keeps a crash from sending
// these again, so a failure is worth a line; the events themselves are safe.
func (d *Deliverer) settle(parts []buffer.Part) {
	d.stat.ended(parts)
	if err := d.o.Buffer.Settle(parts); err != nil {
		d.stat.settleFailed(d.o.Log, d.o.ID, err)
	}
}

// appendParts says for each piece what became of its entries: delivered, but for ended.
func appendParts(dst []buffer.Part, pieces []piece, ended []output.Ended) []buffer.Part {
	at := 0 // entries before the piece, in order of Add
	for i := range pieces {
		p := &pieces[i]
		done := 0
		for done < int(p.Count) {
			for len(ended) > 0 && ended[0].First+ended[0].Count <= at+done {
				ended = ended[1:]
			}
			n, fate := int(p.Count)-done, ledger.Fate{Class: ledger.Delivered}
			if len(ended) > 0 {
				if gap := ended[0].First - (at + done); gap > 0 {
					n = min(n, gap)
				} else {
					n, fate = min(n, ended[0].First+ended[0].Count-(at+done)), ended[0].Fate
				}
			}
			dst = append(dst, buffer.Part{
				Seq: p.Seq, Span: buffer.Span{First: p.First + uint32(done), Count: uint32(n)}, Fate: fate,
			})
			done += n
		}
		at += int(p.Count)
	}
	return dst
}

// leave takes f out of its lane. Callers hold d.mu.
func (d *Deliverer) leave(f *flight) {
	l := f.lane
	for i, g := range l.flights {
		if g == f {
			l.flights = append(l.flights[:i], l.flights[i+1:]...)
			break
		}
	}
	l.sending--
	d.inFlight--
}
