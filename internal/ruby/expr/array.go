package expr

import (
	"strings"

	"weir/internal/event"
)

func arrayMethods() map[string]*method {
	out := map[string]*method{
		"[]": {fn: arrayIndex, least: 1, most: 2}, "slice": {fn: arrayIndex, least: 1, most: 2}, "at": {fn: arrayIndex, least: 1, most: 1}, "dig": {fn: dig, least: 1, most: -1},
		"[]=": {fn: arraySet, least: 2, most: 3}, "fetch": {fn: arrayFetch, least: 1, most: 2}, "values_at": {fn: arrayValuesAt, most: -1},
		"<<": {fn: arrayPush, least: 1, most: 1}, "push": {fn: arrayPush, most: -1}, "append": {fn: arrayPush, most: -1}, "unshift": {fn: arrayUnshift, most: -1}, "prepend": {fn: arrayUnshift, most: -1},
		"pop": {fn: arrayPop, most: 1}, "shift": {fn: arrayPop, most: 1}, "concat": {fn: arrayConcat, most: -1}, "insert": {fn: arrayInsert, least: 1, most: -1},
		"delete": {fn: arrayDelete, least: 1, most: 1}, "delete_at": {fn: arrayDeleteAt, least: 1, most: 1}, "clear": {fn: clearAll}, "replace": {fn: arrayReplace, least: 1, most: 1},
		"last": {fn: arrayLast, most: 1}, "length": {fn: itemCount}, "size": {fn: itemCount}, "empty?": {fn: isEmpty},
		"to_a": {fn: itself}, "to_ary": {fn: itself}, "entries": {fn: itself},
		"reverse": {fn: arrayReverse}, "rotate": {fn: arrayRotate, most: 1}, "join": {fn: arrayJoin, most: 1},
		"+": {fn: arrayAdd, least: 1, most: 1}, "-": {fn: arraySubtract, least: 1, most: 1}, "difference": {fn: manyArrays(arraySubtract), most: -1}, "*": {fn: arrayTimes, least: 1, most: 1},
		"&": {fn: arrayIntersect, least: 1, most: 1}, "intersection": {fn: manyArrays(arrayIntersect), most: -1}, "|": {fn: arrayUnion, least: 1, most: 1}, "union": {fn: manyArrays(arrayUnion), most: -1}, "rindex": {fn: arrayLastIndex, most: 1}, "slice!": {fn: arraySliceOut, least: 1, most: 2},
		"compact": {fn: arrayCompact}, "flatten": {fn: arrayFlatten, most: 1}, "index": {fn: arrayIndexOf, most: 1}, "find_index": {fn: arrayIndexOf, most: 1},
		"transpose": {fn: arrayTranspose}, "assoc": {fn: arrayAssoc, least: 1, most: 1}, "dup": {fn: copyItems}, "clone": {fn: copyItems, most: 1},
		"pack": {fn: arrayPack, least: 1, most: 1}, "sample": {fn: arraySample}, "shuffle": {fn: arraySample},
	}
	addEnumerable(out)
	for _, name := range []string{"map", "collect", "select", "filter", "reject", "sort", "sort_by", "uniq", "compact", "reverse", "flatten", "rotate"} {
		out[name+"!"] = bang(out[name])
	}
	out["delete_if"], out["keep_if"] = out["reject!"], out["select!"]
	return out
}

// bang makes of a method that gives a list the one that changes its receiver. Where nothing
// changed those that only take out give nil.
func bang(f *method) *method {
	return &method{func(m *Machine, n *call, v Value, a []Value) (Value, error) {
		if n.block == nil && strings.HasSuffix(n.name, "!") && needsBlock(strings.TrimSuffix(n.name, "!")) {
			return Value{}, m.noBlock(n)
		}
		before := len(m.items(v))
		plain := *n
		plain.name = strings.TrimSuffix(n.name, "!")
		switch n.name {
		case "delete_if":
			plain.name = "reject"
		case "keep_if":
			plain.name = "select"
		}
		w, err := f.fn(m, &plain, v, a)
		if err != nil {
			return Value{}, err
		}
		m.mutated = true
		m.open(w.o)
		v.o.items, v.o.keys = w.o.items, w.o.keys
		switch plain.name {
		case "select", "filter", "reject", "uniq", "compact", "flatten":
			if before == len(v.o.items) && n.name != "delete_if" && n.name != "keep_if" {
				return Value{}, nil
			}
		}
		return v, nil
	}, f.least, f.most}
}

func needsBlock(name string) bool {
	switch name {
	case "map", "collect", "select", "filter", "reject", "sort_by":
		return true
	}
	return false
}

func (m *Machine) sub(v Value, from, to int) Value {
	items := m.values.get(to - from)
	copy(items, m.items(v)[from:to])
	return m.array(items)
}

func arrayIndex(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	if a[0].kind == RangeKind && len(a) == 1 && n.name != "at" && n.name != "dig" && n.name != "delete_at" {
		from, length, ok, err := m.rangeOn(n, a[0], len(items))
		if !ok || err != nil {
			return Value{}, err
		}
		return m.sub(v, from, min(from+length, len(items))), nil
	}
	i, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		i += len(items)
	}
	if len(a) == 2 {
		length, err := m.intArg(n, a[1])
		if err != nil || i < 0 || i > len(items) || length < 0 {
			return Value{}, err
		}
		return m.sub(v, i, min(i+length, len(items))), nil
	}
	if i < 0 || i >= len(items) {
		return Value{}, nil
	}
	return items[i], nil
}

// dig follows keys and indexes until one gives nil.
func dig(m *Machine, n *call, v Value, a []Value) (Value, error) {
	for _, k := range a {
		switch v.kind {
		case HashKind:
			var ok bool
			if v, ok = m.get(v.o, k); !ok {
				return Value{}, nil
			}
		case ArrayKind:
			var err error
			if v, err = arrayIndex(m, n, v, []Value{k}); err != nil {
				return Value{}, err
			}
		case Nil:
			return v, nil
		default:
			return Value{}, m.raise(n, "TypeError", "%s does not have #dig method", v.class())
		}
	}
	return v, nil
}

func arraySet(m *Machine, n *call, v Value, a []Value) (Value, error) {
	value := a[len(a)-1]
	items := m.items(v)
	m.mutated = true
	if len(a) == 3 || a[0].kind == RangeKind {
		return Value{}, m.exceed(n, "an assignment to a part of an array is not supported")
	}
	i, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		if i += len(items); i < 0 {
			return Value{}, m.raise(n, "IndexError", "index %d too small for array; minimum: -%d", i-len(items), len(items))
		}
	}
	if err := m.checkItems(n, i+1); err != nil {
		return Value{}, err
	}
	for len(v.o.items) <= i {
		v.o.items = append(v.o.items, Value{})
	}
	v.o.items[i] = value
	return value, nil
}

func arrayFetch(m *Machine, n *call, v Value, a []Value) (Value, error) {
	i, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	items := m.items(v)
	at := i
	if at < 0 {
		at += len(items)
	}
	switch {
	case at >= 0 && at < len(items):
		return items[at], nil
	case n.block != nil:
		return m.yield(n.block, a[0])
	case len(a) == 2:
		return a[1], nil
	}
	return Value{}, m.raise(n, "IndexError", "index %d outside of array bounds: %d...%d", i, -len(items), len(items))
}

func arrayPush(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	m.mutated = true
	v.o.items = append(v.o.items, a...)
	return v, m.checkItems(n, len(v.o.items))
}

func arrayUnshift(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	m.mutated = true
	v.o.items = append(append(make([]Value, 0, len(a)+len(items)), a...), items...)
	return v, m.checkItems(n, len(v.o.items))
}

func arrayPop(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	count := 1
	if len(a) == 1 {
		var err error
		if count, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
		if count < 0 {
			return Value{}, m.raise(n, "ArgumentError", "negative array size")
		}
	}
	count = max(min(count, len(items)), 0)
	m.mutated = true
	out := m.values.get(count)
	if n.name == "pop" {
		copy(out, items[len(items)-count:])
		v.o.items = items[:len(items)-count]
	} else {
		copy(out, items)
		v.o.items = items[count:]
	}
	if len(a) == 1 {
		return m.array(out), nil
	}
	if count == 0 {
		return Value{}, nil
	}
	return out[0], nil
}

func arrayConcat(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, ArrayKind, a...); err != nil {
		return Value{}, err
	}
	m.open(v.o)
	m.mutated = true
	for _, x := range a {
		v.o.items = append(v.o.items, m.items(x)...)
		if err := m.checkItems(n, len(v.o.items)); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

func arrayInsert(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	i, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		i += len(items) + 1
	}
	if i < 0 || i > len(items) {
		return Value{}, m.raise(n, "IndexError", "index %d is out of the array", i)
	}
	m.mutated = true
	out := append(make([]Value, 0, len(items)+len(a)), items[:i]...)
	v.o.items = append(append(out, a[1:]...), items[i:]...)
	return v, m.checkItems(n, len(v.o.items))
}

func arrayDelete(m *Machine, n *call, v Value, a []Value) (Value, error) {
	var out []Value
	var found Value
	for _, x := range m.items(v) {
		if m.equal(x, a[0]) {
			found = x
		} else {
			out = append(out, x)
		}
	}
	if len(out) < len(v.o.items) {
		m.mutated, v.o.items = true, out
	} else if n.block != nil {
		return m.yield(n.block, a[0])
	}
	return found, nil
}

func arrayDeleteAt(m *Machine, n *call, v Value, a []Value) (Value, error) {
	x, err := arrayIndex(m, n, v, a)
	i, _ := m.intArg(n, a[0])
	if i < 0 {
		i += len(v.o.items)
	}
	if err != nil || i < 0 || i >= len(v.o.items) {
		return Value{}, err
	}
	m.mutated, v.o.items = true, cutOut(v.o.items, i)
	return x, nil
}

// clearAll empties an Array or a Hash.
func clearAll(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	m.mutated, v.o.items, v.o.keys = true, nil, nil
	return v, nil
}

func arrayReplace(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, ArrayKind, a[0]); err != nil {
		return Value{}, err
	}
	items := m.sub(a[0], 0, len(m.items(a[0]))).o.items
	m.open(v.o)
	m.mutated, v.o.items = true, items
	return v, nil
}

func arrayLast(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	if len(a) == 1 {
		i, err := m.intArg(n, a[0])
		if err != nil {
			return Value{}, err
		}
		if i < 0 {
			return Value{}, m.raise(n, "ArgumentError", "negative array size")
		}
		return m.sub(v, max(len(items)-i, 0), len(items)), nil
	}
	if len(items) == 0 {
		return Value{}, nil
	}
	return items[len(items)-1], nil
}

// itemCount is the length of an Array or a Hash, without opening it.
func itemCount(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.o.raw != nil && v.kind == ArrayKind {
		if count, _, err := event.ArrayHeader(v.o.raw, 0); err == nil {
			return intValue(int64(count)), nil
		}
	}
	m.open(v.o)
	return intValue(int64(len(v.o.items))), nil
}

func isEmpty(m *Machine, n *call, v Value, a []Value) (Value, error) {
	m.open(v.o)
	return boolValue(len(v.o.items) == 0), nil
}

func arrayReverse(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	out := m.values.get(len(items))
	for i, x := range items {
		out[len(items)-1-i] = x
	}
	return m.array(out), nil
}

func arrayRotate(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	by := 1
	if len(a) == 1 {
		var err error
		if by, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
	}
	out := m.values.get(len(items))
	for i := range items {
		out[i] = items[((i+by)%len(items)+len(items))%len(items)]
	}
	return m.array(out), nil
}

func arrayJoin(m *Machine, n *call, v Value, a []Value) (Value, error) {
	sep := ""
	if len(a) == 1 && !a[0].IsNil() {
		if err := m.need(n, String, a[0]); err != nil {
			return Value{}, err
		}
		sep = a[0].s.s
	}
	b, err := m.join(n, nil, m.items(v), sep, 0)
	if err != nil {
		return Value{}, err
	}
	return m.str(view(b)), nil
}

// join writes items and the items of arrays among them.
func (m *Machine) join(n node, b []byte, items []Value, sep string, depth int) ([]byte, error) {
	if depth > maxDepth {
		return b, m.raise(n, "ArgumentError", "recursive array join")
	}
	var err error
	for i, x := range items {
		if i > 0 {
			b = append(b, sep...)
		}
		switch x.kind {
		case ArrayKind:
			b, err = m.join(n, b, m.items(x), sep, depth+1)
		case String:
			b = append(b, x.s.s...)
		default:
			b = append(b, x.ToS()...)
		}
		if err == nil {
			err = m.checkText(n, len(b))
		}
		if err != nil {
			return b, err
		}
	}
	return b, m.charge(n, 1+len(items)/8)
}

func arrayAdd(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, ArrayKind, a[0]); err != nil {
		return Value{}, err
	}
	x, y := m.items(v), m.items(a[0])
	if err := m.checkItems(n, len(x)+len(y)); err != nil {
		return Value{}, err
	}
	out := m.values.get(len(x) + len(y))
	copy(out, x)
	copy(out[len(x):], y)
	return m.array(out), nil
}

// has looks a value up among others.
func (m *Machine) has(items []Value, v Value) bool {
	m.steps += len(items) / 4
	for _, x := range items {
		if x.kind == v.kind && m.equal(x, v) {
			return true
		}
	}
	return false
}

func arraySubtract(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, ArrayKind, a[0]); err != nil {
		return Value{}, err
	}
	out := []Value{}
	other := m.items(a[0])
	for _, x := range m.items(v) {
		if err := m.charge(n, 1); err != nil {
			return Value{}, err
		}
		if !m.has(other, x) {
			out = append(out, x)
		}
	}
	return m.array(out), nil
}

func arrayIntersect(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, ArrayKind, a[0]); err != nil {
		return Value{}, err
	}
	out := []Value{}
	other := m.items(a[0])
	for _, x := range m.items(v) {
		if err := m.charge(n, 1); err != nil {
			return Value{}, err
		}
		if m.has(other, x) && !m.has(out, x) {
			out = append(out, x)
		}
	}
	return m.array(out), nil
}

func arrayUnion(m *Machine, n *call, v Value, a []Value) (Value, error) {
	sum, err := arrayAdd(m, n, v, a)
	if err != nil {
		return Value{}, err
	}
	return enumUniq(m, &call{off: n.off, name: "uniq"}, sum, nil)
}

// arrayTimes is [1, 2] * 3 and [1, 2] * ",".
func arrayTimes(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if a[0].kind == String {
		return arrayJoin(m, n, v, a)
	}
	count, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if count < 0 {
		return Value{}, m.raise(n, "ArgumentError", "argument must be non-negative")
	}
	items := m.items(v)
	if err := m.checkItems(n, count*len(items)); err != nil {
		return Value{}, err
	}
	out := m.values.get(count * len(items))
	for i := range count {
		copy(out[i*len(items):], items)
	}
	return m.array(out), nil
}
