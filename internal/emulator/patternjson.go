package emulator

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// jsonPattern is "{ … }": a condition on the fields of a JSON message.
type jsonPattern struct {
	root condition
}

func (p *jsonPattern) match(message []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(message))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return false
	}
	if _, err := dec.Token(); err != io.EOF {
		return false
	}
	return p.root.holds(v)
}

// condition is a node of the expression.
type condition struct {
	op       string // "&&", "||", or a comparison
	children []condition

	path  []step
	value string
	quote bool
	re    *regexp.Regexp
}

// step is one part of a path: a member or an element.
type step struct {
	member  string
	element int // -1 for members
}

func (c *condition) holds(v any) bool {
	switch c.op {
	case "&&":
		for i := range c.children {
			if !c.children[i].holds(v) {
				return false
			}
		}
		return true
	case "||":
		for i := range c.children {
			if c.children[i].holds(v) {
				return true
			}
		}
		return false
	}
	field, exists := lookup(v, c.path)
	switch c.op {
	case "NOT EXISTS":
		return !exists
	case "EXISTS":
		return exists
	}
	if !exists {
		return false
	}
	switch c.op {
	case "IS NULL":
		return field == nil
	case "IS TRUE":
		return field == true
	case "IS FALSE":
		return field == false
	case "=":
		return c.equal(field)
	case "!=":
		return !c.equal(field)
	}
	n, ok := field.(json.Number)
	if !ok {
		return false
	}
	a, err1 := n.Float64()
	b, err2 := strconv.ParseFloat(c.value, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	switch c.op {
	case "<":
		return a < b
	case ">":
		return a > b
	case "<=":
		return a <= b
	}
	return a >= b
}

// equal compares with the value of the pattern, in which * is a wildcard.
func (c *condition) equal(field any) bool {
	var text string
	switch f := field.(type) {
	case string:
		text = f
	case json.Number:
		if !c.quote {
			a, err1 := f.Float64()
			b, err2 := strconv.ParseFloat(c.value, 64)
			if err1 == nil && err2 == nil {
				return a == b
			}
		}
		text = f.String()
	case bool:
		text = strconv.FormatBool(f)
	default:
		return false
	}
	if c.re != nil {
		return c.re.MatchString(text)
	}
	return wildcard(c.value, text)
}

// wildcard matches with * for any run of characters and nothing else special.
func wildcard(pattern, text string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == text
	}
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

func lookup(v any, steps []step) (any, bool) {
	for _, st := range steps {
		switch t := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = t[st.member]; !ok || st.element >= 0 {
				return nil, false
			}
		case []any:
			if st.element < 0 || st.element >= len(t) {
				return nil, false
			}
			v = t[st.element]
		default:
			return nil, false
		}
	}
	return v, true
}

// jsonParser reads the inside of "{ … }".
type jsonParser struct {
	s     string
	depth int
}

func parseJSONPattern(text string) (pattern, *apiError) {
	p := &jsonParser{s: text}
	root, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.space(); p.s != "" {
		return nil, errPattern("unexpected text '%s'", p.s)
	}
	return &jsonPattern{root}, nil
}

func (p *jsonParser) space() { p.s = strings.TrimLeft(p.s, " \t\r\n") }

func (p *jsonParser) take(text string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.s, text)
	if ok {
		p.s = rest
	}
	return ok
}

func (p *jsonParser) or() (condition, *apiError) { return p.list("||", p.and) }

func (p *jsonParser) and() (condition, *apiError) { return p.list("&&", p.term) }

func (p *jsonParser) list(op string, next func() (condition, *apiError)) (condition, *apiError) {
	first, err := next()
	if err != nil {
		return first, err
	}
	c := condition{op: op, children: []condition{first}}
	for p.take(op) {
		child, err := next()
		if err != nil {
			return c, err
		}
		c.children = append(c.children, child)
	}
	if len(c.children) == 1 {
		return first, nil
	}
	return c, nil
}

// term is a parenthesis or a comparison.
func (p *jsonParser) term() (c condition, err *apiError) {
	if p.take("(") {
		if p.depth++; p.depth > 50 {
			return c, errPattern("too many parentheses")
		}
		if c, err = p.or(); err != nil {
			return c, err
		}
		p.depth--
		if !p.take(")") {
			return c, errPattern("missing ')' before '%s'", p.s)
		}
		return c, nil
	}
	if c.path, err = p.path(); err != nil {
		return c, err
	}
	for _, word := range []string{"IS NULL", "IS TRUE", "IS FALSE", "NOT EXISTS", "EXISTS"} {
		if p.words(word) {
			c.op = word
			return c, nil
		}
	}
	for _, op := range []string{"!=", "<=", ">=", "=", "<", ">"} {
		if p.take(op) {
			c.op = op
			return c, p.value(&c)
		}
	}
	return c, errPattern("an operator is missing before '%s'", p.s)
}

// words takes keywords in any case, separated by spaces.
func (p *jsonParser) words(keywords string) bool {
	p.space()
	rest := p.s
	for w := range strings.FieldsSeq(keywords) {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if len(rest) < len(w) || !strings.EqualFold(rest[:len(w)], w) {
			return false
		}
		rest = rest[len(w):]
	}
	p.s = rest
	return true
}

// path reads $.a.b[0]["c"].
func (p *jsonParser) path() ([]step, *apiError) {
	if !p.take("$") {
		return nil, errPattern("a field such as $.name is missing before '%s'", p.s)
	}
	var steps []step
	for p.s != "" {
		switch p.s[0] {
		case '.':
			n := 1
			for n < len(p.s) && !strings.ContainsRune(" \t\r\n.[]=!<>&|()\"", rune(p.s[n])) {
				n++
			}
			if n == 1 {
				return nil, errPattern("a field name is missing before '%s'", p.s)
			}
			steps = append(steps, step{p.s[1:n], -1})
			p.s = p.s[n:]
		case '[':
			end := strings.IndexByte(p.s, ']')
			if end < 0 {
				return nil, errPattern("missing ']' in '%s'", p.s)
			}
			inside := strings.Trim(p.s[1:end], " ")
			p.s = p.s[end+1:]
			if len(inside) >= 2 && (inside[0] == '"' || inside[0] == '\'') && inside[len(inside)-1] == inside[0] {
				steps = append(steps, step{inside[1 : len(inside)-1], -1})
				continue
			}
			i, err := strconv.Atoi(inside)
			if err != nil || i < 0 {
				return nil, errPattern("'%s' is not the number of an element", inside)
			}
			steps = append(steps, step{element: i})
		default:
			return steps, p.nonEmpty(steps)
		}
	}
	return steps, p.nonEmpty(steps)
}

func (p *jsonParser) nonEmpty(steps []step) *apiError {
	if len(steps) == 0 {
		return errPattern("a field such as $.name is missing before '%s'", p.s)
	}
	return nil
}

// value reads the right side of a comparison.
func (p *jsonParser) value(c *condition) *apiError {
	p.space()
	if p.s == "" {
		return errPattern("a value is missing after '%s'", c.op)
	}
	ordered := c.op != "=" && c.op != "!="
	switch {
	case p.s[0] == '"':
		text, n, ok := parseQuoted(p.s)
		if !ok {
			return errPattern("Unterminated quote in '%s'", p.s)
		}
		c.value, c.quote, p.s = text, true, p.s[n:]
	case p.s[0] == '%':
		m, n, err := parseRegexp(p.s)
		if err != nil {
			return err
		}
		c.re, p.s = m.re, p.s[n:]
	default:
		n := strings.IndexAny(p.s, " \t\r\n&|()")
		if n < 0 {
			n = len(p.s)
		}
		if n == 0 {
			return errPattern("a value is missing before '%s'", p.s)
		}
		c.value, p.s = p.s[:n], p.s[n:]
	}
	if _, err := strconv.ParseFloat(c.value, 64); ordered && (c.quote || c.re != nil || err != nil) {
		return errPattern("'%s' needs a number", c.op)
	}
	return nil
}
