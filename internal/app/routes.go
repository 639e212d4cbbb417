package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

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

// Summary describes the routes for `weir check`: every source, and every rule that its
// events can meet.
func (p *Plan) Summary() string {
	var b strings.Builder
	for _, s := range p.Sources {
		fmt.Fprintf(&b, "source %s (%s)\n", s.id, s.describe())
		if !s.serves() {
			p.summarize(&b, s.label, 1, map[string]bool{})
		}
	}
	switch r := p.logReach(); {
	case r == nil:
	case r.label == "":
		b.WriteString("own log, by the <match> of the top level that names fluent\n")
	default:
		b.WriteString("own log, tags fluent.info and so on\n")
		p.summarize(&b, r.label, 1, map[string]bool{})
	}
	return b.String()
}

func (p *Plan) summarize(b *strings.Builder, label string, depth int, seen map[string]bool) {
	indent := strings.Repeat("  ", depth)
	if label == "@ROOT" {
		label = ""
	}
	c := p.contexts[label]
	if c == nil {
		return
	}
	if seen[label] {
		fmt.Fprintf(b, "%slabel %s (see above)\n", indent, label)
		return
	}
	seen[label] = true
	switch {
	case c.worker():
		fmt.Fprintf(b, "%s%s\n", indent, label)
		indent += "  "
		depth++
	case label != "":
		fmt.Fprintf(b, "%slabel %s\n", indent, label)
		indent += "  "
		depth++
	}
	for _, r := range c.table.Rules() {
		if !r.IsMatch {
			fmt.Fprintf(b, "%sfilter %s: %s\n", indent, r.Pattern, r.Filter.typ)
			if l := r.Filter.late(); l != "" {
				p.summarize(b, l, depth+1, seen)
			}
			continue
		}
		fmt.Fprintf(b, "%smatch %s: ", indent, r.Pattern)
		switch r.Match.kind {
		case "copy":
			fmt.Fprintf(b, "copy to %d stores\n", len(r.Match.ends))
		case "roundrobin":
			fmt.Fprintf(b, "one of %d stores in turn\n", len(r.Match.ends))
		}
		for i, e := range r.Match.ends {
			if r.Match.multi() {
				fmt.Fprintf(b, "%s  store %d: ", indent, i+1)
			}
			if e.fallback {
				fmt.Fprintf(b, "if the one before refuses: ")
			}
			switch {
			case e.out != nil:
				fmt.Fprintf(b, "%s\n", e.out.describe())
				continue
			case e.rewrite != nil, e.detect != nil:
				if e.detect != nil {
					fmt.Fprintf(b, "%s\n", e.detect.describe())
				} else {
					fmt.Fprintf(b, "rewrite_tag_filter\n")
				}
				for _, l := range e.labels {
					p.summarize(b, l, depth+1, seen)
				}
				continue
			}
			if e.route != nil {
				fmt.Fprintf(b, "%s\n", e.route.describe())
				for _, l := range e.labels {
					p.summarize(b, l, depth+1, seen)
				}
				continue
			}
			fmt.Fprintf(b, "relabel %s\n", e.relabel)
			p.summarize(b, e.relabel, depth+1, seen)
		}
	}
}
