package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/deliver"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/pipeline"
)

// runningOutput is an output with its buffer and its delivery.
type runningOutput struct {
	plan      *outputPlan
	log       *slog.Logger
	out       output.Output
	secondary output.Output
	target    *pipeline.Target
	taken     bool           // buffers and books came from an earlier configuration
	prev      *runningOutput // whose they are, until this one starts
	opened    config.Buffer  // the parameters with which the buffer was opened
	tells     bool           // likewise: it keeps gaps until they are told
	gone      bool           // a reload has given its buffers to another
	left      uint64         // events that were not delivered, after stop
	unstored  uint64         // and those that are not even in the buffer, of which the log has spoken

	outputQueue              // the only one, or the live one
	backlog     *outputQueue // of drain_order live_first, or what it has left; nil: none
	directing   sync.WaitGroup
	undirect    context.CancelFunc // ends it
	turnAfter   time.Duration
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
	a.watch(plan)
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
	r = &runningOutput{plan: o, log: a.o.Log, outputQueue: newQueue(o.dir), tells: o.tell, turnAfter: a.o.turnAfter}
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
		r.takeQueues(prev)
		if r.tells != o.tell {
			a.o.Log.Warn("loss_notice of an output whose buffer goes on has its effect after a restart", "output", o.id)
		}
	}
	if err := r.openQueues(a); err != nil {
		return nil, fmt.Errorf("open the buffer of output %s at %s: %w", o.id, o.pos, err)
	}
	if !r.taken {
		r.target.Book, r.target.Buffer, r.opened = r.book, r.buf, o.buffer
	}
	r.del = r.deliverer(a, &r.outputQueue)
	if r.backlog != nil {
		r.backlog.del = r.deliverer(a, r.backlog)
	}
	return r, nil
}

// takeQueues takes the buffers and books of an output whose place this one is to take.
func (r *runningOutput) takeQueues(prev *runningOutput) {
	r.outputQueue, r.target, r.taken = prev.outputQueue, prev.target, true
	r.prev, r.opened, r.tells = prev, prev.opened, prev.tells
	r.del = nil
	if prev.backlog != nil {
		k := *prev.backlog
		k.del = nil
		r.backlog = &k
	}
}

// openQueues opens what is not taken over. On an error everything new is closed again.
func (r *runningOutput) openQueues(a *App) error {
	opened := r.buf == nil
	if opened {
		if r.plan.hasBacklog() {
			q := newQueue(r.plan.backlogDir())
			r.backlog = &q
		}
		first, _ := r.limits()
		if err := r.outputQueue.open(a, r.plan, first, r.tells); err != nil {
			r.buf = nil
			return err
		}
	} else if r.backlog == nil && r.plan.liveFirst() {
		q := newQueue(r.plan.backlogDir())
		r.backlog = &q
	}
	if k := r.backlog; k != nil && k.buf == nil {
		_, limit := r.limits()
		if err := k.open(a, r.plan, limit, r.tells); err != nil {
			if opened {
				r.outputQueue.discard()
			}
			return fmt.Errorf("backlog: %w", err)
		}
	}
	return nil
}

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
	if r.del == nil {
		return
	}
	r.attach()
	for _, q := range r.queues() {
		q.del.Start()
	}
	r.startDirecting()
}

func (r *runningOutput) hurry() {
	for _, q := range r.queues() {
		q.del.Hurry()
	}
}

func (r *runningOutput) flush() {
	for _, q := range r.queues() {
		q.del.Flush()
	}
}

// stop delivers what waits until ctx is done, and closes everything.
func (r *runningOutput) stop(ctx context.Context) {
	if r.del == nil {
		return
	}
	r.endDirecting()
	var wg sync.WaitGroup
	for _, q := range r.queues() {
		wg.Go(func() { r.finish(ctx, q) })
	}
	wg.Wait()
	r.left, r.unstored = 0, 0
	for _, q := range r.queues() {
		left, unstored := q.close(ctx)
		r.left += left
		r.unstored += unstored
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
	for _, q := range r.queues() {
		if !r.taken || q == r.backlog && r.prev.backlog == nil {
			q.discard()
		}
	}
	r.closeOutputs()
}
