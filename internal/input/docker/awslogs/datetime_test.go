package awslogs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/event"
)

// compile makes the Compiled of a format; asTime for awslogs-datetime-as-event-time.
func compile(t testing.TB, format string, asTime bool, local *time.Location) *Compiled {
	t.Helper()
	opts := []string{"awslogs-datetime-format=" + format, fmt.Sprint("awslogs-datetime-as-event-time=", asTime)}
	if local != nil {
		opts = append(opts, "awslogs-datetime-timezone=local")
	}
	o, err := Parse(container(opts...), Env{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := o.Compile(local)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDatetimePattern(t *testing.T) {
	for format, want := range map[string]string{
		"%Y-%m-%d":                         `\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[1,2][0-9]|3[0,1])`,
		"%e %T":                            " ",
		"%%":                               "",
		"100%%d":                           "100d",
		"%":                                "%",
		"a%":                               "a%",
		"%\n%S":                            "%\n[0-5][0-9]",
		"%é%w":                             "[0-6]",
		"%\xff%w":                          "[0-6]",
		"[%Y]":                             `[\d{4}]`,
		"%p%f%L":                           `[A,P]M\d{6}\.\d{3}`,
		"%F%s%k%l%h%D%R%P%U%W%c%x%X%G%V%u": "",
	} {
		if got := datetimePattern(format); got != want {
			t.Errorf("%q is %q, want %q", format, got, want)
		}
	}
}

func TestBegins(t *testing.T) {
	for _, c := range []struct {
		format string
		yes    string // lines, parted by |
		no     string
	}{
		{"%d/%m/%y %a %H:%M:%S%L %Z", "31/12/10 Mon 08:42:44.345 NZDT|x 31/12/10 Mon 08:42:44.345 NZDT y", "31/12/10 Mon 08:42:44,345 NZDT|31/12/10 Mon 08:42:44.345|"},
		{"%Y-%m-%d %A %I:%M:%S.%f%p%z", "2007-12-04 Monday 08:42:44.123456AM+1200", "2007-12-04 Monday 13:42:44.123456AM+1200|2007-12-04 Monday 08:42:44.123456AMZ|2007-12-04 Monday 08:42:44.123456AM+12:00"},
		{"%b", "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|January|JanFeb", "jan|JAN|Ja|x"},
		{"%B", "January|February|March|April|May|June|July|August|September|October|November|December", "Jan|Feb|Septembe"},
		{"%a", "Mon|Tue|Wed|Thu|Fri|Sat|Sun|Monday", "mon|Mo"},
		{"%A", "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday", "Mon|Tues"},
		{"x%wx", "x0x|x6x", "x7x|x00x"},
		{"%j", "091|001|365|366|,00|199", "367|010|020|000|400"},
		{"x%dx", "x01x|x31x|x3,x|x,5x|x10x", "x00x|x32x|x1x"},
		{"x%mx", "x01x|x12x", "x00x|x13x"},
		{"x%Hx", "x00x|x23x|x,9x", "x24x"},
		{"x%Ix", "x00x|x12x", "x13x"},
		{"%p", "AM|PM|,M", "am|M"},
		{"x%Sx", "x00x|x59x", "x60x"},
		{"%Z", "NZDT|EST|AT|ABCDT|ABCDET|UTC", "T|est"},
		{"%Z]", "NZDT]", "UTC]|T]"},
		{"%z", "+0000|-1200", "Z|+00:00"},
		{"%%%Y%%", "1234", "%%"},
		{"%e %T", "a b| ", "ab|"},
		{"^%Y", "2026 x", " 2026"},
		{`\[%Y\]`, "a [2026]", "2026|a 2026]"},
		{"[%Y]", "7|{|4|}", "d|x"},
		{"%Y.%m", "2026-11|2026x11|2026é11|2026\xff11", "202611|2026\n11|2026xx11"},
		{"%Y年%m月", "2026年11月", "2026-11|2026年11"},
		{"(%H|%M)x+", "23xx", "24"},
		{"", "|anything", ""},
	} {
		m := compile(t, c.format, false, nil)
		for _, line := range strings.Split(c.yes, "|") {
			if !m.Begins([]byte(line)) {
				t.Errorf("%q does not match %q", c.format, line)
			}
		}
		for _, line := range strings.Split(c.no, "|") {
			if c.no != "" && m.Begins([]byte(line)) {
				t.Errorf("%q matches %q", c.format, line)
			}
		}
	}
}

func TestMultilinePattern(t *testing.T) {
	o, err := Parse(container("awslogs-multiline-pattern=^INFO"), Env{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := o.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Multiline() || !c.Begins([]byte("INFO x")) || c.Begins([]byte(" INFO")) || c.TakesTime() {
		t.Error("^INFO does not begin events, or does where it should not")
	}
}

func TestTimeOf(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	if z, err := time.LoadLocation("Europe/Berlin"); err == nil {
		berlin = z
	}
	const read = "2026-01-01T00:30:00Z"
	for _, c := range []struct {
		format, line, read string
		local              *time.Location
		want               string // "" for none
	}{
		{"%Y-%m-%d %H:%M:%S", "[2025-12-31 23:59:58] x", read, nil, "2025-12-31T23:59:58Z"},
		{"%Y-%m-%dT%H:%M:%S%L", "2025-12-31T23:59:58.345Z", read, nil, "2025-12-31T23:59:58.345Z"},
		{"%Y-%m-%d %H:%M:%S.%f", "2025-12-31 23:59:58.123456", read, nil, "2025-12-31T23:59:58.123456Z"},
		{"%Y-%m-%d %H:%M:%S,%f %z", "2025-12-31 23:59:58,000001 -0330", read, nil, "2026-01-01T03:29:58.000001Z"},
		{"%Y-%m-%d %H:%M:%S %z", "2025-12-31 23:59:58 +2400", read, nil, ""},
		{"%Y-%m-%d %H:%M:%S %z", "2025-12-31 23:59:58 +0060", read, nil, ""},
		{"%Y-%m-%d %H:%M:%S", "2025-12-31 23:59:58", read, berlin, "2025-12-31T22:59:58Z"},
		{"%Y-%m-%d %H:%M:%S", "2025-07-31 23:59:58", "2025-07-31T20:00:00Z", time.FixedZone("X", -7200), "2025-08-01T01:59:58Z"},
		{"%Y-%m-%d", "2025-12-31", read, nil, "2025-12-31T00:00:00Z"},
		{"%d/%b/%Y:%H:%M:%S %z", `1.2.3.4 - - [31/Dec/2025:23:59:58 +0100] "GET /"`, read, nil, "2025-12-31T22:59:58Z"},
		{"%d %B %y %I:%M %p", "04 July 25 12:05 AM", read, nil, "2025-07-04T00:05:00Z"},
		{"%d %B %y %I:%M %p", "04 July 25 12:05 PM", read, nil, "2025-07-04T12:05:00Z"},
		{"%d %B %y %I:%M %p", "04 July 25 01:05 PM", read, nil, "2025-07-04T13:05:00Z"},
		{"%d %B %y %I:%M %p", "04 July 25 01:05 ,M", read, nil, ""},
		{"%y-%m-%d %H", "68-01-01 00", read, nil, "2068-01-01T00:00:00Z"},
		{"%y-%m-%d %H", "70-01-01 05", read, nil, "1970-01-01T05:00:00Z"},
		{"%y-%m-%d %H", "69-01-01 00", read, nil, ""}, // before the epoch
		{"%Y-%m-%d %H", "0001-01-01 00", read, nil, ""},
		{"%Y-%m-%d %H", "9999-01-01 00", read, nil, ""},
		{"%Y-%m-%d %H", "2026-02-30 00", read, nil, ""},
		{"%Y-%m-%d %H", "2024-02-29 00", read, nil, "2024-02-29T00:00:00Z"},
		{"%Y-%m-%d %H", "2026-02-,9 00", read, nil, ""},
		{"%Y-%m-%d %H", "2026-02-01 ,0", read, nil, ""},
		{"%Y %j %H", "2025 365 01", read, nil, "2025-12-31T01:00:00Z"},
		{"%Y %j %H", "2025 366 01", read, nil, ""},
		{"%Y %j %H", "2024 366 01", read, nil, "2024-12-31T01:00:00Z"},
		{"%j %H", "365 23", read, nil, "2025-12-31T23:00:00Z"},
		{"%j %H", "001 01", "2025-12-31T23:59:00Z", nil, "2026-01-01T01:00:00Z"},
		// without a year: the one nearest to the reading
		{"%b %d %H:%M:%S", "Dec 31 23:59:58 host x", read, nil, "2025-12-31T23:59:58Z"},
		{"%b %d %H:%M:%S", "Jan 01 00:00:01 host x", read, nil, "2026-01-01T00:00:01Z"},
		{"%b %d %H:%M:%S", "Jan 01 00:00:01 host x", "2025-12-31T23:59:59Z", nil, "2026-01-01T00:00:01Z"},
		{"%m/%d %H", "02/29 12", "2025-03-01T00:00:00Z", nil, "2024-02-29T12:00:00Z"},
		{"%m/%d %H", "02/29 12", "2026-03-01T00:00:00Z", nil, ""}, // no leap year near
		// without a date
		{"%H:%M:%S", "23:59:58", read, nil, "2025-12-31T23:59:58Z"},
		{"%H:%M:%S", "00:30:01", read, nil, "2026-01-01T00:30:01Z"},
		{"%H:%M:%S", "00:00:01", "2025-12-31T23:59:59Z", nil, "2026-01-01T00:00:01Z"},
		{"%H:%M:%S %z", "01:20:00 +0100", read, nil, "2026-01-01T00:20:00Z"},
		{"%H:%M", "01:20", read, berlin, "2026-01-01T00:20:00Z"},
		{"%H:%M %z", "13:30 +1400", "2026-01-01T23:30:00Z", nil, "2026-01-01T23:30:00Z"},
		{"%d %H", "01 00", "2025-12-31T23:59:00Z", nil, "2026-01-01T00:00:00Z"},
		{"%d %H:%M", "31 23:50", read, nil, "2025-12-31T23:50:00Z"},
		{"%d %H:%M", "31 23:50", "2026-03-01T00:00:00Z", nil, "2026-03-31T23:50:00Z"}, // February has no 31st, and January is not looked at
		// no match
		{"%Y-%m-%d", "nothing here", read, nil, ""},
		{"^%Y-%m-%d", " 2026-01-01", read, nil, ""},
		// with regular expressions in the text
		{`(?:ts|time)=%Y-%m-%d[T ]%H:%M:%S%L`, "a time=2025-12-31 23:59:58.345", read, nil, "2025-12-31T23:59:58.345Z"},
		{`\d+ (%Y)-%m-%d +%H:%M`, "12 2025-12-31   23:59", read, nil, "2025-12-31T23:59:00Z"},
		{`(?:%Y-%m-%d )?%H:%M`, "x 23:59", read, nil, ""}, // the date is not there
		{"%H:%M+", "23:5999", read, nil, ""},              // + repeats a digit, and would repeat a group
		{"%M+:%H", "519:12", read, nil, ""},
	} {
		m := compile(t, c.format, true, c.local)
		at, err := time.Parse(time.RFC3339Nano, c.read)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := m.TimeOf([]byte(c.line), event.FromTime(at))
		text := ""
		if ok {
			text = got.Time().UTC().Format(time.RFC3339Nano)
		}
		if text != c.want {
			t.Errorf("%q in %q read %s is %q, want %q", c.format, c.line, c.read, text, c.want)
		}
	}
}

// TestScannerIsTheRegexp compares both ways to find a match, which must be one.
func TestScannerIsTheRegexp(t *testing.T) {
	formats := []string{
		"%Y-%m-%d %H:%M:%S%L", "%d/%m/%y %a %H:%M:%S%L %Z", "%Y-%m-%d %A %I:%M:%S.%f%p%z", "%b %d %H:%M:%S", "%Z%Z", "x%Zx", "%j%w", "%B.%y", `\[%p\]`, "^%m", "%e %T", "年%d",
	}
	lines := []string{
		"2026-11-30 20:14:14.123", "31/12/10 Mon 08:42:44.345 NZDT", "2007-12-04 Monday 08:42:44.123456AM+1200", "Nov 30 20:14:14", "ESTT", "ESTPST", "TTTT", "ATTTTTT", "xABTTx", "xABCDTx", "xABCDETx", "0916",
		"May\xff26", "[PM]", "12", " 12", "", "年31", "2026-11-30 20:14:14", "\xe5年31", "202026-11-30 20:14:14.1232026-11-30 20:14:14.123",
	}
	for _, f := range formats {
		if newScanner(f) == nil {
			t.Errorf("%q has no scanner", f)
		}
		for _, l := range lines {
			sameMatch(t, f, []byte(l))
			sameMatch(t, f, []byte("prefix "+l+" suffix"))
		}
	}
}

// sameMatch fails if the format's scanner, if it has one, and its regular expression differ.
func sameMatch(t *testing.T, format string, line []byte) {
	t.Helper()
	s := newScanner(format)
	if s == nil {
		return
	}
	re, err := regexp.Compile(datetimePattern(format))
	if err != nil {
		t.Fatalf("%q has a scanner, but %v", format, err)
	}
	want := re.FindIndex(line)
	if want == nil {
		want = []int{-1, -1}
	}
	var sp spots
	if start, end := s.find(line, &sp); start != want[0] || end != want[1] {
		t.Errorf("%q in %q: found at %d to %d, the regular expression at %d to %d", format, line, start, end, want[0], want[1])
	}
}

func FuzzDatetime(f *testing.F) {
	f.Add("%Y-%m-%d %H:%M:%S%L", []byte("2026-11-30 20:14:14.123"), int64(1e18))
	f.Add("%d/%m/%y %a %H:%M:%S%L %Z", []byte("31/12/10 Mon 08:42:44.345 NZDT"), int64(1e18))
	f.Add("%b %d %I:%M %p%z%e%", []byte("Nov 30 08:14 AM+1200"), int64(0))
	f.Add("(%Y|%y)[.]?%B \\.%Z%j", []byte("2026May .EST091"), int64(1<<62))
	f.Add("%H%é%Y\xff.x", []byte("23,\xff"), int64(-1))
	f.Fuzz(func(t *testing.T, format string, line []byte, read int64) {
		if len(format) > 200 {
			return
		}
		if _, err := regexp.Compile(datetimePattern(format)); err != nil {
			return
		}
		sameMatch(t, format, line)
		for _, zone := range []string{timezoneUTC, timezoneLocal} {
			o := Options{DatetimeFormat: format, MultilinePattern: datetimePattern(format), DatetimeAsEventTime: true, DatetimeTimezone: zone}
			c, err := o.Compile(time.FixedZone("X", 3600))
			if err != nil {
				return
			}
			at, ok := c.TimeOf(line, event.Time(read))
			if ok && !c.Begins(line) {
				t.Errorf("%q has a time in %q, but does not match", format, line)
			}
			if ok && (at < 0 || at.Seconds() > 1<<32-1) {
				t.Errorf("%q in %q is %d", format, line, at)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	for _, format := range []string{"%Y-%m-%d %H:%M:%S%L", "(x|y)%Y-%m-%d %H"} {
		c := compile(t, format, true, nil)
		line := []byte("    at com.example.Service.run(Service.java:1234) with nothing that looks like a time 20-20 12:30")
		if n := testing.AllocsPerRun(100, func() { c.Begins(line); c.TimeOf(line, 1e18) }); n != 0 {
			t.Errorf("%q: %v allocations where nothing matches", format, n)
		}
	}
	c := compile(t, "%b %d %H:%M:%S", true, nil)
	line := []byte("Nov 30 20:14:14 host app: x")
	if n := testing.AllocsPerRun(100, func() { c.Begins(line); c.TimeOf(line, 1e18) }); n != 0 {
		t.Errorf("%v allocations for a match", n)
	}
}

func BenchmarkBegins(b *testing.B) {
	c := compile(b, "%Y-%m-%d %H:%M:%S", true, nil)
	re := regexp.MustCompile(datetimePattern("%Y-%m-%d %H:%M:%S"))
	miss := []byte("    at com.example.Service.run(Service.java:1234) with nothing that looks like a time 20-20 12:30 and more text after it")
	hit := []byte("2026-11-30 20:14:14 INFO something happened")
	b.Run("miss", func(b *testing.B) {
		for b.Loop() {
			c.Begins(miss)
		}
	})
	b.Run("miss/regexp", func(b *testing.B) {
		for b.Loop() {
			re.Match(miss)
		}
	})
	b.Run("hit", func(b *testing.B) {
		for b.Loop() {
			c.Begins(hit)
		}
	})
	b.Run("hit/regexp", func(b *testing.B) {
		for b.Loop() {
			re.Match(hit)
		}
	})
	b.Run("time", func(b *testing.B) {
		for b.Loop() {
			c.TimeOf(hit, 1e18)
		}
	})
}
