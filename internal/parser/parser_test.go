package parser

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

func section(tb testing.TB, text string) *fluentconf.Section {
	tb.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{
		Name:     "test.conf",
		ReadFile: func(string) ([]byte, error) { return []byte("<parse>\n" + text + "\n</parse>\n"), nil },
	})
	if len(errs) > 0 {
		tb.Fatal(errs[0])
	}
	return root.Sections[0]
}

func build(tb testing.TB, text string) Parser {
	tb.Helper()
	d := &config.Diagnostics{}
	p := New(section(tb, text), "none", Env{}, d)
	if p == nil || len(d.Errors)+len(d.Warnings) > 0 {
		tb.Fatalf("%s: %v %v", text, d.Errors, d.Warnings)
	}
	return p
}

// parseOne gives the only record of a line.
func parseOne(p Parser, r *Records, line []byte) (record []byte, at event.Time, hasTime bool, err error) {
	r.Reset()
	switch err = p.Parse(r, line); {
	case err != nil:
		return nil, 0, false, err
	case len(r.Found) != 1:
		return nil, 0, false, fmt.Errorf("%w: %d records", ErrParse, len(r.Found))
	}
	f := &r.Found[0]
	if f.Err != nil {
		return nil, 0, false, f.Err
	}
	return r.Record(f), f.Time, f.HasTime, nil
}

func TestParse(t *testing.T) {
	const noTime = event.Time(-1)
	for _, c := range []struct {
		conf, line, want string // want "" is an error
		time             event.Time
	}{
		{"", "a \"line\" \xff", "{\"message\":\"a \\\"line\\\" \uFFFD\"}", noTime},
		{"", "", `{"message":""}`, noTime},
		{"@type none\nmessage_key log", "x", `{"log":"x"}`, noTime},
		{"@type json", ` {"b":1,"a":{"c":[1.5,null]}} `, `{"b":1,"a":{"c":[1.5,null]}}`, noTime},
		{"@type json", `{"time":1700000000,"a":1}`, `{"a":1}`, event.Unix(1700000000, 0)},
		{"@type json", `{"a":1,"time":1700000000.123456}`, `{"a":1}`, event.Unix(1700000000, 123456000)},
		{"@type json", `{"time":"1700000000.123456789999","a":1}`, `{"a":1}`, event.Unix(1700000000, 123456789)},
		{"@type json", `{"time":"1700000000"}`, `{}`, event.Unix(1700000000, 0)},
		{"@type json", `{"time":null,"a":1}`, "", 0},
		{"@type json\ntime_type unixtime", `{"time":1700000000.9}`, `{}`, event.Unix(1700000000, 0)},
		{"@type json\nkeep_time_key true\ntime_key t", `{"t":5.5,"time":1}`, `{"t":5.5,"time":1}`, event.Unix(5, 5e8)},
		{"@type json", `{"time":"2023-11-14"}`, `{}`, noTime},
		{"@type json", `{"time":"1."}`, `{}`, event.Unix(1, 0)},
		{"@type json", `{"time":"1.5x"}`, `{}`, noTime},
		{"@type json", `{"time":"1.123456789x"}`, `{}`, noTime},
		{"@type json", `{"time":""}`, `{}`, noTime},
		{"@type json", `{"time":true}`, "", 0},
		{"@type json", `{"time":[1]}`, "", 0},
		{"@type json", `{"time":-1}`, `{}`, noTime},
		{"@type json", `{"time":-1.5}`, `{}`, noTime},
		{"@type json", `{"time":1e300}`, `{}`, noTime},
		{"@type json", `{"time":4294967296}`, `{}`, noTime},
		{"@type json", `{"time":99999999999999999999}`, `{}`, noTime},
		{"@type json", `[1]`, "", 0},
		{"@type json", `"text"`, "", 0},
		{"@type json", `plain text`, "", 0},
		{"@type json", ``, "", 0},
		{"@type json", `{"a":1`, "", 0},
		{"@type json", `{"a":1} x`, "", 0},
		{"@type json", `{"a":1}{"a":2}`, "", 0},
		{"@type json", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), "", 0},
	} {
		out, at, hasTime, err := parseOne(build(t, c.conf), &Records{}, []byte(c.line))
		if c.want == "" {
			if !errors.Is(err, ErrParse) || hasTime {
				t.Errorf("%s: %q: %q, %v", c.conf, c.line, out, err)
			}
			continue
		}
		if err != nil || hasTime != (c.time != noTime) || hasTime && at != c.time {
			t.Errorf("%s: %q: time %d, %v, %v", c.conf, c.line, at, hasTime, err)
			continue
		}
		if end, err := event.Skip(out, 0); err != nil || end != len(out) {
			t.Errorf("%s: %q: not one value: %v", c.conf, c.line, err)
		}
		if got := string(event.AppendJSON(nil, out, event.Yajl)); got != c.want {
			t.Errorf("%s: %q: got %s, want %s", c.conf, c.line, got, c.want)
		}
	}
}

func TestNew(t *testing.T) {
	d := &config.Diagnostics{}
	if New(nil, "json", Env{}, d) == nil || len(d.Errors)+len(d.Warnings) > 0 {
		t.Errorf("nil section: %v", d.Errors)
	}
	for conf, want := range map[string]string{
		"@type grok":                           `"grok"`,
		"@type json\ntime_format %":            "ends inside",
		"@type json\ntime_format %b %d":        "tells no year",
		"@type json\ntime_format %V":           "cannot be read",
		"@type json\ntime_type mixed":          "time_format_fallbacks",
		"@type json\ntimezone JST":             "time zone",
		"@type json\nutc true\nlocaltime true": "utc and localtime",
		"@type json\ntypes a:decimal":          `unknown type "decimal"`,
		"@type regexp":                         "needs an expression",
		"@type regexp\nexpression /(/":         "regular expression",
		"@type /a/":                            "no named group",
		"@type csv":                            "keys",
		"@type ltsv\nlabel_delimiter ''":       "label_delimiter is empty",
		"@type multiline":                      "needs format1",
		"@type multiline\nformat1 x":           "not between slashes",
		"@type multiline\nformat2 /(?<a>x)/":   "format1 is missing",
		"@type multiline\nformat1 /(?<a>x)/\nformat_firstline /(/": "format_firstline",
		"@type json\ntime_type nonsense":                           "time_type",
		"@type json\nkeep_time_key nonsense":                       "keep_time_key",
	} {
		d := &config.Diagnostics{}
		if p := New(section(t, conf), "none", Env{}, d); p != nil || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error(), want) || d.Errors[0].Pos.Line == 0 {
			t.Errorf("%s: %v, %v", conf, p, d.Errors)
		}
	}
}

func TestAllocations(t *testing.T) {
	r := &Records{}
	for _, conf := range []string{"@type none", "@type json"} {
		p := build(t, conf)
		line := []byte(`{"time":1700000000.25,"log":"a\nb","k":{"x":[1,2,3]}}`)
		if n := testing.AllocsPerRun(100, func() { r.Reset(); p.Parse(r, line) }); n != 0 {
			t.Errorf("%s: %v allocations", conf, n)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"time":1700000000.25,"a":1}`))
	f.Add([]byte(`{"time":"1.5","time":"2.5"}`))
	f.Add([]byte(`[{"time":1}]`))
	p := build(f, "@type json")
	f.Fuzz(func(t *testing.T, line []byte) {
		checkRecords(t, p, line)
	})
}

// checkRecords wants every record that is found to be a map.
func checkRecords(t *testing.T, p Parser, line []byte) {
	t.Helper()
	r := &Records{}
	_ = p.Parse(r, line)
	for i := range r.Found {
		f := &r.Found[i]
		if f.Err != nil {
			if !errors.Is(f.Err, ErrParse) {
				t.Fatal(f.Err)
			}
			continue
		}
		count, first, _, _, err := event.Check(event.AppendEntry(nil, f.Time, r.Record(f)))
		if count != 1 || err != nil || first != f.Time {
			t.Fatalf("%q: %d entries at %d, want %d: %v", line, count, first, f.Time, err)
		}
	}
}
