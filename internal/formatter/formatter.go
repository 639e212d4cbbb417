// Package formatter turns records into the text (or bytes) that outputs write: Fluentd's
// <format> and <inject> sections. Formatters are pure and may be used from any goroutine.
package formatter

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// Formatter writes one event.
type Formatter interface {
	// Append appends the event to dst, with the line end that belongs to it. record is one
	// msgpack map that has passed event.Check; it must not lie in the spare capacity of
	// dst. Append allocates only when dst has to grow.
	Append(dst []byte, tag string, t event.Time, record []byte) []byte
}

// Env is what a formatter takes from its surroundings when it is built.
type Env struct {
	Hostname string         // for <inject>
	WorkerID int            // for <inject>
	Location *time.Location // the local zone; nil is UTC
}

// New builds the formatter of an output. format and inject are its sections, nil if it has
// none; fallback is the @type when format has none. Without an inject section the flat
// parameters of parent (include_time_key and its like) take its place, as in Fluentd;
// parent may be nil. usesTag says whether what is written depends on the tag. Mistakes are
// noted in d; f is then nil.
func New(parent, format, inject *fluentconf.Section, fallback string, env Env, d *config.Diagnostics) (f Formatter, usesTag bool) {
	before := len(d.Errors)
	f, usesTag = build(format, fallback, env, d)
	if in := InjectOf(parent, inject, env, d); in != nil {
		usesTag = usesTag || in.UsesTag()
		f = &injecting{in, f}
	}
	if len(d.Errors) > before {
		return nil, false
	}
	return f, usesTag
}

// builder builds one formatter; mistakes go to d.
type builder struct {
	s   *fluentconf.Section // nil: all defaults
	pos fluentconf.Pos
	env Env
	d   *config.Diagnostics
}

func build(s *fluentconf.Section, fallback string, env Env, d *config.Diagnostics) (f Formatter, usesTag bool) {
	b := builder{s: s, env: env, d: d}
	typ := fallback
	if s != nil {
		b.pos = s.Pos
		for _, key := range []string{"@type", "type"} {
			if p := s.Get(key); p != nil {
				typ, b.pos = p.Value.Text, p.Value.Pos
				break
			}
		}
	}
	var names []string
	for _, t := range Types() {
		if t.Name == typ {
			return t.build(&b)
		}
		names = append(names, t.Name)
	}
	d.Error(b.pos, fmt.Sprintf("weir has no formatter of type %q", typ), "formatters are "+strings.Join(names, ", "))
	return nil, false
}

// Type is a kind of formatter, as @type names it.
type Type struct {
	Name   string
	Params any // zero value of the struct that its section is read into, for the documentation
	build  func(b *builder) (f Formatter, usesTag bool)
}

// Types lists the formatters. A new one is a line here; docs/fluentd-compat.md gets its
// parameters from this list, and a test says how.
func Types() []Type {
	tagless := func(build func(*builder) Formatter) func(*builder) (Formatter, bool) {
		return func(b *builder) (Formatter, bool) { return build(b), false }
	}
	return []Type{
		{"json", JSONParams{}, tagless((*builder).json)},
		{"single_value", SingleValueParams{}, tagless((*builder).singleValue)},
		{"ltsv", LTSVParams{}, tagless((*builder).ltsv)},
		{"csv", CSVParams{}, tagless((*builder).csv)},
		{"tsv", TSVParams{}, tagless((*builder).tsv)},
		{"msgpack", MsgpackParams{}, tagless((*builder).msgpack)},
		{"out_file", OutFileParams{}, (*builder).outFile},
		{"stdout", nil, func(b *builder) (Formatter, bool) { return b.stdout(), true }}, // those of the formatter that output_type names
		{"hash", HashParams{}, tagless((*builder).hash)},
	}
}

// NewlineParams say what ends a line. Fluentd's csv has the first of the two only, its
// out_file the second.
type NewlineParams struct {
	AddNewlineParams
	WhichNewlineParams
}

// AddNewlineParams say whether something ends a line.
type AddNewlineParams struct {
	AddNewline bool `conf:"add_newline" default:"true" doc:"end the event with a line end"`
}

// WhichNewlineParams say which of the two line ends it is.
type WhichNewlineParams struct {
	Newline string `conf:"newline" enum:"lf|crlf" default:"lf" doc:"which line end"`
}

func (p NewlineParams) text() string {
	if !p.AddNewline {
		return ""
	}
	return p.WhichNewlineParams.text()
}

func (p WhichNewlineParams) text() string {
	if p.Newline == "crlf" {
		return "\r\n"
	}
	return "\n"
}

// JSONParams are the parameters of @type json.
type JSONParams struct {
	config.Plugin
	NewlineParams
	Parser string `conf:"json_parser" default:"oj" doc:"whose JSON text is written: oj, or json for any other name"`
}

type jsonFormatter struct {
	style event.JSONStyle
	end   string
}

func (b *builder) json() Formatter {
	var p JSONParams
	config.Decode(b.s, &p, b.d)
	style := event.Oj
	if p.Parser != "oj" {
		style = event.Gem // Fluentd, too, knows only these two here
	}
	return &jsonFormatter{style, p.text()}
}

func (f *jsonFormatter) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	return append(event.AppendJSON(dst, record, f.style), f.end...)
}

// SingleValueParams are the parameters of @type single_value.
type SingleValueParams struct {
	config.Plugin
	NewlineParams
	Key string `conf:"message_key" default:"message" doc:"field that is written"`
}

type singleValue struct {
	key, end string
}

func (b *builder) singleValue() Formatter {
	var p SingleValueParams
	config.Decode(b.s, &p, b.d)
	return &singleValue{p.Key, p.text()}
}

func (f *singleValue) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	if v, ok := event.FindKey(record, f.key); ok {
		dst = event.AppendText(dst, v)
	}
	return append(dst, f.end...)
}

// path compiles a record accessor.
func (b *builder) path(param, text string) event.Path {
	p, err := event.ParsePath(text)
	if err != nil {
		b.d.Error(b.pos, fmt.Sprintf("%s: %v", param, err), "")
	}
	return p
}

// MsgpackParams are the parameters of @type msgpack.
type MsgpackParams struct {
	config.Plugin
}

type msgpackFormatter struct{}

func (b *builder) msgpack() Formatter {
	config.Decode(b.s, &MsgpackParams{}, b.d)
	return msgpackFormatter{}
}

func (msgpackFormatter) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	return event.AppendWithoutTimes(dst, record)
}

// HashParams are the parameters of @type hash.
type HashParams struct {
	config.Plugin
	NewlineParams
}

type hashFormatter struct{ end string }

func (b *builder) hash() Formatter {
	var p HashParams
	config.Decode(b.s, &p, b.d)
	return &hashFormatter{p.text()}
}

func (f *hashFormatter) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	return append(event.AppendText(dst, record), f.end...)
}
