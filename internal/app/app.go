package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"weir/internal/deliver"
	"weir/internal/ledger"
	"weir/internal/output/cloudwatch"
	"weir/internal/pipeline"
)

// DefaultHTTP is where the status page is served unless told otherwise.
const DefaultHTTP = "127.0.0.1:24280"

// Options configures an App. Log is required.
type Options struct {
	Log     *slog.Logger
	Version string
	// HTTP is the address of the status page: "" for DefaultHTTP, which may be taken
	// without harm, "off" for none; any other address must be free.
	HTTP string
	// Stdin and Stdout are for the plug-ins of these names; default the process's own.
	Stdin  io.Reader
	Stdout io.Writer

	turnAfter time.Duration // for live_first; default turnAfter
}

// App is a running weir.
type App struct {
	o       Options
	started time.Time
	web     *webServer
	own     *ownLog
	done    chan struct{} // closed when all inputs have ended by themselves

	mu        sync.Mutex // guards what follows; held through a reload
	gen       *generation
	inputs    []*runningInput
	throttles map[string]*deliver.Throttle
	shared    shared
	unmatched *ledger.Book
	stopped   bool
	ready     bool               // everything has started
	loaded    time.Time          // when the configuration was read
	stopping  context.CancelFunc // ends the inputs
	ctx       context.Context    // of the inputs
	running   sync.WaitGroup     // inputs
	retiring  sync.WaitGroup     // outputs that a reload has removed
	holding   sync.WaitGroup     // holds that a reload has replaced
	importing sync.WaitGroup     // importers of what Fluentd left; they end with the buffers
	retireCtx context.Context    // ends what they may still do
	endRetire context.CancelFunc
}

// generation is what one configuration has running behind the inputs.
type generation struct {
	plan    *Plan
	outputs map[*outputPlan]*runningOutput
	order   []*runningOutput // as in the file
	routes  *resolver
}

// holds are the filters that hold events; none before the outputs are built.
func (g *generation) holds() *pipeline.Holds {
	if g.routes == nil {
		return pipeline.NewHolds()
	}
	return g.routes.holds
}

// New prepares an App for a plan that has no errors. Nothing is opened.
func New(plan *Plan, o Options) (*App, error) {
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.turnAfter <= 0 {
		o.turnAfter = turnAfter
	}
	a := &App{o: o, throttles: map[string]*deliver.Throttle{}, shared: shared{tokens: cloudwatch.NewTokens()}, unmatched: &ledger.Book{}, done: make(chan struct{})}
	a.own = newOwnLog(o.Log)
	a.own.reach.Store(plan.logReach())
	a.o.Log = a.own.logger()
	a.ctx, a.stopping = context.WithCancel(context.Background())
	a.retireCtx, a.endRetire = context.WithCancel(context.Background())
	a.gen = &generation{plan: plan}
	return a, nil
}

// Start opens everything in an order in which nothing flows before all of it is open: an
// error leaves nothing behind.
func (a *App) Start() error {
	var undo cleanups
	err := a.start(&undo)
	if err != nil {
		undo.run() // without the lock: the status page waits for it
		a.mu.Lock()
		defer a.mu.Unlock()
		a.inputs, a.web = nil, nil
	}
	return err
}

func (a *App) start(undo *cleanups) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started = time.Now()
	a.loaded = a.started
	if a.web, err = startWeb(a); err != nil {
		return err
	}
	undo.add(a.web.close)
	for _, s := range a.gen.plan.Sources {
		in, err := a.newInput(s)
		if err != nil {
			return err
		}
		if err := in.in.Open(); err != nil {
			return fmt.Errorf("open source %s at %s: %w", s.id, s.pos, err)
		}
		undo.add(in.close)
		a.inputs = append(a.inputs, in)
	}
	g, err := a.build(a.gen.plan, nil)
	if err != nil {
		return err
	}
	a.gen = g
	for _, r := range g.order {
		r.start()
	}
	a.mu.Unlock() // the status page and Stop need it
	a.importLeft(g)
	a.mu.Lock()
	if a.stopped {
		return errStopped
	}
	g.routes.holds.Start()
	a.own.set(g)
	a.own.start()
	for _, in := range a.inputs {
		a.runInput(in)
	}
	a.ready = true
	a.reportOrphans(g.plan)
	a.o.Log.Info("weir is running", "version", a.o.Version, "sources", len(a.inputs), "outputs", len(g.order), "status", a.web.address())
	return nil
}

// Done is closed when every input has ended by itself, as stdin does at its end.
func (a *App) Done() <-chan struct{} { return a.done }

// Flush sends what waits at once.
func (a *App) Flush() {
	a.mu.Lock()
	holds := a.gen.holds()
	a.mu.Unlock()
	flushHolds(holds)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.gen.order {
		r.flush()
	}
}

// Stop stops in two phases: inputs wind down and are answered, then what waits is sent
// until shutdown_grace ends or ctx is done. The rest stays in file buffers; what is in
// memory is booked as dropped. It says what was left.
func (a *App) Stop(ctx context.Context) {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.stopped = true
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, a.gen.plan.System.ShutdownGrace)
	defer cancel()
	defer context.AfterFunc(ctx, a.endRetire)()
	defer a.endRetire()
	a.stopping()
	for _, r := range a.gen.order {
		r.hurry() // senders may wait for what they sent to be delivered
	}
	holds := a.gen.holds()
	holds.Hurry() // likewise
	waitOrDone(ctx, &a.running)
	waitOrDone(ctx, &a.holding)
	a.own.close()
	holds.Stop(ctx)

	var wg sync.WaitGroup
	for _, r := range a.gen.order {
		wg.Go(func() { r.stop(ctx) })
	}
	wg.Wait()
	a.retiring.Wait()
	a.importing.Wait()
	a.report()
	if a.web != nil {
		a.web.close()
	}
}

// report says what was left at the end.
func (a *App) report() {
	left := false
	for _, r := range a.gen.order {
		s := r.sheet()
		left = left || r.left+r.unstored > 0
		if r.left > 0 {
			a.o.Log.Warn("events were not delivered", "output", r.plan.id, "events", r.left, "where", r.where())
		}
		a.o.Log.Info("books", "output", r.plan.id, "admitted", s.Admitted, "delivered", s.Delivered, "filtered", s.Filtered,
			"dropped", total(s, ledger.Dropped), "rejected", total(s, ledger.Rejected), "parked", s.Moved, "pending", s.Pending())
	}
	if !left {
		a.o.Log.Info("stopped, everything was delivered")
	}
}

func total(s ledger.Sheet, c ledger.Class) uint64 {
	n := uint64(0)
	for _, r := range ledger.ReasonsOf(c) {
		n += s.Count(ledger.Fate{Class: c, Reason: r})
	}
	return n
}

// waitOrDone waits for wg, or for the end of ctx.
func waitOrDone(ctx context.Context, wg *sync.WaitGroup) {
	all := make(chan struct{})
	go func() {
		wg.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	}
}

// cleanups undoes what was done, in reverse order.
type cleanups []func()

func (c *cleanups) add(f func()) { *c = append(*c, f) }

func (c *cleanups) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}

// ingress makes the way in for a source.
func (a *App) ingress(g *generation, in *runningInput) *pipeline.Ingress {
	return pipeline.New(pipeline.Options{
		Routes: g.routes.from(in.plan.label), Log: a.o.Log, In: &in.count, Unmatched: a.unmatched, Delivered: in.plan.delivered,
		Errors: g.routes.from("@ERROR"), Nowhere: g.routes.unmatched,
	})
}

var errStopped = errors.New("weir is stopping")
