package parser

import (
	"bytes"
	"strconv"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
)

// MultilineParams are the parameters of @type multiline.
type MultilineParams struct {
	Common
	UnmatchedLines  string `conf:"unmatched_lines" doc:"set: a text that does not match becomes an event with the field unmatched_line"`
	FormatFirstline string `conf:"format_firstline" doc:"expression that the first line of an event matches; the source that reads lines uses it"`
	multilineFormats
}

// Multiline is the parser of that type. It parses joined lines, which may hold several
// events; whoever reads the lines asks FirstLine where an event begins.
type Multiline struct {
	*regexpParser
	first     *rx.Regexp // nil: each line begins one
	unmatched bool       // what does not match is a record too
}

// Parse implements Parser: what is behind a match is matched again, until nothing is left.
func (m *Multiline) Parse(r *Records, text []byte) error {
	var buf [64]int
	for {
		loc, err := m.match(buf[:0], text)
		switch {
		case err != nil && m.unmatched:
			out := event.AppendStr(event.AppendMapHeader(r.buf, 1), "unmatched_line")
			return r.add(event.AppendStr(out, text), 0, false, nil)
		case err != nil:
			r.miss(err)
			return nil
		}
		if err := r.add(m.fields(r.buf, text, loc)); err != nil {
			return err
		}
		rest := bytes.TrimPrefix(text[loc[1]:], []byte("\n"))
		if len(rest) == 0 || len(rest) == len(text) { // nothing is left, or it would match nothing for ever
			return nil
		}
		text = rest
	}
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
	m := &Multiline{unmatched: p.UnmatchedLines != ""}
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
