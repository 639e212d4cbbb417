package expr

// PartKind says where a part of a simple template takes its value from.
type PartKind uint8

const (
	PartText      PartKind = iota // Text itself
	PartRecord                    // the value in the record at Path
	PartTag                       // the tag
	PartTagPart                   // tag_parts[N]
	PartTagPrefix                 // tag_prefix[N]
	PartTagSuffix                 // tag_suffix[N]
	PartHostname                  // the name of the host
)

// Part is a part of a simple template.
type Part struct {
	Kind PartKind
	Text string
	// Path has the keys of record["a"]["b"]. If a value on the way is no map, the template is
	// to be run: then Ruby raises an error, or takes a part of a text.
	Path []string
	N    int // negative counts from the end
}

// Simple says whether the template does nothing but join texts and parts of the event, so
// that its value can be made without running it. With typed the value is that of the one
// part, whatever its type; else it is the text of all.
func (p *Program) Simple() (parts []Part, typed, ok bool) {
	if i, isText := p.body.(*interpolation); isText {
		for _, n := range i.parts {
			part, ok := simplePart(n)
			if !ok {
				return nil, false, false
			}
			parts = append(parts, part)
		}
		return parts, false, true
	}
	part, ok := simplePart(p.body)
	if !ok {
		return nil, false, false
	}
	return []Part{part}, part.Kind != PartText, true
}

func simplePart(n node) (Part, bool) {
	switch n := n.(type) {
	case *stringLiteral:
		return Part{Kind: PartText, Text: n.text}, true
	case *eventValue:
		switch n.subject {
		case subjectTag:
			return Part{Kind: PartTag}, true
		case subjectHostname:
			return Part{Kind: PartHostname}, true
		}
	case *call:
		if n.name != "[]" || len(n.args) != 1 || n.safe || n.splat || n.block != nil {
			return Part{}, false
		}
		if e, ok := n.recv.(*eventValue); ok {
			return simpleIndex(e.subject, n.args[0])
		}
		key, ok := n.args[0].(*stringLiteral)
		inner, isPath := simplePart(n.recv)
		if !ok || !isPath || inner.Kind != PartRecord {
			return Part{}, false
		}
		inner.Path = append(inner.Path, key.text)
		return inner, true
	}
	return Part{}, false
}

// simpleIndex is variable[literal].
func simpleIndex(subject int, arg node) (Part, bool) {
	if subject == subjectRecord {
		key, ok := arg.(*stringLiteral)
		if !ok {
			return Part{}, false
		}
		return Part{Kind: PartRecord, Path: []string{key.text}}, true
	}
	kind, ok := map[int]PartKind{subjectTagParts: PartTagPart, subjectTagPrefix: PartTagPrefix, subjectTagSuffix: PartTagSuffix}[subject]
	n, isInt := arg.(*literal)
	if !ok || !isInt || n.value.kind != Int || n.value.int() > 1<<20 || n.value.int() < -1<<20 {
		return Part{}, false
	}
	return Part{Kind: kind, N: int(n.value.int())}, true
}
