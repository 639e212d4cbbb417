package deliver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// parkingLot is where a lane goes that has failed for long: a buffer of its own with a
// slow delivery of its own, so that the lane holds neither the main buffer's disk nor its
// neighbours. As long as the lot holds anything of a lane, the lane's newer events follow
// it there, which keeps their order. The lot's batches carry the lane's key as their tag.
type parkingLot struct {
	main *Deliverer
	slow *Deliverer

	mu   sync.Mutex     // guards held; taken with main.mu held where both are
	held map[string]int // events of each lane in the lot
	// unsure: events were lost in the lot, it is not known of which lanes.
	unsure bool
}

func newParkingLot(main *Deliverer) *parkingLot {
	p := &parkingLot{main: main, held: map[string]int{}}
	o := main.o
	o.ID += ".parked"
	o.Buffer, o.Parking = main.o.Parking, nil
	o.Output = parkedOutput{main.o.Output}
	o.Workers, o.PerLane, o.Linger = 1, 1, Linger{}
	o.Retry.ParkAfter = 0
	o.Retry.Wait = max(o.Retry.Wait, 5*time.Second)
	o.Retry.Max = max(o.Retry.Max, time.Minute)
	p.slow = New(o)
	p.slow.lot, p.slow.tags = p, main.tags
	return p
}

// surveyTime bounds how long a start waits for a parking lot whose disk does not answer.
const surveyTime = 30 * time.Second

// start begins delivery from the lot. It returns when the lanes are known that the lot
// holds from before: their newer events must not overtake.
func (p *parkingLot) start() {
	if err := p.survey(); err != nil {
		p.main.o.Log.Error("the parking lot cannot be read to its end; what it holds may be overtaken", "output", p.main.o.ID, "error", err)
	}
	p.slow.Start()
}

// survey reads the lot through once and notes which lanes it has.
func (p *parkingLot) survey() error {
	lot := p.main.o.Parking
	ctx, cancel := context.WithTimeout(p.main.ctx, surveyTime)
	defer cancel()
	seen := uint64(0)
	for seen < lot.Stats().PendingEvents {
		run, err := lot.Next(ctx)
		if err != nil {
			return err
		}
		items := run.Items()
		for i := range items {
			items[i].Live(func(b event.Batch, _ int, _ uint32) {
				lane, _ := ParkedTag(b.Tag)
				p.held[lane] += b.Count
				seen += uint64(b.Count)
			})
		}
		run.Release()
	}
	if seen > 0 {
		lot.Rewind()
	}
	return nil
}

// stop ends the slow delivery, after the main one has ended. A lot in memory keeps nothing,
// so there giveUp is false.
func (p *parkingLot) stop(ctx context.Context, giveUp bool) {
	if err := p.main.o.Parking.Seal(ctx); err != nil {
		p.main.o.Log.Error("the parking lot could not be stored", "output", p.main.o.ID, "error", err)
	}
	p.slow.Stop(ctx, giveUp)
}

func (p *parkingLot) holds(lane string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[lane] > 0
}

// ended notes that events of a lane have left the lot. The last one gives the lane back to
// the main delivery.
func (p *parkingLot) ended(lane string, n int) {
	d := p.main
	d.mu.Lock()
	defer d.mu.Unlock()
	p.mu.Lock()
	if p.held[lane] -= n; p.held[lane] <= 0 {
		delete(p.held, lane)
	}
	empty := p.held[lane] == 0
	all := p.unsure && d.o.Parking.Stats().PendingEvents == 0
	if all {
		clear(p.held)
		p.unsure = false
	}
	p.mu.Unlock()
	if all {
		for _, l := range d.lanes {
			d.unpark(l)
		}
	} else if l := d.lanes[lane]; l != nil && empty {
		d.unpark(l)
	}
}

// gap notes that events were lost in the lot.
func (p *parkingLot) gap(g *buffer.Gap) {
	known := uint64(0)
	for tag, loss := range g.Tags {
		lane, _ := ParkedTag(tag)
		p.ended(lane, int(loss.Events))
		known += loss.Events
	}
	if known < g.Events {
		p.mu.Lock()
		p.unsure = true
		p.mu.Unlock()
		p.ended("", 0)
	}
}

// unpark gives a lane back to the main delivery. A lane of which events are on their way to
// the lot just now comes back when that has ended. Callers hold d.mu.
func (d *Deliverer) unpark(l *lane) {
	if !l.parked || l.building {
		return
	}
	l.parked, l.backoff = false, 0
	d.stat.laneBack(d.o.Log, d.o.ID, l)
	d.schedule(l)
}

// move takes a flight's pieces to the lot. If the lot is full they stay in the main
// buffer, in order, and it is tried again later: nothing is lost by parking.
func (p *parkingLot) move(f *flight) {
	d, l := p.main, f.lane
	moved, err := p.store(f)
	f.parts = f.parts[:0]
	for i := range moved {
		f.parts = append(f.parts, buffer.Part{Seq: f.pieces[i].Seq, Span: f.pieces[i].Span, Fate: ledger.Fate{Class: ledger.Moved}})
	}
	if moved > 0 {
		d.settle(f.lane.key, f.parts)
	}
	d.unburden()
	d.mu.Lock()
	defer d.mu.Unlock()
	l.building = false
	d.building--
	d.carry(f, 0)
	d.putBack(l, f.pieces[moved:])
	d.putBack(l, l.returned) // of another request that was under way when the lane was parked
	l.returned = nil
	if !p.holds(l.key) {
		d.unpark(l) // what was moved has been delivered already, or the lot has taken nothing
	}
	if err != nil && d.ctx.Err() == nil {
		l.backoff = d.at(time.Now().Add(lotPause))
		d.stat.lotFull(d.o.Log, d.o.ID, err)
		if d.draining && d.giveUp && !l.givenUp {
			l.givenUp = true
			d.left += l.waiting()
		}
	}
	d.settled(l)
}

// lotPause is how long a lane waits when the lot does not take its events.
const lotPause = 5 * time.Second

// store appends the pieces to the lot and waits until they are stored there. It returns how
// many are.
func (p *parkingLot) store(f *flight) (moved int, err error) {
	d := p.main
	var last buffer.Seq
	for moved < len(f.pieces) {
		var v buffer.View
		if v, err = d.view(f, moved); err != nil {
			break
		}
		if v.Bytes == nil {
			if moved < len(f.pieces) && isMark(f.pieces[moved]) { // damaged
				p.leave(f, moved)
			}
			continue // given up: the next one stands in its place
		}
		count, first, end, _, _ := event.Check(v.Bytes)
		b := event.Batch{Tag: parkedAs(f.lane.key, f.pieces[moved].tag), Entries: v.Bytes, Count: count, First: first, Last: end}
		p.hold(f.lane.key, count)
		var seq buffer.Seq
		seq, err = d.o.Parking.Append(d.ctx, b)
		v.Release()
		if err != nil {
			p.hold(f.lane.key, -count)
			break
		}
		last = seq
		moved++
	}
	if moved > 0 {
		if werr := d.o.Parking.WaitStored(d.ctx, uint64(last)); werr != nil {
			return 0, werr // weir is ending: they are in the main buffer still, and perhaps here too
		}
	}
	return moved, err
}

// leave gives the mark f.pieces[i] back to its lane.
func (p *parkingLot) leave(f *flight, i int) {
	p.main.mu.Lock()
	p.main.giveBack(f.lane, []piece{f.pieces[i]})
	p.main.mu.Unlock()
	f.pieces = append(f.pieces[:i], f.pieces[i+1:]...)
}

func (p *parkingLot) hold(lane string, n int) {
	p.mu.Lock()
	if p.held[lane] += n; p.held[lane] <= 0 {
		delete(p.held, lane)
	}
	p.mu.Unlock()
}

// park decides whether a failing lane is parked. Callers hold d.mu.
func (d *Deliverer) park(l *lane, e *output.Error, now time.Time) {
	after := d.o.Retry.ParkAfter
	if d.parking == nil || after <= 0 || l.parked || l.marks == l.waiting() || d.gate.shut || now.Sub(l.failing) < after {
		return
	}
	d.parkLane(l, e.Kind, e)
}

// parkLane parks a lane if that is for its kind of trouble. Callers hold d.mu.
func (d *Deliverer) parkLane(l *lane, kind output.Kind, err error) {
	switch kind {
	case output.Denied, output.NoTarget, output.Throttled, output.Unavailable:
		d.stat.laneParked(d.o.Log, d.o.ID, l, err)
		l.parked, l.backoff, l.limit = true, 0, 0
		l.attempts, l.failing = 0, time.Time{}
	}
}

// relieveAfter is how long a lane has failed when it is parked because its bytes are in the
// way of others: a small circular buffer is crowded soon, and a moment's trouble is none.
const relieveAfter = 10 * time.Second

// relieve parks lanes that fail and hold most of what may wait in memory, before their
// time: the reader could not go on for the others. Callers hold d.mu.
func (d *Deliverer) relieve() {
	now := time.Now()
	if d.parking == nil || d.o.Retry.ParkAfter <= 0 || d.gate.shut || !d.crowded() || now.Sub(d.relieved) < time.Second {
		return
	}
	d.relieved = now
	many, n := d.pieces >= d.window, 2*len(d.lanes)
	for _, l := range d.lanes {
		if l.attempts == 0 || l.parked || !many && now.Sub(l.failing) < relieveAfter {
			continue
		}
		if l.waiting() >= d.pieces/n || l.bytes >= d.bytes/n {
			d.parkLane(l, l.lastKind, errNoRoom)
			d.schedule(l)
		}
	}
}

var errNoRoom = errors.New("too many of its events are waiting")

// A parked batch's tag is its lane and, where a <secondary> may want it, the tag that it
// had. No lane has two NULs in a row.
const parkedSep = "\x00\x00"

func parkedAs(lane, tag string) string {
	if tag == "" || len(lane)+len(parkedSep)+len(tag) > maxTag {
		return lane
	}
	return lane + parkedSep + tag
}

// ParkedTag takes the tag of a batch in a parking lot apart; tag is "" if it was not kept.
func ParkedTag(t string) (lane, tag string) {
	lane, tag, found := strings.Cut(t, parkedSep)
	if !found {
		return t, ""
	}
	return lane, tag
}

// maxTag is the longest tag that a buffer takes.
const maxTag = 1<<16 - 1

// parkedOutput is the same output for batches whose tag is the lane.
type parkedOutput struct{ output.Output }

func (parkedOutput) Splitter() output.Splitter { return byTag{} }

// LaneOf implements output.TagLanes.
func (parkedOutput) LaneOf(tag string) (string, bool) {
	lane, _ := ParkedTag(tag)
	return lane, true
}

type byTag struct{}

func (byTag) Split(b event.Batch, add func([]byte, output.Run)) {
	lane, _ := ParkedTag(b.Tag)
	add([]byte(lane), output.Run{Len: len(b.Entries), Count: b.Count})
}
