package timefmt

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrDirective marks a layout with a directive that cannot be read from a text.
var ErrDirective = errors.New("a directive cannot be read from a text")

// Parser is a compiled layout for reading times, as Ruby's Time.strptime does. It is
// immutable and may be used from any goroutine.
type Parser struct {
	ops  []step
	year bool // the layout tells the year, or the seconds since 1970
}

// step reads one literal text, white space or number.
type step struct {
	verb  byte // directive letter, 0 for text, ' ' for white space
	text  string
	exact bool // a digit may follow: the number has its usual width
}

// Moment is a time that was read.
type Moment struct {
	Sec, Nsec int64 // since 1970 in UTC
	Offset    int   // seconds east of UTC that the text tells
	Zoned     bool  // whether it tells one
	UTC       bool  // whether it calls it UTC: Z, UTC, -00:00
}

// CompileParser reads a layout for parsing. Errors wrap ErrIncomplete, ErrWidth or
// ErrDirective.
func CompileParser(layout string) (*Parser, error) {
	p := &Parser{}
	if err := p.compile(layout); err != nil {
		return nil, fmt.Errorf("read time layout %q: %w", layout, err)
	}
	for i := range p.ops {
		p.ops[i].exact = i+1 < len(p.ops) && p.ops[i+1].numeric()
	}
	return p, nil
}

// NeedsYear says whether the layout tells no year, so that Parse asks for the present time.
func (p *Parser) NeedsYear() bool { return !p.year }

func (p *Parser) compile(s string) error {
	for i := 0; i < len(s); {
		if isSpace(s[i]) {
			p.ops = append(p.ops, step{verb: ' '})
			i++
			continue
		}
		if s[i] != '%' {
			p.ops = append(p.ops, step{text: s[i : i+1]})
			i++
			continue
		}
		// Only DateTime has these two, but Ruby reads them all the same.
		if i+1 < len(s) && s[i+1] == 'Q' {
			p.ops, p.year = append(p.ops, step{verb: 'Q'}), true
			i += 2
			continue
		}
		if i+1 < len(s) && s[i+1] == '+' {
			if err := p.compile("%a %b %e %H:%M:%S %Z %Y"); err != nil {
				return err
			}
			i += 2
			continue
		}
		o, n, err := directive(s[i:])
		if err != nil {
			return err
		}
		if err := p.add(o, s[i:i+n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

func (p *Parser) add(o op, written string) error {
	if layout, ok := composites[o.verb]; ok {
		return p.compile(layout)
	}
	switch o.verb {
	case 0, 'G', 'g', 'V', 'U', 'W', 'u', 'w':
		return fmt.Errorf("%w: %s", ErrDirective, written)
	case 'n', 't':
		o.verb = ' '
	case '%':
		p.ops = append(p.ops, step{text: "%"})
		return nil
	case 'Y', 'y', 'C', 's':
		p.year = true
	}
	p.ops = append(p.ops, step{verb: o.verb})
	return nil
}

// numeric says whether the step reads digits.
func (s *step) numeric() bool {
	switch s.verb {
	case 0:
		return s.text[0] >= '0' && s.text[0] <= '9'
	case ' ', 'a', 'A', 'b', 'B', 'h', 'p', 'P', 'z', 'Z':
		return false
	}
	return true
}

// reading is what has been read of a text; -1 where nothing was.
type reading struct {
	year, century, month, day, yday int
	hour, min, sec, meridian        int
	nsec                            int64
	epoch                           int64
	hasEpoch                        bool
	offset                          int
	zoned, utc                      bool
}

// Parse reads a text; ok is false if it does not fit the layout. What the layout does not
// tell is filled in as Ruby does: parts above the coarsest one that it tells from now, parts
// below as small as possible. A time without a zone is in loc. Text behind the layout's end
// does not matter.
func (p *Parser) Parse(b []byte, loc *time.Location, now func() time.Time) (m Moment, ok bool) {
	r := blank()
	if _, ok = p.read(b, &r); !ok {
		return Moment{}, false
	}
	return r.moment(loc, now)
}

func blank() reading {
	return reading{year: -1, century: -1, month: -1, day: -1, yday: -1, hour: -1, min: -1, sec: -1, meridian: -1}
}

// read reads the layout's parts; rest is what stands behind them.
func (p *Parser) read(b []byte, r *reading) (rest []byte, ok bool) {
	for i := range p.ops {
		n := p.ops[i].read(b, r)
		if n < 0 {
			return nil, false
		}
		b = b[n:]
	}
	return b, true
}

// read reads one step and returns how many bytes it took, -1 if the text does not fit.
func (s *step) read(b []byte, r *reading) int {
	switch s.verb {
	case 0:
		if len(b) == 0 || b[0] != s.text[0] {
			return -1
		}
		return 1
	case ' ':
		n := 0
		for n < len(b) && isSpace(b[n]) {
			n++
		}
		return n
	case 'Y':
		return s.readYear(b, r)
	case 'L':
		return s.fraction(b, r, 3)
	case 'N':
		return s.fraction(b, r, 9)
	case 's', 'Q':
		return s.readEpoch(b, r)
	case 'a', 'A':
		_, n := name(b, weekdayNames[:])
		return n
	case 'b', 'B', 'h':
		i, n := name(b, monthNames[:])
		r.month = i + 1
		return n
	case 'p', 'P':
		if len(b) < 2 || b[1]|0x20 != 'm' || b[0]|0x20 != 'a' && b[0]|0x20 != 'p' {
			return -1
		}
		r.meridian = 0
		if b[0]|0x20 == 'p' {
			r.meridian = 12
		}
		return 2
	case 'z', 'Z':
		off, n := zone(b)
		if n > 0 {
			r.offset, r.zoned, r.utc = off, true, isUTC(b[:n])
		}
		return n
	}
	return s.field(b, r)
}

// field reads a number with bounds.
func (s *step) field(b []byte, r *reading) int {
	width, lo, hi := 2, 0, 59
	var to *int
	switch s.verb {
	case 'm':
		to, lo, hi = &r.month, 1, 12
	case 'd', 'e':
		to, lo, hi = &r.day, 1, 31
	case 'H', 'k':
		to, hi = &r.hour, 24
	case 'I', 'l':
		to, lo, hi = &r.hour, 1, 12
	case 'M':
		to = &r.min
	case 'S':
		to, hi = &r.sec, 60
	case 'j':
		to, width, lo, hi = &r.yday, 3, 1, 366
	case 'y':
		to, hi = &r.year, 99
	case 'C':
		to, hi = &r.century, 99
	default:
		return -1
	}
	skip := 0
	if (s.verb == 'd' || s.verb == 'e' || s.verb == 'k' || s.verb == 'l' || s.verb == 'H' || s.verb == 'I') && len(b) > 0 && b[0] == ' ' {
		skip, width = 1, 1
	}
	v, n := number(b[skip:], width)
	if n == 0 || v < int64(lo) || v > int64(hi) {
		return -1
	}
	*to = int(v)
	if s.verb == 'y' {
		if *to += 1900; v < 69 {
			*to += 100
		}
	}
	return skip + n
}

func (s *step) readYear(b []byte, r *reading) int {
	sign, skip := 1, 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		skip = 1
		if b[0] == '-' {
			sign = -1
		}
	}
	width := 9
	if s.exact {
		width = 4
	}
	v, n := number(b[skip:], width)
	if n == 0 {
		return -1
	}
	r.year = sign * int(v)
	return skip + n
}

// fraction reads the decimals of a second: exactly width of them if more digits follow.
func (s *step) fraction(b []byte, r *reading, width int) int {
	if !s.exact {
		width = math.MaxInt
	}
	n := 0
	r.nsec = 0
	scale := int64(1e9)
	for n < len(b) && n < width && b[n] >= '0' && b[n] <= '9' {
		if scale > 1 {
			scale /= 10
			r.nsec += int64(b[n]-'0') * scale
		}
		n++
	}
	if n == 0 {
		return -1
	}
	return n
}

func (s *step) readEpoch(b []byte, r *reading) int {
	sign, skip := int64(1), 0
	if len(b) > 0 && b[0] == '-' {
		sign, skip = -1, 1
	}
	v, n := number(b[skip:], 18)
	if n == 0 {
		return -1
	}
	r.hasEpoch, r.epoch = true, sign*v
	if s.verb == 'Q' {
		ms := r.epoch
		r.epoch = floorDiv(ms, 1000)
		r.nsec = (ms - r.epoch*1000) * 1e6
	}
	return skip + n
}

// moment puts the parts together.
func (r *reading) moment(loc *time.Location, now func() time.Time) (Moment, bool) {
	if r.hasEpoch {
		return Moment{Sec: r.epoch, Nsec: r.nsec, Offset: r.offset, Zoned: r.zoned, UTC: r.utc}, true
	}
	if r.century >= 0 && r.year >= 0 {
		r.year = r.century*100 + r.year%100
	}
	if r.zoned {
		loc = nil
	}
	if r.year < 0 && !r.fill(loc, now) {
		return Moment{}, false
	}
	if r.meridian >= 0 && r.hour >= 0 {
		r.hour = r.hour%12 + r.meridian
	}
	r.month, r.day = max(r.month, 1), max(r.day, 1)
	r.hour, r.min, r.sec = max(r.hour, 0), max(r.min, 0), max(r.sec, 0)
	if r.year < 0 || r.year > 9999 || r.hour == 24 && (r.min > 0 || r.sec > 0) {
		return Moment{}, false
	}
	if r.yday > 0 {
		r.month, r.day = 1, r.yday // time.Date carries over
	}
	zone := loc
	if zone == nil {
		zone = time.UTC
	}
	// As in Ruby, the 30th of February is the first or second of March.
	t := time.Date(r.year, time.Month(r.month), r.day, r.hour, r.min, r.sec, 0, zone)
	return Moment{Sec: t.Unix() - int64(r.offset), Nsec: r.nsec, Offset: r.offset, Zoned: r.zoned, UTC: r.utc}, true
}

// fill takes the year, and what else stands above the parts that were read, from now.
func (r *reading) fill(loc *time.Location, now func() time.Time) bool {
	if now == nil {
		return false
	}
	t := now()
	if loc != nil {
		t = t.In(loc)
	} else {
		t = t.UTC().Add(time.Duration(r.offset) * time.Second)
	}
	r.year = t.Year()
	if r.yday >= 0 || r.month >= 0 {
		return true
	}
	r.month = int(t.Month())
	if r.day < 0 {
		r.day = t.Day()
	}
	return true
}

// number reads up to width digits.
func number(b []byte, width int) (v int64, n int) {
	for n < len(b) && n < width && b[n] >= '0' && b[n] <= '9' {
		v = 10*v + int64(b[n]-'0')
		n++
	}
	return v, n
}

// name reads one of these names, whole or its first three letters, in any case.
func name(b []byte, names []string) (i, n int) {
	for i, s := range names {
		if hasFold(b, s) {
			return i, len(s)
		}
	}
	for i, s := range names {
		if hasFold(b, s[:3]) {
			return i, 3
		}
	}
	return 0, -1
}

func hasFold(b []byte, s string) bool {
	if len(b) < len(s) {
		return false
	}
	for i := range len(s) {
		if b[i]|0x20 != s[i]|0x20 {
			return false
		}
	}
	return true
}

// zoneNames are the abbreviations that Ruby's Time knows, and a few that its Date does.
var zoneNames = map[string]int{
	"UTC": 0, "UT": 0, "GMT": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
	"JST": 9, "KST": 9, "CET": 1, "CEST": 2, "WET": 0, "WEST": 1, "EET": 2, "EEST": 3, "BST": 1, "MSK": 3, "AKST": -9, "AKDT": -8, "HST": -10, "NZST": 12, "NZDT": 13,
}

// isUTC says whether a zone is what Ruby calls UTC: an offset of +00:00 is not.
func isUTC(zone []byte) bool {
	switch string(zone) {
	case "Z", "z", "UTC", "utc", "-00:00", "-0000", "-00":
		return true
	}
	return false
}

// zone reads an offset or an abbreviation: +09:00, +0900, +09, UTC+9, Z, EST.
func zone(b []byte) (off, n int) {
	for n < len(b) && n < 5 && (b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z') {
		n++
	}
	if n > 0 {
		var upper [5]byte
		for i := range n {
			upper[i] = b[i] &^ 0x20
		}
		hours, ok := zoneNames[string(upper[:n])]
		if !ok {
			return 0, -1
		}
		if n == len(b) || b[n] != '+' && b[n] != '-' || hours != 0 {
			return hours * 3600, n
		}
	}
	if n == len(b) || b[n] != '+' && b[n] != '-' {
		return 0, -1
	}
	sign := 1
	if b[n] == '-' {
		sign = -1
	}
	n++
	v, k := number(b[n:], 6)
	n += k
	var h, m, s int64
	switch k {
	case 1, 2:
		h = v
		if n < len(b) && b[n] == ':' {
			if mm, k := number(b[n+1:], 2); k == 2 {
				m = mm
				n += 3
			}
		}
	case 3, 4:
		h, m = v/100, v%100
	case 5, 6:
		h, m, s = v/10000, v/100%100, v%100
	default:
		return 0, -1
	}
	return sign * int(h*3600+m*60+s), n
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
