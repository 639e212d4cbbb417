package app

import (
	"context"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
	"weir/internal/pipeline"
)

// DetectParams are the parameters of <match> @type detect_exceptions.
type DetectParams struct {
	config.Plugin
	RemovePrefix string `conf:"remove_tag_prefix" required:"true" doc:"taken from the front of the tag, with the dot behind it; the events go on under the rest"`
	filter.DetectParams
}

// detectPlan is a <match> @type detect_exceptions: what it holds goes on like a new event.
type detectPlan struct {
	id     string
	holder filter.Holder
	prefix string
}

// apply is the tag of what comes out.
func (d *detectPlan) apply(tag string) string { return strings.TrimPrefix(tag, d.prefix+".") }

func (d *detectPlan) describe() string { return "detect_exceptions, on without " + d.prefix }

// detect reads a detect_exceptions; nil after an error.
func (p *planner) detect(s *fluentconf.Section) *endPlan {
	before := len(p.d.Errors)
	var params DetectParams
	config.Decode(s, &params, p.d)
	h := filter.NewDetect(params.DetectParams, p.filterEnv(s), p.d)
	pass := p.pass(s, "detect_exceptions")
	e := &endPlan{detect: &detectPlan{id: pass.id, holder: h, prefix: params.RemovePrefix}, label: params.Label, pos: s.Pos, pass: pass}
	if e.label != "" {
		e.labels = append(e.labels, e.label)
	}
	if len(p.d.Errors) > before {
		return nil
	}
	return e
}

// holdKey names a hold: a filter or a detect_exceptions, in a label. The same rule in the
// contexts of two workers is two holds, as it would be in two processes.
type holdKey struct {
	label  string
	filter *filterPlan
	detect *detectPlan
}

// makeHolds makes the holds of a plan. They take nothing before events are routed.
func (r *resolver) makeHolds() {
	r.holds, r.holdOf = pipeline.NewHolds(), map[holdKey]*pipeline.Hold{}
	for label, c := range r.plan.contexts {
		for _, rule := range c.table.Rules() {
			if !rule.IsMatch {
				if f := rule.Filter; f.holder != nil {
					_, isConcat := f.holder.(*filter.Concat)
					r.makeHold(holdKey{label: label, filter: f}, f.id, f.holder, f.late(), isConcat)
				}
				continue
			}
			for i := range rule.Match.ends {
				if d := rule.Match.ends[i].detect; d != nil {
					r.makeHold(holdKey{label: label, detect: d}, d.id, d.holder, "", false)
				}
			}
		}
	}
}

// holdID is the name of a hold in logs, and in what buffers remember.
func holdID(label, id string) string { return strings.TrimSpace(label + " " + id) }

// makeHold makes one hold. late is the label for what it has held too long; lateIsError
// makes an error of that where there is no label.
func (r *resolver) makeHold(key holdKey, id string, h filter.Holder, late string, lateIsError bool) {
	if r.holdOf[key] != nil {
		return
	}
	id = holdID(key.label, id)
	o := pipeline.HoldOptions{
		ID: id, Holder: h, Log: r.log.With("filter", id), LateIsError: lateIsError, Nowhere: r.unmatched, Known: r.known,
		Errors: r.from("@ERROR"),
	}
	if limit := r.plan.System.MemoryLimit; limit != nil {
		o.Limit = min(pipeline.DefaultHoldLimit, max(int64(*limit)/16, 1<<20))
	}
	if late != "" {
		o.Late = func(tag string) *pipeline.Node { return r.from(late).Route(tag) }
	}
	hold := pipeline.NewHold(o)
	r.holdOf[key] = hold
	r.holds.Add(hold)
}

// known says whether an output stored a batch with this Chunk before a restart.
func (r *resolver) known(c event.Chunk) bool {
	for _, t := range r.targets {
		if t.Known(c) {
			return true
		}
	}
	return false
}

// detect makes the end of a route at a detect_exceptions.
func (r *resolver) detect(e *endPlan, label, tag string, way []string) *pipeline.Door {
	next := label
	if e.label != "" {
		next = e.label
	}
	end := pipeline.End{Tag: e.detect.apply(tag)}
	if end.Next = r.node(next, end.Tag, way); end.Next == nil {
		end.Target = r.unmatched
	}
	return &pipeline.Door{Hold: r.holdOf[holdKey{label: label, detect: e.detect}], Next: &pipeline.Node{Ends: []pipeline.End{end}}}
}

// flushHolds lets what filters hold go on, and waits a moment until it has.
func flushHolds(h *pipeline.Holds) {
	h.Flush()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h.Idle(ctx)
}

// replaceHolds lets what the filters of an earlier configuration hold go on before anything
// new passes those of the next one: the order of a stream stays. What is closed at the end
// has nothing to hold any more.
func (a *App) replaceHolds(old, g *generation, rest leftover) (done <-chan struct{}) {
	end := make(chan struct{})
	a.holding.Go(func() {
		defer close(end)
		ctx, cancel := context.WithTimeout(a.retireCtx, handOver)
		old.holds().Hurry()
		for _, w := range rest.ways {
			w.wait(ctx)
		}
		old.holds().Idle(ctx)
		cancel()
		g.holds().Start()
		// Sources that wind down may still use the old ones.
		ctx, cancel = context.WithTimeout(a.retireCtx, windDown)
		rest.wait(ctx)
		cancel()
		ctx, cancel = context.WithTimeout(a.retireCtx, handOver)
		defer cancel()
		old.holds().Stop(ctx)
	})
	return end
}
