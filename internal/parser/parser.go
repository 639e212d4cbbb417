// Package parser turns lines into records: Fluentd's <parse> section. Parsers are pure and
// may be used from any goroutine.
package parser

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// Parser reads one line.
type Parser interface {
	// Parse appends the record (one msgpack map) that the line holds to dst. hasTime says
	// whether the line also had a time, t. After an error, which wraps ErrParse, out is dst
	// unchanged. The line's end has been taken off. Parse allocates only when dst has to
	// grow, and for an error.
	Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error)
}

// ErrParse marks a line that the parser cannot read.
var ErrParse = errors.New("parse line")

// New builds the parser of a <parse> section, which may be nil; fallback is the @type when
// it has none. What is wrong is noted in d; p is then nil.
func New(s *fluentconf.Section, fallback string, d *config.Diagnostics) (p Parser) {
	typ, pos := fallback, fluentconf.Pos{}
	if s != nil {
		pos = s.Pos
		for _, key := range []string{"@type", "type"} {
			if prm := s.Get(key); prm != nil {
				typ, pos = prm.Value.Text, prm.Value.Pos
				break
			}
		}
	}
	before := len(d.Errors)
	switch typ {
	case "none":
		var params NoneParams
		config.Decode(s, &params, d)
		p = NewNone(params)
	case "json":
		var params JSONParams
		config.Decode(s, &params, d)
		p = NewJSON(params, pos, d)
	default:
		d.Error(pos, fmt.Sprintf("weir has no parser of type %q", typ), "parsers are none and json")
	}
	if len(d.Errors) > before {
		return nil
	}
	return p
}

// NoneParams are the parameters of @type none.
type NoneParams struct {
	config.Plugin
	MessageKey string `conf:"message_key" default:"message" doc:"field for the line"`
}

type none struct{ head []byte }

// NewNone makes the whole line one field.
func NewNone(p NoneParams) Parser {
	return &none{event.AppendStr(event.AppendMapHeader(nil, 1), p.MessageKey)}
}

func (p *none) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	return event.AppendStr(append(dst, p.head...), line), 0, false, nil
}

// JSONParams are the parameters of @type json.
type JSONParams struct {
	config.Plugin
	Parser      string `conf:"json_parser" enum:"oj|yajl|json" default:"oj" doc:"accepted for compatibility, without effect"`
	TimeKey     string `conf:"time_key" default:"time" doc:"field that holds the time"`
	TimeType    string `conf:"time_type" enum:"float|unixtime|string|mixed" doc:"how the time is written: float and unixtime"`
	TimeFormat  string `conf:"time_format" doc:"not supported yet"`
	KeepTimeKey bool   `conf:"keep_time_key" default:"false" doc:"leave the time in the record"`
	Estimate    bool   `conf:"estimate_current_event" default:"true" doc:"a line without a time has the time of reading"`
}

type jsonParser struct {
	timeKey string
	remove  *event.PathSet // nil if the field stays
	whole   bool           // the time is taken in whole seconds
}

// NewJSON makes a record of a line that is one JSON object. A field named time_key that
// holds a number of seconds gives the time.
func NewJSON(p JSONParams, pos fluentconf.Pos, d *config.Diagnostics) Parser {
	if p.TimeFormat != "" || p.TimeType == "string" || p.TimeType == "mixed" {
		d.Error(pos, "times written as text are not supported yet", "remove time_format, or let the sender write seconds (time_type float or unixtime)")
		return nil
	}
	j := &jsonParser{timeKey: p.TimeKey, whole: p.TimeType == "unixtime"}
	if !p.KeepTimeKey {
		j.remove = event.NewPathSet(event.KeyPath(p.TimeKey))
	}
	return j
}

func (p *jsonParser) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	start := len(dst)
	out, n, err := event.AppendFromJSON(dst, line)
	switch {
	case err != nil:
		return dst, 0, false, fmt.Errorf("%w as JSON: %w", ErrParse, err)
	case len(bytes.TrimLeft(line[n:], " \t\r\n")) > 0:
		return dst, 0, false, fmt.Errorf("%w as JSON: something follows the value at byte %d", ErrParse, n)
	}
	if _, _, err := event.MapHeader(out, start); err != nil {
		return dst, 0, false, fmt.Errorf("%w as JSON: the value is not an object", ErrParse)
	}
	v, ok := event.FindKey(out[start:], p.timeKey)
	if !ok || v[0] == 0xc0 {
		return out, 0, false, nil
	}
	if t, ok = timeOf(v, p.whole); !ok {
		return dst, 0, false, fmt.Errorf("%w as JSON: the field %s is not a time in seconds", ErrParse, p.timeKey)
	}
	if p.remove != nil {
		end := len(out)
		out = event.AppendWithout(out, out[start:end:end], p.remove)
		out = out[:start+copy(out[start:], out[end:])]
	}
	return out, t, true, nil
}

// timeOf reads seconds: a number, or a text that is one. Of the decimals as they are
// written nine count. ok is false for anything else, and for what EventTime cannot hold.
func timeOf(v []byte, whole bool) (t event.Time, ok bool) {
	var buf [32]byte
	text, _, err := event.Bytes(v, 0)
	if err != nil {
		switch c := v[0]; {
		case c == 0xcb:
			text = strconv.AppendFloat(buf[:0], math.Float64frombits(binary.BigEndian.Uint64(v[1:])), 'f', -1, 64)
		default:
			t, _, err = event.ReadTime(v, 0)
			return t, err == nil && t >= 0 && t.Seconds() <= math.MaxUint32
		}
	}
	sec, frac, _ := bytes.Cut(text, []byte{'.'})
	seconds, n := number(sec, 10)
	if n == 0 || n != len(sec) || seconds > math.MaxUint32 {
		return 0, false
	}
	nanos, n := number(frac, 9)
	if n != len(frac) {
		if n < 9 || !digits(frac[n:]) {
			return 0, false
		}
	}
	for ; n < 9; n++ {
		nanos *= 10
	}
	if whole {
		nanos = 0
	}
	return event.Unix(seconds, nanos), true
}

// number reads up to limit digits and says how many there were.
func number(s []byte, limit int) (v int64, n int) {
	for n < len(s) && n < limit && s[n] >= '0' && s[n] <= '9' {
		v = 10*v + int64(s[n]-'0')
		n++
	}
	return v, n
}

func digits(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
