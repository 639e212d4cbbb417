package timefmt

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// vector is one line of testdata/strftime.jsonl.gz: [seconds, nanoseconds, zone, layout,
// what Ruby gave], recorded by testdata/record.rb.
type vector struct {
	t            time.Time
	zone, layout string
	want         string
}

func (v *vector) UnmarshalJSON(b []byte) error {
	var sec, nsec int64
	if err := json.Unmarshal(b, &[]any{&sec, &nsec, &v.zone, &v.layout, &v.want}); err != nil {
		return err
	}
	v.t = time.Unix(sec, nsec).In(zoneOf(v.zone))
	return nil
}

func zoneOf(name string) *time.Location {
	if name == "UTC" {
		return time.UTC
	}
	if len(name) == len("+12:45:30") && (name[0] == '+' || name[0] == '-') {
		return time.FixedZone("", 12*3600+45*60+30) // the only such zone in the file
	}
	loc, err := ParseZone(name)
	if err != nil {
		panic(err)
	}
	return loc
}

func vectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/strftime.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRubyVectors(t *testing.T) {
	all := vectors(t)
	if len(all) < 10_000 {
		t.Fatalf("only %d vectors", len(all))
	}
	bad := 0
	for _, v := range all {
		l, err := Compile(v.layout)
		if v.want == "ERR ArgumentError" {
			if !errors.Is(err, ErrIncomplete) {
				t.Errorf("Compile(%q) = %v, want ErrIncomplete", v.layout, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("Compile(%q): %v", v.layout, err)
			continue
		}
		if got := string(l.Append([]byte("x"), v.t)); got != "x"+v.want {
			t.Errorf("%d.%09d %s %q = %q, Ruby gives %q", v.t.Unix(), v.t.Nanosecond(), v.zone, v.layout, got[1:], v.want)
			if bad++; bad > 40 {
				t.Fatal("and more")
			}
		}
	}
}

func TestCalendarAgreesWithGo(t *testing.T) {
	l := mustCompile(t, "%Y-%m-%d %H:%M:%S.%9N %j %w %G-%V")
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-60_000_000_000, 250_000_000_000).Draw(t, "sec"), rapid.Int64Range(0, 999_999_999).Draw(t, "nsec")).UTC()
		year, week := at.ISOWeek()
		want := at.Format("2006-01-02 15:04:05.000000000 002 ") + string(rune('0'+int(at.Weekday())))
		got := string(l.Append(nil, at))
		if !strings.HasPrefix(got, want) {
			t.Fatalf("got %q, Go gives %q", got, want)
		}
		iso := []byte{byte('0' + year/1000), byte('0' + year/100%10), byte('0' + year/10%10), byte('0' + year%10), '-', byte('0' + week/10), byte('0' + week%10)}
		if !strings.HasSuffix(got, " "+string(iso)) {
			t.Fatalf("got %q, Go's ISO week is %s", got, iso)
		}
	})
}

func TestGranularity(t *testing.T) {
	for _, c := range []struct {
		layout string
		want   Unit
		zone   bool
	}{
		{"plain %% %n", Never, false},
		{"%z", Never, true},
		{"%Y", Year, false},
		{"%Y-%b", Month, false},
		{"%G-W%V", Week, false},
		{"%F", Day, false},
		{"%20F", Day, false},
		{"%A", Day, false},
		{"%Y%m%d%H", Hour, false},
		{"%p", Hour, false},
		{"%R", Minute, false},
		{"%s", Second, false},
		{"%c %Z", Second, true},
		{"%S.%L", Subsecond, false},
		{"%Q %+", Never, false},
	} {
		l := mustCompile(t, c.layout)
		if l.Granularity() != c.want || l.ShowsZone() != c.zone {
			t.Errorf("%q: granularity %v, zone %v; want %v, %v", c.layout, l.Granularity(), l.ShowsZone(), c.want, c.zone)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for layout, want := range map[string]error{"100%": ErrIncomplete, "%-": ErrIncomplete, "%5": ErrIncomplete, "%1025d": ErrWidth, "%99999999999999999999d": ErrWidth} {
		if _, err := Compile(layout); !errors.Is(err, want) {
			t.Errorf("Compile(%q) = %v, want %v", layout, err, want)
		}
	}
}

func TestParseZone(t *testing.T) {
	at := time.Unix(1700000000, 0)
	for s, want := range map[string]int{
		"+09:00": 32400, "+0900": 32400, "+09": 32400, "-03:30": -12600, "-0330": -12600, "+00:00": 0,
		"Asia/Tokyo": 32400, "America/Argentina/Ushuaia": -10800, "Etc/UTC": 0,
	} {
		loc, err := ParseZone(s)
		if err != nil {
			t.Errorf("ParseZone(%q): %v", s, err)
			continue
		}
		if _, off := at.In(loc).Zone(); off != want {
			t.Errorf("ParseZone(%q): offset %d, want %d", s, off, want)
		}
	}
	for _, s := range []string{"", "UTC", "JST", "Z", "Local", "+9", "+9:00", "+090", "+09:0", "+24", "+01:60", "09:00", "+aa", "Mars/Base", "../etc/passwd", "/etc/passwd"} {
		if loc, err := ParseZone(s); err == nil {
			t.Errorf("ParseZone(%q) = %v, want an error", s, loc)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	l := mustCompile(t, "%Y-%m-%dT%H:%M:%S.%3N%:z %a %b %j %V %Z %30c %^B")
	at := time.Unix(1700000000, 123456789).In(zoneOf("Europe/Berlin"))
	dst := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { dst = l.Append(dst[:0], at) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"%Y-%m-%d", "%", "%%", "%^-_010:::z", "%E", "%Oy", "%1024c", "%:%", "a%\xffb"} {
		f.Add(s)
	}
	at := time.Unix(1700000000, 123456789).UTC()
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Compile(s)
		if err != nil {
			return
		}
		if out := l.Append(nil, at); len(out) > (len(s)+1)*(maxWidth+16) {
			t.Fatalf("%d bytes from a layout of %d", len(out), len(s))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, layout := range []string{"%Y-%m-%d", "%Y-%m-%dT%H:%M:%S.%3N%z", "%d/%b/%Y:%H:%M:%S %z"} {
		l := mustCompile(b, layout)
		at := time.Unix(1700000000, 123456789).In(zoneOf("Europe/Berlin"))
		b.Run(layout, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 64)
			for b.Loop() {
				dst = l.Append(dst[:0], at)
			}
		})
	}
}

func mustCompile(t testing.TB, layout string) *Layout {
	t.Helper()
	l, err := Compile(layout)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestEveryDirectiveIsFormatted: a letter in units that appendOp does not know would print a
// percent sign.
func TestEveryDirectiveIsFormatted(t *testing.T) {
	at := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	for verb := range units {
		l, err := Compile("%" + string(verb))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(l.Append(nil, at)); verb != '%' && (got == "" || got == "%") {
			t.Errorf("%%%c gives %q: give it a case in appendOp or appendClock", verb, got)
		}
	}
}
