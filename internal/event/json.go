package event

import (
	"encoding/binary"
	"slices"
	"strconv"
)

// JSONStyle says whose JSON text is written where Fluentd's writers differ.
type JSONStyle uint8

const (
	// Yajl is what fluent-plugin-cloudwatch-logs writes by default: \u001F, 1.0e+15.
	Yajl JSONStyle = iota
	// Oj is what Fluentd's json formatter writes (S3, file, stdout): \u001f, and whole
	// floats that fit 64 bits in fixed notation, 1000000000000000.0.
	Oj
	// Gem is what Ruby's own json writes (json_handler json): \u001f, 1.0e+15.
	Gem
)

// JSONOptions says how a record becomes JSON. The zero value writes everything, as Yajl; a
// function that takes a pointer to it wants one.
type JSONOptions struct {
	Style     JSONStyle
	DropEmpty bool     // leave out top-level fields that are the empty string
	Drop      *PathSet // leave out these
}

// AppendJSON appends a msgpack value as compact JSON text:
//
//   - keys stay in their order, and a key that comes twice is written twice;
//   - / < > & and U+2028 are not escaped, text beyond ASCII stands as it is;
//   - bytes that are not UTF-8 become U+FFFD in values and in keys; bin counts as text;
//   - a key that is no string is written as AppendText prints it, nil as "";
//   - an EventTime is an integer of seconds, any other ext a text such as "ext(5):0a0b";
//   - NaN and infinities are null.
//
// value should have passed Check or Skip; of a damaged one a part is written, closed so
// that it is still JSON.
func AppendJSON(dst, value []byte, style JSONStyle) []byte {
	e := encoder{dst: dst, b: value, d: plain[style]}
	e.value(0, 0, nil)
	return e.dst
}

// AppendJSONEscaped is AppendJSON with options. The text is escaped once more so that it
// can stand inside a JSON string; n is how many bytes it has without that escaping:
// CloudWatch Logs counts those. It does not append the string's quotes.
func AppendJSONEscaped(dst, value []byte, o *JSONOptions) (out []byte, n int) {
	e := encoder{dst: dst, b: value, d: escaped[o.Style], dropEmpty: o.DropEmpty}
	e.value(0, 0, o.Drop)
	return e.dst, len(e.dst) - len(dst) - e.extra
}

// encoder writes JSON. It never fails: what it cannot read is null and ends the text.
type encoder struct {
	dst       []byte
	b         []byte
	d         *dialect
	extra     int // bytes of dst that do not count as text
	dropEmpty bool
	damaged   bool
}

// value writes the value at b[i], which lies inside depth containers, and returns the
// index behind it.
func (e *encoder) value(i, depth int, drop *PathSet) int {
	if i >= len(e.b) {
		return e.fail()
	}
	switch c := e.b[i]; {
	case c&0xe0 == 0xa0:
		return e.str(i+1, i+1+int(c&31))
	case c <= 0x7f:
		e.dst = strconv.AppendUint(e.dst, uint64(c), 10)
		return i + 1
	case c&0xf0 == 0x80 || c == 0xde || c == 0xdf:
		return e.mapping(i, depth, drop)
	case isArray(c):
		return e.array(i, depth, drop)
	default:
		return e.scalar(i)
	}
}

// scalar writes what is neither a short string, a small number nor a container.
func (e *encoder) scalar(i int) int {
	switch c := e.b[i]; c {
	case 0xc0:
		e.dst = append(e.dst, "null"...)
		return i + 1
	case 0xc2:
		e.dst = append(e.dst, "false"...)
		return i + 1
	case 0xc3:
		e.dst = append(e.dst, "true"...)
		return i + 1
	case 0xca, 0xcb:
		f, next, ok := float(e.b, i)
		if !ok {
			return e.fail()
		}
		e.dst = appendJSONFloat(e.dst, f, e.d.style)
		return next
	case 0xcf:
		if len(e.b)-i < 9 {
			return e.fail()
		}
		e.dst = strconv.AppendUint(e.dst, binary.BigEndian.Uint64(e.b[i+1:]), 10)
		return i + 9
	case 0xc4, 0xc5, 0xc6, 0xd9, 0xda, 0xdb:
		s, next, err := Bytes(e.b, i)
		if err != nil {
			return e.fail()
		}
		return e.str(next-len(s), next)
	case 0xc1, 0xc7, 0xc8, 0xc9, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return e.ext(i)
	}
	v, next, ok := readInt(e.b, i)
	if !ok {
		return e.fail()
	}
	e.dst = strconv.AppendInt(e.dst, v, 10)
	return next
}

// ext writes an EventTime as an integer, another ext as a string.
func (e *encoder) ext(i int) int {
	end, err := Skip(e.b, i)
	if err != nil {
		return e.fail()
	}
	if t, _, err := ReadTime(e.b, i); err == nil {
		e.dst = strconv.AppendInt(e.dst, t.Seconds(), 10)
		return end
	}
	start := len(e.dst)
	e.dst = appendExt(e.dst, e.b[i:end])
	e.requote(start)
	return end
}

// str writes the string b[i:end].
func (e *encoder) str(i, end int) int {
	if end > len(e.b) {
		return e.fail()
	}
	e.dst = e.text(e.dst, e.b, i, end)
	return end
}

// text appends the string b[i:end] with its quotes. At least slack-2 bytes stay free
// behind it.
func (e *encoder) text(dst, b []byte, i, end int) []byte {
	o, d := len(dst), e.d
	if cap(dst)-o < end-i+slack+2 {
		dst = slices.Grow(dst, end-i+slack+2)
	}
	q := dst[o : o+2 : o+2]
	q[0], q[1] = d.quote[0], d.quote[1]
	dst, extra := d.appendChars(dst[:o+d.quoteLen], b, i, end)
	o = len(dst)
	q = dst[o : o+2 : o+2] // appendChars left slack bytes
	q[0], q[1] = d.quote[0], d.quote[1]
	e.extra += extra + 2*(d.quoteLen-1)
	return dst[:o+d.quoteLen]
}

func (e *encoder) mapping(i, depth int, drop *PathSet) int {
	n, i, err := MapHeader(e.b, i)
	if err != nil || depth == MaxDepth && n > 0 {
		return e.fail()
	}
	e.dst = append(e.dst, '{')
	comma := false
	for ; n > 0 && !e.damaged; n-- {
		k, j, err := Bytes(e.b, i)
		if err != nil {
			if j, err = skip(e.b, i, 1, depth+1); err != nil {
				e.damaged = true
				break
			}
		}
		inner := drop
		if drop != nil || depth == 0 && e.dropEmpty {
			var out bool
			if k != nil {
				out, inner = drop.key(k)
			} else {
				inner = nil
			}
			if out || depth == 0 && e.dropEmpty && isEmptyString(e.b, j) {
				if i, err = skip(e.b, j, 1, depth+1); err != nil {
					e.damaged = true
				}
				continue
			}
		}
		if comma {
			e.dst = append(e.dst, ',')
		}
		comma = true
		if k != nil {
			e.dst = append(e.text(e.dst, e.b, j-len(k), j), ':')
		} else {
			start := len(e.dst)
			e.dst = AppendText(e.dst, e.b[i:j])
			e.requote(start)
			e.dst = append(e.dst, ':')
		}
		i = e.value(j, depth+1, inner)
	}
	e.dst = append(e.dst, '}')
	return i
}

// requote makes a string of the text at dst[start:].
func (e *encoder) requote(start int) {
	end := len(e.dst)
	e.dst = e.text(e.dst, e.dst, start, end)
	e.dst = append(e.dst[:start], e.dst[end:]...)
}

func (e *encoder) array(i, depth int, drop *PathSet) int {
	n, i, err := ArrayHeader(e.b, i)
	if err != nil || depth == MaxDepth && n > 0 {
		return e.fail()
	}
	e.dst = append(e.dst, '[')
	comma := false
	for k := 0; k < n && !e.damaged; k++ {
		out, inner := drop.index(k, n)
		if out {
			if i, err = skip(e.b, i, 1, depth+1); err != nil {
				e.damaged = true
			}
			continue
		}
		if comma {
			e.dst = append(e.dst, ',')
		}
		comma = true
		i = e.value(i, depth+1, inner)
	}
	e.dst = append(e.dst, ']')
	return i
}

// fail writes null for what cannot be read and ends the text.
func (e *encoder) fail() int {
	e.damaged = true
	e.dst = append(e.dst, "null"...)
	return len(e.b)
}

// isEmptyString says whether the value at b[i] is a str or bin without bytes.
func isEmptyString(b []byte, i int) bool {
	if i >= len(b) {
		return false
	}
	switch b[i] {
	case 0xa0:
		return true
	case 0xd9, 0xda, 0xdb, 0xc4, 0xc5, 0xc6:
		s, _, err := Bytes(b, i)
		return err == nil && len(s) == 0
	}
	return false
}
