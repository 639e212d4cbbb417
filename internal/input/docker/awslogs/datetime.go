package awslogs

import (
	"fmt"
	"time"

	"weir/internal/event"
)

// timer makes a time of the parts of a match.
type timer struct {
	index [256]int // place of each directive in spots, counted from 1; the last one counts
	zone  *time.Location
}

// checkEventTime says why a format gives no time.
func checkEventTime(format string) error {
	var has [256]bool
	pieces(format, func(string) {}, func(v byte) { has[v] = true })
	year, month, day := has['Y'] || has['y'], has['m'] || has['b'] || has['B'], has['d']
	date := month && day || has['j']
	clock := has['H'] || has['I']
	missing := ""
	switch {
	case has['Z']:
		return fmt.Errorf("log opt '%s' cannot be used with %%Z in '%s': several zones share an abbreviation; write %%z, or say %s", keyEventTime, keyDatetime, keyTimezone)
	case has['I'] && !has['H'] && !has['p']:
		missing = "morning or afternoon (%p)"
	case (has['M'] || has['S']) && !clock:
		missing = "an hour (%H)"
	case !date && (year || month):
		missing = "a day and its month (%m and %d)"
	case !date && !clock:
		missing = "a date and an hour (%Y-%m-%d %H)"
	default:
		return nil
	}
	return fmt.Errorf("log opt '%s' finds no time in '%s': '%s' lacks %s", keyEventTime, keyDatetime, format, missing)
}

// newTimer serves a scanner.
func newTimer(s *scanner) *timer {
	tm := &timer{}
	for i := range s.pieces {
		tm.index[s.pieces[i].kind] = i + 1
	}
	return tm
}

// number reads the n digits of a directive, after skip bytes of it. ok is false where one
// of them is a comma.
func (t *timer) number(verb byte, line []byte, sp *spots, skip, n int) (v int, ok bool) {
	i := sp[t.index[verb]-1]
	if i < 0 || i+skip+n > len(line) {
		return 0, false
	}
	for _, c := range line[i+skip:][:n] {
		if !digit(c) {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}

// has reports whether the format has one of the directives.
func (t *timer) has(verbs string) bool {
	for i := range len(verbs) {
		if t.index[verbs[i]] != 0 {
			return true
		}
	}
	return false
}

// date is a calendar date; what is unknown is -1.
type date struct{ year, month, day, yearDay int }

// time gives the time whose parts begin at sp. What is missing makes it nearest to read.
func (t *timer) time(line []byte, sp *spots, read event.Time) (event.Time, bool) {
	d, ok := t.date(line, sp)
	if !ok {
		return 0, false
	}
	clock, ok := t.clock(line, sp)
	if !ok {
		return 0, false
	}
	nanos, ok := t.fraction(line, sp)
	if !ok {
		return 0, false
	}
	zone, shift := t.zone, int64(0)
	if t.has("z") {
		if shift, ok = t.offset(line, sp); !ok {
			return 0, false
		}
		zone = time.UTC
	}
	sec, ok := d.nearest(clock, zone, read.Seconds()+shift)
	sec -= shift
	if !ok || sec < 0 || sec > 1<<32-1 { // an EventTime holds no other
		return 0, false
	}
	return event.Unix(sec, int64(nanos)), true
}

func (t *timer) date(line []byte, sp *spots) (d date, ok bool) {
	d = date{-1, -1, -1, -1}
	if t.has("Y") {
		if d.year, ok = t.number('Y', line, sp, 0, 4); !ok {
			return d, false
		}
	} else if t.has("y") {
		if d.year, ok = t.number('y', line, sp, 0, 2); !ok {
			return d, false
		}
		if d.year += 1900; d.year < 1969 { // as POSIX has it
			d.year += 100
		}
	}
	switch {
	case t.has("m"):
		d.month, ok = t.number('m', line, sp, 0, 2)
	case t.has("bB"):
		d.month, ok = t.monthName(line, sp)
	default:
		ok = true
	}
	if !ok {
		return d, false
	}
	if t.has("d") {
		if d.day, ok = t.number('d', line, sp, 0, 2); !ok {
			return d, false
		}
	}
	if t.has("j") && (d.month < 0 || d.day < 0) {
		d.month, d.day = -1, -1
		if d.yearDay, ok = t.number('j', line, sp, 0, 3); !ok {
			return d, false
		}
	}
	return d, true
}

// monthName reads the first three letters, which tell all months.
func (t *timer) monthName(line []byte, sp *spots) (int, bool) {
	k := max(t.index['b'], t.index['B'])
	i := sp[k-1]
	if i < 0 || i+3 > len(line) {
		return 0, false
	}
	const all = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := 0; m < 12; m++ {
		if string(line[i:i+3]) == all[3*m:3*m+3] {
			return m + 1, true
		}
	}
	return 0, false
}

// clock gives the seconds since midnight; what is missing is 0.
func (t *timer) clock(line []byte, sp *spots) (sec int, ok bool) {
	switch {
	case t.has("H"):
		if sec, ok = t.number('H', line, sp, 0, 2); !ok {
			return 0, false
		}
	case t.has("I"):
		if sec, ok = t.number('I', line, sp, 0, 2); !ok {
			return 0, false
		}
		p := sp[t.index['p']-1]
		if p < 0 || p >= len(line) || line[p] == ',' {
			return 0, false
		}
		if sec %= 12; line[p] == 'P' {
			sec += 12
		}
	}
	sec *= 3600
	for _, part := range [...]struct {
		verb byte
		unit int
	}{{'M', 60}, {'S', 1}} {
		if t.index[part.verb] != 0 {
			n, ok := t.number(part.verb, line, sp, 0, 2)
			if !ok {
				return 0, false
			}
			sec += n * part.unit
		}
	}
	return sec, true
}

func (t *timer) fraction(line []byte, sp *spots) (nanos int, ok bool) {
	switch {
	case t.has("f"):
		nanos, ok = t.number('f', line, sp, 0, 6)
		return nanos * 1000, ok
	case t.has("L"):
		nanos, ok = t.number('L', line, sp, len("."), 3)
		return nanos * 1_000_000, ok
	}
	return 0, true
}

// offset gives the seconds by which the time's zone is ahead of UTC.
func (t *timer) offset(line []byte, sp *spots) (int64, bool) {
	n, ok := t.number('z', line, sp, len("+"), 4)
	h, m := n/100, n%100
	if !ok || h > 23 || m > 59 {
		return 0, false
	}
	sec := int64(h*3600 + m*60)
	if line[sp[t.index['z']-1]] == '-' {
		sec = -sec
	}
	return sec, true
}

// nearest gives the seconds since the epoch, counted in zone, of the date at the given
// seconds after midnight. read is when the line was read, in the same count. Where the
// date lacks a part, the candidate nearest to read is taken.
func (d date) nearest(clock int, zone *time.Location, read int64) (sec int64, ok bool) {
	c := nearest{zone: zone, clock: clock, read: read, away: -1}
	year, month, day := time.Unix(read, 0).In(zone).Date()
	first, last := year-1, year+1
	if d.year >= 0 {
		first, last = d.year, d.year
	}
	switch {
	case d.yearDay > 0:
		for y := first; y <= last; y++ {
			c.try(y, time.January, d.yearDay, 337+daysIn(y, time.February))
		}
	case d.month > 0:
		for y := first; y <= last; y++ {
			c.try(y, time.Month(d.month), d.day, daysIn(y, time.Month(d.month)))
		}
	case d.day > 0:
		for m := month - 1; m <= month+1; m++ {
			c.try(year, m, d.day, daysIn(year, m))
		}
	default:
		for k := day - 1; k <= day+1; k++ {
			c.try(year, month, k, k)
		}
	}
	return c.sec, c.away >= 0
}

// nearest is the best of the candidates tried so far.
type nearest struct {
	zone  *time.Location
	clock int   // seconds since midnight
	read  int64 // wanted
	sec   int64
	away  int64 // from read; -1 without a candidate
}

// try takes the candidate if it is better; days is the last day that there is.
func (c *nearest) try(year int, month time.Month, day, days int) {
	if day > days {
		return
	}
	sec := time.Date(year, month, day, 0, 0, c.clock, 0, c.zone).Unix()
	if away := max(sec-c.read, c.read-sec); c.away < 0 || away < c.away {
		c.sec, c.away = sec, away
	}
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
