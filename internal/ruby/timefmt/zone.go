package timefmt

import (
	"fmt"
	"strings"
	"time"
)

// ParseZone reads a time zone as Fluentd's timezone and timekey_zone parameters have it:
// an offset +HH, +HHMM or +HH:MM (or with -), or a Region/City name of the IANA database.
// Abbreviations such as UTC, JST and Z are refused, as in Fluentd. The name's rules come
// from the system's zone files, or from package time/tzdata when the program links it.
func ParseZone(s string) (*time.Location, error) {
	if off, ok := parseOffset(s); ok {
		return time.FixedZone("", off), nil
	}
	if s != "" && (s[0] == '+' || s[0] == '-') {
		return nil, fmt.Errorf("read time zone %q: an offset is written +HH:MM, +HHMM or +HH", s)
	}
	if strings.Contains(s, "/") {
		loc, err := time.LoadLocation(s)
		if err != nil {
			return nil, fmt.Errorf("read time zone %q: %w", s, err)
		}
		return loc, nil
	}
	return nil, fmt.Errorf("read time zone %q: write an offset such as +09:00 or a name such as Asia/Tokyo (Etc/UTC for UTC)", s)
}

func parseOffset(s string) (int, bool) {
	if len(s) == 6 && s[3] == ':' {
		s = s[:3] + s[4:]
	}
	if len(s) != 3 && len(s) != 5 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	var d [4]int
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		d[i-1] = int(s[i] - '0')
	}
	h, m := d[0]*10+d[1], d[2]*10+d[3]
	if h > 23 || m > 59 {
		return 0, false
	}
	off := h*3600 + m*60
	if s[0] == '-' {
		off = -off
	}
	return off, true
}
