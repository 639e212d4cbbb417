package app

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/fluentconf"
	"weir/internal/pipeline"
)

// stores reads the <store> sections of a copy or roundrobin.
func (p *planner) stores(s *fluentconf.Section, kind string) (ends []endPlan, weights []int) {
	if len(s.All("store")) == 0 {
		p.d.Error(s.Pos, kind+" has no <store>", "add at least one <store> section with an output")
	}
	if prm := s.Get("copy_mode"); prm != nil {
		switch prm.Value.Text {
		case "no_copy", "shallow", "deep", "marshal":
		default:
			p.d.Error(prm.Value.Pos, fmt.Sprintf("copy_mode %q does not exist", prm.Value.Text), "write no_copy, shallow, deep or marshal; they are all the same here: stores never share")
		}
	}
	for i, st := range s.All("store") {
		e := endPlan{pos: st.Pos}
		weight := 1
		if kind == "roundrobin" {
			st, weight = p.weight(st)
		}
		p.words(&e, st, kind, i)
		if p.store(&e, st) {
			ends, weights = append(ends, e), append(weights, weight)
		}
	}
	if kind == "roundrobin" {
		p.unused(s, "@type", "type", "@id", "id", "@log_level", "log_level")
		if len(ends) > 0 && pipeline.NewTurn(weights) == nil {
			p.d.Error(s.Pos, fmt.Sprintf("the weights %v of the stores give no sequence", weights), "write small whole numbers, one of them above 0")
		}
		return ends, weights
	}
	p.unused(s, "@type", "type", "@id", "id", "@log_level", "log_level", "copy_mode", "deep_copy")
	p.fallbacks(s, ends)
	return ends, nil
}

// words reads what stands behind <store; i is its place in the section.
func (p *planner) words(e *endPlan, st *fluentconf.Section, kind string, i int) {
	for _, word := range strings.Fields(st.Arg) {
		switch {
		case kind == "roundrobin":
			p.d.Error(st.Pos, fmt.Sprintf("a <store> of roundrobin does not know the word %q", word), "write <store>")
		case word == "ignore_error":
			e.optional = true
		case word == "ignore_if_prev_success" && i > 0:
			e.fallback = true
		case word == "ignore_if_prev_success":
			p.d.Error(st.Pos, "the first <store> cannot have ignore_if_prev_success: there is none before it", "write the word in a later <store>, or leave it out")
		default:
			p.d.Error(st.Pos, fmt.Sprintf("a <store> does not know the word %q", word), "write <store>, <store ignore_error> or <store ignore_if_prev_success>")
		}
	}
}

// store reads where a <store> sends events to; false after an error.
func (p *planner) store(e *endPlan, st *fluentconf.Section) bool {
	var special *endPlan
	typ, pos := p.typeOf(st)
	switch typ {
	case "":
		return false
	case "copy", "roundrobin":
		p.d.Error(pos, fmt.Sprintf("a <store> cannot be a %s itself", typ), "send it to a label with relabel, and write the "+typ+" there")
		return false
	case "relabel":
		label := st.Get("@label")
		if label == nil {
			p.d.Error(st.Pos, "relabel needs a label to send to", "add a line: @label @NAME")
			return false
		}
		e.relabel, e.pos, e.pass = label.Value.Text, label.Value.Pos, p.pass(st, typ)
		return true
	case "rewrite_tag_filter":
		special = p.rewriter(st)
	case "detect_exceptions":
		special = p.detect(st)
	case "route":
		special = p.route(st)
	default:
		e.out = p.output(st, typ, pos)
		return e.out != nil
	}
	if special == nil {
		return false
	}
	special.optional, special.fallback = e.optional, e.fallback
	*e = *special
	return true
}

// fallbacks warns about stores of a copy whose words have an effect that surprises.
func (p *planner) fallbacks(s *fluentconf.Section, ends []endPlan) {
	ignored, some := 0, false
	for i := range ends {
		some = some || ends[i].fallback
		if ends[i].optional {
			ignored++
		}
		switch {
		case i == 0 || !ends[i].fallback:
		case ends[i-1].fallback:
			p.d.Warn(ends[i].pos, "this <store> gets the events too when the one before it got none, because the one before that has taken them: a store that is passed over counts as no success, as in Fluentd",
				"keep to two stores, or chain them with relabel and a copy in each label")
		case !ends[i-1].optional:
			p.d.Warn(ends[i].pos, "this <store> never gets an event: when the one before it refuses, the sender is told so", "write ignore_error in the <store> before")
		}
	}
	if len(ends) > 0 && ignored == len(ends) && !some {
		p.d.Warn(s.Pos, "ignore_error stands in every <store>: when all refuse, the events are dropped", "leave it out where events matter")
	}
}

// weight takes the parameter weight out of a <store> of a roundrobin.
func (p *planner) weight(st *fluentconf.Section) (*fluentconf.Section, int) {
	prm := st.Get("weight")
	if prm == nil {
		return st, 1
	}
	rest := *st
	rest.Params = nil
	for _, o := range st.Params {
		if o.Key != "weight" {
			rest.Params = append(rest.Params, o)
		}
	}
	n, err := strconv.Atoi(prm.Value.Text)
	if err != nil || n < 0 {
		p.d.Error(prm.Value.Pos, fmt.Sprintf("weight %q is no whole number", prm.Value.Text), "write 0, 1, 2 …")
		n = 1
	}
	return &rest, n
}
