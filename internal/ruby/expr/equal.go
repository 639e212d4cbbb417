package expr

import (
	"strings"

	"weir/internal/event"
)

// equal is Ruby's ==. It looks into records, which is why it belongs to the machine.
func (m *Machine) equal(v, w Value) bool { return m.equalAt(v, w, 0) }

func (m *Machine) equalAt(v, w Value, depth int) bool {
	m.steps++
	if v.kind != w.kind {
		return v.kind == Int && w.kind == Float && float64(v.int()) == w.float() || v.kind == Float && w.kind == Int && v.float() == float64(w.int())
	}
	switch v.kind {
	case Float:
		return v.float() == w.float()
	case Bool, Int, Uint, TimeKind:
		return v.bits == w.bits
	case String, Symbol, ConstKind:
		return v.s.s == w.s.s
	case RegexpKind:
		return v.o.x.re.re.String() == w.o.x.re.re.String() && v.o.x.re.flags == w.o.x.re.flags
	case AddressKind:
		return v.o.x.ip == w.o.x.ip
	case URIKind:
		return v.ToS() == w.ToS()
	case ArrayKind, HashKind, RangeKind:
		return v.o == w.o || m.equalItems(v, w, depth)
	}
	return v.o == w.o
}

func (m *Machine) equalItems(v, w Value, depth int) bool {
	m.open(v.o)
	m.open(w.o)
	if len(v.o.items) != len(w.o.items) || v.bits != w.bits || depth > event.MaxDepth || m.steps > maxSteps {
		return false
	}
	for i, x := range v.o.items {
		y := w.o.items[i]
		if v.kind == HashKind {
			at := find(w.o.keys, v.o.keys[i])
			if at < 0 {
				return false
			}
			y = w.o.items[at]
		}
		if !m.equalAt(x, y, depth+1) {
			return false
		}
	}
	return true
}

// find looks a key up; -1 if it is not there. Keys are equal if their classes are too; those
// that are containers are the same only as objects.
func find(keys []Value, k Value) int {
	for i := range keys {
		x := &keys[i]
		if x.kind != k.kind {
			continue
		}
		switch k.kind {
		case String, Symbol, ConstKind:
			if x.s.s == k.s.s {
				return i
			}
		case ArrayKind:
			if sameKeys(x.o, k.o) {
				return i
			}
		case Nil, Bool, Int, Uint, Float, TimeKind:
			if x.bits == k.bits {
				return i
			}
		default:
			if x.o == k.o {
				return i
			}
		}
	}
	return -1
}

// sameKeys compares arrays that are keys of a hash, element by element.
func sameKeys(a, b *object) bool {
	if a == b {
		return true
	}
	if a.raw != nil || b.raw != nil || len(a.items) != len(b.items) {
		return false
	}
	for i := range a.items {
		if k := a.items[i].kind; k == ArrayKind || find(b.items[i:i+1], a.items[i]) < 0 {
			return false
		}
	}
	return true
}

// get looks a key of a hash up.
func (m *Machine) get(o *object, k Value) (Value, bool) {
	if o.raw != nil && m.pure {
		// Nobody changes what is found, so that it need not be the same object next time.
		if k.kind != String {
			if k.kind == Symbol {
				return Value{}, false
			}
			m.open(o)
		} else if raw, ok := event.FindKey(o.raw, k.s.s); ok {
			return m.fromRaw(raw), true
		} else {
			return Value{}, false
		}
	}
	m.open(o)
	m.steps += len(o.keys) / 16
	if at := find(o.keys, k); at >= 0 {
		return o.items[at], true
	}
	return Value{}, false
}

// set adds a pair to a hash or replaces its value.
func (m *Machine) set(o *object, k, v Value) {
	m.open(o)
	m.steps += len(o.keys) / 16
	if at := find(o.keys, k); at >= 0 {
		o.items[at] = v
		return
	}
	if k.kind == String {
		k = m.copyOf(k) // Ruby freezes a copy of a key that is a String
	}
	o.keys = append(o.keys, k)
	o.items = append(o.items, v)
}

// remove takes a pair out of a hash.
func (m *Machine) remove(o *object, k Value) (Value, bool) {
	m.open(o)
	at := find(o.keys, k)
	if at < 0 {
		return Value{}, false
	}
	v := o.items[at]
	o.keys = cutOut(o.keys, at)
	o.items = cutOut(o.items, at)
	return v, true
}

// cutOut removes an element; the old slice stays as it was for whoever walks it.
func cutOut(s []Value, at int) []Value {
	out := make([]Value, 0, len(s))
	return append(append(out, s[:at]...), s[at+1:]...)
}

// copyOf makes a String of its own.
func (m *Machine) copyOf(v Value) Value {
	w := m.str(v.s.s)
	w.s.enc, w.kind = v.s.enc, v.kind
	return w
}

// compare is Ruby's <=>; ok is false for values that have no order.
func (m *Machine) compare(v, w Value) (n int, ok bool) {
	m.steps++
	switch {
	case v.kind == Int && w.kind == Int:
		return order(v.int(), w.int()), true
	case v.kind == Uint && w.kind == Uint:
		return order(v.bits, w.bits), true
	case (v.number() || v.kind == Uint) && (w.number() || w.kind == Uint):
		a, b := v.asFloat(), w.asFloat()
		return order(a, b), a == a && b == b
	case v.kind != w.kind:
		return 0, false
	}
	switch v.kind {
	case String, Symbol:
		return strings.Compare(v.s.s, w.s.s), true
	case TimeKind:
		return order(v.int(), w.int()), true
	case ArrayKind:
		a, b := m.items(v), m.items(w)
		for i := 0; i < len(a) && i < len(b); i++ {
			if m.steps > maxSteps {
				return 0, false
			}
			if n, ok := m.compare(a[i], b[i]); n != 0 || !ok {
				return n, ok
			}
		}
		return order(len(a), len(b)), true
	}
	return 0, m.equal(v, w)
}

func order[T int | int64 | uint64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
