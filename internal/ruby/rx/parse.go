package rx

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// op is the kind of a node.
type op uint8

const (
	opEmpty   op = iota
	opChar       // one character out of set; fold says that set came from one folded letter
	opConcat     // kids in order
	opAlt        // one of kids
	opRepeat     // kids[0] min to max times, max -1 for any
	opGroup      // kids[0], captured as group
	opLine       // ^
	opLineEnd    // $
	opStart      // \A
	opEnd        // \z
	opEndLine    // \Z
	opWord       // \b
	opNotWord    // \B
	opLook       // (?=…) and its like
	opAtomic     // (?>…)
	opBackref    // \1, \k<n>
	opNewline    // \R
)

// node is a part of a parsed expression.
type node struct {
	op       op
	off      int // offset in the pattern
	set      set
	kids     []*node
	min, max int
	lazy     bool
	named    bool // a group with a name
	group    int  // number of a group or of the group referred to
	name     string
	behind   bool    // look: behind, not ahead
	negative bool    // look: must not match
	icase    bool    // backref
	inside   []*node // backref: the groups around it
	ascii    bool    // \b and \B under (?a)
}

// flags are the options in force at some place of a pattern.
type flags struct {
	icase, dotAll, extended bool
	mode                    byte // 0 (as d), 'a' or 'u'
}

// parser reads Ruby's syntax.
type parser struct {
	src    string
	pos    int
	opt    flags
	depth  int
	groups []*node // captures in order of their opening parenthesis
	refs   []*node
	named  bool
	open   []*node // captures being read, outermost first
}

func (p *parser) fail(off int, text string) error {
	return &Error{Pattern: p.src, Off: off, Text: text}
}

// parse reads the whole pattern.
func (p *parser) parse() (*node, error) {
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.src) {
		return nil, p.fail(p.pos, "unmatched close parenthesis")
	}
	return n, p.number()
}

// number numbers the groups and resolves references to them. When some group has a name,
// groups without one do not capture.
func (p *parser) number() error {
	var kept []*node
	for _, g := range p.groups {
		if p.named && !g.named {
			g.op, g.group = opConcat, 0
			continue
		}
		kept = append(kept, g)
		g.group = len(kept)
	}
	if len(kept) > maxGroups {
		return p.fail(0, "too many groups")
	}
	p.groups = kept
	for _, r := range p.refs {
		if r.name == "" && slices.ContainsFunc(r.inside, func(g *node) bool { return g.group == r.group && g.op == opGroup }) {
			return p.fail(r.off, "a back-reference inside its own group is not supported")
		}
		if r.name == "" {
			if p.named {
				return p.fail(r.off, "numbered backref is not allowed beside named groups")
			}
			if r.group < 1 || r.group > len(kept) {
				return p.fail(r.off, "invalid backref number")
			}
			continue
		}
		for _, g := range kept {
			if g.name == r.name {
				if r.group != 0 {
					return p.fail(r.off, "a reference to a name that several groups have is not supported")
				}
				r.group = g.group
			}
		}
		if r.group == 0 {
			return p.fail(r.off, "undefined name <"+r.name+"> reference")
		}
		if slices.ContainsFunc(r.inside, func(g *node) bool { return g.name == r.name }) {
			return p.fail(r.off, "a back-reference inside its own group is not supported")
		}
	}
	return nil
}

func (p *parser) groupNames() []string {
	names := []string{""}
	for _, g := range p.groups {
		names = append(names, g.name)
	}
	return names
}

func (p *parser) more() bool { return p.pos < len(p.src) }

func (p *parser) has(prefix string) bool { return strings.HasPrefix(p.src[p.pos:], prefix) }

// next reads one character.
func (p *parser) next() rune {
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	return r
}

// alternatives reads a|b|c up to a closing parenthesis or the end. Options that are changed
// inside hold until there.
func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail(p.pos, "nested too deeply")
	}
	saved := p.opt
	defer func() { p.opt = saved; p.depth-- }()
	alt := &node{op: opAlt, off: p.pos}
	for {
		b, err := p.branch()
		if err != nil {
			return nil, err
		}
		alt.kids = append(alt.kids, b)
		if !p.more() || p.src[p.pos] != '|' {
			break
		}
		p.pos++
	}
	if len(alt.kids) == 1 {
		return alt.kids[0], nil
	}
	return alt, nil
}

// branch reads a sequence of quantified atoms.
func (p *parser) branch() (*node, error) {
	seq := &node{op: opConcat, off: p.pos}
	for {
		p.skipExtended()
		if !p.more() || p.src[p.pos] == '|' || p.src[p.pos] == ')' {
			return seq, nil
		}
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n == nil { // a comment or an option
			continue
		}
		if n, err = p.quantifiers(n); err != nil {
			return nil, err
		}
		seq.kids = append(seq.kids, n)
	}
}

// skipExtended passes over what (?x) ignores.
func (p *parser) skipExtended() {
	for p.opt.extended && p.more() {
		switch c := p.src[p.pos]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			p.pos++
		case c == '#':
			if i := strings.IndexByte(p.src[p.pos:], '\n'); i >= 0 {
				p.pos += i + 1
			} else {
				p.pos = len(p.src)
			}
		default:
			return
		}
	}
}

// quantifiers reads *, +, ?, {n,m} with ? and + behind them, as often as they come.
func (p *parser) quantifiers(n *node) (*node, error) {
	for i := 0; ; i++ {
		p.skipExtended()
		if !p.more() {
			return n, nil
		}
		if i > maxNesting {
			return nil, p.fail(p.pos, "nested too deeply")
		}
		off := p.pos
		q := &node{op: opRepeat, off: off, kids: []*node{n}, max: -1}
		interval := false
		switch p.src[p.pos] {
		case '*':
			p.pos++
		case '+':
			q.min = 1
			p.pos++
		case '?':
			q.max = 1
			p.pos++
		case '{':
			ok, err := p.interval(q)
			if err != nil {
				return nil, err
			}
			if !ok {
				return n, nil
			}
			interval = true
		default:
			return n, nil
		}
		switch {
		case p.has("?") && interval && q.min == q.max:
			// In Ruby {n}? is not lazy: it means (?:…{n})?.
		case p.has("?"):
			p.pos++
			q.lazy = true
		case p.has("+") && !interval:
			p.pos++
			q = &node{op: opAtomic, off: off, kids: []*node{q}}
		}
		n = q
	}
}

// interval reads {n}, {n,}, {,m} or {n,m}; ok is false when the brace is a plain character.
func (p *parser) interval(q *node) (ok bool, err error) {
	end := strings.IndexByte(p.src[p.pos:], '}')
	if end < 0 {
		return false, nil
	}
	low, high, ranged := strings.Cut(p.src[p.pos+1:p.pos+end], ",")
	lo, okLo := count(low)
	hi, okHi := count(high)
	if !okLo || !okHi || low == "" && high == "" {
		return false, nil
	}
	switch {
	case !ranged:
		hi = lo
	case high == "":
		hi = -1
	}
	const most = 100_000 // Onigmo's own limit
	if lo > most || hi > most {
		return false, p.fail(p.pos, "too big number in a repeat range")
	}
	if hi >= 0 && hi < lo {
		return false, p.fail(p.pos, "upper is smaller than lower in repeat range")
	}
	q.min, q.max = lo, hi
	p.pos += end + 1
	return true, nil
}

func count(s string) (int, bool) {
	if s == "" {
		return 0, true
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1 << 30, true
	}
	return n, true
}

// atom reads one element. nil without an error stands for what is none.
func (p *parser) atom() (*node, error) {
	off := p.pos
	switch c := p.next(); c {
	case '.':
		s := everything()
		if !p.opt.dotAll {
			s = oneOf("\n").negate()
		}
		return &node{op: opChar, off: off, set: s}, nil
	case '^':
		return &node{op: opLine, off: off}, nil
	case '$':
		return &node{op: opLineEnd, off: off}, nil
	case '[':
		s, err := p.topClass(off)
		return &node{op: opChar, off: off, set: s}, err
	case '(':
		return p.group(off)
	case '*', '+', '?':
		return nil, p.fail(off, "target of repeat operator is not specified")
	case '{':
		p.pos = off
		if ok, err := p.interval(&node{}); ok || err != nil {
			return nil, p.fail(off, "target of repeat operator is not specified")
		}
		p.pos = off + 1
		return p.char(off, '{'), nil
	case '\\':
		return p.escape(off)
	default:
		return p.char(off, c), nil
	}
}

// char makes the node of one character under the options in force.
func (p *parser) char(off int, c rune) *node {
	if p.opt.icase {
		return &node{op: opChar, off: off, set: cases(c)}
	}
	return &node{op: opChar, off: off, set: set{{c, c}}}
}

// single says whether the node is one certain character.
func (n *node) single() (rune, bool) {
	if n.op == opChar && len(n.set) == 1 && n.set[0].lo == n.set[0].hi {
		return n.set[0].lo, true
	}
	return 0, false
}

// minLen is the least number of characters that the node consumes, capped.
func (n *node) minLen() int {
	const most = 1 << 20
	switch n.op {
	case opChar, opNewline:
		return 1
	case opConcat, opGroup, opAtomic:
		sum := 0
		for _, k := range n.kids {
			sum = min(sum+k.minLen(), most)
		}
		return sum
	case opAlt:
		least := most
		for _, k := range n.kids {
			least = min(least, k.minLen())
		}
		return least
	case opRepeat:
		return min(n.kids[0].minLen()*min(n.min, most), most)
	}
	return 0
}

// captures says whether a group is inside.
func (n *node) captures() bool {
	return n.op == opGroup || slices.ContainsFunc(n.kids, (*node).captures)
}
