package cloudwatch

import (
	"strconv"
	"strings"

	"weir/internal/event"
)

// groupSettings are what a group gets when it is created.
type groupSettings struct {
	set       bool   // read from a record
	retention int    // days; 0: never expires
	tags      []byte // a JSON object of texts, or nil
}

// firstRecord says what is taken from the first record that goes to a group.
type firstRecord struct {
	retention *event.Path
	tags      *event.Path
	templates []tagTemplate // log_group_aws_tags with placeholders
}

type tagTemplate struct{ key, value namer }

// read takes the settings from the record. What is no number, or no map, counts as not set.
func (f *firstRecord) read(tag string, ev event.Entry) groupSettings {
	s := groupSettings{set: true}
	if f.retention != nil {
		if v, ok := f.retention.Find(ev.Record); ok {
			text := strings.TrimSpace(string(event.AppendText(nil, v)))
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				s.retention = n
			}
		}
	}
	if f.tags != nil {
		if v, ok := f.tags.Find(ev.Record); ok {
			s.tags = tagsOf(v)
		}
	}
	if len(f.templates) > 0 {
		s.tags = append(s.tags[:0], '{')
		for i, t := range f.templates {
			if i > 0 {
				s.tags = append(s.tags, ',')
			}
			key, _ := t.key.append(nil, tag, ev.Time, ev.Record)
			value, _ := t.value.append(nil, tag, ev.Time, ev.Record)
			s.tags = appendPair(s.tags, key, value)
		}
		s.tags = append(s.tags, '}')
	}
	return s
}

func appendPair(dst, key, value []byte) []byte {
	dst = append(dst, '"')
	dst, _ = event.AppendStringEscaped(dst, key)
	dst = append(dst, `":"`...)
	dst, _ = event.AppendStringEscaped(dst, value)
	return append(dst, '"')
}

// tagsOf makes a JSON object of texts from a map, at most the 50 tags that a group can have.
func tagsOf(v []byte) []byte {
	n, i, err := event.MapHeader(v, 0)
	if err != nil || n == 0 {
		return nil
	}
	out := []byte{'{'}
	for k := 0; k < min(n, 50); k++ {
		value, err := event.Skip(v, i)
		if err != nil {
			return nil
		}
		end, err := event.Skip(v, value)
		if err != nil {
			return nil
		}
		if k > 0 {
			out = append(out, ',')
		}
		out = appendPair(out, event.AppendText(nil, v[i:value]), event.AppendText(nil, v[value:end]))
		i = end
	}
	return append(out, '}')
}
