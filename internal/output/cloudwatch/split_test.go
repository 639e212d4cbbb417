package cloudwatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// named makes an Output that only splits.
func named(t *testing.T, p Params, names placeholder.Options) *Output {
	t.Helper()
	o := &Output{}
	var err error
	if o.group, err = p.groupNamer(names); err != nil {
		t.Fatal(err)
	}
	if o.stream, err = p.streamNamer(names); err != nil {
		t.Fatal(err)
	}
	return o
}

// rec is a record with the fields g and s where they are given, and k.p.
func rec(t event.Time, g, s any, p string) []byte {
	b := event.AppendEntryHeader(nil, t)
	n := 1
	if g != nil {
		n++
	}
	if s != nil {
		n++
	}
	b = event.AppendMapHeader(b, n)
	for _, f := range []struct {
		k string
		v any
	}{{"g", g}, {"s", s}} {
		switch v := f.v.(type) {
		case string:
			b = event.AppendStr(event.AppendStr(b, f.k), v)
		case int:
			b = event.AppendInt(event.AppendStr(b, f.k), int64(v))
		}
	}
	b = event.AppendMapHeader(event.AppendStr(b, "k"), 1)
	return event.AppendStr(event.AppendStr(b, "p"), p)
}

// lanes splits the entries, checks that the runs cover them, and prints each run.
func lanes(t *testing.T, s output.Splitter, tag string, entries ...[]byte) []string {
	t.Helper()
	var b event.Batch
	b.Tag = tag
	for _, e := range entries {
		b.Entries = append(b.Entries, e...)
	}
	b.Count, b.First, b.Last, _, _ = event.Check(b.Entries)
	var out []string
	end, count := 0, 0
	s.Split(b, func(lane []byte, r output.Run) {
		if r.Off != end {
			t.Errorf("a run begins at %d instead of %d", r.Off, end)
		}
		if n, _, _, _, err := event.Check(b.Entries[r.Off : r.Off+r.Len]); n != r.Count || err != nil {
			t.Errorf("a run of %d entries has %d: %v", r.Count, n, err)
		}
		end += r.Len
		count += r.Count
		if lane == nil {
			out = append(out, fmt.Sprintf("%d %s", r.Count, r.Fate.Reason))
			return
		}
		out = append(out, fmt.Sprintf("%d %s", r.Count, strings.ReplaceAll(string(lane), "\x00", "|")))
	})
	if end != len(b.Entries) || count != b.Count {
		t.Errorf("the runs cover %d bytes and %d entries of %d and %d", end, count, len(b.Entries), b.Count)
	}
	return out
}

func TestSplit(t *testing.T) {
	t.Parallel()
	at := func(s string) event.Time {
		v, err := time.Parse(time.RFC3339, "2026-11-30T"+s+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return event.FromTime(v)
	}
	day := at("10:00:00")
	long := strings.Repeat("é", 600)
	minute := placeholder.Options{ChunkKeys: []string{"tag", "time"}, Timekey: time.Minute}
	for _, c := range []struct {
		name  string
		p     Params
		names placeholder.Options
		in    [][]byte
		want  []string
	}{
		{"static", Params{GroupName: "g", StreamName: "s"}, placeholder.Options{},
			[][]byte{rec(day, nil, nil, "a"), rec(day, nil, nil, "b")}, []string{"2 g|s"}},
		{"tag", Params{TagAsGroup: true, StreamName: "${tag[1]}"}, placeholder.Options{},
			[][]byte{rec(day, nil, nil, "a"), rec(day, nil, nil, "b")}, []string{"2 app.web|web"}},
		{"time windows", Params{GroupName: "/x", StreamName: "%H:%M-${tag}", SanitizeNames: true}, minute,
			[][]byte{rec(at("10:00:01"), nil, nil, "a"), rec(at("10:00:59"), nil, nil, "a"), rec(at("10:01:00"), nil, nil, "a"), rec(at("10:00:30"), nil, nil, "a")},
			[]string{"2 /x|10_00-app.web", "1 /x|10_01-app.web", "1 /x|10_00-app.web"}},
		{"time in one window", Params{GroupName: "/x", StreamName: "%H%M"}, minute,
			[][]byte{rec(at("10:00:01"), nil, nil, "a"), rec(at("10:00:59"), nil, nil, "a")}, []string{"2 /x|1000"}},
		{"keys", Params{GroupNameKey: "g", StreamNameKey: "$.k.p"}, placeholder.Options{},
			[][]byte{rec(day, "a", nil, "1"), rec(day, "a", nil, "1"), rec(day, "b", nil, "1"), rec(day, 7, nil, "2")},
			[]string{"2 a|1", "1 b|1", "1 7|2"}},
		{"missing", Params{GroupNameKey: "g", StreamNameKey: "s"}, placeholder.Options{},
			[][]byte{rec(day, nil, "s", ""), rec(day, nil, "s", ""), rec(day, "", "s", ""), rec(day, "g", "s", ""), rec(day, "g", nil, "")},
			[]string{"3 no_name", "1 g|s", "1 no_name"}},
		{"fallback", Params{GroupNameKey: "g", StreamNameKey: "s", GroupFallback: "G", StreamFallback: "S"}, placeholder.Options{},
			[][]byte{rec(day, nil, nil, ""), rec(day, "g", nil, "")}, []string{"1 G|S", "1 g|S"}},
		{"template without value", Params{GroupName: "/p/${$.k.none}", StreamName: "s"}, placeholder.Options{},
			[][]byte{rec(day, nil, nil, "")}, []string{"1 /p/|s"}},
		{"template with fallback", Params{GroupName: "/p/${$.k.none}", StreamName: "s", GroupFallback: "/p/other"}, placeholder.Options{},
			[][]byte{rec(day, nil, nil, "")}, []string{"1 /p/other|s"}},
		{"bad names", Params{GroupNameKey: "g", StreamNameKey: "s"}, placeholder.Options{},
			[][]byte{rec(day, "a b", "s", ""), rec(day, "g", "a:b", ""), rec(day, "g", "a*", ""), rec(day, "aws/x", "s", ""), rec(day, "g", "a\x00b", ""), rec(day, "g", long, ""), rec(day, "g", "a b", "")},
			[]string{"1 bad_name", "1 bad_name", "1 bad_name", "1 bad_name", "1 bad_name", "1 bad_name", "1 g|a b"}},
		{"sanitized", Params{GroupNameKey: "g", StreamNameKey: "s", SanitizeNames: true}, placeholder.Options{},
			[][]byte{rec(day, "a é:b", "x:*\x00é", ""), rec(day, "aws/x", long, ""), rec(day, "a\x00b", "c", ""), rec(day, "a", "b\x00c", "")},
			[]string{"1 a___b|x___é", "1 aws_x|" + long[:1024], "1 a_b|c", "1 a|b_c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := named(t, c.p, c.names).Splitter()
			for range 2 { // the second time with names remembered
				if d := cmp.Diff(c.want, lanes(t, s, "app.web", c.in...)); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// Names remembered from one tag do not leak into the next.
func TestSplitTags(t *testing.T) {
	t.Parallel()
	r := rec(event.Unix(1, 0), nil, nil, "")
	s := named(t, Params{GroupName: "g", TagAsStream: true}, placeholder.Options{}).Splitter()
	for _, tag := range []string{"a", "b", "b", "a"} {
		if d := cmp.Diff([]string{"1 g|" + tag}, lanes(t, s, tag, r)); d != "" {
			t.Error(d)
		}
	}
}

func TestSplitDamaged(t *testing.T) {
	t.Parallel()
	s := named(t, Params{GroupNameKey: "g", StreamName: "s"}, placeholder.Options{}).Splitter()
	good := rec(event.Unix(1, 0), "g", nil, "")
	b := event.Batch{Entries: append(good[:len(good):len(good)], 0xc1, 0xc1), Count: 3}
	var runs []output.Run
	s.Split(b, func(lane []byte, r output.Run) { runs = append(runs, r) })
	want := []output.Run{{Len: len(good), Count: 1}, {Off: len(good), Len: 2, Count: 2, Fate: ledger.Invalid.Fate()}}
	if d := cmp.Diff(want, runs); d != "" {
		t.Error(d)
	}
}

func TestSplitAllocates(t *testing.T) {
	s := named(t, Params{GroupNameKey: "$.kubernetes.namespace_name", StreamName: "${$.kubernetes.pod_name}-${tag[0]}"}, placeholder.Options{}).Splitter()
	b := event.Batch{Tag: "a.b", Entries: kubernetesBatch(100), Count: 100}
	n := testing.AllocsPerRun(10, func() { s.Split(b, func([]byte, output.Run) {}) })
	if n > 0 {
		t.Errorf("%v allocations for 100 events", n)
	}
}

func TestLaneNames(t *testing.T) {
	t.Parallel()
	if g, s := LaneNames("g\x00s"); g != "g" || s != "s" {
		t.Errorf("got %q, %q", g, s)
	}
}
