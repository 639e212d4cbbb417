package expr

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

func stringEncodings() map[string]*method {
	return map[string]*method{
		"ord": {fn: stringOrd}, "getbyte": {fn: stringByte, least: 1, most: 1}, "succ": {fn: stringSucc}, "next": {fn: stringSucc},
		"encode": {fn: stringEncode, most: 3}, "encode!": {fn: stringEncode, most: 3}, "force_encoding": {fn: stringForce, least: 1, most: 1}, "encoding": {fn: stringEncoding}, "b": {fn: stringForce},
		"unpack1": {fn: stringUnpack, least: 1, most: 1}, "unpack": {fn: stringUnpack, least: 1, most: 1},
	}
}

func stringOrd(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.s.s == "" {
		return Value{}, m.raise(n, "ArgumentError", "empty string")
	}
	r, size := utf8.DecodeRuneInString(v.s.s)
	if v.s.enc != utf8Text {
		return intValue(int64(v.s.s[0])), nil
	}
	if r == utf8.RuneError && size == 1 {
		return Value{}, m.raise(n, "ArgumentError", "invalid byte sequence in UTF-8")
	}
	return intValue(int64(r)), nil
}

func stringByte(m *Machine, n *call, v Value, a []Value) (Value, error) {
	i, err := m.intArg(n, a[0])
	if i < 0 {
		i += len(v.s.s)
	}
	if err != nil || i < 0 || i >= len(v.s.s) {
		return Value{}, err
	}
	return intValue(int64(v.s.s[i])), nil
}

// encodingOf reads the name of an encoding; ok is false for one that we do not know.
func encodingOf(v Value) (e encoding, ok bool) {
	name := strings.ToUpper(v.text())
	name = strings.ReplaceAll(strings.TrimPrefix(name, "ENCODING::"), "_", "-")
	switch name {
	case "UTF-8", "UTF8-MAC":
		return utf8Text, true
	case "ASCII-8BIT", "BINARY", "US-ASCII", "ASCII":
		return binaryText, true
	case "ISO-8859-1", "ISO8859-1", "LATIN1":
		return latin1Text, true
	}
	return 0, false
}

func stringForce(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if n.name == "b" {
		w := m.copyOf(v)
		w.s.enc = binaryText
		return w, nil
	}
	e, ok := encodingOf(a[0])
	if !ok {
		return Value{}, m.raise(n, "ArgumentError", "unknown encoding name - %s", a[0].ToS())
	}
	if v.s.enc != e {
		m.mutated, v.s.enc = true, e
	}
	return v, nil
}

func stringEncoding(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return m.constValue([...]string{"UTF-8", "ASCII-8BIT", "ISO-8859-1"}[v.s.enc]), nil
}

// stringEncode is encode(to, from, invalid: :replace, undef: :replace, replace: "?").
func stringEncode(m *Machine, n *call, v Value, a []Value) (Value, error) {
	to, from := utf8Text, v.s.enc
	replace, given, invalid, undef := "\uFFFD", false, false, false
	names := 0
	for _, x := range a {
		if x.kind == HashKind {
			m.open(x.o)
			for i, k := range x.o.keys {
				switch val := x.o.items[i]; k.text() {
				case "invalid":
					invalid = val.text() == "replace"
				case "undef":
					undef = val.text() == "replace"
				case "replace":
					replace, given = val.ToS(), true
				default:
					return Value{}, m.exceed(n, "encode(%s: …) is not supported", k.text())
				}
			}
			continue
		}
		e, ok := encodingOf(x)
		if !ok {
			return Value{}, m.raise(n, "Encoding::ConverterNotFoundError", "code converter not found (UTF-8 to %s)", x.ToS())
		}
		if names++; names == 1 {
			to = e
		} else {
			from = e
		}
	}
	if to != utf8Text && !given {
		replace = "?"
	}
	s, err := m.convert(n, v.s.s, from, to, replace, invalid, undef)
	if err != nil {
		return Value{}, err
	}
	w := v
	if n.name == "encode!" {
		m.mutated, v.s.s, v.s.enc = true, s, to
	} else {
		w = m.str(s)
		w.s.enc = to
	}
	return w, nil
}

func (m *Machine) convert(n node, s string, from, to encoding, replace string, invalid, undef bool) (string, error) {
	switch {
	case ascii(s) || from == to && !invalid:
		return s, nil
	case from == utf8Text && to == utf8Text:
		return m.scrub(n, s, replace)
	}
	if err := m.checkText(n, len(s)*max(2, len(replace))/2); err != nil {
		return "", err
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if from == utf8Text {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		switch c := s[i]; {
		case c < utf8.RuneSelf:
			b.WriteByte(c)
		case from == latin1Text && to == utf8Text:
			b.WriteRune(r)
		case from == utf8Text && to == latin1Text && r < 0x100 && size > 1:
			b.WriteByte(byte(r))
		case from == utf8Text && r == utf8.RuneError && size == 1 && !invalid:
			return "", m.raise(n, "Encoding::InvalidByteSequenceError", "%s on UTF-8", inspectString(&text{s: s[i : i+1], enc: binaryText}))
		case from == utf8Text && r == utf8.RuneError && size == 1, undef:
			b.WriteString(replace)
		case from == binaryText:
			return "", m.raise(n, "Encoding::UndefinedConversionError", "%s from ASCII-8BIT to UTF-8", inspectString(&text{s: s[i : i+1], enc: binaryText}))
		default:
			return "", m.raise(n, "Encoding::UndefinedConversionError", "U+%04X from UTF-8 to ISO-8859-1", r)
		}
		i += size
	}
	return b.String(), nil
}

// wellFormed refuses a text that is not UTF-8, as Ruby does where it looks at characters.
func (m *Machine) wellFormed(n node, v Value) error {
	if v.s.enc == utf8Text && !valid(v.s.s) {
		return m.raise(n, "ArgumentError", "invalid byte sequence in UTF-8")
	}
	return nil
}

func stringUnpack(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	var out Value
	switch format := a[0].s.s; format {
	case "H*":
		out = m.str(hex.EncodeToString(bytesOf(v.s.s)))
	case "m", "m0", "m*":
		b, err := lenientBase64(v.s.s)
		if format == "m0" {
			b, err = base64.StdEncoding.Strict().DecodeString(v.s.s)
		}
		if err != nil {
			return Value{}, m.raise(n, "ArgumentError", "invalid base64")
		}
		out = m.str(view(b))
		out.s.enc = binaryText
	case "C*", "c*", "U*":
		of := "bytes"
		if format == "U*" {
			if of = "codepoints"; !valid(v.s.s) {
				return Value{}, m.raise(n, "ArgumentError", "malformed UTF-8 character")
			}
		}
		list, err := stringChars(m, &call{off: n.off, name: of}, v, nil)
		if err != nil {
			return Value{}, err
		}
		items := m.items(list)
		if format == "c*" {
			for i := range items {
				items[i] = intValue(int64(int8(items[i].int())))
			}
		}
		switch {
		case n.name == "unpack":
			return list, nil
		case len(items) == 0:
			return Value{}, nil
		}
		return items[0], nil
	default:
		return Value{}, m.exceed(n, "%s %s is not supported", n.name, a[0].Inspect())
	}
	if n.name == "unpack" {
		return m.array([]Value{out}), nil
	}
	return out, nil
}
