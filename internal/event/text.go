package event

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// AppendText appends a msgpack value as Ruby's to_s prints it: nil as nothing, a string as
// it is but with bytes that are not UTF-8 replaced by U+FFFD, floats as 1.0e+15, maps and
// arrays as Ruby up to 3.3 inspects them ({"k"=>"v", "n"=>nil}), an EventTime as an
// integer of seconds, but inside maps and arrays as Fluentd inspects it, in the local zone;
// another ext as ext(5):0a0b. Of a damaged value a part is written.
func AppendText(dst, value []byte) []byte {
	if len(value) == 0 || value[0] == 0xc0 {
		return dst
	}
	if t, ok := eventTime(value, 0); ok {
		return strconv.AppendInt(dst, t.Seconds(), 10)
	}
	if s, _, err := Bytes(value, 0); err == nil {
		return appendScrubbed(dst, s)
	}
	dst, _ = appendInspect(dst, value, 0, 0)
	return dst
}

// AppendInspect appends a msgpack value as Ruby's inspect prints it: like AppendText inside
// a map, so nil is nil and a string stands in quotes.
func AppendInspect(dst, value []byte) []byte {
	dst, _ = appendInspect(dst, value, 0, 0)
	return dst
}

// AppendTextEscaped appends the text of a value (AppendText) escaped for standing inside a
// JSON string; n is the number of bytes of the text itself.
func AppendTextEscaped(dst, value []byte) (out []byte, n int) {
	if s, _, err := Bytes(value, 0); err == nil {
		return AppendStringEscaped(dst, s)
	}
	// No string: the text is first put behind the end of dst.
	start := len(dst)
	dst = AppendText(dst, value)
	end := len(dst)
	dst, _ = plain[Yajl].appendChars(dst, dst, start, end)
	return append(dst[:start], dst[end:]...), end - start
}

// eventTime reads an EventTime at b[i]; ok is false for anything else.
func eventTime(b []byte, i int) (t Time, ok bool) {
	if i >= len(b) || b[i] != 0xd7 && b[i] != 0xc7 {
		return 0, false
	}
	t, _, err := ReadTime(b, i)
	return t, err == nil
}

// AppendWithoutTimes appends a msgpack value with integers of seconds in place of the
// EventTimes in it: what readers that know nothing of Fluentd understand.
func AppendWithoutTimes(dst, value []byte) []byte {
	if !bytes.Contains(value, []byte{0xd7, 0}) && !bytes.Contains(value, []byte{0xc7, 8, 0}) {
		return append(dst, value...)
	}
	dst, _ = appendWithoutTimes(dst, value, 0, 0)
	return dst
}

// appendWithoutTimes returns the index behind the value at b[i], or len(b) if it is damaged.
func appendWithoutTimes(dst, b []byte, i, depth int) ([]byte, int) {
	end, err := Skip(b, i)
	if err != nil || depth > MaxDepth {
		return dst, len(b)
	}
	if t, ok := eventTime(b, i); ok {
		return AppendInt(dst, t.Seconds()), end
	}
	n, at, err := MapHeader(b, i)
	if err == nil {
		n *= 2
	} else if n, at, err = ArrayHeader(b, i); err != nil {
		return append(dst, b[i:end]...), end
	}
	for dst = append(dst, b[i:at]...); n > 0; n-- {
		dst, at = appendWithoutTimes(dst, b, at, depth+1)
	}
	return dst, end
}

// appendScrubbed appends s with U+FFFD in place of what is not UTF-8.
func appendScrubbed(dst, s []byte) []byte {
	for len(s) > 0 {
		run := 0
		for run < len(s) {
			n, ok := runeLen(s[run:])
			if !ok {
				dst = append(append(dst, s[:run]...), "\uFFFD"...)
				s = s[run+n:]
				run = -1
				break
			}
			run += n
		}
		if run >= 0 {
			return append(dst, s...)
		}
	}
	return dst
}

// appendInspect returns the index behind the value at b[i], or len(b) if it is damaged.
func appendInspect(dst, b []byte, i, depth int) ([]byte, int) {
	if i >= len(b) {
		return dst, len(b)
	}
	c := b[i]
	switch {
	case c == 0xc0:
		return append(dst, "nil"...), i + 1
	case c == 0xc2:
		return append(dst, "false"...), i + 1
	case c == 0xc3:
		return append(dst, "true"...), i + 1
	case c == 0xca || c == 0xcb:
		f, next, ok := float(b, i)
		if !ok {
			return dst, len(b)
		}
		return AppendFloatText(dst, f), next
	case c == 0xcf && len(b)-i >= 9:
		return strconv.AppendUint(dst, binary.BigEndian.Uint64(b[i+1:]), 10), i + 9
	}
	if s, next, err := Bytes(b, i); err == nil {
		return appendQuoted(dst, s, c >= 0xc4 && c <= 0xc6), next
	}
	if v, next, ok := readInt(b, i); ok {
		return strconv.AppendInt(dst, v, 10), next
	}
	if n, next, err := MapHeader(b, i); err == nil {
		return inspectItems(dst, b, next, 2*n, depth, "{}")
	}
	if n, next, err := ArrayHeader(b, i); err == nil {
		return inspectItems(dst, b, next, n, depth, "[]")
	}
	end, err := Skip(b, i)
	if err != nil {
		return dst, len(b)
	}
	if t, ok := eventTime(b, i); ok {
		return time.Unix(0, int64(t)).AppendFormat(dst, "2006-01-02 15:04:05.000000000 -0700"), end
	}
	return appendExt(dst, b[i:end]), end
}

// inspectItems prints n values from b[i] on between brackets, in pairs if these are {}.
func inspectItems(dst, b []byte, i, n, depth int, brackets string) ([]byte, int) {
	if depth == MaxDepth && n > 0 {
		return dst, len(b)
	}
	dst = append(dst, brackets[0])
	for k := 0; k < n && i < len(b); k++ {
		switch {
		case k == 0:
		case brackets == "{}" && k&1 == 1:
			dst = append(dst, "=>"...)
		default:
			dst = append(dst, ", "...)
		}
		dst, i = appendInspect(dst, b, i, depth+1)
	}
	return append(dst, brackets[1]), i
}

// appendQuoted prints s as Ruby's String#inspect does; the bytes of a binary string beyond
// ASCII are always printed as \xNN.
func appendQuoted(dst, s []byte, binary bool) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		n, ok := runeLen(s[i:])
		if c >= 0x80 && (binary || !ok) {
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
			i++
			continue
		}
		if c >= 0x80 {
			dst = appendRune(dst, s[i:i+n])
			i += n
			continue
		}
		i++
		if k := "\a\b\t\n\v\f\r\x1b"; c == 0x1b || c >= 7 && c <= 13 {
			for j := range len(k) {
				if k[j] == c {
					dst = append(dst, '\\', "abtnvfre"[j])
				}
			}
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '#' && i < len(s) && (s[i] == '{' || s[i] == '$' || s[i] == '@'):
			dst = append(dst, '\\', '#')
		case binary && (c == 0x7f || c < ' '):
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// appendRune prints one character beyond ASCII, as \u… if it cannot be printed.
func appendRune(dst, s []byte) []byte {
	r, _ := utf8.DecodeRune(s)
	if unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Co) {
		return append(dst, s...)
	}
	const hex = "0123456789ABCDEF"
	if r > 0xffff {
		dst = append(dst, `\u{`...)
		for shift := 20; shift >= 0; shift -= 4 {
			if d := r >> shift; d > 0 {
				dst = append(dst, hex[d&15])
			}
		}
		return append(dst, '}')
	}
	return append(dst, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// appendExt prints a whole ext value as its type and its bytes.
func appendExt(dst, v []byte) []byte {
	head := int(shapes[v[0]].width) // of ext8 to ext32: all but the body
	if shapes[v[0]].kind == fixed {
		head = 2
	}
	dst = append(dst, "ext("...)
	dst = strconv.AppendInt(dst, int64(int8(v[head-1])), 10)
	dst = append(dst, "):"...)
	return hex.AppendEncode(dst, v[head:])
}
