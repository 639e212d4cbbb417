package expr

import "math"

// hashAssoc is the pair of a key.
func hashAssoc(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	if x, ok := m.get(v.o, a[0]); ok {
		return m.array([]Value{v.o.keys[find(v.o.keys, a[0])], x}), nil
	}
	return Value{}, nil
}

// hashFlatten lists keys and values.
func hashFlatten(m *Machine, n *call, v Value, a []Value) (Value, error) {
	depth := 1
	if len(a) == 1 {
		var err error
		if depth, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
	}
	pairs, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	if depth < 0 {
		return Value{}, m.exceed(n, "flatten without an end is not supported for a Hash")
	}
	out, err := m.flatten(n, nil, pairs, depth, 0)
	return m.array(out), err
}

// hashWithin is <, <=, > and >=: whether one holds all that another has.
func hashWithin(m *Machine, n *call, v Value, a []Value) (Value, error) {
	w := a[0]
	if err := m.need(n, HashKind, w); err != nil {
		return Value{}, err
	}
	if n.name[0] == '>' {
		v, w = w, v
	}
	m.open(v.o)
	m.open(w.o)
	for i, k := range v.o.keys {
		if x, ok := m.get(w.o, k); !ok || !m.equal(x, v.o.items[i]) {
			return boolValue(false), nil
		}
	}
	return boolValue(len(n.name) == 2 || len(v.o.keys) < len(w.o.keys)), nil
}

// endless says whether a Range ends nowhere.
func endless(end Value) bool { return end.IsNil() || end.kind == Float && math.IsInf(end.float(), 1) }

// rangeExtreme is min and max.
func rangeExtreme(m *Machine, n *call, v Value, a []Value) (Value, error) {
	lo, hi := v.o.items[0], v.o.items[1]
	end := lo
	if n.name == "max" {
		end = hi
	}
	if end.IsNil() {
		return Value{}, m.raise(n, "RangeError", "cannot get the %simum of %s range", n.name, map[string]string{"min": "beginless", "max": "endless"}[n.name])
	}
	if n.block != nil || len(a) > 0 {
		return enumExtreme(m, n, v, a)
	}
	if c, ok := m.compare(lo, hi); ok && (c > 0 || c == 0 && v.bits != 0) {
		return Value{}, nil
	}
	if n.name == "max" && v.bits != 0 {
		if hi.kind != Int || lo.kind != Int {
			if hi.kind == String {
				return enumExtreme(m, n, v, a)
			}
			return Value{}, m.raise(n, "TypeError", "cannot exclude non Integer end value")
		}
		return intValue(hi.int() - 1), nil
	}
	return end, nil
}

// enumIndex is find_index of what has no indexes itself.
func enumIndex(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	return arrayIndexOf(m, n, m.array(items), a)
}
