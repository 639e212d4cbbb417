package rx

import (
	"fmt"
	"strings"
	"unicode"
)

// target is an engine.
type target uint8

const (
	toRE2 target = iota
	toRegexp2
)

// emitter says a parsed expression again in the syntax of an engine. It notes for which
// subjects the result means the same.
type emitter struct {
	target    target
	b         strings.Builder
	asciiOnly bool
	noNewline bool
	bad       bool // RE2 cannot say it
}

// emit gives the expression; ok is false if the engine has no way to say it.
func (e *emitter) emit(root *node) (text string, ok bool) {
	e.node(root, false)
	return e.b.String(), !e.bad
}

func (e *emitter) write(s string) { e.b.WriteString(s) }

// either writes what the two engines call the same thing.
func (e *emitter) either(re2, regexp2 string) {
	if e.target == toRE2 {
		e.write(re2)
	} else {
		e.write(regexp2)
	}
}

// slowOnly writes a construct that RE2 lacks.
func (e *emitter) slowOnly(s string) {
	e.bad = e.bad || e.target == toRE2
	e.write(s)
}

// node writes n. fed says that characters must follow what n matches.
func (e *emitter) node(n *node, fed bool) {
	if e.bad {
		return
	}
	switch n.op {
	case opChar:
		e.char(n)
	case opConcat:
		e.concat(n, fed)
	case opAlt:
		e.write("(?:")
		for i, k := range n.kids {
			if i > 0 {
				e.write("|")
			}
			e.node(k, fed)
		}
		e.write(")")
	case opRepeat:
		e.repeat(n, fed)
	case opGroup:
		e.wrap("(", n.kids[0], fed)
	case opAtomic:
		e.slowOnly("")
		e.wrap("(?>", n.kids[0], false)
	case opLook:
		e.slowOnly("")
		e.wrap(lookOpen(n), n.kids[0], false)
	case opBackref:
		e.backref(n)
	default:
		e.anchor(n, fed)
	}
}

func (e *emitter) wrap(open string, n *node, fed bool) {
	e.write(open)
	e.node(n, fed)
	e.write(")")
}

func lookOpen(n *node) string {
	s := "(?"
	if n.behind {
		s += "<"
	}
	if n.negative {
		return s + "!"
	}
	return s + "="
}

// concat writes a sequence. For each element it is known whether characters must follow.
func (e *emitter) concat(n *node, fed bool) {
	follows := make([]bool, len(n.kids))
	for i := len(n.kids) - 1; i >= 0; i-- {
		follows[i] = fed
		fed = fed || n.kids[i].minLen() > 0
	}
	e.write("(?:")
	for i, k := range n.kids {
		e.node(k, follows[i])
	}
	e.write(")")
}

func (e *emitter) anchor(n *node, fed bool) {
	switch n.op {
	case opStart:
		e.write(`\A`)
	case opEnd:
		e.write(`\z`)
	case opLine:
		// Ruby's ^ does not match behind the newline that ends the subject. Where more
		// characters must follow, that makes no difference.
		if !fed {
			e.noNewline = true
		}
		e.either(`(?m:^)`, `(?:(?m:^)(?:(?!\z)|\A))`)
	case opLineEnd:
		e.either(`(?m:$)`, `(?=\n|\z)`)
	case opEndLine:
		e.noNewline = true
		e.either(`\z`, `(?=\n?\z)`)
	case opWord, opNotWord:
		e.boundary(n)
	case opNewline:
		e.slowOnly(`(?>\r\n|[\n-\r\u0085\u2028\u2029])`)
	}
}

// boundary writes \b or \B: Unicode-aware unless (?a).
func (e *emitter) boundary(n *node) {
	if e.target == toRE2 {
		e.asciiOnly = e.asciiOnly || !n.ascii
		e.write(map[bool]string{true: `\b`, false: `\B`}[n.op == opWord])
		return
	}
	word := wordUnicode()
	if n.ascii {
		word = wordASCII()
	}
	w := classText(word, toRegexp2)
	if n.op == opWord {
		e.write("(?:(?<=" + w + ")(?!" + w + ")|(?<!" + w + ")(?=" + w + "))")
	} else {
		e.write("(?:(?<=" + w + ")(?=" + w + ")|(?<!" + w + ")(?!" + w + "))")
	}
}

func (e *emitter) backref(n *node) {
	if n.icase {
		e.slowOnly(fmt.Sprintf(`(?i:\k<%d>)`, n.group))
		return
	}
	e.slowOnly(fmt.Sprintf(`\k<%d>`, n.group))
}

func (e *emitter) repeat(n *node, fed bool) {
	kid := n.kids[0]
	if n.min == 0 && n.max == 0 {
		// Nothing; but a group inside keeps its number.
		if !kid.captures() {
			e.write("(?:)")
			return
		}
	}
	// How often an empty turn of a loop counts, and what its groups hold afterwards,
	// differs from engine to engine.
	if kid.minLen() == 0 && n.max != 1 {
		e.slowOnly("")
	}
	e.wrap("(?:", kid, fed)
	switch {
	case n.min == 0 && n.max == -1:
		e.write("*")
	case n.min == 1 && n.max == -1:
		e.write("+")
	case n.min == 0 && n.max == 1:
		e.write("?")
	case n.max == -1:
		fmt.Fprintf(&e.b, "{%d,}", n.min)
	case n.min == n.max:
		fmt.Fprintf(&e.b, "{%d}", n.min)
	default:
		fmt.Fprintf(&e.b, "{%d,%d}", n.min, n.max)
	}
	if n.lazy {
		e.write("?")
	}
}

func (e *emitter) char(n *node) {
	if r, ok := n.single(); ok {
		e.write(literalText(r, e.target))
		return
	}
	e.write(classText(n.set, e.target))
}

// literalText writes one character so that no engine takes it for syntax.
func literalText(r rune, t target) string {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
		return string(r)
	case r > ' ' && r < 0x7f:
		return `\` + string(r)
	case t == toRE2:
		return fmt.Sprintf(`\x{%X}`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04X`, r)
	}
	return string(r)
}

// manyRanges is how many ranges regexp2 takes without trouble: it sorts the class anew for
// each of them.
const manyRanges = 40

// categories writes the general categories that are in s as a whole and returns the rest.
func categories(b *strings.Builder, s set) set {
	missing := s.negate()
	for _, name := range [...]string{"L", "M", "Nd", "Nl", "No", "P", "S", "Z", "Lu", "Ll", "Lo", "Mn", "Pc", "Po", "So"} {
		c := fromTable(unicode.Categories[name])
		if len(c.intersect(missing)) == 0 && len(c.intersect(s)) > 0 {
			b.WriteString(`\p{` + name + `}`)
			s = s.intersect(c.negate())
		}
	}
	return s
}

// classText writes a set as a class.
func classText(s set, t target) string {
	switch {
	case len(s) == 0 && t == toRE2:
		return `[^\x{0}-\x{10FFFF}]`
	case len(s) == 0:
		return `(?!)`
	case len(s) == 1 && s[0] == (runeRange{0, maxRune}):
		return `(?s:.)`
	}
	var b strings.Builder
	b.WriteByte('[')
	negated := s[0].lo == 0 && s[len(s)-1].hi == maxRune
	if negated {
		// [^\n] instead of two ranges: engines know it and are faster.
		b.WriteByte('^')
		s = s.negate()
	}
	if t == toRegexp2 && len(s) > manyRanges {
		s = categories(&b, s)
	}
	for _, r := range s {
		b.WriteString(literalText(r.lo, t))
		if r.hi > r.lo {
			if r.hi > r.lo+1 {
				b.WriteByte('-')
			}
			b.WriteString(literalText(r.hi, t))
		}
	}
	b.WriteByte(']')
	return b.String()
}
