package cloudwatch

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

func at(t *testing.T, text string) event.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return event.FromTime(v)
}

func TestNoticeForms(t *testing.T) {
	t.Parallel()
	first, last := at(t, "2026-11-30T10:00:06.120Z"), at(t, "2026-11-30T10:00:21.004Z")
	full := func(n uint64) []output.ReasonCount {
		return []output.ReasonCount{{Reason: ledger.BufferFull, Events: n}}
	}
	for _, c := range []struct {
		n          output.Notice
		text, json string
	}{
		{
			output.Notice{Events: 12763, Bytes: 1258291, First: first, Last: last, Reasons: full(12763)},
			"weir: 12763 events (1.2 MB) missing between 2026-11-30T10:00:06.120Z and 2026-11-30T10:00:21.004Z: buffer full 12763",
			`{"weir":"loss","dropped_events":12763,"dropped_bytes":1258291,"first":"2026-11-30T10:00:06.120Z","last":"2026-11-30T10:00:21.004Z","reasons":{"buffer_full":12763}}`,
		},
		{
			output.Notice{Events: 12763, Bytes: 999, First: first, Last: first, Reasons: []output.ReasonCount{{Reason: ledger.BufferFull, Events: 12000}, {Reason: ledger.TooOld, Events: 763}}},
			"weir: 12763 events (999 bytes) missing between 2026-11-30T10:00:06.120Z and 2026-11-30T10:00:06.120Z: buffer full 12000, too old 763",
			`{"weir":"loss","dropped_events":12763,"dropped_bytes":999,"first":"2026-11-30T10:00:06.120Z","last":"2026-11-30T10:00:06.120Z","reasons":{"buffer_full":12000,"too_old":763}}`,
		},
		{
			output.Notice{Events: 1, Bytes: 1, Reasons: full(1)}, "weir: 1 event (1 byte) missing: buffer full 1",
			`{"weir":"loss","dropped_events":1,"dropped_bytes":1,"reasons":{"buffer_full":1}}`,
		},
		{
			output.Notice{Events: 2, Reasons: full(2)}, "weir: 2 events missing: buffer full 2",
			`{"weir":"loss","dropped_events":2,"reasons":{"buffer_full":2}}`,
		},
		{
			output.Notice{Bytes: 4096, Reasons: []output.ReasonCount{{Reason: ledger.WireLoss}}}, "weir: some events (4.0 kB) missing: wire loss",
			`{"weir":"loss","dropped_events":0,"dropped_bytes":4096,"reasons":{"wire_loss":0}}`,
		},
	} {
		if got := string(appendNotice(nil, &c.n)); got != c.text {
			t.Errorf("got  %s\nwant %s", got, c.text)
		}
		got := string(appendNoticeJSON(nil, &c.n))
		if got != c.json || !json.Valid([]byte(got)) {
			t.Errorf("got  %s\nwant %s", got, c.json)
		}
	}
	for n, want := range map[uint64]string{
		0: "0 bytes", 1000: "1.0 kB", 9999: "9.9 kB", 10_000: "10 kB", 999_999: "999 kB", 1_000_000: "1.0 MB", 123_456_789: "123 MB",
		2_500_000_000: "2.5 GB", 1 << 63: "9.2 EB", 1<<64 - 1: "18 EB",
	} {
		if got := string(appendSize(nil, n)); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

const sec = event.Time(time.Second)

// The time of a notice, by what stands around it.
func TestNoticeTime(t *testing.T) {
	t.Parallel()
	now := event.Unix(1_796_000_000, 0)
	hour := 3600 * sec
	for _, c := range []struct {
		name          string
		before, after []event.Time // times of the entries around it, from now
		last          event.Time   // of the lost, from now; 0: not known
		behind        event.Time   // of what arrived behind them, from now; 0: not known
		want          event.Time
	}{
		{"that of the next", []event.Time{-10 * sec}, []event.Time{-2 * sec}, -5 * sec, 0, -2 * sec},
		{"the next is before the lost", []event.Time{-10 * sec}, []event.Time{-8 * sec}, -5 * sec, 0, -5 * sec},
		{"behind the last", []event.Time{-10 * sec}, nil, -15 * sec, 0, -10 * sec},
		{"last of all, and later", []event.Time{-10 * sec}, nil, -5 * sec, 0, -5 * sec},
		{"alone", nil, nil, -5 * sec, 0, 0},
		{"alone, lost in the near future", nil, nil, 5 * sec, 0, 5 * sec},
		{"alone, lost in the far future", nil, nil, 5 * hour, 0, 0},
		{"lost in the far future", []event.Time{-10 * sec}, []event.Time{-8 * sec}, 5 * hour, 0, 0},
		{"lost long before", []event.Time{-10 * sec}, nil, -100 * hour, 0, -10 * sec},
		{"next to old entries", []event.Time{-400 * hour}, nil, -5 * sec, 0, -400*hour + 24*hour - sec/1000},
		{"not known", []event.Time{-10 * sec}, []event.Time{-8 * sec}, 0, 0, -8 * sec},
		{"alone, some have arrived", nil, nil, -100 * hour, -7 * hour, -7 * hour},
		{"alone, those that have arrived were before", nil, nil, -5 * sec, -7 * hour, 0},
		{"before others, some have arrived", nil, []event.Time{-8 * sec}, -20 * sec, -10 * sec, -10 * sec},
		{"some have arrived from behind the next", nil, []event.Time{-10 * sec}, -20 * sec, -8 * sec, -10 * sec},
		{"some have arrived from the far future", nil, nil, -20 * sec, 5 * hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &body{e: keyM()}
			b.reset("g", "s")
			put := func(times []event.Time) {
				for _, at := range times {
					b.add(encodeEntries([]entry{{now + at, "x"}}), 1)
				}
			}
			put(c.before)
			n := output.Notice{Events: 1, Reasons: []output.ReasonCount{{Reason: ledger.TooOld, Events: 1}}}
			if c.last != 0 {
				n.First, n.Last = now+c.last, now+c.last
			}
			if c.behind != 0 {
				n.Behind = now + c.behind
			}
			if !b.tell(&n, false) {
				t.Fatal("no room")
			}
			put(c.after)
			b.place(now.Millis())
			b.place(now.Millis()) // once is enough
			sent, err := validate(b.wire(0, len(b.items), "", ""))
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, e := range sent.Events {
				if strings.HasPrefix(*e.Message, "weir: ") {
					found++
					if got := *e.Timestamp - now.Millis(); got != int64(c.want)/1e6 {
						t.Errorf("stands at %d ms, want %d", got, int64(c.want)/1e6)
					}
				}
			}
			if found != 1 || len(sent.Events) != len(c.before)+len(c.after)+1 {
				t.Errorf("%d notices among %d events", found, len(sent.Events))
			}
		})
	}
}

// Whatever stands around it, a request with a notice is one that the service takes, has all
// its entries, and maps what is rejected to the right ones.
func TestNoticeAmongAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := int64(1_796_000_000_000)
		e := keyM()
		e.maxEvents = rapid.SampledFrom([]int{1, 2, 5, 10_000}).Draw(t, "maxEvents")
		b := &body{e: e}
		b.reset("g", "s")
		n := rapid.IntRange(0, 8).Draw(t, "entries")
		place := rapid.IntRange(0, n).Draw(t, "place")
		told, taken := false, 0
		for i := range n + 1 {
			if i == place {
				n := output.Notice{Events: 5, Bytes: rapid.Uint64Range(0, 1e12).Draw(t, "bytes"), Reasons: []output.ReasonCount{{Reason: ledger.Damaged, Events: 5}}}
				n.Last = event.Time(rapid.Int64Range(0, 3e9).Draw(t, "last")) * sec
				n.First = n.Last
				n.Behind = event.Time(now+rapid.Int64Range(-2_000_000_000, 8_000_000).Draw(t, "behind")) * 1e6
				told = b.tell(&n, rapid.Bool().Draw(t, "json"))
				if !told && taken == 0 {
					t.Fatal("an empty request has no room")
				}
			}
			if i == n {
				break
			}
			at := now + rapid.Int64Range(-200_000_000, 8_000_000).Draw(t, "time")
			size := rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 500_000, 1_048_550, 1_048_551, 3_000_000}).Draw(t, "size")
			k, _, _ := b.add(encodeEntries([]entry{{event.Time(at) * 1e6, fmt.Sprint(taken) + strings.Repeat("x", size-1)}}), 1)
			taken += k
			if k == 0 {
				break
			}
		}
		b.place(now)
		if b.pieces && told {
			t.Fatal("a notice among the pieces of one event")
		}
		if b.pieces || len(b.items) == 0 {
			return
		}
		sent, err := validate(b.wire(0, len(b.items), "", ""))
		if err != nil {
			t.Fatal(err)
		}
		notices := 0
		for _, ev := range sent.Events {
			if strings.HasPrefix(*ev.Message, "weir: ") || strings.HasPrefix(*ev.Message, `{"weir"`) {
				notices++
			}
		}
		if told != (notices == 1) || len(sent.Events) != taken+notices || len(sent.Events) > max(e.maxEvents, 1)+1 {
			t.Fatalf("told %v: %d notices among %d events, %d taken", told, notices, len(sent.Events), taken)
		}
		fates := make([]ledger.Reason, b.entries)
		all := len(b.items)
		b.reject(fates, 0, all, &rejection{TooOldEnd: &all})
		for i, f := range fates {
			if f != ledger.TooOld {
				t.Fatalf("entry %d is not rejected", i)
			}
		}
		if b.notice.untold != told {
			t.Fatal("a notice that was rejected is not untold")
		}
	})
}

func TestNoticeUntold(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	s.answer = `{"nextSequenceToken":"x","rejectedLogEventsInfo":{"tooOldLogEventEndIndex":1}}`
	o := s.open(Params{LossNotice: "json"})
	r := o.Request()
	r.Reset(lane)
	n := output.Notice{Events: 1, Reasons: []output.ReasonCount{{Reason: ledger.Damaged, Events: 1}}}
	r.(output.Teller).Tell(n)
	r.Add(encodeEntries([]entry{{1_796_000_000e9, "a"}}), 1)
	if res := sendOK(t, r); !res.Untold || len(res.Ended) != 0 {
		t.Errorf("got %+v", res)
	}
	s.answer = ""
	r.Reset(lane)
	r.(output.Teller).Tell(n)
	if res := sendOK(t, r); res.Untold {
		t.Errorf("got %+v", res)
	}
	got := texts(s.groups["/app/g"].streams["s"])
	if got[len(got)-1] != `{"weir":"loss","dropped_events":1,"reasons":{"damaged":1}}` {
		t.Errorf("sent %q", got)
	}
}

func TestLaneOf(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, c := range []struct {
		name string
		p    Params
		opt  func(*Options)
		tag  string
		want string
	}{
		{"fixed names", Params{}, nil, "any.tag", "/app/g\x00s"},
		{"the tag", Params{TagAsGroup: true, StreamName: "x-${tag[1]}"}, nil, "a.b", "a.b\x00x-b"},
		{"illegal name", Params{TagAsGroup: true}, nil, "a b", ""},
		{"a field", Params{GroupNameKey: "g"}, nil, "a", ""},
		{"a time", Params{StreamName: "%Y"}, func(o *Options) { o.Names.ChunkKeys = []string{"time"}; o.Names.Timekey = time.Hour }, "a", ""},
		{"lane is tag", Params{}, func(o *Options) { o.LaneIsTag = true }, "g\x00s", "g\x00s"},
		{"no lane", Params{}, func(o *Options) { o.LaneIsTag = true }, "g", ""},
		{"three parts", Params{}, func(o *Options) { o.LaneIsTag = true }, "g\x00s\x00t", ""},
	} {
		o := s.open(c.p, func(o *Options) {
			if c.opt != nil {
				c.opt(o)
			}
		})
		got, ok := o.LaneOf(c.tag)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: got %q, %v", c.name, got, ok)
		}
		if !ok && c.name != "no lane" && c.name != "three parts" && c.name != "illegal name" {
			continue
		}
		raw := encodeEntries([]entry{{1e18, "a"}})
		o.Splitter().Split(event.Batch{Tag: c.tag, Entries: raw, Count: 1, First: 1e18, Last: 1e18}, func(l []byte, run output.Run) {
			if string(l) != c.want || run.Len != len(raw) || run.Count != 1 || ok == (run.Fate.Class == ledger.Rejected) {
				t.Errorf("%s: split %q %+v", c.name, l, run)
			}
		})
	}
}

func TestNoGroups(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tag := func(o *Options) { o.LaneIsTag, o.NoGroups = true, true }
	o := s.open(Params{AutoCreate: true}, tag)
	res := filled(t, o, lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.NoTarget || !strings.Contains(res.Err.Error(), "allow it to be created") {
		t.Errorf("got %+v", res.Err)
	}
	if d := cmp.Diff([]string{"PutLogEvents", "CreateLogStream"}, s.take()); d != "" {
		t.Error(d)
	}
	s.stream("/app/g", "other")
	sendOK(t, filled(t, o, lane, "a")) // makes the stream
	s.take()
	o = s.open(Params{AutoCreate: true}, func(o *Options) { o.LaneIsTag, o.NoStreams = true, true })
	res = filled(t, o, "/app/g\x00new", "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.NoTarget || strings.Contains(res.Err.Error(), "auto_create_stream") {
		t.Errorf("got %+v", res.Err)
	}
	if d := cmp.Diff([]string{"PutLogEvents"}, s.take()); d != "" {
		t.Error(d)
	}
}

// Two hundred streams that are missing at once are made within the quota, each call that
// was throttled at a moment of its own, with one line in the log.
func TestCreatesAreSpread(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "other")
	created := 0
	s.script = func(w http.ResponseWriter, _ *http.Request, op string, _ []byte) bool {
		if op != "CreateLogStream" {
			return false
		}
		if created++; created > 50 {
			fail(w, 400, "ThrottlingException", "Rate exceeded")
			return true
		}
		return false
	}
	var log strings.Builder
	var mu sync.Mutex
	now := time.Now()
	o := s.open(Params{AutoCreate: true}, func(o *Options) {
		o.LaneIsTag, o.Now = true, func() time.Time { return now }
		o.Log = slog.New(slog.NewTextHandler(writer(func(p []byte) { mu.Lock(); log.Write(p); mu.Unlock() }), nil))
	})
	after := map[time.Duration]int{}
	most := time.Duration(0)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < 200; i += 8 {
				res := filled(t, o, fmt.Sprint("/app/g\x00s", i), "a").Send(t.Context())
				mu.Lock()
				if res.Err != nil {
					if res.Err.Kind != output.Conflict {
						t.Errorf("got %v", res.Err)
					}
					after[res.Err.After]++
					most = max(most, res.Err.After)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(after) != 150 || most > 5*time.Second || after[spreadFirst] != 1 {
		t.Errorf("%d moments, up to %v", len(after), most)
	}
	if n := strings.Count(log.String(), "throttled"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, log.String())
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
