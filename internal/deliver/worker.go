package deliver

import (
	"errors"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

// flight is one request from its making to its end.
type flight struct {
	lane     *lane
	req      output.Request
	pieces   []piece    // what it carries, in order of Add
	at       buffer.Ref // where it began
	told     *loss      // of the notice that it carries; nil: none
	events   int
	raw      int           // bytes of entries
	carried  int           // of them, as counted in Deliverer.carried
	slot     bool          // it has one of Options.Slots
	cutShort bool          // the lane has failed meanwhile: its pieces went back
	attempts int           // failures of its lane in a row, when it failed
	failing  time.Duration // likewise, since the first of them
	parts    []buffer.Part
}

// run is a worker.
func (d *Deliverer) run() {
	f := &flight{req: d.o.Output.Request()}
	for d.build(f) {
		if !f.empty() && d.turn(f) {
			d.finish(f, d.send(f))
		}
		d.free(f)
	}
	d.free(f)
}

// free gives back what a request needs that has ended: its memory, and its slot.
func (d *Deliverer) free(f *flight) {
	if r, ok := f.req.(output.Freer); ok {
		r.Free()
	}
	if d.o.Slots == nil {
		return
	}
	if cap(f.pieces) > keptByMany {
		f.pieces = nil
	}
	if cap(f.parts) > keptByMany {
		f.parts = nil
	}
	if f.slot {
		f.slot = false
		d.o.Slots.release()
	}
}

func (f *flight) empty() bool { return f.events == 0 && f.told == nil }

// build waits for a lane that is due and fills f from it. False ends the worker; f empty
// means that there is nothing to send this time.
func (d *Deliverer) build(f *flight) bool {
	l, limit, parked := d.takeLane(f)
	switch {
	case l == nil:
		return false
	case parked:
		d.parking.move(f)
		return true
	}
	rest, err := d.fill(f, limit)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.putBack(l, rest)
	d.carry(f, f.raw)
	l.building = false
	d.building--
	if err == nil && f.empty() && len(rest) > 0 {
		err = errNothingTaken
	}
	if err != nil {
		d.readFailed(l, err)
	}
	if len(l.returned) > 0 { // a request before this one has failed meanwhile
		d.putBack(l, f.pieces)
		d.putBack(l, l.returned)
		l.returned, f.events, f.told = nil, 0, nil
		d.carry(f, 0)
	}
	if f.empty() {
		d.settled(l)
		return true
	}
	if limit == 0 {
		d.learn(f.raw, f.req.Fill())
	}
	f.at = f.pieces[0].Ref
	l.flights = append(l.flights, f)
	d.flights++
	d.schedule(l)
	return true
}

// takeLane waits for a lane that is due and takes about as much from it as fits into one
// request. No lane ends the worker.
func (d *Deliverer) takeLane(f *flight) (l *lane, limit int, parked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.stopped || d.drained() {
			d.wakeAll()
			return nil, 0, false
		}
		if d.servable() {
			if d.slot(f) {
				if l = d.popReady(); l != nil {
					break
				}
			}
			continue // what is ready may have changed
		}
		if f.slot {
			f.slot = false
			d.o.Slots.release()
		}
		d.work.Wait()
	}
	count := d.o.Linger.Events * 2
	if l.limit > 0 {
		count = l.limit
	}
	l.building = true
	d.building++
	before, held, marks := l.waiting(), l.bytes, l.marks
	if l.parked {
		f.pieces = l.takeEvents(f.pieces[:0], d.full+d.full/2, count)
	} else {
		f.pieces = l.take(f.pieces[:0], d.full+d.full/2, count)
	}
	d.count(l, l.waiting()-before, l.bytes-held)
	d.carry(f, held-l.bytes)
	d.marks += l.marks - marks
	d.trim(l)
	d.room.Signal()
	f.lane, f.events, f.raw, f.cutShort, f.told = l, 0, 0, false, nil
	return l, l.limit, l.parked
}

// slot gets a slot for f and says whether it had one without waiting; d.mu is not held
// meanwhile.
func (d *Deliverer) slot(f *flight) bool {
	if d.o.Slots == nil || f.slot {
		return true
	}
	if f.slot = d.o.Slots.try(); f.slot {
		return true
	}
	d.mu.Unlock()
	defer d.mu.Lock()
	f.slot = d.o.Slots.wait(d.stopping)
	return false
}

// carry notes how many bytes of entries f has taken from its lane. Callers hold d.mu.
func (d *Deliverer) carry(f *flight, n int) {
	d.carried += n - f.carried
	f.carried = n
}

// settled lets a lane go on after something of it has ended or come back, and tells those
// who wait for that. Callers hold d.mu.
func (d *Deliverer) settled(l *lane) {
	d.schedule(l)
	d.turns.Broadcast()
	d.room.Signal()
	if d.drained() {
		d.wakeAll()
	}
}

// readFailed keeps a lane away for a moment whose events cannot be read from the buffer
// just now. Callers hold d.mu.
func (d *Deliverer) readFailed(l *lane, err error) {
	l.backoff = d.at(time.Now().Add(readPause))
	d.stat.cannotRead(d.o.Log, d.o.ID, err)
}

// fill encodes f.pieces until the request is full. It cuts the piece at which that
// happens, and returns what is left over; with an error, that is because it cannot be read
// now.
func (d *Deliverer) fill(f *flight, limit int) (rest []piece, err error) {
	f.req.Reset(f.lane.key)
	left := limit
	if left == 0 {
		left = int(^uint(0) >> 1)
	}
	for i := 0; i < len(f.pieces); i++ {
		if isMark(f.pieces[i]) && d.tell(f, i) {
			continue
		}
		if isMark(f.pieces[i]) || f.told != nil && f.told.alone {
			rest = append(rest, f.pieces[i:]...)
			f.pieces = f.pieces[:i]
			return rest, nil
		}
		v, err := d.view(f, i)
		if err != nil {
			rest = append([]piece(nil), f.pieces[i:]...)
			f.pieces = f.pieces[:i]
			return rest, err
		}
		if v.Bytes == nil { // it was given up, and the next one or a mark stands in its place
			i--
			continue
		}
		p := &f.pieces[i]
		if d.tags {
			f.req.(output.TagTaker).SetTag(p.tag)
		}
		n, size, full := f.req.Add(v.Bytes, left)
		v.Release()
		f.events += n
		f.raw += size
		left -= n
		if n == int(p.Count) && !full && left > 0 {
			continue
		}
		rest = append(rest, f.pieces[i:]...)
		if n > 0 {
			tail := p.cut(n, size)
			i++
			if rest[0] = tail; tail.Count == 0 {
				rest = rest[1:]
			}
		}
		f.pieces = f.pieces[:i]
		return rest, nil
	}
	return nil, nil
}

// cut shortens p to its first n entries of some bytes and returns the rest.
func (p *piece) cut(n, size int) (tail piece) {
	tail = *p
	tail.Off += uint32(size)
	tail.Len -= uint32(size)
	tail.First += uint32(n)
	tail.Count -= uint32(n)
	p.Len, p.Count = uint32(size), uint32(n)
	return tail
}

// errNothingTaken means a fault in an output: an empty request takes at least one entry.
var errNothingTaken = errors.New("BUG: the output takes nothing into an empty request")

// readPause is how long a lane waits whose events cannot be read for want of descriptors
// or memory, or of permission.
const readPause = 5 * time.Second

// view reads f.pieces[i]. A piece whose bytes cannot be had any more is booked as damaged
// and taken out, or becomes a mark, and the view is empty. An error means that it may be had later.
func (d *Deliverer) view(f *flight, i int) (buffer.View, error) {
	p := f.pieces[i]
	v, err := d.o.Buffer.View(p.Ref)
	if err == nil {
		return v, nil
	}
	if !buffer.Lasting(err) {
		return buffer.View{}, err
	}
	d.o.Log.Error("a part of the buffer cannot be read and is given up", "output", d.o.ID, "events", p.Count, "error", err)
	part := buffer.Part{Seq: p.Seq, Span: p.Span, Fate: ledger.Damaged.Fate()}
	if d.o.Tell {
		f.pieces[i] = d.damaged(p, part)
		return buffer.View{}, nil
	}
	d.settle(f.lane.key, []buffer.Part{part})
	f.pieces = append(f.pieces[:i], f.pieces[i+1:]...)
	return buffer.View{}, nil
}

// turn waits until f may be sent: it is the first of its lane, there is a free place among
// the workers, the gate is open and the throttle agrees. It returns
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
		if d.mayGo(f) {
			wait := d.o.Throttle.Wait(time.Now())
			if wait == 0 {
				break
			}
			wake := time.AfterFunc(wait, d.wake)
			d.turns.Wait()
			wake.Stop()
			continue
		}
		if d.o.Slots != nil && d.gate.shut {
			d.undo(f) // behind a shut gate it would keep its slot from others
			return false
		}
		d.turns.Wait()
	}
	l.sending++
	d.inFlight++
	d.schedule(l) // the next one may be built now
	return true
}

// undo gives back what was built and cannot be sent for now, and what was built behind it.
// Callers hold d.mu.
func (d *Deliverer) undo(f *flight) {
	l := f.lane
	for n := len(l.flights); n > 0; n-- {
		g := l.flights[n-1]
		g.cutShort = true
		d.giveBack(l, g.pieces)
		d.carry(g, 0)
		l.flights = l.flights[:n-1]
		d.flights--
		if g == f {
			break
		}
	}
	d.settled(l)
}

// mayGo says whether it is f's turn, but for the throttle. Callers hold d.mu.
func (d *Deliverer) mayGo(f *flight) bool {
	l := f.lane
	if l.sending >= d.o.PerLane || l.flights[l.sending] != f {
		return false
	}
	if d.gate.shut { // one request finds out whether the endpoint is back
		return d.inFlight == 0 && d.gate.until == 0
	}
	if d.draining {
		return d.inFlight < d.o.Workers
	}
	return d.inFlight+d.resting < d.o.Workers
}

// rest keeps a request's place among the workers taken for the pause after it. Callers
// hold d.mu.
func (d *Deliverer) rest() {
	if d.o.Pause <= 0 || d.draining {
		return
	}
	d.resting++
	time.AfterFunc(d.o.Pause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.resting--
		d.work.Broadcast()
		d.turns.Broadcast()
	})
}

func (d *Deliverer) wake() {
	d.mu.Lock()
	d.turns.Broadcast()
	d.mu.Unlock()
}

func (d *Deliverer) send(f *flight) output.Result {
	start := time.Now()
	res := f.req.Send(d.ctx)
	took := time.Since(start)
	d.stat.put(res, took, f)
	if d.o.SlowFlush > 0 && took > d.o.SlowFlush {
		d.stat.slowFlush(d.o.Log, d.o.ID, took, d.o.SlowFlush, f)
	}
	return res
}

// finish books a result and decides what the lane does next.
func (d *Deliverer) finish(f *flight, res output.Result) {
	if res.Err == nil {
		d.accepted(f, res)
		return
	}
	if d.ctx.Err() != nil && res.Err.Kind != output.Drop { // it was cut off: that is no answer
		d.mu.Lock()
		defer d.mu.Unlock()
		d.back(f)
		return
	}
	d.failed(f, res.Err, res.Resent)
}

// settle writes to the buffer's books. The journal is what keeps a crash from sending
// these again, so a failure is worth a line; the events themselves are safe. told are gaps
// of which the last lane has been told, lane is whose parts they are.
func (d *Deliverer) settle(lane string, parts []buffer.Part, told ...buffer.Seq) {
	if len(parts)+len(told) == 0 {
		return
	}
	d.stat.ended(parts)
	if err := d.o.Buffer.Settle(parts, told...); err != nil {
		d.stat.settleFailed(d.o.Log, d.o.ID, err)
	}
	if d.lot == nil {
		return
	}
	n := 0
	for i := range parts {
		n += int(parts[i].Count)
	}
	if n > 0 {
		d.lot.ended(lane, n)
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
	d.carry(f, 0)
	l.sending--
	d.inFlight--
	d.rest()
	d.flights--
}
