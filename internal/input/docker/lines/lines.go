// Package lines makes log events of a container's frames: it joins the chunks of long
// lines, joins lines to multi-line events, and divides what is larger than an event may be.
// It has no clock, no goroutine and no lock.
package lines

import (
	"math"

	"weir/internal/input/docker/frame"
)

// DefaultEventSize is the largest event of Docker's awslogs driver, in bytes as the service
// counts them: 256 KiB less the 26 that the service adds to each event.
const DefaultEventSize = 262_144 - 26

// Never is what Due says when nothing waits for a time.
const Never = math.MaxInt64

// Defaults of Options, in nanoseconds.
const (
	defaultFlushAfter  = 5_000_000_000
	defaultChunksAfter = 60_000_000_000
)

// Matcher says whether a line begins an event; *regexp.Regexp is one.
type Matcher interface{ Match(line []byte) bool }

// Options of one container.
type Options struct {
	// EventSize is the most bytes of one event, counted like Size. 0: DefaultEventSize.
	EventSize int
	// Begins makes multi-line events: a line that matches begins one, each other line is
	// added to the one before. nil (and not a nil pointer): each line is an event.
	Begins Matcher
	// FlushAfter is how long a multi-line event that may still grow is held, in
	// nanoseconds, from the arrival of its first line on. 0: five seconds.
	FlushAfter int64
	// ChunksAfter is how long the chunks of a line are held when its end does not come, in
	// nanoseconds, from the arrival of the oldest on. What comes later is an event of its
	// own. 0: one minute.
	ChunksAfter int64
	// Separate keeps multi-line events of stdout and stderr apart. Otherwise their lines
	// share events, in order of arrival, as with awslogs.
	Separate bool
	// TimeOf, if not nil, gives the time of an event, in nanoseconds since 1970, from the
	// line that matched Begins. Without ok, and for an event that begins with another
	// line, it is the time of its first line. Of a line that is larger than an event, Begins
	// and TimeOf see the first piece.
	TimeOf func(line []byte) (nanos int64, ok bool)
	// Emit takes the events in the order in which they become complete: that of a long
	// line comes after, and is older than, those of lines that were written meanwhile.
	// Message is borrowed until Emit returns. Emit must not call the Lines.
	Emit func(Event)
}

// Event is a log event, or the report of a loss.
type Event struct {
	Source   frame.Source // of its first line
	TimeNano int64        // nanoseconds since 1970
	Message  []byte       // not empty in an event, nil in a report

	// Lost is not 0 in the report of a loss at this place: chunks of a line are missing,
	// since the engine dropped them (its ring was full). What is there of the line is given
	// out as events, cut at the gap. Each gap counts as one event: how many the missing
	// chunks would have made nobody knows.
	Lost uint64
	// LostBytes is the size of the chunks that are missing, as far as that is known: not
	// for those at the end of a line.
	LostBytes uint64
}

// Lines holds what is not complete yet of one container. Use it from one goroutine at a
// time. Its memory is bounded by a few times EventSize and the size of a frame, and small
// when nothing is held.
type Lines struct {
	o      Options
	chains [frame.Sources]chain
	joins  [2]join // the second one for stderr, if it is separate
}

// New returns an empty Lines.
func New(o Options) *Lines {
	if o.EventSize <= 0 {
		o.EventSize = DefaultEventSize
	}
	if o.FlushAfter <= 0 {
		o.FlushAfter = defaultFlushAfter
	}
	if o.ChunksAfter <= 0 {
		o.ChunksAfter = defaultChunksAfter
	}
	return &Lines{o: o}
}

// Add takes the next frame. now is the time of the clock in nanoseconds since 1970; it
// serves to measure how long something is held, and may step back. The entry is borrowed
// until Add returns.
func (l *Lines) Add(now int64, e *frame.Entry) {
	c := &l.chains[e.Source]
	switch {
	case e.HasMeta || e.Partial:
		l.chunk(now, c, e)
	case !c.open:
		l.line(now, e.Source, e.TimeNano, e.Line, false)
	case c.meta:
		l.breakOff(now, e.Source)
		l.line(now, e.Source, e.TimeNano, e.Line, false)
	default: // engines before 19.03 mark all chunks but the last
		l.grow(now, e.Source, e.Line)
		l.end(now, e.Source)
	}
}

// Flush gives out what has been held long enough, or since a time that has yet to come (the
// clock stepped back). Call it when Due says so, after the pipe was read: what waits in the
// pipe may belong to what is held.
func (l *Lines) Flush(now int64) {
	for s := range l.chains {
		if c := &l.chains[s]; c.text.old(now, l.o.ChunksAfter) {
			l.part(now, frame.Source(s), c.text.buf)
			c.text.reset()
		}
	}
	for i := range l.joins {
		if l.joins[i].text.old(now, l.o.FlushAfter) {
			l.flush(&l.joins[i])
		}
	}
}

// Due says when Flush must be called, in nanoseconds since 1970: Never if nothing is held,
// and 0 after Restore, since only the next Flush begins to measure anew. When the clock
// steps back it is too late; a caller that flushes at least every FlushAfter is not hurt.
func (l *Lines) Due() int64 {
	due := int64(Never)
	for i := range l.chains {
		due = min(due, l.chains[i].text.due(l.o.ChunksAfter))
	}
	for i := range l.joins {
		due = min(due, l.joins[i].text.due(l.o.FlushAfter))
	}
	return due
}

// Close gives out all that is held, since the stream has ended. A line without an end is no
// loss: that is how the engine writes a last line without LF. The Lines may be used again.
func (l *Lines) Close() {
	for {
		first := -1 // of the open lines, the oldest one
		for s := range l.chains {
			if l.chains[s].open && (first < 0 || l.chains[s].time < l.chains[first].time) {
				first = s
			}
		}
		if first < 0 {
			break
		}
		l.end(0, frame.Source(first))
	}
	a, b := &l.joins[0], &l.joins[1]
	if b.time < a.time {
		a, b = b, a
	}
	l.flush(a)
	l.flush(b)
}
