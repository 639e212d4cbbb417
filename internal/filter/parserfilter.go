package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/parser"
)

// ParserParams are the parameters of @type parser.
type ParserParams struct {
	config.Plugin
	KeyName         string              `conf:"key_name" required:"true" doc:"field that holds the text, as a record accessor"`
	ReserveData     bool                `conf:"reserve_data" default:"false" doc:"keep the record's other fields; an event whose text cannot be parsed goes on as it is"`
	ReserveTime     bool                `conf:"reserve_time" default:"false" doc:"keep the event's time"`
	RemoveKeyName   bool                `conf:"remove_key_name_field" default:"false" doc:"remove the field when it could be parsed"`
	InjectKeyPrefix string              `conf:"inject_key_prefix" doc:"put before the names of the parsed fields"`
	ReplaceInvalid  bool                `conf:"replace_invalid_sequence" default:"false" doc:"replace what is not UTF-8 with ?"`
	HashValueField  string              `conf:"hash_value_field" doc:"field for a map of the parsed fields"`
	EmitInvalid     bool                `conf:"emit_invalid_record_to_error" default:"true" doc:"an event that cannot be parsed is an error"`
	Format          string              `conf:"format" doc:"type of the parser when there is no <parse>; its parameters then stand here too"`
	Parse           *fluentconf.Section `section:"parse" doc:"how the text becomes fields"`
}

// Parser is the parser filter: it parses the text of a field into fields.
type Parser struct {
	p      ParserParams
	path   event.Path
	remove *event.PathSet // nil: the field stays
	parse  parser.Parser
}

// newParser builds a parser filter. Mistakes are noted in d; the result is then nil.
func newParser(s *fluentconf.Section, env Env, d *config.Diagnostics) Filter {
	before := len(d.Errors)
	var p ParserParams
	var inner *fluentconf.Section
	if all := s.All("parse"); len(all) > 0 {
		inner = all[0]
	} else {
		if s.Get("format") == nil {
			d.Error(env.Pos, "parser: there is no <parse> section", "add <parse> with the @type of the text")
			return nil
		}
		s, inner = legacyParse(s)
	}
	if config.Decode(s, &p, d); len(d.Errors) > before {
		return nil
	}
	f := &Parser{p: p}
	var err error
	if f.path, err = event.ParsePath(p.KeyName); err != nil {
		d.Error(env.Pos, fmt.Sprintf("parser: key_name: %v", err), "")
	}
	if p.RemoveKeyName {
		f.remove = event.NewPathSet(f.path)
	}
	f.parse = parser.NewIn(inner, "", parser.Env{Location: env.Location, Now: env.Now}, d)
	if len(d.Errors) > before {
		return nil
	}
	return f
}

// legacyParse takes the parameters of a filter in the old form apart: those of the filter,
// and those of its parser.
func legacyParse(s *fluentconf.Section) (own, inner *fluentconf.Section) {
	o, i := *s, fluentconf.Section{Name: "parse", Pos: s.Pos}
	o.Params = nil
	for _, p := range s.Params {
		switch p.Key {
		case "@type", "type", "@id", "id", "@label", "@log_level", "log_level", "key_name", "reserve_data", "reserve_time", "remove_key_name_field", "inject_key_prefix",
			"replace_invalid_sequence", "hash_value_field", "emit_invalid_record_to_error":
			o.Params = append(o.Params, p)
		case "format":
			o.Params = append(o.Params, p)
			p.Key = "@type"
			i.Params = append(i.Params, p)
		default:
			i.Params = append(i.Params, p)
		}
	}
	return &o, &i
}

// Apply implements Filter. An event whose text is missing or cannot be parsed fails, unless
// reserve_data lets it go on; the sink is told in either case. Without
// emit_invalid_record_to_error such an event is filtered.
func (f *Parser) Apply(s *Scratch, tag string, src, dst []byte) (out []byte, kept, failed int) {
	for len(src) > 0 {
		e, n, err := event.Next(src)
		if err != nil {
			break // cannot be: src has passed Check
		}
		whole := src[:n]
		src = src[n:]
		t, ok, wrong := f.one(s, e)
		if !ok && f.p.EmitInvalid {
			s.fail(tag, whole, wrong)
		}
		if !ok && !f.p.ReserveData {
			if f.p.EmitInvalid {
				failed++
			}
			continue
		}
		record := e.Record
		if ok && f.remove != nil && f.p.ReserveData {
			s.record = event.AppendWithout(s.record[:0], record, f.remove)
			record = s.record
		}
		dst = event.AppendEntryHeader(dst, t)
		at, count := len(dst), 0
		dst = event.OpenMap(dst)
		if f.p.ReserveData {
			dst, count = mergeOld(s, dst, record)
		}
		for i := range s.fields {
			if fd := &s.fields[i]; !fd.used {
				dst = append(dst, s.Buf[fd.from:fd.end]...)
				count++
			}
		}
		dst = event.CloseMap(dst, at, count)
		kept++
	}
	return dst, kept, failed
}

// one parses the text of an event into s.fields. After a failure the fields are those that
// reserve_data adds all the same, and wrong says what it was.
func (f *Parser) one(s *Scratch, e event.Entry) (t event.Time, ok bool, wrong string) {
	s.Buf, s.fields = s.Buf[:0], s.fields[:0]
	v, found := f.path.Find(e.Record)
	if !found || v[0] == 0xc0 {
		f.wrap(s, nil)
		return e.Time, false, f.p.KeyName + " does not exist"
	}
	text, _, err := event.Bytes(v, 0)
	if err != nil {
		s.text = event.AppendText(s.text[:0], v)
		text = s.text
	}
	if f.p.ReplaceInvalid && !utf8.Valid(text) {
		s.text = append(s.text[:0], strings.ToValidUTF8(string(text), "?")...)
		text = s.text
	}
	parsed, t, hasTime, err := f.parse.Parse(s.parsed[:0], text)
	s.parsed = parsed[:0]
	if err != nil {
		f.wrap(s, nil)
		const most = 1024 // of the text in a message
		return e.Time, false, fmt.Sprintf("pattern not matched with data '%s'", text[:min(len(text), most)])
	}
	if !hasTime || f.p.ReserveTime {
		t = e.Time
	}
	f.wrap(s, parsed)
	return t, true, ""
}

// wrap makes fields of what was parsed; nil is an empty map.
func (f *Parser) wrap(s *Scratch, parsed []byte) {
	n, i := 0, 0
	if parsed != nil {
		n, i, _ = event.MapHeader(parsed, 0)
	}
	fd := field{}
	if f.p.HashValueField != "" {
		fd = f.begin(s, f.p.HashValueField)
		s.Buf = event.AppendMapHeader(s.Buf, n)
	}
	for range n {
		key, value, err := event.Bytes(parsed, i)
		if err != nil {
			break // cannot be: parsers write texts
		}
		end, err := event.Skip(parsed, value)
		if err != nil {
			break
		}
		inner := field{from: len(s.Buf)}
		s.Buf = event.AppendStrHeader(s.Buf, len(f.p.InjectKeyPrefix)+len(key))
		inner.text = len(s.Buf)
		s.Buf = append(append(s.Buf, f.p.InjectKeyPrefix...), key...)
		inner.value = len(s.Buf)
		s.Buf = append(s.Buf, parsed[value:end]...)
		inner.end = len(s.Buf)
		if f.p.HashValueField == "" {
			s.fields = append(s.fields, inner)
		}
		i = end
	}
	if f.p.HashValueField != "" {
		fd.end = len(s.Buf)
		s.fields = append(s.fields, fd)
	}
}

func (f *Parser) begin(s *Scratch, key string) field {
	fd := field{from: len(s.Buf)}
	s.Buf = event.AppendStr(s.Buf, key)
	fd.value = len(s.Buf)
	fd.text = fd.value - len(key)
	return fd
}
