// Package deliver takes batches out of a buffer and gets them to their destination: in
// order within each lane, as parallel as configured between lanes, again after a failure,
// and each event exactly once in the books.
//
//	buffer ──► reader ──► lanes ──ready──► workers: fill, send, settle ──► buffer's books
//	                        ▲                 │
//	                        └── timers ◄──────┘ linger, back-off
//
// The reader and the workers are the only goroutines; a lane is a struct. Deliverer.mu
// guards all of that; it is never held while bytes are encoded, sent or written.
package deliver

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/output"
)

// Options configures a Deliverer. ID, Buffer, Output and Log are required.
type Options struct {
	ID      string
	Buffer  *buffer.Buffer
	Output  output.Output
	Log     *slog.Logger
	Retry   Retry
	Linger  Linger
	Workers int // requests in flight; flush_thread_count, concurrency, max_in_flight; default 1

	// PerLane is how many of a lane's requests may be in flight at once; default 1. More
	// gives up the order of ties between requests.
	PerLane int

	Throttle  *Throttle      // shared by the outputs of one scope; may be nil
	Parking   *buffer.Buffer // where lanes that fail for long wait; nil: they are never parked
	Secondary output.Output  // takes what is given up; may be nil
}

// Linger says how long events wait for company.
type Linger struct {
	Interval time.Duration // flush_interval
	Bytes    int           // a lane holding this much raw data is due at once; default 1 MiB
	Events   int           // likewise; default 10 000
	// Hold, if set, gives the time until which a batch with this newest event time waits:
	// flush_mode lazy waits for the end of the timekey window. It replaces Interval.
	Hold func(newest event.Time) time.Time
}

// maxPieces bounds what waits in lanes: 56 bytes each. At the bound the reader pauses.
const maxPieces = 256 << 10

// readAhead is how many bytes of entries may wait in lanes that are due before the reader
// pauses: enough to keep every worker busy out of the buffer's recent frames.
const readAhead = 12 << 20

// Deliverer runs one output. Create it with New, then Start, then Stop.
type Deliverer struct {
	o    Options
	stat stats

	mu       sync.Mutex // guards everything below
	work     sync.Cond  // workers: something is ready, a turn has come, or the end
	room     sync.Cond  // reader: lanes have drained
	lanes    map[string]*lane
	sweepAt  int // number of lanes at which idle ones are looked for
	ready    []*lane
	readyAt  int // ready[:readyAt] are gone
	timers   timers
	timer    *time.Timer
	timerAt  int64
	pieces   int // waiting in all lanes
	dueBytes int // waiting in lanes of the ready queue
	inFlight int
	full     int // raw bytes that fill a request, learned
	gate     gate
	parking  *parkingLot // this delivery's, if it has one
	lot      *parkingLot // the lot that this is the slow delivery of
	draining bool        // Stop was called: everything is due
	readDone bool
	stopped  bool
	last     lastError

	ctx         context.Context // ends sends when the grace is over
	cancel      context.CancelFunc
	reading     context.Context // ends the reader
	stopReading context.CancelFunc
	wg          sync.WaitGroup
}

// gate closes the whole output while its endpoint or its credentials fail.
type gate struct {
	until    int64 // closed until then, Unix milliseconds
	streak   int   // failures of the endpoint in a row
	since    time.Time
	lost     int // requests that failed meanwhile
	shut     bool
	reason   output.Kind
	reported bool
}

type lastError struct {
	at   time.Time
	text string
}

// New prepares a Deliverer; nothing runs before Start.
func New(o Options) *Deliverer {
	o.Workers = max(o.Workers, 1)
	o.PerLane = max(o.PerLane, 1)
	if o.Linger.Bytes <= 0 {
		o.Linger.Bytes = 1 << 20
	}
	if o.Linger.Events <= 0 {
		o.Linger.Events = 10_000
	}
	d := &Deliverer{o: o, lanes: map[string]*lane{}, sweepAt: 1024, full: o.Linger.Bytes}
	d.work.L, d.room.L = &d.mu, &d.mu
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.reading, d.stopReading = context.WithCancel(d.ctx)
	d.timer = time.AfterFunc(time.Hour, d.tick)
	d.timer.Stop()
	if o.Parking != nil {
		d.parking = newParkingLot(d)
	}
	return d
}

// Start begins to read and send.
func (d *Deliverer) Start() {
	if d.parking != nil {
		d.parking.start()
	}
	d.wg.Go(d.read)
	// One goroutine more than requests in flight, up to four, so that the next body is
	// encoded while the previous ones are under way.
	for range d.o.Workers + min(d.o.Workers, 4) {
		d.wg.Go(d.run)
	}
}

// Stop flushes until everything has ended or ctx is done, then returns. The buffer must
// have been closed for appending, so that reading ends. What is left stays in the buffer.
// With giveUp, Stop does not wait for an endpoint that is failing: what is in a file
// buffer is safe there.
func (d *Deliverer) Stop(ctx context.Context, giveUp bool) {
	d.mu.Lock()
	d.draining = true
	d.allDue()
	d.gate.until = 0 // one more try at once
	d.arm()
	d.work.Broadcast()
	d.room.Broadcast()
	d.mu.Unlock()

	stop := context.AfterFunc(ctx, d.abort)
	defer stop()
	if giveUp {
		d.mu.Lock()
		for !d.stopped && !d.drained() && d.gate.until == 0 {
			d.work.Wait()
		}
		failing := d.gate.until > 0 && !d.drained()
		d.mu.Unlock()
		if failing {
			d.abort()
		}
	}
	d.wg.Wait()
	d.timer.Stop()
	d.cancel()
	if d.parking != nil {
		d.parking.stop(ctx, giveUp)
	}
}

// Halt stops without flushing: requests under way are answered and booked until ctx is
// done, everything else stays in the buffer, which another Deliverer can continue after
// Rewind.
func (d *Deliverer) Halt(ctx context.Context) {
	stop := context.AfterFunc(ctx, d.abort)
	defer stop()
	d.mu.Lock()
	d.stopped = true
	d.work.Broadcast()
	d.room.Broadcast()
	d.mu.Unlock()
	d.stopReading()
	d.wg.Wait()
	d.timer.Stop()
	d.cancel()
	if d.parking != nil {
		d.parking.slow.Halt(ctx)
	}
}

// abort ends everything now; requests under way are cut off.
func (d *Deliverer) abort() {
	d.mu.Lock()
	d.stopped = true
	d.work.Broadcast()
	d.room.Broadcast()
	d.mu.Unlock()
	d.cancel()
}

// drained says that nothing is left to do. Callers hold d.mu.
func (d *Deliverer) drained() bool {
	return d.readDone && d.pieces == 0 && d.inFlight == 0 && d.busy() == 0
}

func (d *Deliverer) busy() int {
	n := 0
	for _, l := range d.lanes {
		if l.building || len(l.flights) > 0 || l.waiting() > 0 {
			n++
		}
	}
	return n
}

// Flush makes everything that waits due now (SIGUSR1).
func (d *Deliverer) Flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		l.flush = l.events
	}
	d.allDue()
}

func (d *Deliverer) allDue() {
	for _, l := range d.lanes {
		if l.waiting() > 0 {
			d.schedule(l)
		}
	}
}

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
	before := l.waiting()
	l.push(p)
	d.pieces += l.waiting() - before
	if l.queued {
		d.dueBytes += int(p.Len)
		return
	}
	d.schedule(l)
}

// sweep forgets idle lanes, so that dynamic names do not grow memory for ever.
func (d *Deliverer) sweep() {
	for k, l := range d.lanes {
		if l.idle() {
			d.timers.drop(l)
			delete(d.lanes, k)
		}
	}
	d.sweepAt = max(1024, 2*len(d.lanes))
}

// schedule puts a lane with waiting pieces into the ready queue if it is due, else on the
// timer. Callers hold d.mu.
func (d *Deliverer) schedule(l *lane) {
	if l.queued || l.building || l.waiting() == 0 {
		return
	}
	if l.sending >= d.o.PerLane || len(l.flights) > l.sending {
		// The next body is encoded ahead only when it is full anyway: until the one under
		// way is answered, more may come for it.
		if len(l.flights) > l.sending || !d.isFull(l) {
			return
		}
	}
	now := time.Now().UnixMilli()
	due := d.dueAt(l)
	if l.backoff > due || due <= now && l.backoff > now {
		due = l.backoff
	}
	if due > now {
		d.timers.set(l, due)
		d.arm()
		return
	}
	d.timers.drop(l)
	l.queued = true
	d.dueBytes += l.bytes
	if d.readyAt > 256 && d.readyAt*2 > len(d.ready) {
		d.ready = append(d.ready[:0], d.ready[d.readyAt:]...)
		d.readyAt = 0
	}
	d.ready = append(d.ready, l)
	d.work.Broadcast()
}

func (d *Deliverer) isFull(l *lane) bool {
	return l.bytes >= min(d.full, d.o.Linger.Bytes) || l.events >= d.o.Linger.Events
}

// dueAt is when the lane's oldest piece has waited long enough.
func (d *Deliverer) dueAt(l *lane) int64 {
	if d.draining || l.flush > 0 || l.parked || l.attempts > 0 || l.limit > 0 || d.isFull(l) {
		return 0
	}
	return l.due()
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
	if at == 0 || d.timerAt != 0 && d.timerAt <= at {
		return
	}
	d.timerAt = at
	d.timer.Reset(max(time.Until(time.UnixMilli(at)), 0))
}

// tick is the timer's function.
func (d *Deliverer) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timerAt = 0
	now := time.Now().UnixMilli()
	for len(d.timers) > 0 && d.timers[0].wake <= now {
		l := heap.Pop(&d.timers).(*lane)
		d.schedule(l)
	}
	if d.gate.until > 0 && d.gate.until <= now {
		d.gate.until = 0
	}
	d.work.Broadcast()
	d.arm()
}
