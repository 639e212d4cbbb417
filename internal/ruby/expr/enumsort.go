package expr

import "slices"

// keyed is an element with what a block made of it.
type keyed struct{ key, value Value }

// keys runs the block for each element.
func (m *Machine) keys(n *call, items []Value) ([]keyed, error) {
	if n.block == nil {
		return nil, m.noBlock(n)
	}
	out := make([]keyed, len(items))
	for i, x := range items {
		k, err := m.yield(n.block, x)
		if err != nil {
			return nil, err
		}
		out[i] = keyed{k, x}
	}
	return out, nil
}

// incomparable is the error for two values that have no order.
func (m *Machine) incomparable(n node, v, w Value) error {
	return m.raise(n, "ArgumentError", "comparison of %s with %s failed", v.class(), compared(w))
}

func enumExtreme(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	switch {
	case err != nil:
		return Value{}, err
	case len(a) == 1 && !a[0].IsNil():
		return m.extremes(n, v, a[0])
	case len(items) == 0 && n.name == "minmax":
		return m.array(make([]Value, 2)), nil
	case len(items) == 0:
		return Value{}, nil
	}
	var all []keyed
	if n.name == "min_by" || n.name == "max_by" {
		if all, err = m.keys(n, items); err != nil {
			return Value{}, err
		}
	} else {
		for _, x := range items {
			all = append(all, keyed{x, x})
		}
	}
	lo, hi := all[0], all[0]
	for _, x := range all[1:] {
		c, err := m.orderBy(n, x.key, lo.key)
		if err != nil {
			return Value{}, err
		}
		if c < 0 {
			lo = x
		}
		if c, err = m.orderBy(n, x.key, hi.key); err != nil {
			return Value{}, err
		}
		if c > 0 {
			hi = x
		}
	}
	switch n.name {
	case "min", "min_by":
		return lo.value, nil
	case "max", "max_by":
		return hi.value, nil
	}
	return m.array([]Value{lo.value, hi.value}), nil
}

// orderBy compares by the block of sort, min or max, or by <=>.
func (m *Machine) orderBy(n *call, v, w Value) (int, error) {
	if n.block != nil && n.name != "min_by" && n.name != "max_by" && n.name != "sort_by" {
		r, err := m.yield2(n.block, v, w)
		if err != nil {
			return 0, err
		}
		if !r.number() {
			return 0, m.incomparable(n, v, w)
		}
		return order(r.asFloat(), 0), nil
	}
	c, ok := m.compare(v, w)
	if !ok {
		return 0, m.incomparable(n, v, w)
	}
	return c, m.charge(n, 0)
}

// extremes is min(n) and max(n).
func (m *Machine) extremes(n *call, v, count Value) (Value, error) {
	i, err := m.intArg(n, count)
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		return Value{}, m.raise(n, "ArgumentError", "negative size (%d)", i)
	}
	by := "sort"
	if n.name == "min_by" || n.name == "max_by" {
		by = "sort_by"
	}
	sorted, err := enumSort(m, &call{off: n.off, name: by, block: n.block}, v, nil)
	if err != nil {
		return Value{}, err
	}
	items := sorted.o.items
	if n.name == "max" || n.name == "max_by" {
		slices.Reverse(items)
	}
	return m.array(items[:max(min(i, len(items)), 0)]), nil
}

func enumSort(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	var all []keyed
	if n.name == "sort_by" {
		if all, err = m.keys(n, items); err != nil {
			return Value{}, err
		}
	} else {
		for _, x := range items {
			all = append(all, keyed{x, x})
		}
	}
	slices.SortStableFunc(all, func(x, y keyed) int {
		if err != nil {
			return 0
		}
		var c int
		// The elder one comes first, as in Ruby: an error then names them in that order.
		c, err = m.orderBy(n, y.key, x.key)
		return -c
	})
	if err != nil {
		return Value{}, err
	}
	out := m.values.get(len(all))
	for i, x := range all {
		out[i] = x.value
	}
	return m.array(out), nil
}

func enumGroup(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	h := m.hash()
	if len(a) == 1 { // tally into a Hash
		if err := m.need(n, HashKind, a[0]); err != nil {
			return Value{}, err
		}
		h, m.mutated = a[0], true
		m.open(h.o)
	}
	for _, x := range items {
		if n.name == "tally" {
			count, ok := m.get(h.o, x)
			if ok && count.kind != Int {
				return Value{}, m.raise(n, "TypeError", "wrong argument type %s (expected Integer)", count.class())
			}
			m.set(h.o, x, intValue(count.int()+1))
			continue
		}
		if n.block == nil {
			return Value{}, m.noBlock(n)
		}
		k, err := m.yield(n.block, x)
		if err != nil {
			return Value{}, err
		}
		group, ok := m.get(h.o, k)
		if !ok {
			group = m.array(nil)
			m.set(h.o, k, group)
		}
		group.o.items = append(group.o.items, x)
	}
	return h, m.charge(n, 0)
}

func enumUniq(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	var seen, out []Value
	for _, x := range items {
		k := x
		if n.block != nil {
			if k, err = m.yield(n.block, x); err != nil {
				return Value{}, err
			}
		}
		if m.has(seen, k) {
			continue
		}
		seen, out = append(seen, k), append(out, x)
		if err := m.charge(n, 1); err != nil {
			return Value{}, err
		}
	}
	return m.array(out), nil
}

func enumToH(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	h := m.hash()
	for _, x := range items {
		if n.block != nil {
			if v.kind == HashKind {
				x, err = m.yield2(n.block, m.items(x)[0], x.o.items[1])
			} else {
				x, err = m.yield(n.block, x)
			}
			if err != nil {
				return Value{}, err
			}
		}
		if x.kind != ArrayKind {
			return Value{}, m.raise(n, "TypeError", "wrong element type %s (expected array)", x.class())
		}
		if pair := m.items(x); len(pair) != 2 {
			return Value{}, m.raise(n, "ArgumentError", "element has wrong array length (expected 2, was %d)", len(pair))
		}
		m.set(h.o, x.o.items[0], x.o.items[1])
		if err := m.charge(n, 1); err != nil {
			return Value{}, err
		}
	}
	return h, nil
}

func enumZip(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	others := make([]Value, len(a))
	for i, x := range a {
		if x.kind != ArrayKind && x.kind != HashKind && x.kind != RangeKind {
			return Value{}, m.raise(n, "TypeError", "wrong argument type %s (must respond to :each)", x.class())
		}
		if x.kind == RangeKind && x.o.items[1].IsNil() {
			return Value{}, m.exceed(n, "zip with a Range without an end is not supported")
		}
		list, err := m.elements(n, x)
		if err != nil {
			return Value{}, err
		}
		others[i] = m.array(list)
	}
	if err := m.checkItems(n, len(items)*(1+len(a))); err != nil {
		return Value{}, err
	}
	out := m.values.get(len(items))
	for i, x := range items {
		row := m.values.get(1 + len(a))
		row[0] = x
		for k, other := range others {
			if y := m.items(other); i < len(y) {
				row[k+1] = y[i]
			}
		}
		out[i] = m.array(row)
	}
	if n.block == nil {
		return m.array(out), nil
	}
	for _, x := range out {
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
	}
	return Value{}, nil
}

func enumSlices(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	size, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if size <= 0 {
		return Value{}, m.raise(n, "ArgumentError", "invalid size")
	}
	step := size
	if n.name == "each_cons" {
		step = 1
		if err := m.checkItems(n, size*max(len(items)-size+1, 0)); err != nil {
			return Value{}, err
		}
	}
	var out []Value
	for i := 0; i < len(items); i += step {
		if n.name == "each_cons" && i+size > len(items) {
			break
		}
		out = append(out, m.array(slices.Clone(items[i:min(i+size, len(items))])))
	}
	if n.block == nil {
		return m.array(out), nil
	}
	for _, x := range out {
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}
