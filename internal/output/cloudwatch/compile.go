package cloudwatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weir/internal/event"
	"weir/internal/placeholder"
)

// compile makes of the parameters what requests need: how events become messages, and the tags
// of new groups. A parameter of the message is read here, and put to use in body.message.
func (o *Output) compile(opt Options) error {
	p := &opt.Params
	var drop []event.Path
	var err error
	// path reads an accessor, nil for none or after a mistake; what is to be removed goes to drop.
	path := func(text string, remove bool) *event.Path {
		if text == "" || err != nil {
			return nil
		}
		var q event.Path
		if q, err = event.ParsePath(text); err != nil {
			return nil
		}
		if remove {
			drop = append(drop, q)
		}
		return &q
	}
	path(p.GroupNameKey, p.RemoveGroupKey)
	path(p.StreamNameKey, p.RemoveStreamKey)
	first := firstRecord{tags: path(p.TagsKey, p.RemoveTagsKey), retention: path(p.RetentionKey, p.RemoveRetentionKey)}
	e := encoding{inject: opt.Inject, formatter: opt.Formatter, trim: p.TrimNewline, maxEvents: maxEvents}
	for _, k := range p.MessageKeys {
		q, bad := event.ParsePath(k)
		err = cmp.Or(err, bad)
		e.keys = append(e.keys, q)
	}
	if err != nil {
		return err
	}
	set := event.NewPathSet(drop...)
	e.json = event.JSONOptions{Drop: set, DropEmpty: !p.KeepEmptyFields}
	if p.JSONHandler == "json" {
		e.json.Style = event.Gem
	}
	e.drop, e.dropEmpty = set, !p.KeepEmptyFields
	if p.MaxEvents > 0 {
		e.maxEvents = min(p.MaxEvents, maxEvents)
	}
	if p.MaxMessageLength != nil {
		e.maxChars = *p.MaxMessageLength
	}
	switch p.OnOversize {
	case "truncate":
		e.oversize = truncateLarge
	case "drop":
		e.oversize = dropLarge
	}
	usesTag, err := o.compileTags(p.Tags, opt.Names, &first)
	if err != nil {
		return err
	}
	o.usesTag = usesTag || opt.UsesTag
	if o.autoCreate && (first.tags != nil || first.retention != nil || first.templates != nil) {
		e.first = &first
	}
	o.encoding = e
	return nil
}

// compileTags makes the JSON of tags that are fixed, or the templates of those that are
// not, and reports whether these need the tag of the event.
func (o *Output) compileTags(tags map[string]string, names placeholder.Options, first *firstRecord) (usesTag bool, err error) {
	fixed := []byte{'{'}
	var templates []tagTemplate
	dynamic := false
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		var t tagTemplate
		if t.key, err = newNamer(k, names); err == nil {
			t.value, err = newNamer(tags[k], names)
		}
		if err != nil {
			return false, fmt.Errorf("log_group_aws_tags: %w", err)
		}
		dynamic = dynamic || t.key.kind != fixedName || t.value.kind != fixedName
		usesTag = usesTag || t.key.usesTag() || t.value.usesTag()
		templates = append(templates, t)
		fixed = appendField(fixed, t.key.text, t.value.text)
	}
	if dynamic {
		first.templates = templates
	} else if len(tags) > 0 {
		o.tags = append(fixed, '}')
	}
	return usesTag, nil
}

// entity is the JSON that names the sender of the logs, to stand behind the events.
func entity(key, attributes map[string]string) string {
	if len(key) == 0 {
		return ""
	}
	object := func(m map[string]string) string {
		b := []byte{'{'}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			b = appendField(b, k, m[k])
		}
		return string(b) + "}"
	}
	s := `,"entity":{"keyAttributes":` + object(key)
	if len(attributes) > 0 {
		s += `,"attributes":` + object(attributes)
	}
	return s + "}"
}
