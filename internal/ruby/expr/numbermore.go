package expr

import "math"

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

// onlyHalf says whether a Hash is the option of round.
func (m *Machine) onlyHalf(v Value) bool {
	m.open(v.o)
	return len(v.o.keys) == 1 && v.o.keys[0].kind == Symbol && v.o.keys[0].text() == "half"
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

// numberStep is 1.step(10, 3). Without a block it is the list that Ruby would count through.
func numberStep(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if len(a) == 0 {
		return Value{}, m.exceed(n, "step without an end is not supported")
	}
	step := int64(1)
	if len(a) == 2 && a[1].kind == Int {
		step = a[1].int()
	}
	if v.kind != Int || a[0].kind != Int || len(a) == 2 && a[1].kind != Int || step > math.MaxInt32 || step < math.MinInt32 {
		return Value{}, m.exceed(n, "step is supported with Integers only")
	}
	if step == 0 {
		return Value{}, m.raise(n, "ArgumentError", "step can't be 0")
	}
	to := a[0].int()
	size := (to-v.int())/step + 1
	if (to-v.int())*step < 0 {
		size = 0
	}
	if err := m.checkItems(n, int(min(size, maxItems+1))); err != nil {
		return Value{}, err
	}
	items := make([]Value, 0, size)
	for i := range size {
		items = append(items, intValue(v.int()+i*step))
	}
	w, err := enumEach(m, n, m.array(items), nil)
	if err == nil && n.block != nil {
		return v, nil
	}
	return w, err
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
