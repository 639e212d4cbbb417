package expr

import (
	"math"
	"math/bits"
	"strconv"
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

// integerOnly refuses a Float as receiver of a method that Integers have.
func integerOnly(m *Machine, n *call, v Value) error {
	switch n.name {
	case "chr", "times", "upto", "downto", "digits", "pow":
		if v.kind == Float {
			return m.noMethod(n, v)
		}
		if v.kind == Uint {
			return m.numeric(n, v, v)
		}
	}
	return nil
}

// addFloats adds as Kahan and Babuska do: lost is what rounding has taken from the sum.
func addFloats(sum, x, lost float64) (Value, float64) {
	t := sum + x
	switch {
	case math.IsInf(t, 0) || math.IsNaN(t):
		return floatValue(t), 0
	case math.Abs(sum) >= math.Abs(x):
		lost += (sum - t) + x
	default:
		lost += (x - t) + sum
	}
	return floatValue(t), lost
}
