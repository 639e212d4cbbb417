package retag

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/ruby/rx"
)

// partKind says where a part of a tag template takes its text from.
type partKind uint8

const (
	literal partKind = iota
	capture          // group n of the match
	wholeTag
	tagPart // part n of the tag
	hostname
)

type part struct {
	kind partKind
	text string
	n    int
}

// placeholders are Fluentd's, known or not, and $n.
func placeholders() *regexp.Regexp {
	return regexp.MustCompile(`\$(\d+)|\$\{tag_parts\[(\d+)\]\}|__TAG_PARTS\[(\d+)\]__|\$\{[a-z_]+(?:\[[^\]]*\])?\}|__[A-Z_]+__`)
}

// simplePlaceholder is what Fluentd looks up; others it does not see.
var simplePlaceholder = regexp.MustCompile(`^\$\{[a-z_]+(\[[0-9]+\])?\}$`)

// New compiles p, which was read from the section s. Mistakes are noted in d; the result
// is then nil.
func New(s *fluentconf.Section, p Params, host string, d *config.Diagnostics) *Rewriter {
	before, decoded := len(d.Errors), true
	r := &Rewriter{prefix: p.RemovePrefix, remove: p.RemoveRegexp, hostname: host, capitalize: p.Capitalize, ordered: p.EmitMode == "record"}
	if p.RemovePrefix != "" && p.RemoveRegexp != nil {
		d.Error(s.Pos, "remove_tag_prefix and remove_tag_regexp exclude each other", "keep one of them")
	}
	if p.HostnameCommand != "" && p.HostnameCommand != "hostname" {
		d.Error(at(s, "hostname_command"), "weir does not run commands", `leave hostname_command out, or write the name into the tag with "#{hostname}" or "#{ENV['X']}"`)
	}
	for _, prm := range s.Params {
		if strings.HasPrefix(prm.Key, "rewriterule") {
			d.Error(prm.Pos, prm.Key+" is the old form of a rule", "write <rule> with key, pattern and tag")
		}
	}
	if len(p.Rules) == 0 {
		d.Error(s.Pos, "rewrite_tag_filter has no <rule>", "add one with key, pattern and tag")
	}
	sections := s.All("rule")
	seen := map[string]bool{}
	for i, ru := range p.Rules {
		pos := s.Pos
		if i < len(sections) {
			pos = sections[i].Pos
		}
		if ru.Pattern == nil {
			decoded = false // and reported then
			continue
		}
		id := fmt.Sprint(ru.Key, "\x00", ru.Invert, "\x00", ru.Pattern.String())
		if seen[id] {
			d.Error(pos, "there is a <rule> with the same key and pattern before: this one never acts", "remove it")
		}
		seen[id] = true
		r.rules = append(r.rules, r.compile(ru, pos, d))
	}
	if len(d.Errors) > before || !decoded {
		return nil
	}
	r.check(s, p.Label, d)
	return r
}

func at(s *fluentconf.Section, key string) fluentconf.Pos {
	if p := s.Get(key); p != nil {
		return p.Value.Pos
	}
	return s.Pos
}

func (r *Rewriter) compile(ru Rule, pos fluentconf.Pos, d *config.Diagnostics) rule {
	path, err := event.ParsePath(ru.Key)
	if err != nil {
		d.Error(pos, fmt.Sprintf("key %q: %v", ru.Key, err), "write a field's name, or $.a.b")
	}
	out := rule{path: path, match: ru.Pattern, invert: ru.Invert, label: ru.Label, pos: pos}
	switch ru.Pattern.String() {
	case "(.+)", "^(.+)$":
		out.line = ru.Pattern.Options() == (rx.Options{})
	}
	last := 0
	for _, m := range placeholders().FindAllStringSubmatchIndex(ru.Tag, -1) {
		if m[0] > last {
			out.tag = append(out.tag, part{kind: literal, text: ru.Tag[last:m[0]]})
		}
		last = m[1]
		text := ru.Tag[m[0]:m[1]]
		number := func(i int) int {
			n, err := strconv.Atoi(ru.Tag[m[i]:m[i+1]])
			if err != nil {
				n = 1 << 20
			}
			return n
		}
		switch {
		case m[2] >= 0:
			if !ru.Invert {
				out.tag = append(out.tag, part{kind: capture, n: number(2)})
			} else {
				out.tag = append(out.tag, part{kind: literal, text: text})
			}
		case m[4] >= 0:
			out.tag = append(out.tag, part{kind: tagPart, n: number(4)})
		case m[6] >= 0:
			out.tag = append(out.tag, part{kind: tagPart, n: number(6)})
		case text == "${tag}" || text == "__TAG__":
			out.tag = append(out.tag, part{kind: wholeTag})
		case text == "${hostname}" || text == "__HOSTNAME__":
			out.tag = append(out.tag, part{kind: hostname})
		case text[0] == '$' && !simplePlaceholder.MatchString(text): // in Fluentd, too, it goes into the tag as it is
			d.Warn(pos, fmt.Sprintf("tag %q: %s is no placeholder, a part of a tag has to be a single one, counted from 0", ru.Tag, text), "write ${tag_parts[0]}")
			out.tag = append(out.tag, part{kind: literal, text: text})
		default:
			d.Warn(pos, fmt.Sprintf("tag %q: unknown placeholder %s, it stands for nothing", ru.Tag, text), "known are $1, ${tag}, ${tag_parts[n]} and ${hostname}")
		}
	}
	if last < len(ru.Tag) {
		out.tag = append(out.tag, part{kind: literal, text: ru.Tag[last:]})
	}
	return out
}

// expand writes the new tag. What a placeholder gives is never looked through for
// placeholders again.
func (r *Rewriter) expand(s *Scratch, dst []byte, ru *rule, tag string) []byte {
	for i := range ru.tag {
		p := &ru.tag[i]
		switch p.kind {
		case literal:
			dst = append(dst, p.text...)
		case capture:
			if p.n == 0 || 2*p.n+1 >= len(s.match) || s.match[2*p.n] < 0 {
				continue
			}
			text := s.value[s.match[2*p.n]:s.match[2*p.n+1]]
			if r.capitalize {
				dst = appendCapitalized(dst, text)
			} else {
				dst = append(dst, text...)
			}
		case wholeTag:
			dst = append(dst, tag...)
		case tagPart:
			dst = appendPart(dst, tag, p.n)
		case hostname:
			dst = append(dst, r.hostname...)
		}
	}
	return dst
}

// appendPart writes part n of a tag, nothing if it has fewer.
func appendPart(dst []byte, tag string, n int) []byte {
	for ; n > 0; n-- {
		i := strings.IndexByte(tag, '.')
		if i < 0 {
			return dst
		}
		tag = tag[i+1:]
	}
	if i := strings.IndexByte(tag, '.'); i >= 0 {
		tag = tag[:i]
	}
	return append(dst, tag...)
}

// NewTag is what a rule without a label makes: Texts with something that depends on the
// event between each two of them. A single text is the whole tag.
type NewTag struct {
	Texts []string
	Whole []bool // whether the old tag stands between a text and the next, else it is a part of something
	Pos   fluentconf.Pos
}

// Tags lists the new tags of rules without a label.
func (r *Rewriter) Tags() []NewTag {
	var list []NewTag
	for i := range r.rules {
		ru := &r.rules[i]
		if ru.label != "" {
			continue
		}
		t := NewTag{Texts: []string{""}, Pos: ru.pos}
		for _, p := range ru.tag {
			if p.kind == literal {
				t.Texts[len(t.Texts)-1] += p.text
				continue
			}
			t.Texts = append(t.Texts, "")
			t.Whole = append(t.Whole, p.kind == wholeTag)
		}
		list = append(list, t)
	}
	return list
}

// Unchanged says that the new tag is the old one.
func (t *NewTag) Unchanged() bool {
	return len(t.Whole) == 1 && t.Whole[0] && t.Texts[0] == "" && t.Texts[1] == ""
}

// With is the tag for one value of what depends on the event, and one old tag.
func (t *NewTag) With(value, old string) string {
	out := t.Texts[0]
	for i, whole := range t.Whole {
		if whole {
			out += old
		} else {
			out += value
		}
		out += t.Texts[i+1]
	}
	return out
}

// check warns about rules that lose events without saying so.
func (r *Rewriter) check(s *fluentconf.Section, label string, d *config.Diagnostics) {
	all := false
	for i := range r.rules {
		ru := &r.rules[i]
		all = all || ru.invert || takesAll(ru.match.String())
		same := len(ru.tag) == 1 && ru.tag[0].kind == wholeTag && r.prefix == "" && r.remove == nil
		if same && ru.label == "" && label == "" {
			d.Warn(ru.pos, "the new tag is the old one: events that this rule takes are dropped", "write another tag, or send them to a label: label @NAME")
		}
	}
	if !all && len(r.rules) > 0 {
		d.Warn(s.Pos, "events that no <rule> takes are dropped",
			"to keep them, add a last <rule> with a key that all of them have, pattern /.+/ and a tag; if they are to go, all is well")
	}
}

// takesAll says whether an expression matches every text that is not empty.
func takesAll(expr string) bool {
	expr = strings.NewReplacer("(", "", ")", "", "^", "", "$", "", `\A`, "", `\z`, "", `\Z`, "", "?", "").Replace(expr)
	return expr == ".+" || expr == ".*" || expr == "." || expr == ""
}
