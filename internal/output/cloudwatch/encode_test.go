package cloudwatch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// entry is an event as a test thinks of it: a time and a text under the key m.
type entry struct {
	t    event.Time
	text string
}

func encodeEntries(in []entry) []byte {
	var b []byte
	for _, e := range in {
		b = event.AppendEntryHeader(b, e.t)
		b = event.AppendMapHeader(b, 1)
		b = event.AppendStr(event.AppendStr(b, "m"), e.text)
	}
	return b
}

func keyM() *encoding {
	return &encoding{keys: []event.Path{event.KeyPath("m")}, maxEvents: 10000}
}

// drain adds all entries to as many requests as it takes, validates each body, and calls
// got with the entries of each request and what was sent for them.
func drain(t fatal, e *encoding, in []entry, got func(taken []entry, events []sentEvent, ended []output.Ended)) {
	raw := encodeEntries(in)
	b := &body{e: e}
	for len(in) > 0 {
		b.reset("/app/group", "stream")
		n, size, _ := b.add(raw, len(in))
		if n == 0 {
			t.Fatalf("an empty request took nothing")
		}
		var events []sentEvent
		for from := 0; from < len(b.items); {
			to := len(b.items)
			if b.pieces {
				to = from + 1
			}
			sent, err := validate(b.wire(from, to, "", ""))
			if err != nil {
				t.Fatalf("request refused: %v", err)
			}
			events = append(events, sent.Events...)
			from = to
		}
		got(in[:n], events, b.settle(nil, make([]ledger.Reason, b.entries)))
		raw, in = raw[size:], in[n:]
	}
	if len(raw) != 0 {
		t.Fatalf("%d bytes are left over", len(raw))
	}
}

type fatal interface {
	Fatalf(format string, args ...any)
	Helper()
}

// Any entries become requests that the service accepts, and what they carry is the input:
// nothing missing, nothing twice, in order of time and for one time in order of arrival.
func TestEncodeProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
			rapid.Just(""),
		)
		large := rapid.OneOf(
			rapid.Map(rapid.IntRange(1, 400_000), func(n int) string { return strings.Repeat("é\"\n\x01", n/5+1) }),
			rapid.Map(rapid.IntRange(1_048_540, 1_048_560), func(n int) string { return strings.Repeat("x", n) }),
			rapid.Map(rapid.IntRange(1_048_551, 3_200_000), func(n int) string { return strings.Repeat("\\€", n/4) }),
		)
		few := rapid.IntRange(0, 9) // most events are small, as in life: the large ones take time
		base := int64(1_796_000_000_000)
		in := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
			jitter := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 90_000_000), rapid.Int64Range(0, 400_000_000)).Draw(t, "ms")
			texts := small
			if few.Draw(t, "size") == 0 {
				texts = large
			}
			return entry{event.Time((base+jitter)*1e6 + rapid.Int64Range(0, 999_999).Draw(t, "ns")), texts.Draw(t, "text")}
		}), 1, 20).Draw(t, "entries")
		e := keyM()
		e.maxEvents = rapid.SampledFrom([]int{1, 2, 7, 10000}).Draw(t, "max events")
		drain(t, e, in, func(taken []entry, events []sentEvent, ended []output.Ended) {
			checkRequest(t, taken, events, ended)
		})
	})
}

func checkRequest(t fatal, taken []entry, events []sentEvent, ended []output.Ended) {
	t.Helper()
	type want struct {
		ms   int64
		text string
	}
	var wants []want
	empty := 0
	for _, e := range taken {
		if e.text == "" {
			empty++
			continue
		}
		wants = append(wants, want{e.t.Millis(), e.text})
	}
	slices.SortStableFunc(wants, func(a, b want) int { return int(a.ms - b.ms) })
	reported := 0
	for _, e := range ended {
		if e.Fate != ledger.Empty.Fate() {
			t.Fatalf("unexpected fate %v", e.Fate)
		}
		reported += e.Count
	}
	if reported != empty {
		t.Fatalf("%d empty entries, %d reported", empty, reported)
	}
	// How invalid bytes are replaced is event's business: compare without the replacements.
	clean := func(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\uFFFD", "") }
	i := 0
	for _, w := range wants {
		if i >= len(events) {
			t.Fatalf("an event is missing")
		}
		text, wanted := "", clean(w.text)
		for first := true; first || len(text) < len(wanted); first = false {
			if i >= len(events) || *events[i].Timestamp != w.ms {
				t.Fatalf("event %d has another time than %d, or is missing", i, w.ms)
			}
			text += clean(*events[i].Message)
			i++
		}
		if text != wanted {
			t.Fatalf("an event of %d bytes has another text", len(w.text))
		}
	}
	if i != len(events) {
		t.Fatalf("%d events too many", len(events)-i)
	}
}

// The limits, at both sides of each.
func TestEncodeLimits(t *testing.T) {
	t.Parallel()
	at := func(ms int64, text string) entry { return entry{event.Time((1_796_000_000_000 + ms) * 1e6), text} }
	x := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int) []entry { return slices.Repeat([]entry{at(0, "a")}, n) }
	const day = 24 * 60 * 60 * 1000
	for _, c := range []struct {
		name string
		in   []entry
		want []int // events in each put
	}{
		{"two that fill a request", []entry{at(0, x(524_288-26)), at(0, x(524_288-26))}, []int{2}},
		{"two that exceed it by one", []entry{at(0, x(524_288-26)), at(0, x(524_288-25))}, []int{1, 1}},
		{"multi-byte counts in bytes", []entry{at(0, strings.Repeat("é", 262_131)), at(0, strings.Repeat("€", 174_754))}, []int{2}},
		{"multi-byte, one more", []entry{at(0, strings.Repeat("é", 262_131)), at(0, strings.Repeat("€", 174_754)+"x")}, []int{1, 1}},
		{"escapes do not count", []entry{at(0, strings.Repeat("\"", 1_048_550))}, []int{1}},
		{"largest event", []entry{at(0, x(1_048_550)), at(0, "a")}, []int{1, 1}},
		{"larger than that", []entry{at(0, x(1_048_551)), at(0, "a")}, []int{1, 1, 1}},
		{"10000 events", many(10_000), []int{10_000}},
		{"10001 events", many(10_001), []int{10_000, 1}},
		{"less than a day", []entry{at(0, "a"), at(day-1, "b")}, []int{2}},
		{"a day", []entry{at(0, "a"), at(day, "b")}, []int{1, 1}},
		{"a day backwards", []entry{at(day, "a"), at(0, "b")}, []int{1, 1}},
		{"a day around the first", []entry{at(day/2, "a"), at(0, "b"), at(day-1, "c"), at(day, "d")}, []int{3, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var puts []int
			raw := encodeEntries(c.in)
			b := &body{e: keyM()}
			for left := len(c.in); left > 0; {
				b.reset("g", "s")
				n, size, _ := b.add(raw, left)
				raw, left = raw[size:], left-n
				for from := 0; from < len(b.items); {
					to := len(b.items)
					if b.pieces {
						to = from + 1
					}
					sent, err := validate(b.wire(from, to, "", ""))
					if err != nil {
						t.Fatal(err)
					}
					puts = append(puts, len(sent.Events))
					from = to
				}
			}
			if d := cmp.Diff(c.want, puts); d != "" {
				t.Error(d)
			}
		})
	}
}

func one(t *testing.T, e *encoding, text string) (messages []string, ended []output.Ended) {
	t.Helper()
	if e.maxEvents == 0 {
		e.maxEvents = 10000
	}
	drain(t, e, []entry{{event.Unix(1_796_000_000, 0), text}}, func(_ []entry, events []sentEvent, end []output.Ended) {
		for _, ev := range events {
			messages = append(messages, *ev.Message)
		}
		ended = append(ended, end...)
	})
	return messages, ended
}

func TestOversize(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("€\"", 300_000) // 1.2 MB
	e := keyM()
	messages, ended := one(t, e, big)
	if strings.Join(messages, "") != big || len(messages) != 2 || ended != nil {
		t.Errorf("split gave %d pieces, ended %v", len(messages), ended)
	}
	if n := len(messages[0]); n > 1_048_550 || n < 1_048_550-3 {
		t.Errorf("the first piece has %d bytes", n)
	}
	e = keyM()
	e.oversize = truncateLarge
	messages, ended = one(t, e, big)
	if len(messages) != 1 || ended != nil || !strings.HasSuffix(messages[0], truncationMark) || !strings.HasPrefix(big, strings.TrimSuffix(messages[0], truncationMark)) {
		t.Errorf("truncate gave %d messages, ended %v", len(messages), ended)
	}
	e = keyM()
	e.oversize = dropLarge
	messages, ended = one(t, e, big)
	if d := cmp.Diff([]output.Ended{{First: 0, Count: 1, Fate: ledger.Oversize.Fate()}}, ended); d != "" || messages != nil {
		t.Errorf("drop gave %d messages: %s", len(messages), d)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	str := func(dst []byte, k, v string) []byte { return event.AppendStr(event.AppendStr(dst, k), v) }
	record := event.AppendMapHeader(nil, 5)
	record = str(record, "a", "one\n")
	record = str(record, "empty", "")
	record = event.AppendInt(event.AppendStr(record, "n"), 7)
	record = str(event.AppendMapHeader(event.AppendStr(record, "k"), 2), "x", "y")
	record = str(record, "", "in")
	record = str(record, "b", "zwei")
	keys := func(names ...string) (out []event.Path) {
		for _, n := range names {
			p, err := event.ParsePath(n)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	for _, c := range []struct {
		name string
		e    encoding
		want string
	}{
		{"whole", encoding{json: event.JSONOptions{DropEmpty: true}}, `{"a":"one\n","n":7,"k":{"x":"y","":"in"},"b":"zwei"}`},
		{"with empty fields", encoding{}, `{"a":"one\n","empty":"","n":7,"k":{"x":"y","":"in"},"b":"zwei"}`},
		{"without fields", encoding{json: event.JSONOptions{DropEmpty: true, Drop: event.NewPathSet(keys("a", "$.k.x")...)}}, `{"n":7,"k":{"":"in"},"b":"zwei"}`},
		{"cut", encoding{maxChars: 9}, `{"a":"one`},
		{"cut in an escape", encoding{maxChars: 10}, `{"a":"one\`},
		{"keys", encoding{keys: keys("b", "missing", "empty", "n", "$.k.x")}, "zwei 7 y"},
		{"keys, trimmed", encoding{keys: keys("n", "a"), trim: true}, "7 one"},
		{"keys, not trimmed", encoding{keys: keys("n", "a")}, "7 one\n"},
		{"formatter", encoding{formatter: echo{}}, "tag:{\"a\":\"one\\n\",\"empty\":\"\",\"n\":7,\"k\":{\"x\":\"y\",\"\":\"in\"},\"b\":\"zwei\"}\n"},
		{"formatter, stripped", encoding{formatter: echo{}, drop: event.NewPathSet(keys("k", "a")...), dropEmpty: true, trim: true}, `tag:{"n":7,"b":"zwei"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.maxEvents = 10
			b := &body{e: &c.e}
			b.reset("g", "s")
			b.tag = "tag"
			in := event.AppendEntry(nil, event.Unix(1, 5e6), record)
			if n, size, full := b.add(in, 1); n != 1 || size != len(in) || full {
				t.Fatalf("add gave %d, %d, %v", n, size, full)
			}
			sent, err := validate(b.wire(0, 1, "", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := *sent.Events[0].Message; got != c.want || *sent.Events[0].Timestamp != 1005 {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if want := len(c.want) + 26; b.size != want {
				t.Errorf("counted %d bytes, want %d", b.size, want)
			}
		})
	}
}

// echo is a formatter.
type echo struct{}

func (echo) Append(dst []byte, tag string, _ event.Time, record []byte) []byte {
	dst = append(append(dst, tag...), ':')
	return append(event.AppendJSON(dst, record, event.Yajl), '\n')
}

// What cannot be sent is taken and reported, and its neighbours are sent.
func TestEnded(t *testing.T) {
	t.Parallel()
	b := &body{e: keyM()}
	b.reset("g", "s")
	in := encodeEntries([]entry{{event.Unix(5, 0), "a"}, {event.Unix(5, 0), ""}, {event.Unix(5, 0), ""}})
	in = append(event.AppendInt(append(in, 0x92), -5), 0x81, 0xa1, 'm', 0xa1, 'x') // before 1970
	in = append(in, encodeEntries([]entry{{event.Unix(5, 0), "b"}})...)
	in = append(in, 0x92, 0xc1) // damaged
	n, size, full := b.add(in, 100)
	if n != 6 || size != len(in) || full {
		t.Fatalf("add gave %d, %d, %v", n, size, full)
	}
	want := []output.Ended{{First: 1, Count: 2, Fate: ledger.Empty.Fate()}, {First: 3, Count: 1, Fate: ledger.TooOld.Fate()}, {First: 5, Count: 1, Fate: ledger.Invalid.Fate()}}
	if d := cmp.Diff(want, b.settle(nil, make([]ledger.Reason, b.entries))); d != "" {
		t.Error(d)
	}
	sent, err := validate(b.wire(0, len(b.items), `to"ken`, `,"entity":{}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(sent.Events) != 2 || *sent.SequenceToken != `to"ken` || string(sent.Entity) != "{}" {
		t.Errorf("sent %+v", sent)
	}
}

// The index form of rejectedLogEventsInfo, mapped back to entries that were not in order.
func TestReject(t *testing.T) {
	t.Parallel()
	in := []entry{{event.Unix(40, 0), "d"}, {event.Unix(10, 0), "a"}, {event.Unix(30, 0), "c"}, {event.Unix(20, 0), "b"}, {event.Unix(50, 0), "e"}}
	i := func(n int) *int { return &n }
	old, expired, fresh := ledger.TooOld, ledger.Expired, ledger.TooNew
	for _, c := range []struct {
		name string
		r    rejection
		want []ledger.Reason // by entry
	}{
		{"nothing", rejection{}, []ledger.Reason{0, 0, 0, 0, 0}},
		{"too old, exclusive end", rejection{TooOldEnd: i(1)}, []ledger.Reason{0, old, 0, 0, 0}},
		{"expired behind too old", rejection{TooOldEnd: i(1), ExpiredEnd: i(2)}, []ledger.Reason{0, old, 0, expired, 0}},
		{"expired within too old", rejection{TooOldEnd: i(3), ExpiredEnd: i(2)}, []ledger.Reason{0, old, old, old, 0}},
		{"too new, inclusive start", rejection{TooNewStart: i(3)}, []ledger.Reason{fresh, 0, 0, 0, fresh}},
		{"all three", rejection{TooOldEnd: i(1), ExpiredEnd: i(2), TooNewStart: i(4)}, []ledger.Reason{0, old, 0, expired, fresh}},
		{"beyond the end", rejection{TooOldEnd: i(99), TooNewStart: i(-1)}, []ledger.Reason{old, old, old, old, old}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &body{e: keyM()}
			b.reset("g", "s")
			b.add(encodeEntries(in), len(in))
			b.wire(0, len(in), "", "") // puts the items in order
			got := make([]ledger.Reason, len(in))
			b.reject(got, 0, len(in), &c.r)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// An entry in pieces is rejected if one of them is.
func TestRejectPiece(t *testing.T) {
	t.Parallel()
	b := &body{e: keyM()}
	b.reset("g", "s")
	b.add(encodeEntries([]entry{{event.Unix(5, 0), ""}, {event.Unix(5, 0), strings.Repeat("x", 2_500_000)}}), 2)
	if len(b.items) != 3 {
		t.Fatalf("%d pieces", len(b.items))
	}
	fates := make([]ledger.Reason, b.entries)
	zero := 0
	b.reject(fates, 1, 2, &rejection{TooNewStart: &zero})
	want := []output.Ended{{First: 0, Count: 1, Fate: ledger.Empty.Fate()}, {First: 1, Count: 1, Fate: ledger.TooNew.Fate()}}
	if d := cmp.Diff(want, b.settle(nil, fates)); d != "" {
		t.Error(d)
	}
}

func FuzzAdd(f *testing.F) {
	f.Add(encodeEntries([]entry{{event.Unix(5, 0), "a"}, {event.Unix(3, 0), "b"}}))
	f.Add(kubernetesBatch(2))
	f.Add([]byte{0x92, 0xce, 0, 0, 0, 1, 0x81, 0xa1, 'm', 0xc4, 2, 0xff, 0xfe})
	whole := &encoding{json: event.JSONOptions{DropEmpty: true}, maxEvents: 10000}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, e := range []*encoding{whole, keyM(), {formatter: echo{}, dropEmpty: true, drop: event.NewPathSet(event.KeyPath("m")), maxEvents: 3}} {
			b := &body{e: e}
			b.reset("g", "s")
			n, size, _ := b.add(bytes.Clone(in), 1<<20)
			if size > len(in) || n != b.entries {
				t.Fatalf("add gave %d entries, %d bytes of %d", n, size, len(in))
			}
			if len(b.items) == 0 || b.pieces {
				continue
			}
			if _, err := validate(b.wire(0, len(b.items), "", "")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Disorder of a millisecond is noticed, and events of one time stay in order of arrival
// also where there are many.
func TestOrderStable(t *testing.T) {
	t.Parallel()
	var in []entry
	for i := range 200 {
		in = append(in, entry{event.Time(1_796_000_000_000+int64(1-i/100)) * 1e6, fmt.Sprint(i)})
	}
	drain(t, keyM(), in, func(taken []entry, events []sentEvent, ended []output.Ended) {
		if len(taken) != 200 {
			t.Errorf("%d entries in the first request", len(taken))
		}
		checkRequest(t, taken, events, ended)
	})
}

// Adding events allocates nothing once the buffers have grown.
func TestAddAllocates(t *testing.T) {
	in := kubernetesBatch(1000)
	for name, e := range map[string]*encoding{
		"whole": {json: event.JSONOptions{DropEmpty: true}, maxEvents: maxEvents},
		"keys":  {keys: []event.Path{event.KeyPath("log"), event.KeyPath("stream")}, maxEvents: maxEvents},
		"formatter": {
			formatter: echo{}, dropEmpty: true, trim: true, drop: event.NewPathSet(event.KeyPath("time")), maxEvents: maxEvents,
		},
	} {
		b := &body{e: e}
		n := testing.AllocsPerRun(10, func() {
			b.reset("g", "s")
			b.tag = "tag"
			if got, _, _ := b.add(in, 1000); got != 1000 {
				t.Fatalf("took %d", got)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations for 1000 events", name, n)
		}
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{0, 5, 999, 1000, 1001, 59_999, 60_000, 1_796_000_000_007, 1_796_000_000_010, 1_796_000_000_123, 9_000_000_000_000} {
		b := &body{e: keyM()}
		b.reset("g", "s")
		in := event.AppendInt([]byte{0x92}, ms/1000)
		if ms/1000 < 1<<32 {
			in = encodeEntries([]entry{{event.Time(ms * 1e6), "x"}})
		} else {
			in = append(in, 0x81, 0xa1, 'm', 0xa1, 'x')
		}
		b.add(in, 1)
		sent, err := validate(b.wire(0, 1, "", ""))
		if err != nil {
			t.Fatalf("%d: %v", ms, err)
		}
		if got := *sent.Events[0].Timestamp; got != ms {
			t.Errorf("got %d, want %d", got, ms)
		}
	}
}
