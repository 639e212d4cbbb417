package parser

import (
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/ruby/rx"
)

// PresetParams are the parameters of @type apache2 and nginx.
type PresetParams struct{ Common }

// The lines of web servers. A quoted field may hold \" in Apache's.
const (
	apacheLine = `^(?<host>[^ ]*) [^ ]* (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>(?:[^"]|\\.)*?)(?: +\S*)?)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>(?:[^"]|\\.)*)" "(?<agent>(?:[^"]|\\.)*)")?$`
	nginxLine  = `^(?<remote>[^ ]*) (?<host>[^ ]*) (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>[^"]*?)(?: +\S*)?)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>[^"]*)" "(?<agent>[^"]*)"(?:\s+(?<http_x_forwarded_for>[^ ]+))?)?$`
	webTime    = "%d/%b/%Y:%H:%M:%S %z"
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
	r := b.preset(apacheLine, &p.Common, commonDefaults{timeKey: "time", timeFormat: webTime})
	if r == nil {
		return nil
	}
	r.edit = apacheValue
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

func (b *builder) nginx() Parser {
	var p PresetParams
	config.Decode(b.s, &p, b.d)
	r := b.preset(nginxLine, &p.Common, commonDefaults{timeKey: "time", timeFormat: webTime})
	if r == nil {
		return nil
	}
	return r
}

// SyslogParams are the parameters of @type syslog.
type SyslogParams struct {
	Common
	WithPriority   bool   `conf:"with_priority" default:"false" doc:"lines begin with <priority>"`
	MessageFormat  string `conf:"message_format" enum:"rfc3164|rfc5424|auto" default:"rfc3164" doc:"form of the lines"`
	Colonless      bool   `conf:"support_colonless_ident" default:"true" doc:"the program's name may stand without a colon"`
	TimeFormat5424 string `conf:"rfc5424_time_format" default:"%Y-%m-%dT%H:%M:%S.%L%z" doc:"layout of the time in rfc5424"`
	Engine         string `conf:"parser_type" alias:"parser_engine" enum:"regexp|string" default:"regexp" doc:"accepted for compatibility, without effect"`
}

// The forms of syslog lines, behind the priority.
const (
	syslogPriority  = `^<(?<pri>[0-9]{1,3})>`
	syslogOld       = `(?<time>[^ ]* {1,2}[^ ]* [^ ]*) (?<host>[^ ]*) (?<ident>[^ :\[]*)(?:\[(?<pid>[0-9]+)\])?(?:[^:]*:)? *(?<message>.*)$`
	syslogColon     = `(?<time>[^ ]* {1,2}[^ ]* [^ ]*) (?<host>[^ ]*) (?:(?<ident>[^ :\[]*)(?:\[(?<pid>[0-9]+)\])?(?:[^ ]*): )? *(?<message>.*)$`
	syslogNew       = `(?<time>[^ ]+) (?<host>[!-~]{1,255}) (?<ident>[!-~]{1,48}) (?<pid>[!-~]{1,128}) (?<msgid>[!-~]{1,32}) (?<extradata>-|(?:\[(?:[^\]\\]|\\.)*\])+)(?: (?<message>.+))?$`
	syslogVersion   = `[1-9][0-9]{0,2} `
	syslogTime      = "%b %d %H:%M:%S"
	syslogTimeNew   = "%Y-%m-%dT%H:%M:%S%z" // when there is no fraction
	syslogNewMarker = ">1 "
)

// syslogParser chooses between the two forms.
type syslogParser struct {
	old, new *regexpParser // nil if that form is not expected
}

func (b *builder) syslog() Parser {
	var p SyslogParams
	config.Decode(b.s, &p, b.d)
	types := map[string]string{"pri": "integer"}
	if p.Types != nil {
		for k, v := range p.Types {
			types[k] = v
		}
	}
	p.Types = types
	s := &syslogParser{}
	before := len(b.d.Errors)
	if p.MessageFormat != "rfc5424" {
		text := syslogOld
		if !p.Colonless {
			text = syslogColon
		}
		if p.WithPriority || p.MessageFormat == "auto" {
			text = syslogPriority + text
		} else {
			text = "^" + text
		}
		s.old = b.preset(text, &p.Common, commonDefaults{timeKey: "time", timeFormat: syslogTime})
	}
	if p.MessageFormat != "rfc3164" {
		own := p.Common
		if own.TimeFormat == "" || p.MessageFormat == "auto" {
			own.TimeFormat = ""
			own.TimeType = "mixed"
			own.TimeFallbacks = []string{p.TimeFormat5424, syslogTimeNew}
		}
		text := "^" + syslogNew
		if p.WithPriority || p.MessageFormat == "auto" {
			text = syslogPriority + syslogVersion + syslogNew
		}
		if s.new = b.preset(text, &own, commonDefaults{timeKey: "time"}); s.new != nil {
			s.new.edit = withoutMark
		}
	}
	if len(b.d.Errors) > before {
		return nil
	}
	return s
}

// withoutMark takes the byte order mark off a message, which RFC 5424 allows there.
func withoutMark(dst []byte, name string, text []byte) ([]byte, bool) {
	const mark = "\uFEFF"
	if name == "message" && strings.HasPrefix(string(text[:min(len(text), len(mark))]), mark) {
		text = text[len(mark):]
	}
	return event.AppendStr(dst, text), false
}

func (p *syslogParser) Parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	r := p.old
	if r == nil || p.new != nil && isNewSyslog(line) {
		r = p.new
	}
	return r.Parse(dst, line)
}

// isNewSyslog says whether a line begins with a priority and the version of RFC 5424.
func isNewSyslog(line []byte) bool {
	for i := 1; i < len(line) && i < 5; i++ {
		if line[i] == '>' {
			return strings.HasPrefix(string(line[i:min(len(line), i+len(syslogNewMarker))]), syslogNewMarker)
		}
	}
	return false
}
