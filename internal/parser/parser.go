// Package parser turns lines into records: Fluentd's <parse> section. Parsers are pure and
// may be used from any goroutine.
package parser

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// Parser reads one line.
type Parser interface {
	// Parse appends the record (one msgpack map) that the line holds to dst. hasTime says
	// whether the line also had a time, t. After an error, which wraps ErrParse, out is dst
	// unchanged. The line's end has been taken off. Parse allocates when dst has to grow and
	// for an error; parsers by regular expressions allocate a little for each line.
	Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error)
}

// Env is what a parser takes from its surroundings. The zero Env is UTC without a clock.
type Env struct {
	Location *time.Location   // the local zone; nil is UTC
	Now      func() time.Time // for times without a year; such a time_format is refused if it is nil
}

// ErrParse marks a line that the parser cannot read.
var ErrParse = errors.New("parse line")

// New is NewIn without surroundings.
func New(s *fluentconf.Section, fallback string, d *config.Diagnostics) (p Parser) {
	return NewIn(s, fallback, Env{}, d)
}

// NewIn builds the parser of a <parse> section, which may be nil; fallback is the @type when
// it has none. What is wrong is noted in d; p is then nil.
func NewIn(s *fluentconf.Section, fallback string, env Env, d *config.Diagnostics) (p Parser) {
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
	b := builder{s: s, pos: pos, env: env, d: d}
	switch typ {
	case "none":
		var params NoneParams
		config.Decode(s, &params, d)
		p = b.none(params)
	case "json":
		p = b.json()
	case "regexp":
		p = b.regexp("")
	case "csv":
		p = b.csv()
	case "tsv":
		p = b.tsv()
	case "ltsv":
		p = b.ltsv()
	case "apache2":
		p = b.apache2()
	case "apache":
		p = b.lines(apacheOldLine, webTime)
	case "apache_error":
		p = b.lines(apacheErrorLine, "")
	case "nginx":
		p = b.lines(nginxLine, webTime)
	case "syslog":
		p = b.syslog()
	case "multiline":
		p = b.multiline()
	case "msgpack":
		p = b.msgpack()
	default:
		if len(typ) > 1 && typ[0] == '/' {
			p = b.regexp(typ)
			break
		}
		d.Error(pos, fmt.Sprintf("weir has no parser of type %q", typ), "parsers are json, regexp, none, csv, tsv, ltsv, apache2, apache, apache_error, nginx, syslog, multiline and msgpack")
	}
	if len(d.Errors) > before {
		return nil
	}
	return p
}

// builder makes the parser of one section.
type builder struct {
	s   *fluentconf.Section
	pos fluentconf.Pos
	env Env
	d   *config.Diagnostics
}

// NoneParams are the parameters of @type none.
type NoneParams struct {
	Common
	MessageKey string `conf:"message_key" default:"message" doc:"field for the line"`
}

type none struct{ head []byte }

// NewNone makes the whole line one field.
func NewNone(p NoneParams) Parser {
	return &none{event.AppendStr(event.AppendMapHeader(nil, 1), p.MessageKey)}
}

func (b *builder) none(p NoneParams) Parser {
	b.common(&p.Common, commonDefaults{}) // for its mistakes: the line stays as it is
	if p.Types != nil || p.NullPattern != nil || p.NullEmptyString {
		b.d.Warn(b.pos, "types and null values have no effect on the parser none", "remove them")
	}
	return NewNone(p)
}

func (p *none) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	return event.AppendStr(append(dst, p.head...), line), 0, false, nil
}
