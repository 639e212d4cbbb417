package parser

import (
	"fmt"
	"strconv"
	"strings"

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

func (r *regexpParser) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	var buf [64]int
	loc, err := r.re.AppendSubmatchIndex(buf[:0], line)
	if err != nil {
		return dst, 0, false, fmt.Errorf("%w: %w", ErrParse, err)
	}
	if loc == nil {
		return dst, 0, false, fmt.Errorf("%w: pattern not matched", ErrParse)
	}
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

// MultilineParams are the parameters of @type multiline.
type MultilineParams struct {
	Common
	FormatFirstline string `conf:"format_firstline" doc:"expression that the first line of an event matches; the source that reads lines uses it"`
	multilineFormats
}

// Multiline is the parser of that type. It parses the joined lines of one event; whoever
// reads the lines asks FirstLine where an event begins.
type Multiline struct {
	*regexpParser
	first *rx.Regexp // nil: each line begins one
}

// FirstLine says whether a line begins a new event.
func (m *Multiline) FirstLine(line []byte) bool { return m.first == nil || m.first.Match(line) }

func (b *builder) multiline() Parser {
	var p MultilineParams
	config.Decode(b.s, &p, b.d)
	var joined strings.Builder
	for i, f := range p.list() {
		if f == "" {
			for k, later := range p.list()[i:] {
				if later != "" {
					b.d.Error(b.pos, "format"+strconv.Itoa(i+1)+" is missing, but format"+strconv.Itoa(i+k+1)+" is there", "number the formats without gaps")
					return nil
				}
			}
			break
		}
		if len(f) < 2 || f[0] != '/' || f[len(f)-1] != '/' {
			b.d.Error(b.pos, "format"+strconv.Itoa(i+1)+" is not between slashes", "write /…/")
			return nil
		}
		joined.WriteString(f[1 : len(f)-1])
	}
	if joined.Len() == 0 {
		b.d.Error(b.pos, "the multiline parser needs format1", "add format1 /…(?<message>.*)/")
		return nil
	}
	m := &Multiline{}
	var err error
	if f := p.FormatFirstline; f != "" {
		if m.first, err = rx.ParseLiteral(f); err != nil {
			b.d.Error(b.pos, "format_firstline: "+err.Error(), "")
			return nil
		}
	}
	re, err := rx.Compile(joined.String(), rx.Options{DotAll: true})
	if err != nil {
		b.d.Error(b.pos, err.Error(), "")
		return nil
	}
	if m.regexpParser = b.fromRegexp(re, &p.Common, commonDefaults{timeKey: "time"}); m.regexpParser == nil {
		return nil
	}
	return m
}

// multilineFormats are format1 to format20.
type multilineFormats struct {
	Format1  string `conf:"format1" doc:"expression of the event's lines; those that follow are joined to it"`
	Format2  string `conf:"format2"`
	Format3  string `conf:"format3"`
	Format4  string `conf:"format4"`
	Format5  string `conf:"format5"`
	Format6  string `conf:"format6"`
	Format7  string `conf:"format7"`
	Format8  string `conf:"format8"`
	Format9  string `conf:"format9"`
	Format10 string `conf:"format10"`
	Format11 string `conf:"format11"`
	Format12 string `conf:"format12"`
	Format13 string `conf:"format13"`
	Format14 string `conf:"format14"`
	Format15 string `conf:"format15"`
	Format16 string `conf:"format16"`
	Format17 string `conf:"format17"`
	Format18 string `conf:"format18"`
	Format19 string `conf:"format19"`
	Format20 string `conf:"format20"`
}

func (f *multilineFormats) list() []string {
	return []string{f.Format1, f.Format2, f.Format3, f.Format4, f.Format5, f.Format6, f.Format7, f.Format8, f.Format9, f.Format10,
		f.Format11, f.Format12, f.Format13, f.Format14, f.Format15, f.Format16, f.Format17, f.Format18, f.Format19, f.Format20}
}
