package rx

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// escape reads a backslash sequence outside a class.
func (p *parser) escape(off int) (*node, error) {
	if !p.more() {
		return nil, p.fail(off, "too short escape sequence")
	}
	if h, ok, err := p.shorthand(off); ok || err != nil {
		s := h.set
		if h.property && p.opt.icase {
			// Ruby folds these: \p{Lu} under (?i) takes small letters, \P{Lu} takes none.
			free := s
			if h.bound {
				free = nil
			}
			s = s.folded(free)
		}
		if h.negated {
			s = s.negate()
		}
		return &node{op: opChar, off: off, set: s}, err
	}
	simple := func(o op) (*node, error) {
		p.pos++
		return &node{op: o, off: off, ascii: p.opt.mode == 'a'}, nil
	}
	switch c := p.src[p.pos]; c {
	case 'A':
		return simple(opStart)
	case 'z':
		return simple(opEnd)
	case 'Z':
		return simple(opEndLine)
	case 'b':
		return simple(opWord)
	case 'B':
		return simple(opNotWord)
	case 'R':
		return simple(opNewline)
	case 'G', 'K', 'X':
		return nil, p.fail(off, "\\"+string(c)+" is not supported")
	case 'g':
		if strings.HasPrefix(p.src[p.pos+1:], "<") || strings.HasPrefix(p.src[p.pos+1:], "'") {
			return nil, p.fail(off, "calling a group (\\g) is not supported")
		}
	case 'k':
		if strings.HasPrefix(p.src[p.pos+1:], "<") || strings.HasPrefix(p.src[p.pos+1:], "'") {
			return p.namedRef(off)
		}
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.numberedRef(off)
	}
	runes, err := p.charEscape(off)
	if err != nil {
		return nil, err
	}
	if len(runes) == 1 {
		return p.char(off, runes[0]), nil
	}
	// \u{41 42}: a quantifier behind it concerns the last character only.
	seq := &node{op: opConcat, off: off}
	for _, r := range runes[:len(runes)-1] {
		seq.kids = append(seq.kids, p.char(off, r))
	}
	last, err := p.quantifiers(p.char(off, runes[len(runes)-1]))
	seq.kids = append(seq.kids, last)
	return seq, err
}

// shorthandSet is the meaning of \w, \p{…} and their like.
type shorthandSet struct {
	set      set
	negated  bool
	property bool
	bound    bool // does not fold between ASCII and other characters
}

// shorthand reads \w, \d, \s, \h, \p{…} and their negations; ok is false if it is none.
func (p *parser) shorthand(off int) (h shorthandSet, ok bool, err error) {
	c := p.src[p.pos]
	wide := p.opt.mode == 'u'
	h.bound = !wide
	switch c {
	case 'w', 'W':
		if h.set = wordASCII(); wide {
			h.set = wordUnicode()
		}
	case 'd', 'D':
		if h.set = digits(); wide {
			h.set, _ = posix("digit")
		}
	case 's', 'S':
		if h.set = spaces(); wide {
			h.set = spaceUnicode()
		}
	case 'h', 'H':
		h.set = hexDigits()
	case 'p', 'P':
		if !strings.HasPrefix(p.src[p.pos+1:], "{") {
			return h, false, nil
		}
		h, err = p.propertyEscape(off)
		return h, err == nil, err
	default:
		return h, false, nil
	}
	p.pos++
	h.negated = c < 'a'
	return h, true, nil
}

func (p *parser) propertyEscape(off int) (shorthandSet, error) {
	h := shorthandSet{property: true}
	negated := p.src[p.pos] == 'P'
	end := strings.IndexByte(p.src[p.pos:], '}')
	if end < 0 {
		return h, p.fail(off, "invalid character property name")
	}
	name := p.src[p.pos+2 : p.pos+end]
	plain, caret := strings.CutPrefix(name, "^")
	var ok bool
	if h.set, ok = property(plain); !ok {
		return h, p.fail(off, "the character property {"+name+"} is not known")
	}
	p.pos += end + 1
	key := squeeze(plain)
	h.bound = key == "ascii"
	if _, bracket := posix(key); bracket && p.opt.mode == 'a' {
		h.set, h.bound = h.set.intersect(ascii()), true
	}
	h.negated = negated != caret
	return h, nil
}

// numberedRef reads \1 to \9, or more digits when there are so many groups; else it is an
// octal number.
func (p *parser) numberedRef(off int) (*node, error) {
	end := p.pos
	for end < len(p.src) && p.src[end] >= '0' && p.src[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(p.src[p.pos:end])
	if err == nil && (n <= 9 || n <= len(p.groups)) {
		p.pos = end
		return p.ref(&node{op: opBackref, off: off, group: n}), nil
	}
	if c := p.src[p.pos]; c >= '8' {
		p.pos++
		return p.char(off, rune(c)), nil
	}
	r, err := p.octal(off)
	if err != nil {
		return nil, err
	}
	return p.char(off, r), nil
}

func (p *parser) ref(n *node) *node {
	n.icase = p.opt.icase
	n.inside = slices.Clone(p.open)
	p.refs = append(p.refs, n)
	return n
}

// namedRef reads \k<name>, \k<1> and \k<-1>.
func (p *parser) namedRef(off int) (*node, error) {
	end := byte('>')
	if p.src[p.pos+1] == '\'' {
		end = '\''
	}
	i := strings.IndexByte(p.src[p.pos+2:], end)
	if i <= 0 {
		return nil, p.fail(off, "invalid group name <>")
	}
	name := p.src[p.pos+2 : p.pos+2+i]
	p.pos += 3 + i
	if name[0] != '-' && (name[0] < '0' || name[0] > '9') {
		if j := strings.LastIndexAny(name, "+-"); j > 0 {
			if _, err := strconv.Atoi(name[j:]); err == nil {
				return nil, p.fail(off, "a back-reference with a level is not supported")
			}
		}
		return p.ref(&node{op: opBackref, off: off, name: name}), nil
	}
	n, err := strconv.Atoi(name)
	if err != nil {
		return nil, p.fail(off, "a back-reference with a level is not supported")
	}
	if n < 0 {
		n += len(p.groups) + 1
	}
	if n < 1 {
		return nil, p.fail(off, "invalid backref number")
	}
	return p.ref(&node{op: opBackref, off: off, group: n}), nil
}

// octal reads up to three octal digits.
func (p *parser) octal(off int) (rune, error) {
	n, i := 0, 0
	for i < 3 && p.more() && p.src[p.pos] >= '0' && p.src[p.pos] <= '7' {
		n = n*8 + int(p.src[p.pos]-'0')
		p.pos++
		i++
	}
	if n > 0xff {
		return 0, p.fail(off, "invalid escape code")
	}
	if n >= utf8.RuneSelf {
		return p.bytesFrom(off, byte(n))
	}
	return rune(n), nil
}

// bytesFrom reads further \xHH escapes that make one UTF-8 character together with first.
func (p *parser) bytesFrom(off int, first byte) (rune, error) {
	b := []byte{first}
	for !utf8.FullRune(b) && p.has(`\x`) {
		n, err := p.hex(p.pos+2, 2)
		if err != nil {
			break
		}
		b = append(b, byte(n))
	}
	if r, n := utf8.DecodeRune(b); n == len(b) && !(r == utf8.RuneError && n == 1) {
		return r, nil
	}
	return 0, p.fail(off, "the bytes are no UTF-8 character")
}

// hex reads 1 to most hexadecimal digits at an offset and goes behind them.
func (p *parser) hex(at, most int) (uint32, error) {
	end := at
	for end < len(p.src) && end < at+most && strings.IndexByte("0123456789abcdefABCDEF", p.src[end]) >= 0 {
		end++
	}
	n, err := strconv.ParseUint(p.src[at:end], 16, 32)
	if err == nil {
		p.pos = end
	}
	return uint32(n), err
}

// charEscape reads an escape that stands for characters.
func (p *parser) charEscape(off int) ([]rune, error) {
	at := p.pos
	var r rune
	switch c := p.next(); c {
	case 't':
		r = '\t'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 'f':
		r = '\f'
	case 'v':
		r = '\v'
	case 'a':
		r = '\a'
	case 'e':
		r = 27
	case '0':
		p.pos = at
		var err error
		if r, err = p.octal(off); err != nil {
			return nil, err
		}
	case 'x':
		n, err := p.hex(p.pos, 2)
		if err != nil {
			return nil, p.fail(off, "invalid hex escape")
		}
		if r = rune(n); n >= utf8.RuneSelf {
			if r, err = p.bytesFrom(off, byte(n)); err != nil {
				return nil, err
			}
		}
	case 'u':
		return p.unicodeEscape(off)
	case 'c', 'C', 'M':
		var err error
		if r, err = p.control(off, c); err != nil {
			return nil, err
		}
	default:
		r = c
	}
	return []rune{r}, nil
}

// control reads \cx and \C-x.
func (p *parser) control(off int, kind rune) (rune, error) {
	if kind == 'M' || kind == 'C' && !p.has("-") {
		return 0, p.fail(off, "this escape is not supported")
	}
	if kind == 'C' {
		p.pos++
	}
	if !p.more() || p.src[p.pos] >= utf8.RuneSelf || p.src[p.pos] == '\\' {
		return 0, p.fail(off, "too short control escape")
	}
	c := p.next()
	if c == '?' {
		return 0x7f, nil
	}
	return c & 0x9f, nil
}

// unicodeEscape reads what follows \u.
func (p *parser) unicodeEscape(off int) ([]rune, error) {
	if !p.has("{") {
		start := p.pos
		n, err := p.hex(start, 4)
		if err != nil || p.pos != start+4 {
			return nil, p.fail(off, "invalid Unicode escape")
		}
		if !utf8.ValidRune(rune(n)) {
			return nil, p.fail(off, "invalid Unicode range")
		}
		return []rune{rune(n)}, nil
	}
	end := strings.IndexByte(p.src[p.pos:], '}')
	if end < 0 {
		return nil, p.fail(off, "invalid Unicode list")
	}
	var out []rune
	for _, f := range strings.Fields(p.src[p.pos+1 : p.pos+end]) {
		n, err := strconv.ParseUint(f, 16, 32)
		if err != nil {
			return nil, p.fail(off, "invalid Unicode list")
		}
		if n > maxRune || !utf8.ValidRune(rune(n)) {
			return nil, p.fail(off, "invalid Unicode range")
		}
		out = append(out, rune(n))
	}
	if len(out) == 0 {
		return nil, p.fail(off, "invalid Unicode list")
	}
	p.pos += end + 1
	return out, nil
}
