package app

import (
	"fmt"
	"strings"
)

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
