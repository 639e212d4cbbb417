package expr

import "slices"

// manyArrays makes a method of any number of arrays of one with one.
func manyArrays(f func(m *Machine, n *call, v Value, a []Value) (Value, error)) func(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return func(m *Machine, n *call, v Value, a []Value) (Value, error) {
		var err error
		if n.name == "union" {
			if v, err = f(m, n, v, []Value{m.array(nil)}); err != nil {
				return Value{}, err
			}
		}
		for _, x := range a {
			if v, err = f(m, n, v, []Value{x}); err != nil {
				return Value{}, err
			}
		}
		if len(a) == 0 && n.name != "union" {
			return m.array(slices.Clone(m.items(v))), nil
		}
		return v, nil
	}
}

// arrayLastIndex is rindex.
func arrayLastIndex(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	for i := len(items) - 1; i >= 0; i-- {
		hit := len(a) == 1 && m.equal(items[i], a[0])
		if len(a) == 0 {
			if n.block == nil {
				return Value{}, m.noBlock(n)
			}
			y, err := m.yield(n.block, items[i])
			if err != nil {
				return Value{}, err
			}
			hit = y.Truthy()
		}
		if hit {
			return intValue(int64(i)), nil
		}
	}
	return Value{}, m.charge(n, len(items))
}

// arraySliceOut is slice!: what [] gives is taken out.
func arraySliceOut(m *Machine, n *call, v Value, a []Value) (Value, error) {
	out, err := arrayIndex(m, n, v, a)
	items := m.items(v)
	if err != nil || out.IsNil() && (len(a) == 2 || a[0].kind == RangeKind) {
		return Value{}, err
	}
	var from, length int
	if a[0].kind == RangeKind {
		if from, length, _, err = m.rangeOn(n, a[0], len(items)); err != nil {
			return Value{}, err
		}
	} else {
		if from, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
		if from < 0 {
			from += len(items)
		}
		if length = 1; len(a) == 2 {
			length, _ = m.intArg(n, a[1])
		}
	}
	if from < 0 || from >= len(items) || length <= 0 {
		return out, nil
	}
	rest := append(slices.Clone(items[:from]), items[min(from+length, len(items)):]...)
	m.mutated, v.o.items = true, rest
	return out, nil
}

func arrayValuesAt(m *Machine, n *call, v Value, a []Value) (Value, error) {
	out := m.values.get(len(a))[:0]
	for _, k := range a {
		x, err := arrayIndex(m, n, v, []Value{k})
		if err != nil {
			return Value{}, err
		}
		if k.kind != RangeKind {
			out = append(out, x)
			continue
		}
		if !x.IsNil() {
			out = append(out, m.items(x)...)
		}
		if end := k.o.items[1]; !x.IsNil() && end.kind == Int { // as long as the range says
			for i := len(m.items(x)); i < int(min(end.int()+1-int64(k.bits)-max(k.o.items[0].int(), 0), maxItems)); i++ {
				out = append(out, Value{})
			}
		}
	}
	return m.array(out), m.checkItems(n, len(out))
}
