package app

import (
	"context"
	"fmt"
	"log/slog"
	"path"

	"weir/internal/buffer"
	"weir/internal/config"
	"weir/internal/deliver"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/pipeline"
	"weir/internal/vfs"
)

// runningOutput is an output with its buffer and its delivery.
type runningOutput struct {
	plan      *outputPlan
	log       *slog.Logger
	book      *ledger.Book
	lotBook   *ledger.Book // of the parking lot
	out       output.Output
	secondary output.Output
	buf       *buffer.Buffer
	lot       *buffer.Buffer
	del       *deliver.Deliverer
	target    *pipeline.Target
	taken     bool           // buffers and books came from an earlier configuration
	prev      *runningOutput // whose they are, until this one starts
	opened    config.Buffer  // the parameters with which the buffer was opened
	tells     bool           // likewise: it keeps gaps until they are told
	gone      bool           // a reload has given its buffers to another
	left      uint64         // events that were not delivered, after stop
}

// ParkedDir is the directory of the parking lot within that of the main buffer.
const ParkedDir = "parked"

// memoryLot is how much parked lanes of a memory buffer may hold, fileLot of a file buffer.
const (
	memoryLot = 16 << 20
	fileLot   = 256 << 20
)

// build makes what a plan has behind its inputs. Outputs of old with the same text are
// taken over as they run, those with the same buffer take over the buffer. On an error
// everything new is closed again and old is untouched.
func (a *App) build(plan *Plan, old *generation) (g *generation, err error) {
	g = &generation{plan: plan, outputs: map[*outputPlan]*runningOutput{}}
	var undo cleanups
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	if err := a.watch(plan); err != nil {
		return nil, fmt.Errorf("set up the monitors: %w", err)
	}
	targets := map[*outputPlan]*pipeline.Target{}
	match := old.match(plan)
	for _, o := range plan.Outputs {
		m := match[o]
		r := m.same
		if r == nil {
			if r, err = a.newOutput(o, m.buffer); err != nil {
				return nil, err
			}
			undo.add(r.discard)
		}
		g.outputs[o] = r
		g.order = append(g.order, r)
		targets[o] = r.target
	}
	g.routes = newResolver(plan, targets, a.unmatched, a.o.Log)
	return g, nil
}

// found is what runs already of an output of a new plan.
type found struct {
	same   *runningOutput // it goes on as it is
	buffer *runningOutput // it gives its buffers to a new delivery
}

// match finds for the outputs of a new plan what runs already, each running output for at
// most one of them: first what is the same word for word, then file buffers by their
// directory and memory buffers by the text or else the name of their output. Names given by
// number change when an output is added before others.
func (g *generation) match(plan *Plan) map[*outputPlan]found {
	all := map[*outputPlan]found{}
	if g == nil {
		return all
	}
	claimed := map[*runningOutput]bool{}
	pass := func(fits func(*runningOutput, *outputPlan) bool, note func(*runningOutput) found) {
		for _, o := range plan.Outputs {
			if _, done := all[o]; done {
				continue
			}
			for _, r := range g.order {
				if !claimed[r] && fits(r, o) {
					claimed[r], all[o] = true, note(r)
					break
				}
			}
		}
	}
	pass(func(r *runningOutput, o *outputPlan) bool {
		return r.plan.id == o.id && r.plan.text == o.text && r.plan.dir == o.dir && r.plan.noPark == o.noPark
	}, func(r *runningOutput) found { return found{same: r} })
	takes := func(r *runningOutput) found { return found{buffer: r} }
	both := func(r *runningOutput, o *outputPlan) bool { return r.buf != nil && !o.null && r.plan.dir == o.dir }
	pass(func(r *runningOutput, o *outputPlan) bool {
		return both(r, o) && (o.dir != "" || r.plan.text == o.text)
	}, takes)
	pass(func(r *runningOutput, o *outputPlan) bool { return both(r, o) && r.plan.id == o.id }, takes)
	return all
}

// newOutput builds an output and opens its buffer, or takes prev's; its delivery is not
// started.
func (a *App) newOutput(o *outputPlan, prev *runningOutput) (r *runningOutput, err error) {
	r = &runningOutput{plan: o, log: a.o.Log, book: &ledger.Book{}, lotBook: &ledger.Book{}}
	r.target = &pipeline.Target{ID: o.id, Book: r.book, In: &pipeline.Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
	if o.null {
		return r, nil
	}
	made := r
	defer func() {
		if err != nil {
			made.closeOutputs()
		}
	}()
	if r.out, err = o.build(a.o.Log.With("output", o.id), &a.shared); err != nil {
		return nil, fmt.Errorf("set up output %s at %s: %w", o.id, o.pos, err)
	}
	if o.secondary != nil {
		if r.secondary, err = o.secondary.build(a.o.Log.With("output", o.secondary.id), &a.shared); err != nil {
			return nil, fmt.Errorf("set up the secondary of output %s at %s: %w", o.id, o.secondary.pos, err)
		}
	}
	if prev != nil {
		r.book, r.lotBook, r.buf, r.lot, r.target, r.taken = prev.book, prev.lotBook, prev.buf, prev.lot, prev.target, true
		r.prev, r.opened, r.tells = prev, prev.opened, prev.tells
		if r.tells != o.tell {
			a.o.Log.Warn("loss_notice of an output whose buffer goes on has its effect after a restart", "output", o.id)
		}
	} else if err := r.openBuffers(a); err != nil {
		return nil, fmt.Errorf("open the buffer of output %s at %s: %w", o.id, o.pos, err)
	}
	if !r.taken {
		r.target.Buffer, r.opened, r.tells = r.buf, o.buffer, o.tell
	}
	b := &o.buffer
	r.del = deliver.New(deliver.Options{
		ID: o.id, Buffer: r.buf, Output: r.out, Log: a.o.Log, Retry: o.retry(), Linger: o.linger(),
		Workers: max(o.workers, b.Threads, 1), PerLane: b.PerStream, Throttle: a.throttle(r.out.Scope()),
		ReadAhead: int(min(b.TotalLimit/4, 1<<30)), Circular: overflow(b.Overflow) == buffer.DropOldest, Tell: r.tells,
		SlowFlush: o.slow, Pause: o.pause(), Parking: r.lot, Secondary: r.secondary,
	})
	return r, nil
}

// openBuffers opens the buffer and the parking lot.
func (r *runningOutput) openBuffers(a *App) (err error) {
	b := &r.plan.buffer
	o := buffer.Options{
		FS: vfs.OS{}, Dir: r.plan.dir, Book: r.book, Log: a.o.Log.With("output", r.plan.id), Limit: int64(b.TotalLimit),
		MinFree: int64(b.MinFree), Overflow: overflow(b.Overflow), Durability: durability(b), SyncEvery: b.SyncInterval,
		Tell: r.plan.tell,
	}
	if b.Compress != "text" {
		o.Compress = b.Compress
	}
	lot := int64(fileLot)
	if !b.File() {
		o.FS, o.Dir, o.MinFree = vfs.NewMem(0), "buffer", 0
		lot = memoryLot
	}
	if b.ParkingLimit != nil {
		lot = int64(*b.ParkingLimit)
	}
	o.Beside = Beside
	if r.buf, err = buffer.Open(o); err != nil {
		return err
	}
	if lot <= 0 {
		return nil
	}
	o.Dir, o.Beside = r.lotDir(), nil
	if !b.File() {
		o.FS = vfs.NewMem(0)
	}
	o.Book, o.Limit, o.Overflow, o.Parked = r.lotBook, lot, buffer.Throw, true
	if r.lot, err = buffer.Open(o); err != nil {
		_ = r.buf.Close(context.Background())
		return fmt.Errorf("parking lot: %w", err)
	}
	return nil
}

// lotDir is where the parking lot of a file buffer is.
func (r *runningOutput) lotDir() string { return path.Join(r.plan.dir, ParkedDir) }

// throttle is the one controller of a scope.
func (a *App) throttle(scope string) *deliver.Throttle {
	if scope == "" {
		return nil
	}
	t := a.throttles[scope]
	if t == nil {
		t = &deliver.Throttle{}
		a.throttles[scope] = t
	}
	return t
}

func (r *runningOutput) start() {
	if r.del != nil {
		r.del.Start()
	}
}

func (r *runningOutput) hurry() {
	if r.del != nil {
		r.del.Hurry()
	}
}

func (r *runningOutput) flush() {
	if r.del != nil {
		r.del.Flush()
	}
}

// stop delivers what waits until ctx is done, and closes everything.
func (r *runningOutput) stop(ctx context.Context) {
	if r.del == nil {
		return
	}
	if err := r.buf.Seal(ctx); err != nil {
		r.log.Error("the last events could not be stored", "output", r.plan.id, "error", err)
	}
	// A file buffer keeps what an unreachable endpoint does not take; memory does not, so
	// there every second of the grace counts.
	r.del.Stop(ctx, r.plan.dir != "")
	r.close()
}

// close closes the buffers and the output; the delivery has ended.
func (r *runningOutput) close() {
	background := context.Background()
	r.left = r.buf.Stats().PendingEvents
	if r.lot != nil {
		r.left += r.lot.Stats().PendingEvents
	}
	if r.plan.dir == "" {
		r.buf.DropRest(ledger.Shutdown)
		if r.lot != nil {
			r.lot.DropRest(ledger.Shutdown)
		}
	}
	_ = r.buf.Close(background) // logged by the buffer: nobody can do more about it here
	if r.lot != nil {
		_ = r.lot.Close(background)
	}
	r.closeOutputs()
}

// where says where events are that could not be delivered.
func (r *runningOutput) where() string {
	if r.plan.dir == "" {
		return "they were in memory and are lost"
	}
	return "they wait in " + r.plan.dir
}

func (r *runningOutput) closeOutputs() {
	if r.out != nil {
		_ = r.out.Close()
	}
	if r.secondary != nil {
		_ = r.secondary.Close()
	}
}

// discard undoes newOutput before anything was started.
func (r *runningOutput) discard() {
	if r.del == nil {
		return
	}
	if !r.taken {
		_ = r.buf.Close(context.Background())
		if r.lot != nil {
			_ = r.lot.Close(context.Background())
		}
	}
	r.closeOutputs()
}
