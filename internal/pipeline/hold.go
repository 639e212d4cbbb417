package pipeline

import (
	"context"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/input"
)

// Hold is a filter.Holder at work in a route: it takes batches in like a buffer, keeps
// events back, and passes on by itself what is complete. Who holds an event holds its
// acknowledgement: the Receipt of a batch waits until all of it has been passed on, and
// then for the places where it went.
//
// A batch is taken by all targets and holds on its way or by none. What comes out later can
// be refused by a full buffer: then the hold keeps it and tries again, in order, and as
// soon as it has as much as it may it refuses batches itself.
type Hold struct {
	o       HoldOptions
	in      *Ingress // routes what comes out
	shards  []*shard
	waiting atomic.Int64 // batches that are not passed on whole
	held    atomic.Int64 // events
	hurried atomic.Bool
	crowded doubling
	seed    maphash.Seed
	crc     *crc32.Table
}

// HoldOptions configures a Hold. ID, Holder and Log are required.
type HoldOptions struct {
	ID     string
	Holder filter.Holder
	Log    *slog.Logger // its lines name the filter
	// Late finds where what took too long goes by its tag (timeout_label); nil as a result
	// means that no <match> takes it. Without Late and with LateIsError it goes to Errors,
	// if there are any; else it goes on like what is complete.
	Late        func(tag string) *Node
	LateIsError bool
	Errors      *Routes // of the label @ERROR; nil: there is none
	Nowhere     *Target // books what no <match> takes
	// Known says whether a target stored a batch with this Chunk before a restart.
	Known func(event.Chunk) bool
	// Limit is how many bytes may wait to be worked off, and how many may be kept;
	// default DefaultHoldLimit.
	Limit int64
}

const (
	// holdShards is how many goroutines a hold has.
	holdShards = 4
	// DefaultHoldLimit is HoldOptions.Limit without one.
	DefaultHoldLimit = 32 << 20
	// maxGroups is how many streams a hold keeps events of.
	maxGroups = 64 << 10
	// hurryWait is how long events are kept once weir is stopping.
	hurryWait = 100 * time.Millisecond
)

// Door is the way into a Hold for the events of one tag.
type Door struct {
	Hold *Hold
	Next *Node // where they go on
}

// NewHold makes a Hold. It takes batches at once and works them off when it runs.
func NewHold(o HoldOptions) *Hold {
	if o.Limit <= 0 {
		o.Limit = DefaultHoldLimit
	}
	h := &Hold{o: o, seed: maphash.MakeSeed(), crc: crc32.MakeTable(crc32.Castagnoli), in: New(Options{Log: o.Log, Errors: o.Errors, Nowhere: o.Nowhere})}
	h.shards = make([]*shard, holdShards)
	for i := range h.shards {
		h.shards[i] = newShard(h, i, o.Limit/int64(len(h.shards)))
	}
	return h
}

// shard is a part of a Hold with its own goroutine; a tag belongs to one of them.
type shard struct {
	h     *Hold
	id    string // reservations are ordered by it
	limit int64
	wake  chan struct{} // there is something to do

	mu       sync.Mutex // guards what follows
	queue    []delivery
	queued   int64 // bytes of queue, and of reservations
	room     []chan struct{}
	flush    bool  // end all groups
	refused  error // what comes out is refused just now
	stopping bool

	keep keeping // of the goroutine
}

func newShard(h *Hold, i int, limit int64) *shard {
	s := &shard{h: h, id: fmt.Sprintf("filter %s %d", h.o.ID, i), limit: limit, wake: make(chan struct{}, 1)}
	s.keep = keeping{s: s, tags: map[string]*tagged{}, tickets: map[uint64]*ticket{}, start: time.Now()}
	return s
}

// delivery is one batch on its way into a shard. It owns its bytes.
type delivery struct {
	batch    event.Batch
	door     *Door
	ticket   *ticket
	depth    int
	nth      int // of the batches of one message
	optional bool
	erring   bool
}

func (h *Hold) shard(tag string) *shard {
	return h.shards[maphash.String(h.seed, tag)%uint64(len(h.shards))]
}

// reserve makes room for n bytes, or fails as a buffer does: with input.ErrRefused when
// what comes out is refused, else it waits.
func (s *shard) reserve(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		if s.stopping {
			s.mu.Unlock()
			return fmt.Errorf("filter %s is stopping: %w", s.h.o.ID, input.ErrRefused)
		}
		if s.queued == 0 || s.queued+int64(n) <= s.limit {
			s.queued += int64(n)
			s.mu.Unlock()
			return nil
		}
		if err := s.refused; err != nil {
			s.mu.Unlock()
			return fmt.Errorf("filter %s holds %d bytes that cannot be passed on: %w: %w", s.h.o.ID, s.queued, input.ErrRefused, err)
		}
		room := make(chan struct{})
		s.room = append(s.room, room)
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			s.mu.Lock()
			s.room = slices.DeleteFunc(s.room, func(c chan struct{}) bool { return c == room }) // or they add up while nothing moves
			s.mu.Unlock()
			return fmt.Errorf("wait for room in filter %s: %w", s.h.o.ID, ctx.Err())
		}
	}
}

// unreserve gives room back.
func (s *shard) unreserve(n int) {
	s.mu.Lock()
	s.queued -= int64(n)
	s.wakeAll()
	s.mu.Unlock()
	s.kick()
}

// wakeAll lets everybody look again who waits for room. Callers hold mu.
func (s *shard) wakeAll() {
	for _, c := range s.room {
		close(c)
	}
	s.room = s.room[:0]
}

// commit takes a batch for which reserve has succeeded.
func (s *shard) commit(d delivery) *ticket {
	d.batch.Entries = append([]byte(nil), d.batch.Entries...)
	d.ticket = &ticket{done: make(chan struct{})}
	s.h.waiting.Add(1)
	s.h.held.Add(int64(d.batch.Count))
	s.mu.Lock()
	s.queue = append(s.queue, d)
	s.mu.Unlock()
	s.kick()
	return d.ticket
}

func (s *shard) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ticket is what a Receipt waits for in a Hold. It implements input.Store.
type ticket struct {
	refs   int           // groups that hold events of the batch; of the shard's goroutine
	done   chan struct{} // closed when all has been passed on
	places []input.Place // where it went; read after done
	err    error         // it was given up
}

// add notes a place. Being stored is a comparison: of each store the last place counts.
func (t *ticket) add(p input.Place) {
	for i := range t.places {
		if t.places[i].Store == p.Store {
			t.places[i].Seq = max(t.places[i].Seq, p.Seq)
			return
		}
	}
	t.places = append(t.places, p)
}

func (t *ticket) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	default:
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("wait for events that a filter holds: %w", ctx.Err())
	}
}

// WaitStored implements input.Store: the batch has been passed on, and is stored wherever
// it went.
func (t *ticket) WaitStored(ctx context.Context, _ uint64) error {
	if err := t.wait(ctx); err != nil {
		return err
	}
	for _, p := range t.places {
		if err := p.Store.WaitStored(ctx, p.Seq); err != nil {
			return err
		}
	}
	return nil
}

// WaitDelivered implements input.Store.
func (t *ticket) WaitDelivered(ctx context.Context, _ uint64) error {
	if err := t.wait(ctx); err != nil {
		return err
	}
	for _, p := range t.places {
		if err := p.Store.WaitDelivered(ctx, p.Seq); err != nil {
			return err
		}
	}
	return nil
}

// Holds are the holds of one configuration: they start and end together.
type Holds struct {
	mu      sync.Mutex // guards list, which routes add to while they are found
	list    []*Hold
	started bool
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
}

// NewHolds makes a set without holds.
func NewHolds() *Holds {
	s := &Holds{}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Add adds a hold; it runs as soon as Start was called.
func (s *Holds) Add(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, h)
	if s.started {
		s.run(h)
	}
}

// Start begins to work off what was taken.
func (s *Holds) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return
	}
	s.started = true
	for _, h := range s.list {
		s.run(h)
	}
}

func (s *Holds) run(h *Hold) {
	for _, sh := range h.shards {
		s.running.Go(func() { sh.run(s.ctx) })
	}
}

func (s *Holds) all() []*Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Hold(nil), s.list...)
}

// Each gives every hold with the number of events that it has taken and not passed on yet:
// they are in no book.
func (s *Holds) Each(do func(id string, held int64)) {
	for _, h := range s.all() {
		do(h.o.ID, h.held.Load())
	}
}

// Flush passes on what is kept just now.
func (s *Holds) Flush() {
	for _, h := range s.all() {
		for _, sh := range h.shards {
			sh.mu.Lock()
			sh.flush = true
			sh.mu.Unlock()
			sh.kick()
		}
	}
}

// Hurry passes on what is kept, and from now on keeps nothing for more than a moment:
// senders wait for it.
func (s *Holds) Hurry() {
	for _, h := range s.all() {
		h.hurried.Store(true)
	}
	s.Flush()
}

// Idle waits until everything that was taken has been passed on. False: ctx ended first.
func (s *Holds) Idle(ctx context.Context) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		busy := false
		for _, h := range s.all() {
			busy = busy || h.waiting.Load() > 0
		}
		if !busy {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// Stop passes on what is kept until ctx ends, and ends the holds. What could not be passed
// on is booked as dropped; senders that wait for it get no acknowledgement. Nothing may be
// emitted any more.
func (s *Holds) Stop(ctx context.Context) {
	s.Start()
	s.Hurry()
	s.Idle(ctx)
	s.stop()
	s.running.Wait()
}
