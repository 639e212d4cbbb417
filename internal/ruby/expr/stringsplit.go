package expr

import "strings"

func stringSplit(m *Machine, n *call, v Value, a []Value) (Value, error) {
	limit := 0
	if len(a) == 2 {
		var err error
		if limit, err = m.intArg(n, a[1]); err != nil {
			return Value{}, err
		}
	}
	var parts []string
	if err := m.wellFormed(n, v); err != nil && limit != 1 {
		return Value{}, err
	}
	switch {
	case v.s.s == "":
	case limit == 1:
		parts = []string{v.s.s}
	case len(a) == 0 || a[0].IsNil() || a[0].kind == String && a[0].s.s == " ":
		parts = splitBlanks(v.s.s, limit)
	case a[0].kind == String:
		most := -1
		if limit > 0 {
			most = limit
		}
		if err := m.checkItems(n, strings.Count(v.s.s, a[0].s.s)); err != nil {
			return Value{}, err
		}
		parts = strings.SplitN(v.s.s, a[0].s.s, most)
		if a[0].s.s == "" && limit < 0 {
			parts = append(parts, "")
		}
	case a[0].kind == RegexpKind:
		found, err := m.findAll(n, a[0].o.x.re.re, v)
		if err != nil {
			return Value{}, err
		}
		parts = splitAt(v.s.s, found, limit)
	default:
		return Value{}, m.raise(n, "TypeError", "wrong argument type %s (expected Regexp)", a[0].class())
	}
	for limit == 0 && len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	list, err := m.strings(n, parts)
	if n.block == nil || err != nil {
		return list, err
	}
	for _, x := range m.items(list) {
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

// strings makes an Array of Strings.
func (m *Machine) strings(n node, parts []string) (Value, error) {
	if err := m.checkItems(n, len(parts)); err != nil {
		return Value{}, err
	}
	items := m.values.get(len(parts))
	for i, p := range parts {
		items[i] = m.str(p)
	}
	return m.array(items), m.charge(n, len(parts)/8)
}

// spaces are what split takes for white space: those of strip but for NUL.
const spaces = " \t\n\v\f\r"

// splitBlanks splits at runs of white space; at most limit parts if that is above 0, and
// with the empty part at the end if it is not 0.
func splitBlanks(s string, limit int) []string {
	var out []string
	for s = strings.TrimLeft(s, spaces); s != "" && (limit <= 0 || len(out) < limit-1); {
		i := strings.IndexAny(s, spaces)
		if i < 0 {
			return append(out, s)
		}
		out = append(out, s[:i])
		s = strings.TrimLeft(s[i:], spaces)
	}
	if s != "" || limit != 0 {
		out = append(out, s)
	}
	return out
}

// splitAt splits where a regular expression matched; its groups become parts too. An empty
// match splits only between characters.
func splitAt(s string, found []match, limit int) []string {
	var out []string
	at, pieces := 0, 1
	for _, x := range found {
		if limit > 0 && pieces >= limit {
			break
		}
		if x.loc[0] == x.loc[1] && (x.loc[0] <= at && x.loc[0] == 0 || x.loc[0] >= len(s) || x.loc[0] == at) {
			continue
		}
		out = append(out, s[at:x.loc[0]])
		pieces++
		for i := 1; i < len(x.loc)/2; i++ {
			if g, ok := x.group(i); ok {
				out = append(out, g)
			}
		}
		at = x.loc[1]
	}
	return append(out, s[at:])
}

func stringScan(m *Machine, n *call, v Value, a []Value) (Value, error) {
	re, err := m.regexpOf(n, a[0])
	if err != nil {
		return Value{}, err
	}
	var found []match
	if re == nil {
		found = m.occurrences(v.s.s, a[0].s.s, true)
	} else if found, err = m.findAll(n, re, v); err != nil {
		return Value{}, err
	}
	items := m.values.get(len(found))
	for i := range found {
		x := &found[i]
		if len(x.loc) > 2 {
			items[i] = m.groups(x, 1)
		} else {
			items[i] = m.groupValue(x, 0)
		}
		if n.block != nil {
			m.last = x
			if _, err := m.yield(n.block, items[i]); err != nil {
				return Value{}, err
			}
		}
	}
	if n.block != nil {
		return v, nil
	}
	return m.array(items), nil
}

func stringPartition(m *Machine, n *call, v Value, a []Value) (Value, error) {
	from, to := -1, -1
	re, err := m.regexpOf(n, a[0])
	switch {
	case err != nil:
		return Value{}, err
	case re != nil:
		found, err := m.findAll(n, re, v)
		if err != nil {
			return Value{}, err
		}
		if len(found) > 0 {
			x := found[0]
			if n.name == "rpartition" {
				x = found[len(found)-1]
			}
			from, to = x.loc[0], x.loc[1]
		}
	case n.name == "partition":
		from = strings.Index(v.s.s, a[0].s.s)
		to = from + len(a[0].s.s)
	default:
		from = strings.LastIndex(v.s.s, a[0].s.s)
		to = from + len(a[0].s.s)
	}
	switch {
	case from >= 0:
		return m.strings(n, []string{v.s.s[:from], v.s.s[from:to], v.s.s[to:]})
	case n.name == "partition":
		return m.strings(n, []string{v.s.s, "", ""})
	}
	return m.strings(n, []string{"", "", v.s.s})
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
