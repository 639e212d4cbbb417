package app

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/input"
	"weir/internal/input/forward"
	"weir/internal/input/stdin"
	"weir/internal/pipeline"
)

// sourcePlan is one configured source, ready to be built.
type sourcePlan struct {
	id, typ   string
	pos       fluentconf.Pos
	text      string
	label     string
	labelPos  fluentconf.Pos
	delivered bool // ack_after delivered
	forward   *forward.Params
	stdin     *stdin.Params
}

func (s *sourcePlan) describe() string {
	switch {
	case s.forward != nil:
		return fmt.Sprintf("forward on %s:%d", s.forward.Bind, s.forward.Port)
	case s.stdin != nil:
		return "standard input, tag " + s.stdin.Tag
	}
	return s.typ
}

// source reads a <source>.
func (p *planner) source(s *fluentconf.Section) {
	typ, pos := p.typeOf(s)
	src := &sourcePlan{typ: typ, pos: s.Pos, text: dump(s)}
	var common config.Plugin
	switch typ {
	case "":
		return
	case "forward":
		src.forward = &forward.Params{}
		config.Decode(s, src.forward, p.d)
		common = src.forward.Plugin
		src.delivered = src.forward.AckAfter == "delivered"
		src.forward.Check(s, p.d)
	case "stdin":
		src.stdin = &stdin.Params{}
		config.Decode(s, src.stdin, p.d)
		common = src.stdin.Plugin
	default:
		p.d.Error(pos, fmt.Sprintf("weir has no source of type %q", typ), "sources are forward and stdin")
		return
	}
	if prm := s.Get("@label"); prm != nil {
		src.label, src.labelPos = prm.Value.Text, prm.Value.Pos
	}
	src.id = p.identify(s, typ, common.ID)
	p.Sources = append(p.Sources, src)
}

// runningInput is a source at work.
type runningInput struct {
	plan    *sourcePlan
	in      input.Input
	forward *forward.Input // the same, for what only forward has
	count   pipeline.Counter
	emit    emitter
	stop    context.CancelFunc
	ended   chan struct{}          // closed when Run has returned
	over    bool                   // likewise; guarded by App.mu
	failure atomic.Pointer[string] // why it ended by itself
}

// newInput builds a source. prev, if any, is a source of which it takes over the port.
func (a *App) newInput(s *sourcePlan) (*runningInput, error) {
	r := &runningInput{plan: s, ended: make(chan struct{})}
	log := a.o.Log.With("source", s.id)
	var err error
	switch {
	case s.forward != nil:
		r.forward, err = forward.New(*s.forward, forward.Options{Log: log, Hostname: a.gen.plan.env.Hostname})
		r.in = r.forward
	case s.stdin != nil:
		r.in, err = stdin.New(*s.stdin, stdin.Options{Log: log, Reader: a.o.Stdin})
	}
	if err != nil {
		return nil, fmt.Errorf("set up source %s at %s: %w", s.id, s.pos, err)
	}
	return r, nil
}

// close undoes Open of an input that was never run.
func (r *runningInput) close() {
	if r.forward != nil {
		r.forward.TakeListener().Close()
	}
}

// runInput starts a source. Callers hold a.mu.
func (a *App) runInput(r *runningInput) {
	ctx, stop := context.WithCancel(a.ctx)
	r.stop = stop
	r.emit.set(a.ingress(a.gen, r))
	id, in := r.plan.id, r.in
	a.running.Go(func() {
		defer stop()
		err := in.Run(ctx, &r.emit)
		close(r.ended)
		if err != nil {
			a.o.Log.Error("a source has ended", "source", id, "error", err)
			text := err.Error()
			r.failure.Store(&text)
		}
		a.inputEnded(r)
	})
}

// inputEnded notes that a source is through; when the last one is, so is weir: stdin at
// its end, for example.
func (a *App) inputEnded(r *runningInput) {
	if a.ctx.Err() != nil {
		return // it was asked to
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r.over = true
	a.checkDone()
}

// checkDone tells when all sources have ended. Callers hold a.mu.
func (a *App) checkDone() {
	if slices.ContainsFunc(a.inputs, func(in *runningInput) bool { return !in.over }) {
		return
	}
	select {
	case <-a.done:
	default:
		close(a.done)
	}
}
