package expr

import "strings"

// symbolSucc is the Symbol behind this one.
func symbolSucc(m *Machine, n *call, v Value, a []Value) (Value, error) {
	s, err := stringSucc(m, n, m.str(v.s.s), nil)
	if err != nil {
		return Value{}, err
	}
	return m.symbol(s.s.s), nil
}

// stringChr is the first character.
func stringChr(m *Machine, n *call, v Value, a []Value) (Value, error) {
	_, to, ok := place(v.s, 0, 1)
	if !ok {
		return m.str(""), nil
	}
	return m.part(v, 0, to), nil
}

// stringUpTo counts from one text to another, as succ does.
func stringUpTo(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return Value{}, m.exceed(n, "upto of a String is not supported")
}

// stringToSym is to_sym.
func stringToSym(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.s.enc == utf8Text && !valid(v.s.s) {
		return Value{}, m.raise(n, "EncodingError", "invalid symbol in encoding UTF-8 :%s", v.Inspect())
	}
	return m.symbol(v.s.s), nil
}

// stringLines splits at line ends, or behind another text; with chomp they are left out.
func stringLines(m *Machine, n *call, v Value, a []Value) (Value, error) {
	sep, chomp := "\n", false
	for i, x := range a {
		switch {
		case x.kind == HashKind && i == len(a)-1:
			m.open(x.o)
			if len(x.o.keys) != 1 || x.o.keys[0].kind != Symbol || x.o.keys[0].text() != "chomp" {
				return Value{}, m.exceed(n, "these options of %s are not supported", n.name)
			}
			chomp = x.o.items[0].Truthy()
		case i == 1:
			return Value{}, m.wrongCount(n, 2, 0, 1)
		case x.kind == String && x.s.s != "":
			sep = x.s.s
		case x.kind == String || x.IsNil():
			return Value{}, m.exceed(n, "%s(%s) is not supported", n.name, x.Inspect())
		default:
			return Value{}, m.noConversion(n, x, "String")
		}
	}
	var parts []string
	for _, l := range strings.SplitAfter(v.s.s, sep) {
		if chomp {
			if l = strings.TrimSuffix(l, sep); sep == "\n" {
				l = strings.TrimSuffix(l, "\r")
			}
		}
		parts = append(parts, l)
	}
	if strings.HasSuffix(v.s.s, sep) || v.s.s == "" {
		parts = parts[:len(parts)-1]
	}
	list, err := m.strings(n, parts)
	if err != nil || n.block == nil {
		return list, err
	}
	for _, x := range m.items(list) {
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

// wellFormed refuses a text that is not UTF-8, as Ruby does where it looks at characters.
func (m *Machine) wellFormed(n node, v Value) error {
	if v.s.enc == utf8Text && !valid(v.s.s) {
		return m.raise(n, "ArgumentError", "invalid byte sequence in UTF-8")
	}
	return nil
}
