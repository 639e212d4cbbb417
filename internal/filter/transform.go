package filter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/ruby/expr"
)

// RecordTransformerParams are the parameters of @type record_transformer.
type RecordTransformerParams struct {
	config.Plugin
	Records      []*fluentconf.Section `section:"record"`
	RemoveKeys   []string              `conf:"remove_keys" doc:"fields to remove, as record accessors"`
	KeepKeys     []string              `conf:"keep_keys" doc:"fields to keep with renew_record"`
	RenewRecord  bool                  `conf:"renew_record" default:"false" doc:"start from an empty record"`
	RenewTimeKey string                `conf:"renew_time_key" doc:"field that holds the event's new time in seconds"`
	EnableRuby   bool                  `conf:"enable_ruby" default:"false" doc:"evaluate placeholders as Ruby"`
	OnError      string                `conf:"on_error" enum:"error|pass" default:"error" doc:"what becomes of an event when its Ruby raises an exception: it is an error, or it goes on as it came"`
	AutoTypecast bool                  `conf:"auto_typecast" default:"true" doc:"a value that is one placeholder keeps its type"`
}

// RecordTransformer adds, replaces and removes fields.
type RecordTransformer struct {
	keys     []template
	values   []node
	renew    bool
	keep     []string
	timeKey  string
	remove   *event.PathSet
	needsTag bool // a template takes parts of the tag
	env      Env

	enableRuby bool
	pass       bool // an event whose Ruby fails goes on as it came
	ruby       expr.Env
	rubyKeys   []node // in place of keys
	mutates    bool   // a template may change the record
}

// field is an expanded field of one event: places in Scratch.Buf.
type field struct {
	from, text, value, end int // the key's head, the key's bytes, the value, its end
	used                   bool
}

// NewRecordTransformer builds a record_transformer without Ruby. Mistakes and placeholders
// that mean nothing are noted in d; the result is nil if there was a mistake.
func NewRecordTransformer(p RecordTransformerParams, env Env, d *config.Diagnostics) Filter {
	before := len(d.Errors)
	t := &RecordTransformer{renew: p.RenewRecord, keep: p.KeepKeys, timeKey: p.RenewTimeKey, env: env}
	if len(p.KeepKeys) > 0 && !p.RenewRecord {
		d.Error(env.Pos, "record_transformer: keep_keys needs renew_record true", "add renew_record true or remove keep_keys")
	}
	var paths []event.Path
	for _, text := range p.RemoveKeys {
		path, err := event.ParsePath(text)
		if err != nil {
			d.Error(env.Pos, fmt.Sprintf("record_transformer: remove_keys: %v", err), "")
		}
		paths = append(paths, path)
	}
	t.remove = event.NewPathSet(paths...)
	c := compiler{d: d, typecast: p.AutoTypecast, withRuby: p.EnableRuby, seen: map[string]int{}}
	t.enableRuby, t.pass = p.EnableRuby, p.OnError == "pass"
	t.ruby = expr.Env{Lookup: env.Lookup, Now: env.Now, Random: env.Random, Location: env.Location, Hostname: env.Hostname, PID: env.PID}
	for _, section := range p.Records {
		for i := range section.Params {
			c.param(t, &section.Params[i])
		}
	}
	t.needsTag, t.mutates = c.needsTag, c.mutates
	if len(d.Errors) > before {
		return nil
	}
	return t
}

// compiler turns the lines of <record> sections into templates.
type compiler struct {
	d        *config.Diagnostics
	typecast bool
	withRuby bool
	needsTag bool
	mutates  bool
	pos      fluentconf.Pos
	seen     map[string]int // where a key's template is
}

func (c *compiler) param(t *RecordTransformer, p *fluentconf.Param) {
	c.pos = p.Pos
	var key template
	rubyKey := node{kind: nodeRuby}
	if c.withRuby {
		rubyKey.ruby = c.ruby(p.Key, true)
	} else {
		key = c.template(p.Key)
	}
	c.pos = p.Value.Pos
	var value node
	switch raw, _, err := event.AppendFromJSON(nil, []byte(p.Value.Text)); {
	case p.Value.State != fluentconf.Text:
		value = node{raw: event.AppendNil(nil)}
	case p.Value.Bare && err == nil: // of the YAML form
		value = node{raw: raw}
	default:
		value = c.value(p.Value.Text)
	}
	if i, ok := c.seen[p.Key]; ok {
		t.values[i] = value // a repeated key: the last one counts
		return
	}
	c.seen[p.Key] = len(t.keys)
	t.keys, t.values, t.rubyKeys = append(t.keys, key), append(t.values, value), append(t.rubyKeys, rubyKey)
}

func (c *compiler) template(text string) template {
	t, unknown := parseTemplate(text)
	for _, u := range unknown {
		hint := `known are ${record["key"]}, ${tag}, ${tag_parts[n]}, ${tag_prefix[n]}, ${tag_suffix[n]}, ${time} and ${hostname}`
		switch {
		case strings.HasPrefix(u, "${record"):
			hint = `write ${record["key"]} with double quotes and one key; for a nested field or a method write enable_ruby true in this <filter>`
		case strings.ContainsAny(u, ".(+ "):
			hint = "this looks like Ruby: write enable_ruby true in this <filter>; without it " + hint
		}
		c.d.Warn(c.pos, fmt.Sprintf("unknown placeholder %s, it stands for nothing", u), hint)
	}
	if t.uses(partTagPart, partTagPrefix, partTagSuffix) {
		c.needsTag = true
	}
	return t
}

// value compiles the value of a field: JSON if it looks like it.
func (c *compiler) value(text string) node {
	if text == "" || text[0] != '{' && text[0] != '[' {
		return c.text(text)
	}
	raw, n, err := event.AppendFromJSON(nil, []byte(text))
	if err == nil && strings.TrimSpace(text[n:]) != "" {
		err = fmt.Errorf("%q follows the value", text[n:])
	}
	if err != nil {
		c.d.Warn(c.pos, fmt.Sprintf("value begins like JSON but is none, it is taken as text: %v", err), "")
		return c.text(text)
	}
	return c.json(raw)
}

// json compiles one value that AppendFromJSON wrote; strings and keys are templates.
func (c *compiler) json(raw []byte) node {
	if s, _, err := event.Bytes(raw, 0); err == nil {
		return c.text(string(s))
	}
	if n, i, err := event.MapHeader(raw, 0); err == nil {
		out := node{kind: nodeMap}
		for range n {
			key, value, _ := event.Bytes(raw, i)
			i, _ = event.Skip(raw, value)
			if c.withRuby {
				out.rubyKeys = append(out.rubyKeys, node{kind: nodeRuby, ruby: c.ruby(string(key), true)})
			} else {
				out.keys = append(out.keys, c.template(string(key)))
			}
			out.items = append(out.items, c.json(raw[value:i]))
		}
		return out
	}
	if n, i, err := event.ArrayHeader(raw, 0); err == nil {
		out := node{kind: nodeArray}
		for range n {
			from := i
			i, _ = event.Skip(raw, from)
			out.items = append(out.items, c.json(raw[from:i]))
		}
		return out
	}
	return node{raw: raw}
}

func (c *compiler) text(text string) node {
	if c.withRuby {
		r := c.ruby(text, false)
		if r != nil {
			if text, ok := r.constant(); ok {
				return node{raw: event.AppendStr(nil, text)}
			}
		}
		return node{kind: nodeRuby, ruby: r}
	}
	t := c.template(text)
	switch {
	case len(t) == 0 || len(t) == 1 && t[0].kind == partText:
		return node{raw: event.AppendStr(nil, text)}
	case len(t) == 1 && c.typecast:
		return node{kind: nodeValue, text: t}
	}
	return node{kind: nodeText, text: t}
}

// Apply implements Filter. An event fails if Ruby raises an exception, or if renew_time_key
// names a field that is no time.
func (t *RecordTransformer) Apply(s *Scratch, tag string, src, dst []byte) (out []byte, kept, failed int) {
	sub := &s.sub
	*sub = subject{tag: tag, hostname: t.env.Hostname, location: t.env.Location}
	defer func() { *sub = subject{} }()
	if t.needsTag {
		s.parts = splitTag(s.parts, tag)
		sub.parts = s.parts
	}
	for len(src) > 0 {
		e, n, err := event.Next(src)
		if err != nil {
			break // cannot be: src has passed Check
		}
		whole := src[:n]
		src = src[n:]
		sub.time, sub.record = e.Time, e.Record
		if t.enableRuby {
			record, failure := t.expandRuby(s, sub)
			if failure != "" && t.pass {
				dst = append(dst, whole...)
				kept++
				continue
			}
			if failure != "" {
				s.fail(tag, whole, failure)
				failed++
				continue
			}
			e.Record = record
		} else {
			t.expand(s, sub)
		}
		start := len(dst)
		dst = event.AppendEntryHeader(dst, e.Time)
		record := len(dst)
		dst = t.merge(s, dst, e.Record)
		if t.timeKey != "" {
			if v, ok := event.FindKey(dst[record:], t.timeKey); ok {
				at, ok := timeOf(v)
				if !ok {
					s.fail(tag, whole, fmt.Sprintf("the field %s is not a time", t.timeKey))
					dst = dst[:start]
					failed++
					continue
				}
				event.AppendEntryHeader(dst[:start], at)
			}
		}
		if t.remove != nil {
			s.text = event.AppendWithout(s.text[:0], dst[record:], t.remove)
			dst = append(dst[:record], s.text...)
		}
		kept++
	}
	return dst, kept, failed
}

// expand puts the new fields of an event into s.
func (t *RecordTransformer) expand(s *Scratch, sub *subject) {
	s.Buf, s.fields = s.Buf[:0], s.fields[:0]
	for i := range t.keys {
		f := field{from: len(s.Buf)}
		if k := t.keys[i]; len(k) == 1 && k[0].kind == partText {
			s.Buf = event.AppendStr(s.Buf, k[0].text)
			f.text = len(s.Buf) - len(k[0].text)
		} else {
			s.text = k.appendText(s.text[:0], sub)
			s.Buf = event.AppendStr(s.Buf, s.text)
			f.text = len(s.Buf) - len(s.text)
		}
		f.value = len(s.Buf)
		s.Buf = t.values[i].append(s.Buf, sub, s)
		f.end = len(s.Buf)
		if same := s.find(s.Buf[f.text:f.value]); same != nil {
			// Two keys became one: the last value counts, in the place of the first.
			*same = f
			continue
		}
		s.fields = append(s.fields, f)
	}
}

// find returns the field of that key, or nil.
func (s *Scratch) find(key []byte) *field {
	for i := range s.fields {
		if f := &s.fields[i]; bytes.Equal(s.Buf[f.text:f.value], key) {
			return f
		}
	}
	return nil
}

// merge appends the old record with the expanded fields over it.
func (t *RecordTransformer) merge(s *Scratch, dst, record []byte) []byte {
	at, count := len(dst), 0
	dst = event.OpenMap(dst)
	if t.renew {
		for _, key := range t.keep {
			v, ok := event.FindKey(record, key)
			if !ok {
				continue
			}
			count++
			key := event.AppendStr(dst, key)
			text, _, _ := event.Bytes(key, len(dst))
			if f := s.find(text); f != nil {
				f.used = true
				dst = append(dst, s.Buf[f.from:f.end]...)
			} else {
				dst = append(key, v...)
			}
		}
	} else {
		dst, count = mergeOld(s, dst, record)
	}
	for i := range s.fields {
		if f := &s.fields[i]; !f.used {
			dst = append(dst, s.Buf[f.from:f.end]...)
			count++
		}
	}
	return event.CloseMap(dst, at, count)
}

// mergeOld appends the fields of the old record, in runs where nothing is replaced.
func mergeOld(s *Scratch, dst, record []byte) ([]byte, int) {
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return dst, 0 // cannot be: it has passed Check
	}
	count, run := n, i
	for range n {
		key, value, err := event.Bytes(record, i)
		if err != nil {
			if value, err = event.Skip(record, i); err != nil {
				break
			}
			key = nil
		}
		end, err := event.Skip(record, value)
		if err != nil {
			break
		}
		if key != nil {
			if f := s.find(key); f != nil {
				dst = append(dst, record[run:i]...)
				run = end
				if f.used {
					count-- // the record had the key twice
				} else {
					f.used = true
					dst = append(dst, s.Buf[f.from:f.end]...)
				}
			}
		}
		i = end
	}
	return append(dst, record[run:i]...), count
}

// timeOf converts a value to a time as Ruby's to_f does: seconds since the epoch. ok is
// false for what has no to_f (true, maps, arrays) and for times that EventTime, with its
// unsigned 32 bits of seconds, cannot hold.
func timeOf(v []byte) (t event.Time, ok bool) {
	var f float64
	switch c := v[0]; {
	case c == 0xc0:
	case c == 0xca:
		f = float64(math.Float32frombits(binary.BigEndian.Uint32(v[1:])))
	case c == 0xcb:
		f = math.Float64frombits(binary.BigEndian.Uint64(v[1:]))
	default:
		if text, _, err := event.Bytes(v, 0); err == nil {
			f = leadingFloat(text)
			break
		}
		t, _, err := event.ReadTime(v, 0) // an integer or an EventTime
		return t, err == nil && t >= 0 && t.Seconds() < 1<<32
	}
	if !(f >= 0 && f < 1<<32) {
		return 0, false
	}
	sec := math.Floor(f)
	return event.Unix(int64(sec), int64((f-sec)*1e9)), true
}

// leadingFloat reads the number that a text begins with, 0 if there is none. Single
// underscores between digits are skipped.
func leadingFloat(text []byte) float64 {
	var buf [64]byte
	out := buf[:0]
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	i := 0
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		out = append(out, text[i])
		i++
	}
	digits := func() int {
		n := 0
		for ; i < len(text) && len(out) < cap(buf)-8; i++ {
			c := text[i]
			if c == '_' && n > 0 && i+1 < len(text) && isDigit(text[i+1]) {
				continue
			}
			if !isDigit(c) {
				break
			}
			out = append(out, c)
			n++
		}
		return n
	}
	if digits() == 0 {
		return 0
	}
	if i+1 < len(text) && text[i] == '.' && isDigit(text[i+1]) {
		out = append(out, '.')
		i++
		digits()
	}
	if i+1 < len(text) && text[i]|0x20 == 'e' && (isDigit(text[i+1]) || i+2 < len(text) && (text[i+1] == '-' || text[i+1] == '+') && isDigit(text[i+2])) {
		out = append(out, 'e', text[i+1])
		i += 2
		digits()
	}
	f, _ := strconv.ParseFloat(string(out), 64)
	return f
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
