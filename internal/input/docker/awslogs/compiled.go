package awslogs

import (
	"errors"
	"time"

	"weir/internal/event"
)

// Compiled is what options say about single lines. It may be used from any goroutine.
type Compiled struct {
	opts *Options
}

// Compile makes ready what is used for each line. local is the zone of the host, for
// awslogs-datetime-timezone local; nil means UTC.
func (o *Options) Compile(local *time.Location) (*Compiled, error) {
	return nil, errors.New("not yet written")
}

// Multiline reports whether lines are joined: without it each line is an event.
func (c *Compiled) Multiline() bool { return c.opts.MultilinePattern != "" }

// Begins reports whether line begins an event. Without Multiline each does.
func (c *Compiled) Begins(line []byte) bool { return true }

// TakesTime reports whether TimeOf can give a time: awslogs-datetime-as-event-time.
func (c *Compiled) TakesTime() bool { return c.opts.DatetimeAsEventTime }

// TimeOf reads the time in line, the first of an event, and says whether there is one. What
// the format lacks (a year, a day) is taken so that the result lies nearest to read, the
// time at which the line was read. It allocates nothing unless the format has regular
// expressions in it.
func (c *Compiled) TimeOf(line []byte, read event.Time) (event.Time, bool) { return 0, false }
