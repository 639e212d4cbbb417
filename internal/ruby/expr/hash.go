package expr

func hashMethods() map[string]*method {
	out := map[string]*method{
		"[]": {fn: hashGet, least: 1, most: 1}, "fetch": {fn: hashFetch, least: 1, most: 2}, "dig": {fn: dig, least: 1, most: -1},
		"[]=": {fn: hashSet, least: 2, most: 2}, "store": {fn: hashSet, least: 2, most: 2},
		"key?": {fn: hashHas, least: 1, most: 1}, "has_key?": {fn: hashHas, least: 1, most: 1}, "include?": {fn: hashHas, least: 1, most: 1}, "member?": {fn: hashHas, least: 1, most: 1},
		"value?": {fn: hashHasValue, least: 1, most: 1}, "has_value?": {fn: hashHasValue, least: 1, most: 1}, "key": {fn: hashKeyOf, least: 1, most: 1},
		"keys": {fn: hashKeys}, "values": {fn: hashValues}, "length": {fn: itemCount}, "size": {fn: itemCount}, "empty?": {fn: isEmpty},
		"values_at": {fn: hashValuesAt, most: -1}, "fetch_values": {fn: hashValuesAt, most: -1},
		"delete": {fn: hashDelete, least: 1, most: 1}, "clear": {fn: clearAll}, "shift": {fn: hashShift},
		"merge": {fn: hashMerge, most: -1}, "merge!": {fn: hashMerge, most: -1}, "update": {fn: hashMerge, most: -1}, "replace": {fn: hashReplace, least: 1, most: 1},
		"select": {fn: hashSelect}, "filter": {fn: hashSelect}, "reject": {fn: hashSelect}, "compact": {fn: hashSelect},
		"slice": {fn: hashSlice, most: -1}, "except": {fn: hashSlice, most: -1},
		"each_pair": {fn: enumEach}, "each_key": {fn: hashEachKey}, "each_value": {fn: hashEachKey},
		"transform_values": {fn: hashTransform}, "transform_keys": {fn: hashTransform, most: 1}, "invert": {fn: hashInvert},
		"any?": {fn: hashAny, most: 1}, "to_h": {fn: hashToH}, "to_hash": {fn: itself}, "dup": {fn: copyItems}, "clone": {fn: copyItems, most: 1},
		"sum": {fn: enumSum, most: 1}, "assoc": {fn: hashAssoc, least: 1, most: 1}, "flatten": {fn: hashFlatten, most: 1},
		"<": {fn: hashWithin, least: 1, most: 1}, "<=": {fn: hashWithin, least: 1, most: 1}, ">": {fn: hashWithin, least: 1, most: 1}, ">=": {fn: hashWithin, least: 1, most: 1},
	}
	addEnumerable(out)
	for _, name := range []string{"select", "filter", "reject", "compact", "transform_values", "transform_keys"} {
		out[name+"!"] = bang(out[name])
	}
	out["delete_if"], out["keep_if"] = out["reject!"], out["select!"]
	return out
}

func hashGet(m *Machine, n *call, v Value, a []Value) (Value, error) {
	x, ok := m.get(v.o, a[0])
	if !ok && v.o.x != nil {
		if b := v.o.x.proc; b != nil {
			return m.yield2(b, v, a[0])
		}
		return v.o.x.deflt, nil
	}
	return x, nil
}

func hashFetch(m *Machine, n *call, v Value, a []Value) (Value, error) {
	x, ok := m.get(v.o, a[0])
	switch {
	case ok:
		return x, nil
	case n.block != nil:
		return m.yield(n.block, a[0])
	case len(a) == 2:
		return a[1], nil
	}
	return Value{}, m.raise(n, "KeyError", "key not found: %s", a[0].Inspect())
}

func hashSet(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.mutated = true
	m.set(v.o, a[0], a[1])
	return a[1], m.checkItems(n, len(v.o.items))
}

func hashHas(m *Machine, n *call, v Value, a []Value) (Value, error) {
	_, ok := m.get(v.o, a[0])
	return boolValue(ok), nil
}

func hashHasValue(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	for _, x := range v.o.items {
		if m.equal(x, a[0]) {
			return boolValue(true), nil
		}
	}
	return boolValue(false), m.charge(n, len(v.o.items))
}

func hashKeyOf(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	for i, x := range v.o.items {
		if m.equal(x, a[0]) {
			return v.o.keys[i], nil
		}
	}
	return Value{}, nil
}

func hashKeys(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	out := m.values.get(len(v.o.keys))
	copy(out, v.o.keys)
	return m.array(out), nil
}

func hashValues(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	out := m.values.get(len(v.o.items))
	copy(out, v.o.items)
	return m.array(out), nil
}

func hashValuesAt(m *Machine, n *call, v Value, a []Value) (Value, error) {
	out := m.values.get(len(a))
	for i, k := range a {
		x, ok := m.get(v.o, k)
		if !ok && n.name == "fetch_values" && n.block != nil {
			var err error
			if x, err = m.yield(n.block, k); err != nil {
				return Value{}, err
			}
		} else if !ok && n.name == "fetch_values" {
			return Value{}, m.raise(n, "KeyError", "key not found: %s", k.Inspect())
		}
		out[i] = x
	}
	return m.array(out), nil
}

func hashDelete(m *Machine, n *call, v Value, a []Value) (Value, error) {
	x, ok := m.remove(v.o, a[0])
	if ok {
		m.mutated = true
		return x, nil
	}
	if n.block != nil {
		return m.yield(n.block, a[0])
	}
	return Value{}, nil
}

func hashShift(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	if len(v.o.items) == 0 {
		return Value{}, nil
	}
	k := v.o.keys[0]
	x, _ := m.remove(v.o, k)
	m.mutated = true
	return m.array([]Value{k, x}), nil
}

func hashMerge(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, HashKind, a...); err != nil {
		return Value{}, err
	}
	out := v
	if n.name == "merge" {
		out, _ = copyItems(m, n, v, nil)
	} else {
		m.mutated = true
	}
	for _, other := range a {
		m.open(other.o)
		for i, k := range other.o.keys {
			x := other.o.items[i]
			if old, ok := m.get(out.o, k); ok && n.block != nil {
				var err error
				three := [3]Value{k, old, x}
				if err = m.bind(n.block.params, three[:]); err == nil {
					x, err = m.runBlock(n.block)
				}
				if err != nil {
					return Value{}, err
				}
			}
			m.set(out.o, k, x)
			if err := m.charge(n, 1); err != nil {
				return Value{}, err
			}
		}
	}
	return out, m.checkItems(n, len(out.o.items))
}

func hashReplace(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, HashKind, a[0]); err != nil {
		return Value{}, err
	}
	w, _ := copyItems(m, n, a[0], nil)
	m.open(w.o)
	m.open(v.o)
	m.mutated, v.o.keys, v.o.items = true, w.o.keys, w.o.items
	return v, nil
}

// hashSelect is select, reject and compact.
func hashSelect(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	if n.block == nil && n.name != "compact" {
		return Value{}, m.noBlock(n)
	}
	keys, items := v.o.keys, v.o.items
	h := m.hash()
	h.o.keys, h.o.items = m.values.get(len(keys))[:0], m.values.get(len(keys))[:0]
	for i, k := range keys {
		keep := !items[i].IsNil()
		if n.name != "compact" {
			y, err := m.yield2(n.block, k, items[i])
			if err != nil {
				return Value{}, err
			}
			keep = y.Truthy() != (n.name == "reject")
		}
		if keep {
			h.o.keys, h.o.items = append(h.o.keys, k), append(h.o.items, items[i])
		}
	}
	return h, nil
}

// hashSlice is slice and except.
func hashSlice(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	h := m.hash()
	if n.name == "slice" {
		for _, k := range a {
			if x, ok := m.get(v.o, k); ok {
				m.set(h.o, k, x)
			}
		}
		return h, nil
	}
	for i, k := range v.o.keys {
		if find(a, k) < 0 {
			h.o.keys, h.o.items = append(h.o.keys, k), append(h.o.items, v.o.items[i])
		}
	}
	return h, nil
}

func hashEachKey(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	if n.block == nil {
		return Value{}, m.noBlock(n)
	}
	items := v.o.keys
	if n.name == "each_value" {
		items = v.o.items
	}
	for _, x := range items {
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

func hashTransform(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	keys, items := v.o.keys, v.o.items
	if n.block == nil && len(a) == 0 {
		return Value{}, m.noBlock(n)
	}
	if err := m.need(n, HashKind, a...); err != nil {
		return Value{}, err
	}
	h := m.hash()
	for i, k := range keys {
		x := items[i]
		var err error
		switch {
		case n.name == "transform_values":
			x, err = m.yield(n.block, x)
		case len(a) == 1:
			if to, ok := m.get(a[0].o, k); ok {
				k = to
			} else if n.block != nil {
				k, err = m.yield(n.block, k)
			}
		default:
			k, err = m.yield(n.block, k)
		}
		if err != nil {
			return Value{}, err
		}
		if n.name == "transform_values" {
			h.o.keys, h.o.items = append(h.o.keys, k), append(h.o.items, x)
		} else {
			m.set(h.o, k, x)
		}
	}
	return h, nil
}

func hashInvert(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	h := m.hash()
	for i, k := range v.o.keys {
		m.set(h.o, v.o.items[i], k)
	}
	return h, m.charge(n, len(h.o.keys))
}

func hashAny(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	if len(a) > 0 {
		return enumTest(m, n, v, a)
	}
	if n.block == nil {
		return boolValue(len(v.o.items) > 0), nil
	}
	keys, items := v.o.keys, v.o.items
	for i, k := range keys {
		var y Value
		var err error
		if len(n.block.params) > 1 {
			y, err = m.yield2(n.block, k, items[i])
		} else {
			y, err = m.yield(n.block, m.array([]Value{k, items[i]}))
		}
		if err != nil || y.Truthy() {
			return boolValue(true), err
		}
	}
	return boolValue(false), nil
}

func hashToH(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if n.block == nil {
		return v, nil
	}
	return enumToH(m, n, v, a)
}

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
