// Package timefmt formats times as Ruby's Time#strftime does. Fluentd users write such
// layouts in paths, stream names, and time_format parameters.
//
// A layout is compiled once; formatting allocates nothing. The package is pure: no
// goroutine, no clock, no I/O, no logger. The results are compared with recordings of
// Ruby 3.1 in testdata.
package timefmt

import "time"

// Unit is the finest part of a time that a layout shows.
type Unit uint8

// From coarse to fine.
const (
	Never     Unit = iota // shows no time at all
	Year                  // %Y %C %y %G %g
	Month                 // %m %b %B %h
	Week                  // %V %U %W
	Day                   // %d %e %j %a %A %u %w, and whole dates
	Hour                  // %H %I %k %l %p %P
	Minute                // %M %R
	Second                // %S %s %T %X %c %r
	Subsecond             // %L %N
)

var unitNames = [...]string{"never", "year", "month", "week", "day", "hour", "minute", "second", "subsecond"}

// String gives the unit's English name.
func (u Unit) String() string { return unitNames[u] }

// Layout is a compiled layout. It is immutable and may be used from any goroutine.
type Layout struct {
	ops  []op
	unit Unit
	zone bool // shows the zone's name or offset
	date bool // shows something that follows from the day
}

// Granularity is the finest unit that the layout shows.
func (l *Layout) Granularity() Unit { return l.unit }

// ShowsZone says whether the layout has a %z or %Z.
func (l *Layout) ShowsZone() bool { return l.zone }

// Append appends t, in its own location, to dst. It allocates only when dst has to grow.
func (l *Layout) Append(dst []byte, t time.Time) []byte {
	if l.unit == Never && !l.zone {
		return appendOps(dst, l.ops, nil)
	}
	var f fields
	f.zone, f.off = t.Zone()
	f.utc = t.Location() == time.UTC
	f.unix, f.nsec = t.Unix(), t.Nanosecond()
	f.clock()
	if l.date {
		f.calendar()
	}
	return appendOps(dst, l.ops, &f)
}

// fields are the parts of a local time.
type fields struct {
	unix                 int64
	days                 int64 // local days since 1970-01-01
	year, isoYear        int
	month, day           int // from 1
	yday                 int // from 1
	wday                 int // Sunday is 0
	isoWeek              int
	hour, min, sec, nsec int
	off                  int // seconds east of UTC
	zone                 string
	utc                  bool
}

func (f *fields) clock() {
	local := f.unix + int64(f.off)
	f.days = floorDiv(local, 86400)
	rest := int(local - f.days*86400)
	f.hour, f.min, f.sec = rest/3600, rest/60%60, rest%60
}

// calendar derives the date from the day number. Years are counted from March, so that
// the leap day is the last one, in cycles of 400 years that have 146 097 days each.
func (f *fields) calendar() {
	fromMarch := f.days + 719468 // days since 0000-03-01
	cycle := floorDiv(fromMarch, 146097)
	d := int(fromMarch - cycle*146097)
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100 // day of the year that begins in March, from 0
	m := (5*d + 2) / 153     // March is 0; months average 30.6 days
	f.day = d - (153*m+2)/5 + 1
	f.month = m + 3
	f.year = int(cycle)*400 + y
	if f.month > 12 {
		f.month -= 12
		f.year++
	}
	f.wday = int(f.days+4) % 7
	if f.wday < 0 {
		f.wday += 7
	}
	if f.month > 2 {
		f.yday = d + 60
		if isLeap(f.year) {
			f.yday++
		}
	} else {
		f.yday = d - 305
	}
	f.week()
}

// week derives the ISO 8601 week: weeks begin on Monday and belong to the year that has
// their Thursday.
func (f *fields) week() {
	monday := (f.wday + 6) % 7 // days since Monday
	w := (f.yday - monday + 9) / 7
	f.isoYear, f.isoWeek = f.year, w
	switch {
	case w < 1:
		f.isoYear--
		f.isoWeek = weeksIn(f.isoYear)
	case w > 52 && w > weeksIn(f.year):
		f.isoYear++
		f.isoWeek = 1
	}
}

// weeksIn is 53 for years that begin on a Thursday, and leap years that begin on a Wednesday.
func weeksIn(year int) int {
	begins := func(y int64) int64 { // weekday of the last day of year y, Sunday is 0
		return ((y+floorDiv(y, 4)-floorDiv(y, 100)+floorDiv(y, 400))%7 + 7) % 7
	}
	if begins(int64(year)) == 4 || begins(int64(year)-1) == 3 {
		return 53
	}
	return 52
}

func isLeap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
