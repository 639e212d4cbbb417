package deliver

import (
	"context"
	"errors"
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

	mu    sync.Mutex
	held  map[string]int // events of each lane in the lot
	upTo  buffer.Seq     // what the lot held at the start ends here
	known chan struct{}  // closed once that has been read
}

func newParkingLot(main *Deliverer) *parkingLot {
	p := &parkingLot{main: main, held: map[string]int{}, known: make(chan struct{})}
	o := main.o
	o.ID += ".parked"
	o.Buffer, o.Parking = main.o.Parking, nil
	o.Output = parkedOutput{main.o.Output}
	o.Workers, o.PerLane, o.Linger = 1, 1, Linger{}
	o.Retry.ParkAfter = 0
	o.Retry.Wait = max(o.Retry.Wait, 5*time.Second)
	o.Retry.Max = max(o.Retry.Max, time.Minute)
	p.slow = New(o)
	p.slow.lot = p
	return p
}

// start begins delivery from the lot. It returns when the lanes are known that the lot
// holds from before: their newer events must not overtake.
func (p *parkingLot) start() {
	p.upTo = p.main.o.Parking.Stats().Stored
	if p.main.o.Parking.Stats().PendingEvents == 0 {
		close(p.known)
	}
	p.slow.Start()
	<-p.known
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

// read notes what the slow delivery has read from before the start.
func (p *parkingLot) read(lane string, ref buffer.Ref) {
	if ref.Seq > p.upTo {
		return // counted when it was moved here
	}
	p.mu.Lock()
	p.held[lane] += int(ref.Count)
	p.mu.Unlock()
}

// readUpTo is called after each block.
func (p *parkingLot) readUpTo(last buffer.Seq, end bool) {
	select {
	case <-p.known:
	default:
		if end || last >= p.upTo {
			close(p.known)
		}
	}
}

// ended notes that events of a lane have left the lot. The last one gives the lane back to
// the main delivery.
func (p *parkingLot) ended(lane string, n int) {
	p.mu.Lock()
	p.held[lane] -= n
	empty := p.held[lane] <= 0
	if empty {
		delete(p.held, lane)
	}
	p.mu.Unlock()
	if !empty {
		return
	}
	d := p.main
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lanes[lane]; l != nil && l.parked {
		l.parked, l.backoff = false, 0
		d.o.Log.Info("a parked lane is back", "output", d.o.ID, "lane", printable(lane))
		d.schedule(l)
	}
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
		d.settle(f.parts)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.putBack(l, f.pieces[moved:])
	l.building = false
	if err != nil {
		l.backoff = time.Now().Add(5 * time.Second).UnixMilli()
		if !errors.Is(err, context.Canceled) {
			d.stat.lotFull(d.o.Log, d.o.ID, err)
		}
	}
	d.schedule(l)
	d.room.Signal()
}

// store appends the pieces to the lot and waits until they are stored there.
func (p *parkingLot) store(f *flight) (moved int, err error) {
	d := p.main
	var last buffer.Seq
	for i := range f.pieces {
		v, err := d.o.Buffer.View(f.pieces[i].Ref)
		if err != nil {
			d.unreadable(f, i, err)
			break
		}
		count, first, end, _, _ := event.Check(v.Bytes)
		b := event.Batch{Tag: f.lane.key, Entries: v.Bytes, Count: count, First: first, Last: end}
		p.mu.Lock()
		p.held[b.Tag] += count
		p.mu.Unlock()
		seq, err := d.o.Parking.Append(d.ctx, b)
		v.Release()
		if err != nil {
			p.mu.Lock()
			p.held[b.Tag] -= count
			p.mu.Unlock()
			if moved == 0 {
				return 0, err
			}
			break
		}
		last, moved = seq, i+1
	}
	if moved > 0 {
		err = d.o.Parking.WaitStored(d.ctx, uint64(last))
		if err != nil {
			return 0, err
		}
	}
	return moved, nil
}

// park decides whether a failing lane is parked. Callers hold d.mu.
func (d *Deliverer) park(l *lane, e *output.Error, now time.Time) {
	after := d.o.Retry.ParkAfter
	if d.parking == nil || after <= 0 || l.parked || d.gate.shut || now.Sub(l.failing) < after {
		return
	}
	switch e.Kind {
	case output.Denied, output.NoTarget, output.Throttled, output.Unavailable:
		l.parked, l.backoff, l.limit = true, 0, 0
		d.stat.laneParked(d.o.Log, d.o.ID, l, e)
		l.attempts, l.failing = 0, time.Time{}
	}
}

// parkedOutput is the same output for batches whose tag is the lane.
type parkedOutput struct{ output.Output }

func (parkedOutput) Splitter() output.Splitter { return byTag{} }

type byTag struct{}

func (byTag) Split(b event.Batch, add func([]byte, output.Run)) {
	add([]byte(b.Tag), output.Run{Len: len(b.Entries), Count: b.Count})
}
