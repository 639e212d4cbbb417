package parser

import (
	"bytes"
	"fmt"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
)

// CSVParams are the parameters of @type csv.
type CSVParams struct {
	Common
	Keys      []string `conf:"keys" required:"true" doc:"names of the columns"`
	Delimiter string   `conf:"delimiter" default:"," doc:"between columns"`
	Engine    string   `conf:"parser_type" alias:"parser_engine" enum:"normal|fast" default:"normal" doc:"fast: quotes are looked at less closely, a line with fewer columns has fewer fields"`
}

// TSVParams are the parameters of @type tsv.
type TSVParams struct {
	Common
	Keys      []string `conf:"keys" required:"true" doc:"names of the columns"`
	Delimiter string   `conf:"delimiter" doc:"between columns; a tab if it is not set"`
}

// LTSVParams are the parameters of @type ltsv.
type LTSVParams struct {
	Common
	Delimiter      string     `conf:"delimiter" doc:"between fields; a tab if it is not set"`
	Pattern        *rx.Regexp `conf:"delimiter_pattern" doc:"what is between fields, in place of delimiter"`
	LabelDelimiter string     `conf:"label_delimiter" default:":" doc:"between a name and its value"`
}

// columns are fields without names in the line.
type columns struct {
	textOnly
	keys      [][]byte // as msgpack
	delimiter []byte
	rest      *shared
}

func (b *builder) columns(keys []string, delimiter string, p *Common) columns {
	c := columns{delimiter: []byte(delimiter), rest: b.common(p, commonDefaults{})}
	if delimiter == "" {
		b.d.Error(b.pos, "the delimiter is empty", "")
	}
	for _, k := range keys {
		c.keys = append(c.keys, event.AppendStr(nil, k))
	}
	return c
}

type csvParser struct{ columns }

func (b *builder) csv() Parser {
	var p CSVParams
	config.Decode(b.s, &p, b.d)
	if p.Engine == "fast" {
		return &csvFast{b.columns(p.Keys, p.Delimiter, &p.Common)}
	}
	return &csvParser{b.columns(p.Keys, p.Delimiter, &p.Common)}
}

// Parse implements Parser.
func (p *csvParser) Parse(r *Records, line []byte) error { return r.add(p.parse(r.buf, line)) }

func (p *csvParser) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	if len(line) == 0 {
		return dst, 0, false, errUnmatched
	}
	out = event.AppendMapHeader(dst, len(p.keys))
	rest, more := line, true
	for _, key := range p.keys {
		out = append(out, key...)
		if !more {
			out = event.AppendNil(out)
			continue
		}
		if out, rest, more, err = p.field(out, rest); err != nil {
			return dst, 0, false, err
		}
	}
	for end := len(out); more; out = out[:end] { // columns beyond the keys are looked at too
		if out, rest, more, err = p.field(out, rest); err != nil {
			return dst, 0, false, err
		}
	}
	return p.rest.finish(dst, out)
}

// field reads one column; none follows behind an end of line. An empty one without quotes is
// nil, as in Ruby.
func (p *csvParser) field(dst, b []byte) (out, rest []byte, more bool, err error) {
	if len(b) == 0 || b[0] != '"' {
		text, rest, more := bytes.Cut(b, p.delimiter)
		if i := bytes.IndexAny(text, "\r\n"); i >= 0 {
			text, more = text[:i], false
		}
		if bytes.IndexByte(text, '"') >= 0 {
			return dst, nil, false, fmt.Errorf("%w as CSV: a quote inside a column without quotes", ErrParse)
		}
		if len(text) == 0 {
			return event.AppendNil(dst), rest, more, nil
		}
		return event.AppendStr(dst, text), rest, more, nil
	}
	var text []byte
	for b = b[1:]; ; {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return dst, nil, false, fmt.Errorf("%w as CSV: a quote is not closed", ErrParse)
		}
		text, b = append(text, b[:i]...), b[i+1:]
		if len(b) == 0 || b[0] != '"' {
			break
		}
		text, b = append(text, '"'), b[1:]
	}
	dst = event.AppendStr(dst, text)
	if len(b) == 0 || b[0] == '\r' || b[0] == '\n' {
		return dst, nil, false, nil
	}
	if !bytes.HasPrefix(b, p.delimiter) {
		return dst, nil, false, fmt.Errorf("%w as CSV: something follows a closing quote", ErrParse)
	}
	return dst, b[len(p.delimiter):], true, nil
}

type tsvParser struct{ columns }

func (b *builder) tsv() Parser {
	var p TSVParams
	config.Decode(b.s, &p, b.d)
	return &tsvParser{b.columns(p.Keys, tab(p.Delimiter), &p.Common)}
}

// tab is the delimiter when none is set.
func tab(delimiter string) string {
	if delimiter == "" {
		return "\t"
	}
	return delimiter
}

// Parse implements Parser.
func (p *tsvParser) Parse(r *Records, line []byte) error { return r.add(p.parse(r.buf, line)) }

func (p *tsvParser) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	out = event.AppendMapHeader(dst, len(p.keys))
	rest, more := line, len(line) > 0
	for i, key := range p.keys {
		out = append(out, key...)
		if !more {
			out = event.AppendNil(out)
			continue
		}
		text := rest
		if more = false; i < len(p.keys)-1 {
			text, rest, more = bytes.Cut(rest, p.delimiter)
		}
		out = event.AppendStr(out, text)
	}
	return p.rest.finish(dst, out)
}

type ltsvParser struct {
	textOnly
	delimiter, label []byte
	pattern          *rx.Regexp // in place of delimiter; nil for none
	rest             *shared
}

func (b *builder) ltsv() Parser {
	var p LTSVParams
	config.Decode(b.s, &p, b.d)
	if p.LabelDelimiter == "" {
		b.d.Error(b.pos, "the label_delimiter is empty", "")
	}
	return &ltsvParser{delimiter: []byte(tab(p.Delimiter)), label: []byte(p.LabelDelimiter), pattern: p.Pattern,
		rest: b.common(&p.Common, commonDefaults{timeKey: "time"})}
}

// Parse implements Parser.
func (p *ltsvParser) Parse(r *Records, line []byte) error { return r.add(p.parse(r.buf, line)) }

func (p *ltsvParser) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	at, count := len(dst), 0
	out = event.OpenMap(dst)
	for more := len(line) > 0; more; {
		var pair []byte
		pair, line, more = p.next(line)
		key, value, ok := bytes.Cut(pair, p.label)
		if !ok {
			continue
		}
		// Of a name that comes twice the last value counts, in the place of the first.
		if from, to, twice := event.FindPair(out, at+1, count, key); twice {
			tail := append([]byte(nil), out[to:]...)
			out = event.AppendStr(event.AppendStr(out[:from], key), value)
			out = append(out, tail...)
			continue
		}
		out = event.AppendStr(event.AppendStr(out, key), value)
		count++
	}
	return p.rest.finish(dst, event.CloseMap(out, at, count))
}

// next takes the first pair off a line.
func (p *ltsvParser) next(line []byte) (pair, rest []byte, more bool) {
	if p.pattern == nil {
		return bytes.Cut(line, p.delimiter)
	}
	var buf [8]int
	loc, err := p.pattern.AppendSubmatchIndex(buf[:0], line)
	if err != nil || loc == nil || loc[1] == 0 { // one that matches nothing separates nothing
		return line, nil, false
	}
	return line[:loc[0]], line[loc[1]:], true
}
