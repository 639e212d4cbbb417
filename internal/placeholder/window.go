package placeholder

import (
	"math"
	"time"

	"weir/internal/event"
	"weir/internal/ruby/timefmt"
)

const (
	minTime = event.Time(math.MinInt64)
	maxTime = event.Time(math.MaxInt64)
	// edge keeps sums from overflowing: it is a few months before the end of event.Time, in
	// the year 2261. Times beyond it, which only a hostile client sends, count as it.
	edge = int64(math.MaxInt64 - 1e16)
)

// windows cuts time into pieces in which a name stays the same. A window is the longest
// span in which the local time, rounded down to the unit, is the same. So days are local
// days, 23 or 25 hours long when clocks change, and the hour that a clock shows twice is
// one window of two hours: it has one name. (Fluentd takes the offset of the event for the
// start of its window, and so names half of such a day after the day before.)
type windows struct {
	unit    int64 // nanoseconds
	loc     *time.Location
	fixed   bool  // loc has one offset for all time
	offset  int64 // nanoseconds east of UTC, if fixed
	keyed   bool  // a timekey window: names show its start, otherwise the event's time
	byShift bool  // names show the zone, which ends a window when it changes
}

func newWindows(loc *time.Location, timekey time.Duration) windows {
	if loc == nil {
		loc = time.UTC
	}
	w := windows{loc: loc, unit: int64(timekey), keyed: timekey > 0}
	begin, end := time.Unix(0, 0).In(loc).ZoneBounds()
	if begin.IsZero() && end.IsZero() {
		_, off := time.Unix(0, 0).In(loc).Zone()
		w.fixed, w.offset = true, int64(off)*1e9
	}
	return w
}

// show notes that names have this layout.
func (w *windows) show(l *timefmt.Layout) {
	if w.keyed {
		return
	}
	unit := int64(24 * time.Hour)
	switch l.Granularity() {
	case timefmt.Subsecond:
		unit = 1
	case timefmt.Second:
		unit = int64(time.Second)
	case timefmt.Minute:
		unit = int64(time.Minute)
	case timefmt.Hour:
		unit = int64(time.Hour)
	}
	if w.unit == 0 || unit < w.unit {
		w.unit = unit
	}
	w.byShift = w.byShift || l.ShowsZone()
}

// shown is the time that a name shows for an event at t.
func (w *windows) shown(t event.Time) time.Time {
	if w.keyed {
		t, _ = w.around(t)
	}
	return time.Unix(0, int64(t)).In(w.loc)
}

func (w *windows) offsetAt(t int64) int64 {
	if w.fixed {
		return w.offset
	}
	_, off := time.Unix(0, t).In(w.loc).Zone()
	return int64(off) * 1e9
}

// floor rounds local time down to the unit.
func (w *windows) floor(local int64) int64 {
	r := local % w.unit
	if r < 0 {
		r += w.unit
	}
	return local - r
}

// around gives the window [start, end) that holds t.
func (w *windows) around(t event.Time) (start, end event.Time) {
	at := min(max(int64(t), -edge), edge)
	off := w.offsetAt(at)
	local := w.floor(at + off)
	s, e := local-off, local-off+w.unit
	if w.fixed {
		return event.Time(s), event.Time(e)
	}
	from, to := w.bounds(at)
	for s <= from { // clocks changed inside the window or at its start
		before := w.offsetAt(from - 1)
		if w.byShift || w.floor(from-1+before) != local {
			s = from
			break
		}
		s = local - before
		from, _ = w.bounds(from - 1)
	}
	for e >= to {
		after := w.offsetAt(to)
		if w.byShift || w.floor(to+after) != local {
			e = to
			break
		}
		e = local + w.unit - after
		_, to = w.bounds(to)
	}
	return event.Time(s), event.Time(e)
}

// bounds gives the time span [from, to) around t in which the zone has one offset and name.
func (w *windows) bounds(t int64) (from, to int64) {
	from, to = int64(minTime), int64(maxTime)
	begin, end := time.Unix(0, t).In(w.loc).ZoneBounds()
	if !begin.IsZero() {
		from = max(begin.Unix(), -edge/1e9) * 1e9
	}
	if !end.IsZero() {
		to = min(end.Unix(), edge/1e9) * 1e9
	}
	return from, to
}
