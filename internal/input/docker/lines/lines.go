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

// Matcher says whether a line begins an event; *regexp.Regexp is one. Unlike that, it must
// not be a nil pointer in the interface.
type Matcher interface{ Match(line []byte) bool }

// Options of one container.
type Options struct {
	// EventSize is the most bytes of one event, counted as the service does: a byte that is
	// not UTF-8 counts 3. 0: DefaultEventSize.
	EventSize int
	// Begins makes multi-line events: a line that matches begins one, and each other line
	// is added to the one before. nil: each line is an event.
	Begins Matcher
	// FlushAfter is how long an event that may still grow is held, in nanoseconds, from
	// its first line on. 0: five seconds.
	FlushAfter int64
	// ChunksAfter is how long the chunks of a line are held when no more come, from the
	// oldest on, in nanoseconds. What comes later is an event of its own. 0: one minute.
	ChunksAfter int64
	// Separate keeps multi-line events of stdout and stderr apart. Otherwise their lines
	// share an event, in order of arrival, as with awslogs.
	Separate bool
	// TimeOf, if not nil, gives the time of an event, in nanoseconds since 1970, from the
	// line that matched Begins. With !ok, and for lines that did not match, it is the time of the first
	// line.
	TimeOf func(line []byte) (nanos int64, ok bool)
	// Emit takes the events, in the order in which they became complete. Message is
	// borrowed until it returns. It must not call the Lines.
	Emit func(Event)
}

// Event is a log event, or the report of a loss.
type Event struct {
	Source   frame.Source // of the first line
	TimeNano int64        // nanoseconds since 1970
	Message  []byte       // never empty in an event, nil in a report

	// Lost is not 0 in the report of a gap at this place: the ordinals show that the
	// engine dropped chunks of a line (its ring was full). What is there of the line
	// is given out, cut at the gap. A gap counts as one event, however many chunks are missing: how many events these
	// would have made is not known. LostBytes is the size of the chunks known to be
	// missing; 0 for the end of a line, whose size nobody knows.
	Lost      uint64
	LostBytes uint64
}

// Lines holds what is not complete yet. It is used by one goroutine at a time. Its memory is
// bounded by a few times EventSize, and is small when nothing is held.
type Lines struct {
	o Options
}

// New returns an empty Lines.
func New(o Options) *Lines { return &Lines{o: o} }

// Add takes the next frame. now is the time of the clock in nanoseconds since 1970; it only
// measures how long something is held, and may step back. The entry is borrowed until Add returns.
func (l *Lines) Add(now int64, e *frame.Entry) {}

// Flush gives out what was held long enough, or since a time that has not come yet (the
// clock stepped back). Call it at Due, after the pipe was read: what waits in the pipe may
// belong to what is held.
func (l *Lines) Flush(now int64) {}

// Close gives out all that is held: the stream has ended. The Lines can be used again.
func (l *Lines) Close() {}

// Due says when Flush must be called, in nanoseconds since 1970; Never if nothing is held, 0 after
// Restore: the time of holding begins again with the next Add or Flush.
func (l *Lines) Due() int64 { return Never }

// Held says whether there is anything that AppendState would keep.
func (l *Lines) Held() bool { return false }

// AppendState appends all that is held, for Restore.
func (l *Lines) AppendState(dst []byte) []byte { return dst }

// Restore sets what is held to what AppendState wrote; the options must be the same in
// meaning, but nothing breaks if they are not. It keeps no part of state. After an error nothing is held.
func (l *Lines) Restore(state []byte) error { return nil }
