package parser

import (
	"fmt"
	"math"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
	"weir/internal/ruby/timefmt"
)

// Common are the parameters that every parser has.
type Common struct {
	config.Plugin
	TimeKey         *string           `conf:"time_key" doc:"field that holds the time"`
	TimeType        string            `conf:"time_type" enum:"float|unixtime|string|mixed" doc:"how the time is written; string if time_format is set"`
	TimeFormat      string            `conf:"time_format" doc:"layout of the time, as strptime has it, or %iso8601"`
	TimeFallbacks   []string          `conf:"time_format_fallbacks" doc:"layouts for time_type mixed, tried one after the other; unixtime and float too"`
	Localtime       *bool             `conf:"localtime" doc:"a time without a zone is local; true if utc and timezone are not set"`
	UTC             *bool             `conf:"utc" doc:"a time without a zone is UTC"`
	Timezone        string            `conf:"timezone" doc:"zone of a time without one: an offset or Region/City"`
	KeepTimeKey     bool              `conf:"keep_time_key" default:"false" doc:"leave the time in the record"`
	Estimate        bool              `conf:"estimate_current_event" default:"true" doc:"accepted for compatibility: a text without a time has that of its event in a filter, that of reading in a source"`
	Types           map[string]string `conf:"types" doc:"types of fields: name:string|integer|float|bool|time[:zone][:layout]|array[:delimiter]"`
	NullPattern     *rx.Regexp        `conf:"null_value_pattern" doc:"a text that it matches is nil"`
	NullEmptyString bool              `conf:"null_empty_string" default:"false" doc:"an empty text is nil"`
	Timeout         time.Duration     `conf:"timeout" doc:"accepted for compatibility: a regular expression has a time limit of its own"`
}

// commonDefaults are those defaults of Common that differ by type.
type commonDefaults struct {
	timeKey, timeFormat, timeType string
	types                         map[string]string
}

// shared is what happens to a record when its fields have been read: its time is taken out,
// its fields get their types.
type shared struct {
	timeKey     string // "" for none
	times       timeReader
	remove      *event.PathSet // nil if the time stays
	types       map[string]converter
	nullEmpty   bool
	nullPattern *rx.Regexp
}

// common reads the common parameters; nil after a mistake.
func (b *builder) common(p *Common, def commonDefaults) *shared {
	before := len(b.d.Errors)
	c := &shared{timeKey: def.timeKey, nullEmpty: p.NullEmptyString, nullPattern: p.NullPattern}
	if p.TimeKey != nil {
		c.timeKey = *p.TimeKey
	}
	if c.timeKey != "" && !p.KeepTimeKey {
		c.remove = event.NewPathSet(event.KeyPath(c.timeKey))
	}
	format, kind := p.TimeFormat, p.TimeType
	if kind == "" {
		kind = def.timeType
		if format != "" {
			kind = "string"
		}
	}
	if format == "" {
		format = def.timeFormat
	}
	if kind == "" {
		kind = "string"
	}
	if c.timeKey == "" && p.TimeFormat != "" {
		b.d.Warn(b.pos, "time_format has no effect without time_key", "add time_key")
	}
	c.times = b.timeReader(kind, format, p)
	types := def.types
	if p.Types != nil {
		types = p.Types
	}
	for key, text := range types {
		if c.types == nil {
			c.types = map[string]converter{}
		}
		c.types[key] = b.converter(key, text, p)
	}
	if len(b.d.Errors) > before {
		return nil
	}
	return c
}

// finish takes the time out of the record that stands in grown behind dst, and converts its
// fields.
func (c *shared) finish(dst, grown []byte) (out []byte, t event.Time, hasTime bool, err error) {
	start := len(dst)
	out = grown
	if c.timeKey != "" {
		if v, found := event.FindKey(out[start:], c.timeKey); found {
			var ok bool
			if t, hasTime, ok = c.times.read(v); !ok {
				return dst, 0, false, fmt.Errorf("%w: the field %s is not %s: %s", ErrParse, c.timeKey, c.times.what(), clipped(event.AppendInspect(nil, v)))
			}
			if c.remove != nil {
				end := len(out)
				out = event.AppendWithout(out, out[start:end:end], c.remove)
				out = out[:start+copy(out[start:], out[end:])]
			}
		}
	}
	if c.types == nil && !c.nullEmpty && c.nullPattern == nil {
		return out, t, hasTime, nil
	}
	end := len(out)
	if out, err = c.convert(out, out[start:end:end]); err != nil {
		return dst, 0, false, err
	}
	return out[:start+copy(out[start:], out[end:])], t, hasTime, nil
}

func clipped(b []byte) string {
	const most = 60
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}

// timeReader reads the time of a record.
type timeReader struct {
	kind    string // float, unixtime, string or mixed
	layouts []timeLayout
	loc     *time.Location // of a time without a zone
	local   *time.Location // where we are
	now     func() time.Time
}

// timeLayout is one way to read a time: a layout, or seconds.
type timeLayout struct {
	parser         *timefmt.Parser
	iso            bool
	seconds, whole bool
}

func (b *builder) timeReader(kind, format string, p *Common) timeReader {
	r := timeReader{kind: kind, now: b.env.Now, loc: b.env.Location}
	if r.loc == nil {
		r.loc = time.UTC
	}
	r.local = r.loc
	local := p.Localtime == nil || *p.Localtime
	if p.UTC != nil {
		if p.Localtime != nil && local == *p.UTC {
			b.d.Error(b.pos, "both of utc and localtime are set", "remove one")
		}
		local = local && !*p.UTC
	}
	switch {
	case p.Timezone != "":
		loc, err := timefmt.ParseZone(p.Timezone)
		if err != nil {
			b.d.Error(b.pos, err.Error(), "")
			break
		}
		r.loc = loc
	case !local:
		r.loc = time.UTC
	}
	formats := p.TimeFallbacks
	switch {
	case kind == "mixed" && len(formats) == 0 && format == "":
		b.d.Error(b.pos, "time_type mixed needs time_format or time_format_fallbacks", "list the layouts, commas between")
	case kind == "mixed" && format != "":
		formats = append([]string{format}, formats...)
	case kind != "mixed":
		if len(formats) > 0 {
			b.d.Warn(b.pos, "time_format_fallbacks has no effect without time_type mixed", "")
		}
		formats = nil
		if kind == "string" && format != "" {
			formats = []string{format}
		}
		if kind == "string" && format == "" && (p.Timezone != "" || !local) {
			b.d.Error(b.pos, "a zone for times without a zone needs time_format", "add time_format, or remove timezone, utc and localtime")
		}
	}
	for _, f := range formats {
		r.layouts = append(r.layouts, b.layout(f))
	}
	return r
}

func (b *builder) layout(format string) timeLayout {
	switch format {
	case "unixtime", "float": // the same among layouts, decimals count
		return timeLayout{seconds: true}
	case "%iso8601":
		return timeLayout{iso: true}
	}
	p, err := timefmt.CompileParser(format)
	if err != nil {
		b.d.Error(b.pos, err.Error(), "")
		return timeLayout{}
	}
	if p.NeedsYear() && b.env.Now == nil {
		b.d.Error(b.pos, fmt.Sprintf("the time_format %q tells no year, which is not supported here", format), "add the year, or let the sender write it")
	}
	return timeLayout{parser: p}
}

// what says what kind of time is wanted, for an error.
func (r *timeReader) what() string {
	if r.kind == "float" || r.kind == "unixtime" {
		return "a time in seconds"
	}
	return "a time of that format"
}

// read reads a msgpack value. ok is false for what is no time. Seconds that are no number
// or that EventTime cannot hold are no mistake, but has is false: Fluentd goes on with what
// to_i makes of them, some second of 1970, and with reserve_time they do not matter at all.
func (r *timeReader) read(v []byte) (t event.Time, has, ok bool) {
	if r.kind == "float" || r.kind == "unixtime" {
		return timeOf(v, r.kind == "unixtime")
	}
	t, ok = r.written(v)
	return t, ok, ok
}

// written reads a text by its layouts.
func (r *timeReader) written(v []byte) (event.Time, bool) {
	text, _, err := event.Bytes(v, 0)
	for i := range r.layouts {
		l := &r.layouts[i]
		if l.seconds {
			if t, ok, _ := timeOf(v, l.whole); ok {
				return t, true
			}
			continue
		}
		if err != nil {
			continue
		}
		var m timefmt.Moment
		var ok bool
		if l.iso {
			m, ok = timefmt.ParseISO(text, r.local) // whatever timezone says, as in Fluentd
		} else {
			m, ok = l.parser.Parse(text, r.loc, r.now)
		}
		if ok {
			return moment(m)
		}
	}
	if r.layouts == nil && err == nil {
		if m, ok := timefmt.ParseAny(text, r.loc, r.now); ok {
			return moment(m)
		}
	}
	return 0, false
}

func moment(m timefmt.Moment) (event.Time, bool) {
	return event.Unix(m.Sec, m.Nsec), m.Sec >= 0 && m.Sec <= math.MaxUint32
}
