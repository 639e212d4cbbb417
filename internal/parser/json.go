package parser

import (
	"bytes"
	"fmt"

	"weir/internal/config"
	"weir/internal/event"
)

// JSONParams are the parameters of @type json.
type JSONParams struct {
	Common
	Parser string      `conf:"json_parser" enum:"oj|yajl|json" default:"oj" doc:"accepted for compatibility, without effect"`
	Buffer config.Size `conf:"stream_buffer_size" doc:"accepted for compatibility, without effect"`
}

// jsonParser makes a record of a line that is one JSON object.
type jsonParser struct{ rest *shared }

func (b *builder) json() Parser {
	var p JSONParams
	config.Decode(b.s, &p, b.d)
	rest := b.common(&p.Common, commonDefaults{timeKey: "time", timeType: "float"})
	if rest == nil {
		return nil
	}
	return &jsonParser{rest}
}

func (p *jsonParser) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	out, n, err := event.AppendFromJSON(dst, line)
	switch {
	case err != nil:
		return dst, 0, false, fmt.Errorf("%w as JSON: %w", ErrParse, err)
	case len(bytes.TrimLeft(line[n:], " \t\r\n")) > 0:
		return dst, 0, false, fmt.Errorf("%w as JSON: something follows the value at byte %d", ErrParse, n)
	}
	if _, _, err := event.MapHeader(out, len(dst)); err != nil {
		return dst, 0, false, fmt.Errorf("%w as JSON: the value is not an object", ErrParse)
	}
	return p.rest.finish(dst, out)
}

// MsgpackParams are the parameters of @type msgpack.
type MsgpackParams struct{ Common }

// msgpackParser takes a line that is one msgpack map.
type msgpackParser struct{ rest *shared }

func (b *builder) msgpack() Parser {
	var p MsgpackParams
	config.Decode(b.s, &p, b.d)
	rest := b.common(&p.Common, commonDefaults{})
	if rest == nil {
		return nil
	}
	return &msgpackParser{rest}
}

func (p *msgpackParser) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	end, err := event.Skip(line, 0)
	if err == nil {
		_, _, err = event.MapHeader(line, 0)
	}
	if err != nil {
		return dst, 0, false, fmt.Errorf("%w as msgpack: %w", ErrParse, err)
	}
	return p.rest.finish(dst, append(dst, line[:end]...))
}
