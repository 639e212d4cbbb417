package app

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/fluentconf"
)

// workers is what <worker> sections say. Fluentd starts a process for each; weir is one
// process, in which they are parts of the configuration: an event from a source of a worker
// meets the rules outside of workers and those of its own worker, as in Fluentd.
type workers struct {
	parts []workerPart
	of    map[*fluentconf.Section]int // part that a source or a rule stands in
}

// workerPart is one <worker> section.
type workerPart struct {
	section     *fluentconf.Section
	first, last int
	rules       bool // it has <match> or <filter> of its own
}

// worker says that these are the routes of a worker: all its rules are in the root's too.
func (c *routes) worker() bool { return strings.HasPrefix(c.label, "<") }

// context names the routing context of a part; no label can be called so.
func (w *workerPart) context() string { return "<worker " + w.section.Arg + ">" }

// apart says whether the routes of workers differ: then each has a context of its own.
func (w *workers) apart() bool {
	n := 0
	for i := range w.parts {
		if w.parts[i].rules {
			n++
		}
	}
	return n > 1
}

// contextOf is where the events of a source go that names no label.
func (w *workers) contextOf(s *fluentconf.Section) string {
	if i, ok := w.of[s]; ok && w.apart() {
		return w.parts[i].context()
	}
	return ""
}

// takeWorkers gives the root with the contents of <worker> sections behind its own, which
// is the order that Fluentd gives them.
func (p *planner) takeWorkers(root *fluentconf.Section) *fluentconf.Section {
	all := root.All("worker")
	if n := p.System.Workers; n > 1 || len(all) > 0 {
		at := root.Pos
		if len(all) > 0 {
			at = all[0].Pos
		}
		for _, s := range root.All("system") {
			if prm := s.Get("workers"); prm != nil {
				at = prm.Pos
			}
		}
		p.d.Note(at, "weir is one process that uses all cores: workers are not started as processes, sections of workers run side by side in it", "")
	}
	if len(all) == 0 {
		return root
	}
	flat := *root
	flat.Sections = nil
	for _, s := range root.Sections {
		if s.Name != "worker" {
			flat.Sections = append(flat.Sections, s)
		}
	}
	p.workers.of = map[*fluentconf.Section]int{}
	taken := map[int]*fluentconf.Section{}
	for _, s := range all {
		part, ok := p.workerPart(s, taken)
		if !ok {
			continue
		}
		for _, c := range s.Sections {
			switch c.Name {
			case "match", "filter":
				part.rules = true
			case "source", "label":
			default:
				p.d.Error(c.Pos, fmt.Sprintf("<worker> section cannot have <%s> directive", c.Name), "only <source>, <match>, <filter> and <label> can stand in it")
				continue
			}
			p.workers.of[c] = len(p.workers.parts)
			flat.Sections = append(flat.Sections, c)
		}
		for _, prm := range s.Params {
			p.d.Warn(prm.Pos, fmt.Sprintf("parameter %q in <worker> is not used", prm.Key), "remove it")
		}
		p.workers.parts = append(p.workers.parts, part)
	}
	return &flat
}

// workerPart reads the ids of a <worker>; taken holds those of others.
func (p *planner) workerPart(s *fluentconf.Section, taken map[int]*fluentconf.Section) (w workerPart, ok bool) {
	w.section = s
	if s.Arg == "" {
		p.d.Error(s.Pos, "Missing worker id on <worker> directive", "write <worker 0>, or <worker 0-1> for several")
		return w, false
	}
	from, to, isRange := strings.Cut(s.Arg, "-")
	var err error
	if w.first, err = strconv.Atoi(strings.TrimSpace(from)); err == nil {
		w.last = w.first
		if isRange {
			w.last, err = strconv.Atoi(strings.TrimSpace(to))
		}
	}
	n := p.System.Workers
	hint := fmt.Sprintf("ids go from 0 to %d: <system> workers says how many there are", n-1)
	switch {
	case err != nil:
		p.d.Error(s.Pos, fmt.Sprintf("worker id should be integer: %s", s.Arg), "write <worker 0>, or <worker 0-1> for several")
		return w, false
	case w.first > w.last:
		p.d.Error(s.Pos, fmt.Sprintf("greater first_worker_id<%d> than last_worker_id<%d> specified by <worker> directive is not allowed", w.first, w.last),
			fmt.Sprintf("write <worker %d-%d>", w.last, w.first))
		return w, false
	case w.first < 0 || w.last >= n:
		bad := w.first
		if w.first >= 0 && w.first < n {
			bad = w.last
		}
		p.d.Error(s.Pos, fmt.Sprintf("worker id %d specified by <worker> directive is not allowed. Available worker id is between 0 and %d", bad, n-1), hint)
		return w, false
	}
	for id := w.first; id <= w.last; id++ {
		if other := taken[id]; other != nil {
			p.d.Error(s.Pos, fmt.Sprintf("specified worker_id<%d> collisions is detected on <worker> directive", id),
				fmt.Sprintf("worker %d has a section at %s already: put both into one", id, other.Pos))
			return w, false
		}
		taken[id] = s
	}
	return w, true
}

// workerContexts gives each worker a routing context when their routes differ: the rules
// outside of workers, then its own.
func (p *planner) workerContexts() {
	if !p.workers.apart() {
		return
	}
	all := p.contexts[""]
	for i := range p.workers.parts {
		w := &p.workers.parts[i]
		c := &routes{label: w.context(), pos: w.section.Pos}
		for j, r := range all.table.Rules() {
			if of, ok := p.workers.of[all.rules[j]]; ok && of != i {
				continue
			}
			if r.IsMatch {
				c.table.AddMatch(r.Pattern, r.Match)
			} else {
				c.table.AddFilter(r.Pattern, r.Filter)
			}
			c.rules = append(c.rules, all.rules[j])
		}
		p.contexts[c.label] = c
		p.shadowed(c)
	}
}
