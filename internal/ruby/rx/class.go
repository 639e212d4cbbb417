package rx

import "strings"

// members is what a class holds: all of it, and the part that folds freely between ASCII
// and other characters.
type members struct{ all, free set }

func (m members) negate() members { return members{m.all.negate(), m.free.negate()} }

// topClass reads a character class behind its opening bracket and works it out, negation,
// nested classes and && included. Cases are added to the whole before its own negation:
// [^a] under (?i) is neither a nor A.
func (p *parser) topClass(off int) (set, error) {
	m, negated, err := p.class(off)
	if err != nil {
		return nil, err
	}
	s := m.all
	if p.opt.icase {
		if len(s) == 1 && s[0].lo == s[0].hi && !negated {
			s = cases(s[0].lo)
		} else {
			s = s.folded(m.free)
		}
	}
	if negated {
		s = s.negate()
	}
	return s, nil
}

// class reads a class behind its opening bracket; its own negation is left to the caller.
func (p *parser) class(off int) (m members, negated bool, err error) {
	if p.depth++; p.depth > maxNesting {
		return m, false, p.fail(off, "nested too deeply")
	}
	defer func() { p.depth-- }()
	if p.has("^") {
		negated = true
		p.pos++
	}
	c := &classReader{p: p, off: off}
	if err := c.read(); err != nil {
		return m, false, err
	}
	return c.result(), negated, nil
}

// classReader collects the members of one class.
type classReader struct {
	p    *parser
	off  int
	sum  members // since the last &&
	both members // what was left of the last &&
	and  bool
}

func (c *classReader) add(m members) {
	c.sum.all = append(c.sum.all, m.all...)
	c.sum.free = append(c.sum.free, m.free...)
}

func (c *classReader) result() members {
	m := members{c.sum.all.normal(), c.sum.free.normal()}
	if c.and {
		m = members{c.both.all.intersect(m.all), c.both.free.intersect(m.free)}
	}
	return m
}

// plain makes the members of a range.
func plain(lo, hi rune) members {
	return members{set{{lo, hi}}, set{{lo, hi}}}
}

func (c *classReader) read() error {
	p := c.p
	first := true
	for ; ; first = false {
		if !p.more() {
			return p.fail(c.off, "premature end of char-class")
		}
		switch {
		case p.has("]"):
			if !first {
				p.pos++
				return nil
			}
			if !strings.Contains(p.src[p.pos+1:], "]") {
				return p.fail(c.off, "empty char-class")
			}
		case p.has("&&"):
			p.pos += 2
			c.both, c.and, c.sum = c.result(), true, members{}
			continue
		}
		if err := c.member(); err != nil {
			return err
		}
	}
}

// member reads a character, a range, a shorthand, a POSIX bracket or a nested class.
func (c *classReader) member() error {
	p := c.p
	off := p.pos
	lo, s, err := c.element()
	if err != nil {
		return err
	}
	// A '-' before the end of the class or before && is a plain character.
	ranged := p.has("-") && !p.has("-]") && !p.has("-&&")
	if s != nil {
		c.add(*s)
		if ranged && p.src[off] != '[' {
			return p.fail(p.pos, "unmatched range specifier in char-class; write \\-")
		}
		if ranged && strings.HasPrefix(p.src[off:], "[:") {
			return p.fail(p.pos, "unmatched range specifier in char-class; write \\-")
		}
		return nil
	}
	if !ranged {
		c.add(plain(lo, lo))
		return nil
	}
	p.pos++
	if p.has("[") {
		return p.fail(p.pos, "a range that ends in a class is not supported; write \\-")
	}
	hiOff := p.pos
	hi, s, err := c.element()
	switch {
	case err != nil:
		return err
	case s != nil:
		return p.fail(hiOff, "char-class value at end of range; write \\-")
	case hi < lo:
		return p.fail(off, "empty range in char class")
	}
	c.add(plain(lo, hi))
	// In [a-c-e] the second '-' is a plain character.
	if p.has("-") {
		p.pos++
		c.add(plain('-', '-'))
	}
	return nil
}

// element reads a single character, or a set.
func (c *classReader) element() (r rune, s *members, err error) {
	p := c.p
	off := p.pos
	switch ch := p.next(); ch {
	case '[':
		if p.has(":") {
			if s, ok, err := c.bracket(off); ok || err != nil {
				return 0, s, err
			}
		}
		m, negated, err := p.class(off)
		if negated {
			m = m.negate()
		}
		return 0, &m, err
	case '\\':
		return c.escape(off)
	default:
		return ch, nil, nil
	}
}

// bracket reads [:name:]; ok is false when it is none.
func (c *classReader) bracket(off int) (m *members, ok bool, err error) {
	p := c.p
	end := strings.Index(p.src[p.pos:], ":]")
	if end < 0 {
		return nil, false, nil
	}
	name, negated := strings.CutPrefix(p.src[p.pos+1:p.pos+max(end, 1)], "^")
	for i := range len(name) {
		if name[i] < 'a' || name[i] > 'z' {
			return nil, false, nil // [:…] as an ordinary nested class
		}
	}
	s, ok := posix(name)
	if !ok {
		return nil, false, p.fail(off, "invalid POSIX bracket type")
	}
	bound := p.opt.mode == 'a' || name == "ascii"
	if p.opt.mode == 'a' {
		s = s.intersect(ascii())
	}
	if negated {
		s = s.negate()
	}
	p.pos += end + 2
	m = &members{all: s}
	if !bound {
		m.free = s
	}
	return m, true, nil
}

// escape reads a backslash sequence inside a class.
func (c *classReader) escape(off int) (rune, *members, error) {
	p := c.p
	if !p.more() {
		return 0, nil, p.fail(off, "end pattern at escape")
	}
	if h, ok, err := p.shorthand(off); ok || err != nil {
		m := &members{all: h.set}
		if h.negated {
			m.all = h.set.negate()
		}
		if !h.bound {
			m.free = m.all
		}
		return 0, m, err
	}
	if p.has("b") {
		p.pos++
		return '\b', nil, nil
	}
	if p.src[p.pos] >= '1' && p.src[p.pos] <= '7' {
		r, err := p.octal(off)
		return r, nil, err
	}
	runes, err := p.charEscape(off)
	if err != nil {
		return 0, nil, err
	}
	if len(runes) == 1 {
		return runes[0], nil, nil
	}
	var s set
	for _, r := range runes {
		s = append(s, runeRange{r, r})
	}
	return 0, &members{s, s}, nil
}
