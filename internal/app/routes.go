package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"weir/internal/ledger"
	"weir/internal/pipeline"
)

// resolver finds the route of a tag for sources of one label. Targets are looked up by
// output id, so that a resolver belongs to one generation of running outputs.
type resolver struct {
	plan      *Plan
	targets   map[*outputPlan]*pipeline.Target
	unmatched *pipeline.Target
	log       *slog.Logger
}

// route returns a pipeline.Resolver that starts in a label's context ("" is the root).
func (r *resolver) route(label string) pipeline.Resolver {
	return func(tag string) *pipeline.Node { return r.node(label, tag, nil) }
}

// node builds the route of a tag in a label's context; way are the labels before it.
func (r *resolver) node(label, tag string, way []string) *pipeline.Node {
	if label == "@ROOT" {
		label = ""
	}
	c := r.plan.contexts[label]
	if c == nil {
		return nil
	}
	if slices.Contains(way, label) {
		r.log.Error("labels send this tag round in a circle, its events are dropped", "tag", tag, "labels", append(way, label))
		return nil
	}
	filters, m, ok := c.table.Lookup(tag)
	if !ok {
		return nil
	}
	n := &pipeline.Node{}
	for _, f := range filters {
		n.Filters = append(n.Filters, f.filter)
	}
	for _, e := range m.ends {
		end := pipeline.End{Optional: e.optional}
		if e.out != nil {
			end.Target = r.targets[e.out]
		} else if end.Next = r.node(e.relabel, tag, append(slices.Clip(way), label)); end.Next == nil {
			end.Target = r.unmatched
		}
		n.Ends = append(n.Ends, end)
	}
	return n
}

// unmatchedTarget books what a label has no <match> for.
func unmatchedTarget(book *ledger.Book) *pipeline.Target {
	return &pipeline.Target{ID: "unmatched", Book: book, In: &pipeline.Counter{},
		End: ledger.Fate{Class: ledger.Dropped, Reason: ledger.Unmatched}}
}

// Summary describes the routes for `weir check`: every source, and every rule that its
// events can meet.
func (p *Plan) Summary() string {
	var b strings.Builder
	for _, s := range p.Sources {
		fmt.Fprintf(&b, "source %s (%s)\n", s.id, s.describe())
		p.summarize(&b, s.label, 1, map[string]bool{})
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
	if label != "" {
		fmt.Fprintf(b, "%slabel %s\n", indent, label)
		indent += "  "
		depth++
	}
	for _, r := range c.table.Rules() {
		if !r.IsMatch {
			fmt.Fprintf(b, "%sfilter %s: %s\n", indent, r.Pattern, r.Filter.typ)
			continue
		}
		fmt.Fprintf(b, "%smatch %s: ", indent, r.Pattern)
		if r.Match.kind == "copy" {
			fmt.Fprintf(b, "copy to %d stores\n", len(r.Match.ends))
		}
		for i, e := range r.Match.ends {
			if r.Match.kind == "copy" {
				fmt.Fprintf(b, "%s  store %d: ", indent, i+1)
			}
			if e.out != nil {
				fmt.Fprintf(b, "%s\n", e.out.describe())
				continue
			}
			fmt.Fprintf(b, "relabel %s\n", e.relabel)
			p.summarize(b, e.relabel, depth+1, seen)
		}
	}
}
