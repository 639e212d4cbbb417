package fluentd

import (
	"regexp"
	"strconv"
	"strings"
)

// template is a label's value with placeholders of the tag.
type template []part

type part struct {
	kind string // "", tag, tag_parts, tag_prefix, tag_suffix
	text string
	n    int
}

// placeholder are those of the tag and of the process.
func placeholder() *regexp.Regexp {
	return regexp.MustCompile(`\$\{(tag|hostname|worker_id|(?:tag_parts|tag_prefix|tag_suffix)\[-?[0-9]+\])\}`)
}

// reserved says whether the inside of ${…} is not the name of a field.
func reserved(inside string) bool {
	return placeholder().MatchString("${" + inside + "}")
}

func parseTemplate(text, hostname string) (t template) {
	last := 0
	for _, m := range placeholder().FindAllStringSubmatchIndex(text, -1) {
		if m[0] > last {
			t = append(t, part{text: text[last:m[0]]})
		}
		last = m[1]
		inside := text[m[2]:m[3]]
		switch inside {
		case "tag":
			t = append(t, part{kind: "tag"})
		case "hostname":
			t = append(t, part{text: hostname})
		case "worker_id":
			t = append(t, part{text: "0"})
		default:
			kind, rest, _ := strings.Cut(inside, "[")
			n, _ := strconv.Atoi(strings.TrimSuffix(rest, "]")) // the expression takes digits only
			t = append(t, part{kind: kind, n: n})
		}
	}
	if last < len(text) || len(t) == 0 {
		t = append(t, part{text: text[last:]})
	}
	return t
}

// expand gives the text for a tag.
func (t template) expand(tag string) string {
	if len(t) == 1 && t[0].kind == "" {
		return t[0].text
	}
	var b strings.Builder
	var parts []string
	for _, p := range t {
		if p.kind == "" {
			b.WriteString(p.text)
			continue
		}
		if p.kind == "tag" {
			b.WriteString(tag)
			continue
		}
		if parts == nil {
			parts = strings.Split(tag, ".")
		}
		i := p.n
		if i < 0 {
			i += len(parts)
		}
		if i < 0 || i >= len(parts) {
			continue
		}
		switch p.kind {
		case "tag_parts":
			b.WriteString(parts[i])
		case "tag_prefix":
			b.WriteString(strings.Join(parts[:i+1], "."))
		case "tag_suffix":
			b.WriteString(strings.Join(parts[i:], "."))
		}
	}
	return b.String()
}
