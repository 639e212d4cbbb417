package awslogs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"weir/internal/event"
)

// Compiled is what options say about single lines. It may be used from any goroutine.
type Compiled struct {
	multiline bool
	scan      *scanner       // finds the beginning of an event, or
	re        *regexp.Regexp // does, where the format has regular expressions in it
	timer     *timer         // nil without awslogs-datetime-as-event-time
	parts     *regexp.Regexp // re with groups, if timer is used without scan
	groups    []int          // where the nth directive's group stands in a match of parts
}

// Compile makes ready what is used for each line. local is the zone of the host, for
// awslogs-datetime-timezone local; nil means UTC.
func (o *Options) Compile(local *time.Location) (*Compiled, error) {
	if o.DatetimeAsEventTime {
		if err := checkEventTime(o.DatetimeFormat); err != nil {
			return nil, err
		}
	}
	c := &Compiled{multiline: o.MultilinePattern != ""}
	if !c.multiline {
		return c, nil
	}
	re, err := regexp.Compile(o.MultilinePattern)
	switch {
	case err == nil:
	case o.DatetimeFormat == "":
		return nil, fmt.Errorf("awslogs could not parse multiline pattern key <nil>: %w", err) // the original's words
	default:
		return nil, fmt.Errorf("awslogs could not parse multiline pattern key <nil>: %w (text in '%s' is a regular expression: write \\[ for [)", err, keyDatetime)
	}
	if o.DatetimeFormat != "" {
		c.scan = newScanner(o.DatetimeFormat)
	}
	if c.scan == nil {
		c.re = re
	}
	if err := c.compileTime(o, local); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Compiled) compileTime(o *Options, local *time.Location) (err error) {
	if !o.DatetimeAsEventTime {
		return nil
	}
	if c.scan != nil {
		c.timer = newTimer(c.scan)
	} else if err := c.capture(o.DatetimeFormat); err != nil {
		return err
	}
	c.timer.zone = time.UTC
	if o.DatetimeTimezone == timezoneLocal && local != nil {
		c.timer.zone = local
	}
	return nil
}

// capture makes parts, for formats that have no scanner.
func (c *Compiled) capture(format string) (err error) {
	var b strings.Builder
	c.timer = &timer{}
	n := 0
	pieces(format, func(s string) { b.WriteString(s) }, func(v byte) {
		n++
		c.timer.index[v] = n
		fmt.Fprintf(&b, "(?P<weir%d>%s)", n, pattern(v))
	})
	if n > maxPieces {
		return fmt.Errorf("log opt '%s' has more than %d directives", keyDatetime, maxPieces)
	}
	if c.parts, err = regexp.Compile(b.String()); err != nil {
		return fmt.Errorf("log opt '%s' cannot tell the parts of the time in '%s' apart: %w", keyEventTime, keyDatetime, err)
	}
	for i := 1; i <= n; i++ {
		group := c.parts.SubexpIndex(fmt.Sprintf("weir%d", i))
		if group < 0 {
			return fmt.Errorf("log opt '%s' cannot tell the parts of the time in '%s' apart: write %% directives outside of [ ]", keyEventTime, keyDatetime)
		}
		c.groups = append(c.groups, group)
	}
	return nil
}

// Multiline reports whether lines are joined: without it each line is an event.
func (c *Compiled) Multiline() bool { return c.multiline }

// Begins reports whether line begins an event. Without Multiline each does.
func (c *Compiled) Begins(line []byte) bool {
	switch {
	case c.scan != nil:
		var sp spots
		start, _ := c.scan.find(line, &sp)
		return start >= 0
	case c.re != nil:
		return c.re.Match(line)
	}
	return true
}

// TakesTime reports whether TimeOf can give a time: awslogs-datetime-as-event-time.
func (c *Compiled) TakesTime() bool { return c.timer != nil }

// TimeOf reads the time in line, the first of an event, and says whether there is one. What
// the format lacks (a year, a day) is taken so that the result lies nearest to read, the
// time at which the line was read. It allocates nothing where there is no match, or where
// the format has no regular expressions in it.
func (c *Compiled) TimeOf(line []byte, read event.Time) (event.Time, bool) {
	if c.timer == nil {
		return 0, false
	}
	var sp spots
	if c.scan != nil {
		if start, _ := c.scan.find(line, &sp); start < 0 {
			return 0, false
		}
	} else if !c.locate(line, &sp) {
		return 0, false
	}
	return c.timer.time(line, &sp, read)
}

// locate fills sp by regular expression. Where the groups change what the expression means,
// its match is another, and nothing is located.
func (c *Compiled) locate(line []byte, sp *spots) bool {
	m := c.parts.FindSubmatchIndex(line)
	if m == nil {
		return false
	}
	if want := c.re.FindIndex(line); want == nil || want[0] != m[0] || want[1] != m[1] {
		return false
	}
	for i, g := range c.groups {
		sp[i] = m[2*g]
	}
	return true
}
