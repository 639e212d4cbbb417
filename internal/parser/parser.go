// Package parser turns lines into records: Fluentd's <parse> section. Parsers are pure and
// may be used from any goroutine.
package parser

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/config"
	"weir/internal/event"
)

// Parser reads texts: lines, as a rule.
type Parser interface {
	// Parse appends to r what text holds. That is one record, except that a JSON array,
	// msgpack and multiline may hold several, or none. A part of the text that holds no
	// record is a Found with an Err. The error that Parse returns ends the text where
	// something in it cannot be made a field, such as its time; what was found before
	// stays. Both wrap ErrParse. The text's end of line has been taken off. Parse allocates
	// when r has to grow and for an error; parsers by regular expressions allocate a little
	// for each text.
	Parse(r *Records, text []byte) error
	// ParseValue does so for a msgpack value that is no text. Most parsers cannot.
	ParseValue(r *Records, value []byte) error
}

// Records are the records of a text. They are reused from text to text.
type Records struct {
	Found []Found
	buf   []byte // the records, one msgpack map each
}

// Found is one record of a text, or a part of the text that holds none.
type Found struct {
	Time     event.Time
	HasTime  bool // the text had a time
	Err      error
	from, to int
}

// Reset makes r empty.
func (r *Records) Reset() { r.Found, r.buf = r.Found[:0], r.buf[:0] }

// Record is the msgpack map of f. It is good until the next text.
func (r *Records) Record(f *Found) []byte { return r.buf[f.from:f.to] }

// Shrink gives back memory beyond most bytes.
func (r *Records) Shrink(most int) {
	if cap(r.buf) > most {
		r.buf = nil
	}
	if cap(r.Found) > most/64 {
		r.Found = nil
	}
}

// add takes what a parser has appended to r.buf. An unmatched text is a part without record.
func (r *Records) add(out []byte, t event.Time, hasTime bool, err error) error {
	if err != nil {
		if !errors.Is(err, errUnmatched) {
			return err
		}
		r.miss(err)
		return nil
	}
	r.Found = append(r.Found, Found{Time: t, HasTime: hasTime, from: len(r.buf), to: len(out)})
	r.buf = out
	return nil
}

// miss notes a part without record.
func (r *Records) miss(err error) { r.Found = append(r.Found, Found{Err: err}) }

// AnyBytes says whether p takes a text that is not UTF-8 as it is, as Ruby's does.
func AnyBytes(p Parser) bool {
	switch p.(type) {
	case *none, *jsonParser:
		return true
	}
	return false
}

// textOnly is a parser that cannot read what is no text.
type textOnly struct{}

func (textOnly) ParseValue(*Records, []byte) error { return errNoText }

// Env is what a parser takes from its surroundings. The zero Env is UTC without a clock.
type Env struct {
	Location *time.Location   // the local zone; nil is UTC
	Now      func() time.Time // for times without a year; such a time_format is refused if it is nil
}

// ErrParse marks a text that the parser cannot read.
var ErrParse = errors.New("parse line")

var (
	errUnmatched = fmt.Errorf("%w: pattern not matched", ErrParse)
	errNoText    = fmt.Errorf("%w: it is no text", ErrParse)
)

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

func (b *builder) none() Parser {
	var p NoneParams
	config.Decode(b.s, &p, b.d)
	b.common(&p.Common, commonDefaults{}) // for its mistakes: the line stays as it is
	if p.Types != nil || p.NullPattern != nil || p.NullEmptyString {
		b.d.Warn(b.pos, "types and null values have no effect on the parser none", "remove them")
	}
	return NewNone(p)
}

// Parse implements Parser.
func (p *none) Parse(r *Records, line []byte) error {
	return r.add(event.AppendStr(append(r.buf, p.head...), line), 0, false, nil)
}

// ParseValue implements Parser: the value stays what it is.
func (p *none) ParseValue(r *Records, value []byte) error {
	return r.add(append(append(r.buf, p.head...), value...), 0, false, nil)
}
