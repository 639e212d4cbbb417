package filter

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// build makes the filter of a <filter> section with this content.
func build(tb testing.TB, text string) (Filter, *config.Diagnostics) {
	tb.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{
		Name:     "test.conf",
		ReadFile: func(string) ([]byte, error) { return []byte("<filter **>\n" + text + "\n</filter>\n"), nil },
	})
	if len(errs) > 0 {
		tb.Fatalf("%s: %v", text, errs[0])
	}
	d := &config.Diagnostics{}
	f, known := New(root.Sections[0], Env{Hostname: "h1"}, d)
	if !known {
		tb.Fatalf("unknown @type in %s", text)
	}
	if f == nil != (len(d.Errors) > 0) {
		tb.Fatalf("%s: filter %v with errors %v", text, f, d.Errors)
	}
	return f, d
}

func entry(tb testing.TB, t event.Time, json string) []byte {
	tb.Helper()
	record, n, err := event.AppendFromJSON(nil, []byte(json))
	if err != nil || n != len(json) {
		tb.Fatalf("%s: %d, %v", json, n, err)
	}
	return event.AppendEntry(nil, t, record)
}

// apply runs a filter over one event and returns its JSON, "" if it was filtered.
func apply(tb testing.TB, f Filter, tag, json string) string {
	tb.Helper()
	src := entry(tb, event.Unix(1700000000, 123456789), json)
	before := bytes.Clone(src)
	out, kept, failed := f.Apply(&Scratch{}, tag, src, nil)
	if !bytes.Equal(src, before) {
		tb.Fatal("the filter changed its input")
	}
	count, _, _, _, err := event.Check(out)
	if err != nil || count != kept || kept+failed > 1 {
		tb.Fatalf("%d events, kept %d, failed %d: %v", count, kept, failed, err)
	}
	if kept == 0 {
		return strings.Repeat("failed", failed)
	}
	e, _, _ := event.Next(out)
	return string(event.AppendJSON(nil, e.Record, event.Yajl))
}

func TestNewUnknown(t *testing.T) {
	f, known := New(&fluentconf.Section{Params: []fluentconf.Param{{Key: "@type", Value: fluentconf.Value{Text: "geoip"}}}}, Env{}, &config.Diagnostics{})
	if f != nil || known {
		t.Errorf("%v %v", f, known)
	}
}

// checkMessages compares what was noted: every text must occur in one message.
func checkMessages(t *testing.T, name string, got []*fluentconf.Error, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d messages, want %d: %v", name, len(got), len(want), got)
		return
	}
	for i := range want {
		if !strings.Contains(got[i].Error(), want[i]) || got[i].Pos.Line < 1 {
			t.Errorf("%s: %q lacks %q", name, got[i], want[i])
		}
	}
}
