package parser

import (
	"fmt"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
)

// RegexpParams are the parameters of @type regexp.
type RegexpParams struct {
	Common
	Expression string `conf:"expression" doc:"regular expression whose named groups become fields"`
	IgnoreCase bool   `conf:"ignorecase" default:"false" doc:"letters match in any case"`
	Multiline  bool   `conf:"multiline" default:"false" doc:"the dot matches a newline"`
}

// regexpParser makes fields of the named groups of an expression.
type regexpParser struct {
	textOnly
	re     *rx.Regexp
	groups []group
	rest   *shared
	whole  bool // a group that took no part is nil, else it is no field
	// edit changes a group's text; nil for none. It appends the value.
	edit func(dst []byte, name string, text []byte) (out []byte, drop bool)
}

// group is a field: its key as msgpack, and the numbers of the groups of that name.
type group struct {
	name    string
	key     []byte
	numbers []int
}

// regexp builds the parser; literal is the expression when it stands in @type.
func (b *builder) regexp(literal string) Parser {
	var p RegexpParams
	config.Decode(b.s, &p, b.d)
	if literal != "" {
		p.Expression = literal
	}
	if p.Expression == "" {
		b.d.Error(b.pos, "the regexp parser needs an expression", "add expression /…(?<name>…)…/")
		return nil
	}
	re, err := rx.ParseLiteral(p.Expression)
	if err == nil && (p.IgnoreCase || p.Multiline) { // what stands behind the slash is then lost, as in Fluentd
		re, err = rx.Compile(re.String(), rx.Options{IgnoreCase: p.IgnoreCase, DotAll: p.Multiline})
	}
	if err != nil {
		b.d.Error(b.pos, err.Error(), "")
		return nil
	}
	return b.fromRegexp(re, &p.Common, commonDefaults{timeKey: "time"})
}

func (b *builder) fromRegexp(re *rx.Regexp, p *Common, def commonDefaults) *regexpParser {
	rest := b.common(p, def)
	if rest == nil {
		return nil
	}
	r := &regexpParser{re: re, rest: rest}
	for i, name := range re.Names() {
		if name == "" {
			continue
		}
		at := -1
		for k := range r.groups {
			if r.groups[k].name == name {
				at = k
			}
		}
		if at < 0 {
			at = len(r.groups)
			r.groups = append(r.groups, group{name: name, key: event.AppendStr(nil, name)})
		}
		r.groups[at].numbers = append(r.groups[at].numbers, i)
	}
	if len(r.groups) == 0 {
		b.d.Error(b.pos, "the expression has no named group", "write (?<name>…) around what becomes a field")
		return nil
	}
	return r
}

// Parse implements Parser.
func (p *regexpParser) Parse(r *Records, line []byte) error { return r.add(p.parse(r.buf, line)) }

func (r *regexpParser) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	var buf [64]int
	loc, err := r.match(buf[:0], line)
	if err != nil {
		return dst, 0, false, err
	}
	return r.fields(dst, line, loc)
}

// match appends where the groups are in line to buf.
func (r *regexpParser) match(buf []int, line []byte) ([]int, error) {
	loc, err := r.re.AppendSubmatchIndex(buf, line)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUnmatched, err)
	case loc == nil:
		return nil, errUnmatched
	}
	return loc, nil
}

// fields makes a record of the groups.
func (r *regexpParser) fields(dst, line []byte, loc []int) (out []byte, t event.Time, hasTime bool, err error) {
	at, count := len(dst), 0
	out = event.OpenMap(dst)
	for i := range r.groups {
		g := &r.groups[i]
		text, ok := g.text(line, loc)
		if !ok {
			if r.whole {
				out = event.AppendNil(append(out, g.key...))
				count++
			}
			continue
		}
		mark := len(out)
		out = append(out, g.key...)
		if r.edit == nil {
			out = event.AppendStr(out, text)
		} else {
			var drop bool
			if out, drop = r.edit(out, g.name, text); drop {
				out = out[:mark]
				continue
			}
		}
		count++
	}
	return r.rest.finish(dst, event.CloseMap(out, at, count))
}

// text is what the last group of that name that took part matched.
func (g *group) text(line []byte, loc []int) (text []byte, ok bool) {
	for _, i := range g.numbers {
		if from := loc[2*i]; from >= 0 {
			text, ok = line[from:loc[2*i+1]], true
		}
	}
	return text, ok
}
