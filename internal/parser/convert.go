package parser

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/internal/event"
	"weir/internal/ruby/timefmt"
)

// converter gives a field its type.
type converter struct {
	kind      string
	delimiter string     // of an array
	times     timeReader // of a time
}

func (b *builder) converter(key, text string, p *Common) converter {
	kind, option, has := strings.Cut(text, ":")
	c := converter{kind: kind}
	switch kind {
	case "string", "integer", "float", "bool":
	case "array":
		c.delimiter = ","
		if has && option != "" {
			c.delimiter = option
		}
	case "time":
		own := *p
		own.TimeFallbacks, own.Timezone = nil, ""
		format := option
		if zone, rest, ok := strings.Cut(option, ":"); ok {
			if _, err := timefmt.ParseZone(zone); err == nil {
				own.Timezone, format = zone, rest
			}
		}
		switch format {
		case "unixtime", "float":
			c.times = b.timeReader(format, "", &own)
		default:
			c.times = b.timeReader("string", format, &own)
		}
	default:
		b.d.Error(b.pos, fmt.Sprintf("types: the field %s has the unknown type %q", key, text), "types are string, integer, float, bool, time and array")
	}
	return c
}

// convert appends a record with its fields converted.
func (c *shared) convert(dst, record []byte) ([]byte, error) {
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrParse, err)
	}
	dst = event.AppendMapHeader(dst, n)
	for range n {
		key, value, err := event.Bytes(record, i)
		if err != nil {
			key = nil
			if value, err = event.Skip(record, i); err != nil {
				return dst, fmt.Errorf("%w: %w", ErrParse, err)
			}
		}
		end, err := event.Skip(record, value)
		if err != nil {
			return dst, fmt.Errorf("%w: %w", ErrParse, err)
		}
		dst = append(dst, record[i:value]...)
		if dst, err = c.value(dst, key, record[value:end]); err != nil {
			return dst, err
		}
		i = end
	}
	return dst, nil
}

// value appends one converted value.
func (c *shared) value(dst, key, v []byte) ([]byte, error) {
	if v[0] == 0xc0 {
		return append(dst, v...), nil
	}
	if text, _, err := event.Bytes(v, 0); err == nil {
		if c.nullEmpty && len(text) == 0 || c.nullPattern != nil && c.nullPattern.Match(text) {
			return event.AppendNil(dst), nil
		}
	}
	conv, ok := c.types[string(key)]
	if !ok {
		return append(dst, v...), nil
	}
	return conv.append(dst, v)
}

func (c *converter) append(dst, v []byte) ([]byte, error) {
	if c.kind == "time" {
		t, has, ok := c.times.read(v)
		switch {
		case has:
			return event.AppendTime(dst, t), nil
		case ok && event.IsText(v[0]): // no number: Ruby's to_i
			return event.AppendTime(dst, 0), nil
		}
		return event.AppendNil(dst), nil
	}
	if v[0] == 0xcb && (c.kind == "integer" || c.kind == "float") {
		f := math.Float64frombits(binary.BigEndian.Uint64(v[1:]))
		if c.kind == "integer" && math.Abs(f) < 1<<62 {
			return event.AppendInt(dst, int64(f)), nil
		}
		return append(dst, v...), nil
	}
	text, _, err := event.Bytes(v, 0)
	if err != nil {
		text = event.AppendText(nil, v)
	}
	switch c.kind {
	case "string":
		return event.AppendStr(dst, text), nil
	case "integer":
		return appendLeadingInt(dst, text), nil
	case "float":
		return event.AppendFloat(dst, leadingFloat(text)), nil
	case "bool":
		for _, yes := range []string{"true", "yes", "1"} {
			if bytes.EqualFold(text, []byte(yes)) {
				return event.AppendBool(dst, true), nil
			}
		}
		return event.AppendBool(dst, false), nil
	}
	return splitArray(dst, text, c.delimiter), nil
}

// splitArray appends the parts of a text as Ruby's split makes them: without empty ones at
// the end.
func splitArray(dst, text []byte, delimiter string) []byte {
	var parts [][]byte
	if delimiter == " " {
		parts = bytes.Fields(text)
	} else if len(text) > 0 {
		parts = bytes.Split(text, []byte(delimiter))
	}
	for len(parts) > 0 && len(parts[len(parts)-1]) == 0 {
		parts = parts[:len(parts)-1]
	}
	dst = event.AppendArrayHeader(dst, len(parts))
	for _, p := range parts {
		dst = event.AppendStr(dst, p)
	}
	return dst
}

// leadingInt is Ruby's to_i: the number at the beginning, 0 if there is none. Numbers of more
// than 64 bits stop at the largest.
func leadingInt(text []byte) int64 {
	n, _ := strconv.ParseInt(string(leadingDigits(text)), 10, 64) // gives the largest on overflow, 0 else
	return n
}

// appendLeadingInt appends what Ruby's to_i gives; numbers of more than 64 bits as floats.
func appendLeadingInt(dst, text []byte) []byte {
	digits := string(leadingDigits(text))
	n, err := strconv.ParseInt(digits, 10, 64)
	if !errors.Is(err, strconv.ErrRange) {
		return event.AppendInt(dst, n)
	}
	if n, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), 10, 64); err == nil {
		return event.AppendUint(dst, n)
	}
	f, _ := strconv.ParseFloat(digits, 64)
	return event.AppendFloat(dst, f)
}

// leadingDigits are the digits at the beginning, with their sign and without underscores.
func leadingDigits(text []byte) []byte {
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	if end < len(text) && (text[end] == '-' || text[end] == '+') {
		end++
	}
	digits := append(make([]byte, 0, 24), text[:end]...)
	for ; end < len(text) && len(digits) < 400; end++ {
		if text[end] == '_' && end > 0 && end+1 < len(text) && text[end-1] != '_' {
			continue
		}
		if text[end] < '0' || text[end] > '9' {
			break
		}
		digits = append(digits, text[end])
	}
	return digits
}

// leadingFloat is Ruby's to_f.
func leadingFloat(text []byte) float64 {
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	for n := 1; n <= len(text) && n <= 64; n++ {
		c := text[n-1]
		if (c < '0' || c > '9') && bytes.IndexByte([]byte("+-.eE_"), c) < 0 {
			break
		}
		if c >= '0' && c <= '9' {
			if _, err := strconv.ParseFloat(strings.ReplaceAll(string(text[:n]), "_", ""), 64); err == nil || errors.Is(err, strconv.ErrRange) {
				end = n
			}
		}
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(string(text[:end]), "_", ""), 64)
	return f
}
