package app

import (
	"log/slog"
	"slices"

	"weir/internal/filter"
	"weir/internal/ledger"
	"weir/internal/pipeline"
)

// resolver finds the route of a tag for sources of one label. Targets are looked up by
// output id, so that a resolver belongs to one generation of running outputs.
type resolver struct {
	plan      *Plan
	targets   map[*outputPlan]*pipeline.Target
	unmatched *pipeline.Target
	rest      *pipeline.Target // books what rewrite_tag_filter leaves out
	log       *slog.Logger
	contexts  map[string]*pipeline.Routes   // routes by label, remembered
	turns     map[*matchPlan]*pipeline.Turn // of each roundrobin, for all its tags
	holds     *pipeline.Holds
	holdOf    map[holdKey]*pipeline.Hold
}

// newResolver makes a resolver whose routes end at targets, or in the book unmatched.
func newResolver(plan *Plan, targets map[*outputPlan]*pipeline.Target, unmatched *ledger.Book, log *slog.Logger) *resolver {
	r := &resolver{
		plan: plan, targets: targets, log: log, contexts: map[string]*pipeline.Routes{}, turns: map[*matchPlan]*pipeline.Turn{},
		unmatched: nowhere("unmatched", unmatched, ledger.Unmatched.Fate()),
		rest:      nowhere("rewrite_tag_filter", unmatched, ledger.Fate{Class: ledger.Filtered}),
	}
	for _, c := range plan.contexts {
		for _, rule := range c.table.Rules() {
			if rule.IsMatch && rule.Match.weights != nil && r.turns[rule.Match] == nil {
				r.turns[rule.Match] = pipeline.NewTurn(rule.Match.weights)
			}
		}
	}
	for label := range plan.contexts {
		r.contexts[label] = pipeline.NewRoutes(func(tag string) *pipeline.Node { return r.node(label, tag, nil) })
	}
	r.makeHolds()
	return r
}

// from returns the routes that start in a label's context ("" and @ROOT are the root).
func (r *resolver) from(label string) *pipeline.Routes {
	if label == "@ROOT" {
		label = ""
	}
	return r.contexts[label]
}

// node builds the route of a tag in a label's context; way are the labels and tags before it.
func (r *resolver) node(label, tag string, way []string) *pipeline.Node {
	if label == "@ROOT" {
		label = ""
	}
	c := r.plan.contexts[label]
	if c == nil {
		return nil
	}
	step := label + " " + tag
	if slices.Contains(way, step) {
		r.log.Error("labels send this tag round in a circle, its events are dropped", "tag", tag, "way", append(way, step))
		return nil
	}
	filters, m, ok := c.table.Lookup(tag)
	if !ok {
		return nil
	}
	n := &pipeline.Node{Turn: r.turns[m]}
	for i, e := range m.ends {
		end := pipeline.End{Optional: e.optional, Fallback: e.fallback}
		if e.pass != nil {
			end.In = e.pass.in
		}
		switch {
		case e.out != nil:
			end.Target = r.targets[e.out]
			if c := e.out.counts; c != nil {
				end.Next, end.Target = &pipeline.Node{Filters: []filter.Filter{c}, Ends: []pipeline.End{{Target: end.Target}}}, nil
			}
		case e.rewrite != nil:
			end.Rewrite = r.rewrite(e, label)
		case e.detect != nil:
			end.Hold = r.detect(&m.ends[i], label, tag, append(slices.Clip(way), step))
		case e.route != nil:
			if end.Next = r.route(e.route, label, tag, append(slices.Clip(way), step)); end.Next == nil {
				end.Target = r.unmatched
			}
		default:
			if end.Next = r.node(e.relabel, tag, append(slices.Clip(way), step)); end.Next == nil {
				end.Target = r.unmatched
			}
		}
		n.Ends = append(n.Ends, end)
	}
	for _, f := range slices.Backward(filters) {
		if f.holder != nil {
			n = &pipeline.Node{Ends: []pipeline.End{{Hold: &pipeline.Door{Hold: r.holdOf[holdKey{label, f, nil}], Next: n}}}}
		} else {
			n.Filters = slices.Insert(n.Filters, 0, filter.Filter(counted{f}))
		}
	}
	return n
}

// rewrite makes the end of a route at a rewrite_tag_filter. Its events go on in the label of
// the rule, else in that of the section, else where the section stands.
func (r *resolver) rewrite(e endPlan, here string) *pipeline.Rewrite {
	if e.label != "" {
		here = e.label
	}
	return &pipeline.Rewrite{
		Rewriter: e.rewrite, Rest: r.rest, Unmatched: r.unmatched,
		Route: func(label, tag string) *pipeline.Node {
			if label == "" {
				label = here
			}
			return r.from(label).Route(tag)
		},
	}
}

// nowhere is a target that keeps nothing: what arrives ends with fate.
func nowhere(id string, book *ledger.Book, fate ledger.Fate) *pipeline.Target {
	return &pipeline.Target{ID: id, Book: book, In: &pipeline.Counter{}, End: fate}
}
