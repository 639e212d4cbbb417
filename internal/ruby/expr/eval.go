package expr

import (
	"errors"
	"strings"

	"weir/internal/ruby/rx"
)

func (m *Machine) eval(n node) (Value, error) {
	if m.steps++; m.steps > maxSteps {
		return Value{}, m.charge(n, 0)
	}
	switch n := n.(type) {
	case *literal:
		return n.value, nil
	case *stringLiteral:
		return m.str(n.text), nil
	case *variable:
		return m.vars[n.slot], nil
	case *eventValue:
		return m.subjectValue(n.subject), nil
	case *call:
		return m.call(n)
	case *assign:
		v, err := m.eval(n.value)
		if err == nil {
			m.vars[n.slot] = v
		}
		return v, err
	case *logic:
		left, err := m.eval(n.left)
		if err != nil || left.Truthy() == n.or {
			return left, err
		}
		return m.eval(n.right)
	case *not:
		v, err := m.eval(n.arg)
		return boolValue(!v.Truthy()), err
	case *cond:
		return m.cond(n)
	case *interpolation:
		return m.interpolate(n)
	case *constCall:
		return m.constCall(n)
	case *function:
		return m.function(n)
	case *sequence:
		return m.sequence(n)
	}
	return m.evalRare(n)
}

// evalRare has the nodes that expressions seldom have.
func (m *Machine) evalRare(n node) (Value, error) {
	switch n := n.(type) {
	case *array:
		items, err := m.list(n.items)
		return m.array(items), err
	case *hash:
		return m.evalHash(n)
	case *span:
		return m.span(n)
	case *constant:
		return m.constValue(n.name), nil
	case *globalValue:
		return m.global(n)
	case *dynamicRegexp:
		return m.regexp(n)
	case *multiple:
		return m.multiple(n)
	case *update:
		return m.update(n)
	case *lambda:
		v, x := m.withExtra(ProcKind)
		x.proc = n.block
		return v, nil
	case *choice:
		return m.choice(n)
	case *loop:
		return m.loop(n)
	case *attempt:
		return m.attempt(n)
	case *jump:
		return m.jump(n)
	case *responds:
		v, err := m.eval(n.recv)
		return boolValue(n.fns != nil && n.fns[v.kind] != nil), err
	}
	return Value{}, m.exceed(n, "this is not supported here")
}

func (m *Machine) sequence(n *sequence) (v Value, err error) {
	for _, s := range n.steps {
		if v, err = m.eval(s); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

func (m *Machine) cond(n *cond) (Value, error) {
	test, err := m.eval(n.test)
	switch {
	case err != nil:
		return Value{}, err
	case test.Truthy():
		return m.eval(n.then)
	case n.els != nil:
		return m.eval(n.els)
	}
	return Value{}, nil
}

// list evaluates the items of an array.
func (m *Machine) list(nodes []node) ([]Value, error) {
	out := m.values.get(len(nodes))[:0]
	for _, n := range nodes {
		if s, ok := n.(*splat); ok {
			v, err := m.eval(s.value)
			if err != nil {
				return nil, err
			}
			if out, err = m.splat(n, out, v); err != nil {
				return nil, err
			}
			continue
		}
		v, err := m.eval(n)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// splat appends what *v stands for.
func (m *Machine) splat(n node, out []Value, v Value) ([]Value, error) {
	v, err := m.toArray(n, v)
	if err != nil {
		return nil, err
	}
	items := m.items(v)
	if err := m.checkItems(n, len(out)+len(items)); err != nil {
		return nil, err
	}
	return append(out, items...), m.spend(n, v)
}

func (m *Machine) evalHash(n *hash) (Value, error) {
	h := m.hash()
	h.o.keys, h.o.items = m.values.get(len(n.keys))[:0], m.values.get(len(n.keys))[:0]
	for i, kn := range n.keys {
		v, err := m.eval(n.values[i])
		if err != nil {
			return Value{}, err
		}
		if kn == nil {
			if v.kind != HashKind {
				return Value{}, m.noConversion(n, v, "Hash")
			}
			m.open(v.o)
			for i, k := range v.o.keys {
				m.set(h.o, k, v.o.items[i])
			}
			continue
		}
		k, err := m.eval(kn)
		if err != nil {
			return Value{}, err
		}
		m.set(h.o, k, v)
	}
	return h, nil
}

func (m *Machine) span(n *span) (Value, error) {
	v := Value{kind: RangeKind, o: m.objects.get()}
	v.o.items = m.values.get(2)
	if n.exclusive {
		v.bits = 1
	}
	for i, end := range [...]node{n.from, n.to} {
		if end == nil {
			continue
		}
		x, err := m.eval(end)
		if err != nil {
			return Value{}, err
		}
		v.o.items[i] = x
	}
	if lo, hi := v.o.items[0], v.o.items[1]; !lo.IsNil() && !hi.IsNil() && (lo.kind != Int || hi.kind != Int) {
		if _, ok := m.compare(lo, hi); !ok {
			return Value{}, m.raise(n, "ArgumentError", "bad value for range")
		}
	}
	return v, nil
}

func (m *Machine) interpolate(n *interpolation) (Value, error) {
	var b []byte
	for _, part := range n.parts {
		v, err := m.eval(part)
		if err != nil {
			return Value{}, err
		}
		switch {
		case v.kind == String:
			b = append(b, v.s.s...)
		case v.kind == ArrayKind || v.kind == HashKind:
			b = v.appendInspect(b, 0)
		default:
			b = append(b, v.ToS()...)
		}
		if err := m.checkText(n, len(b)); err != nil {
			return Value{}, err
		}
	}
	v := m.str(view(b))
	return v, m.spend(n, v)
}

// regexp makes a regular expression whose text is computed. It is compiled again only when
// the text is not what it was last time.
func (m *Machine) regexp(n *dynamicRegexp) (Value, error) {
	v, err := m.eval(n.source)
	if err != nil {
		return Value{}, err
	}
	out, x := m.withExtra(RegexpKind)
	if d := &m.dynamic[n.slot]; d.re == nil || d.text != v.s.s {
		if err := m.charge(n, 200); err != nil { // compiling costs more than a step
			return Value{}, err
		}
		re, err := rx.Compile(strings.Clone(v.s.s), n.options)
		if err != nil {
			return Value{}, m.raise(n, "RegexpError", "%v", err)
		}
		*d = dynamic{text: re.String(), re: &pattern{re: re, flags: n.flags}}
	}
	x.re = m.dynamic[n.slot].re
	return out, nil
}

func (m *Machine) multiple(n *multiple) (Value, error) {
	v, err := m.eval(n.value)
	if err != nil {
		return Value{}, err
	}
	items := []Value{v}
	if v.kind == ArrayKind {
		items = m.items(v)
	}
	for i, slot := range n.slots {
		from := i
		if n.rest >= 0 && i > n.rest {
			from = max(len(items)-len(n.slots), -1) + i
		}
		switch {
		case i == n.rest:
			end := max(len(items)-(len(n.slots)-i-1), i)
			rest := m.values.get(max(end-i, 0))
			if i < len(items) {
				copy(rest, items[i:min(end, len(items))])
			}
			m.vars[slot] = m.array(rest)
		case from < len(items):
			m.vars[slot] = items[from]
		default:
			m.vars[slot] = Value{}
		}
	}
	return v, nil
}

// update evaluates a op= b.
func (m *Machine) update(n *update) (Value, error) {
	var recv, old Value
	var args []Value
	var err error
	if n.target == nil {
		old = m.vars[n.slot]
	} else {
		if recv, err = m.eval(n.target.recv); err != nil {
			return Value{}, err
		}
		if args, err = m.list(n.target.args); err != nil {
			return Value{}, err
		}
		if old, err = m.send(n.target, recv, args); err != nil {
			return Value{}, err
		}
	}
	if n.op == "||" && old.Truthy() || n.op == "&&" && !old.Truthy() {
		return old, nil
	}
	v, err := m.eval(n.value)
	if err != nil {
		return Value{}, err
	}
	if n.apply != nil {
		if v, err = m.send(n.apply, old, []Value{v}); err != nil {
			return Value{}, err
		}
	}
	if n.target == nil {
		m.vars[n.slot] = v
		return v, nil
	}
	_, err = m.send(n.set, recv, append(args[:len(args):len(args)], v))
	return v, err
}

func (m *Machine) choice(n *choice) (Value, error) {
	var subject Value
	var err error
	if n.subject != nil {
		if subject, err = m.eval(n.subject); err != nil {
			return Value{}, err
		}
	}
	for i := range n.whens {
		w := &n.whens[i]
		for _, t := range w.tests {
			hit, err := m.when(n, t, subject)
			if err != nil {
				return Value{}, err
			}
			if hit {
				return m.eval(w.body)
			}
		}
	}
	if n.els != nil {
		return m.eval(n.els)
	}
	return Value{}, nil
}

// when says whether one test of a case hits.
func (m *Machine) when(n *choice, t node, subject Value) (bool, error) {
	s, splatted := t.(*splat)
	if splatted {
		t = s.value
	}
	v, err := m.eval(t)
	if err != nil {
		return false, err
	}
	if n.subject == nil {
		return v.Truthy(), nil
	}
	if !splatted {
		return m.caseEqual(t, v, subject)
	}
	if v, err = m.toArray(t, v); err != nil {
		return false, err
	}
	for _, x := range m.items(v) {
		if hit, err := m.caseEqual(t, x, subject); hit || err != nil {
			return hit, err
		}
	}
	return false, nil
}

func (m *Machine) loop(n *loop) (Value, error) {
	for {
		test, err := m.eval(n.test)
		if err != nil || test.Truthy() == n.not {
			return Value{}, err
		}
		if _, err := m.eval(n.body); err != nil {
			switch err {
			case errNext:
			case errBreak:
				return m.thrown, nil
			default:
				return Value{}, err
			}
		}
	}
}

func (m *Machine) jump(n *jump) (v Value, err error) {
	if n.value != nil {
		if v, err = m.eval(n.value); err != nil {
			return Value{}, err
		}
	}
	m.thrown = v
	if n.brk {
		return Value{}, errBreak
	}
	return Value{}, errNext
}

// attempt evaluates begin … rescue … else … ensure … end.
func (m *Machine) attempt(n *attempt) (Value, error) {
	v, err := m.eval(n.body)
	if raised, ok := errors.AsType[*Error](err); ok && raised.Class != "" {
		for i := range n.rescues {
			r := &n.rescues[i]
			if !m.rescues(r, raised) {
				continue
			}
			if r.slot >= 0 {
				x, extra := m.withExtra(ErrorKind)
				extra.err = raised
				m.vars[r.slot] = x
			}
			before := m.raised
			m.raised = raised
			v, err = m.eval(r.body)
			m.raised = before
			break
		}
	} else if err == nil && n.els != nil {
		v, err = m.eval(n.els)
	}
	if n.ensure != nil {
		thrown, tag := m.thrown, m.tag
		if _, e := m.eval(n.ensure); e != nil {
			return Value{}, e
		}
		m.thrown, m.tag = thrown, tag
	}
	return v, err
}

// rescues says whether a rescue takes an exception.
func (m *Machine) rescues(r *rescue, e *Error) bool {
	if len(r.classes) == 0 {
		return isA(e.Class, "StandardError")
	}
	for _, c := range r.classes {
		if isA(e.Class, c.(*constant).name) {
			return true
		}
	}
	return false
}
