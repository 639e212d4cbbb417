package expr

import "math"

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
