package filter

import (
	"errors"
	"fmt"
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
	// replace says that what is not UTF-8 is replaced: parsers that take anything get it.
	replace bool
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
	f.parse = parser.New(inner, "", parser.Env{Location: env.Location, Now: env.Now}, d)
	if len(d.Errors) > before {
		return nil
	}
	f.replace = p.ReplaceInvalid && !parser.AnyBytes(f.parse)
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

// maxMade bounds the bytes of a batch that are copies of records whose text holds several:
// with reserve_data each event made of it has the whole record.
const maxMade = 64 << 20

// Apply implements Filter. A text may hold several records, each of which makes an event. The
// sink is told of every part of a text that holds none, and reserve_data lets the event go on
// in its place. Where nothing goes on the event has failed; without
// emit_invalid_record_to_error it is filtered.
func (f *Parser) Apply(s *Scratch, tag string, src, dst []byte) (out []byte, kept, failed int) {
	room := maxMade
	for len(src) > 0 {
		e, n, err := event.Next(src)
		if err != nil {
			break // cannot be: src has passed Check
		}
		o := origin{tag: tag, entry: e, whole: src[:n], room: room}
		src = src[n:]
		dst = f.one(s, &o, dst)
		room = o.room
		kept += o.made
		s.Made += max(o.made-1, 0)
		if o.made == 0 && o.failed && f.p.EmitInvalid {
			failed++
		}
	}
	return dst, kept, failed
}

// origin is an event and what becomes of it.
type origin struct {
	tag    string
	entry  event.Entry // its record changes when the text's field is removed
	whole  []byte
	room   int  // of maxMade
	made   int  // events
	failed bool // not all of it could be parsed
}

// one appends the events that one makes.
func (f *Parser) one(s *Scratch, o *origin, dst []byte) []byte {
	v, found, through := f.path.Dig(o.entry.Record)
	if through {
		f.fail(s, o, "the way to "+f.p.KeyName+" goes through a value that is no map")
		return f.asItCame(o, dst)
	}
	if !found || v[0] == 0xc0 {
		f.fail(s, o, f.p.KeyName+" does not exist")
		if f.p.ReserveData {
			dst, _ = f.event(s, o, dst, o.entry.Time, nil)
		}
		return dst
	}
	text, err := f.parseText(s, v)
	if !f.affordable(s, o, len(v)) {
		f.fail(s, o, "its text holds too many records")
		return dst
	}
	removed := f.remove == nil || !f.p.ReserveData
	for i := range s.records.Found {
		found := &s.records.Found[i]
		t, parsed := found.Time, []byte(nil)
		if found.Err != nil || !found.HasTime || f.p.ReserveTime {
			t = o.entry.Time
		}
		if found.Err != nil {
			f.fail(s, o, unmatched(text))
			if !f.p.ReserveData {
				continue
			}
		} else if parsed = s.records.Record(found); !removed {
			s.record = event.AppendWithout(s.record[:0], o.entry.Record, f.remove)
			o.entry.Record, removed = s.record, true
		}
		var ok bool
		if dst, ok = f.event(s, o, dst, t, parsed); !ok {
			err = errName
			break
		}
	}
	if err != nil {
		f.fail(s, o, err.Error()+": "+unmatched(text))
		if o.made == 0 {
			dst = f.asItCame(o, dst)
		}
	}
	return dst
}

// asItCame lets an event go on that cannot be treated, if its data is to be kept and it is
// no error: else it would be lost.
func (f *Parser) asItCame(o *origin, dst []byte) []byte {
	if f.p.ReserveData && !f.p.EmitInvalid {
		dst = append(dst, o.whole...)
		o.made++
	}
	return dst
}

var errName = errors.New("the name of a field is no text")

// affordable says whether there is room for the copies of the record that the text asks for;
// value is the length of the text in it.
func (f *Parser) affordable(s *Scratch, o *origin, value int) bool {
	if len(s.records.Found) < 2 {
		return true
	}
	cost := 0
	for i := range s.records.Found {
		if s.records.Found[i].Err != nil && f.p.EmitInvalid {
			cost += len(o.whole)
		}
		if f.p.ReserveData {
			cost += len(o.whole)
			if f.remove != nil {
				cost -= value
			}
		}
	}
	if cost > o.room {
		return false
	}
	o.room -= cost
	return true
}

// parseText parses the value of the field into s.records. text is for messages.
func (f *Parser) parseText(s *Scratch, v []byte) (text []byte, err error) {
	s.records.Reset()
	text, _, err = event.Bytes(v, 0)
	if err != nil {
		s.text = event.AppendText(s.text[:0], v)
		return s.text, f.parse.ParseValue(&s.records, v)
	}
	if f.replace && !event.IsBin(v[0]) && !utf8.Valid(text) {
		s.text = event.AppendScrubbed(s.text[:0], text, "?")
		text = s.text
	}
	return text, f.parse.Parse(&s.records, text)
}

func unmatched(text []byte) string {
	const most = 1024 // of the text in a message
	return fmt.Sprintf("pattern not matched with data '%s'", text[:min(len(text), most)])
}

// fail tells the sink of the event.
func (f *Parser) fail(s *Scratch, o *origin, message string) {
	o.failed = true
	if f.p.EmitInvalid {
		s.fail(o.tag, o.whole, message)
	}
}

// event appends an event of the fields that were parsed; nil for none. It is false for
// fields that cannot be named.
func (f *Parser) event(s *Scratch, o *origin, dst []byte, t event.Time, parsed []byte) ([]byte, bool) {
	s.Buf, s.fields = s.Buf[:0], s.fields[:0]
	if !f.wrap(s, parsed) {
		return dst, false
	}
	dst = event.AppendEntryHeader(dst, t)
	at, count := len(dst), 0
	dst = event.OpenMap(dst)
	if f.p.ReserveData {
		dst, count = mergeOld(s, dst, o.entry.Record)
	}
	for i := range s.fields {
		if fd := &s.fields[i]; !fd.used {
			dst = append(dst, s.Buf[fd.from:fd.end]...)
			count++
		}
	}
	o.made++
	return event.CloseMap(dst, at, count), true
}

// wrap makes fields of what was parsed; nil is an empty map.
func (f *Parser) wrap(s *Scratch, parsed []byte) bool {
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
		if err != nil { // of the parser msgpack: it stays what it is
			if f.p.InjectKeyPrefix != "" {
				return false
			}
			if value, err = event.Skip(parsed, i); err != nil {
				return false
			}
			key = nil
		}
		end, err := event.Skip(parsed, value)
		if err != nil {
			return false
		}
		inner := field{from: len(s.Buf)}
		if inner.text = inner.from; key == nil {
			s.Buf = append(s.Buf, parsed[i:value]...)
		} else {
			s.Buf = event.AppendStrHeader(s.Buf, len(f.p.InjectKeyPrefix)+len(key))
			inner.text = len(s.Buf)
			s.Buf = append(append(s.Buf, f.p.InjectKeyPrefix...), key...)
		}
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
	return true
}

func (f *Parser) begin(s *Scratch, key string) field {
	fd := field{from: len(s.Buf)}
	s.Buf = event.AppendStr(s.Buf, key)
	fd.value = len(s.Buf)
	fd.text = fd.value - len(key)
	return fd
}
