package router

import (
	"fmt"
	"math/bits"
	"strings"
)

// op is one step of a compiled glob.
type op uint8

const (
	opLit   op = iota // exactly this text
	opStar            // *: any text without a dot
	opAny             // **: any text without a newline
	opParts           // **. : any text that ends in a dot, or nothing at the very beginning
	opEdge            // what `.` before ** leaves: the end of the tag or a dot comes next
	opAlt             // {x,y}
)

// inst is one instruction. Programs are trees only where braces are.
type inst struct {
	op   op
	lit  string
	alts [][]inst
}

// maxNest bounds nested braces, which are walked by recursion.
const maxNest = 32

// globParser follows Fluentd's own scanner, whose one oddity is the pending dot: a dot is
// only taken for a dot when what follows is not **, and is forgotten at the pattern's end.
type globParser struct {
	pat   string
	pos   int
	depth int
	dot   bool
}

func compileGlob(pat string) ([]inst, error) {
	g := &globParser{pat: pat}
	return g.sequence()
}

// sequence reads up to the pattern's end or the comma or brace that ends an alternative.
func (g *globParser) sequence() ([]inst, error) {
	var out []inst
	for g.pos < len(g.pat) {
		if strings.HasPrefix(g.pat[g.pos:], "**") {
			out = g.any(out)
			continue
		}
		if g.dot {
			g.dot = false
			out = literal(out, ".")
		}
		switch c := g.pat[g.pos]; {
		case c == '\\':
			g.pos++
			if g.pos < len(g.pat) {
				out = literal(out, g.pat[g.pos:g.pos+1])
			}
		case c == '.':
			g.dot = true
		case c == '*':
			out = append(out, inst{op: opStar})
		case c == '{':
			alt, err := g.braces()
			if err != nil {
				return nil, err
			}
			out = append(out, alt)
			continue
		case (c == '}' || c == ',') && g.depth > 0:
			return out, nil
		default:
			out = literal(out, g.pat[g.pos:g.pos+1])
		}
		g.pos++
	}
	return out, nil
}

func (g *globParser) any(out []inst) []inst {
	if g.dot {
		g.dot = false
		out = append(out, inst{op: opEdge})
	}
	g.pos += 2
	if g.pos < len(g.pat) && g.pat[g.pos] == '.' {
		g.pos++
		return append(out, inst{op: opParts})
	}
	return append(out, inst{op: opAny})
}

// braces reads {x,y}; the end of the pattern closes what is open.
func (g *globParser) braces() (inst, error) {
	if g.depth++; g.depth > maxNest {
		return inst{}, fmt.Errorf("%w %q: braces are nested deeper than %d", ErrPattern, g.pat, maxNest)
	}
	alt := inst{op: opAlt}
	for more := true; more; {
		g.pos++ // behind { or ,
		branch, err := g.sequence()
		if err != nil {
			return inst{}, err
		}
		alt.alts = append(alt.alts, branch)
		more = g.pos < len(g.pat) && g.pat[g.pos] == ','
	}
	g.pos++ // behind }
	g.depth--
	return alt, nil
}

// literal appends a text, joining it with one before.
func literal(out []inst, s string) []inst {
	if n := len(out); n > 0 && out[n-1].op == opLit {
		out[n-1].lit += s
		return out
	}
	return append(out, inst{op: opLit, lit: s})
}

// matchGlob says whether the program matches the whole tag; one newline at the tag's end
// is let through, as by Ruby's \Z.
func matchGlob(prog []inst, tag string) bool {
	start := 0
	if len(prog) > 0 && prog[0].op == opLit {
		if !strings.HasPrefix(tag, prog[0].lit) {
			return false
		}
		start = len(prog[0].lit)
		prog = prog[1:]
	}
	rest := tag[start:]
	switch len(prog) {
	case 0:
		return rest == "" || rest == "\n"
	case 1:
		switch prog[0].op {
		case opStar: // app.*
			return strings.IndexByte(rest, '.') < 0
		case opAny: // app**
			return oneLine(rest)
		}
	case 2:
		if prog[0].op == opEdge && prog[1].op == opAny { // app.**
			return (rest == "" || rest[0] == '.') && oneLine(rest)
		}
		if prog[0].op == opParts && start == 0 && prog[1].op == opLit { // **.app
			return matchSuffix(tag, prog[1].lit)
		}
	}
	return matchSets(prog, tag, start)
}

// oneLine says whether .* followed by \Z matches.
func oneLine(s string) bool {
	i := strings.IndexByte(s, '\n')
	return i < 0 || i == len(s)-1
}

func matchSuffix(tag, lit string) bool {
	for range 2 {
		if head, ok := strings.CutSuffix(tag, lit); ok && (head == "" || head[len(head)-1] == '.' && !strings.Contains(head, "\n")) {
			return true
		}
		var ok bool
		if tag, ok = strings.CutSuffix(tag, "\n"); !ok {
			return false
		}
	}
	return false
}

// set is a set of offsets in a tag, one bit each. All paths through a pattern are followed
// at once, so that the time is bounded by pattern length times tag length.
type set []uint64

func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

// stackWords lets tags up to 511 bytes do without allocation.
const stackWords = 8

func matchSets(prog []inst, tag string, start int) bool {
	var small [stackWords]uint64
	s := set(small[:])
	if n := len(tag)>>6 + 1; n > stackWords {
		s = make(set, n)
	}
	s.add(start)
	s = run(prog, tag, s)
	n := len(tag)
	return s.has(n) || n > 0 && tag[n-1] == '\n' && s.has(n-1)
}

// run moves the set s through the program and returns it; s is overwritten.
func run(prog []inst, tag string, s set) set {
	for i := range prog {
		in := &prog[i]
		switch in.op {
		case opLit:
			stepLit(in.lit, tag, s)
		case opStar:
			spread(tag, s, '.')
		case opAny:
			spread(tag, s, '\n')
		case opParts:
			stepParts(tag, s)
		case opEdge:
			stepEdge(tag, s)
		case opAlt:
			stepAlt(in.alts, tag, s)
		}
	}
	return s
}

func stepLit(lit, tag string, s set) {
	// From the end, so that an offset set here is not visited again.
	for w := len(s) - 1; w >= 0; w-- {
		for m := s[w]; m != 0; {
			b := 63 - bits.LeadingZeros64(m)
			m &^= 1 << b
			s[w] &^= 1 << b
			if p := w<<6 + b; strings.HasPrefix(tag[p:], lit) {
				s.add(p + len(lit))
			}
		}
	}
}

// spread adds what is reached by passing over bytes other than stop.
func spread(tag string, s set, stop byte) {
	on := false
	for p := 0; p <= len(tag); p++ {
		if on {
			s.add(p)
		} else {
			on = s.has(p)
		}
		if p < len(tag) && tag[p] == stop {
			on = false
		}
	}
}

func stepParts(tag string, s set) {
	on := false
	for p := 0; p <= len(tag); p++ {
		// Reached: behind a dot that some start stands before, or the very beginning.
		reached := on && tag[p-1] == '.' || p == 0 && s.has(0)
		here := s.has(p)
		if p > 0 && tag[p-1] == '\n' {
			on = false
			reached = false
		}
		on = on || here
		s[p>>6] &^= 1 << (p & 63)
		if reached {
			s.add(p)
		}
	}
}

func stepEdge(tag string, s set) {
	for p := 0; p < len(tag); p++ {
		if tag[p] != '.' {
			s[p>>6] &^= 1 << (p & 63)
		}
	}
}

func stepAlt(alts [][]inst, tag string, s set) {
	var smallSum, smallOne [stackWords]uint64
	var sum, one set
	if len(s) > stackWords {
		sum, one = make(set, len(s)), make(set, len(s))
	} else {
		sum, one = smallSum[:len(s)], smallOne[:len(s)]
	}
	for _, a := range alts {
		copy(one, s)
		for i, w := range run(a, tag, one) {
			sum[i] |= w
		}
	}
	copy(s, sum)
}
