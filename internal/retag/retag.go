// Package retag gives events new tags by the content of their records: Fluentd's
// rewrite_tag_filter. It is pure: what becomes of the events under their new tags is for
// the pipeline.
package retag

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/ruby/rx"
)

// Params are the parameters of <match> @type rewrite_tag_filter.
type Params struct {
	config.Plugin
	Capitalize      bool       `conf:"capitalize_regex_backreference" default:"false" doc:"write what $1 … stand for with a capital first letter"`
	RemovePrefix    string     `conf:"remove_tag_prefix" doc:"text at the beginning of the tag, and the dot behind it, that placeholders leave out"`
	RemoveRegexp    *rx.Regexp `conf:"remove_tag_regexp" doc:"what placeholders leave out of the tag"`
	HostnameCommand string     `conf:"hostname_command" default:"hostname" doc:"accepted for compatibility: ${hostname} is this host's name; commands are not run"`
	EmitMode        string     `conf:"emit_mode" enum:"batch|record" default:"batch" doc:"batch: events of one new tag go on together; record: their order is kept across tags"`
	Rules           []Rule     `section:"rule"`
}

// Rule is a <rule>.
type Rule struct {
	Key     string     `conf:"key" required:"true" doc:"field to look at, as a record accessor"`
	Pattern *rx.Regexp `conf:"pattern" required:"true" doc:"what its value must match"`
	Tag     string     `conf:"tag" required:"true" doc:"the new tag; placeholders $1, ${tag}, ${tag_parts[n]}, ${hostname}"`
	Label   string     `conf:"label" doc:"label that the events go to"`
	Invert  bool       `conf:"invert" default:"false" doc:"act when the value does not match"`
}

// Rewriter is a compiled rewrite_tag_filter. It is immutable.
type Rewriter struct {
	rules      []rule
	prefix     string
	remove     *rx.Regexp
	hostname   string
	capitalize bool
	ordered    bool // emit_mode record
}

type rule struct {
	path   event.Path
	match  *rx.Regexp
	line   bool // the pattern only takes the first line that is not empty, as /(.+)/ does
	invert bool
	label  string
	tag    []part
	pos    fluentconf.Pos
}

// Group is events that got the same new tag and label. It is valid until the Scratch is
// used again.
type Group struct {
	Tag, Label  string
	Entries     []byte
	Count       int
	First, Last event.Time
	own         []byte // memory for Entries when they are not the source itself
}

// ErrorSink takes events that could not be looked at.
type ErrorSink interface {
	// FilterError is told of one event, one whole entry, which is borrowed.
	FilterError(tag string, entry []byte, message string)
}

// Scratch is working memory for Apply. Each goroutine has its own; the groups of a call
// live in it.
type Scratch struct {
	// Errors takes the events that fail; nil if nobody wants them.
	Errors ErrorSink

	groups []Group
	value  []byte
	tag    []byte
	match  []int
	tags   map[string]string // tags seen, so that a known one costs no allocation
}

// maxTags bounds how many tags a Scratch remembers.
const maxTags = 4096

// Apply decides the new tag of each entry of src and returns the events grouped by it, and
// how many end here: no rule took them, or their tag did not change and no label was given.
// An event fails if the way to a rule's key goes through a value that is no map, or if there
// is nothing to write with a capital letter.
// Groups come in the order of their first event; with emit_mode record only neighbours are
// grouped. When all events go the same way the group's entries are src itself.
func (r *Rewriter) Apply(s *Scratch, tag string, src []byte) (groups []Group, dropped, failed int) {
	s.begin()
	short := r.shorten(tag)
	last, lo, at := ends, 0, 0 // src[lo:at] is a run that belongs to group last
	run, first, end := 0, event.Time(0), event.Time(0)
	flush := func() {
		if run > 0 && last >= 0 {
			s.groups[last].add(src[lo:at], run, first, end, lo == 0 && at == len(src))
		}
		switch last {
		case ends:
			dropped += run
		case fails:
			failed += run
		}
		lo, run = at, 0
	}
	for at < len(src) {
		e, n, err := event.Next(src[at:])
		if err != nil {
			break // cannot be: the entries were checked
		}
		g, wrong := r.group(s, tag, short, e.Record, last)
		if g == fails && s.Errors != nil {
			s.Errors.FilterError(tag, src[at:at+n], wrong)
		}
		if g != last {
			flush()
			last = g
		}
		if run == 0 || e.Time < first {
			first = e.Time
		}
		if run == 0 || e.Time > end {
			end = e.Time
		}
		run++
		at += n
	}
	flush()
	return s.groups, dropped, failed
}

// What group says of a record without a group.
const (
	ends  = -1 // it ends here
	fails = -2 // wrong says why
)

// group finds the group of a record. last is that of the record before.
func (r *Rewriter) group(s *Scratch, tag, short string, record []byte, last int) (g int, wrong string) {
	for i := range r.rules {
		ru := &r.rules[i]
		fires, through := ru.fires(s, record)
		switch {
		case through:
			return fails, "rewrite_tag_filter: the way to " + ru.path.String() + " goes through a value that is no map"
		case !fires:
			continue
		case r.capitalize && !ru.invert && s.matchedInPart():
			return fails, "rewrite_tag_filter: a group of the pattern has no part in the match, there is nothing to capitalize"
		}
		s.tag = r.expand(s, s.tag[:0], ru, short)
		if ru.label == "" && string(s.tag) == tag {
			return ends, ""
		}
		if last >= 0 && s.groups[last].is(s.tag, ru.label) {
			return last, ""
		}
		if !r.ordered {
			for g := range s.groups {
				if s.groups[g].is(s.tag, ru.label) {
					return g, ""
				}
			}
		}
		return s.open(ru.label), ""
	}
	return ends, ""
}

// matchedInPart says whether a group had no part in the match.
func (s *Scratch) matchedInPart() bool {
	for i := 0; i < len(s.match); i += 2 {
		if s.match[i] < 0 {
			return true
		}
	}
	return false
}

// fires says whether the rule acts, and leaves value and match in s. It cannot be said if the
// way to the value goes through one that is no map.
func (ru *rule) fires(s *Scratch, record []byte) (fires, through bool) {
	s.value = s.value[:0]
	s.match = s.match[:0]
	v, ok, through := ru.path.Dig(record)
	if through {
		return false, true
	}
	if ok {
		s.value = appendValue(s.value, v)
	}
	if len(s.value) == 0 && !ru.invert { // whatever the pattern says of an empty text
		return false, false
	}
	if ru.line {
		lo := 0
		for lo < len(s.value) && s.value[lo] == '\n' {
			lo++
		}
		if lo == len(s.value) {
			return ru.invert, false
		}
		hi := len(s.value)
		if n := bytes.IndexByte(s.value[lo:], '\n'); n >= 0 {
			hi = lo + n
		}
		s.match = append(s.match, lo, hi, lo, hi)
		return !ru.invert, false
	}
	m, err := ru.match.AppendSubmatchIndex(s.match, s.value)
	if err != nil || m == nil {
		return err == nil && ru.invert, false
	}
	s.match = m
	return !ru.invert, false
}

// appendValue is the value as text, with bytes that are not UTF-8 as question marks.
func appendValue(dst, v []byte) []byte {
	b, _, err := event.Bytes(v, 0)
	if err != nil {
		return event.AppendText(dst, v)
	}
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	return event.AppendScrubbed(dst, b, "?")
}

func (s *Scratch) begin() {
	if s.tags == nil {
		s.tags = map[string]string{}
	}
	s.groups = s.groups[:0]
}

// open starts a group for the tag in s.tag.
func (s *Scratch) open(label string) int {
	tag, ok := s.tags[string(s.tag)]
	if !ok {
		if len(s.tags) >= maxTags {
			clear(s.tags)
		}
		tag = string(s.tag)
		s.tags[tag] = tag
	}
	if len(s.groups) < cap(s.groups) {
		s.groups = s.groups[:len(s.groups)+1]
		own := s.groups[len(s.groups)-1].own
		s.groups[len(s.groups)-1] = Group{Tag: tag, Label: label, own: own[:0]}
	} else {
		s.groups = append(s.groups, Group{Tag: tag, Label: label})
	}
	return len(s.groups) - 1
}

// Size is how much memory the scratch holds, so that its owner can let a large one go.
func (s *Scratch) Size() int {
	n := cap(s.value) + cap(s.tag)
	for _, g := range s.groups[:cap(s.groups)] {
		n += cap(g.own)
	}
	return n
}

func (g *Group) is(tag []byte, label string) bool { return g.Tag == string(tag) && g.Label == label }

// add appends a run of entries; whole says that they are all there are.
func (g *Group) add(entries []byte, n int, first, last event.Time, whole bool) {
	if g.Count == 0 || first < g.First {
		g.First = first
	}
	if g.Count == 0 || last > g.Last {
		g.Last = last
	}
	g.Count += n
	if whole {
		g.Entries = entries
		return
	}
	g.own = append(g.own, entries...)
	g.Entries = g.own
}

// shorten is the tag as placeholders see it.
func (r *Rewriter) shorten(tag string) string {
	switch {
	case r.prefix != "":
		if len(tag) >= len(r.prefix) && tag[:len(r.prefix)] == r.prefix {
			tag = tag[len(r.prefix):]
			if len(tag) > 0 && tag[0] == '.' {
				tag = tag[1:]
			}
		}
	case r.remove != nil:
		if m := r.remove.FindSubmatchIndex([]byte(tag)); m != nil {
			tag = tag[:m[0]] + tag[m[1]:]
		}
	}
	return tag
}

// appendCapitalized writes s with its first letter large and the others small.
func appendCapitalized(dst, s []byte) []byte {
	for i := 0; len(s) > 0; i++ {
		c, n := utf8.DecodeRune(s)
		if i == 0 {
			c = unicode.ToTitle(c)
		} else {
			c = unicode.ToLower(c)
		}
		dst = utf8.AppendRune(dst, c)
		s = s[n:]
	}
	return dst
}
