package parser

import (
	"slices"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
)

// PresetParams are the parameters of @type apache2, apache, apache_error and nginx.
type PresetParams struct{ Common }

// The lines of web servers. A quoted field may hold \" in Apache's.
const (
	apacheLine = `^(?<host>[^ ]*) [^ ]* (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>(?:[^"]|\\.)*?)(?: +\S*)?)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>(?:[^"]|\\.)*)" "(?<agent>(?:[^"]|\\.)*)")?$`
	nginxLine  = `^(?<remote>[^ ]*) (?<host>[^ ]*) (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>[^"]*?)(?: +\S*)?)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>[^"]*)" "(?<agent>[^"]*)"(?:\s+"?(?<http_x_forwarded_for>[^"]*)"?)?)?$`
	// The older forms: of Apache without regard to \", and of its error log.
	apacheOldLine   = `^(?<host>[^ ]*) [^ ]* (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>[^ ]*) +\S*)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>[^"]*)" "(?<agent>[^"]*)")?$`
	apacheErrorLine = `^\[[^ ]* (?<time>[^\]]*)\] \[(?<level>[^\]]*)\](?: \[pid (?<pid>[^\]]*)\])?(?: \[client (?<client>[^\]]*)\])? (?<message>.*)$`
	webTime         = "%d/%b/%Y:%H:%M:%S %z"
)

func (b *builder) preset(expression string, p *Common, def commonDefaults) *regexpParser {
	re, err := rx.Compile(expression, rx.Options{})
	if err != nil {
		b.d.Error(b.pos, err.Error(), "")
		return nil
	}
	return b.fromRegexp(re, p, def)
}

func (b *builder) apache2() Parser {
	var p PresetParams
	config.Decode(b.s, &p, b.d)
	if p.Types != nil || p.NullPattern != nil || p.NullEmptyString || p.TimeFormat != "" || p.TimeKey != nil && *p.TimeKey != "time" {
		b.d.Warn(b.pos, "types, null values, time_key and time_format have no effect on the parser apache2", "remove them, or convert the fields in a filter")
	}
	key := "time"
	p.TimeKey, p.TimeFormat, p.Types, p.NullPattern, p.NullEmptyString = &key, "", nil, nil, false
	r := b.preset(apacheLine, &p.Common, commonDefaults{timeKey: key, timeFormat: webTime})
	if r == nil {
		return nil
	}
	r.edit, r.whole = apacheValue, true
	at := slices.IndexFunc(r.groups, func(g group) bool { return g.name == key })
	g := r.groups[at]
	r.groups = append(slices.Delete(r.groups, at, at+1), g) // the time that keep_time_key leaves stands behind the others
	return r
}

// apacheValue gives numbers to code and size, and nil to what is only a dash.
func apacheValue(dst []byte, name string, text []byte) ([]byte, bool) {
	dash := len(text) == 1 && text[0] == '-'
	switch name {
	case "code":
		if n := leadingInt(text); n != 0 {
			return event.AppendInt(dst, n), false
		}
		return event.AppendNil(dst), false
	case "size":
		if !dash {
			return event.AppendInt(dst, leadingInt(text)), false
		}
	case "host", "user", "referer", "agent":
	default:
		dash = false
	}
	if dash {
		return event.AppendNil(dst), false
	}
	return event.AppendStr(dst, text), false
}

// lines builds a parser of lines of a known form.
func (b *builder) lines(expression, layout string) Parser {
	var p PresetParams
	config.Decode(b.s, &p, b.d)
	if r := b.preset(expression, &p.Common, commonDefaults{timeKey: "time", timeFormat: layout}); r != nil {
		return r
	}
	return nil
}
