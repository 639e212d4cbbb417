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
	"weir/internal/web/fluentd"
)

// sourcePlan is one configured source, ready to be built.
type sourcePlan struct {
	id, typ   string
	pos       fluentconf.Pos
	text      string
	params    [][2]string // as written, without secrets
	label     string
	labelPos  fluentconf.Pos
	delivered bool  // ack_after delivered
	memory    int64 // for messages in progress; 0: the input's own default
	forward   *forward.Params
	stdin     *stdin.Params
	metrics   *fluentd.PrometheusParams
	agent     *fluentd.AgentParams
}

func (s *sourcePlan) describe() string {
	switch {
	case s.forward != nil:
		return fmt.Sprintf("forward on %s:%d", s.forward.Bind, s.forward.Port)
	case s.stdin != nil:
		return "standard input, tag " + s.stdin.Tag
	}
	switch {
	case s.metrics != nil:
		return fmt.Sprintf("metrics on %s:%d", s.metrics.Bind, s.metrics.Port)
	case s.agent != nil:
		return fmt.Sprintf("status of plug-ins on %s:%d", s.agent.Bind, s.agent.Port)
	}
	return s.typ
}

// serves says that a source only serves figures: no event comes from it.
func (s *sourcePlan) serves() bool { return s.metrics != nil || s.agent != nil && s.agent.Tag == "" }

// monitor reads a source that adds metrics to those that @type prometheus serves.
func (p *planner) monitor(s *fluentconf.Section, typ string) {
	var params fluentd.MonitorParams
	config.Decode(s, &params, p.d)
	p.listed = append(p.listed, &sourcePlan{typ: typ, id: p.identify(s, typ, params.ID), params: shown(s)})
	p.monitors = append(p.monitors, p.metrics.MonitorOf(&params, typ, p.d))
}

// source reads a <source>.
func (p *planner) source(s *fluentconf.Section) {
	typ, pos := p.typeOf(s)
	src := &sourcePlan{typ: typ, pos: s.Pos, text: dump(s), params: shown(s)}
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
		p.claimPort(s, src.forward)
	case "stdin":
		src.stdin = &stdin.Params{}
		config.Decode(s, src.stdin, p.d)
		common = src.stdin.Plugin
	case "prometheus":
		src.metrics = &fluentd.PrometheusParams{}
		config.Decode(s, src.metrics, p.d)
		common = src.metrics.Plugin
		src.metrics.Check(s, p.d)
	case "monitor_agent":
		src.agent = &fluentd.AgentParams{}
		config.Decode(s, src.agent, p.d)
		common = src.agent.Plugin
	case "prometheus_output_monitor", "prometheus_monitor", "prometheus_tail_monitor":
		p.monitor(s, typ)
		return
	default:
		p.d.Error(pos, fmt.Sprintf("weir has no source of type %q", typ), "sources are forward, stdin, prometheus, prometheus_output_monitor, prometheus_monitor, prometheus_tail_monitor and monitor_agent")
		return
	}
	src.label = p.workers.contextOf(s)
	if prm := s.Get("@label"); prm != nil {
		src.label, src.labelPos = prm.Value.Text, prm.Value.Pos
	}
	if limit := p.System.MemoryLimit; limit != nil {
		src.memory = int64(*limit) / 2
	}
	src.id = p.identify(s, typ, common.ID)
	p.Sources, p.listed = append(p.Sources, src), append(p.listed, src)
}

// claimPort finds a source that another one keeps from its port.
func (p *planner) claimPort(s *fluentconf.Section, f *forward.Params) {
	if f.Port == 0 {
		return
	}
	every := func(bind string) bool { return bind == "0.0.0.0" || bind == "::" }
	for _, o := range p.Sources {
		if o.forward != nil && o.forward.Port == f.Port && (o.forward.Bind == f.Bind || every(o.forward.Bind) || every(f.Bind)) {
			p.d.Error(s.Pos, fmt.Sprintf("port %d is already used by the source at %s", f.Port, o.pos), "choose another port; a source takes any number of tags and clients")
			return
		}
	}
}

// runningInput is a source at work.
type runningInput struct {
	plan    *sourcePlan
	in      input.Input
	forward *forward.Input // the same, for what only forward has
	page    *fluentd.Server
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
		r.forward, err = forward.New(*s.forward, forward.Options{Log: log, Hostname: a.gen.plan.env.Hostname, Memory: s.memory})
		r.in = r.forward
	case s.stdin != nil:
		r.in, err = stdin.New(*s.stdin, stdin.Options{Log: log, Reader: a.o.Stdin})
	case s.metrics != nil:
		r.page = fluentd.NewPrometheus(s.metrics, a.gen.plan.env.Hostname, a.registry, log)
		r.in = r.page
	case s.agent != nil:
		r.page = fluentd.NewAgent(s.agent, a.shown(), log)
		r.in = r.page
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
	if r.page != nil {
		r.page.Close()
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
