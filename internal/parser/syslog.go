package parser

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
)

// SyslogParams are the parameters of @type syslog.
type SyslogParams struct {
	Common
	WithPriority   bool   `conf:"with_priority" default:"false" doc:"lines begin with <priority>"`
	MessageFormat  string `conf:"message_format" enum:"rfc3164|rfc5424|auto" default:"rfc3164" doc:"form of the lines"`
	Colonless      bool   `conf:"support_colonless_ident" default:"true" doc:"for parser_engine string: the program's name may stand without a colon"`
	TimeFormat5424 string `conf:"rfc5424_time_format" default:"%Y-%m-%dT%H:%M:%S.%L%z" doc:"layout of the time in rfc5424"`
	Engine         string `conf:"parser_type" alias:"parser_engine" enum:"regexp|string" default:"regexp" doc:"string: rfc3164 is read word by word"`
}

// The forms of syslog lines, behind the priority; %s is the time.
const (
	syslogPriority  = `^<(?<pri>[0-9]{1,3})>`
	syslogOld       = `(?<time>%s) (?<host>[^ ]*) (?<ident>[^ :\[]*)(?:\[(?<pid>[0-9]+)\])?(?:[^:]*:)? *(?<message>.*)$`
	syslogNew       = `(?<time>%s) (?<host>[!-~]{1,255}) (?<ident>[!-~]{1,48}) (?<pid>[!-~]{1,128}) (?<msgid>[!-~]{1,32}) (?<extradata>-|(?:\[(?:[^\]\\]|\\.)*\])+)(?: (?<message>(?m:.+)))?\z`
	syslogVersion   = `[1-9][0-9]{0,2} `
	syslogTime      = "%b %d %H:%M:%S"
	syslogTimeNew   = "%Y-%m-%dT%H:%M:%S%z" // when there is no fraction
	syslogNewMarker = ">1 "
)

// syslogParser chooses between the two forms.
type syslogParser struct {
	textOnly
	old, new syslogForm // nil if that form is not expected
}

// syslogForm reads one of them.
type syslogForm interface {
	parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error)
}

func (b *builder) syslog() Parser {
	var p SyslogParams
	config.Decode(b.s, &p, b.d)
	if p.Types != nil || p.NullPattern != nil || p.NullEmptyString {
		b.d.Warn(b.pos, "types and null values have no effect on the parser syslog", "convert the fields in a filter")
		p.Types, p.NullPattern, p.NullEmptyString = nil, nil, false
	}
	key := "time"
	p.TimeKey = &key // whatever time_key says
	s := &syslogParser{}
	before := len(b.d.Errors)
	if p.MessageFormat != "rfc5424" {
		s.old = b.syslogOld(&p)
	}
	if p.MessageFormat != "rfc3164" {
		s.new = b.syslogNew(&p)
	}
	if len(b.d.Errors) > before {
		return nil
	}
	return s
}

func (b *builder) syslogOld(p *SyslogParams) syslogForm {
	def := commonDefaults{timeKey: "time", timeFormat: syslogTime}
	if p.Engine == "string" {
		return &syslogWords{rest: b.common(&p.Common, def), priority: p.WithPriority, colonless: p.Colonless, words: timeWords(p.TimeFormat, syslogTime),
			usual: p.TimeFormat == "" || strings.HasPrefix(p.TimeFormat, syslogTime)}
	}
	words := timeWords(p.TimeFormat, syslogTime)
	text := fmt.Sprintf(syslogOld, timeExpression(words))
	switch {
	case p.WithPriority:
		text = syslogPriority + text
	case p.MessageFormat == "auto": // it may be there, as in the other form
		text = "^(?:<(?<pri>[0-9]{1,3})>)?" + text
	default:
		text = "^" + text
	}
	r := b.preset(text, &p.Common, def)
	if r == nil {
		return nil
	}
	r.edit = syslogValue
	return &syslogLines{r, p.WithPriority, false, words}
}

func (b *builder) syslogNew(p *SyslogParams) syslogForm {
	own := p.Common
	if own.TimeFormat == "" || p.MessageFormat == "auto" {
		own.TimeFormat = p.TimeFormat5424
	}
	own.TimeType, own.TimeFallbacks = "mixed", []string{syslogTimeNew}
	words, priority := timeWords(own.TimeFormat, ""), p.WithPriority || p.MessageFormat == "auto"
	if p.Engine == "string" {
		return &syslogWordsNew{b.common(&own, commonDefaults{timeKey: "time"}), priority, words}
	}
	text := fmt.Sprintf(syslogNew, timeExpression(words))
	if priority {
		text = syslogPriority + syslogVersion + text
	} else {
		text = `\A` + text
	}
	r := b.preset(text, &own, commonDefaults{timeKey: "time"})
	if r == nil {
		return nil
	}
	r.edit = syslogValue
	return &syslogLines{r, priority, priority, words}
}

// syslogLines reads one form by its expression.
type syslogLines struct {
	*regexpParser
	priority, version bool // stand before the time
	words             int  // of the time
}

var errSyslogTime = fmt.Errorf("%w: the line does not begin with a time", ErrParse)

func (p *syslogLines) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	out, t, hasTime, err = p.regexpParser.parse(dst, line)
	if errors.Is(err, errUnmatched) && !p.timed(line) {
		err = errSyslogTime
	}
	return out, t, hasTime, err
}

// timed says whether a line that does not match has its time at least. Without its priority
// it is not looked at.
func (p *syslogLines) timed(line []byte) bool {
	if p.priority {
		i := bytes.IndexByte(line, '>')
		if i < 2 || i > 4 || line[0] != '<' {
			return true
		}
		line = line[i+1:]
	}
	if p.version {
		_, line, _ = bytes.Cut(line, []byte(" "))
	}
	stamp := make([]byte, 0, len(line))
	for n := 0; ; n++ {
		word, rest, more := bytes.Cut(bytes.TrimLeft(line, " "), []byte(" "))
		if !more {
			return false // another word follows a time
		}
		if stamp, line = append(stamp, word...), rest; n == p.words-1 {
			break
		}
		stamp = append(stamp, ' ')
	}
	_, _, ok := p.rest.times.read(event.AppendStr(nil, stamp))
	return ok
}

// timeWords is how many words a time of a layout has.
func timeWords(layout, otherwise string) int {
	if layout == "" {
		layout = otherwise
	}
	n, last := 1, byte(0)
	for i := range len(layout) {
		if layout[i] == ' ' && last != ' ' {
			n++
		}
		last = layout[i]
	}
	return n
}

// timeExpression matches that many words.
func timeExpression(words int) string { return "[^ ]+" + strings.Repeat(" +[^ ]+", words-1) }

// syslogValue makes a number of the priority and takes the end of line off the message.
func syslogValue(dst []byte, name string, text []byte) ([]byte, bool) {
	switch name {
	case "pri":
		return event.AppendInt(dst, leadingInt(text)), false
	case "message":
		text = chomp(text)
	case "time":
		for bytes.Contains(text, []byte("  ")) {
			text = bytes.ReplaceAll(text, []byte("  "), []byte(" "))
		}
	}
	return event.AppendStr(dst, text), false
}

// Parse implements Parser.
func (p *syslogParser) Parse(r *Records, line []byte) error { return r.add(p.parse(r.buf, line)) }

func (p *syslogParser) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	r := p.old
	if r == nil || p.new != nil && isNewSyslog(line) {
		r = p.new
	}
	return r.parse(dst, line)
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
