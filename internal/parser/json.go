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

// jsonParser makes a record of a text that is one JSON object, and one of each object in an
// array.
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

// Parse implements Parser.
func (p *jsonParser) Parse(r *Records, line []byte) error {
	dst := r.buf
	out, n, err := event.AppendFromJSON(dst, line)
	switch {
	case err != nil:
		r.miss(fmt.Errorf("%w as JSON: %w", ErrParse, err))
		return nil
	case len(bytes.TrimLeft(line[n:], " \t\r\n")) > 0:
		r.miss(fmt.Errorf("%w as JSON: something follows the value at byte %d", ErrParse, n))
		return nil
	}
	if event.IsMap(out[len(dst)]) {
		return r.add(p.rest.finish(dst, out))
	}
	r.buf = out
	return r.each(p.rest, out[len(dst):])
}

// ParseValue implements Parser: what is no text is no JSON.
func (p *jsonParser) ParseValue(r *Records, _ []byte) error {
	r.miss(errNoText)
	return nil
}

// each makes a record of each map in a msgpack array, which stands in r.buf. Everything
// else is a part without record.
func (r *Records) each(rest *shared, v []byte) error {
	n, i, err := event.ArrayHeader(v, 0)
	if err != nil {
		r.miss(errNoObject)
		return nil
	}
	for ; n > 0; n-- {
		end, err := event.Skip(v, i)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrParse, err)
		}
		if !event.IsMap(v[i]) {
			r.miss(errNoObject)
		} else if err := r.add(rest.finish(r.buf, append(r.buf, v[i:end]...))); err != nil {
			return err
		}
		i = end
	}
	return nil
}

var errNoObject = fmt.Errorf("%w: it is not an object", ErrParse)

// MsgpackParams are the parameters of @type msgpack.
type MsgpackParams struct{ Common }

// msgpackParser makes a record of each msgpack map in a text, and of each in an array.
type msgpackParser struct {
	textOnly
	rest *shared
}

func (b *builder) msgpack() Parser {
	var p MsgpackParams
	config.Decode(b.s, &p, b.d)
	rest := b.common(&p.Common, commonDefaults{})
	if rest == nil {
		return nil
	}
	return &msgpackParser{rest: rest}
}

// Parse implements Parser.
func (p *msgpackParser) Parse(r *Records, line []byte) error {
	for {
		end, err := event.Skip(line, 0)
		if err != nil {
			return fmt.Errorf("%w as msgpack: %w", ErrParse, err)
		}
		if event.IsMap(line[0]) {
			err = r.add(p.rest.finish(r.buf, append(r.buf, line[:end]...)))
		} else {
			err = r.each(p.rest, line[:end])
		}
		if err != nil || end == len(line) {
			return err
		}
		line = line[end:]
	}
}
