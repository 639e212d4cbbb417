package formatter

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/ruby/timefmt"
)

// TimeParams say how a time is written. An unset zone parameter and localtime true mean
// the local zone.
type TimeParams struct {
	Format    string `conf:"time_format" doc:"strftime layout; ISO 8601 if not set"`
	LocalTime bool   `conf:"localtime" default:"true" doc:"write local time"`
	UTC       bool   `conf:"utc" default:"false" doc:"write UTC"`
	Timezone  string `conf:"timezone" doc:"zone to write, +09:00 or Region/City"`
}

// clock prints times.
type clock struct {
	layout   *timefmt.Layout
	location *time.Location
}

// Layouts of ISO 8601; Ruby writes Z only for a time that is UTC by its kind.
const (
	isoOffset = "%Y-%m-%dT%H:%M:%S%:z"
	isoUTC    = "%Y-%m-%dT%H:%M:%SZ"
)

func newClock(p TimeParams, pos fluentconf.Pos, env Env, d *config.Diagnostics) clock {
	c := clock{location: env.Location}
	if c.location == nil {
		c.location = time.UTC
	}
	format := isoOffset
	switch {
	case p.Timezone != "":
		loc, err := timefmt.ParseZone(p.Timezone)
		if err != nil {
			d.Error(pos, fmt.Sprintf("timezone: %v", err), "write +09:00 or Asia/Tokyo")
			return c
		}
		c.location = loc
	case p.UTC || !p.LocalTime:
		c.location, format = time.UTC, isoUTC
	}
	if p.Format != "" {
		format = p.Format
	}
	var err error
	if c.layout, err = timefmt.Compile(format); err != nil {
		d.Error(pos, fmt.Sprintf("time_format: %v", err), "")
	}
	return c
}

func (c *clock) append(dst []byte, t event.Time) []byte {
	return c.layout.Append(dst, t.Time().In(c.location))
}

// appendSeconds writes seconds with nine decimals.
func appendSeconds(dst []byte, t event.Time) []byte {
	dst = append(strconv.AppendInt(dst, t.Seconds(), 10), '.')
	return appendNanos(dst, int64(t)-t.Seconds()*1e9)
}

func appendNanos(dst []byte, nsec int64) []byte {
	for unit := int64(1e8); unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+nsec/unit%10))
	}
	return dst
}

// OutFileParams are the parameters of @type out_file.
type OutFileParams struct {
	config.Plugin
	WhichNewlineParams
	TimeParams
	TimeType   string `conf:"time_type" enum:"float|unixtime|string" default:"string" doc:"how the time is written"`
	OutputTime bool   `conf:"output_time" default:"true" doc:"write the time"`
	OutputTag  bool   `conf:"output_tag" default:"true" doc:"write the tag"`
	Delimiter  string `conf:"delimiter" default:"TAB" doc:"TAB, SPACE or COMMA"`
}

type outFile struct {
	clock     clock
	timeType  string // "" if the time is not written
	tag       bool
	delimiter byte
	end       string
}

func (b *builder) outFile() (f Formatter, usesTag bool) {
	var p OutFileParams
	config.Decode(b.s, &p, b.d)
	out := &outFile{clock: newClock(p.TimeParams, b.pos, b.env, b.d), tag: p.OutputTag, delimiter: '\t', end: p.text()}
	if p.OutputTime {
		out.timeType = p.TimeType
	}
	switch {
	case regexp.MustCompile(`(?i)space`).MatchString(p.Delimiter):
		out.delimiter = ' '
	case regexp.MustCompile(`(?i)comma`).MatchString(p.Delimiter):
		out.delimiter = ','
	}
	return out, p.OutputTag
}

func (f *outFile) Append(dst []byte, tag string, t event.Time, record []byte) []byte {
	switch f.timeType {
	case "string":
		dst = append(f.clock.append(dst, t), f.delimiter)
	case "unixtime":
		dst = append(strconv.AppendInt(dst, t.Seconds(), 10), f.delimiter)
	case "float":
		dst = append(appendSeconds(dst, t), f.delimiter)
	}
	if f.tag {
		dst = append(append(dst, tag...), f.delimiter)
	}
	return append(event.AppendJSON(dst, record, event.Gem), f.end...)
}

// stdout wraps another formatter, whose parameters stand in the same section.
type stdout struct {
	clock clock
	inner Formatter
	end   string
}

func (b *builder) stdout() Formatter {
	inner := fluentconf.Section{Name: "format", Pos: b.pos}
	typ, end, layout := "json", "\n", "%Y-%m-%d %H:%M:%S.%9N %z"
	if b.s != nil {
		for _, p := range b.s.Params {
			switch p.Key {
			case "@type", "type":
			case "output_type":
				typ, b.pos = p.Value.Text, p.Value.Pos
			default:
				if p.Key == "newline" && p.Value.Text == "crlf" {
					end = "\r\n"
				}
				if p.Key == "time_format" && p.Value.Text != "" { // the zone is the local one whatever stands here
					layout = p.Value.Text
				}
				inner.Params = append(inner.Params, p)
			}
		}
		inner.Sections = b.s.Sections
	}
	f := &stdout{end: end, clock: newClock(TimeParams{Format: layout, LocalTime: true}, b.pos, b.env, b.d)}
	if typ == "stdout" {
		b.d.Error(b.pos, "output_type stdout would contain itself", "write output_type json or hash")
		return f
	}
	f.inner, _ = build(&inner, typ, b.env, b.d)
	return f
}

func (f *stdout) Append(dst []byte, tag string, t event.Time, record []byte) []byte {
	dst = append(f.clock.append(dst, t), ' ')
	dst = append(dst, tag...)
	dst = append(dst, ": "...)
	from := len(dst)
	dst = f.inner.Append(dst, tag, t, record)
	// One line end, whether or not the inner formatter wrote one.
	for _, end := range []string{"\r\n", "\n"} {
		if n := len(dst) - len(end); n >= from && string(dst[n:]) == end {
			dst = dst[:n]
			break
		}
	}
	return append(dst, f.end...)
}
