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
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
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

	// ReadAhead is how many bytes of entries may wait in lanes that are due, or during an
	// outage in all of them, before the reader pauses. What it has read a full buffer can no longer drop as its oldest, so it
	// should be a small part of the buffer's limit. Default, and at most, 12 MiB: enough to
	// keep every worker busy out of the buffer's recent frames.
	ReadAhead int

	// Circular says that a full Buffer gives up its oldest. Delivery then claims no more than
	// an eighth of its limit, or one request of an output that is Sized: what waits in lanes,
	// due or not, and in requests.
	Circular bool

	// Pause is flush_thread_burst_interval: how long a worker waits after each request. Zero,
	// where a file does not ask for it.
	Pause time.Duration

	// SlowFlush is slow_flush_log_threshold: requests that take longer are counted and
	// reported; 0: none.
	SlowFlush time.Duration

	// Tell says that a lane is told what it has lost: a notice stands at the place of the
	// gap. Buffer must have its Tell set too, and the requests of Output must be Tellers.
	Tell bool

	// Slots bounds the requests of all Deliverers that share it; nil: each has its Workers.
	// With it a Deliverer keeps little memory while it is idle.
	Slots *Slots

	Throttle  *Throttle      // shared by the outputs of one scope; may be nil
	Parking   *buffer.Buffer // where lanes that fail for long wait; nil: they are never parked
	Secondary output.Output  // takes what is given up; may be nil
}

// Linger says how long events wait for company.
type Linger struct {
	Interval time.Duration // flush_interval
	Bytes    int           // a lane holding this much raw data is due at once; default: what fills a request, at most 8 MiB unless the output is Sized
	Events   int           // likewise; default 10 000, or none for an output that is Sized
	// Hold, if set, gives the time until which a batch with this newest event time waits:
	// flush_mode lazy waits for the end of the timekey window. The later of it and Interval holds.
	Hold func(newest event.Time) time.Time
}

// maxPieces bounds what waits in lanes: 56 bytes each. At the bound the reader pauses.
const maxPieces = 256 << 10

// manyPieces is the same where many Deliverers share Slots.
const manyPieces = 16 << 10

// readAhead is the default of Options.ReadAhead.
const readAhead = 12 << 20

// minClaim is the least that a Deliverer claims of a small Circular buffer.
const minClaim = 16 << 10

// Deliverer runs one output. Create it with New, then Start, then Stop.
type Deliverer struct {
	o     Options
	stat  stats
	epoch time.Time // from which lanes count time

	mu       sync.Mutex // guards everything below
	work     sync.Cond  // idle workers: a lane is ready, or the end
	turns    sync.Cond  // workers with a request: its turn may have come, or the end
	room     sync.Cond  // reader: lanes have drained
	lanes    map[string]*lane
	sweepAt  int // number of lanes at which idle ones are looked for
	ready    []*lane
	readyAt  int // ready[:readyAt] are gone
	timers   timers
	timer    *time.Timer
	timerAt  int64
	window   int // most pieces that may wait: maxPieces, but for tests
	pieces   int // waiting in all lanes
	marks    int // of them
	bytes    int // of entries waiting in all lanes
	carried  int // of entries in requests
	claim    int // most of both together before the reader pauses
	dueBytes int // likewise in lanes of the ready queue
	building int // lanes that a worker is filling a request from
	flights  int // requests built or being sent
	inFlight int // requests being sent
	resting  int // places taken by the pause after a request
	full     int // raw bytes that fill a request, learned unless sized
	sized    bool
	tags     bool            // requests are told the tags of their events
	tagLanes output.TagLanes // nil: the lane of a tag is not known
	held     atomic.Int64    // parts that wait for their notices
	kept     int             // pieces for which lanes that wait for nothing keep memory
	relieved time.Time
	gate     gate
	parking  *parkingLot // this delivery's, if it has one
	lot      *parkingLot // the lot that this is the slow delivery of
	hurry    bool        // everything is due at once
	draining bool        // Stop was called: it ends when everything has ended
	giveUp   bool        // … or does nothing but fail
	left     int         // pieces of lanes that were given up for this run
	readDone bool
	readTo   buffer.Seq // what the lanes have got
	stopped  bool
	stopping chan struct{} // closed when workers need no slot any more
	over     bool          // it is
	last     lastError

	ctx         context.Context // ends sends when the grace is over
	cancel      context.CancelFunc
	reading     context.Context // ends the reader
	stopReading context.CancelFunc
	wg          sync.WaitGroup
}

// gate closes the whole output while its endpoint or its credentials fail.
type gate struct {
	until    int64 // closed until then
	streak   int   // failures of the endpoint in a row
	sole     *lane // the only lane that has failed so; nil: there are more, or it is the output's trouble
	since    time.Time
	lost     int // requests that failed meanwhile
	tries    int // times that it was closed
	shut     bool
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
	if o.ReadAhead <= 0 || o.ReadAhead > readAhead {
		o.ReadAhead = readAhead
	}
	d := &Deliverer{lanes: map[string]*lane{}, sweepAt: 1024, window: maxPieces, epoch: time.Now().Add(-time.Second)}
	most, events, first := maxFull, 10_000, firstFull
	if s, ok := o.Output.(output.Sized); ok {
		d.sized = true
		most, events = max(s.RequestBytes(), 1), 1<<30
		first = most
	}
	d.tagLanes, _ = o.Output.(output.TagLanes)
	if t, ok := o.Output.(output.Tagged); ok {
		d.tags = t.UsesTags()
	}
	if o.Linger.Bytes <= 0 {
		o.Linger.Bytes = most
	}
	if o.Linger.Events <= 0 {
		o.Linger.Events = events
	}
	d.claim = math.MaxInt
	if o.Circular {
		d.claim = max(int(min(o.Buffer.Stats().Limit/8, math.MaxInt32)), minClaim)
		if d.sized {
			d.claim = max(d.claim, o.Linger.Bytes)
		}
		o.ReadAhead = min(o.ReadAhead, d.claim)
	}
	if o.Slots != nil {
		d.window = manyPieces
	}
	d.stopping = make(chan struct{})
	d.o, d.full = o, min(o.Linger.Bytes, first)
	d.work.L, d.turns.L, d.room.L = &d.mu, &d.mu, &d.mu
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

// Hurry makes everything due that waits or comes, for as long as this runs: before a stop
// nobody should wait for company.
func (d *Deliverer) Hurry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hurry = true
	d.allDue()
}

// Stop flushes until everything has ended or ctx is done, then returns. The buffer must
// have been closed for appending, so that reading ends. What is left stays in the buffer.
// With giveUp, Stop does not wait for an endpoint or for lanes that do nothing but fail:
// what is in a file buffer is safe there.
func (d *Deliverer) Stop(ctx context.Context, giveUp bool) {
	d.mu.Lock()
	d.hurry, d.draining, d.giveUp = true, true, giveUp
	for _, l := range d.lanes {
		l.backoff = 0 // one more try at once
	}
	d.gate.until = 0
	d.allDue()
	d.wakeAll()
	d.mu.Unlock()

	stop := context.AfterFunc(ctx, d.abort)
	d.wg.Wait()
	stop()
	d.end()
	if d.parking != nil {
		d.parking.stop(ctx, giveUp)
	}
}

// Halt stops without flushing: requests under way are answered and booked until ctx is
// done, everything else stays in the buffer, which another Deliverer can continue after
// Rewind.
func (d *Deliverer) Halt(ctx context.Context) {
	stop := context.AfterFunc(ctx, d.abort)
	d.mu.Lock()
	d.stopped = true
	d.wakeAll()
	d.mu.Unlock()
	d.stopReading()
	d.wg.Wait()
	stop()
	d.end()
	if d.parking != nil {
		d.parking.slow.Halt(ctx)
	}
}

// abort ends everything now; requests under way are cut off.
func (d *Deliverer) abort() {
	d.mu.Lock()
	d.stopped = true
	d.wakeAll()
	d.mu.Unlock()
	d.cancel()
}

// end frees what is left when all goroutines have ended.
func (d *Deliverer) end() {
	d.mu.Lock()
	d.stopped = true
	d.timer.Stop()
	d.mu.Unlock()
	d.cancel()
}

// wakeAll makes everybody look again. Callers hold d.mu.
func (d *Deliverer) wakeAll() {
	if !d.over && (d.stopped || d.drained()) {
		d.over = true
		close(d.stopping)
	}
	d.work.Broadcast()
	d.turns.Broadcast()
	d.room.Broadcast()
}

// drained says that nothing is left to do. Callers hold d.mu.
func (d *Deliverer) drained() bool {
	return d.draining && d.readDone && d.pieces == d.left+d.shelved() && d.building == 0 && d.flights == 0
}

// shelved counts the marks of parked lanes: their notices stay in the buffer. Callers hold
// d.mu.
func (d *Deliverer) shelved() (n int) {
	if d.marks == 0 || d.parking == nil {
		return 0
	}
	for _, l := range d.lanes {
		if l.parked && !l.givenUp {
			n += l.marks
		}
	}
	return n
}

// Flush makes everything that waits due now (SIGUSR1).
func (d *Deliverer) Flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		if n := len(l.pieces); n > l.head {
			l.flushTo = l.pieces[n-1].Seq
		}
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
