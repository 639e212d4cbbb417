package expr

import "math"

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

func rangeMethods() map[string]*method {
	out := map[string]*method{
		"include?": {fn: rangeCovers, least: 1, most: 1}, "member?": {fn: rangeCovers, least: 1, most: 1}, "cover?": {fn: rangeCovers, least: 1, most: 1}, "===": {fn: rangeCovers, least: 1, most: 1},
		"begin": {fn: rangeEnd}, "first": {fn: rangeEnd, most: 1}, "end": {fn: rangeEnd}, "last": {fn: rangeEnd, most: 1},
		"size": {fn: rangeSize}, "count": {fn: enumCount, most: 1}, "step": {fn: rangeStep, most: 1}, "%": {fn: rangeStep, least: 1, most: 1},
	}
	addEnumerable(out)
	out["min"], out["max"] = &method{fn: rangeExtreme, most: 1}, &method{fn: rangeExtreme, most: 1}
	return out
}

func rangeCovers(m *Machine, n *call, v Value, a []Value) (Value, error) {
	lo, hi := v.o.items[0], v.o.items[1]
	if !lo.IsNil() {
		if c, ok := m.compare(lo, a[0]); !ok || c > 0 {
			return boolValue(false), nil
		}
	}
	if !hi.IsNil() {
		if c, ok := m.compare(a[0], hi); !ok || c > 0 || c == 0 && v.bits != 0 {
			return boolValue(false), nil
		}
	}
	return boolValue(true), nil
}

func rangeEnd(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if lo := v.o.items[0]; len(a) == 1 && n.name == "first" && lo.kind == Int && endless(v.o.items[1]) {
		size, err := m.intArg(n, a[0])
		if err != nil || size < 0 {
			return enumFirst(m, n, m.array(nil), a)
		}
		if err := m.checkItems(n, size); err != nil {
			return Value{}, err
		}
		v = Value{kind: RangeKind, bits: 1, o: m.objects.get()}
		v.o.items = []Value{lo, intValue(lo.int() + int64(size))}
	}
	if len(a) == 1 {
		items, err := m.rangeItems(n, v)
		if err != nil {
			return Value{}, err
		}
		if n.name == "last" {
			return arrayLast(m, n, m.array(items), a)
		}
		return enumFirst(m, n, m.array(items), a)
	}
	end := v.o.items[1]
	if n.name == "begin" || n.name == "first" {
		end = v.o.items[0]
	}
	if end.IsNil() && n.name != "begin" && n.name != "end" {
		what := map[string]string{"first": "beginless", "last": "endless"}[n.name]
		return Value{}, m.raise(n, "RangeError", "cannot get the %s element of %s range", n.name, what)
	}
	return end, nil
}

func rangeSize(m *Machine, n *call, v Value, a []Value) (Value, error) {
	lo, hi := v.o.items[0], v.o.items[1]
	if lo.kind == Float || hi.kind == Float {
		return Value{}, m.exceed(n, "the size of a Range of Floats is not supported")
	}
	if lo.kind == Int && hi.IsNil() {
		return floatValue(math.Inf(1)), nil
	}
	if lo.kind != Int || hi.kind != Int {
		return Value{}, nil
	}
	return intValue(max(hi.int()-lo.int()+1-int64(v.bits), 0)), nil
}

func rangeStep(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items, err := m.rangeItems(n, v)
	if err != nil {
		return Value{}, err
	}
	step := 1
	if len(a) == 1 {
		if a[0].kind == Float {
			return Value{}, m.exceed(n, "a step that is no Integer is not supported")
		}
		if step, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
	}
	switch {
	case step == 0:
		return Value{}, m.raise(n, "ArgumentError", "step can't be 0")
	case step < 0 && n.block != nil:
		return Value{}, m.raise(n, "ArgumentError", "step can't be negative")
	case step < 0:
		return m.array(nil), nil
	}
	var out []Value
	for i := 0; i < len(items); i += step {
		out = append(out, items[i])
	}
	w, err := enumEach(m, n, m.array(out), nil)
	if err == nil && n.block != nil {
		return v, nil
	}
	return w, err
}

// rangeItems lists a Range of Integers or of single characters.
func (m *Machine) rangeItems(n node, v Value) ([]Value, error) {
	lo, hi := v.o.items[0], v.o.items[1]
	if lo.kind == String && hi.kind == String && len(lo.s.s) == 1 && len(hi.s.s) == 1 {
		var out []Value
		for c := int(lo.s.s[0]); c <= int(hi.s.s[0])-int(v.bits); c++ {
			out = append(out, m.str(string([]byte{byte(c)})))
		}
		return out, nil
	}
	if lo.kind == Int && hi.IsNil() || lo.kind == String {
		return nil, m.exceed(n, "the elements of this Range are not supported")
	}
	if lo.kind != Int || hi.kind != Int {
		if lo.kind == Int && hi.kind == Float {
			return nil, m.exceed(n, "the elements of this Range are not supported")
		}
		return nil, m.raise(n, "TypeError", "can't iterate from %s", lo.class())
	}
	size := hi.int() - lo.int() + 1 - int64(v.bits)
	if size > maxItems || hi.int() > 0 && lo.int() < 0 && size < 0 {
		return nil, m.checkItems(n, maxItems+1)
	}
	out := m.values.get(int(max(size, 0)))
	for i := range out {
		out[i] = intValue(lo.int() + int64(i))
	}
	return out, m.charge(n, len(out)/8)
}
