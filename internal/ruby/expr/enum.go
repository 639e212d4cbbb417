package expr

import "slices"

// addEnumerable adds the methods that arrays, hashes and ranges share.
func addEnumerable(out map[string]*method) {
	add := func(fn func(m *Machine, n *call, v Value, a []Value) (Value, error), least, most int, names ...string) {
		for _, name := range names {
			if out[name] == nil {
				out[name] = &method{fn, least, most}
			}
		}
	}
	add(enumEach, 0, 0, "each", "each_entry", "reverse_each")
	add(enumIndexed, 0, 0, "each_with_index")
	add(enumIndexed, 0, 1, "with_index")
	add(enumObject, 1, 1, "each_with_object")
	add(enumMap, 0, 0, "map", "collect", "flat_map", "collect_concat", "filter_map")
	add(enumSelect, 0, 0, "select", "filter", "reject", "partition", "find_all", "take_while", "drop_while")
	add(enumFind, 0, 1, "find", "detect")
	add(enumTest, 0, 1, "any?", "all?", "none?", "one?")
	add(enumCount, 0, 1, "count")
	add(enumInclude, 1, 1, "include?", "member?")
	add(enumReduce, 0, 1, "inject", "reduce")
	add(enumSum, 0, 1, "sum")
	add(enumExtreme, 0, 1, "min", "max")
	add(enumExtreme, 0, 1, "min_by", "max_by")
	add(enumExtreme, 0, 0, "minmax")
	add(enumSort, 0, 0, "sort", "sort_by")
	add(enumGroup, 0, 0, "group_by")
	add(enumGroup, 0, 1, "tally")
	add(enumUniq, 0, 0, "uniq")
	add(enumFirst, 0, 1, "first")
	add(enumFirst, 1, 1, "take", "drop")
	add(enumToH, 0, 0, "to_h")
	add(enumToA, 0, 0, "to_a", "entries")
	add(enumZip, 0, -1, "zip")
	add(enumSlices, 1, 1, "each_slice", "each_cons")
	add(enumIndex, 0, 1, "find_index")
}

// elements gives what each would yield: the items, or for a Hash its pairs.
func (m *Machine) elements(n node, v Value) ([]Value, error) {
	switch v.kind {
	case RangeKind:
		return m.rangeItems(n, v)
	case HashKind:
		m.open(v.o)
		out := m.values.get(len(v.o.items))
		for i := range out {
			pair := m.values.get(2)
			pair[0], pair[1] = v.o.keys[i], v.o.items[i]
			out[i] = m.array(pair)
		}
		return out, nil
	}
	return m.items(v), nil
}

// noBlock is the answer to a method that would give an Enumerator.
func (m *Machine) noBlock(n *call) error {
	return m.exceed(n, "%s without a block is not supported", n.name)
}

func enumEach(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	if n.block == nil {
		return m.array(items), nil // stands for the Enumerator: with_index, map and so on
	}
	for i := 0; i < len(items); i++ {
		x := items[i]
		if n.name == "reverse_each" {
			x = items[len(items)-1-i]
		}
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
		if v.kind == ArrayKind {
			items = v.o.items // the block may have changed it
		}
	}
	return v, nil
}

func enumIndexed(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	from := 0
	if len(a) == 1 {
		if from, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
	}
	out := m.values.get(len(items))
	for i, x := range items {
		if n.block == nil {
			pair := m.values.get(2)
			pair[0], pair[1] = x, intValue(int64(i+from))
			out[i] = m.array(pair)
			continue
		}
		if out[i], err = m.yield2(n.block, x, intValue(int64(i+from))); err != nil {
			return Value{}, err
		}
	}
	if n.block == nil || n.name == "with_index" {
		return m.array(out), nil
	}
	return v, nil
}

func enumObject(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err == nil && n.block == nil {
		err = m.noBlock(n)
	}
	memo := Value{}
	if len(a) > 0 {
		memo = a[0] // the stack of arguments is used by the block
	}
	for i := 0; err == nil && i < len(items); i++ {
		_, err = m.yield2(n.block, items[i], memo)
	}
	return memo, err
}

func enumMap(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	if n.block == nil {
		return m.array(items), nil
	}
	out := m.values.get(len(items))[:0]
	for _, x := range items {
		y, err := m.yield(n.block, x)
		if err != nil {
			return Value{}, err
		}
		switch {
		case n.name == "filter_map" && !y.Truthy():
		case (n.name == "flat_map" || n.name == "collect_concat") && y.kind == ArrayKind:
			out = append(out, m.items(y)...)
			if err := m.checkItems(n, len(out)); err != nil {
				return Value{}, err
			}
		default:
			out = append(out, y)
		}
	}
	return m.array(out), nil
}

func enumSelect(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err == nil && n.block == nil {
		err = m.noBlock(n)
	}
	if err != nil {
		return Value{}, err
	}
	var yes, no []Value
	for i, x := range items {
		y, err := m.yield(n.block, x)
		if err != nil {
			return Value{}, err
		}
		switch {
		case n.name == "take_while" && !y.Truthy():
			return m.array(yes), nil
		case n.name == "drop_while" && !y.Truthy():
			return m.array(append(yes, items[i:]...)), nil
		case n.name == "drop_while":
		case y.Truthy():
			yes = append(yes, x)
		default:
			no = append(no, x)
		}
	}
	switch n.name {
	case "reject":
		return m.array(no), nil
	case "partition":
		return m.array([]Value{m.array(yes), m.array(no)}), nil
	}
	return m.array(yes), nil
}

func enumFind(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err == nil && n.block == nil {
		err = m.noBlock(n)
	}
	for i := 0; err == nil && i < len(items); i++ {
		y, e := m.yield(n.block, items[i])
		if e != nil {
			return Value{}, e
		}
		if y.Truthy() {
			return items[i], nil
		}
	}
	if err == nil && len(a) == 1 && !a[0].IsNil() { // what is called when nothing is found
		if a[0].kind != ProcKind {
			return Value{}, m.raise(n, "NoMethodError", "undefined method `call' for %s", describe(a[0]))
		}
		return m.callProc(n, a[0].o.x.proc, nil)
	}
	return Value{}, err
}

func enumTest(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	hits := 0
	for _, x := range items {
		hit := x.Truthy()
		if len(a) == 1 {
			if hit, err = m.caseEqual(n, a[0], x); err != nil {
				return Value{}, err
			}
		} else if n.block != nil {
			y, err := m.yield(n.block, x)
			if err != nil {
				return Value{}, err
			}
			hit = y.Truthy()
		}
		if hit {
			hits++
		}
		switch {
		case hit && n.name == "any?":
			return boolValue(true), nil
		case !hit && n.name == "all?", hit && n.name == "none?":
			return boolValue(false), nil
		}
	}
	switch n.name {
	case "any?":
		return boolValue(false), nil
	case "one?":
		return boolValue(hits == 1), nil
	}
	return boolValue(true), nil
}

func enumCount(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	if len(a) == 0 && n.block == nil {
		return intValue(int64(len(items))), nil
	}
	count := int64(0)
	for _, x := range items {
		hit := len(a) == 1 && m.equal(x, a[0])
		if len(a) == 0 {
			y, err := m.yield(n.block, x)
			if err != nil {
				return Value{}, err
			}
			hit = y.Truthy()
		}
		if hit {
			count++
		}
	}
	return intValue(count), nil
}

func enumInclude(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	for _, x := range items {
		if m.equal(x, a[0]) {
			return boolValue(true), err
		}
	}
	return boolValue(false), err
}

func enumReduce(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err == nil && n.block == nil && (len(a) == 1 || len(items) > 1) {
		err = m.raise(n, "LocalJumpError", "no block given")
	}
	if err != nil {
		return Value{}, err
	}
	var sum Value
	switch {
	case len(a) == 1:
		sum = a[0]
	case len(items) == 0:
		return Value{}, nil
	default:
		sum, items = items[0], items[1:]
	}
	for _, x := range items {
		if sum, err = m.yield2(n.block, sum, x); err != nil {
			return Value{}, err
		}
	}
	return sum, nil
}

func enumSum(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	sum := intValue(0)
	if len(a) == 1 {
		sum = a[0]
	}
	plus := &call{off: n.off, name: "+"}
	lost := 0.0 // what the sum of floats has lost to rounding so far, as in Ruby
	for _, x := range items {
		if n.block != nil {
			if x, err = m.yield(n.block, x); err != nil {
				return Value{}, err
			}
		}
		switch {
		case sum.kind == String:
			sum, err = stringAdd(m, plus, sum, []Value{x})
		case sum.kind == ArrayKind:
			sum, err = arrayAdd(m, plus, sum, []Value{x})
		case !sum.number() && sum.kind != Uint:
			err = m.noMethod(plus, sum)
		case (sum.kind == Float || x.kind == Float) && sum.number() && x.number():
			sum, lost = addFloats(sum.asFloat(), x.asFloat(), lost)
			continue
		default:
			sum, err = arithmetic(m, plus, sum, []Value{x})
		}
		if err != nil {
			return Value{}, err
		}
	}
	if sum.kind == Float && lost != 0 {
		sum = floatValue(sum.float() + lost)
	}
	return sum, nil
}

func enumToA(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	return m.array(items), err
}

func enumFirst(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	if len(a) == 0 {
		if len(items) == 0 {
			return Value{}, nil
		}
		return items[0], nil
	}
	i, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		return Value{}, m.raise(n, "ArgumentError", "attempt to take negative size")
	}
	i = min(i, len(items))
	if n.name == "drop" {
		return m.array(slices.Clone(items[i:])), nil
	}
	return m.array(slices.Clone(items[:i])), nil
}

// enumIndex is find_index of what has no indexes itself.
func enumIndex(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.elements(n, v)
	if err != nil {
		return Value{}, err
	}
	return arrayIndexOf(m, n, m.array(items), a)
}
