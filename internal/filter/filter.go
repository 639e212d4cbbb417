// Package filter holds the filters: pure functions over the raw entries of a batch.
package filter

import (
	"time"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/parser"
	"weir/internal/ruby/expr"
)

// Filter changes or removes events. A Filter is immutable after its construction and may
// be used from any goroutine; what it needs for working it keeps in the Scratch.
type Filter interface {
	// Apply reads the entries of src, which have passed event.Check, and appends those
	// that go on, changed or not, to dst. It returns the grown dst and how many events go
	// on and how many failed; the others were filtered. An event may make several: s.Made
	// grows by those beyond the first. When nothing changes it may return
	// src itself instead of a copy.
	Apply(s *Scratch, tag string, src, dst []byte) (out []byte, kept, failed int)
}

// Scratch is working memory that a filter may use during Apply. Each goroutine has its own.
type Scratch struct {
	Buf []byte
	// Made counts the events that filters made beyond those that came in.
	Made int
	// Errors takes the events that fail; nil if nobody wants them.
	Errors ErrorSink

	sub     subject
	ruby    expr.Machine
	results []expr.Value   // of the templates of one event
	record  []byte         // a record under construction
	parsed  []byte         // text of an event that is held
	records parser.Records // of a parsed text
	text    []byte         // a text under construction
	fields  []field        // the expanded fields of one event
	parts   []span         // the parts of a tag
}

// ErrorSink takes events that a filter could not process. Fluentd sends them to the label
// @ERROR.
type ErrorSink interface {
	// FilterError is told of one event: its tag, the event as it came in, one whole entry,
	// and what went wrong, in Fluentd's words. The bytes are borrowed until it returns.
	FilterError(tag string, entry []byte, message string)
	// FilterPassed is told that an event goes on because the filter could not look at it.
	FilterPassed(tag, message string)
}

// fail tells the sink of an event that failed.
func (s *Scratch) fail(tag string, entry []byte, message string) {
	if s.Errors != nil {
		s.Errors.FilterError(tag, entry, message)
	}
}

// pass tells the sink of an event that goes on though the filter could not look at it.
func (s *Scratch) pass(tag, message string) {
	if s.Errors != nil {
		s.Errors.FilterPassed(tag, message)
	}
}

// Env is what a filter takes from its surroundings when it is built.
type Env struct {
	Hostname string         // value of ${hostname}
	Location *time.Location // zone in which ${time} is printed; nil is UTC
	Pos      fluentconf.Pos // of the filter's section, for mistakes that have no line of their own

	Lookup func(name string) (string, bool) // environment variables, for Ruby
	Now    func() time.Time                 // for Ruby's Time.now, and times without a year
	Random func(b []byte)                   // fills b; for Ruby's rand and SecureRandom
	PID    int                              // for Ruby's Process.pid
}

// New builds the filter that a <filter> section describes, by its @type. What is wrong is
// noted in d; f is then nil. known is false if this package has no such type.
func New(s *fluentconf.Section, env Env, d *config.Diagnostics) (f Filter, known bool) {
	typ := typeOf(s)
	env.Pos = s.Pos
	before := len(d.Errors)
	switch typ {
	case "grep":
		var p GrepParams
		if config.Decode(s, &p, d); len(d.Errors) > before {
			return nil, true
		}
		f = NewGrep(p, env, d)
	case "record_transformer":
		var p RecordTransformerParams
		if config.Decode(s, &p, d); len(d.Errors) > before {
			return nil, true
		}
		f = NewRecordTransformer(p, env, d)
	case "parser":
		f = newParser(s, env, d)
	default:
		return nil, false
	}
	return f, true
}

// NewHolder builds the Holder that a <filter> section describes, by its @type. What is
// wrong is noted in d; h is then nil. known is false if this package has no Holder of that
// type.
func NewHolder(s *fluentconf.Section, env Env, d *config.Diagnostics) (h Holder, known bool) {
	env.Pos = s.Pos
	before := len(d.Errors)
	switch typeOf(s) {
	case "concat":
		var p ConcatParams
		if config.Decode(s, &p, d); len(d.Errors) == before {
			if c := NewConcat(s, p, env, d); c != nil {
				h = c
			}
		}
	case "detect_exceptions":
		var p struct {
			config.Plugin
			DetectParams
			RemovePrefix string `conf:"remove_tag_prefix" doc:"without effect in a filter"`
		}
		if config.Decode(s, &p, d); len(d.Errors) == before {
			if c := NewDetect(p.DetectParams, env, d); c != nil {
				h = c
			}
		}
	default:
		return nil, false
	}
	return h, true
}

// typeOf is the @type of a section; "" if there is none.
func typeOf(s *fluentconf.Section) string {
	for _, key := range []string{"@type", "type"} {
		if p := s.Get(key); p != nil {
			return p.Value.Text
		}
	}
	return ""
}
