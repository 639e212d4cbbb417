package formatter

import (
	"bytes"
	"fmt"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// InjectParams are the parameters of an <inject> section.
type InjectParams struct {
	TimeParams
	HostnameKey string `conf:"hostname_key" doc:"field for the host's name"`
	Hostname    string `conf:"hostname" doc:"name to write; the host's own if not set"`
	WorkerIDKey string `conf:"worker_id_key" doc:"field for the worker's number"`
	TagKey      string `conf:"tag_key" doc:"field for the tag"`
	TimeKey     string `conf:"time_key" doc:"field for the time"`
	TimeType    string `conf:"time_type" enum:"float|unixtime|unixtime_millis|unixtime_micros|unixtime_nanos|string" default:"float" doc:"how the time is written"`
}

// Inject puts fields into a record. It may be used from any goroutine.
type Inject struct {
	fields []injected
	clock  clock
}

// injected is one field; the kind says where its value comes from.
type injected struct {
	kind  injectKind
	key   []byte // the key's bytes
	field []byte // msgpack: the key, and the value if it is always the same
}

type injectKind uint8

const (
	injectConst injectKind = iota
	injectTag
	injectFloat
	injectSeconds
	injectMillis
	injectMicros
	injectNanos
	injectString
)

// NewInject builds an Inject; nil if the section asks for nothing. pos is the section's.
func NewInject(p InjectParams, pos fluentconf.Pos, env Env, d *config.Diagnostics) *Inject {
	in := &Inject{}
	add := func(kind injectKind, key string, value []byte) {
		if key != "" {
			in.fields = append(in.fields, injected{kind, []byte(key), append(event.AppendStr(nil, key), value...)})
		}
	}
	if p.Hostname == "" {
		p.Hostname = env.Hostname
	} else if p.HostnameKey == "" {
		d.Warn(pos, "inject: hostname has no effect without hostname_key", "add hostname_key hostname")
	}
	add(injectConst, p.HostnameKey, event.AppendStr(nil, p.Hostname))
	add(injectConst, p.WorkerIDKey, event.AppendInt(nil, int64(env.WorkerID)))
	add(injectTag, p.TagKey, nil)
	kinds := map[string]injectKind{
		"float": injectFloat, "unixtime": injectSeconds, "unixtime_millis": injectMillis, "unixtime_micros": injectMicros, "unixtime_nanos": injectNanos, "string": injectString,
	}
	if p.TimeKey != "" && p.TimeType == "string" {
		in.clock = newClock(p.TimeParams, pos, env, d)
	} else if p.Format != "" && p.TimeKey != "" {
		d.Warn(pos, fmt.Sprintf("inject: time_format has no effect with time_type %s", p.TimeType), "add time_type string")
	}
	add(kinds[p.TimeType], p.TimeKey, nil)
	if len(in.fields) == 0 {
		return nil
	}
	return in
}

// InjectOf builds the Inject of an <inject> section or, if that is nil, of the flat
// parameters of parent, which may be nil; nil if nothing is asked for.
func InjectOf(parent, inject *fluentconf.Section, env Env, d *config.Diagnostics) *Inject {
	if inject == nil {
		inject = flatInject(parent, d)
	}
	if inject == nil {
		return nil
	}
	var p InjectParams
	config.Decode(inject, &p, d)
	return NewInject(p, inject.Pos, env, d)
}

// UsesTag says whether what is put in depends on the tag.
func (in *Inject) UsesTag() bool {
	for i := range in.fields {
		if in.fields[i].kind == injectTag {
			return true
		}
	}
	return false
}

// AppendRecord appends the record with the fields put in: where the record has such a key
// in its place, else at the end.
func (in *Inject) AppendRecord(dst []byte, tag string, t event.Time, record []byte) []byte {
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return append(dst, record...)
	}
	at, count := len(dst), n
	dst = event.OpenMap(dst)
	var used uint64 // there are at most four fields
	run := i
	for range n {
		_, end := next(record, i)
		if end == 0 {
			break
		}
		if key, _, err := event.Bytes(record, i); err == nil {
			if k := in.find(key); k >= 0 {
				dst = append(dst, record[run:i]...)
				run = end
				if used&(1<<k) != 0 {
					count--
				} else {
					used |= 1 << k
					dst = in.append(dst, k, tag, t)
				}
			}
		}
		i = end
	}
	dst = append(dst, record[run:i]...)
	for k := range in.fields {
		if used&(1<<k) == 0 && in.find(in.fields[k].key) == k {
			dst = in.append(dst, k, tag, t)
			count++
		}
	}
	return event.CloseMap(dst, at, count)
}

// find returns the field of that key, or -1. Of two with one key the later one counts.
func (in *Inject) find(key []byte) int {
	for k := len(in.fields) - 1; k >= 0; k-- {
		if bytes.Equal(in.fields[k].key, key) {
			return k
		}
	}
	return -1
}

// append appends the key and the value of field k.
func (in *Inject) append(dst []byte, k int, tag string, t event.Time) []byte {
	f := &in.fields[k]
	dst = append(dst, f.field...)
	switch f.kind {
	case injectTag:
		return event.AppendStr(dst, tag)
	case injectFloat:
		// Fluentd cuts to microseconds before it makes a float of the time.
		return event.AppendFloat(dst, float64(floorDiv(int64(t), 1e3))/1e6)
	case injectSeconds:
		return event.AppendInt(dst, t.Seconds())
	case injectMillis:
		return event.AppendInt(dst, t.Millis())
	case injectMicros:
		return event.AppendInt(dst, floorDiv(int64(t), 1e3))
	case injectNanos:
		return event.AppendInt(dst, int64(t))
	case injectString:
		at := len(dst)
		dst = in.clock.append(append(dst, 0, 0, 0, 0, 0), t)
		n := len(dst) - at - 5
		head := len(event.AppendStrHeader(dst[:at], n))
		return dst[:head+copy(dst[head:], dst[at+5:])]
	}
	return dst
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// injecting is a formatter behind an Inject.
type injecting struct {
	in    *Inject
	inner Formatter
}

// Append writes the new record behind the end of dst first, formats it from there, and
// moves the result down: that needs no memory of its own.
func (f *injecting) Append(dst []byte, tag string, t event.Time, record []byte) []byte {
	start := len(dst)
	dst = f.in.AppendRecord(dst, tag, t, record)
	end := len(dst)
	dst = f.inner.Append(dst, tag, t, dst[start:end:end])
	return dst[:start+copy(dst[start:], dst[end:])]
}

// flatInject makes an <inject> section of the flat parameters that came before it; nil if
// parent has none that ask for a field.
func flatInject(parent *fluentconf.Section, d *config.Diagnostics) *fluentconf.Section {
	if parent == nil {
		return nil
	}
	s := &fluentconf.Section{Name: "inject", Pos: parent.Pos}
	copied := func(key string) bool {
		p := parent.Get(key)
		if p != nil {
			s.Params = append(s.Params, *p)
		}
		return p != nil
	}
	truth := func(key string) bool {
		var v struct {
			On bool `conf:"on"`
		}
		p := parent.Get(key)
		if p == nil {
			return false
		}
		on := *p
		on.Key = "on"
		config.Decode(&fluentconf.Section{Params: []fluentconf.Param{on}}, &v, &config.Diagnostics{})
		return v.On
	}
	set := func(key, text string) {
		s.Params = append(s.Params, fluentconf.Param{Key: key, Value: fluentconf.Value{Text: text, Pos: parent.Pos}, Pos: parent.Pos})
	}
	timeKey, tagKey := copied("time_key"), copied("tag_key")
	if truth("include_time_key") {
		if !timeKey {
			set("time_key", "time")
		}
		set("time_type", "string") // Fluentd does not look at a flat time_type
		timeKey = true
	}
	if truth("time_as_epoch") {
		if !timeKey {
			set("time_key", "time")
		}
		set("time_type", "unixtime")
		timeKey = true
	}
	if truth("include_tag_key") && !tagKey {
		set("tag_key", "tag")
		tagKey = true
	}
	local, utc := parent.Get("localtime"), parent.Get("utc")
	if local != nil && utc != nil && truth("localtime") == truth("utc") {
		d.Error(utc.Pos, "localtime and utc contradict each other", "use only one of them")
	}
	if !timeKey && !tagKey {
		return nil
	}
	copied("time_format")
	copied("timezone")
	switch {
	case local != nil:
		copied("localtime")
	case utc != nil && truth("utc"):
		set("localtime", "false")
	}
	return s
}
