package app

import (
	"context"
	"fmt"
	"time"

	"weir/internal/input/forward"
)

// handOver is how long an output that is being replaced may finish the requests it has
// under way before its buffer is given to the new one.
const handOver = 10 * time.Second

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
	var undo cleanups
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
	a.replaceInputs(next)
	a.retire(old, g)
	return nil
}

// change is what becomes of one source of the new configuration.
type change struct {
	in    *runningInput
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
			same.plan = s
			next = append(next, change{in: same})
			continue
		}
		c := change{fresh: true}
		var err error
		if c.in, err = a.newInput(s); err != nil {
			return nil, err
		}
		for _, in := range a.inputs {
			if !taken[in] && in.forward != nil && s.forward != nil && in.plan.forward.Port == s.forward.Port && in.plan.forward.Bind == s.forward.Bind {
				c.from, taken[in] = in, true
				break
			}
		}
		next = append(next, c)
	}
	return next, nil
}

// replaceOutputs starts what is new. An output that takes over a buffer first waits for
// the old delivery to finish the requests that are under way.
func (a *App) replaceOutputs(old, g *generation) {
	for _, r := range g.order {
		if prev := old.sameRunning(r); prev {
			continue
		}
		if r.taken {
			prev := old.withBuffer(r.plan)
			ctx, cancel := context.WithTimeout(context.Background(), handOver)
			prev.del.Halt(ctx)
			cancel()
			prev.closeOutputs()
			prev.gone = true
			r.buf.Rewind()
			if r.lot != nil {
				r.lot.Rewind()
			}
		}
		r.start()
	}
}

func (g *generation) sameRunning(r *runningOutput) bool {
	for _, o := range g.order {
		if o == r {
			return true
		}
	}
	return false
}

// replaceInputs gives running sources their new routes, starts new ones and ends those
// that are gone.
func (a *App) replaceInputs(next []change) {
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
			c.in.emit.set(a.ingress(a.gen, c.in))
			continue
		}
		if c.from != nil {
			a.takePort(c)
		}
		a.runInput(c.in)
	}
	for _, in := range gone {
		if !keep[in] {
			in.emit.set(a.ingress(a.gen, in)) // its connections end by the new routes
			in.stop()
			a.live--
		}
	}
}

// takePort moves the listening socket from the old source to the new one.
func (a *App) takePort(c change) {
	l := c.from.forward.TakeListener()
	in, err := forward.New(*c.in.plan.forward, forward.Options{
		Log: a.o.Log.With("source", c.in.plan.id), Hostname: a.gen.plan.env.Hostname, Listener: l,
	})
	if err == nil {
		err = in.Open()
	}
	if err != nil { // cannot be: the same parameters were accepted a moment ago
		a.o.Log.Error("a source could not take over its port", "source", c.in.plan.id, "error", err)
		return
	}
	c.in.forward, c.in.in = in, in
}

// retire stops outputs that are no longer configured, once they have delivered what they
// have or the grace is over. Their file buffers stay, and are reported.
func (a *App) retire(old, g *generation) {
	for _, r := range old.order {
		if r.gone || r.del == nil || g.sameRunning(r) {
			continue
		}
		a.retiring.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), g.plan.System.ShutdownGrace)
			defer cancel()
			r.stop(ctx)
			if r.left > 0 {
				a.o.Log.Warn("an output is no longer configured and has left events behind", "output", r.plan.id, "events", r.left, "where", r.where())
			}
		})
	}
}
