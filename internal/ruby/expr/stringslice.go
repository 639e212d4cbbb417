package expr

import (
	"strings"
	"unicode/utf8"
)

func stringSlices() map[string]*method {
	return map[string]*method{
		"[]": {fn: stringIndex, least: 1, most: 2}, "slice": {fn: stringIndex, least: 1, most: 2}, "byteslice": {fn: stringByteSlice, least: 1, most: 2},
		"[]=": {fn: stringSet, least: 2, most: 3}, "slice!": {fn: stringSliceOut, least: 1, most: 2}, "insert": {fn: stringInsert, least: 2, most: 2},
		"prepend": {fn: stringPrepend, most: -1},
		"index":   {fn: stringFind, least: 1, most: 2}, "rindex": {fn: stringFind, least: 1, most: 2},
		"split": {fn: stringSplit, most: 2}, "scan": {fn: stringScan, least: 1, most: 1},
		"partition": {fn: stringPartition, least: 1, most: 1}, "rpartition": {fn: stringPartition, least: 1, most: 1},
		"chars": {fn: stringChars}, "each_char": {fn: stringChars}, "lines": {fn: stringLines, most: 2}, "each_line": {fn: stringLines, most: 2}, "bytes": {fn: stringChars}, "each_byte": {fn: stringChars}, "codepoints": {fn: stringChars},
		"ljust": {fn: stringJustify, least: 1, most: 2}, "rjust": {fn: stringJustify, least: 1, most: 2}, "center": {fn: stringJustify, least: 1, most: 2},
		"count": {fn: stringCount, least: 1, most: -1},
	}
}

// charOffset is the byte offset of character i, and how many characters there are if there
// is no such one: ok is then false.
func charOffset(t *text, i int) (at int, ok bool) {
	if t.enc != utf8Text || ascii(t.s) {
		return min(i, len(t.s)), i <= len(t.s)
	}
	for ; i > 0; i-- {
		if at == len(t.s) {
			return at, false
		}
		_, n := utf8.DecodeRuneInString(t.s[at:])
		at += n
	}
	return at, true
}

// place turns an index, negative from the end, and a length in characters into bytes.
func place(t *text, i, length int) (from, to int, ok bool) {
	if i < 0 {
		if i += countChars(t, len(t.s)); i < 0 {
			return 0, 0, false
		}
	}
	from, ok = charOffset(t, i)
	if !ok || length < 0 {
		return 0, 0, false
	}
	rest := text{s: t.s[from:], enc: t.enc}
	n, _ := charOffset(&rest, length)
	return from, from + n, true
}

// locate finds what the arguments of [] say: an index, an index and a length, a range, a
// text, a regular expression with a group. ok is false if there is no such part.
func (m *Machine) locate(n node, v Value, a []Value) (from, to int, ok bool, err error) {
	if k := a[0].kind; len(a) == 2 && (k == String || k == RangeKind) {
		return 0, 0, false, m.noConversion(n, a[0], "Integer")
	}
	switch a[0].kind {
	case String:
		i := strings.Index(v.s.s, a[0].s.s)
		return i, i + len(a[0].s.s), i >= 0, nil
	case RegexpKind:
		x, err := m.find(n, a[0].o.x.re.re, v)
		if x == nil || err != nil {
			return 0, 0, false, err
		}
		group := 0
		if len(a) == 2 {
			if a[1].kind == String || a[1].kind == Symbol {
				if group = x.named(a[1].s.s); group < 0 {
					return 0, 0, false, m.raise(n, "IndexError", "undefined group name reference: %s", a[1].s.s)
				}
			} else if group, err = m.intArg(n, a[1]); err != nil {
				return 0, 0, false, err
			}
		}
		if _, ok := x.group(group); !ok {
			return 0, 0, false, nil
		}
		return x.loc[2*group], x.loc[2*group+1], true, nil
	case RangeKind:
		i, length, ok, err := m.rangeOn(n, a[0], countChars(v.s, len(v.s.s)))
		if !ok || err != nil {
			return 0, 0, false, err
		}
		from, to, ok = place(v.s, i, length)
		return from, to, ok, nil
	}
	i, err := m.intArg(n, a[0])
	if err != nil {
		return 0, 0, false, err
	}
	length := 1
	if len(a) == 2 {
		if length, err = m.intArg(n, a[1]); err != nil {
			return 0, 0, false, err
		}
	}
	from, to, ok = place(v.s, i, length)
	return from, to, ok && (len(a) == 2 || from < len(v.s.s)), nil
}

// rangeOn reads a Range as a part of something with size elements: where it begins and how
// long it is at most. ok is false if it begins outside.
func (m *Machine) rangeOn(n node, r Value, size int) (from, length int, ok bool, err error) {
	to := -1
	if !r.o.items[0].IsNil() {
		if from, err = m.intArg(n, r.o.items[0]); err != nil {
			return 0, 0, false, err
		}
	}
	open := r.o.items[1].IsNil()
	if !open {
		if to, err = m.intArg(n, r.o.items[1]); err != nil {
			return 0, 0, false, err
		}
	}
	if from < 0 {
		from += size
	}
	if to < 0 {
		to += size
	}
	if r.bits != 0 && !open {
		to--
	}
	return from, max(to-from+1, 0), from >= 0 && from <= size, nil
}

func (m *Machine) part(v Value, from, to int) Value {
	w := m.str(v.s.s[from:to])
	w.s.enc = v.s.enc
	return w
}

func stringIndex(m *Machine, n *call, v Value, a []Value) (Value, error) {
	from, to, ok, err := m.locate(n, v, a)
	if !ok || err != nil {
		return Value{}, err
	}
	return m.part(v, from, to), nil
}

func stringByteSlice(m *Machine, n *call, v Value, a []Value) (Value, error) {
	bytes := Value{kind: String, s: &text{s: v.s.s, enc: binaryText}}
	from, to, ok, err := m.locate(n, bytes, a)
	if !ok || err != nil {
		return Value{}, err
	}
	return m.part(v, from, to), nil
}

func stringSet(m *Machine, n *call, v Value, a []Value) (Value, error) {
	value := a[len(a)-1]
	if err := m.need(n, String, value); err != nil {
		return Value{}, err
	}
	from, to, ok, err := m.locate(n, v, a[:len(a)-1])
	if err != nil {
		return Value{}, err
	}
	if !ok {
		return Value{}, m.raise(n, "IndexError", "index %s out of string", a[0].Inspect())
	}
	m.mutated, v.s.s = true, v.s.s[:from]+value.s.s+v.s.s[to:]
	return value, m.checkText(n, len(v.s.s))
}

func stringSliceOut(m *Machine, n *call, v Value, a []Value) (Value, error) {
	from, to, ok, err := m.locate(n, v, a)
	if !ok || err != nil {
		return Value{}, err
	}
	out := m.part(v, from, to)
	m.mutated, v.s.s = true, v.s.s[:from]+v.s.s[to:]
	return out, nil
}

func stringInsert(m *Machine, n *call, v Value, a []Value) (Value, error) {
	i, err := m.intArg(n, a[0])
	if err == nil {
		err = m.need(n, String, a[1])
	}
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		i += countChars(v.s, len(v.s.s)) + 1
	}
	at, ok := charOffset(v.s, max(i, 0))
	if !ok || i < 0 {
		return Value{}, m.raise(n, "IndexError", "index %s out of string", a[0].Inspect())
	}
	m.mutated, v.s.s = true, v.s.s[:at]+a[1].s.s+v.s.s[at:]
	return v, m.checkText(n, len(v.s.s))
}

func stringPrepend(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a...); err != nil {
		return Value{}, err
	}
	s := ""
	for _, x := range a {
		s += x.s.s
	}
	m.mutated, v.s.s = true, s+v.s.s
	return v, m.checkText(n, len(v.s.s))
}

func stringFind(m *Machine, n *call, v Value, a []Value) (Value, error) {
	start := 0
	if n.name == "rindex" {
		start = len(v.s.s)
	}
	if a[0].kind != String && a[0].kind != RegexpKind {
		return Value{}, m.noConversion(n, a[0], "String")
	}
	if len(a) == 2 {
		i, err := m.intArg(n, a[1])
		if err != nil {
			return Value{}, err
		}
		from, _, ok := place(v.s, i, 0)
		switch {
		case ok:
		case n.name == "rindex" && i > 0:
			from = len(v.s.s)
		default:
			return Value{}, nil
		}
		start = from
	}
	at := -1
	switch a[0].kind {
	case String:
		if n.name == "index" {
			if at = strings.Index(v.s.s[start:], a[0].s.s); at >= 0 {
				at += start
			}
		} else {
			at = strings.LastIndex(v.s.s[:min(len(v.s.s), start+len(a[0].s.s))], a[0].s.s)
		}
	case RegexpKind:
		var err error
		if at, err = m.findFrom(n, a[0].o.x.re.re, v, start, n.name == "rindex"); err != nil {
			return Value{}, err
		}
	default:
		return Value{}, m.noConversion(n, a[0], "String")
	}
	if at < 0 {
		return Value{}, nil
	}
	return intValue(int64(countChars(v.s, at))), nil
}

// stringChars gives the characters, lines or bytes, or gives each to the block.
func stringChars(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.checkItems(n, len(v.s.s)); err != nil && n.name != "lines" && n.name != "each_line" {
		return Value{}, err
	}
	if n.name == "codepoints" {
		if err := m.wellFormed(n, v); err != nil {
			return Value{}, err
		}
	}
	var items []Value
	for s := v.s.s; s != ""; {
		size := 1
		var x Value
		switch n.name {
		case "bytes", "each_byte":
			x = intValue(int64(s[0]))
		case "lines", "each_line":
			if size = strings.IndexByte(s, '\n') + 1; size == 0 {
				size = len(s)
			}
			x = m.str(s[:size])
		default:
			r, k := utf8.DecodeRuneInString(s)
			size = k
			x = m.str(s[:size])
			if n.name == "codepoints" {
				x = intValue(int64(r))
			}
		}
		s = s[size:]
		items = append(items, x)
	}
	out := m.array(items)
	if err := m.checkItems(n, len(items)); err != nil {
		return Value{}, err
	}
	if n.block == nil {
		return out, m.charge(n, len(items)/8)
	}
	for _, x := range items {
		if _, err := m.yield(n.block, x); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

func stringJustify(m *Machine, n *call, v Value, a []Value) (Value, error) {
	width, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	pad := " "
	if len(a) == 2 {
		if err := m.need(n, String, a[1]); err != nil {
			return Value{}, err
		}
		if pad = a[1].s.s; pad == "" {
			return Value{}, m.raise(n, "ArgumentError", "zero width padding")
		}
	}
	if err := m.checkText(n, max(width, 0)); err != nil {
		return Value{}, err
	}
	missing := width - countChars(v.s, len(v.s.s))
	if missing <= 0 {
		return m.copyOf(v), nil
	}
	left, right := 0, missing
	switch n.name {
	case "rjust":
		left, right = missing, 0
	case "center":
		left = missing / 2
		right = missing - left
	}
	return m.str(padding(pad, left) + v.s.s + padding(pad, right)), nil
}

// padding is n characters of a repeated text.
func padding(pad string, n int) string {
	t := text{s: pad}
	chars := countChars(&t, len(pad))
	t.s = strings.Repeat(pad, n/chars+1)
	at, _ := charOffset(&t, n)
	return t.s[:at]
}

func stringCount(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.wellFormed(n, v); err != nil {
		return Value{}, err
	}
	sets, err := m.charSets(n, a)
	if err != nil {
		return Value{}, err
	}
	count := int64(0)
	for _, r := range v.s.s {
		if inAll(sets, r) {
			count++
		}
	}
	return intValue(count), nil
}

// stringChr is the first character.
func stringChr(m *Machine, n *call, v Value, a []Value) (Value, error) {
	_, to, ok := place(v.s, 0, 1)
	if !ok {
		return m.str(""), nil
	}
	return m.part(v, 0, to), nil
}
