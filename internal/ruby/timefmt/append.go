package timefmt

import "strconv"

var (
	monthNames   = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	weekdayNames = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// appendOps formats f. f is nil only when no op needs it.
func appendOps(dst []byte, ops []op, f *fields) []byte {
	for i := range ops {
		o := &ops[i]
		switch {
		case o.verb == 0:
			dst = append(dst, o.text...)
		case o.sub != nil:
			start := len(dst)
			dst = appendOps(dst, o.sub, f)
			dst = fill(dst, start, o.width, o.textPad())
		default:
			dst = appendOp(dst, o, f)
		}
	}
	return dst
}

func appendOp(dst []byte, o *op, f *fields) []byte {
	switch o.verb {
	case 'Y':
		return o.year(dst, f.year)
	case 'G':
		return o.year(dst, f.isoYear)
	case 'C':
		return o.number(dst, int64(floorDiv(int64(f.year), 100)), 2, '0')
	case 'y':
		return o.number(dst, mod100(f.year), 2, '0')
	case 'g':
		return o.number(dst, mod100(f.isoYear), 2, '0')
	case 'm':
		return o.number(dst, int64(f.month), 2, '0')
	case 'd':
		return o.number(dst, int64(f.day), 2, '0')
	case 'e':
		return o.number(dst, int64(f.day), 2, ' ')
	case 'j':
		return o.number(dst, int64(f.yday), 3, '0')
	case 'u':
		return o.number(dst, int64((f.wday+6)%7+1), 1, '0')
	case 'w':
		return o.number(dst, int64(f.wday), 1, '0')
	case 'V':
		return o.number(dst, int64(f.isoWeek), 2, '0')
	case 'U':
		return o.number(dst, int64((f.yday+6-f.wday)/7), 2, '0')
	case 'W':
		return o.number(dst, int64((f.yday+6-(f.wday+6)%7)/7), 2, '0')
	case 'b', 'h':
		return o.name(dst, monthNames[f.month-1][:3])
	case 'B':
		return o.name(dst, monthNames[f.month-1])
	case 'a':
		return o.name(dst, weekdayNames[f.wday][:3])
	case 'A':
		return o.name(dst, weekdayNames[f.wday])
	}
	return appendClock(dst, o, f)
}

// appendClock formats what does not need the calendar.
func appendClock(dst []byte, o *op, f *fields) []byte {
	switch o.verb {
	case 'H':
		return o.number(dst, int64(f.hour), 2, '0')
	case 'k':
		return o.number(dst, int64(f.hour), 2, ' ')
	case 'I':
		return o.number(dst, int64((f.hour+11)%12+1), 2, '0')
	case 'l':
		return o.number(dst, int64((f.hour+11)%12+1), 2, ' ')
	case 'M':
		return o.number(dst, int64(f.min), 2, '0')
	case 'S':
		return o.number(dst, int64(f.sec), 2, '0')
	case 's':
		return o.number(dst, f.unix, 1, '0')
	case 'L':
		return o.fraction(dst, f.nsec, 3)
	case 'N':
		return o.fraction(dst, f.nsec, 9)
	case 'p', 'P':
		return o.noon(dst, f.hour)
	case 'Z':
		return o.zoneName(dst, f.zone)
	case 'z':
		return o.offset(dst, f)
	case 'n':
		return o.string(dst, "\n")
	case 't':
		return o.string(dst, "\t")
	default: // '%' with a width
		return o.string(dst, "%")
	}
}

func mod100(year int) int64 { return int64(year) - 100*floorDiv(int64(year), 100) }

func (o *op) year(dst []byte, y int) []byte {
	width := 4
	if y < 0 {
		width = 5 // the sign counts
	}
	return o.number(dst, int64(y), width, '0')
}

// number appends v, padded to the directive's width or to width.
func (o *op) number(dst []byte, v int64, width int, pad byte) []byte {
	if o.left {
		return strconv.AppendInt(dst, v, 10)
	}
	if o.width > 0 {
		width = o.width
	}
	if o.pad != 0 {
		pad = o.pad
	}
	if width == 2 && v >= 10 && v < 100 {
		return append(dst, byte('0'+v/10), byte('0'+v%10))
	}
	if v < 0 && pad == '0' {
		dst = append(dst, '-')
		start := len(dst)
		dst = strconv.AppendInt(dst, -v, 10)
		return fill(dst, start, width-1, pad)
	}
	start := len(dst)
	dst = strconv.AppendInt(dst, v, 10)
	return fill(dst, start, width, pad)
}

// fraction appends the first digits of the nanoseconds. A longer width adds zeros.
func (o *op) fraction(dst []byte, nsec, digits int) []byte {
	if o.width > 0 {
		digits = o.width
	}
	for scale := 100_000_000; digits > 0; digits-- {
		if scale == 0 {
			dst = append(dst, '0')
			continue
		}
		dst = append(dst, byte('0'+nsec/scale%10))
		scale /= 10
	}
	return dst
}

func (o *op) textPad() byte {
	if o.pad == '0' {
		return '0'
	}
	return ' '
}

func (o *op) string(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(dst, s...)
	if o.left {
		return dst
	}
	return fill(dst, start, o.width, o.textPad())
}

// name appends a name of a month or a day; both case flags make it upper case.
func (o *op) name(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(dst, s...)
	if o.upper || o.swap {
		toUpper(dst[start:])
	}
	if o.left {
		return dst
	}
	return fill(dst, start, o.width, o.textPad())
}

func (o *op) noon(dst []byte, hour int) []byte {
	s := "AM"
	if hour >= 12 {
		s = "PM"
	}
	lower := o.verb == 'P' && !o.upper && !o.swap || o.verb == 'p' && o.swap
	if lower && hour >= 12 {
		s = "pm"
	} else if lower {
		s = "am"
	}
	return o.string(dst, s)
}

func (o *op) zoneName(dst []byte, name string) []byte {
	start := len(dst)
	dst = append(dst, name...)
	if o.swap {
		toLower(dst[start:])
	}
	if o.left || name == "" {
		return dst
	}
	return fill(dst, start, o.width, o.textPad())
}

// offset appends the distance from UTC. The width counts everything; what is left of it
// pads the hours: with zeros behind the sign, or with blanks before it.
func (o *op) offset(dst []byte, f *fields) []byte {
	sign, off := byte('+'), f.off
	if off < 0 || o.left && f.utc { // %-z of UTC says, after RFC 3339, that the local zone is unknown
		sign, off = '-', -off
	}
	h, m, s := off/3600, off/60%60, off%60
	form := int(o.colons)
	if form == 3 { // as short as it can be
		switch {
		case s != 0:
			form = 2
		case m != 0:
			form = 1
		default:
			form = -1
		}
	}
	tail := 2 // bytes behind the hours
	switch form {
	case -1:
		tail = 0
	case 1:
		tail = 3
	case 2:
		tail = 6
	}
	dst = o.hours(dst, sign, h, max(2, o.width-1-tail))
	if form < 0 {
		return dst
	}
	if form > 0 {
		dst = append(dst, ':')
	}
	dst = append(dst, byte('0'+m/10), byte('0'+m%10))
	if form == 2 {
		dst = append(dst, ':', byte('0'+s/10), byte('0'+s%10))
	}
	return dst
}

func (o *op) hours(dst []byte, sign byte, h, digits int) []byte {
	if o.pad == ' ' {
		start := len(dst)
		dst = append(dst, sign)
		dst = strconv.AppendInt(dst, int64(h), 10)
		return fill(dst, start, digits+1, ' ')
	}
	dst = append(dst, sign)
	start := len(dst)
	dst = strconv.AppendInt(dst, int64(h), 10)
	return fill(dst, start, digits, '0')
}

// fill moves dst[start:] to the right so that it is width long, with pad before it.
func fill(dst []byte, start, width int, pad byte) []byte {
	have := len(dst) - start
	missing := width - have
	if missing <= 0 {
		return dst
	}
	for range missing {
		dst = append(dst, pad)
	}
	copy(dst[start+missing:], dst[start:start+have])
	for i := start; i < start+missing; i++ {
		dst[i] = pad
	}
	return dst
}

func toUpper(b []byte) {
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 32
		}
	}
}

func toLower(b []byte) {
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 32
		}
	}
}
