package rx

import (
	"strings"
	"unicode"
)

// group reads what begins with a parenthesis.
func (p *parser) group(off int) (*node, error) {
	if !p.has("?") {
		g := &node{op: opGroup, off: off}
		p.groups = append(p.groups, g)
		return p.closeGroup(g)
	}
	p.pos++
	look := func(skip int, behind, negative bool) (*node, error) {
		p.pos += skip
		return p.closeGroup(&node{op: opLook, off: off, behind: behind, negative: negative})
	}
	switch {
	case p.has(":"):
		p.pos++
		return p.closeGroup(&node{op: opConcat, off: off})
	case p.has("="):
		return look(1, false, false)
	case p.has("!"):
		return look(1, false, true)
	case p.has("<="):
		return look(2, true, false)
	case p.has("<!"):
		return look(2, true, true)
	case p.has(">"):
		p.pos++
		return p.closeGroup(&node{op: opAtomic, off: off})
	case p.has("#"):
		for p.more() {
			if c := p.next(); c == ')' {
				return nil, nil
			} else if c == '\\' && p.more() {
				p.next()
			}
		}
		return nil, p.fail(off, "end pattern in group")
	case p.has("<"):
		return p.namedGroup(off, '>')
	case p.has("'"):
		return p.namedGroup(off, '\'')
	case p.has("~"):
		return nil, p.fail(off, "the absence operator (?~…) is not supported")
	case p.has("("):
		return nil, p.fail(off, "a conditional (?(…)…) is not supported")
	}
	return p.options(off)
}

// closeGroup reads the inside of a group and its closing parenthesis.
func (p *parser) closeGroup(g *node) (*node, error) {
	if g.op == opGroup {
		p.open = append(p.open, g)
		defer func() { p.open = p.open[:len(p.open)-1] }()
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.more() {
		return nil, p.fail(g.off, "end pattern with unmatched parenthesis")
	}
	p.pos++
	g.kids = []*node{n}
	return g, nil
}

func (p *parser) namedGroup(off int, end byte) (*node, error) {
	p.pos++
	name, ok := p.groupName(end)
	if !ok {
		return nil, p.fail(off, "invalid group name <"+name+">")
	}
	g := &node{op: opGroup, off: off, name: name, named: true}
	p.named = true
	p.groups = append(p.groups, g)
	return p.closeGroup(g)
}

// groupName reads a name up to its end: it begins with a letter or '_' and holds no ')'.
func (p *parser) groupName(end byte) (string, bool) {
	i := strings.IndexByte(p.src[p.pos:], end)
	if i < 0 {
		return p.src[p.pos:], false
	}
	name := p.src[p.pos : p.pos+i]
	p.pos += i + 1
	for j, r := range name {
		if r == ')' || j == 0 && (r != '_' && !unicode.IsLetter(r)) {
			return name, false
		}
	}
	return name, name != ""
}

// options reads (?imx-imx) and (?imx-imx:…).
func (p *parser) options(off int) (*node, error) {
	o := p.opt
	on := true
	for p.more() {
		switch c := p.next(); c {
		case '-':
			on = false
		case 'i':
			o.icase = on
		case 'm':
			o.dotAll = on
		case 'x':
			o.extended = on
		case 'a', 'u', 'd':
			if !on {
				return nil, p.fail(off, "undefined group option")
			}
			o.mode = byte(c)
		case ':', ')':
			saved := p.opt
			p.opt = o
			if c == ':' {
				n, err := p.closeGroup(&node{op: opConcat, off: off})
				p.opt = saved
				return n, err
			}
			// The rest of the enclosing group, alternatives included, is under these options:
			// a(?i)b|c means a(?i:b|c).
			n, err := p.alternatives()
			p.opt = saved
			return n, err
		default:
			return nil, p.fail(off, "undefined group option")
		}
	}
	return nil, p.fail(off, "end pattern in group")
}
