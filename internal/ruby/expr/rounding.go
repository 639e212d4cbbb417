package expr

import (
	"math"
	"strconv"
	"strings"
)

// rounded is to_i, floor, ceil and round, with digits if they are given.
func rounded(m *Machine, n *call, v Value, a []Value) (Value, error) {
	places := 0
	even := false
	if len(a) == 2 && a[1].kind != HashKind {
		return Value{}, m.wrongCount(n, 2, 0, 1)
	}
	for i, x := range a {
		if x.kind == HashKind && n.name == "round" && i == len(a)-1 && m.onlyHalf(x) {
			m.open(x.o)
			for i, k := range x.o.keys {
				even = k.text() == "half" && x.o.items[i].text() == "even"
			}
			continue
		}
		var err error
		if places, err = m.intArg(n, x); err != nil {
			return Value{}, err
		}
	}
	if v.kind == Uint || v.kind == Int && places >= 0 {
		return v, nil
	}
	f := v.asFloat()
	if v.kind == Float && places > 0 {
		return floatValue(roundPlaces(n.name, f, min(places, 17), even)), nil
	}
	scale := math.Pow(10, float64(-min(places, 0)))
	f = roundWith(n.name, f/scale, even) * scale
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, m.raise(n, "FloatDomainError", "%s", formatFloat(f))
	}
	if math.Abs(f) >= 1<<63 {
		return Value{}, m.exceed(n, "%s is too large: integers of more than 64 bits are not supported", formatFloat(f))
	}
	return intValue(int64(f)), nil
}

// roundPlaces rounds to decimals. The decimal text is exact where a product would not be.
func roundPlaces(name string, f float64, places int, even bool) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return f
	}
	scale := math.Pow(10, float64(places))
	r := roundWith(name, f*scale, even)
	if name == "round" && !even { // as Ruby does: 2.675 is 2.68, though 2.675*100 is below 267.5
		if f > 0 && (r+0.5)/scale <= f {
			r++
		} else if f < 0 && (r-0.5)/scale >= f {
			r--
		}
	}
	x := r / scale
	if math.IsInf(x, 0) || math.IsNaN(x) || math.Abs(f) >= 1<<52 {
		return f
	}
	if name == "floor" || name == "ceil" {
		// f itself may already have no more places.
		if s := strconv.FormatFloat(f, 'f', -1, 64); len(s)-strings.IndexByte(s+".", '.')-1 <= places {
			return f
		}
	}
	return x
}

func roundWith(name string, f float64, even bool) float64 {
	switch {
	case name == "floor":
		return math.Floor(f)
	case name == "ceil":
		return math.Ceil(f)
	case name == "round" && even:
		return math.RoundToEven(f)
	case name == "round":
		return math.Round(f)
	}
	return math.Trunc(f)
}

func quotient(m *Machine, n *call, v Value, a []Value) (Value, error) {
	w := a[0]
	if err := m.numeric(n, v, w); err != nil {
		return Value{}, err
	}
	if n.name == "fdiv" {
		return floatValue(v.asFloat() / w.asFloat()), nil
	}
	if w.asFloat() == 0 {
		return Value{}, m.raise(n, "ZeroDivisionError", "divided by 0")
	}
	var q, r Value
	if v.kind == Int && w.kind == Int {
		x, ok := integer("/", v.int(), w.int())
		y, _ := integer("%", v.int(), w.int())
		if !ok {
			return Value{}, m.exceed(n, "the result is too large: integers of more than 64 bits are not supported")
		}
		q, r = intValue(x), intValue(y)
	} else {
		x, y := v.asFloat(), w.asFloat()
		mod := math.Mod(x, y)
		f := x / y
		if !math.IsInf(y, 0) || math.IsInf(x, 0) {
			f = (x - mod) / y
		}
		if mod != 0 && (mod < 0) != (y < 0) {
			mod, f = mod+y, f-1
		}
		f = math.Round(f)
		if n.name == "div" {
			f = math.Floor(x / y)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return Value{}, m.raise(n, "FloatDomainError", "%s", formatFloat(f))
		}
		if math.Abs(f) >= 1<<63 {
			return Value{}, m.exceed(n, "%s is too large: integers of more than 64 bits are not supported", formatFloat(f))
		}
		q, r = intValue(int64(f)), floatValue(mod)
	}
	if n.name == "div" {
		return q, nil
	}
	return m.array([]Value{q, r}), nil
}

// onlyHalf says whether a Hash is the option of round.
func (m *Machine) onlyHalf(v Value) bool {
	m.open(v.o)
	return len(v.o.keys) == 1 && v.o.keys[0].kind == Symbol && v.o.keys[0].text() == "half"
}
