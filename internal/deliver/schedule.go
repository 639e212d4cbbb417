package deliver

import (
	"container/heap"
	"time"
)

// Bounds of what is taken to fill a request, in raw bytes.
const (
	minFull   = 64 << 10
	firstFull = 1 << 20
	maxFull   = 8 << 20
)

// keptPieces bounds the memory that empty lanes keep for their next pieces: 3.5 MiB.
const keptPieces = 64 << 10

// keptByMany is the same where many Deliverers share Slots.
const keptByMany = 32

// enqueue puts a piece into its lane. Callers hold d.mu.
func (d *Deliverer) enqueue(key []byte, p piece) {
	l := d.lanes[string(key)]
	if l == nil {
		if len(d.lanes) >= d.sweepAt {
			d.sweep()
		}
		l = &lane{key: string(key), heapIdx: -1}
		d.lanes[l.key] = l
		if d.parking != nil && d.parking.holds(l.key) {
			l.parked = true
		}
	}
	before, marks := l.waiting(), l.marks
	l.push(p)
	d.count(l, l.waiting()-before, int(p.Len))
	d.marks += l.marks - marks
	if l.queued || l.heapIdx >= 0 && l.marks == 0 && !d.isFull(l) {
		return // it waits for its turn, or for a moment that this piece does not change
	}
	d.schedule(l)
}

// count notes that n pieces of some bytes have come to a lane, or gone. Callers hold d.mu.
func (d *Deliverer) count(l *lane, n, bytes int) {
	d.pieces += n
	d.bytes += bytes
	if n > 0 {
		d.kept -= l.kept
		l.kept = 0
	}
	if l.givenUp {
		d.left += n
	}
	if l.queued {
		d.dueBytes += bytes
	}
}

// putBack puts pieces before everything else that waits in a lane. Callers hold d.mu.
func (d *Deliverer) putBack(l *lane, ps []piece) {
	before, bytes, marks := l.waiting(), l.bytes, l.marks
	l.untake(ps)
	d.count(l, l.waiting()-before, l.bytes-bytes)
	d.marks += l.marks - marks
}

// trim lets a lane without pieces keep its memory for the next ones within a bound common
// to all. Callers hold d.mu.
func (d *Deliverer) trim(l *lane) {
	if l.waiting() > 0 || l.kept > 0 {
		return
	}
	most := keptPieces
	if d.o.Slots != nil {
		most = keptByMany
	}
	if d.kept+cap(l.pieces) > most {
		l.pieces, l.head = nil, 0
		return
	}
	l.kept = cap(l.pieces)
	d.kept += l.kept
}

// sweep forgets idle lanes, so that dynamic names do not grow memory for ever.
func (d *Deliverer) sweep() {
	for k, l := range d.lanes {
		if l.idle() {
			d.timers.drop(l)
			d.kept -= l.kept
			delete(d.lanes, k)
		}
	}
	d.sweepAt = max(1024, 2*len(d.lanes))
}

// schedule puts a lane with waiting pieces into the ready queue if it is due, else on the
// timer. Callers hold d.mu.
func (d *Deliverer) schedule(l *lane) {
	if l.queued || l.building || l.givenUp || l.waiting() == 0 {
		return
	}
	if l.parked && l.marks == l.waiting() {
		return // its events are in the parking lot: notices must not overtake them
	}
	if len(l.flights) > l.sending || l.sending >= d.o.PerLane && !d.isFull(l) {
		// The next body is encoded ahead only when it is full anyway: until the one under
		// way is answered, more may come for it.
		return
	}
	now := d.at(time.Now())
	if due := max(d.dueAt(l), l.backoff); due > now {
		d.timers.set(l, due)
		d.arm()
		return
	}
	d.timers.drop(l)
	l.queued = true
	d.dueBytes += l.bytes
	if d.readyAt > 256 && d.readyAt*2 > len(d.ready) {
		n := copy(d.ready, d.ready[d.readyAt:])
		clear(d.ready[n:])
		d.ready, d.readyAt = d.ready[:n], 0
	}
	d.ready = append(d.ready, l)
	if g := &d.gate; g.sole != nil && g.sole != l && g.until > 0 {
		g.until = 0 // it was one lane's trouble as far as is known: this one finds out
		d.turns.Broadcast()
	}
	d.work.Signal()
}

// servable says whether popReady may find something. Callers hold d.mu.
func (d *Deliverer) servable() bool {
	if d.gate.until > 0 {
		return false
	}
	if d.o.Slots != nil { // nothing is built that would wait with its slot
		busy := d.flights + d.building
		if d.gate.shut && busy > 0 || d.o.Pause > 0 && !d.draining && busy+d.resting >= d.o.Workers {
			return false
		}
	}
	return d.readyAt < len(d.ready)
}

// popReady takes the next lane that may be served now out of the ready queue; nil if there
// is none. Callers hold d.mu.
func (d *Deliverer) popReady() *lane {
	if !d.servable() {
		return nil
	}
	for d.readyAt < len(d.ready) {
		l := d.ready[d.readyAt]
		d.ready[d.readyAt] = nil
		d.readyAt++
		if d.readyAt == len(d.ready) {
			d.ready, d.readyAt = d.ready[:0], 0
		}
		l.queued = false
		d.dueBytes -= l.bytes
		if !l.givenUp && (l.backoff == 0 || l.backoff <= d.at(time.Now())) {
			return l
		}
		d.schedule(l) // another request of it has failed meanwhile
	}
	return nil
}

func (d *Deliverer) isFull(l *lane) bool {
	return l.bytes >= min(d.full, d.o.Linger.Bytes) || l.events >= d.o.Linger.Events
}

// learn adapts what is taken to fill a request to what really does.
func (d *Deliverer) learn(raw int, fill float64) {
	if d.sized || fill < 0.1 || raw <= 0 {
		return // too little to tell, or it was closed for another reason than its size
	}
	d.full = (3*d.full + min(max(int(float64(raw)/fill), minFull), maxFull)) / 4
}

// crowded says that so much is waiting, due or not, that the reader must not go on. Callers
// hold d.mu.
func (d *Deliverer) crowded() bool {
	return d.pieces-d.left >= d.window || d.bytes+d.carried >= d.claim
}

// hasten makes the lane due that holds the most, when so much waits for company that the
// reader cannot go on, and nothing else would make room: with flush_mode lazy that could
// take until the end of the window. Callers hold d.mu.
func (d *Deliverer) hasten() {
	if !d.crowded() || d.dueBytes > 0 || d.building > 0 || d.flights > 0 {
		return
	}
	var most *lane
	for _, l := range d.lanes {
		if l.attempts == 0 && !l.givenUp && !l.parked && l.waiting() > 0 && (most == nil || fuller(l, most)) {
			most = l
		}
	}
	if most != nil {
		most.flushTo = most.pieces[len(most.pieces)-1].Seq
		d.schedule(most)
	}
}

// fuller says whether l holds more than m, in bytes, or else in pieces.
func fuller(l, m *lane) bool {
	return l.bytes > m.bytes || l.bytes == m.bytes && l.waiting() > m.waiting()
}

// dueAt is when the lane's oldest piece has waited long enough.
func (d *Deliverer) dueAt(l *lane) int64 {
	if l.marks > 0 && l.marks == l.waiting() && l.pieces[l.head].loss.refused > 1 && !d.draining {
		return l.due() // a notice that is not taken must not be tried all the time
	}
	if d.hurry || l.parked || l.attempts > 0 || l.limit > 0 || d.isFull(l) {
		return 0
	}
	if l.pieces[l.head].Seq <= l.flushTo && !(l.marks == l.waiting() && d.readTo < d.o.Buffer.Stats().Stored) {
		return 0 // but with a notice goes what the reader is about to bring
	}
	return l.due()
}

// at is a moment as the lanes keep it: milliseconds since shortly before the start, which a
// change of the clock on the wall does not touch. 0 stands for none.
func (d *Deliverer) at(t time.Time) int64 { return t.Sub(d.epoch).Milliseconds() }

// moment is the reverse of at.
func (d *Deliverer) moment(at int64) time.Time {
	return d.epoch.Add(time.Duration(at) * time.Millisecond)
}

// arm sets the timer to the earliest moment anything waits for. Callers hold d.mu.
func (d *Deliverer) arm() {
	var at int64
	if len(d.timers) > 0 {
		at = d.timers[0].wake
	}
	if d.gate.until > 0 && (at == 0 || d.gate.until < at) {
		at = d.gate.until
	}
	if at == 0 || d.stopped || d.timerAt != 0 && d.timerAt <= at {
		return
	}
	d.timerAt = at
	d.timer.Reset(max(time.Until(d.moment(at)), 0))
}

// tick is the timer's function.
func (d *Deliverer) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	d.timerAt = 0
	now := d.at(time.Now())
	for len(d.timers) > 0 && d.timers[0].wake <= now {
		l := heap.Pop(&d.timers).(*lane)
		d.schedule(l)
	}
	if d.gate.until > 0 && d.gate.until <= now {
		d.gate.until = 0
		d.work.Broadcast()
		d.turns.Broadcast()
	}
	d.arm()
}
