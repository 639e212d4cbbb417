package forward

// Bounds of a connection's memory of tags: a client that makes up tags costs at most
// 1024 × 512 bytes.
const (
	maxTags   = 1024
	maxTagLen = 512
)

// tags turns the tags of a connection's messages into strings, as a rule without an
// allocation: nearly all connections use few tags.
type tags struct {
	replace string // parameter tag
	prefix  string // parameter add_tag_prefix with its dot

	last  tagName
	known map[string]tagName // by the tag as it came
}

// tagName is a tag as it came, and the one under which its events go on.
type tagName struct{ raw, name string }

// name returns the tag under which events that came with raw go on.
func (t *tags) name(raw []byte) string {
	if string(raw) == t.last.raw && t.last.name != "" {
		return t.last.name
	}
	if n, ok := t.known[string(raw)]; ok {
		t.last = n
		return n.name
	}
	n := tagName{raw: string(raw)}
	n.name = t.prefix + n.raw
	if t.replace != "" {
		n.name = t.prefix + t.replace
	}
	if len(raw) > maxTagLen {
		return n.name
	}
	if t.known == nil || len(t.known) >= maxTags {
		t.known = make(map[string]tagName)
	}
	t.known[n.raw] = n
	t.last = n
	return n.name
}
