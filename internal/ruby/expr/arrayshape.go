package expr

import (
	"encoding/base64"
	"encoding/hex"
)

func arrayCompact(m *Machine, n *call, v Value, a []Value) (Value, error) {
	out := []Value{}
	for _, x := range m.items(v) {
		if !x.IsNil() {
			out = append(out, x)
		}
	}
	return m.array(out), nil
}

func arrayFlatten(m *Machine, n *call, v Value, a []Value) (Value, error) {
	depth := maxDepth
	if len(a) == 1 && !a[0].IsNil() {
		i, err := m.intArg(n, a[0])
		if err != nil {
			return Value{}, err
		}
		if i >= 0 {
			depth = min(i, maxDepth)
		}
	}
	out, err := m.flatten(n, []Value{}, m.items(v), depth, 0)
	return m.array(out), err
}

func (m *Machine) flatten(n node, out, items []Value, depth, at int) ([]Value, error) {
	if at > maxDepth-1 {
		return out, m.raise(n, "ArgumentError", "tried to flatten recursive array")
	}
	for _, x := range items {
		if x.kind != ArrayKind || at == depth {
			out = append(out, x)
			continue
		}
		var err error
		if out, err = m.flatten(n, out, m.items(x), depth, at+1); err != nil {
			return out, err
		}
	}
	if err := m.charge(n, 1+len(items)/8); err != nil {
		return out, err
	}
	return out, m.checkItems(n, len(out))
}

func arrayIndexOf(m *Machine, n *call, v Value, a []Value) (Value, error) {
	for i, x := range m.items(v) {
		hit := false
		if len(a) == 1 {
			hit = m.equal(x, a[0])
		} else if n.block != nil {
			y, err := m.yield(n.block, x)
			if err != nil {
				return Value{}, err
			}
			hit = y.Truthy()
		}
		if hit {
			return intValue(int64(i)), nil
		}
	}
	return Value{}, nil
}

func arrayTranspose(m *Machine, n *call, v Value, a []Value) (Value, error) {
	rows := m.items(v)
	if len(rows) == 0 {
		return m.array(nil), nil
	}
	if err := m.need(n, ArrayKind, rows...); err != nil {
		return Value{}, err
	}
	width := len(m.items(rows[0]))
	if err := m.checkItems(n, width*len(rows)); err != nil {
		return Value{}, err
	}
	out := m.values.get(width)
	for i := range out {
		column := m.values.get(len(rows))
		for k, row := range rows {
			items := m.items(row)
			if len(items) != width {
				return Value{}, m.raise(n, "IndexError", "element size differs (%d should be %d)", len(items), width)
			}
			column[k] = items[i]
		}
		out[i] = m.array(column)
	}
	return m.array(out), nil
}

func arrayAssoc(m *Machine, n *call, v Value, a []Value) (Value, error) {
	for _, x := range m.items(v) {
		if x.kind == ArrayKind && len(m.items(x)) > 0 && m.equal(x.o.items[0], a[0]) {
			return x, nil
		}
	}
	return Value{}, nil
}

// copyItems is dup of an Array or a Hash: the elements are shared.
func copyItems(m *Machine, n *call, v Value, a []Value) (Value, error) {
	w := Value{kind: v.kind, o: m.objects.get()}
	if v.o.raw != nil && m.pure {
		w.o.raw = v.o.raw
		return w, nil
	}
	m.open(v.o)
	w.o.items = append([]Value(nil), v.o.items...)
	w.o.keys = append([]Value(nil), v.o.keys...)
	w.o.x = v.o.x
	return w, nil
}

// arrayPack knows the forms that are used for printing: m and H*, U* and c*.
func arrayPack(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	items := m.items(v)
	one := func() (string, error) {
		if len(items) == 0 {
			return "", m.raise(n, "ArgumentError", "too few arguments")
		}
		return items[0].text(), m.need(n, String, items[0])
	}
	switch format := a[0].s.s; format {
	case "m0", "H*":
		s, err := one()
		if err != nil {
			return Value{}, err
		}
		if format == "m0" {
			return m.str(base64.StdEncoding.EncodeToString(bytesOf(s))), nil
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			return Value{}, m.raise(n, "ArgumentError", "%v", err)
		}
		w := m.str(string(b))
		w.s.enc = binaryText
		return w, nil
	case "U*", "c*", "C*":
		var b []byte
		for _, x := range items {
			i, err := m.intArg(n, x)
			if err != nil {
				return Value{}, err
			}
			if format == "U*" {
				b = append(b, string(rune(i))...)
			} else {
				b = append(b, byte(i))
			}
		}
		w := m.str(view(b))
		if format != "U*" {
			w.s.enc = binaryText
		}
		return w, nil
	}
	return Value{}, m.exceed(n, "pack(%s) is not supported", a[0].Inspect())
}

func arraySample(m *Machine, n *call, v Value, a []Value) (Value, error) {
	items := m.items(v)
	if n.name == "sample" {
		if len(items) == 0 {
			return Value{}, nil
		}
		i, err := m.randomBelow(n, uint64(len(items)))
		return items[i], err
	}
	out := append([]Value(nil), items...)
	for i := len(out) - 1; i > 0; i-- {
		k, err := m.randomBelow(n, uint64(i+1))
		if err != nil {
			return Value{}, err
		}
		out[i], out[k] = out[k], out[i]
	}
	return m.array(out), nil
}
