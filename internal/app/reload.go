package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/input/forward"
)

// handOver is how long an output that is being replaced may finish the requests it has
// under way before its buffer is given to the new one.
const handOver = 10 * time.Second

// windDown is longer than any source takes to end its connections.
const windDown = 15 * time.Second

// Reload replaces the running configuration by plan, all or nothing: on an error the old
// one goes on as if nothing had happened. Sources and outputs whose text is unchanged go
// on undisturbed; a changed source keeps its port, a changed output its buffer.
func (a *App) Reload(plan *Plan) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return errStopped
	}
	old := a.gen
	// First everything that can fail and can be undone.
	next, err := a.nextInputs(plan)
	if err != nil {
		return err
	}
	var undo cleanups // in reverse order
	for _, c := range next {
		if c.fresh && c.from == nil {
			if err := c.in.in.Open(); err != nil {
				undo.run()
				return fmt.Errorf("open source %s at %s: %w", c.in.plan.id, c.in.plan.pos, err)
			}
			undo.add(c.in.close)
		}
	}
	g, err := a.build(plan, old)
	if err != nil {
		undo.run()
		return err
	}
	// From here on there is no way back, and nothing that can fail.
	a.replaceOutputs(old, g)
	a.gen, a.loaded = g, time.Now()
	rest := a.replaceInputs(next)
	if w := a.own.set(g); w != nil {
		rest.ways = append(rest.ways, w)
	}
	a.retire(old, g, rest, a.replaceHolds(old, g, rest))
	a.reportOrphans(plan)
	return nil
}

// change is what becomes of one source of the new configuration.
type change struct {
	in    *runningInput
	plan  *sourcePlan
	fresh bool          // not running yet
	from  *runningInput // whose port a fresh one takes over
}

// nextInputs matches the sources of a new plan with those that run.
func (a *App) nextInputs(plan *Plan) ([]change, error) {
	var next []change
	taken := map[*runningInput]bool{}
	for _, s := range plan.Sources {
		var same *runningInput
		for _, in := range a.inputs {
			if !taken[in] && in.plan.id == s.id && in.plan.text == s.text {
				same = in
			}
		}
		if same != nil {
			taken[same] = true
			next = append(next, change{in: same, plan: s})
			continue
		}
		c := change{fresh: true, plan: s}
		var err error
		if c.in, err = a.newInput(s); err != nil {
			return nil, err
		}
		for _, in := range a.inputs {
			if !taken[in] && !in.over && !stays(plan, in) && in.forward != nil && s.forward != nil && in.plan.forward.Port == s.forward.Port && in.plan.forward.Bind == s.forward.Bind {
				c.from, taken[in] = in, true
				break
			}
		}
		next = append(next, c)
	}
	return next, nil
}

// stays says whether a running source is in a plan as it is.
func stays(plan *Plan, in *runningInput) bool {
	return slices.ContainsFunc(plan.Sources, func(s *sourcePlan) bool { return s.id == in.plan.id && s.text == in.plan.text })
}

// replaceOutputs starts what is new. An output that takes over a buffer first waits for
// the old delivery to finish the requests that are under way.
func (a *App) replaceOutputs(old, g *generation) {
	ctx, cancel := context.WithTimeout(context.Background(), handOver)
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range g.order {
		if old.sameRunning(r) {
			continue
		}
		wg.Go(func() {
			if r.prev != nil {
				r.takeOver(ctx)
			}
			r.start()
		})
	}
	wg.Wait()
}

// takeOver ends the delivery before this one and makes its buffers begin again with what
// it has not ended.
func (r *runningOutput) takeOver(ctx context.Context) {
	prev := r.prev
	r.prev = nil
	prev.endDirecting()
	var wg sync.WaitGroup
	for _, q := range prev.queues() {
		wg.Go(func() { q.halt(ctx) })
	}
	wg.Wait()
	prev.closeOutputs()
	prev.gone = true
	r.rewind()
	if prev.backlog != nil {
		r.backlog.rewind()
	}
	b, was := &r.plan.buffer, &r.opened
	r.setLimits()
	if b.Overflow != was.Overflow || b.Durability != was.Durability || b.Compress != was.Compress || !same(b.MinFree, was.MinFree) || b.SyncInterval != was.SyncInterval {
		r.log.Warn("some parameters of a buffer that is in use change with the next start only", "output", r.plan.id,
			"parameters", "overflow_action, durability, sync_interval, compress, min_free_space")
	}
}

// same compares two sizes that may not be written.
func same(a, b *config.Size) bool { return a == b || a != nil && b != nil && *a == *b }

func (g *generation) sameRunning(r *runningOutput) bool {
	for _, o := range g.order {
		if o == r {
			return true
		}
	}
	return false
}

// replaceInputs gives running sources their new routes, starts new ones and ends those
// that are gone. It returns what may still use the routes of before: sources that wind
// down, and the ways of those that go on.
func (a *App) replaceInputs(next []change) (rest leftover) {
	keep := map[*runningInput]bool{}
	var inputs []*runningInput
	for _, c := range next {
		inputs = append(inputs, c.in)
		keep[c.in] = true
	}
	gone := a.inputs
	a.inputs = inputs
	for _, c := range next {
		if !c.fresh {
			c.in.plan = c.plan
			rest.ways = append(rest.ways, c.in.emit.set(a.ingress(a.gen, c.in)))
			continue
		}
		if c.from != nil && !a.takePort(c) {
			c.in.over = true
			continue
		}
		a.runInput(c.in)
	}
	for _, in := range gone {
		if !keep[in] {
			in.stop() // its connections end by the routes that they have
			rest.inputs = append(rest.inputs, in)
		}
	}
	a.checkDone()
	return rest
}

// leftover is what may still emit to the outputs of an earlier configuration.
type leftover struct {
	inputs []*runningInput
	ways   []*way
}

// wait returns when nothing does any more, or when ctx is done.
func (l *leftover) wait(ctx context.Context) {
	for _, in := range l.inputs {
		select {
		case <-in.ended:
		case <-ctx.Done():
			return
		}
	}
	for _, w := range l.ways {
		w.wait(ctx)
	}
}

// takePort moves the listening socket from the old source to the new one. False: the new
// one cannot work, and its status says so.
func (a *App) takePort(c change) bool {
	l := c.from.forward.TakeListener()
	in, err := forward.New(*c.in.plan.forward, forward.Options{
		Log: a.o.Log.With("source", c.in.plan.id), Hostname: a.gen.plan.env.Hostname, Listener: l, Memory: c.in.plan.memory,
	})
	if err == nil {
		err = in.Open()
	}
	if err != nil { // the parameters were accepted a moment ago, but not every name can be looked up always
		l.Close()
		close(c.in.ended)
		text := err.Error()
		c.in.failure.Store(&text)
		a.o.Log.Error("a source could not take over its port, it does not run", "source", c.in.plan.id, "error", err)
		return false
	}
	c.in.forward, c.in.in = in, in
	return true
}

// retire stops outputs that are no longer configured, once nothing can reach them any more
// and they have delivered what they have. A file buffer keeps what is left after the grace,
// and is reported; what is in memory is tried until weir stops.
func (a *App) retire(old, g *generation, rest leftover, held <-chan struct{}) {
	grace := g.plan.System.ShutdownGrace
	for _, r := range old.order {
		if r.gone || r.del == nil || g.sameRunning(r) {
			continue
		}
		a.retiring.Go(func() {
			wait, cancel := context.WithTimeout(a.retireCtx, max(grace, windDown))
			rest.wait(wait)
			cancel()
			<-held
			ctx, cancel := a.retireCtx, func() {}
			if r.plan.dir != "" {
				ctx, cancel = context.WithTimeout(ctx, grace)
			}
			defer cancel()
			r.stop(ctx)
			if r.left > 0 {
				a.o.Log.Warn("an output is no longer configured and has left events behind", "output", r.plan.id, "events", r.left, "where", r.where())
			}
		})
	}
}
