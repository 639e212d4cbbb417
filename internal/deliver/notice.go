package deliver

import (
	"sync/atomic"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// A lane is told what it has lost with a mark: a piece without entries at the place of the
// loss. The request that is built there carries the notice. Only when that was accepted do
// the gaps and the entries behind it end in the buffer's books: a crash before brings all
// of it back, and so a notice is written once.

// loss is what a mark stands for.
type loss struct {
	output.Notice
	gaps    []*gap        // of the buffer, which end with it
	parts   []buffer.Part // entries that were rejected or given up, unsettled until it is told
	refused int           // times that the service has not taken the notice
	alone   bool          // it is sent by itself, since it was refused in company
	stale   bool          // its lane has met the retry limit
	since   time.Time     // when it was first refused together with all events of its request
}

// gap is a gap of the buffer of which some lanes are still to be told.
type gap struct {
	seq  buffer.Seq
	left atomic.Int32
}

// Bounds of what is held unsettled for notices.
const (
	earlyHeld = 256      // parts of a lane at which its notice does not wait for company
	laneHeld  = 4 << 10  // parts of a lane
	mostHeld  = 32 << 10 // parts of all lanes: a megabyte
)

// growTime is how long a gap may grow at most, request by request, before it is told of.
const growTime = 30 * time.Second

// The waits after a notice that the service does not take although it takes events.
const (
	refusedFirst = 5 * time.Second
	refusedLast  = 5 * time.Minute
)

// tellable says whether events that end so are missing from their stream.
func tellable(f ledger.Fate) bool { return f.Class == ledger.Dropped || f.Class == ledger.Rejected }

// count adds n events that were lost for one reason.
func (o *loss) count(r ledger.Reason, n uint64) {
	o.Events += n
	for i := range o.Reasons {
		if o.Reasons[i].Reason == r {
			o.Reasons[i].Events += n
			return
		}
	}
	o.Reasons = append(o.Reasons, output.ReasonCount{Reason: r, Events: n})
}

// span widens the time of the loss.
func (o *loss) span(first, last event.Time) {
	if first == 0 && last == 0 {
		return
	}
	if o.First == 0 && o.Last == 0 {
		o.First, o.Last = first, last
		return
	}
	o.First, o.Last = min(o.First, first), max(o.Last, last)
}

// join adds another loss to o; nil is none.
func (o *loss) join(p *loss) {
	if p == nil {
		return
	}
	for _, r := range p.Reasons {
		o.count(r.Reason, r.Events)
	}
	o.Bytes += p.Bytes
	o.span(p.First, p.Last)
	o.Behind = p.Behind
	o.gaps = append(o.gaps, p.gaps...)
	o.parts = append(o.parts, p.parts...)
	o.refused = max(o.refused, p.refused)
	o.alone, o.stale = o.alone || p.alone, o.stale || p.stale
	if o.since.IsZero() {
		o.since = p.since
	}
}

// grows says that the service has refused a notice and all events around it, n of which are
// in more: that is no fault of the notice, which stands at their time. It is one gap, and it goes on.
func (o *loss) grows(more *loss, n int) bool {
	if more == nil || more.Events != uint64(n) {
		return false
	}
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return time.Since(o.since) < growTime
}

// marked is the sum of the marks among some pieces; nil if there are none.
func marked(pieces []piece) (o *loss) {
	for i := range pieces {
		if l := pieces[i].loss; l != nil {
			o = joined(o, l)
		}
	}
	return o
}

// joined is the sum of two losses, either of which may be nil.
func joined(a, b *loss) *loss {
	if a == nil {
		return b
	}
	a.join(b)
	return a
}

// end appends what ends with the notice to parts and told, and takes it from o.
func (o *loss) end(parts []buffer.Part, told []buffer.Seq) ([]buffer.Part, []buffer.Seq) {
	for _, g := range o.gaps {
		if g.left.Add(-1) == 0 {
			told = append(told, g.seq)
		}
	}
	parts = append(parts, o.parts...)
	o.parts, o.gaps = nil, nil
	return parts, told
}

// markGap puts a mark into each lane of which a gap is known to have taken something. A gap
// of which no lane is known has ended when it returns.
func (r *reader) markGap(g *buffer.Gap) {
	d := r.d
	lost := map[string]*loss{}
	known := uint64(0)
	for tag, l := range g.Tags {
		if len(g.Tags) == 1 {
			l.Events = min(l.Events, g.Events) // some may have ended before a restart
		}
		lane, ok := d.laneOf(tag)
		if !ok || l.Events == 0 && l.Bytes == 0 { // of torn data only the bytes may be known
			continue
		}
		known += l.Events
		o := lost[lane]
		if o == nil {
			o = &loss{}
			lost[lane] = o
		}
		o.count(g.Reason, l.Events)
		o.Bytes += l.Bytes
		o.span(l.First, l.Last)
	}
	if known < g.Events {
		d.stat.cannotTell(d.o.Log, d.o.ID, g.Events-known, g.Reason)
	}
	if len(lost) == 0 {
		d.settle("", nil, g.First)
		return
	}
	shared := &gap{seq: g.First}
	shared.left.Store(int32(len(lost)))
	d.mu.Lock()
	defer d.mu.Unlock()
	for lane, o := range lost {
		o.gaps = []*gap{shared}
		p := piece{due: d.noticeDue(o), loss: o}
		p.Seq = g.First
		d.enqueue([]byte(lane), p)
	}
}

// laneOf is the lane of a tag, where the output knows it.
func (d *Deliverer) laneOf(tag string) (string, bool) {
	if d.tagLanes == nil || tag == "" {
		return "", false
	}
	return d.tagLanes.LaneOf(tag)
}

// noticeDue is until when a notice waits for company.
func (d *Deliverer) noticeDue(o *loss) int64 {
	now := time.Now()
	switch {
	case o.refused > 1:
		return d.at(now.Add(min(refusedFirst<<min(o.refused-2, 10), refusedLast)))
	case o.refused == 1 || len(o.parts) > earlyHeld:
		return d.at(now)
	case d.o.Linger.Hold != nil && o.Last != 0:
		return d.at(now.Add(time.Until(d.o.Linger.Hold(o.Last))))
	}
	return d.at(now.Add(d.o.Linger.Interval))
}

// tell puts the notice of the mark f.pieces[i] into the request, summed with those right
// behind it. False: it has to go into another one.
func (d *Deliverer) tell(f *flight, i int) bool {
	o, j := f.pieces[i].loss, i+1
	for ; j < len(f.pieces) && f.pieces[j].loss != nil; j++ {
		o.join(f.pieces[j].loss)
	}
	f.pieces = append(f.pieces[:i+1], f.pieces[j:]...)
	if f.told != nil || o.alone && f.events > 0 || !f.req.(output.Teller).Tell(o.Notice) {
		return false
	}
	f.told = o
	return true
}

// withhold takes out of parts, which are of pieces in their order, what the lane is to be
// told of before it ends, and returns the rest and that.
func (d *Deliverer) withhold(pieces []piece, parts []buffer.Part) (rest []buffer.Part, o *loss) {
	if !d.o.Tell {
		return parts, nil
	}
	rest = parts[:0]
	for _, p := range parts {
		if !tellable(p.Fate) {
			rest = append(rest, p)
			continue
		}
		if o == nil {
			o = &loss{}
		}
		o.count(p.Fate.Reason, uint64(p.Count))
		o.parts = append(o.parts, p)
	}
	if o == nil {
		return rest, nil
	}
	d.measure(pieces, o)
	runs := o.parts[:1]
	for _, p := range o.parts[1:] {
		last := &runs[len(runs)-1]
		if p.Seq == last.Seq && p.Fate == last.Fate && p.First == last.First+last.Count {
			last.Count += p.Count
			continue
		}
		runs = append(runs, p)
	}
	o.parts = runs
	d.held.Add(int64(len(runs)))
	return rest, o
}

// measure finds the sizes and times of o.parts, each of which is of one of the pieces, in
// their order, and the time of what stands behind them. What cannot be read stays unknown.
func (d *Deliverer) measure(pieces []piece, o *loss) {
	parts := o.parts
	for i := range pieces {
		p := &pieces[i]
		n := 0
		for n < len(parts) && parts[n].Seq == p.Seq && parts[n].First >= p.First && parts[n].First < p.First+p.Count {
			n++
		}
		if n == 0 && (len(parts) > 0 || o.Behind != 0) {
			continue
		}
		if v, err := d.o.Buffer.View(p.Ref); err == nil {
			o.measure(v.Bytes, p.First, parts[:n])
			v.Release()
		}
		parts = parts[n:]
	}
}

// measure is for parts within some entries, which are counted from at.
func (o *loss) measure(entries []byte, at uint32, parts []buffer.Part) {
	for o.Behind = 0; len(entries) > 0; {
		e, n, err := event.Next(entries)
		if err != nil {
			return
		}
		if len(parts) == 0 {
			o.Behind = e.Time
			return
		}
		if p := &parts[0]; at >= p.First {
			o.Bytes += uint64(n)
			o.span(e.Time, e.Time)
			if at+1 == p.First+p.Count {
				parts = parts[1:]
			}
		}
		at++
		entries = entries[n:]
	}
}

// markOf makes the mark of what a finished flight's lane has lost, to stand before all that
// waits; none for nil. What is too much to be held ends here, and only its notice goes on.
func (d *Deliverer) markOf(f *flight, o *loss) []piece {
	if o == nil {
		return nil
	}
	due := d.noticeDue(o)
	if len(o.parts) > laneHeld || d.held.Load() > mostHeld || o.lasting() && d.pressed() {
		d.release(f.lane.key, o)
	}
	p := piece{due: due, loss: o}
	p.Seq, p.First = f.at.Seq, f.at.First
	return []piece{p}
}

// release ends in the books what a notice holds before it is told: a crash would lose the
// notice, and nothing but that.
func (d *Deliverer) release(lane string, o *loss) {
	n := len(o.parts)
	parts, told := o.end(nil, nil)
	d.held.Add(-int64(n))
	d.settle(lane, parts, told...)
	d.stat.released(d.o.Log, d.o.ID, lane)
}

// lasting says that the notice is not likely to be taken soon.
func (o *loss) lasting() bool { return o.stale || o.refused > 2 }

// pressed says that what waits for notices that are not taken must not hold the buffer's
// room any longer.
func (d *Deliverer) pressed() bool {
	st := d.o.Buffer.Stats()
	return st.Bytes > st.Limit/2
}

// unburden releases what is held for lanes that are parked or whose notice is not taken,
// if the buffer needs the room.
func (d *Deliverer) unburden() {
	d.mu.Lock()
	some := d.marks > 0
	d.mu.Unlock()
	if !some || !d.pressed() {
		return
	}
	type found struct {
		lane string
		o    *loss
	}
	var all []found
	d.mu.Lock()
	for _, l := range d.lanes {
		for i := l.head; i < len(l.pieces) && l.marks > 0; i++ {
			o := l.pieces[i].loss
			if o != nil && (l.parked || o.lasting()) && len(o.parts)+len(o.gaps) > 0 {
				all = append(all, found{l.key, &loss{gaps: o.gaps, parts: o.parts}})
				o.gaps, o.parts = nil, nil
			}
		}
	}
	d.mu.Unlock()
	for _, f := range all {
		d.release(f.lane, f.o)
	}
}

// accepted books an accepted request.
func (d *Deliverer) accepted(f *flight, res output.Result) {
	f.parts = appendParts(f.parts[:0], f.pieces, res.Ended)
	var o *loss
	f.parts, o = d.withhold(f.pieces, f.parts)
	var told []buffer.Seq
	switch {
	case f.told == nil:
	case res.Untold && f.told.grows(o, f.events):
		o = joined(f.told, o)
	case res.Untold:
		f.told.refused++
		f.told.alone = f.told.refused == 1
		f.told.Behind = 0 // that place may be why
		o = joined(f.told, o)
		d.stat.untold(d.o.Log, d.o.ID, f.lane.key, o.refused)
	default:
		d.held.Add(-int64(len(f.told.parts)))
		f.parts, told = f.told.end(f.parts, told)
		d.stat.told(f.told)
	}
	d.settle(f.lane.key, f.parts, told...)
	if s, ok := f.req.(output.Settler); ok {
		s.Settled()
	}
	d.succeeded(f, d.markOf(f, o))
}

// notTaken is for a notice alone in its request that the service cannot be made to take:
// it is given up, with a line that says what it would have said.
func (d *Deliverer) notTaken(f *flight, e *output.Error) {
	d.stat.noticeLost(d.o.Log, d.o.ID, f, e)
	d.release(f.lane.key, f.told)
	d.gone(f, nil)
}

// damaged is the mark for a piece that cannot be read any more.
func (d *Deliverer) damaged(p piece, part buffer.Part) piece {
	o := &loss{parts: []buffer.Part{part}}
	o.count(part.Fate.Reason, uint64(part.Count))
	o.Bytes = uint64(p.Len)
	d.held.Add(1)
	m := piece{due: p.due, loss: o}
	m.Seq, m.First = p.Seq, p.First
	return m
}
