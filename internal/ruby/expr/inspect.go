package expr

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/event"
)

// ToS is Ruby's to_s. Of what is very long or nests very deeply a part is written.
func (v Value) ToS() string {
	switch v.kind {
	case Nil:
		return ""
	case String, Symbol, ConstKind:
		return v.s.s
	case TimeKind:
		return formatTime(v.time())
	case RawKind:
		return string(event.AppendText(nil, v.o.raw))
	case ErrorKind:
		return v.o.x.err.Text
	case URIKind:
		return v.o.x.uri.String()
	case AddressKind:
		return v.o.x.ip.Addr().String()
	case RegexpKind:
		return v.o.x.re.text()
	case RangeKind:
		return v.o.items[0].ToS() + v.dots() + v.o.items[1].ToS()
	case MatchKind:
		s, _ := v.o.x.match.group(0)
		return s
	}
	return v.Inspect()
}

func formatTime(t time.Time) string {
	if t.Location() == time.UTC {
		return t.Format("2006-01-02 15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 -0700")
}

// dots is the sign of a Range.
func (v Value) dots() string {
	if v.bits != 0 {
		return "..."
	}
	return ".."
}

// Inspect is Ruby's inspect, with the same limits as ToS.
func (v Value) Inspect() string { return string(v.appendInspect(nil, 0)) }

func (v Value) appendInspect(dst []byte, depth int) []byte {
	switch v.kind {
	case Nil:
		return append(dst, "nil"...)
	case Bool:
		return strconv.AppendBool(dst, v.bits != 0)
	case Int:
		return strconv.AppendInt(dst, v.int(), 10)
	case Uint:
		return strconv.AppendUint(dst, v.bits, 10)
	case Float:
		return append(dst, formatFloat(v.float())...)
	case String:
		return append(dst, inspectString(v.s)...)
	case Symbol:
		return append(dst, inspectSymbol(v.s.s)...)
	case ArrayKind, HashKind, RawKind:
		return v.inspectContainer(dst, depth)
	case RangeKind:
		return append(append(v.inspectEnd(dst, 0, depth), v.dots()...), v.inspectEnd(nil, 1, depth)...)
	case RegexpKind:
		return append(append(append(append(dst, '/'), v.o.x.re.re.String()...), '/'), v.o.x.re.flags...)
	case TimeKind:
		return append(dst, inspectTime(v.time())...)
	case ErrorKind:
		return append(append(append(append(append(dst, "#<"...), v.class()...), ": "...), v.o.x.err.Text...), '>')
	case MatchKind:
		return append(v.o.x.match.appendInspect(append(dst, "#<MatchData "...)), '>')
	case AddressKind:
		return append(append(append(dst, "#<IPAddr: "...), inspectAddress(v.o.x.ip)...), '>')
	case URIKind:
		return append(append(append(dst, "#<URI::Generic "...), v.ToS()...), '>')
	case ProcKind:
		return append(dst, "#<Proc>"...)
	}
	return append(dst, v.text()...)
}

// inspectEnd prints an end of a Range, nothing if it is open.
func (v Value) inspectEnd(dst []byte, i, depth int) []byte {
	if v.o.items[i].IsNil() {
		return dst
	}
	return v.o.items[i].appendInspect(dst, depth+1)
}

func (v Value) inspectContainer(dst []byte, depth int) []byte {
	if v.o.raw != nil {
		return event.AppendInspect(dst, v.o.raw)
	}
	brackets := "[]"
	if v.kind == HashKind {
		brackets = "{}"
	}
	dst = append(dst, brackets[0])
	for i, x := range v.o.items {
		if depth > event.MaxDepth || len(dst) > maxText {
			dst = append(dst, "..."...)
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if v.kind == HashKind {
			dst = append(v.o.keys[i].appendInspect(dst, depth+1), "=>"...)
		}
		dst = x.appendInspect(dst, depth+1)
	}
	return append(dst, brackets[1])
}

// inspectTime is like formatTime with the fraction of the second, if there is one.
func inspectTime(t time.Time) string {
	s := formatTime(t)
	if t.Nanosecond() == 0 {
		return s
	}
	at := len("2006-01-02 15:04:05")
	return s[:at] + strings.TrimRight(t.Format(".000000000"), "0") + s[at:]
}

// formatFloat prints a Float as Ruby does.
func formatFloat(f float64) string { return string(event.AppendFloatText(nil, f)) }

// inspectSymbol writes a Symbol as a literal.
func inspectSymbol(s string) string {
	plain := s != "" && (isIdentStart(s[0]))
	for i := range len(s) {
		plain = plain && (isIdent(s[i]) || i == len(s)-1 && (s[i] == '?' || s[i] == '!' || s[i] == '='))
	}
	switch s {
	case "[]", "[]=", "+", "-", "*", "/", "%", "**", "==", "!=", "<", "<=", ">", ">=", "<=>", "===", "=~", "!", "<<", ">>", "&", "|", "^", "~":
		plain = true
	}
	if plain {
		return ":" + s
	}
	t := text{s: s}
	if ascii(s) {
		t.enc = binaryText // as in Ruby, such a Symbol is US-ASCII
	}
	return ":" + inspectString(&t)
}

// controls are the escapes of control characters that have a letter: from \a to \r.
const controls = "abtnvfr"

// inspectString writes a String as a literal.
func inspectString(t *text) string {
	s := t.s
	var b strings.Builder
	b.WriteByte('"')
	hex := func(c byte) {
		const digits = "0123456789ABCDEF"
		b.WriteString(`\x`)
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1 || r >= utf8.RuneSelf && t.enc != utf8Text:
			hex(s[i])
			n = 1
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '#' && i+1 < len(s) && strings.IndexByte("{$@", s[i+1]) >= 0:
			b.WriteString(`\#`)
		case r >= '\a' && r <= '\r':
			b.WriteByte('\\')
			b.WriteByte(controls[r-'\a'])
		case r == 27:
			b.WriteString(`\e`)
		case r == 127 || r < ' ' && t.enc == binaryText:
			hex(byte(r))
		case r < ' ':
			b.WriteString(`\u00`)
			b.WriteString(strings.ToUpper(strconv.FormatUint(uint64(r)|0x100, 16)[1:]))
		default:
			// Beyond ASCII the printer of records knows what can be shown.
			b.WriteString(quotedRune(s[i : i+n]))
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// quotedRune is a character as inspect shows it.
func quotedRune(s string) string {
	if len(s) == 1 {
		return s
	}
	q := event.AppendInspect(nil, event.AppendStr(nil, s))
	return string(q[1 : len(q)-1])
}
