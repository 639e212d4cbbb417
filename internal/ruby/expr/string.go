package expr

import (
	"strings"
	"unicode/utf8"

	"weir/internal/ruby/rx"
)

// textMethod computes a String from a String. Such a method has a twin with ! that changes
// its receiver and gives nil when nothing changed.
type textMethod struct {
	fn          func(m *Machine, n *call, v Value, a []Value) (string, error)
	least, most int
}

// plainText makes a textMethod of a function without arguments.
func plainText(f func(s string) string) textMethod {
	return textMethod{fn: func(m *Machine, n *call, v Value, a []Value) (string, error) { return f(v.s.s), nil }}
}

// blanks is what strip removes.
const blanks = " \t\n\v\f\r\x00"

func textMethods() map[string]textMethod {
	return map[string]textMethod{
		"upcase":        letters(upcase),
		"downcase":      letters(downcase),
		"capitalize":    letters(capitalize),
		"swapcase":      letters(swapCase),
		"strip":         plainText(func(s string) string { return strings.TrimLeft(strings.TrimRight(s, blanks), blanks) }),
		"lstrip":        plainText(func(s string) string { return strings.TrimLeft(s, blanks) }),
		"rstrip":        plainText(func(s string) string { return strings.TrimRight(s, blanks) }),
		"chomp":         {textChomp, 0, 1},
		"chop":          plainText(chop),
		"reverse":       plainText(reverse),
		"squeeze":       {textSqueeze, 0, -1},
		"tr":            {textTr, 2, 2},
		"tr_s":          {textTr, 2, 2},
		"delete":        {textDelete, 1, -1},
		"delete_prefix": {textPrefix, 1, 1},
		"delete_suffix": {textPrefix, 1, 1},
		"scrub":         {textScrub, 0, 1},
		"sub": {func(m *Machine, n *call, v Value, a []Value) (string, error) {
			return m.replace(n, v, a, false)
		}, 1, 2},
		"gsub": {func(m *Machine, n *call, v Value, a []Value) (string, error) {
			return m.replace(n, v, a, true)
		}, 1, 2},
	}
}

func stringMethods() map[string]*method {
	out := map[string]*method{}
	for name, t := range textMethods() {
		out[name] = &method{func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			s, err := t.fn(m, n, v, a)
			w := m.str(s)
			w.s.enc = v.s.enc
			return w, err
		}, t.least, t.most}
		out[name+"!"] = &method{func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			s, err := t.fn(m, n, v, a)
			if always := n.name == "reverse!" || n.name == "scrub!"; err != nil || s == v.s.s && !always {
				return Value{}, err
			}
			m.mutated, v.s.s = true, s
			return v, nil
		}, t.least, t.most}
	}
	for _, part := range []map[string]*method{stringBasics(), stringSlices(), stringEncodings()} {
		for name, f := range part {
			out[name] = f
		}
	}
	return out
}

func stringBasics() map[string]*method {
	return map[string]*method{
		"+": {fn: stringAdd, least: 1, most: 1},
		"*": {fn: stringRepeat, least: 1, most: 1},
		"%": {fn: stringFormat, least: 1, most: 1},
		"<": {fn: ordered, least: 1, most: 1}, "<=": {fn: ordered, least: 1, most: 1}, ">": {fn: ordered, least: 1, most: 1}, ">=": {fn: ordered, least: 1, most: 1},
		"between?": {fn: between, least: 2, most: 2}, "clamp": {fn: clamp, least: 1, most: 2}, "upto": {fn: stringUpTo, least: 1, most: 2}, "chr": {fn: stringChr},
		"=~": {fn: stringAt, least: 1, most: 1}, "match": {fn: stringMatch, least: 1, most: 2}, "match?": {fn: stringMatch, least: 1, most: 2},
		"<<": {fn: stringAppend, least: 1, most: 1}, "concat": {fn: stringAppend, most: -1}, "replace": {fn: stringReplace, least: 1, most: 1},
		"clear": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			m.mutated, v.s.s = true, ""
			return v, nil
		}},
		"to_s":   {fn: itself},
		"to_str": {fn: itself},
		"to_i":   {fn: stringToInt, most: 1},
		"hex":    {fn: stringToInt}, "oct": {fn: stringToInt},
		"to_f": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return floatValue(leadingFloat(v.s.s)), nil
		}},
		"to_sym":      {fn: stringToSym},
		"intern":      {fn: stringToSym},
		"empty?":      {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return boolValue(v.s.s == ""), nil }},
		"length":      {fn: stringLength},
		"size":        {fn: stringLength},
		"bytesize":    {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return intValue(int64(len(v.s.s))), nil }},
		"include?":    {fn: stringIncludes, least: 1, most: 1},
		"start_with?": {fn: stringStarts, most: -1},
		"end_with?":   {fn: stringStarts, most: -1},
		"eql?": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return boolValue(a[0].kind == String && a[0].s.s == v.s.s), nil
		}, least: 1, most: 1},
		"casecmp": {fn: stringCasecmp, least: 1, most: 1}, "casecmp?": {fn: stringCasecmp, least: 1, most: 1},
		"valid_encoding?": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return boolValue(v.s.enc != utf8Text || valid(v.s.s)), nil
		}},
		"ascii_only?": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return boolValue(ascii(v.s.s)), nil }},
		"sum":         {fn: stringSum, most: 1}, "hash": {fn: stringSum},
		"dup": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.copyOf(v), nil }},
		"+@":  {fn: itself}, "-@": {fn: itself},
		"read": {fn: itself}, // what File.open gives is a String here
	}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func itself(m *Machine, n *call, v Value, a []Value) (Value, error) { return v, nil }

func stringAdd(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	if err := m.checkText(n, len(v.s.s)+len(a[0].s.s)); err != nil {
		return Value{}, err
	}
	w := m.str(v.s.s + a[0].s.s)
	w.s.enc = v.s.enc
	return w, nil
}

func stringRepeat(m *Machine, n *call, v Value, a []Value) (Value, error) {
	i, err := m.intArg(n, a[0])
	if err != nil {
		return Value{}, err
	}
	if i < 0 {
		return Value{}, m.raise(n, "ArgumentError", "negative argument")
	}
	if v.s.s == "" {
		return m.str(""), nil
	}
	if err := m.checkText(n, i*len(v.s.s)); err != nil {
		return Value{}, err
	}
	return m.str(strings.Repeat(v.s.s, i)), nil
}

func stringFormat(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if a[0].kind == ArrayKind {
		return m.sprintf(n, v.s.s, m.items(a[0]))
	}
	return m.sprintf(n, v.s.s, a)
}

// ordered is <, <=, > and >= of all classes that have an order.
func ordered(m *Machine, n *call, v Value, a []Value) (Value, error) {
	c, ok := m.compare(v, a[0])
	if !ok {
		if v.number() && a[0].number() {
			return boolValue(false), nil // NaN
		}
		return Value{}, m.raise(n, "ArgumentError", "comparison of %s with %s failed", v.class(), compared(a[0]))
	}
	switch n.name {
	case "<":
		return boolValue(c < 0), nil
	case "<=":
		return boolValue(c <= 0), nil
	case ">":
		return boolValue(c > 0), nil
	}
	return boolValue(c >= 0), nil
}

// compared names a value in the error of a comparison.
func compared(v Value) string {
	switch v.kind {
	case Nil, Bool, Int, Uint, Float:
		return v.Inspect()
	}
	return v.class()
}

func between(m *Machine, n *call, v Value, a []Value) (Value, error) {
	lo, ok := m.compare(v, a[0])
	if !ok {
		return Value{}, m.incomparable(n, v, a[0])
	}
	if lo < 0 {
		return boolValue(false), nil
	}
	hi, ok := m.compare(v, a[1])
	if !ok {
		return Value{}, m.incomparable(n, v, a[1])
	}
	return boolValue(hi <= 0), nil
}

func clamp(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if len(a) == 1 {
		if a[0].kind != RangeKind {
			return Value{}, m.raise(n, "TypeError", "wrong argument type %s (expected Range)", a[0].class())
		}
		if a[0].bits != 0 && !a[0].o.items[1].IsNil() {
			return Value{}, m.raise(n, "ArgumentError", "cannot clamp with an exclusive range")
		}
		a = a[0].o.items
	}
	if !a[0].IsNil() && !a[1].IsNil() {
		c, ok := m.compare(a[0], a[1])
		if !ok {
			return Value{}, m.incomparable(n, a[0], a[1])
		}
		if c > 0 {
			return Value{}, m.raise(n, "ArgumentError", "min argument must be smaller than max argument")
		}
	}
	for i, end := range a {
		if end.IsNil() {
			continue
		}
		c, ok := m.compare(v, end)
		if !ok {
			return Value{}, m.incomparable(n, v, end)
		}
		if i == 0 && c < 0 || i == 1 && c > 0 {
			return end, nil
		}
	}
	return v, nil
}

func stringAt(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if a[0].kind == String || a[0].kind == Symbol {
		return Value{}, m.raise(n, "TypeError", "type mismatch: String given")
	}
	if a[0].kind != RegexpKind { // what it is asks its own =~
		return Value{}, nil
	}
	return regexpAt(m, n, a[0], []Value{v})
}

func stringMatch(m *Machine, n *call, v Value, a []Value) (Value, error) {
	re := a[0]
	if len(a) == 2 {
		if _, err := m.intArg(n, a[1]); err != nil {
			return Value{}, err
		}
		return Value{}, m.exceed(n, "%s with a position is not supported", n.name)
	}
	if re.kind == String {
		var err error
		if re, err = m.makeRegexp(n, re.s.s, rx.Options{}); err != nil {
			return Value{}, err
		}
	}
	if re.kind != RegexpKind {
		return Value{}, m.raise(n, "TypeError", "wrong argument type %s (expected Regexp)", re.class())
	}
	if n.name == "match?" {
		return regexpMatches(m, n, re, []Value{v})
	}
	x, err := regexpMatch(m, n, re, []Value{v})
	if n.block != nil && err == nil && !x.IsNil() {
		return m.yield(n.block, x)
	}
	return x, err
}

func stringAppend(m *Machine, n *call, v Value, a []Value) (Value, error) {
	for _, x := range a {
		s := ""
		switch {
		case x.kind == String:
			s = x.s.s
		case x.kind == Int && x.int() >= 0 && x.int() <= utf8.MaxRune:
			s = string(rune(x.int()))
		default:
			return Value{}, m.noConversion(n, x, "String")
		}
		if err := m.checkText(n, len(v.s.s)+len(s)); err != nil {
			return Value{}, err
		}
		m.mutated, v.s.s = true, v.s.s+s
	}
	return v, nil
}

func stringReplace(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	m.mutated, v.s.s, v.s.enc = true, a[0].s.s, a[0].s.enc
	return v, nil
}

func stringLength(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return intValue(int64(countChars(v.s, len(v.s.s)))), nil
}

// countChars is the number of characters in the first n bytes.
func countChars(t *text, n int) int {
	if t.enc != utf8Text {
		return n
	}
	return utf8.RuneCountInString(t.s[:n])
}

func stringIncludes(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	return boolValue(strings.Contains(v.s.s, a[0].s.s)), nil
}

func stringStarts(m *Machine, n *call, v Value, a []Value) (Value, error) {
	for _, x := range a {
		hit := false
		switch {
		case x.kind == RegexpKind && n.name == "start_with?":
			found, err := m.find(n, x.o.x.re.re, v)
			if err != nil {
				return Value{}, err
			}
			hit = found != nil && found.loc[0] == 0
		case x.kind != String:
			return Value{}, m.noConversion(n, x, "String")
		case n.name == "start_with?":
			hit = strings.HasPrefix(v.s.s, x.s.s)
		default:
			hit = strings.HasSuffix(v.s.s, x.s.s)
		}
		if hit {
			return boolValue(true), nil
		}
	}
	return boolValue(false), nil
}

func stringCasecmp(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if a[0].kind != v.kind {
		return Value{}, nil
	}
	if n.name == "casecmp?" {
		if !valid(v.s.s) || !valid(a[0].s.s) {
			return Value{}, m.raise(n, "ArgumentError", "input string invalid")
		}
		return boolValue(strings.EqualFold(v.s.s, a[0].s.s)), nil
	}
	return intValue(int64(strings.Compare(asciiLower(v.s.s), asciiLower(a[0].s.s)))), nil
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// stringSum is sum, and a hash that is the same in every process, unlike Ruby's.
func stringSum(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if len(a) == 1 {
		return Value{}, m.exceed(n, "sum of other than 16 bits is not supported")
	}
	if n.name == "sum" {
		sum := int64(0)
		for i := range len(v.s.s) {
			sum += int64(v.s.s[i])
		}
		return intValue(sum & 0xffff), nil
	}
	h := uint64(14695981039346656037)
	for i := range len(v.s.s) {
		h = (h ^ uint64(v.s.s[i])) * 1099511628211
	}
	return intValue(int64(h >> 2)), nil
}

// stringToSym is to_sym.
func stringToSym(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if v.s.enc == utf8Text && !valid(v.s.s) {
		return Value{}, m.raise(n, "EncodingError", "invalid symbol in encoding UTF-8 :%s", v.Inspect())
	}
	return m.symbol(v.s.s), nil
}
