package cloudwatch

import (
	"errors"
	"fmt"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/placeholder"
)

// namer makes one of the two names, or a text of a tag, for an event.
type namer struct {
	kind     nameKind
	text     string
	path     event.Path
	template *placeholder.Template
	fallback string
	sanitize func([]byte) []byte      // nil: names are taken as they are
	bad      func(name []byte) string // nil: not checked
}

type nameKind uint8

const (
	fixedName nameKind = iota
	tagName
	keyName
	templateName
)

// newNamer compiles a name with placeholders.
func newNamer(text string, o placeholder.Options) (namer, error) {
	o.Direct = true
	t, problems := placeholder.Compile(text, o)
	for _, p := range problems {
		if !p.Warning {
			return namer{}, fmt.Errorf("name %q: %s", text, p.Text)
		}
	}
	if t.Static() {
		name, _ := t.Append(nil, placeholder.Context{})
		return namer{kind: fixedName, text: string(name)}, nil
	}
	return namer{kind: templateName, template: t}, nil
}

// perRecord says whether the name can differ between events of one tag and time.
func (n *namer) perRecord() bool {
	return n.kind == keyName || n.kind == templateName && n.template.UsesRecord()
}

func (n *namer) perTime() bool { return n.kind == templateName && n.template.UsesTime() }

func (n *namer) usesTag() bool {
	return n.kind == tagName || n.kind == templateName && n.template.UsesTag()
}

// append appends the name as the event gives it. missing says that there is none.
func (n *namer) append(dst []byte, tag string, t event.Time, record []byte) (out []byte, missing bool) {
	start := len(dst)
	switch n.kind {
	case fixedName:
		dst = append(dst, n.text...)
	case tagName:
		dst = append(dst, tag...)
	case keyName:
		if v, ok := n.path.Find(record); ok {
			dst = event.AppendText(dst, v)
		}
	case templateName:
		// A placeholder without a value stands as nothing, as in Fluentd, unless there is a
		// fallback for such events.
		dst, missing = n.template.Append(dst, placeholder.Context{Tag: tag, Time: t, Record: record})
		missing = missing && n.fallback != ""
	}
	return dst, missing || len(dst) == start
}

// finish appends the legal name made of raw, or says why there is none.
func (n *namer) finish(dst, raw []byte, missing bool) ([]byte, ledger.Reason) {
	start := len(dst)
	if missing {
		if n.fallback == "" {
			return dst, ledger.NoName
		}
		return append(dst, n.fallback...), ledger.None
	}
	dst = append(dst, raw...)
	if n.sanitize != nil {
		dst = dst[:start+len(n.sanitize(dst[start:]))]
	}
	if n.bad != nil && n.bad(dst[start:]) != "" {
		return dst[:start], ledger.BadName
	}
	return dst, ledger.None
}

func (p *Params) groupNamer(names placeholder.Options) (namer, error) {
	n, err := makeNamer(p.GroupName, p.TagAsGroup, p.GroupNameKey, names)
	if err != nil {
		return n, fmt.Errorf("log group: %w", err)
	}
	n.fallback, n.bad = p.GroupFallback, badGroupName
	if p.SanitizeNames {
		n.sanitize = sanitizeGroup
	}
	return n, nil
}

func (p *Params) streamNamer(names placeholder.Options) (namer, error) {
	n, err := makeNamer(p.StreamName, p.TagAsStream, p.StreamNameKey, names)
	if err != nil {
		return n, fmt.Errorf("log stream: %w", err)
	}
	n.fallback, n.bad = p.StreamFallback, badStreamName
	if p.SanitizeNames {
		n.sanitize = sanitizeStream
	}
	return n, nil
}

func makeNamer(text string, tag bool, key string, names placeholder.Options) (namer, error) {
	switch {
	case text != "":
		return newNamer(text, names)
	case tag:
		return namer{kind: tagName}, nil
	case key != "":
		path, err := event.ParsePath(key)
		return namer{kind: keyName, path: path}, err
	}
	return namer{}, errors.New("no name is configured")
}
