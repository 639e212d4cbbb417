package timefmt

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// layouts are tried one after the other; each has to read the whole text.
type layouts []*Parser

// isoLayouts are those of ISO 8601; anyLayouts are those that logs mostly have: they are
// quicker than a search for the parts of a time.
var (
	isoLayouts = compileAll("%Y-%m-%dT%H:%M:%S.%N%z", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%N", "%Y-%m-%dT%H:%M:%S")
	anyLayouts = compileAll("%Y-%m-%dT%H:%M:%S.%N%z", "%Y-%m-%dT%H:%M:%S%z",
		"%Y-%m-%d %H:%M:%S.%N %z", "%Y-%m-%d %H:%M:%S,%N %z", "%Y-%m-%d %H:%M:%S %z",
		"%Y-%m-%dT%H:%M:%S.%N", "%Y-%m-%dT%H:%M:%S,%N", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%N", "%Y-%m-%d %H:%M:%S,%N", "%Y-%m-%d %H:%M:%S",
		"%Y/%m/%d %H:%M:%S.%N %z", "%Y/%m/%d %H:%M:%S %z", "%Y/%m/%d %H:%M:%S.%N", "%Y/%m/%d %H:%M:%S",
		"%a, %d %b %Y %H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %z %Y", "%d/%b/%Y:%H:%M:%S %z", "%b %d %H:%M:%S")
)

func compileAll(texts ...string) layouts {
	out := make(layouts, len(texts))
	for i, text := range texts {
		out[i], _ = CompileParser(text) // a test compiles them
	}
	return out
}

// ParseISO reads a time of ISO 8601; without a zone it is in loc.
func ParseISO(b []byte, loc *time.Location) (Moment, bool) {
	b = bytes.TrimSpace(b)
	if len(b) < 10 || b[4] != '-' {
		return Moment{}, false
	}
	return isoLayouts.parse(b, loc, nil)
}

// ParseAny reads a time as Ruby's Time.parse does: it looks for a time of day and a date
// anywhere in the text. What the text does not tell is filled in as Parser.Parse does.
func ParseAny(b []byte, loc *time.Location, now func() time.Time) (Moment, bool) {
	b = bytes.TrimSpace(b)
	if m, ok := anyLayouts.parse(b, loc, now); ok {
		return m, true
	}
	if len(b) > 128 { // Ruby's limit
		return Moment{}, false
	}
	r := blank()
	if !r.search(strings.ToLower(string(b))) {
		return Moment{}, false
	}
	return r.moment(loc, now)
}

func (l layouts) parse(b []byte, loc *time.Location, now func() time.Time) (Moment, bool) {
	for _, p := range l {
		r := blank()
		if rest, ok := p.read(b, &r); ok && len(rest) == 0 && r.day <= 31 && (r.year < 0 || r.year > 99) {
			if m, ok := r.moment(loc, now); ok {
				return m, true
			}
		}
	}
	return Moment{}, false
}

const months = `(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)`

// The parts that a text is searched for, in this order. Each that is found is taken out.
var (
	clockPart   = regexp.MustCompile(`(\d+)\s*:\s*(\d+)(?:\s*:\s*(\d+)(?:[,.](\d*))?)?(?:\s*([ap])\.?m\.?\b)?(?:\s*((?:gmt|utc?)?[-+]\d+(?::?\d+(?::?\d+)?)?|[a-z]+\b))?|(\d+)\s*([ap])\.?m\.?\b`)
	weekdayPart = regexp.MustCompile(`\b(?:sun|mon|tue|wed|thu|fri|sat)[^-/\d\s]*`)
	dayMonth    = regexp.MustCompile(`(\d+)(?:st|nd|rd|th)?\s*` + months + `[^-\d\s']*(?:\s*('?-?\d+))?`)
	monthDay    = regexp.MustCompile(`\b` + months + `[^-\d\s']*\s*(\d+)[^-\d\s']*(?:\s*,?\s*('?-?\d+))?`)
	isoDate     = regexp.MustCompile(`([-+]?\d+)-(\d+)-(-?\d+)`)
	ordinalDate = regexp.MustCompile(`(?:^|\s)(\d{4})-(\d{3})\b`)
	eraDate     = regexp.MustCompile(`\b([mtshr])(\d+)\.(\d+)\.(\d+)`)
	named       = regexp.MustCompile(`(\d+)-` + months + `[^-/.]*-(-?\d+)`)
	slashDate   = regexp.MustCompile(`(-?\d+)/\s*(\d+)(?:\D\s*(-?\d+))?`)
	dottedDate  = regexp.MustCompile(`(-?\d+)\.\s*(\d+)\.\s*(-?\d+)`)
	digitsDate  = regexp.MustCompile(`(\d{2,14})(?:\s*t?\s*(\d{2,6})?(?:[,.](\d*))?)?(z\b|[-+]\d{1,4}\b)?`)
)

// search finds a time of day and a date; text is in small letters.
func (r *reading) search(text string) bool {
	clock := false
	if m := clockPart.FindStringSubmatchIndex(text); m != nil {
		if !r.clock(part(text, m)) {
			return false
		}
		clock = true
		text = text[:m[0]] + " " + text[m[1]:]
	}
	text = weekdayPart.ReplaceAllString(text, " ")
	return r.date(text) || clock && r.year < 0 && r.month < 0 && r.day < 0
}

// part gives the text of a group; "" for one that took no part.
func part(text string, m []int) func(int) string {
	return func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return text[m[2*i]:m[2*i+1]]
	}
}

func (r *reading) clock(p func(int) string) bool {
	hour, meridian := p(1), p(5)
	if hour == "" {
		hour, meridian = p(7), p(8)
	}
	r.hour = small(hour)
	if m := p(2); m != "" {
		r.min = small(m)
	}
	if s := p(3); s != "" {
		r.sec = small(s)
	}
	r.nsec = fractionOf(p(4))
	switch meridian {
	case "a":
		r.meridian = 0
	case "p":
		r.meridian = 12
	}
	if z := p(6); z != "" {
		r.zoneText(z)
	}
	return r.hour <= 24 && r.min <= 59 && r.sec <= 60
}

// zoneText reads a zone; one that nobody knows is none.
func (r *reading) zoneText(z string) {
	if off, n := zone([]byte(z)); n > 0 {
		r.offset, r.zoned, r.utc = off, true, isUTC([]byte(z[:n]))
	}
}

func (r *reading) date(text string) bool {
	if m := dayMonth.FindStringSubmatch(text); m != nil {
		return r.ymd(m[3], m[2], m[1])
	}
	if m := monthDay.FindStringSubmatch(text); m != nil {
		return r.ymd(m[3], m[1], m[2])
	}
	if m := isoDate.FindStringSubmatch(text); m != nil {
		return r.ymd(m[1], m[2], m[3])
	}
	if m := ordinalDate.FindStringSubmatch(text); m != nil {
		r.year, r.yday = small(m[1]), small(m[2])
		return r.yday >= 1 && r.yday <= 366
	}
	if m := eraDate.FindStringSubmatch(text); m != nil {
		from := map[string]int{"m": 1867, "t": 1911, "s": 1925, "h": 1988, "r": 2018}[m[1]]
		return r.ymd(strconv.Itoa(from+small(m[2])), m[3], m[4])
	}
	if m := named.FindStringSubmatch(text); m != nil {
		return r.ymd(m[3], m[2], m[1])
	}
	if m := slashDate.FindStringSubmatch(text); m != nil {
		return r.ymd(m[1], m[2], m[3])
	}
	if m := dottedDate.FindStringSubmatch(text); m != nil {
		return r.ymd(m[1], m[2], m[3])
	}
	if m := digitsDate.FindStringSubmatch(text); m != nil {
		return r.digits(m)
	}
	return false
}

// ymd takes year, month and day, of which the first and the last may have changed places and
// the year may be missing.
func (r *reading) ymd(y, m, d string) bool {
	if d == "" { // two of them: month and day
		y, m, d = "", y, m
	}
	if year(d) && !year(y) {
		y, d = d, y
	}
	if i, n := name([]byte(m), monthNames[:]); n > 0 {
		r.month = i + 1
	} else {
		r.month = small(m)
	}
	if y != "" {
		short := len(strings.TrimLeft(y, "-+'")) <= 2
		r.year = small(strings.TrimLeft(y, "-+'"))
		switch {
		case short && r.year >= 69:
			r.year += 1900
		case short:
			r.year += 2000
		}
	}
	r.day = small(strings.TrimLeft(d, "-'"))
	return r.month >= 1 && r.month <= 12 && r.day >= 1 && r.day <= 31
}

// year says whether a number looks like a year.
func year(s string) bool { return strings.HasPrefix(s, "'") || len(strings.TrimLeft(s, "-")) > 2 }

// digits reads a date, and a time of day, written without anything between.
func (r *reading) digits(m []string) bool {
	take := func(s *string, n int) int {
		v := small((*s)[:n])
		*s = (*s)[n:]
		return v
	}
	s, clock := m[1], m[2]
	switch n := len(s); n {
	case 2:
		r.day = take(&s, 2)
	case 4:
		r.month, r.day = take(&s, 2), take(&s, 2)
	case 3, 5, 7:
		if n > 3 {
			r.year = take(&s, n-3)
			if n == 5 {
				r.year += 2000
			}
		}
		r.yday = take(&s, 3)
	case 6, 8, 10, 12, 14:
		years := 2
		if n == 8 || n > 10 {
			years = 4
		}
		if n == 12 {
			years = 2
		}
		if r.year = take(&s, years); years == 2 {
			if r.year += 1900; r.year < 1969 {
				r.year += 100
			}
		}
		r.month, r.day = take(&s, 2), take(&s, 2)
		if clock == "" {
			clock = s
		}
	default:
		return false
	}
	for _, to := range []*int{&r.hour, &r.min, &r.sec} {
		if len(clock) >= 2 {
			*to = take(&clock, 2)
		}
	}
	if m[3] != "" {
		r.nsec = fractionOf(m[3])
	}
	if m[4] != "" {
		r.zoneText(m[4])
	}
	return r.month != 0 && r.month <= 12 && r.day != 0 && r.day <= 31 && r.yday != 0 && r.yday <= 366 && r.hour <= 24 && r.min <= 59 && r.sec <= 60
}

// small reads a number of at most nine digits; others are far out of any bounds.
func small(s string) int {
	v, err := strconv.Atoi(s)
	if err != nil || len(s) > 9 {
		return 1 << 30
	}
	return v
}

// fractionOf is a part of a second in nanoseconds.
func fractionOf(digits string) int64 {
	v, _ := strconv.ParseInt((digits + "000000000")[:9], 10, 64)
	return v
}
