package expr

import (
	"math"
	"strings"
	"unicode/utf8"
)

func bitwise(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.kind == Float {
		return Value{}, m.noMethod(n, v)
	}
	if v.kind == Uint || a[0].kind == Uint {
		return Value{}, m.numeric(n, v, a[0])
	}
	if a[0].kind != Int {
		if shift := n.name == "<<" || n.name == ">>"; shift && a[0].kind != Float {
			return Value{}, m.noConversion(n, a[0], "Integer")
		} else if shift {
			f := a[0].float()
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return Value{}, m.raise(n, "FloatDomainError", "%s", formatFloat(f))
			}
			return bitwise(m, n, v, []Value{intValue(int64(max(min(f, 1<<40), -1<<40)))})
		}
		what := a[0].class()
		if a[0].kind == Nil || a[0].kind == Bool || a[0].kind == Float {
			what = a[0].Inspect()
		}
		if a[0].kind == Float {
			return Value{}, m.raise(n, "NoMethodError", "undefined method `%s' for %s:Float", n.name, what)
		}
		return Value{}, m.raise(n, "TypeError", "%s can't be coerced into Integer", what)
	}
	x, y := v.int(), a[0].int()
	switch n.name {
	case "&":
		return intValue(x & y), nil
	case "|":
		return intValue(x | y), nil
	case "^":
		return intValue(x ^ y), nil
	case ">>":
		y = -y
	}
	switch {
	case y <= -63:
		return intValue(x >> 63), nil
	case y < 0:
		return intValue(x >> -y), nil
	case y > 62 && x != 0 || x<<y>>y != x:
		return Value{}, m.exceed(n, "the result is too large: integers of more than 64 bits are not supported")
	}
	return intValue(x << y), nil
}

func numberChr(m *Machine, n *call, v Value, a []Value) (Value, error) {
	i := v.int()
	if err := integerOnly(m, n, v); err != nil {
		return Value{}, err
	}
	if err := m.need(n, String, a...); err != nil {
		return Value{}, err
	}
	if len(a) == 1 && !strings.EqualFold(a[0].s.s, "utf-8") {
		return Value{}, m.exceed(n, "chr(%s) is not supported", a[0].Inspect())
	}
	switch {
	case v.kind != Int || i < 0 || i > utf8.MaxRune || len(a) == 0 && i > 255:
		return Value{}, m.raise(n, "RangeError", "%s out of char range", v.Inspect())
	case len(a) == 0 && i >= utf8.RuneSelf:
		w := m.str(string([]byte{byte(i)}))
		w.s.enc = binaryText
		return w, nil
	}
	return m.str(string(rune(i))), nil
}

// bit is n[i], one bit of an Integer.
func bit(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.kind != Int {
		return Value{}, m.noMethod(n, v)
	}
	if a[0].kind == RangeKind || len(a) == 2 {
		return Value{}, m.exceed(n, "a Range of bits is not supported")
	}
	i, err := m.intArg(n, a[0])
	if err != nil || i < 0 {
		return intValue(0), err
	}
	return intValue(v.int() >> min(i, 63) & 1), nil
}

func digits(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := integerOnly(m, n, v); err != nil {
		return Value{}, err
	}
	if v.kind == Int && v.int() < 0 {
		return Value{}, m.raise(n, "Math::DomainError", "out of domain")
	}
	if len(a) == 1 {
		return Value{}, m.exceed(n, "digits in another base are not supported")
	}
	items := []Value{intValue(v.int() % 10)}
	for i := v.int() / 10; i > 0; i /= 10 {
		items = append(items, intValue(i%10))
	}
	return m.array(items), nil
}

// numberSize is Integer#size and ord.
func numberSize(m *Machine, n *call, v Value, a []Value) (Value, error) {
	switch {
	case v.kind == Float:
		return Value{}, m.noMethod(n, v)
	case n.name == "ord":
		return v, nil
	}
	return intValue(8), nil
}
