// Package router decides where events go by their tag: it compiles Fluentd's match
// patterns and keeps the rules of one routing context (the root or a label) in order.
package router

import (
	"errors"
	"fmt"
	"strings"

	"weir/internal/ruby/rx"
)

// ErrPattern is wrapped by every error about a match pattern.
var ErrPattern = errors.New("invalid match pattern")

// Pattern is the compiled argument of <match> or <filter>: one or more alternatives
// separated by blanks. It is immutable.
type Pattern struct {
	text string
	alts []alternative
	all  bool // some alternative matches every tag
}

// alternative is one compiled glob or regular expression.
type alternative struct {
	re   *rx.Regexp
	prog []inst
}

// Compile compiles the argument of <match> or <filter>. Without an argument everything
// matches. The rules are Fluentd's: * is any text without a dot, ** any text, `a.**` also
// matches `a` and `**.a` also `a`, {x,y} alternatives, \c a literal character, /…/ an
// anchored regular expression.
func Compile(arg string) (*Pattern, error) {
	p := &Pattern{text: arg}
	words := strings.Fields(arg)
	if len(words) == 0 {
		words = []string{"**"}
	}
	for _, w := range words {
		if w == "**" {
			p.all = true
			continue
		}
		if w[0] == '/' {
			re, err := compileRegexp(w)
			if err != nil {
				return nil, err
			}
			p.alts = append(p.alts, alternative{re: re})
			continue
		}
		prog, err := compileGlob(w)
		if err != nil {
			return nil, err
		}
		p.alts = append(p.alts, alternative{prog: prog})
	}
	return p, nil
}

func compileRegexp(w string) (*rx.Regexp, error) {
	if len(w) < 2 || w[len(w)-1] != '/' {
		return nil, fmt.Errorf("%w %q: a regular expression is written /…/ and contains no blank (blanks separate patterns)", ErrPattern, w)
	}
	re, err := rx.Compile(`\A`+w[1:len(w)-1]+`\Z`, rx.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrPattern, w, err)
	}
	return re, nil
}

// String is the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// All says whether the pattern matches every tag because ** is among its alternatives.
func (p *Pattern) All() bool { return p.all }

// Match says whether the tag matches.
func (p *Pattern) Match(tag string) bool {
	if p.all {
		return true
	}
	for i := range p.alts {
		a := &p.alts[i]
		if a.re != nil {
			if a.re.Match([]byte(tag)) {
				return true
			}
		} else if matchGlob(a.prog, tag) {
			return true
		}
	}
	return false
}

// covers says whether p certainly takes every tag that q takes.
func (p *Pattern) covers(q *Pattern) bool {
	if p.all || p.text == q.text {
		return true
	}
	if q.all {
		return false
	}
	for i := range q.alts {
		covered := false
		for j := range p.alts {
			covered = covered || p.alts[j].covers(&q.alts[i])
		}
		if !covered {
			return false
		}
	}
	return true
}

func (a *alternative) covers(b *alternative) bool {
	if a.re != nil || b.re != nil {
		return a.re != nil && b.re != nil && a.re.String() == b.re.String()
	}
	lead := ""
	rest := b.prog
	if len(rest) > 0 && rest[0].op == opLit {
		lead, rest = rest[0].lit, rest[1:]
	}
	if len(rest) == 0 {
		return matchGlob(a.prog, lead)
	}
	if len(a.prog) < 2 || a.prog[0].op != opLit {
		return false
	}
	tail, ok := strings.CutPrefix(lead, a.prog[0].lit)
	switch {
	case !ok:
		return false
	case len(a.prog) == 2 && a.prog[1].op == opAny: // app**
		return true
	case len(a.prog) == 3 && a.prog[1].op == opEdge && a.prog[2].op == opAny: // app.**
		return strings.HasPrefix(tail, ".") || tail == "" && rest[0].op == opEdge
	}
	return false
}
