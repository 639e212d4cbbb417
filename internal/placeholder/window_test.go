package placeholder

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/ruby/timefmt"
)

var zones = []string{
	"+00:00", "+05:30", "-03:30", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Atlantic/Azores",
	"America/Havana", "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu",
}

// TestWindowProperty checks, around changes of clocks above all, that windows cover time
// without gap or overlap and hold exactly one local period each.
func TestWindowProperty(t *testing.T) {
	units := []time.Duration{time.Second, time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		loc, err := timefmt.ParseZone(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		unit := rapid.SampledFrom(units).Draw(t, "unit")
		w := newWindows(loc, unit)
		sec := rapid.Int64Range(0, 1_900_000_000).Draw(t, "sec")
		if _, next := time.Unix(sec, 0).In(loc).ZoneBounds(); !next.IsZero() && rapid.Bool().Draw(t, "near a change") {
			sec = next.Unix() + rapid.Int64Range(-2*86400, 2*86400).Draw(t, "distance")
		}
		at := event.Unix(sec, rapid.Int64Range(0, 999_999_999).Draw(t, "nsec"))
		local := func(x event.Time) int64 { return w.floor(int64(x) + w.offsetAt(int64(x))) }
		start, end := w.around(at)
		if start > at || at >= end {
			t.Fatalf("%v is not in [%v, %v)", at, start, end)
		}
		for _, x := range []event.Time{start, end - 1, start + (end-start)/2} {
			if local(x) != local(at) {
				t.Fatalf("in [%v, %v) %v has another local period than %v", start.Time(), end.Time(), x.Time(), at.Time())
			}
		}
		if local(end) == local(at) || local(start-1) == local(at) {
			t.Fatalf("[%v, %v) ends too early for %v", start.Time(), end.Time(), at.Time())
		}
		if s, _ := w.around(end); s != end {
			t.Fatalf("[%v, %v) is followed by a window from %v", start.Time(), end.Time(), s.Time())
		}
		if _, e := w.around(start - 1); e != start {
			t.Fatalf("[%v, %v) is preceded by a window to %v", start.Time(), end.Time(), e.Time())
		}
	})
}

func TestSameTimeMeansSameName(t *testing.T) {
	layouts := []string{"%Y", "%Y-%m-%d", "%H", "%H%M%z", "%Z %H", "%s", "%L", "%G-%V", "%H:%M:%S.%N", "%p", "x"}
	rapid.Check(t, func(t *rapid.T) {
		loc, err := timefmt.ParseZone(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.SampledFrom(layouts).Draw(t, "layout")
		o := Options{Location: loc, EventTime: true}
		if rapid.Bool().Draw(t, "timekey") {
			o = Options{Location: loc, Timekey: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "key"), ChunkKeys: []string{"time"}}
		}
		tpl, _ := Compile(text, o)
		a := event.Unix(rapid.Int64Range(0, 1_900_000_000).Draw(t, "sec"), 0)
		if _, next := time.Unix(a.Seconds(), 0).In(loc).ZoneBounds(); !next.IsZero() && rapid.Bool().Draw(t, "near a change") {
			a = event.FromTime(next) + event.Time(rapid.Int64Range(-4e12, 4e12).Draw(t, "distance"))
		}
		start, end := tpl.Window(a)
		if start == minTime {
			return
		}
		x, _ := tpl.Append(nil, Context{Time: a})
		b := start + event.Time(rapid.Int64Range(0, int64(end-start)-1).Draw(t, "other"))
		if !tpl.SameTime(a, b) {
			t.Fatalf("%v is in the window of %v but has not the same time", b, a)
		}
		if y, _ := tpl.Append(nil, Context{Time: b}); string(x) != string(y) {
			t.Fatalf("%s in %v: %q at %v, %q at %v", text, loc, x, a.Time(), y, b.Time())
		}
	})
}

func TestDayWindowsFollowLocalMidnight(t *testing.T) {
	for _, c := range []struct {
		zone  string
		at    string
		name  string
		start string
		hours time.Duration
	}{
		{"Europe/Berlin", "2023-03-26T15:00:00+02:00", "20230326", "2023-03-26T00:00:00+01:00", 23},
		{"Europe/Berlin", "2023-03-26T00:30:00+01:00", "20230326", "2023-03-26T00:00:00+01:00", 23},
		{"Europe/Berlin", "2023-10-29T15:00:00+01:00", "20231029", "2023-10-29T00:00:00+02:00", 25},
		{"Europe/Berlin", "2023-10-29T00:30:00+02:00", "20231029", "2023-10-29T00:00:00+02:00", 25},
		{"America/Havana", "2023-11-05T12:00:00-05:00", "20231105", "2023-11-05T00:00:00-04:00", 25},
		{"America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "20181104", "2018-11-04T01:00:00-02:00", 23},
		{"+09:00", "2023-03-26T15:00:00Z", "20230327", "2023-03-27T00:00:00+09:00", 24},
		{"America/New_York", "1970-01-01T00:00:00Z", "19691231", "1969-12-31T00:00:00-05:00", 24},
	} {
		tpl, _ := Compile("%Y%m%d", Options{ChunkKeys: []string{"time"}, Timekey: 24 * time.Hour, Location: zone(t, c.zone)})
		when := event.FromTime(must(time.Parse(time.RFC3339, c.at)))
		name, _ := tpl.Append(nil, Context{Time: when})
		start, end := tpl.Window(when)
		want := must(time.Parse(time.RFC3339, c.start))
		if string(name) != c.name || start != event.FromTime(want) || end-start != event.Time(c.hours*time.Hour) {
			t.Errorf("%s %s: %s from %v for %v; want %s from %v for %vh", c.zone, c.at, name, start.Time(), time.Duration(end-start), c.name, want.UTC(), int(c.hours))
		}
	}
}

func TestWindowOfTimelessName(t *testing.T) {
	tpl, _ := Compile("${tag}", Options{Direct: true, EventTime: true})
	if start, end := tpl.Window(5); start != minTime || end != maxTime || !tpl.SameTime(0, 1<<62) {
		t.Errorf("window [%v, %v)", start, end)
	}
}

func must(t time.Time, err error) time.Time {
	if err != nil {
		panic(err)
	}
	return t
}

func BenchmarkWindow(b *testing.B) {
	for _, z := range []string{"+00:00", "Europe/Berlin"} {
		tpl, _ := Compile("%Y%m%d%H", Options{EventTime: true, Location: zone(b, z)})
		b.Run(z, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tpl.SameTime(at, at+1)
			}
		})
	}
}
