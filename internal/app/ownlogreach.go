package app

import (
	"fmt"
	"strings"

	"weir/internal/router"
)

// fluentLog is the label that gets events of the own log.
const fluentLog = "@FLUENT_LOG"

// logReach finds where events of the own log go: to the label @FLUENT_LOG, or without it to
// a <match> of the top level that names their tags. A pattern that takes everything is not
// meant for them. It is nil when nobody wants them, or all of them end in null.
func (p *Plan) logReach() *logReach {
	r := &logReach{outputs: map[string]bool{}, holds: map[string]bool{}, tags: map[string]bool{}}
	w := reachWalk{plan: p, reach: r, seen: map[string]bool{}}
	c := p.contexts[fluentLog]
	if c != nil {
		r.label = fluentLog
	} else if c = p.contexts[""]; c == nil {
		return nil
	}
	for _, tag := range logTags() {
		filters, m, ok := c.table.Lookup(tag)
		if !ok || r.label == "" && !namesTag(c, m) {
			continue
		}
		r.tags[tag] = true
		for _, f := range filters {
			w.filter(c.label, f)
		}
		w.match(c.label, m)
	}
	if !w.matters {
		return nil
	}
	w.label("@ERROR") // events that fail
	return r
}

// namesTag says whether a match takes some tags only.
func namesTag(c *routes, m *matchPlan) bool {
	for _, r := range c.table.Rules() {
		if r.IsMatch && r.Match == m {
			return !r.Pattern.Match("x") && !r.Pattern.Match("x.x") && strings.Contains(r.Pattern.String(), "fluent")
		}
	}
	return false
}

// ownLogMatch warns about a <match fluent.**> of the top level.
func (p *planner) ownLogMatch() {
	r := p.logReach()
	if r == nil || r.label != "" {
		return
	}
	c := p.contexts[""]
	for i, rule := range c.table.Rules() {
		if rule.IsMatch && namesTag(c, rule.Match) {
			p.d.Warn(c.rules[i].Pos, fmt.Sprintf("<match %s> of the top level takes the own log; Fluentd deprecates that, since an output that logs can feed itself", rule.Pattern),
				"write <label @FLUENT_LOG> with a <match **> in it instead")
			return
		}
	}
}

// reachWalk follows events through the rules of a plan.
type reachWalk struct {
	plan    *Plan
	reach   *logReach
	seen    map[string]bool // labels
	matters bool            // something comes of the events
}

func (w *reachWalk) label(label string) {
	if label == "@ROOT" {
		label = ""
	}
	c := w.plan.contexts[label]
	if c == nil || w.seen[label] {
		return
	}
	w.seen[label] = true
	for _, r := range c.table.Rules() {
		w.rule(label, r)
	}
}

func (w *reachWalk) rule(label string, r router.Rule[*filterPlan, *matchPlan]) {
	if !r.IsMatch {
		w.filter(label, r.Filter)
		return
	}
	w.match(label, r.Match)
}

func (w *reachWalk) filter(label string, f *filterPlan) {
	w.matters = true
	if f.holder != nil {
		w.reach.holds[holdID(label, f.id)] = true
		if l := f.late(); l != "" {
			w.label(l)
		}
	}
}

func (w *reachWalk) match(label string, m *matchPlan) {
	for _, e := range m.ends {
		switch {
		case e.out != nil:
			w.matters = w.matters || !e.out.null
			w.reach.outputs[e.out.id] = true
			if e.out.secondary != nil {
				w.reach.outputs[e.out.secondary.id] = true
			}
			continue
		case e.detect != nil:
			w.reach.holds[holdID(label, e.detect.id)] = true
		}
		if e.relabel == "" && e.label == "" {
			w.label(label) // new tags, here
		}
		if e.relabel != "" {
			w.label(e.relabel)
		}
		for _, l := range e.labels {
			w.label(l)
		}
	}
}
