package fluentd

import (
	"regexp"
	"strconv"
	"strings"

	"weir/internal/event"
)

// label is one label of a metric and where its value comes from: a record accessor, or a
// text with placeholders of the tag and of the record's fields.
type label struct {
	name string
	text template
}

// template is a label's value with placeholders.
type template []part

type partKind uint8

const (
	literal partKind = iota
	wholeTag
	tagPart
	tagPrefix
	tagSuffix
	field
)

// part is a stretch of a template. A placeholder without a value stays as its text.
type part struct {
	kind     partKind
	text     string
	n        int        // which part of the tag
	path     event.Path // of a field
	accessor bool       // a record accessor: it is empty without a value, and takes maps
	plain    bool       // ${key}: it takes no maps and arrays
}

// placeholder is whatever may be one, as the plug-in finds it.
var placeholder = regexp.MustCompile(`\$\{([^\[}]+)(?:\[([^\]]+)\])?\}`)

// isAccessor says whether a text is a record accessor.
func isAccessor(text string) bool {
	return strings.HasPrefix(text, "$.") || strings.HasPrefix(text, "$[")
}

// parseLabel reads the value of a label.
func parseLabel(text, hostname string) (template, error) {
	if isAccessor(text) {
		p, err := event.ParsePath(text)
		return template{{kind: field, path: p, accessor: true}}, err
	}
	var t template
	last := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > last {
			t = append(t, part{text: text[last:m[0]]})
		}
		last = m[1]
		index := ""
		if m[4] >= 0 {
			index = text[m[4]:m[5]]
		}
		t = append(t, parsePart(text[m[0]:m[1]], text[m[2]:m[3]], index, hostname))
	}
	if last < len(text) || len(t) == 0 {
		t = append(t, part{text: text[last:]})
	}
	return t, nil
}

// parsePart reads ${name} or ${name[index]}. The tag, the host's name and the worker win
// over fields of these names.
func parsePart(text, name, index, hostname string) part {
	p := part{text: text}
	n, err := strconv.Atoi(index)
	number := err == nil && strconv.Itoa(n) == index
	switch {
	case name == "tag" && index == "":
		p.kind = wholeTag
	case name == "hostname" && index == "":
		p.text = hostname
	case name == "worker_id" && index == "":
		p.text = "0"
	case name == "tag_parts" && number:
		p.kind, p.n = tagPart, n
	case name == "tag_prefix" && number && n >= 0:
		p.kind, p.n = tagPrefix, n
	case name == "tag_suffix" && number && n >= 0:
		p.kind, p.n = tagSuffix, n
	case strings.HasPrefix(name, "tag") && (name == "tag" || name == "tag_parts" || name == "tag_prefix" || name == "tag_suffix"):
	case name == "hostname", name == "worker_id":
	case index == "":
		p.kind, p.plain, p.path = field, true, event.KeyPath(name)
	case number:
		p.into(name, index)
	case len(index) >= 2 && index[0] == '"' && strings.HasSuffix(index, `"`):
		p.into(name, quote(index[1:len(index)-1]))
	}
	return p
}

// into makes p the field at step of the top-level field name.
func (p *part) into(name, step string) {
	if path, err := event.ParsePath("$[" + quote(name) + "][" + step + "]"); err == nil {
		p.kind, p.path = field, path
	}
}

func quote(key string) string {
	if strings.Contains(key, "'") {
		return `"` + key + `"`
	}
	return "'" + key + "'"
}

// fields says whether the value differs from event to event.
func (t template) fields() bool {
	for i := range t {
		if t[i].kind == field {
			return true
		}
	}
	return false
}

// static says whether the value is always the same.
func (t template) static() bool {
	for i := range t {
		if t[i].kind != literal {
			return false
		}
	}
	return true
}

// bind gives the template for the events of one tag: only fields are left to fill in.
func (t template) bind(tag string) template {
	if t.static() || len(t) == 1 && t[0].kind == field {
		return t
	}
	out := make(template, 0, len(t))
	var parts []string
	for _, p := range t {
		if p.kind != literal && p.kind != field {
			if parts == nil {
				parts = tagParts(tag)
			}
			p = part{text: p.ofTag(tag, parts)}
		}
		if n := len(out); p.kind == literal && n > 0 && out[n-1].kind == literal {
			out[n-1].text += p.text
			continue
		}
		out = append(out, p)
	}
	return out
}

// tagParts splits a tag as Ruby does: empty parts at the end do not count.
func tagParts(tag string) []string {
	tag = strings.TrimRight(tag, ".")
	if tag == "" {
		return []string{}
	}
	return strings.Split(tag, ".")
}

// ofTag is the value of a placeholder of the tag. A suffix counts from the end: 0 is the
// last part, 1 the last two.
func (p *part) ofTag(tag string, parts []string) string {
	i := p.n
	if p.kind == tagPart && i < 0 {
		i += len(parts)
	}
	switch {
	case p.kind == wholeTag:
		return tag
	case i < 0 || i >= len(parts):
		return p.text
	case p.kind == tagPart:
		return parts[i]
	case p.kind == tagPrefix:
		return strings.Join(parts[:i+1], ".")
	}
	return strings.Join(parts[len(parts)-1-i:], ".")
}

// append appends the value for a record; t was bound. through says that a record accessor
// goes through something that is no map or array.
func (t template) append(dst, record []byte) (out []byte, through bool) {
	for i := range t {
		p := &t[i]
		if p.kind != field {
			dst = append(dst, p.text...)
			continue
		}
		v, ok, bad := p.path.Dig(record)
		switch {
		case bad && p.accessor:
			return dst, true
		case ok && !(p.plain && collection(v)):
			dst = event.AppendText(dst, v)
		case !p.accessor:
			dst = append(dst, p.text...)
		}
	}
	return dst, false
}

// collection says whether a msgpack value is a map or an array.
func collection(v []byte) bool {
	return len(v) > 0 && (v[0] >= 0x80 && v[0] <= 0x9f || v[0] >= 0xdc && v[0] <= 0xdf)
}

// expandStatic fills in the placeholders that a monitor's labels may have.
func expandStatic(text, hostname string) string {
	return strings.NewReplacer("${hostname}", hostname, "${worker_id}", "0").Replace(text)
}
