package parser

import (
	"fmt"
	"strings"

	"weir/internal/config"
	"weir/internal/fluentconf"
)

// Type is a kind of parser, as @type names it.
type Type struct {
	Name   string
	Params any // zero value of the struct that its section is read into, for the documentation
	build  func(b *builder) Parser
}

// Types lists the parsers. A new one is a line here and a file of its own; docs/fluentd-compat.md
// gets its parameters from this list, and a test says how.
func Types() []Type {
	return []Type{
		{"json", JSONParams{}, (*builder).json},
		{"regexp", RegexpParams{}, func(b *builder) Parser { return b.regexp("") }},
		{"none", NoneParams{}, (*builder).none},
		{"csv", CSVParams{}, (*builder).csv},
		{"tsv", TSVParams{}, (*builder).tsv},
		{"ltsv", LTSVParams{}, (*builder).ltsv},
		{"apache2", PresetParams{}, (*builder).apache2},
		{"apache", PresetParams{}, func(b *builder) Parser { return b.lines(apacheOldLine, webTime) }},
		{"apache_error", PresetParams{}, func(b *builder) Parser { return b.lines(apacheErrorLine, "") }},
		{"nginx", PresetParams{}, func(b *builder) Parser { return b.lines(nginxLine, webTime) }},
		{"syslog", SyslogParams{}, (*builder).syslog},
		{"multiline", MultilineParams{}, (*builder).multiline},
		{"msgpack", MsgpackParams{}, (*builder).msgpack},
	}
}

// New builds the parser of a <parse> section, which may be nil; fallback is the @type when
// it has none. What is wrong is noted in d; p is then nil.
func New(s *fluentconf.Section, fallback string, env Env, d *config.Diagnostics) (p Parser) {
	typ, pos := fallback, fluentconf.Pos{}
	if s != nil {
		pos = s.Pos
		for _, key := range []string{"@type", "type", "format"} {
			if prm := s.Get(key); prm != nil {
				typ, pos = prm.Value.Text, prm.Value.Pos
				break
			}
		}
	}
	before := len(d.Errors)
	p = (&builder{s: s, pos: pos, env: env, d: d}).ofType(typ)
	if len(d.Errors) > before {
		return nil
	}
	return p
}

func (b *builder) ofType(typ string) Parser {
	var names []string
	for _, t := range Types() {
		if t.Name == typ {
			return t.build(b)
		}
		names = append(names, t.Name)
	}
	if len(typ) > 1 && typ[0] == '/' {
		return b.regexp(typ)
	}
	b.d.Error(b.pos, fmt.Sprintf("weir has no parser of type %q", typ), "parsers are "+strings.Join(names, ", "))
	return nil
}

// builder makes the parser of one section.
type builder struct {
	s   *fluentconf.Section
	pos fluentconf.Pos
	env Env
	d   *config.Diagnostics
}
