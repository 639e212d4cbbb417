package filter

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// section parses the content of a <filter> section.
func section(tb testing.TB, text string) *fluentconf.Section {
	tb.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{
		Name:     "test.conf",
		ReadFile: func(string) ([]byte, error) { return []byte("<filter **>\n" + text + "\n</filter>\n"), nil },
	})
	if len(errs) > 0 {
		tb.Fatalf("%s: %v", text, errs[0])
	}
	return root.Sections[0]
}

// buildHolder makes the Holder of a <filter> section with this content.
func buildHolder(tb testing.TB, text string) (Holder, *config.Diagnostics) {
	tb.Helper()
	d := &config.Diagnostics{}
	h, known := NewHolder(section(tb, text), Env{}, d)
	if !known {
		tb.Fatalf("unknown @type in %s", text)
	}
	if (h == nil) != (len(d.Errors) > 0) {
		tb.Fatalf("%s: holder %v with errors %v", text, h, d.Errors)
	}
	return h, d
}

// errorList collects what a filter could not process.
type errorList struct{ events []string }

func (*errorList) FilterPassed(string, string) {}

func (l *errorList) FilterError(tag string, entry []byte, _ string) {
	l.events = append(l.events, shown("error", tag, entry)...)
}

// shown writes events as text: kind, tag, seconds, record.
func shown(kind, tag string, entries []byte) (out []string) {
	for b := entries; len(b) > 0; {
		e, n, err := event.Next(b)
		if err != nil {
			return append(out, "damaged: "+err.Error())
		}
		out = append(out, fmt.Sprintf("%s %s %d %s", kind, tag, e.Time.Seconds(), event.AppendJSON(nil, e.Record, event.Yajl)))
		b = b[n:]
	}
	return out
}

// recording is one line of testdata: what the plug-in of Fluentd made of a sequence of
// events and of waits.
type recording struct {
	Conf  map[string]any
	Steps []struct {
		Tag     string
		Time    int64
		Record  json.RawMessage
		Advance int
	}
	Want [][4]json.RawMessage
}

func recordings(t *testing.T, file string, do func(name string, r *recording)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		do(fmt.Sprintf("%s:%d", file, n+1), &r)
	}
	if n < 30 || lines.Err() != nil {
		t.Fatalf("%d recordings, %v", n, lines.Err())
	}
}

// conf writes the parameters of a recording as a section.
func (r *recording) conf(typ string) string {
	text := "@type " + typ + "\n"
	for k, v := range r.Conf {
		if list, ok := v.([]any); ok {
			v = strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
		}
		if s, ok := v.(string); ok && (s == "" || s == "|") {
			v = fmt.Sprintf("%q", s)
		}
		text += fmt.Sprintf("%s %v\n", k, v)
	}
	return text
}

func (r *recording) want() (out []string) {
	for _, w := range r.Want {
		var kind, tag string
		_ = json.Unmarshal(w[0], &kind)
		_ = json.Unmarshal(w[1], &tag)
		rec, _, _ := event.AppendFromJSON(nil, w[3])
		out = append(out, fmt.Sprintf("%s %s %s %s", kind, tag, w[2], event.AppendJSON(nil, rec, event.Yajl)))
	}
	return out
}

// replay runs the steps of a recording through a Holder.
func (r *recording) replay(t *testing.T, h Holder) (out []string) {
	t.Helper()
	held := map[string]*Held{}
	at := time.Duration(0)
	s, p := &Scratch{}, &Passed{}
	id := uint64(0)
	in, lost := 0, 0
	var tags []string
	for i := range r.Steps {
		step := &r.Steps[i]
		if step.Advance > 0 {
			at += time.Duration(step.Advance) * time.Second
			for _, tag := range tags {
				p.Reset()
				if h.Wait() > 0 {
					held[tag].Expire(s, at, h.Wait(), event.Unix(2000, int64(at)), p)
				}
				out = append(out, shown("late", tag, p.Entries)...)
				lost += p.Filtered
			}
			continue
		}
		if held[step.Tag] == nil {
			held[step.Tag] = h.Hold(step.Tag)
			tags = append(tags, step.Tag)
		}
		errs := &errorList{}
		s.Errors = errs
		p.Reset()
		id++
		in++
		held[step.Tag].Take(s, Incoming{ID: id, Entries: entry(t, event.Unix(step.Time, 0), string(step.Record)), At: at}, p)
		out = append(append(out, shown("out", step.Tag, p.Entries)...), errs.events...)
		lost += p.Filtered
	}
	for _, tag := range tags {
		p.Reset()
		held[tag].Flush(s, p)
		out = append(out, shown("late", tag, p.Entries)...)
		lost += p.Filtered
		if held[tag].Groups() != 0 || held[tag].Bytes() != 0 {
			t.Errorf("%d groups, %d bytes are left", held[tag].Groups(), held[tag].Bytes())
		}
	}
	if in != len(out)+lost {
		t.Errorf("%d events in, %d out, %d filtered", in, len(out), lost)
	}
	return out
}

// byWay orders events: those in the way first, as they came; then late ones, which come in
// no certain order.
func byWay(events []string) []string {
	late := slices.DeleteFunc(slices.Clone(events), func(e string) bool { return !strings.HasPrefix(e, "late") })
	slices.Sort(late)
	return append(slices.DeleteFunc(slices.Clone(events), func(e string) bool { return strings.HasPrefix(e, "late") }), late...)
}

// TestConcatAsRecorded replays what fluent-plugin-concat 2.6.2 was given, with what it made
// of it.
func TestConcatAsRecorded(t *testing.T) {
	recordings(t, "testdata/concat.jsonl", func(name string, r *recording) {
		conf := r.conf("concat")
		h, _ := buildHolder(t, conf)
		got, want := byWay(r.replay(t, h)), byWay(r.want())
		if !slices.Equal(got, want) {
			t.Errorf("%s\n%s\ngot  %s\nwant %s", name, conf, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	})
}

// TestHoldersTakeAnyText has texts that stop the plug-ins of Fluentd: bytes that are not
// UTF-8, and values that are no text.
func TestHoldersTakeAnyText(t *testing.T) {
	odd := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "m"), "S \xff")
	for conf, want := range map[string]string{
		"@type concat\nkey m\nmultiline_start_regexp /^S/": `{"m":"S \uFFFD\na"} {"m":"S 2"} {"m":7}`,
		"@type detect_exceptions\nmessage m":               `{"m":"S \uFFFD"} {"m":"a"} {"m":"S 2"} {"m":7}`,
	} {
		h, _ := buildHolder(t, conf)
		errs := &errorList{}
		held, s, p := h.Hold("t"), &Scratch{Errors: errs}, &Passed{}
		src := event.AppendEntry(nil, 0, odd)
		for _, r := range []string{`{"m":"a"}`, `{"m":"S 2"}`, `{"m":7}`} {
			src = append(src, entry(t, 0, r)...)
		}
		held.Take(s, Incoming{ID: 1, Entries: src}, p)
		held.Flush(s, p)
		var got []string
		for _, e := range append(shown("out", "t", p.Entries), errs.events...) {
			got = append(got, strings.SplitN(e, " ", 4)[3])
		}
		if text := strings.Join(got, " "); text != strings.ReplaceAll(want, `\uFFFD`, "\uFFFD") {
			t.Errorf("%s: got %s", conf, text)
		}
	}
	// An event without the field ends a trace and passes.
	h, _ := buildHolder(t, "@type detect_exceptions\nmessage m")
	held, s, p := h.Hold("t"), &Scratch{}, &Passed{}
	held.Take(s, Incoming{ID: 1, Entries: slices.Concat(entry(t, 0, `{"m":"x.Exception: y"}`), entry(t, 0, `{"n":1}`), entry(t, 0, `{"m":"\tat z"}`))}, p)
	if p.Count != 3 || held.Groups() != 0 {
		t.Errorf("%d events, %d groups: %s", p.Count, held.Groups(), p.Entries)
	}
}
