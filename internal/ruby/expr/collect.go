package expr

import (
	"math"
	"math/bits"
	"strings"
)

// number has the methods of Integer and Float.
func (c *invocation) number() (Value, bool, error) {
	v := c.recv
	switch c.n.name {
	case "+", "-", "*", "/", "%":
		return c.arithmetic()
	case "<", "<=", ">", ">=", "<=>":
		if err := c.numeric(); err != nil {
			return Value{}, true, err
		}
		a, b := v.asFloat(), c.args[0].asFloat()
		n := 0
		switch {
		case v.kind == Int && c.args[0].kind == Int && v.Int() != c.args[0].Int():
			n = 1
			if v.Int() < c.args[0].Int() {
				n = -1
			}
		case a < b:
			n = -1
		case a > b:
			n = 1
		}
		return compare(c.n.name, n), true, nil
	case "to_i", "floor", "ceil", "round":
		return c.round()
	case "to_f":
		return FloatValue(v.asFloat()), true, c.count(0, 0)
	case "zero?":
		return BoolValue(v.asFloat() == 0), true, c.count(0, 0)
	case "abs":
		if v.kind == Float {
			return FloatValue(math.Abs(v.Float())), true, c.count(0, 0)
		}
		if v.Int() < 0 && v.Int() != math.MinInt64 {
			v = IntValue(-v.Int())
		}
		return v, true, c.count(0, 0)
	}
	return Value{}, false, nil
}

func (v Value) asFloat() float64 {
	if v.kind == Int {
		return float64(v.Int())
	}
	return v.Float()
}

// numeric demands one number.
func (c *invocation) numeric() error {
	if err := c.count(1, 1); err != nil {
		return err
	}
	if k := c.args[0].kind; k != Int && k != Float {
		return c.m.raise(c.n, "%s can't be coerced into %s", c.args[0].describe(), c.recv.kind)
	}
	return nil
}

func (c *invocation) round() (Value, bool, error) {
	if err := c.count(0, 0); err != nil || c.recv.kind == Int {
		return c.recv, true, err
	}
	f := c.recv.Float()
	switch c.n.name {
	case "to_i":
		f = math.Trunc(f)
	case "floor":
		f = math.Floor(f)
	case "ceil":
		f = math.Ceil(f)
	default:
		f = math.Round(f)
	}
	if math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return Value{}, true, c.m.raise(c.n, "%s is out of the range of integers", formatFloat(f))
	}
	return IntValue(int64(f)), true, nil
}

func (c *invocation) arithmetic() (Value, bool, error) {
	if err := c.numeric(); err != nil {
		return Value{}, true, err
	}
	if c.recv.kind == Int && c.args[0].kind == Int {
		n, ok := integer(c.n.name, c.recv.Int(), c.args[0].Int())
		if !ok && c.args[0].Int() == 0 && (c.n.name == "/" || c.n.name == "%") {
			return Value{}, true, c.m.raise(c.n, "divided by 0")
		}
		if !ok {
			return Value{}, true, c.m.raise(c.n, "the result is too large")
		}
		return IntValue(n), true, nil
	}
	a, b := c.recv.asFloat(), c.args[0].asFloat()
	switch c.n.name {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/":
		a /= b
	default:
		m := math.Mod(a, b)
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		a = m
	}
	return FloatValue(a), true, nil
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

// array has the methods of Array.
func (c *invocation) array() (Value, bool, error) {
	items := c.recv.arr.Items
	switch c.n.name {
	case "[]":
		if err := c.need(Int, 1, 1); err != nil {
			return Value{}, true, err
		}
		i := c.args[0].Int()
		if i < 0 {
			i += int64(len(items))
		}
		if i < 0 || i >= int64(len(items)) {
			return Value{}, true, nil
		}
		return items[i], true, nil
	case "first", "last":
		if err := c.count(0, 0); err != nil || len(items) == 0 {
			return Value{}, true, err
		}
		if c.n.name == "first" {
			return items[0], true, nil
		}
		return items[len(items)-1], true, nil
	case "length", "size":
		return IntValue(int64(len(items))), true, c.count(0, 0)
	case "empty?":
		return BoolValue(len(items) == 0), true, c.count(0, 0)
	case "to_a":
		return c.recv, true, c.count(0, 0)
	case "include?":
		if err := c.count(1, 1); err != nil {
			return Value{}, true, err
		}
		for _, x := range items {
			if x.Equal(c.args[0]) {
				return BoolValue(true), true, nil
			}
		}
		return BoolValue(false), true, nil
	case "reverse":
		out := make([]Value, len(items))
		for i, x := range items {
			out[len(items)-1-i] = x
		}
		return ArrayValue(out), true, c.count(0, 0)
	case "join":
		return c.join()
	case "+":
		if err := c.need(ArrayKind, 1, 1); err != nil {
			return Value{}, true, err
		}
		if len(items)+len(c.args[0].arr.Items) > maxItems {
			return Value{}, true, c.m.raise(c.n, "the array has more than %d elements", maxItems)
		}
		return ArrayValue(append(items[:len(items):len(items)], c.args[0].arr.Items...)), true, nil
	}
	return Value{}, false, nil
}

func (c *invocation) join() (Value, bool, error) {
	if err := c.need(String, 0, 1); err != nil {
		return Value{}, true, err
	}
	sep := ""
	if len(c.args) == 1 {
		sep = c.args[0].text
	}
	var b strings.Builder
	if !joinItems(&b, c.recv.arr.Items, sep) {
		return Value{}, true, c.m.raise(c.n, "the text is longer than %d bytes", maxText)
	}
	return StringValue(b.String()), true, nil
}

// joinItems writes items and the items of arrays among them; false when it gets too long.
func joinItems(b *strings.Builder, items []Value, sep string) bool {
	for i, x := range items {
		if i > 0 {
			b.WriteString(sep)
		}
		if x.kind != ArrayKind {
			b.WriteString(x.ToS())
		} else if !joinItems(b, x.arr.Items, sep) {
			return false
		}
		if b.Len() > maxText {
			return false
		}
	}
	return true
}

// hash has the methods of Hash.
func (c *invocation) hash() (Value, bool, error) {
	h := c.recv.hash
	switch c.n.name {
	case "[]", "key?", "has_key?", "include?":
		if err := c.count(1, 1); err != nil {
			return Value{}, true, err
		}
		v, ok := h.Get(c.args[0])
		if c.n.name != "[]" {
			return BoolValue(ok), true, nil
		}
		return v, true, nil
	case "fetch":
		if err := c.count(1, 2); err != nil {
			return Value{}, true, err
		}
		v, ok := h.Get(c.args[0])
		switch {
		case ok:
			return v, true, nil
		case c.n.block != nil:
			v, err := c.m.yield(c.n.block, c.args[0])
			return v, true, err
		case len(c.args) == 2:
			return c.args[1], true, nil
		}
		return Value{}, true, c.m.raise(c.n, "key not found: %s", c.args[0].Inspect())
	case "length", "size":
		return IntValue(int64(len(h.Keys))), true, c.count(0, 0)
	case "empty?":
		return BoolValue(len(h.Keys) == 0), true, c.count(0, 0)
	case "keys":
		return ArrayValue(h.Keys), true, c.count(0, 0)
	case "values":
		return ArrayValue(h.Values), true, c.count(0, 0)
	}
	return Value{}, false, nil
}
