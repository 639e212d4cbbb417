package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
)

// GrepParams are the parameters of @type grep.
type GrepParams struct {
	config.Plugin
	grepLegacy
	Regexps  []GrepRule  `section:"regexp"`
	Excludes []GrepRule  `section:"exclude"`
	And      []GrepGroup `section:"and"`
	Or       []GrepGroup `section:"or"`
}

// GrepRule compares one value of a record with a pattern.
type GrepRule struct {
	Key     string     `conf:"key" required:"true" doc:"field to look at, as a record accessor"`
	Pattern *rx.Regexp `conf:"pattern" required:"true" doc:"regular expression"`
}

// GrepGroup is an <and> or <or> section. It holds rules of one kind.
type GrepGroup struct {
	Regexps  []GrepRule `section:"regexp"`
	Excludes []GrepRule `section:"exclude"`
}

// Matcher is what grep needs of a regular expression.
type Matcher interface {
	Match(b []byte) bool
}

type condition struct {
	path    event.Path
	pattern Matcher
}

// Grep lets an event through if all of mustAll match, one of mustAny does (if there are
// any), not all of notAll do, and none of notAny does.
type Grep struct {
	mustAll, mustAny, notAll, notAny []condition
}

// NewGrep builds a Grep. Mistakes are noted in d; the result is then nil.
func NewGrep(p GrepParams, env Env, d *config.Diagnostics) Filter {
	b := grepBuilder{env: env, d: d}
	g := &Grep{}
	b.legacy(&p.Regexps, p.regexps(), "regexp")
	b.legacy(&p.Excludes, p.excludes(), "exclude")
	b.add(&g.mustAll, p.Regexps, "regexp")
	b.add(&g.notAny, p.Excludes, "exclude")
	for _, group := range p.And {
		b.oneKind(group, "and")
		b.add(&g.mustAll, group.Regexps, "regexp")
		b.add(&g.notAll, group.Excludes, "exclude")
	}
	for _, group := range p.Or {
		b.oneKind(group, "or")
		b.add(&g.mustAny, group.Regexps, "regexp")
		b.add(&g.notAny, group.Excludes, "exclude")
	}
	if b.failed {
		return nil
	}
	return g
}

type grepBuilder struct {
	env    Env
	d      *config.Diagnostics
	failed bool
}

func (b *grepBuilder) fail(text, hint string) {
	b.failed = true
	b.d.Error(b.env.Pos, "grep: "+text, hint)
}

// legacy appends the rules of numbered parameters.
func (b *grepBuilder) legacy(rules *[]GrepRule, params []string, name string) {
	for i, text := range params {
		if text == "" {
			continue
		}
		key, pattern, ok := strings.Cut(text, " ")
		if !ok {
			b.fail(fmt.Sprintf("%s%d has no pattern", name, i+1), fmt.Sprintf("write %s%d KEY PATTERN, or better a <%s> section", name, i+1, name))
			continue
		}
		// Here, unlike in the sections, slashes are part of the pattern.
		if len(pattern) > 1 && pattern[0] == '/' && pattern[len(pattern)-1] == '/' {
			b.d.Warn(b.env.Pos, fmt.Sprintf("grep: %s%d looks for the slashes around its pattern too", name, i+1), "write the pattern without them")
		}
		re, err := rx.Compile(pattern, rx.Options{})
		if err != nil {
			b.fail(fmt.Sprintf("%s%d: %v", name, i+1, err), "")
			continue
		}
		*rules = append(*rules, GrepRule{Key: key, Pattern: re})
	}
}

// oneKind refuses what Fluentd refuses: a group of both kinds has no clear meaning.
func (b *grepBuilder) oneKind(g GrepGroup, name string) {
	if len(g.Regexps) > 0 && len(g.Excludes) > 0 {
		b.fail(fmt.Sprintf("<%s> holds <regexp> and <exclude>", name), fmt.Sprintf("write one <%s> for each kind", name))
	}
}

func (b *grepBuilder) add(set *[]condition, rules []GrepRule, name string) {
	for _, r := range rules {
		path, err := event.ParsePath(r.Key)
		if err != nil {
			b.fail(fmt.Sprintf("<%s>: %v", name, err), "")
			continue
		}
		for _, c := range *set {
			if c.path.String() == r.Key {
				b.fail(fmt.Sprintf("two <%s> rules look at the key %s", name, r.Key), "join their patterns with | or put them into an <or> section")
			}
		}
		*set = append(*set, condition{path, r.Pattern})
	}
}

// Apply implements Filter. No event fails.
func (g *Grep) Apply(s *Scratch, tag string, src, dst []byte) (out []byte, kept, failed int) {
	run, i := 0, 0 // src[run:i] goes on and is not copied yet
	all := true
	for i < len(src) {
		e, n, err := event.Next(src[i:])
		if err != nil {
			break // cannot be: src has passed Check
		}
		pass, through := g.pass(s, e.Record)
		if through {
			s.pass(tag, "grep: the way to a key goes through a value that is no map")
		}
		if pass || through {
			kept++
		} else {
			dst = append(dst, src[run:i]...)
			run, all = i+n, false
		}
		i += n
	}
	if all {
		return src, kept, 0
	}
	return append(dst, src[run:i]...), kept, 0
}

// match says whether the pattern matches the value; what is not UTF-8 in it counts as ?, as
// in Fluentd. Nothing can be said if the way to the value goes through one that is no map.
func (c *condition) match(s *Scratch, record []byte) (hit, through bool) {
	v, ok, through := c.path.Dig(record)
	if through {
		return false, true
	}
	var text []byte
	if ok {
		var err error
		if text, _, err = event.Bytes(v, 0); err != nil {
			s.text = event.AppendText(s.text[:0], v)
			text = s.text
		}
	}
	if !utf8.Valid(text) {
		s.text = event.AppendScrubbed(s.text[:0], text, "?")
		text = s.text
	}
	return c.pattern.Match(text), false
}

// pass says whether an event goes on. It stops at the first condition that decides, and at
// one that cannot be asked: then the event goes on too, as in Fluentd.
func (g *Grep) pass(s *Scratch, record []byte) (pass, through bool) {
	if miss, through := some(s, g.mustAll, record, false); miss || through {
		return false, through
	}
	if len(g.mustAny) > 0 {
		if hit, through := some(s, g.mustAny, record, true); !hit {
			return false, through
		}
	}
	if len(g.notAll) > 0 {
		if miss, through := some(s, g.notAll, record, false); !miss {
			return false, through
		}
	}
	hit, through := some(s, g.notAny, record, true)
	return !hit, through
}

// some says whether one condition hits, or misses if want is false; and whether one could
// not be asked before that.
func some(s *Scratch, cs []condition, record []byte, want bool) (found, through bool) {
	for i := range cs {
		hit, through := cs[i].match(s, record)
		if through || hit == want {
			return !through, through
		}
	}
	return false, false
}
