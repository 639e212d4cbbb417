package expr

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the class of a Value.
type Kind uint8

const (
	Nil Kind = iota
	Bool
	Int
	Float
	String
	Symbol
	ArrayKind
	HashKind
	object // a constant such as ENV, only as a receiver
)

var kindNames = [...]string{"nil", "boolean", "Integer", "Float", "String", "Symbol", "Array", "Hash", "constant"}

// String is Ruby's name of the class.
func (k Kind) String() string { return kindNames[k] }

// Value is a Ruby value. The zero Value is nil.
type Value struct {
	kind Kind
	bits uint64 // Bool: 0 or 1; Int: the number; Float: its bits
	text string // String, Symbol, constant
	arr  *Array
	hash *Hash
}

// Array is a list of values.
type Array struct{ Items []Value }

// Hash keeps pairs in order of insertion.
type Hash struct{ Keys, Values []Value }

// BoolValue makes true or false.
func BoolValue(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.bits = 1
	}
	return v
}

// IntValue makes an Integer.
func IntValue(n int64) Value { return Value{kind: Int, bits: uint64(n)} }

// FloatValue makes a Float.
func FloatValue(f float64) Value { return Value{kind: Float, bits: math.Float64bits(f)} }

// StringValue makes a String.
func StringValue(s string) Value { return Value{kind: String, text: s} }

// SymbolValue makes a Symbol.
func SymbolValue(s string) Value { return Value{kind: Symbol, text: s} }

// ArrayValue makes an Array of these items.
func ArrayValue(items []Value) Value { return Value{kind: ArrayKind, arr: &Array{Items: items}} }

// Kind is the class of v.
func (v Value) Kind() Kind { return v.kind }

// IsNil says whether v is nil.
func (v Value) IsNil() bool { return v.kind == Nil }

// Int is the number of an Integer.
func (v Value) Int() int64 { return int64(v.bits) }

// Float is the number of a Float.
func (v Value) Float() float64 { return math.Float64frombits(v.bits) }

// Str is the text of a String or Symbol.
func (v Value) Str() string { return v.text }

// Truthy says whether v counts as true: all but nil and false.
func (v Value) Truthy() bool { return v.kind != Nil && !(v.kind == Bool && v.bits == 0) }

// ToS is Ruby's to_s.
func (v Value) ToS() string {
	switch v.kind {
	case Nil:
		return ""
	case String, Symbol, object:
		return v.text
	}
	return v.Inspect()
}

// Inspect is Ruby's inspect.
func (v Value) Inspect() string {
	switch v.kind {
	case Nil:
		return "nil"
	case Bool:
		return strconv.FormatBool(v.bits != 0)
	case Int:
		return strconv.FormatInt(v.Int(), 10)
	case Float:
		return formatFloat(v.Float())
	case String:
		return inspectString(v.text)
	case Symbol:
		return ":" + v.text
	case ArrayKind:
		parts := make([]string, len(v.arr.Items))
		for i, x := range v.arr.Items {
			parts[i] = x.Inspect()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case HashKind:
		parts := make([]string, len(v.hash.Keys))
		for i, k := range v.hash.Keys {
			parts[i] = k.Inspect() + "=>" + v.hash.Values[i].Inspect()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return v.text
}

// formatFloat prints a Float as Ruby does.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e15) {
		m, e, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(m, ".") {
			m += ".0"
		}
		return m + "e" + e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// inspectString writes a String as a literal.
func inspectString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + strings.ToUpper(strconv.FormatUint(uint64(s[i])|0x100, 16)[1:]))
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '#' && i+1 < len(s) && strings.IndexByte("{$@", s[i+1]) >= 0:
			b.WriteString(`\#`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == 27:
			b.WriteString(`\e`)
		case r < ' ' || r == 127:
			b.WriteString(`\x` + strings.ToUpper(strconv.FormatUint(uint64(r)|0x100, 16)[1:]))
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// Equal is Ruby's ==.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		switch {
		case v.kind == Int && w.kind == Float:
			return float64(v.Int()) == w.Float()
		case v.kind == Float && w.kind == Int:
			return v.Float() == float64(w.Int())
		}
		return false
	}
	switch v.kind {
	case Float:
		return v.Float() == w.Float()
	case ArrayKind:
		if len(v.arr.Items) != len(w.arr.Items) {
			return false
		}
		for i, x := range v.arr.Items {
			if !x.Equal(w.arr.Items[i]) {
				return false
			}
		}
		return true
	case HashKind:
		if len(v.hash.Keys) != len(w.hash.Keys) {
			return false
		}
		for i, k := range v.hash.Keys {
			x, ok := w.hash.Get(k)
			if !ok || !v.hash.Values[i].Equal(x) {
				return false
			}
		}
		return true
	}
	return v.bits == w.bits && v.text == w.text
}

// Get looks a key up.
func (h *Hash) Get(k Value) (Value, bool) {
	for i, x := range h.Keys {
		if x.kind == k.kind && x.Equal(k) {
			return h.Values[i], true
		}
	}
	return Value{}, false
}

// Set adds a pair or replaces its value.
func (h *Hash) Set(k, v Value) {
	for i, x := range h.Keys {
		if x.kind == k.kind && x.Equal(k) {
			h.Values[i] = v
			return
		}
	}
	h.Keys = append(h.Keys, k)
	h.Values = append(h.Values, v)
}
