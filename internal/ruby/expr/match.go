package expr

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/ruby/rx"
)

// match is what a regular expression found.
type match struct {
	re  *rx.Regexp
	src string
	loc []int
}

// group is the text of a group; ok is false if it took no part.
func (x *match) group(i int) (string, bool) {
	if i < 0 || 2*i+1 >= len(x.loc) || x.loc[2*i] < 0 {
		return "", false
	}
	return x.src[x.loc[2*i]:x.loc[2*i+1]], true
}

// named is the number of a group, -1 if there is none of that name. Of several the last one
// that took part counts.
func (x *match) named(name string) int {
	at := -1
	if name == "" {
		return at
	}
	for i, s := range x.re.Names() {
		if s == name && (at < 0 || x.loc[2*i] >= 0) {
			at = i
		}
	}
	return at
}

// appendInspect appends what was found and the groups.
func (x *match) appendInspect(dst []byte) []byte {
	s, _ := x.group(0)
	dst = append(dst, inspectString(&text{s: s})...)
	for i := 1; 2*i < len(x.loc); i++ {
		name := strconv.Itoa(i)
		if n := x.re.Names()[i]; n != "" {
			name = n
		}
		dst = append(append(append(dst, ' '), name...), ':')
		if s, ok := x.group(i); ok {
			dst = append(dst, inspectString(&text{s: s})...)
		} else {
			dst = append(dst, "nil"...)
		}
	}
	return dst
}

func (m *Machine) groupValue(x *match, i int) Value {
	s, ok := x.group(i)
	if !ok {
		return Value{}
	}
	return m.str(s)
}

// valid says whether s is UTF-8.
func valid(s string) bool { return utf8.ValidString(s) }

// matchable refuses a subject that Ruby refuses.
func (m *Machine) matchable(n node, re *rx.Regexp, v Value) error {
	if v.s.enc == utf8Text && !valid(v.s.s) {
		return m.raise(n, "ArgumentError", "invalid byte sequence in UTF-8")
	}
	steps := len(v.s.s) / 256
	if !re.Linear() {
		steps = 20 + len(v.s.s)/16
	}
	return m.charge(n, steps)
}

// find looks for a match and remembers it for $~.
func (m *Machine) find(n node, re *rx.Regexp, v Value) (*match, error) {
	if err := m.matchable(n, re, v); err != nil {
		return nil, err
	}
	loc, err := re.AppendSubmatchIndex(nil, bytesOf(v.s.s))
	if err != nil {
		return nil, m.exceed(n, "%v", err)
	}
	if loc == nil {
		m.last = nil
		return nil, nil
	}
	m.last = &match{re: re, src: v.s.s, loc: loc}
	return m.last, nil
}

// findAll gives all matches.
func (m *Machine) findAll(n node, re *rx.Regexp, v Value) ([]match, error) {
	if err := m.matchable(n, re, v); err != nil {
		return nil, err
	}
	all, err := re.AppendAll(nil, bytesOf(v.s.s), maxItems)
	if err != nil {
		return nil, m.exceed(n, "%v", err)
	}
	stride := 2 * len(re.Names())
	out := make([]match, len(all)/stride)
	for i := range out {
		out[i] = match{re: re, src: v.s.s, loc: all[i*stride : (i+1)*stride]}
	}
	if len(out) > 0 {
		m.last = &out[len(out)-1]
	} else {
		m.last = nil
	}
	return out, m.charge(n, len(out))
}

// global evaluates $~, $1, $& and their like, and the group of a name behind =~.
func (m *Machine) global(n *globalValue) (Value, error) {
	switch {
	case n.name == "$!" && m.raised != nil:
		v, extra := m.withExtra(ErrorKind)
		extra.err = m.raised
		return v, nil
	case n.name == "$!" || m.last == nil:
		return Value{}, nil
	}
	switch n.name {
	case "$~":
		return m.matchValue(m.last), nil
	case "$&":
		return m.groupValue(m.last, 0), nil
	case "$`":
		return m.str(m.last.src[:m.last.loc[0]]), nil
	case "$'":
		return m.str(m.last.src[m.last.loc[1]:]), nil
	}
	if digits, ok := strings.CutPrefix(n.name, "$"); ok {
		i := 0
		for _, c := range []byte(digits) {
			i = 10*i + int(c-'0')
		}
		return m.groupValue(m.last, i), nil
	}
	return m.groupValue(m.last, m.last.named(n.name)), nil
}

func (m *Machine) matchValue(x *match) Value {
	v, extra := m.withExtra(MatchKind)
	extra.match = x
	return v
}

// regexpOf reads a pattern argument: a Regexp, or a String that stands for itself; re is
// then nil.
func (m *Machine) regexpOf(n node, v Value) (re *rx.Regexp, err error) {
	switch v.kind {
	case RegexpKind:
		return v.o.x.re.re, nil
	case String:
		return nil, nil
	}
	return nil, m.raise(n, "TypeError", "wrong argument type %s (expected Regexp)", v.class())
}

// replace is sub and gsub.
func (m *Machine) replace(n *call, v Value, a []Value, all bool) (string, error) {
	if len(a) == 1 && n.block == nil {
		return "", m.wrongCount(n, 1, 2, 2)
	}
	re, err := m.regexpOf(n, a[0])
	if err != nil {
		return "", err
	}
	if len(a) == 2 && a[1].kind != String && a[1].kind != HashKind {
		return "", m.noConversion(n, a[1], "String")
	}
	src := v.s.s
	var found []match
	switch {
	case re == nil:
		found = m.occurrences(src, a[0].s.s, all)
		m.last = nil
		if len(found) > 0 {
			m.last = &found[len(found)-1]
		}
	case all:
		found, err = m.findAll(n, re, v)
	default:
		var x *match
		if x, err = m.find(n, re, v); x != nil {
			found = []match{*x}
		}
	}
	if err != nil || len(found) == 0 {
		return src, err
	}
	var out []byte
	at := 0
	for i := range found {
		x := &found[i]
		out = append(out, src[at:x.loc[0]]...)
		if out, err = m.replacement(n, out, x, a); err != nil {
			return "", err
		}
		at = x.loc[1]
		if err := m.checkText(n, len(out)); err != nil {
			return "", err
		}
	}
	if n.block == nil || len(a) == 2 {
		m.last = &found[len(found)-1]
	}
	return view(append(out, src[at:]...)), nil
}

// occurrences finds a text that stands for itself.
func (m *Machine) occurrences(src, from string, all bool) []match {
	var out []match
	for at := 0; at <= len(src) && len(out) < maxItems; {
		i := strings.Index(src[at:], from)
		if i < 0 {
			break
		}
		i += at
		out = append(out, match{src: src, loc: []int{i, i + len(from)}})
		if !all {
			break
		}
		at = i + len(from)
		if from == "" {
			if at == len(src) {
				break
			}
			_, n := utf8.DecodeRuneInString(src[at:])
			at += n
		}
	}
	m.steps += len(out)
	return out
}

// replacement appends what a match is replaced by.
func (m *Machine) replacement(n *call, out []byte, x *match, a []Value) ([]byte, error) {
	if len(a) == 2 && a[1].kind == String {
		return expand(out, a[1].s.s, x), nil
	}
	found, _ := x.group(0)
	if len(a) == 2 {
		v, _ := m.get(a[1].o, m.str(found))
		return append(out, v.ToS()...), nil
	}
	m.last = x
	v, err := m.yield(n.block, m.str(found))
	return append(out, v.ToS()...), err
}

// expand appends a replacement with its back-references: \1, \0 and \& for what was found,
// \k<name>, \\ for a backslash, \` and \' for what stands before and behind.
func expand(out []byte, to string, x *match) []byte {
	for i := 0; i < len(to); i++ {
		if to[i] != '\\' || i+1 == len(to) {
			out = append(out, to[i])
			continue
		}
		i++
		switch c := to[i]; {
		case c >= '0' && c <= '9':
			s, _ := x.group(int(c - '0'))
			out = append(out, s...)
		case c == '&':
			s, _ := x.group(0)
			out = append(out, s...)
		case c == '`':
			out = append(out, x.src[:x.loc[0]]...)
		case c == '\'':
			out = append(out, x.src[x.loc[1]:]...)
		case c == 'k' && i+1 < len(to) && to[i+1] == '<' && strings.IndexByte(to[i:], '>') > 0 && x.re != nil:
			end := strings.IndexByte(to[i:], '>')
			s, _ := x.group(x.named(to[i+2 : i+end]))
			out = append(out, s...)
			i += end
		case c == '\\':
			out = append(out, c)
		default:
			out = append(out, '\\', c)
		}
	}
	return out
}

func regexpMethods() map[string]*method {
	return map[string]*method{
		"=~":     {fn: regexpAt, least: 1, most: 1},
		"match":  {fn: regexpMatch, least: 1, most: 2},
		"match?": {fn: regexpMatches, least: 1, most: 2},
		"===":    {fn: regexpMatches, least: 1, most: 1},
		"source": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			return m.str(recv.o.x.re.re.String()), nil
		}},
		"to_s": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			return m.str(recv.o.x.re.text()), nil
		}},
	}
}

// subject reads the text that a regular expression is matched against; ok is false for nil.
func (m *Machine) subjectOf(n node, v Value) (s Value, ok bool, err error) {
	switch v.kind {
	case Nil:
		return v, false, nil
	case String, Symbol:
		return v, true, nil
	}
	return v, false, m.noConversion(n, v, "String")
}

func regexpAt(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	s, ok, err := m.subjectOf(n, a[0])
	if !ok {
		m.last = nil
		return Value{}, err
	}
	x, err := m.find(n, recv.o.x.re.re, s)
	if x == nil || err != nil {
		return Value{}, err
	}
	return intValue(int64(countChars(s.s, x.loc[0]))), nil
}

func regexpMatch(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	if err := m.noPosition(n, a); err != nil {
		return Value{}, err
	}
	s, ok, err := m.subjectOf(n, a[0])
	if !ok {
		m.last = nil
		return Value{}, err
	}
	x, err := m.find(n, recv.o.x.re.re, s)
	if x == nil || err != nil {
		return Value{}, err
	}
	return m.matchValue(x), nil
}

func regexpMatches(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	if err := m.noPosition(n, a); err != nil {
		return Value{}, err
	}
	if a[0].kind != String && a[0].kind != Symbol {
		if n.name == "match?" && !a[0].IsNil() {
			return Value{}, m.noConversion(n, a[0], "String")
		}
		return boolValue(false), nil
	}
	if n.name == "===" {
		x, err := m.find(n, recv.o.x.re.re, a[0])
		return boolValue(x != nil), err
	}
	err := m.matchable(n, recv.o.x.re.re, a[0])
	return boolValue(err == nil && recv.o.x.re.re.Match(bytesOf(a[0].s.s))), err
}

func matchMethods() map[string]*method {
	return map[string]*method{
		"[]": {fn: matchIndex, least: 1, most: 2},
		"captures": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			return m.groups(recv.o.x.match, 1), nil
		}},
		"to_a": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			return m.groups(recv.o.x.match, 0), nil
		}},
		"named_captures": {fn: namedCaptures},
		"names": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			h, err := namedCaptures(m, n, recv, a)
			return m.array(h.o.keys), err
		}},
		"pre_match": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			x := recv.o.x.match
			return m.str(x.src[:x.loc[0]]), nil
		}},
		"post_match": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			x := recv.o.x.match
			return m.str(x.src[x.loc[1]:]), nil
		}},
		"length": {fn: matchSize}, "size": {fn: matchSize}, "values_at": {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) {
			return arrayValuesAt(m, n, m.groups(recv.o.x.match, 0), a)
		}, most: -1},
		"match": {fn: matchEdge, least: 1, most: 1},
		"begin": {fn: matchEdge, least: 1, most: 1},
		"end":   {fn: matchEdge, least: 1, most: 1},
	}
}

func matchIndex(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	x := recv.o.x.match
	if len(a) == 2 || a[0].kind == RangeKind {
		return arrayIndex(m, n, m.groups(x, 0), a)
	}
	if a[0].kind == String || a[0].kind == Symbol {
		i := x.named(a[0].s.s)
		if i < 0 {
			return Value{}, m.raise(n, "IndexError", "undefined group name reference: %s", a[0].s.s)
		}
		return m.groupValue(x, i), nil
	}
	i, err := m.intArg(n, a[0])
	if i < 0 {
		i += len(x.loc) / 2
	}
	return m.groupValue(x, i), err
}

func matchEdge(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	x := recv.o.x.match
	i, err := 0, error(nil)
	if a[0].kind == String || a[0].kind == Symbol {
		if i = x.named(a[0].s.s); i < 0 {
			return Value{}, m.raise(n, "IndexError", "undefined group name reference: %s", a[0].s.s)
		}
	} else if i, err = m.intArg(n, a[0]); err != nil {
		return Value{}, err
	}
	if i < 0 || 2*i >= len(x.loc) {
		return Value{}, m.raise(n, "IndexError", "index %d out of matches", i)
	}
	if _, ok := x.group(i); !ok {
		return Value{}, nil
	}
	at := x.loc[2*i]
	if n.name == "match" {
		return m.groupValue(x, i), nil
	}
	if n.name == "end" {
		at = x.loc[2*i+1]
	}
	return intValue(int64(countChars(&text{s: x.src}, at))), nil
}

func (m *Machine) groups(x *match, from int) Value {
	items := m.values.get(len(x.loc)/2 - from)
	for i := range items {
		items[i] = m.groupValue(x, i+from)
	}
	return m.array(items)
}

func namedCaptures(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	h := m.hash()
	x := recv.o.x.match
	for _, name := range x.re.Names() {
		if name != "" {
			m.set(h.o, m.str(name), m.groupValue(x, x.named(name)))
		}
	}
	return h, nil
}
