package filter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/config"
	"weir/internal/event"
)

// holders are sections of which each mode has one.
func holders() []string {
	return []string{
		"@type concat\nkey m\nn_lines 3",
		"@type concat\nkey m\nn_lines 2\nstream_identity_key s\nuse_first_timestamp true",
		"@type concat\nkey m\nmultiline_start_regexp /^S/",
		"@type concat\nkey m\nmultiline_start_regexp /^S/\nmultiline_end_regexp /E$/\ncontinuous_line_regexp /^ /\nstream_identity_key s",
		"@type concat\nkey m\nmultiline_end_regexp /E$/\nseparator \"\"",
		"@type concat\nkey m\npartial_key p\npartial_value true\nbuffer_limit_size 40\nbuffer_overflow_method new",
		"@type concat\nkey m\npartial_key p\npartial_value true\nbuffer_limit_size 40\nbuffer_overflow_method drop\nkeep_partial_key true",
		"@type concat\nkey m\nuse_partial_metadata true\nstream_identity_key s",
		"@type concat\nkey m\nuse_partial_cri_logtag true\npartial_cri_logtag_key p",
		"@type detect_exceptions\nmessage m",
		"@type detect_exceptions\nmessage m\nstream s\nlanguages java, go\nmax_lines 3\nforce_line_breaks true",
		"@type detect_exceptions\nmax_bytes 30",
	}
}

// drawn is some event as a stream may have it.
func drawn(t *rapid.T) string {
	m := rapid.SampledFrom([]string{`"S"`, `"S a E"`, `" b"`, `" c E"`, `"x"`, `""`, `7`, `null`, `"x.Exception: y"`, `"\tat a.b"`, `"panic: z"`, `""`, `"goroutine 1 [running]:"`, `"main.f()"`}).Draw(t, "m")
	r := fmt.Sprintf(`{"s":%s,"m":%s`, rapid.SampledFrom([]string{`"a"`, `"b"`, `1`}).Draw(t, "s"), m)
	if rapid.Bool().Draw(t, "with p") {
		r += fmt.Sprintf(`,"p":%s`, rapid.SampledFrom([]string{`"true"`, `"false"`, `"P"`, `"F"`, `"P:x"`, `true`}).Draw(t, "p"))
	}
	if rapid.Bool().Draw(t, "with parts") {
		r += fmt.Sprintf(`,"partial_message":"true","partial_id":%q,"partial_ordinal":"%d","partial_last":%q`, rapid.SampledFrom([]string{"i", "j"}).Draw(t, "id"),
			rapid.IntRange(1, 4).Draw(t, "ordinal"), rapid.SampledFrom([]string{"true", "false"}).Draw(t, "last"))
	}
	return r + "}"
}

// TestBatchesMakeNoDifference divides the same events into batches in two ways: the same
// must come out, every group releases its batches, and all events are accounted for.
func TestBatchesMakeNoDifference(t *testing.T) {
	for _, conf := range holders() {
		h, _ := buildHolder(t, conf)
		rapid.Check(t, func(t *rapid.T) {
			var all [][]byte
			for i := range rapid.IntRange(1, 40).Draw(t, "events") {
				rec, _, _ := event.AppendFromJSON(nil, []byte(drawn(t)))
				all = append(all, event.AppendEntry(nil, event.Unix(int64(i), 0), rec))
			}
			run := func(size func() int) (out []string) {
				held, s, p := h.Hold("t"), &Scratch{}, &Passed{}
				holds := map[uint64]int{}
				id, ends := uint64(0), 0
				note := func() {
					out = append(out, shown("", "t", p.Entries)...)
					ends += p.Count + p.Filtered + p.Failed
					for _, b := range p.Released {
						if holds[b]--; holds[b] == 0 {
							delete(holds, b)
						}
					}
				}
				for rest := all; len(rest) > 0; {
					n := min(size(), len(rest))
					id++
					p.Reset()
					held.Take(s, Incoming{ID: id, Entries: slices.Concat(rest[:n]...)}, p)
					if holds[id] += p.Holds; holds[id] == 0 {
						delete(holds, id)
					}
					note()
					if (p.Whole < n) != (holds[id] > 0) {
						t.Fatalf("%d of %d entries have gone on, %d groups hold the batch", p.Whole, n, holds[id])
					}
					rest = rest[n:]
				}
				p.Reset()
				held.Flush(s, p)
				note()
				if len(holds) > 0 || held.Groups() != 0 || held.Bytes() != 0 || ends != len(all) {
					t.Fatalf("held %v, %d groups, %d bytes; %d events of %d ended", slices.Collect(maps.Keys(holds)), held.Groups(), held.Bytes(), ends, len(all))
				}
				return out
			}
			one := run(func() int { return 1 })
			other := run(func() int { return rapid.IntRange(1, 9).Draw(t, "batch") })
			if !slices.Equal(one, other) {
				t.Fatalf("%s\none at a time %q\nin batches    %q", conf, one, other)
			}
		})
	}
}

// TestRepeatsAreTold marks events that consist of what went on before a restart.
func TestRepeatsAreTold(t *testing.T) {
	h, _ := buildHolder(t, "@type concat\nkey m\nmultiline_start_regexp /^S/")
	held, s, p := h.Hold("t"), &Scratch{}, &Passed{}
	batch := func(lines ...string) (b []byte) {
		for _, l := range lines {
			b = append(b, entry(t, 0, fmt.Sprintf(`{"m":%q}`, l))...)
		}
		return b
	}
	held.Take(s, Incoming{ID: 1, Entries: batch("S0")}, p)
	p.Reset()
	held.Take(s, Incoming{ID: 2, Entries: batch("0", "S1", "1", "S2", "S3", "3", "S4"), Known: 4}, p)
	if got := fmt.Sprint(p.Repeats, p.Whole); got != "[false true true false] 6" {
		t.Errorf("got %s of %s", got, p.Entries)
	}
}

// TestHoldersSayWhatIsWrong has mistakes and what is said of them.
func TestHoldersSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		conf             string
		errors, warnings []string
	}{
		{"@type concat\nkey m", []string{"nothing says"}, nil},
		{"@type concat\nn_lines 2", []string{"needs the parameter key"}, nil},
		{"@type concat\nkey m\nn_lines 2\nmultiline_end_regexp /x/\nuse_partial_cri_logtag true\npartial_cri_logtag_key t", []string{"n_lines and multiline", "n_lines and use_partial_cri"}, nil},
		{"@type concat\nkey m\nuse_partial_metadata true\nuse_partial_cri_logtag true", nil, nil},
		{"@type concat\nkey m\nmultiline_start_regexp /(/", []string{"multiline_start_regexp: "}, nil},
		{"@type concat\nkey m\nmultiline_start_regexp x", []string{"too short"}, []string{"are cut off"}},
		{"@type concat\nkey m\nmultiline_start_regexp /x/i\nflush_interval 0", nil, []string{"are cut off", "flush_interval 0"}},
		{"@type concat\nkey m\nn_lines 2\ncontinuous_line_regexp /x/", nil, []string{"has no effect"}},
		{"@type concat\nkey m\nn_lines 2\nbuffer_overflow_method explode", []string{"explode"}, nil},
		{"@type detect_exceptions\nlanguages java, cobol", []string{`"cobol"`}, []string{"multiline_flush_interval"}},
		{"@type detect_exceptions\nremove_tag_prefix x\nmultiline_flush_interval 1s\nlanguages JAVA, js", nil, nil},
	} {
		_, d := buildHolder(t, c.conf)
		checkMessages(t, c.conf, d.Errors, c.errors)
		checkMessages(t, c.conf, d.Warnings, c.warnings)
	}
	if h, known := NewHolder(section(t, "@type grep"), Env{}, &config.Diagnostics{}); h != nil || known {
		t.Error("grep holds nothing")
	}
}

// TestGroupsAreBounded has a group that never ends.
func TestGroupsAreBounded(t *testing.T) {
	h, _ := buildHolder(t, "@type concat\nkey m\nn_lines 1000000000")
	held, s, p := h.Hold("t"), &Scratch{}, &Passed{}
	e := entry(t, 0, `{"m":"`+strings.Repeat("x", 100_000)+`"}`)
	for range 100 {
		held.Take(s, Incoming{ID: 1, Entries: e}, p)
	}
	if p.Count != 2 || held.Bytes() > maxGroup+200_000 {
		t.Errorf("%d events, %d bytes are kept", p.Count, held.Bytes())
	}
	// Shed takes the group that has waited longest.
	h, _ = buildHolder(t, "@type concat\nkey m\nn_lines 9\nstream_identity_key s")
	held = h.Hold("t")
	for i, stream := range []string{"a", "b", "a"} {
		p.Reset()
		held.Take(s, Incoming{ID: 1, At: time.Duration(i), Entries: entry(t, 0, fmt.Sprintf(`{"s":%q,"m":"x"}`, stream))}, p)
	}
	held.Shed(s, p)
	if got := shown("", "t", p.Entries); len(got) != 1 || !strings.Contains(got[0], `"s":"b"`) {
		t.Errorf("shed %q", got)
	}
}

// FuzzHold feeds records of any form.
func FuzzHold(f *testing.F) {
	for i := range holders() {
		var b []byte
		for _, r := range []string{`{"m":"S 1","s":"a","p":"true","partial_id":"x","partial_message":"true"}`, `{"m":" E","m":2}`, `{"message":"a.Exception: b"}`, `{"log":"\tat x"}`, `{}`} {
			b = append(b, entry(f, 1, r)...)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		count, _, _, ok, _ := event.Check(data)
		data = data[:ok]
		conf := holders()[int(which)%len(holders())]
		h, _ := buildHolder(t, conf)
		held, s, p := h.Hold("t"), &Scratch{}, &Passed{}
		held.Take(s, Incoming{ID: 1, Entries: data}, p)
		held.Flush(s, p)
		if n, _, _, at, err := event.Check(p.Entries); err != nil || at != len(p.Entries) || n != p.Count {
			t.Fatalf("%s: %d events, %d counted, %v", conf, n, p.Count, err)
		}
		if p.Count+p.Filtered+p.Failed != count || held.Bytes() != 0 {
			t.Fatalf("%s: %d events in, %d out, %d filtered, %d failed, %d bytes left", conf, count, p.Count, p.Filtered, p.Failed, held.Bytes())
		}
	})
}

func BenchmarkHold(b *testing.B) {
	var plain, trace []byte
	for i := range 100 {
		plain = append(plain, entry(b, event.Time(i), fmt.Sprintf(`{"stream":"stdout","log":"2026-11-30 20:00:%02d INFO a line of usual length, with a few words in it","kubernetes":{"pod_name":"p","namespace_name":"n"}}`, i%60))...)
	}
	for i := range 100 {
		line := `\tat com.example.shop.Order.take(Order.java:44)`
		if i%10 == 0 {
			line = "2026-11-30 20:00:00 ERROR com.example.shop.OrderException: no stock"
		}
		trace = append(trace, entry(b, event.Time(i), `{"stream":"stdout","log":"`+line+`","kubernetes":{"pod_name":"p","namespace_name":"n"}}`)...)
	}
	for _, c := range []struct {
		name, conf string
		src        []byte
	}{
		{"concat start, single lines", "@type concat\nkey log\nmultiline_start_regexp /^\\d{4}-/\nstream_identity_key stream", plain},
		{"concat start, ten lines", "@type concat\nkey log\nmultiline_start_regexp /^\\d{4}-/\nstream_identity_key stream", trace},
		{"concat n_lines 10", "@type concat\nkey log\nn_lines 10", plain},
		{"detect, no trace", "@type detect_exceptions\nmessage log", plain},
		{"detect, ten lines", "@type detect_exceptions\nmessage log", trace},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, _ := buildHolder(b, c.conf)
			held, s, p := h.Hold("t"), &Scratch{}, &Passed{}
			b.ReportAllocs()
			b.SetBytes(int64(len(c.src)) / 100)
			for i := 0; i < b.N; i += 100 {
				p.Reset()
				held.Take(s, Incoming{ID: uint64(i), Entries: c.src}, p)
			}
		})
	}
}
