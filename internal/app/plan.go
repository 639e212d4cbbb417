package app

import (
	"fmt"
	"strings"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/pipeline"
	"weir/internal/retag"
	"weir/internal/router"
	"weir/internal/web/fluentd"
)

// Plan is a configuration that has been understood: what there is to build, and how it
// hangs together. Making one opens nothing.
type Plan struct {
	System  config.System
	Sources []*sourcePlan
	File    string        // the configuration file
	Outputs []*outputPlan // in the order of the file, stores of a copy included

	contexts map[string]*routes // by label; "" is the root
	labels   []string           // of contexts, in the order of the file
	listed   []*sourcePlan      // all sources, with those that only add metrics
	metrics  *fluentd.Registry  // of prometheus filters and monitors
	monitors []fluentd.Monitor
	env      Env
}

// LogFormat is the form of log lines that <system> asks for; "" if it does not.
func (p *Plan) LogFormat() string {
	if p.System.Log == nil {
		return ""
	}
	return p.System.Log.Format
}

// LogPath is the file that <system> sends the log to; "" for none.
func (p *Plan) LogPath() string {
	if p.System.Log == nil {
		return ""
	}
	return p.System.Log.Path
}

// LogRotation is when the log file is renamed, as <system> says; "" and 0 for what it does not.
func (p *Plan) LogRotation() (age string, size int64) {
	if l := p.System.Log; l != nil {
		if age = l.RotateAge; l.RotateSize != nil {
			size = int64(*l.RotateSize)
		}
	}
	return age, size
}

// routes are the rules of one routing context: the root, or a label.
type routes struct {
	label string
	pos   fluentconf.Pos
	table router.Table[*filterPlan, *matchPlan]
	rules []*fluentconf.Section // of each rule of the table
}

// matchPlan is one <match>: where it sends what it takes.
type matchPlan struct {
	section *fluentconf.Section
	kind    string
	id      string // of a copy or roundrobin
	ends    []endPlan
	weights []int // of the ends of a roundrobin
}

// passPlan is an output that passes events on instead of keeping them.
type passPlan struct {
	id, typ string
	params  [][2]string
	in      *pipeline.Counter
}

// multi says that the match has <store> sections.
func (m *matchPlan) multi() bool { return m.kind == "copy" || m.kind == "roundrobin" }

// endPlan is an output, or with relabel another context, or a rewriter of tags.
type endPlan struct {
	out      *outputPlan
	relabel  string
	rewrite  *retag.Rewriter
	pass     *passPlan // of an end without out
	route    *routePlan
	detect   *detectPlan
	label    string   // @label of a rewriter
	labels   []string // all labels that a rewriter or a route names
	pos      fluentconf.Pos
	optional bool
	fallback bool // ignore_if_prev_success
}

// labelRef is the name of a label where something refers to it.
type labelRef struct {
	label string
	pos   fluentconf.Pos
}

// refers lists the labels that a rule sends events to.
func refers(r router.Rule[*filterPlan, *matchPlan]) (refs []labelRef) {
	if !r.IsMatch {
		if l := r.Filter.late(); l != "" {
			refs = append(refs, labelRef{l, r.Filter.pos})
		}
		return refs
	}
	for _, e := range r.Match.ends {
		if e.relabel != "" {
			refs = append(refs, labelRef{e.relabel, e.pos})
		}
		for _, l := range e.labels {
			refs = append(refs, labelRef{l, e.pos})
		}
	}
	return refs
}

// planner collects a Plan and every mistake on the way.
type planner struct {
	*Plan
	d       *config.Diagnostics
	ids     map[string]fluentconf.Pos
	numbers map[string]int // outputs without @id, by type
	paths   map[string]fluentconf.Pos
	workers workers
}

func newPlan(root *fluentconf.Section, env Env, d *config.Diagnostics) *Plan {
	p := &planner{
		Plan: &Plan{File: root.Pos.File, env: env, contexts: map[string]*routes{}}, d: d,
		ids: map[string]fluentconf.Pos{}, numbers: map[string]int{}, paths: map[string]fluentconf.Pos{},
	}
	p.System = config.ParseSystem(root, d)
	d.StrictValues = d.StrictValues || p.System.StrictConfigValue
	for _, prm := range root.Params {
		d.Warn(prm.Pos, fmt.Sprintf("parameter %q outside of any section is not used", prm.Key), "move it into a section")
	}
	if env.Flags.Workers > 0 {
		p.System.Workers = env.Flags.Workers
	}
	p.metrics = fluentd.NewRegistry(env.Hostname, p.System.Workers)
	root = p.takeWorkers(root)
	p.context("", root)
	p.workerContexts()
	for _, s := range root.Sections {
		switch s.Name {
		case "source":
			p.source(s)
		case "label":
			p.label(s)
		case "match", "filter", "system":
		default:
			d.Warn(s.Pos, fmt.Sprintf("section <%s> is not used", s.Name), "weir knows source, match, filter, label, worker and system here")
		}
	}
	p.links()
	p.ownLogMatch()
	return p.Plan
}

func (p *planner) label(s *fluentconf.Section) {
	if s.Arg != "" && s.Arg[0] != '@' { // Fluentd takes it
		p.d.Warn(s.Pos, fmt.Sprintf("a label's name begins with @, by custom, not %q", s.Arg), "write <label @NAME>, and @label @NAME where events go to it")
	}
	switch {
	case s.Arg == "" || s.Arg == "@":
		p.d.Error(s.Pos, fmt.Sprintf("%q is no name of a label", s.Arg), "write <label @NAME>")
		return
	case s.Arg == "@ROOT":
		p.d.Error(s.Pos, "@ROOT names the top level and cannot be defined", "choose another name")
		return
	case p.contexts[s.Arg] != nil:
		p.d.Error(s.Pos, fmt.Sprintf("label %s is already defined at %s", s.Arg, p.contexts[s.Arg].pos), "put everything into one <label> section")
		return
	}
	if len(s.All("match")) == 0 {
		p.d.Error(s.Pos, fmt.Sprintf("label %s has no <match>", s.Arg), "add one, <match **> takes everything")
	}
	p.context(s.Arg, s)
	for _, c := range s.Sections {
		if c.Name != "match" && c.Name != "filter" {
			p.d.Error(c.Pos, fmt.Sprintf("<%s> cannot stand in a label", c.Name), "only <match> and <filter> can")
		}
	}
}

// context reads the rules of the root or of a label.
func (p *planner) context(label string, s *fluentconf.Section) {
	c := &routes{label: label, pos: s.Pos}
	p.contexts[label] = c
	p.labels = append(p.labels, label)
	for _, r := range s.Sections {
		if r.Name != "match" && r.Name != "filter" {
			continue
		}
		pattern, err := router.Compile(r.Arg)
		if err != nil {
			p.d.Error(r.Pos, err.Error(), "see the rules for tag patterns in docs/fluentd-compat.md")
			continue
		}
		if r.Name == "filter" {
			if f := p.filter(r); f != nil {
				c.table.AddFilter(pattern, f)
				c.rules = append(c.rules, r)
			}
		} else if m := p.match(r); m != nil {
			p.circle(pattern, m)
			c.table.AddMatch(pattern, m)
			c.rules = append(c.rules, r)
		}
	}
	if label != "" || !p.workers.apart() {
		p.shadowed(c)
	}
}

// shadowed warns about rules that no event can reach.
func (p *planner) shadowed(c *routes) {
	rules := c.table.Rules()
	for _, sh := range c.table.Shadowed() {
		kind := "filter"
		if rules[sh.Rule].IsMatch {
			kind = "match"
		}
		p.d.Warn(c.rules[sh.Rule].Pos, fmt.Sprintf("<%s %s> never sees an event: the <match> at %s takes them before", kind, rules[sh.Rule].Pattern, c.rules[sh.By].Pos),
			"move it in front of that match")
	}
}

// typeOf reads @type; "" after reporting that it is missing.
func (p *planner) typeOf(s *fluentconf.Section) (string, fluentconf.Pos) {
	for _, key := range []string{"@type", "type"} {
		if prm := s.Get(key); prm != nil {
			return prm.Value.Text, prm.Value.Pos
		}
	}
	p.d.Error(s.Pos, fmt.Sprintf("<%s> has no @type", s.Name), "add a line such as: @type "+firstType(s.Name))
	return "", s.Pos
}

func firstType(section string) string {
	switch section {
	case "source":
		return "forward"
	case "filter":
		return "record_transformer"
	}
	return "cloudwatch_logs"
}

// match reads a <match>; nil after an error.
func (p *planner) match(s *fluentconf.Section) *matchPlan {
	typ, pos := p.typeOf(s)
	m := &matchPlan{section: s, kind: typ}
	switch typ {
	case "":
		return nil
	case "copy", "roundrobin":
		m.id = p.identify(s, typ, idOf(s))
		m.ends, m.weights = p.stores(s, typ)
	case "relabel":
		label := s.Get("@label")
		if label == nil {
			p.d.Error(s.Pos, "relabel needs a label to send to", "add a line: @label @NAME")
			return nil
		}
		m.ends = []endPlan{{relabel: label.Value.Text, pos: label.Value.Pos, pass: p.pass(s, typ)}}
		p.unused(s, "@type", "type", "@label", "@id", "id", "@log_level", "log_level")
	case "rewrite_tag_filter":
		e := p.rewriter(s)
		if e == nil {
			return nil
		}
		m.ends = []endPlan{*e}
	case "detect_exceptions":
		e := p.detect(s)
		if e == nil {
			return nil
		}
		m.ends = []endPlan{*e}
	case "route":
		e := p.route(s)
		if e == nil {
			return nil
		}
		m.ends = []endPlan{*e}
	default:
		if o := p.output(s, typ, pos); o != nil {
			m.ends = []endPlan{{out: o, pos: s.Pos}}
		}
	}
	return m
}

// circle warns about a rewrite_tag_filter whose new tags its own <match> takes again.
func (p *planner) circle(pattern *router.Pattern, m *matchPlan) {
	for _, e := range m.ends {
		if e.detect != nil && e.label == "" && pattern.All() {
			p.d.Warn(e.pos, "this <match> takes what comes out of its detect_exceptions again: it goes round in a circle and is dropped",
				"write a pattern that only takes tags with remove_tag_prefix, or add @label @NAME and the next steps in <label @NAME>")
		}
		if e.rewrite == nil || e.label != "" {
			continue
		}
		hint := "send them to a label: write @label @NAME in this section, and the next steps into <label @NAME>"
		for _, t := range e.rewrite.Tags() {
			if !t.Unchanged() && again(pattern, &t) { // that is told apart, and no circle
				p.d.Warn(t.Pos, fmt.Sprintf("the new tag %q is taken by this <match> again: its events go round in a circle and are dropped", t.With("…", "…")), hint)
			}
		}
	}
}

// again says whether a new tag, whatever the event, is matched by the pattern that matched
// the old one.
func again(pattern *router.Pattern, t *retag.NewTag) bool {
	old := strings.NewReplacer("**", "x.y", "*", "x").Replace(pattern.String())
	if !pattern.Match(old) {
		old = "x"
	}
	for _, value := range []string{"a", "a.b", "0"} {
		if !pattern.Match(t.With(value, old)) {
			return false
		}
	}
	return true
}

// rewriter reads a rewrite_tag_filter; nil after an error.
func (p *planner) rewriter(s *fluentconf.Section) *endPlan {
	var params retag.Params
	config.Decode(s, &params, p.d)
	r := retag.New(s, params, p.env.Hostname, p.d)
	if r == nil {
		return nil
	}
	e := &endPlan{rewrite: r, label: params.Label, pos: s.Pos, pass: p.pass(s, "rewrite_tag_filter")}
	if e.label != "" {
		e.labels = append(e.labels, e.label)
	}
	for _, ru := range params.Rules {
		if ru.Label != "" {
			e.labels = append(e.labels, ru.Label)
		}
	}
	return e
}

// pass describes an output that passes events on.
func (p *planner) pass(s *fluentconf.Section, typ string) *passPlan {
	return &passPlan{id: p.identify(s, typ, idOf(s)), typ: typ, params: shown(s), in: &pipeline.Counter{}}
}

// idOf is the @id of a section, "" for none.
func idOf(s *fluentconf.Section) (id string) {
	for _, key := range []string{"id", "@id"} {
		if prm := s.Get(key); prm != nil {
			id = prm.Value.Text
		}
	}
	return id
}

// unused warns about parameters that nobody reads.
func (p *planner) unused(s *fluentconf.Section, known ...string) {
	for _, prm := range s.Params {
		ok := false
		for _, k := range known {
			ok = ok || prm.Key == k
		}
		switch {
		case ok:
		case p.d.Strict:
			p.d.Error(prm.Pos, fmt.Sprintf("parameter %q is not used by %s", prm.Key, s.Name), "remove it")
		default:
			p.d.Warn(prm.Pos, fmt.Sprintf("parameter %q is not used by %s", prm.Key, s.Name), "remove it")
		}
	}
}

// links checks what sections refer to.
func (p *planner) links() {
	for _, src := range p.Sources {
		if src.label != "" && src.label != "@ROOT" && p.contexts[src.label] == nil {
			p.d.Error(src.labelPos, fmt.Sprintf("label %s is not defined", src.label), fmt.Sprintf("add <label %s> … </label>", src.label))
		}
	}
	for _, c := range p.contexts {
		if c.worker() {
			continue
		}
		for _, r := range c.table.Rules() {
			for _, ref := range refers(r) {
				if ref.label != "@ROOT" && p.contexts[ref.label] == nil {
					p.d.Error(ref.pos, fmt.Sprintf("label %s is not defined", ref.label), fmt.Sprintf("add <label %s> … </label>", ref.label))
				}
			}
		}
	}
	for _, src := range p.Sources {
		for _, o := range p.Outputs {
			o.noPark = o.noPark || src.delivered && o.dir == ""
		}
	}
	if len(p.d.Errors) == 0 {
		p.unusedLabels()
	}
	if len(p.Outputs) == 0 && len(p.d.Errors) == 0 {
		p.d.Warn(fluentconf.Pos{File: p.contexts[""].pos.File, Line: 1, Column: 1}, "there is no output: whatever arrives is dropped", "add a <match **>")
	}
	if p.env.Flags.WithoutSource || p.System.WithoutSource {
		p.Sources, p.listed = nil, nil
		p.d.Note(p.contexts[""].pos, "sources are left out, as without_source asks", "")
		return
	}
	if len(p.Sources) == 0 && len(p.d.Errors) == 0 {
		p.d.Error(fluentconf.Pos{File: p.contexts[""].pos.File, Line: 1, Column: 1}, "there is no <source>, so nothing can arrive", "add one, for example @type forward")
	}
}

// identify gives an output, filter or source its id: @id, or its type with a number in the
// order of the file, so that it is the same at every start.
func (p *planner) identify(s *fluentconf.Section, typ, id string) string {
	if id == "" {
		key := s.Name + " " + typ
		if s.Name == "store" {
			key = "match " + typ
		}
		p.numbers[key]++
		if id = typ; p.numbers[key] > 1 {
			id = fmt.Sprintf("%s.%d", typ, p.numbers[key])
		}
		return id
	}
	if at, ok := p.ids[id]; ok {
		p.d.Error(s.Pos, fmt.Sprintf("@id %s is already used at %s", id, at), "choose another")
	}
	p.ids[id] = s.Pos
	return id
}
