package expr

import (
	"math"
	"strings"
	"unicode/utf8"
)

// knownMethod lists the methods of values, so that an unknown one is found when the
// expression is compiled.
func knownMethod(name string) bool {
	switch name {
	case "nil?", "to_s", "inspect", "empty?", "to_i", "to_f", "to_sym", "to_a",
		"upcase", "downcase", "capitalize", "swapcase", "strip", "lstrip", "rstrip", "chomp", "chop", "chomp!", "strip!",
		"split", "sub", "gsub", "tr", "delete_prefix", "delete_suffix", "start_with?", "end_with?", "include?", "length", "size", "reverse",
		"first", "last", "join", "fetch", "key?", "has_key?", "keys", "values", "zero?", "abs", "floor", "ceil", "round", "eql?", "to_str":
		return true
	}
	return false
}

// invocation is one method call on a value. Its methods return ok false for names that the
// class does not have.
type invocation struct {
	m    *machine
	n    *call
	recv Value
	args []Value
}

// count demands a number of arguments.
func (c *invocation) count(least, most int) error {
	if len(c.args) < least || len(c.args) > most {
		return c.m.raise(c.n, "wrong number of arguments for %s: %d", c.n.name, len(c.args))
	}
	return nil
}

// need demands arguments of one class.
func (c *invocation) need(k Kind, least, most int) error {
	if err := c.count(least, most); err != nil {
		return err
	}
	for _, a := range c.args {
		if a.kind != k {
			return c.m.raise(c.n, "no implicit conversion of %s into %s", a.describe(), k)
		}
	}
	return nil
}

// any has the methods of all classes.
func (c *invocation) any() (Value, bool, error) {
	switch c.n.name {
	case "nil?":
		return BoolValue(c.recv.IsNil()), true, c.count(0, 0)
	case "to_s":
		return StringValue(c.recv.ToS()), true, c.count(0, 0)
	case "inspect":
		return StringValue(c.recv.Inspect()), true, c.count(0, 0)
	case "==", "eql?":
		if err := c.count(1, 1); err != nil {
			return Value{}, true, err
		}
		same := c.n.name == "==" || c.recv.kind == c.args[0].kind
		return BoolValue(same && c.recv.Equal(c.args[0])), true, nil
	}
	return Value{}, false, nil
}

func (c *invocation) null() (Value, bool, error) {
	switch c.n.name {
	case "to_i":
		return IntValue(0), true, nil
	case "to_f":
		return FloatValue(0), true, nil
	case "to_a":
		return ArrayValue(nil), true, nil
	}
	return Value{}, false, nil
}

func (c *invocation) symbol() (Value, bool, error) {
	switch c.n.name {
	case "to_sym":
		return c.recv, true, nil
	case "length", "size":
		return IntValue(int64(utf8.RuneCountInString(c.recv.text))), true, nil
	case "upcase", "downcase", "capitalize", "empty?", "start_with?", "end_with?":
		v, ok, err := c.str()
		if v.kind == String {
			v.kind = Symbol
		}
		return v, ok, err
	}
	return Value{}, false, nil
}

// blanks is what strip removes.
const blanks = " \t\n\v\f\r\x00"

// str has the methods of String.
func (c *invocation) str() (Value, bool, error) {
	s := c.recv.text
	switch c.n.name {
	case "+":
		if err := c.need(String, 1, 1); err != nil {
			return Value{}, true, err
		}
		return StringValue(s + c.args[0].text), true, nil
	case "*":
		return c.repeat()
	case "<", "<=", ">", ">=", "<=>":
		if err := c.need(String, 1, 1); err != nil {
			return Value{}, true, err
		}
		return compare(c.n.name, strings.Compare(s, c.args[0].text)), true, nil
	case "to_i":
		return c.toInt()
	case "to_f":
		return FloatValue(leadingFloat(s)), true, c.count(0, 0)
	case "to_sym":
		return SymbolValue(s), true, c.count(0, 0)
	case "to_str":
		return c.recv, true, c.count(0, 0)
	case "empty?":
		return BoolValue(s == ""), true, c.count(0, 0)
	case "length", "size":
		return IntValue(int64(utf8.RuneCountInString(s))), true, c.count(0, 0)
	case "include?", "start_with?", "end_with?":
		return c.contains()
	case "[]":
		return c.slice()
	case "split":
		return c.split()
	}
	text, ok, err := c.strText()
	return StringValue(text), ok, err
}

// strText has the methods of String that give a String.
func (c *invocation) strText() (string, bool, error) {
	s := c.recv.text
	switch c.n.name {
	case "upcase":
		return strings.ToUpper(s), true, c.count(0, 0)
	case "downcase":
		return strings.ToLower(s), true, c.count(0, 0)
	case "capitalize":
		_, n := utf8.DecodeRuneInString(s)
		return strings.ToUpper(s[:n]) + strings.ToLower(s[n:]), true, c.count(0, 0)
	case "swapcase":
		return strings.Map(swapCase, s), true, c.count(0, 0)
	case "strip", "strip!":
		return strings.TrimLeft(strings.TrimRight(s, blanks), blanks), true, c.count(0, 0)
	case "lstrip":
		return strings.TrimLeft(s, blanks), true, c.count(0, 0)
	case "rstrip":
		return strings.TrimRight(s, blanks), true, c.count(0, 0)
	case "chomp", "chomp!":
		if len(c.args) == 1 {
			return strings.TrimSuffix(s, c.args[0].text), true, c.need(String, 1, 1)
		}
		s = strings.TrimSuffix(s, "\n")
		return strings.TrimSuffix(s, "\r"), true, c.count(0, 1)
	case "chop":
		_, n := utf8.DecodeLastRuneInString(s)
		return s[:len(s)-n], true, c.count(0, 0)
	case "reverse":
		r := []rune(s)
		for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
			r[i], r[j] = r[j], r[i]
		}
		return string(r), true, c.count(0, 0)
	case "delete_prefix", "delete_suffix":
		if err := c.need(String, 1, 1); err != nil {
			return "", true, err
		}
		if c.n.name == "delete_prefix" {
			return strings.TrimPrefix(s, c.args[0].text), true, nil
		}
		return strings.TrimSuffix(s, c.args[0].text), true, nil
	case "sub", "gsub":
		if err := c.need(String, 2, 2); err != nil {
			return "", true, err
		}
		text, err := c.replace(s, c.args[0].text, replacement(c.args[1].text, c.args[0].text))
		return text, true, err
	case "tr":
		if err := c.need(String, 2, 2); err != nil {
			return "", true, err
		}
		return translate(s, c.args[0].text, c.args[1].text), true, nil
	}
	return "", false, nil
}

func swapCase(r rune) rune {
	if u := []rune(strings.ToUpper(string(r))); len(u) == 1 && u[0] != r {
		return u[0]
	}
	if l := []rune(strings.ToLower(string(r))); len(l) == 1 {
		return l[0]
	}
	return r
}

// replace is sub and gsub, with the size of the result known before it is made.
func (c *invocation) replace(s, from, to string) (string, error) {
	n := 1
	if c.n.name == "gsub" {
		n = strings.Count(s, from)
	}
	if len(s)+n*len(to) > maxText+len(s) {
		return "", c.m.raise(c.n, "the text is longer than %d bytes", maxText)
	}
	if c.n.name == "sub" {
		return strings.Replace(s, from, to, 1), nil
	}
	return strings.ReplaceAll(s, from, to), nil
}

// replacement expands the back-references that Ruby knows in a replacement: \0 and \& stand
// for what was found, \\ for a backslash, other groups for nothing.
func replacement(to, found string) string {
	if !strings.Contains(to, `\`) {
		return to
	}
	var b strings.Builder
	for i := 0; i < len(to); i++ {
		if to[i] != '\\' || i+1 == len(to) {
			b.WriteByte(to[i])
			continue
		}
		i++
		switch c := to[i]; {
		case c == '0' || c == '&':
			b.WriteString(found)
		case c >= '1' && c <= '9':
		case c == '\\':
			b.WriteByte(c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// translate is tr with ranges and a leading ^.
func translate(s, from, to string) string {
	except := len(from) > 1 && from[0] == '^'
	if except {
		from = from[1:]
	}
	f, t := expand(from), expand(to)
	return strings.Map(func(r rune) rune {
		at := -1
		for i, x := range f {
			if x == r {
				at = i
				break
			}
		}
		if except {
			if at >= 0 {
				return r
			}
			at = len(t)
		}
		switch {
		case at < 0:
			return r
		case len(t) == 0:
			return -1
		case at >= len(t):
			return t[len(t)-1]
		}
		return t[at]
	}, s)
}

// expand writes out ranges such as a-z.
func expand(s string) []rune {
	var out []rune
	r := []rune(s)
	for i := 0; i < len(r); i++ {
		switch {
		case r[i] == '\\' && i+1 < len(r):
			i++
			out = append(out, r[i])
		case i+2 < len(r) && r[i+1] == '-' && r[i+2] >= r[i]:
			for x := r[i]; x <= r[i+2]; x++ {
				out = append(out, x)
			}
			i += 2
		default:
			out = append(out, r[i])
		}
	}
	return out
}

func compare(op string, n int) Value {
	switch op {
	case "<":
		return BoolValue(n < 0)
	case "<=":
		return BoolValue(n <= 0)
	case ">":
		return BoolValue(n > 0)
	case ">=":
		return BoolValue(n >= 0)
	}
	return IntValue(int64(n))
}

func (c *invocation) repeat() (Value, bool, error) {
	if err := c.need(Int, 1, 1); err != nil {
		return Value{}, true, err
	}
	n := c.args[0].Int()
	if n < 0 {
		return Value{}, true, c.m.raise(c.n, "negative argument")
	}
	if n > maxText || n*int64(len(c.recv.text)) > maxText {
		return Value{}, true, c.m.raise(c.n, "the text is longer than %d bytes", maxText)
	}
	return StringValue(strings.Repeat(c.recv.text, int(n))), true, nil
}

func (c *invocation) contains() (Value, bool, error) {
	if c.n.name == "include?" {
		if err := c.need(String, 1, 1); err != nil {
			return Value{}, true, err
		}
		return BoolValue(strings.Contains(c.recv.text, c.args[0].text)), true, nil
	}
	if err := c.need(String, 0, math.MaxInt); err != nil {
		return Value{}, true, err
	}
	for _, a := range c.args {
		if c.n.name == "start_with?" && strings.HasPrefix(c.recv.text, a.text) || c.n.name == "end_with?" && strings.HasSuffix(c.recv.text, a.text) {
			return BoolValue(true), true, nil
		}
	}
	return BoolValue(false), true, nil
}

// slice is s[i], s[i, n] and s["x"].
func (c *invocation) slice() (Value, bool, error) {
	if len(c.args) == 1 && c.args[0].kind == String {
		if strings.Contains(c.recv.text, c.args[0].text) {
			return c.args[0], true, nil
		}
		return Value{}, true, nil
	}
	if err := c.need(Int, 1, 2); err != nil {
		return Value{}, true, err
	}
	r := []rune(c.recv.text)
	i := c.args[0].Int()
	if i < 0 {
		i += int64(len(r))
	}
	n := int64(1)
	if len(c.args) == 2 {
		n = c.args[1].Int()
	} else if i == int64(len(r)) {
		return Value{}, true, nil
	}
	if i < 0 || i > int64(len(r)) || n < 0 {
		return Value{}, true, nil
	}
	return StringValue(string(r[i : min(int64(len(r))-i, n)+i])), true, nil
}

func (c *invocation) split() (Value, bool, error) {
	if len(c.args) > 0 && c.args[0].kind == Nil {
		c.args = c.args[1:]
	}
	if len(c.args) == 0 {
		c.args = []Value{StringValue(" ")}
	}
	limit := int64(0)
	if len(c.args) == 2 && c.args[1].kind == Int {
		limit, c.args = c.args[1].Int(), c.args[:1]
	}
	if err := c.need(String, 1, 1); err != nil {
		return Value{}, true, err
	}
	if n := strings.Count(c.recv.text, c.args[0].text); n > maxItems {
		return Value{}, true, c.m.raise(c.n, "the array has more than %d elements", maxItems)
	}
	parts := splitText(c.recv.text, c.args[0].text, int(max(min(limit, maxText), 0)))
	if limit == 0 {
		for len(parts) > 0 && parts[len(parts)-1] == "" {
			parts = parts[:len(parts)-1]
		}
	}
	out := make([]Value, len(parts))
	for i, p := range parts {
		out[i] = StringValue(p)
	}
	return ArrayValue(out), true, nil
}

// splitText cuts s at sep into at most limit parts (0: no limit). A single blank stands for
// runs of white space.
func splitText(s, sep string, limit int) []string {
	if s == "" {
		return nil
	}
	if limit == 0 {
		limit = -1
	}
	if sep != " " {
		return strings.SplitN(s, sep, limit)
	}
	if limit < 0 {
		parts := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(blanks, r) })
		if strings.IndexByte(blanks, s[len(s)-1]) >= 0 {
			parts = append(parts, "")
		}
		return parts
	}
	var out []string
	for s = strings.TrimLeft(s, blanks); len(out) < limit-1; {
		i := strings.IndexAny(s, blanks)
		if i < 0 {
			break
		}
		out = append(out, s[:i])
		s = strings.TrimLeft(s[i:], blanks)
	}
	return append(out, s)
}
