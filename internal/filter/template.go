package filter

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/internal/event"
)

// partKind says where a part of a template takes its text from.
type partKind uint8

const (
	partText      partKind = iota // text
	partRecord                    // the value of the top-level field named text
	partTag                       // the tag
	partTagPart                   // part n of the tag
	partTagPrefix                 // the first n+1 parts
	partTagSuffix                 // the parts from n on
	partHostname                  // the name of the host
	partTime                      // the event's time
	partPath                      // the value of the record at path
	partUnknown                   // nothing: Fluentd expands what it does not know to nil
)

type part struct {
	kind partKind
	text string
	path []string
	n    int // negative counts from the end
}

// template is a text with placeholders, compiled. What a placeholder gives is never looked
// through for placeholders again.
type template []part

// placeholderPattern is what Fluentd takes for a placeholder, known or not, and the form
// that its documentation has for parts of the tag.
func placeholderPattern() *regexp.Regexp {
	return regexp.MustCompile(`\$\{[^}]+\}|__TAG_PARTS\[-?[0-9]+\]__|__[A-Z_]+__`)
}

// parseTemplate compiles text and returns the placeholders that it does not know.
func parseTemplate(text string) (t template, unknown []string) {
	at := 0
	for _, m := range placeholderPattern().FindAllStringIndex(text, -1) {
		if m[0] > at {
			t = append(t, part{kind: partText, text: text[at:m[0]]})
		}
		p, known := parsePlaceholder(text[m[0]:m[1]])
		if !known {
			unknown = append(unknown, text[m[0]:m[1]])
		}
		t = append(t, p)
		at = m[1]
	}
	if at < len(text) {
		t = append(t, part{kind: partText, text: text[at:]})
	}
	return t, unknown
}

// parsePlaceholder reads one placeholder. The text must be exact: no blanks, double quotes.
func parsePlaceholder(text string) (p part, known bool) {
	if inside, ok := cut(text, "__TAG_PARTS[", "]__"); ok {
		n, err := strconv.Atoi(inside)
		return part{kind: partTagPart, n: n}, err == nil
	}
	inside, ok := cut(text, "${", "}")
	if !ok {
		return part{kind: partUnknown}, false
	}
	switch inside {
	case "tag":
		return part{kind: partTag}, true
	case "hostname":
		return part{kind: partHostname}, true
	case "time":
		return part{kind: partTime}, true
	}
	if key, ok := cut(inside, `record["`, `"]`); ok {
		// A field may have such a name, but who writes record["a"]["b"] means a nested one.
		return part{kind: partRecord, text: key}, !strings.Contains(key, `"]["`)
	}
	for kind, prefix := range map[partKind]string{partTagPart: "tag_parts[", partTagPrefix: "tag_prefix[", partTagSuffix: "tag_suffix["} {
		if index, ok := cut(inside, prefix, "]"); ok {
			n, err := strconv.Atoi(index)
			if err == nil && strconv.Itoa(n) == index {
				return part{kind: kind, n: n}, true
			}
		}
	}
	return part{kind: partUnknown}, false
}

func cut(text, prefix, suffix string) (inside string, ok bool) {
	if len(text) < len(prefix)+len(suffix) || !strings.HasPrefix(text, prefix) || !strings.HasSuffix(text, suffix) {
		return "", false
	}
	return text[len(prefix) : len(text)-len(suffix)], true
}

// uses says whether a part of this kind stands in the template.
func (t template) uses(kinds ...partKind) bool {
	for _, p := range t {
		for _, k := range kinds {
			if p.kind == k {
				return true
			}
		}
	}
	return false
}

// span is a piece of a text.
type span struct{ from, to int }

// subject is the event that a template is expanded for.
type subject struct {
	tag      string
	parts    []span // of the tag, split at dots; filled only if a template needs them
	time     event.Time
	record   []byte
	hostname string
	location *time.Location
}

// splitTag splits a tag as Ruby's split does: empty parts at the end do not count.
func splitTag(parts []span, tag string) []span {
	parts = parts[:0]
	for from := 0; from <= len(tag); {
		to := strings.IndexByte(tag[from:], '.')
		if to < 0 {
			to = len(tag)
		} else {
			to += from
		}
		parts = append(parts, span{from, to})
		from = to + 1
	}
	for n := len(parts); n > 0 && parts[n-1].from == parts[n-1].to; n = len(parts) {
		parts = parts[:n-1]
	}
	return parts
}

// tagText gives the text of a tag placeholder. ok is false if the tag has no such part.
func (s *subject) tagText(p *part) (text string, ok bool) {
	if p.kind == partTag {
		return s.tag, true
	}
	n, count := p.n, len(s.parts)
	if n < 0 {
		n += count
	}
	if n < 0 || n >= count {
		return "", false
	}
	switch p.kind {
	case partTagPrefix:
		return s.tag[:s.parts[n].to], true
	case partTagSuffix:
		return s.tag[s.parts[n].from:s.parts[count-1].to], true
	}
	return s.tag[s.parts[n].from:s.parts[n].to], true
}

// appendText appends the expanded text. Strings of the record come in byte for byte.
func (t template) appendText(dst []byte, s *subject) []byte {
	for i := range t {
		switch p := &t[i]; p.kind {
		case partText:
			dst = append(dst, p.text...)
		case partRecord:
			v, ok := event.FindKey(s.record, p.text)
			if !ok {
				continue
			}
			dst = appendValueText(dst, v)
		case partTag, partTagPart, partTagPrefix, partTagSuffix:
			text, _ := s.tagText(p)
			dst = append(dst, text...)
		case partHostname:
			dst = append(dst, s.hostname...)
		case partTime:
			dst = s.appendTime(dst)
		}
	}
	return dst
}

// appendValueText appends a value as text. A string comes byte for byte.
func appendValueText(dst, v []byte) []byte {
	if text, _, err := event.Bytes(v, 0); err == nil {
		return append(dst, text...)
	}
	return event.AppendText(dst, v)
}

// appendValue appends the msgpack value of a template that is one placeholder: it keeps
// its type, and is nil if there is nothing.
func (p *part) appendValue(dst []byte, s *subject, scratch *Scratch) []byte {
	switch p.kind {
	case partRecord:
		if v, ok := event.FindKey(s.record, p.text); ok {
			return append(dst, v...)
		}
	case partTag, partTagPart, partTagPrefix, partTagSuffix:
		if text, ok := s.tagText(p); ok {
			return event.AppendStr(dst, text)
		}
	case partHostname:
		return event.AppendStr(dst, s.hostname)
	case partTime:
		scratch.text = s.appendTime(scratch.text[:0])
		return event.AppendStr(dst, scratch.text)
	}
	return event.AppendNil(dst)
}

// appendTime prints the time as Ruby's Time#to_s does.
func (s *subject) appendTime(dst []byte) []byte {
	at := time.Unix(s.time.Seconds(), 0).UTC()
	if s.location != nil {
		at = at.In(s.location)
	}
	return at.AppendFormat(dst, "2006-01-02 15:04:05 -0700")
}

// node is a value of the <record> section: a template, or JSON with templates inside.
type node struct {
	kind     nodeKind
	raw      []byte // nodeConst: msgpack
	text     template
	ruby     *ruby      // nodeRuby
	keys     []template // nodeMap
	rubyKeys []node     // nodeMap, with Ruby
	items    []node     // nodeMap, nodeArray
}

type nodeKind uint8

const (
	nodeConst nodeKind = iota
	nodeText           // text, always a string
	nodeValue          // text is one placeholder, which keeps its type
	nodeRuby           // a template of enable_ruby
	nodeMap
	nodeArray
)

// append appends the expanded value as msgpack.
func (n *node) append(dst []byte, s *subject, scratch *Scratch) []byte {
	switch n.kind {
	case nodeText:
		scratch.text = n.text.appendText(scratch.text[:0], s)
		return event.AppendStr(dst, scratch.text)
	case nodeValue:
		return n.text[0].appendValue(dst, s, scratch)
	case nodeMap:
		at, count := len(dst), 0
		dst = event.OpenMap(dst)
		for i := range n.items {
			scratch.text = n.keys[i].appendText(scratch.text[:0], s)
			// Two keys may have become one: the last value counts.
			if from, to, ok := event.FindPair(dst, at+1, count, scratch.text); ok {
				dst = append(dst[:from], dst[to:]...)
				count--
			}
			dst = n.items[i].append(event.AppendStr(dst, scratch.text), s, scratch)
			count++
		}
		return event.CloseMap(dst, at, count)
	case nodeArray:
		dst = event.AppendArrayHeader(dst, len(n.items))
		for i := range n.items {
			dst = n.items[i].append(dst, s, scratch)
		}
		return dst
	}
	return append(dst, n.raw...)
}
