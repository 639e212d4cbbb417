package expr

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

func numberMethods() map[string]*method {
	out := map[string]*method{}
	for _, op := range []string{"+", "-", "*", "/", "%", "**", "modulo", "pow"} {
		out[op] = &method{fn: arithmetic, least: 1, most: 1}
	}
	out["pow"].most = 2
	for _, op := range []string{"&", "|", "^", "<<", ">>"} {
		out[op] = &method{fn: bitwise, least: 1, most: 1}
	}
	for _, op := range []string{"<", "<=", ">", ">="} {
		out[op] = &method{fn: ordered, least: 1, most: 1}
	}
	for _, name := range []string{"truncate", "floor", "ceil"} {
		out[name] = &method{fn: rounded, most: 1}
	}
	out["to_i"], out["to_int"], out["round"] = &method{fn: rounded}, &method{fn: rounded}, &method{fn: rounded, most: 2}
	for _, name := range []string{"zero?", "positive?", "negative?", "even?", "odd?", "nan?", "infinite?", "finite?", "integer?", "nonzero?"} {
		out[name] = &method{fn: numberTest}
	}
	for _, name := range []string{"-@", "~", "abs", "magnitude", "succ", "next", "pred"} {
		out[name] = &method{fn: numberUnary}
	}
	out["between?"] = &method{fn: between, least: 2, most: 2}
	out["clamp"] = &method{fn: clamp, least: 1, most: 2}
	out["+@"], out["size"], out["ord"] = &method{fn: itself}, &method{fn: numberSize}, &method{fn: numberSize}
	out["step"] = &method{fn: numberStep, most: 2}
	out["to_f"] = &method{fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return floatValue(v.asFloat()), nil }}
	out["to_s"] = &method{fn: numberToS, most: 1}
	out["chr"] = &method{fn: numberChr, most: 1}
	out["times"] = &method{fn: times}
	out["upto"] = &method{fn: upTo, least: 1, most: 1}
	out["downto"] = &method{fn: upTo, least: 1, most: 1}
	out["div"] = &method{fn: quotient, least: 1, most: 1}
	out["fdiv"] = &method{fn: quotient, least: 1, most: 1}
	out["divmod"] = &method{fn: quotient, least: 1, most: 1}
	out["digits"] = &method{fn: digits, most: 1}
	out["[]"] = &method{fn: bit, least: 1, most: 2}
	return out
}

// numeric demands a number that can be computed with, on both sides.
func (m *Machine) numeric(n *call, v, w Value) error {
	switch {
	case v.kind == Uint || w.kind == Uint:
		return m.exceed(n, "integers of more than 64 bits are not supported")
	case !w.number():
		what := w.class()
		if w.kind == Nil || w.kind == Bool {
			what = w.Inspect()
		}
		return m.raise(n, "TypeError", "%s can't be coerced into %s", what, v.class())
	}
	return nil
}

func arithmetic(m *Machine, n *call, v Value, a []Value) (Value, error) {
	w := a[0]
	if len(a) == 2 {
		return Value{}, m.exceed(n, "pow with a modulus is not supported")
	}
	if err := m.numeric(n, v, w); err != nil {
		return Value{}, err
	}
	if err := integerOnly(m, n, v); err != nil {
		return Value{}, err
	}
	if power := n.name == "**" || n.name == "pow"; power && v.kind == Int && w.kind == Int && w.int() < 0 {
		if v.int() == 0 {
			return Value{}, m.raise(n, "ZeroDivisionError", "divided by 0")
		}
		return Value{}, m.exceed(n, "an Integer with a negative exponent is a Rational, which is not supported")
	} else if power && v.asFloat() < 0 && w.kind == Float && w.float() != math.Trunc(w.float()) {
		return Value{}, m.exceed(n, "a negative number with a broken exponent is Complex, which is not supported")
	}
	if v.kind == Int && w.kind == Int {
		i, ok := integer(n.name, v.int(), w.int())
		if !ok && w.int() == 0 {
			return Value{}, m.raise(n, "ZeroDivisionError", "divided by 0")
		}
		if !ok {
			return Value{}, m.exceed(n, "the result is too large: integers of more than 64 bits are not supported")
		}
		return intValue(i), nil
	}
	x, y := v.asFloat(), w.asFloat()
	if y == 0 && (n.name == "%" || n.name == "modulo") {
		return Value{}, m.raise(n, "ZeroDivisionError", "divided by 0")
	}
	switch n.name {
	case "+":
		x += y
	case "-":
		x -= y
	case "*":
		x *= y
	case "/":
		x /= y
	case "**", "pow":
		if err := m.charge(n, preciseSteps); err != nil {
			return Value{}, err
		}
		x = pow(x, y)
	default:
		r := math.Mod(x, y)
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		x = r
	}
	return floatValue(x), nil
}

// integer computes with 64 bits; ok is false on overflow and on division by 0. Division
// rounds down, as in Ruby.
func integer(op string, a, b int64) (n int64, ok bool) {
	switch op {
	case "+":
		n = a + b
		return n, (n > a) == (b > 0)
	case "-":
		n = a - b
		return n, (n < a) == (b > 0)
	case "*":
		if a == math.MinInt64 || b == math.MinInt64 {
			return 0, a == 0 || b == 0
		}
		hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
		return a * b, hi == 0 && lo <= math.MaxInt64
	case "**", "pow":
		n, ok = 1, true
		for ; b > 0 && ok && n != 0 && a != 1; b-- {
			n, ok = integer("*", n, a)
			if a == -1 {
				b &= 1
				n = 1 - 2*b
				break
			}
		}
		return n, ok
	}
	if b == 0 || a == math.MinInt64 && b == -1 {
		return 0, false
	}
	q, r := a/b, a%b
	if r != 0 && (r < 0) != (b < 0) {
		q, r = q-1, r+b
	}
	if op == "/" {
		return q, true
	}
	return r, true
}

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

func numberTest(m *Machine, n *call, v Value, a []Value) (Value, error) {
	f := v.asFloat()
	switch n.name {
	case "zero?":
		return boolValue(f == 0), nil
	case "positive?":
		return boolValue(f > 0), nil
	case "negative?":
		return boolValue(f < 0), nil
	case "even?", "odd?":
		if v.kind == Float {
			return Value{}, m.noMethod(n, v)
		}
		return boolValue((v.bits&1 == 0) == (n.name == "even?")), nil
	case "nan?":
		if v.kind != Float {
			return Value{}, m.noMethod(n, v)
		}
		return boolValue(f != f), nil
	case "infinite?":
		if math.IsInf(f, 0) {
			return intValue(int64(math.Copysign(1, f))), nil
		}
		return Value{}, nil
	case "finite?":
		return boolValue(!math.IsInf(f, 0) && f == f), nil
	case "nonzero?":
		if f == 0 {
			return Value{}, nil
		}
		return v, nil
	}
	return boolValue(v.kind != Float), nil
}

func numberUnary(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.kind == Uint {
		return Value{}, m.numeric(n, v, v)
	}
	if v.kind == Float {
		switch n.name {
		case "-@":
			return floatValue(-v.float()), nil
		case "abs", "magnitude":
			return floatValue(math.Abs(v.float())), nil
		}
		return Value{}, m.noMethod(n, v)
	}
	i := v.int()
	switch {
	case i == math.MinInt64 && n.name != "~" && n.name != "succ" && n.name != "next", i == math.MaxInt64 && (n.name == "succ" || n.name == "next"):
		return Value{}, m.exceed(n, "the result is too large: integers of more than 64 bits are not supported")
	case n.name == "-@", n.name != "~" && n.name != "succ" && n.name != "next" && n.name != "pred" && i < 0:
		i = -i
	case n.name == "~":
		i = ^i
	case n.name == "pred":
		i--
	case n.name == "succ" || n.name == "next":
		i++
	}
	return intValue(i), nil
}

func numberToS(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.kind == Float && len(a) > 0 {
		return Value{}, m.wrongCount(n, len(a), 0, 0)
	}
	if len(a) == 0 {
		return m.str(v.ToS()), nil
	}
	base, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if base < 2 || base > 36 {
		return Value{}, m.raise(n, "ArgumentError", "invalid radix %d", base)
	}
	if v.kind == Uint {
		return m.str(strconv.FormatUint(v.bits, base)), nil
	}
	return m.str(strconv.FormatInt(v.int(), base)), nil
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

// times is 5.times; without a block it is the list that an enumerator would give.
func times(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := integerOnly(m, n, v); err != nil {
		return Value{}, err
	}
	return m.count(n, v, 0, max(v.int(), 0)-1, 1)
}

func upTo(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := integerOnly(m, n, v); err != nil {
		return Value{}, err
	}
	if v.kind == Int && a[0].kind == Float && n.block != nil && a[0].float() > -1<<62 && a[0].float() < 1<<62 {
		a[0] = intValue(int64(roundWith(map[string]string{"upto": "floor", "downto": "ceil"}[n.name], a[0].float(), false)))
	}
	if v.kind != Int || a[0].kind != Int {
		if n.block == nil {
			return Value{}, m.noBlock(n)
		}
		return Value{}, m.raise(n, "ArgumentError", "comparison of Integer with %s failed", compared(a[0]))
	}
	if n.name == "downto" {
		return m.count(n, v, v.int(), a[0].int(), -1)
	}
	return m.count(n, v, v.int(), a[0].int(), 1)
}

func (m *Machine) count(n *call, v Value, from, to, step int64) (Value, error) {
	size := uint64(0)
	if from <= to == (step > 0) || from == to {
		size = uint64(to-from)*uint64(step) + 1 // wraps around as it should
	}
	if n.block == nil {
		if err := m.checkItems(n, int(min(size, maxItems+1))); err != nil {
			return Value{}, err
		}
	}
	var items []Value
	for i := from; size > 0; size-- {
		if n.block == nil {
			items = append(items, intValue(i))
		} else if _, err := m.yield(n.block, intValue(i)); err != nil {
			return Value{}, err
		}
		i += step
	}
	if n.block == nil {
		return m.array(items), nil
	}
	return v, nil
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
