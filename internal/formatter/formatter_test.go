package formatter

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// parent parses an output section with this content.
func parent(tb testing.TB, text string) *fluentconf.Section {
	tb.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{
		Name:     "test.conf",
		ReadFile: func(string) ([]byte, error) { return []byte("<match **>\n" + text + "\n</match>\n"), nil },
	})
	if len(errs) > 0 {
		tb.Fatalf("%s: %v", text, errs[0])
	}
	return root.Sections[0]
}

func first(all []*fluentconf.Section) *fluentconf.Section {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

func newFormatter(tb testing.TB, text string, env Env) (Formatter, bool, *config.Diagnostics) {
	tb.Helper()
	p, d := parent(tb, text), &config.Diagnostics{}
	f, usesTag := New(p, first(p.All("format")), first(p.All("inject")), "json", env, d)
	if (f == nil) != (len(d.Errors) > 0) {
		tb.Fatalf("%s: %v with errors %v", text, f, d.Errors)
	}
	return f, usesTag, d
}

func record(tb testing.TB, json string) []byte {
	tb.Helper()
	r, n, err := event.AppendFromJSON(nil, []byte(json))
	if err != nil || n != len(json) {
		tb.Fatalf("%s: %d, %v", json, n, err)
	}
	return r
}

var at = event.Unix(1700000000, 123456789) // 2023-11-14 22:13:20 UTC

func TestFormat(t *testing.T) {
	tokyo := Env{Hostname: "h1", WorkerID: 3, Location: time.FixedZone("JST", 9*3600)}
	format := func(lines string) string { return "<format>\n" + lines + "\n</format>" }
	inject := func(lines string) string { return "<inject>\n" + lines + "\n</inject>" }
	const in = `{"a":"x","n":null,"m":{"k":"v"},"f":1e15,"e":""}`
	for _, c := range []struct {
		name, conf, in, want string
		usesTag              bool
	}{
		{"default", "", in, `{"a":"x","n":null,"m":{"k":"v"},"f":1000000000000000.0,"e":""}` + "\n", false},
		{"json", format("@type json\nadd_newline false"), `{"a":"\u001f/é"}`, `{"a":"\u001f/é"}`, false},
		{"json yajl", format("@type json\njson_parser yajl\nnewline crlf"), `{"a":"\u001f","f":1e15}`, `{"a":"\u001f","f":1.0e+15}` + "\r\n", false},
		{"single value", format("@type single_value"), `{"message":"a\nb","x":1}`, "a\nb\n", false},
		{"single value of another key", format("@type single_value\nmessage_key a.b\nadd_newline no"), `{"a.b":1.0}`, "1.0", false},
		{"single value is no accessor", format("@type single_value\nmessage_key $.k.log"), `{"k":{"log":"deep"},"$.k.log":"flat"}`, "flat\n", false},
		{"single value missing", format("@type single_value"), `{}`, "\n", false},
		{"ltsv", format("@type ltsv"), in, "a:x\tn:\tm:{\"k\"=>\"v\"}\tf:1.0e+15\te:\n", false},
		{"ltsv replaces", format("@type ltsv"), `{"a\tb":"x\ty:\nz","c":"\t\t"}`, "a\tb:x y:\nz\tc:  \n", false},
		{"ltsv with others", format("@type ltsv\ndelimiter ,\nlabel_delimiter =\nreplacement ,,\nadd_newline false"), `{"a":"1,2","b":",,"}`, "a=1,,2,b=,,,,", false},
		{"ltsv, empty replacement", format("@type ltsv\nreplacement ''"), `{"a":"\t\t1\t2"}`, "a:12\n", false},
		{"ltsv of nothing", format("@type ltsv"), `{}`, "\n", false},
		{"csv", format("@type csv\nfields a,n,$.m.k,gone,q"), `{"a":"x","n":null,"m":{"k":1},"q":"say \"hi\",\n"}`, "\"x\",\"\",\"1\",\"\",\"say \"\"hi\"\",\n\"\n", false},
		{"csv without quotes", format("@type csv\nfields a,n,e,q,b,d,s\nforce_quotes false\ndelimiter TAB"), `{"a":"x,y","n":null,"e":"","q":"\"","b":" x","d":"a\tb","s":"é"}`, "x,y\t\t\"\"\t\"\"\"\"\t x\t\"a\tb\"\té\n", false},
		{"csv, escaped tab", format("@type csv\nfields a,b\ndelimiter '\\t'"), `{"a":1,"b":2}`, "\"1\"\t\"2\"\n", false},
		{"tsv", format("@type tsv\nkeys a,n,m"), in, "x\t\t{\"k\"=>\"v\"}\n", false},
		{"tsv with a delimiter", format("@type tsv\nkeys b,a\ndelimiter ;"), in, ";x\n", false},
		{"hash", format("@type hash"), `{"a":null,"b":["x"]}`, `{"a"=>nil, "b"=>["x"]}` + "\n", false},
		{"out_file", format("@type out_file"), `{"f":1e15}`, "2023-11-15T07:13:20+09:00\ttag\t{\"f\":1.0e+15}\n", true},
		{"out_file utc", format("@type out_file\nutc true\ndelimiter space"), `{}`, "2023-11-14T22:13:20Z tag {}\n", true},
		{"out_file zone", format("@type out_file\ntimezone -02:00\ntime_format %F %T %z\noutput_tag false\ndelimiter COMMA"), `{}`, "2023-11-14 20:13:20 -0200,{}\n", false},
		{"out_file float", format("@type out_file\ntime_type float"), `{}`, "1700000000.123456789\ttag\t{}\n", true},
		{"out_file unixtime", format("@type out_file\ntime_type unixtime\noutput_time true"), `{}`, "1700000000\ttag\t{}\n", true},
		{"out_file bare", format("@type out_file\noutput_time false\noutput_tag false"), `{}`, "{}\n", false},
		{"stdout", format("@type stdout"), `{"a":1}`, "2023-11-15 07:13:20.123456789 +0900 tag: {\"a\":1}\n", true},
		{"stdout hash", format("@type stdout\noutput_type hash"), `{"a":1}`, "2023-11-15 07:13:20.123456789 +0900 tag: {\"a\"=>1}\n", true},
		{"stdout without a line end inside", format("@type stdout\noutput_type single_value\nadd_newline false\nmessage_key a"), `{"a":"x"}`, "2023-11-15 07:13:20.123456789 +0900 tag: x\n", true},

		{"inject", inject("hostname_key host\nworker_id_key worker\ntag_key tag\ntime_key time"), `{"a":1}`, `{"a":1,"host":"h1","worker":3,"tag":"tag","time":1700000000.123456}` + "\n", true},
		{"inject over keys", inject("hostname_key a\nhostname other\ntime_key b\ntime_type unixtime"), `{"b":1,"c":2,"a":3}`, `{"b":1700000000,"c":2,"a":"other"}` + "\n", false},
		{"inject one key twice", inject("hostname_key a\ntag_key a"), `{"b":1}`, `{"b":1,"a":"tag"}` + "\n", true},
		{"inject millis", inject("time_key t\ntime_type unixtime_millis"), `{}`, `{"t":1700000000123}` + "\n", false},
		{"inject micros", inject("time_key t\ntime_type unixtime_micros"), `{}`, `{"t":1700000000123456}` + "\n", false},
		{"inject nanos", inject("time_key t\ntime_type unixtime_nanos"), `{}`, `{"t":1700000000123456789}` + "\n", false},
		{"inject text", inject("time_key t\ntime_type string"), `{}`, `{"t":"2023-11-15T07:13:20+09:00"}` + "\n", false},
		{"inject layout", inject("time_key t\ntime_type string\ntime_format %s.%L and a tail that makes the text longer than a short string\nlocaltime false"), `{}`, `{"t":"1700000000.123 and a tail that makes the text longer than a short string"}` + "\n", false},
		{"inject with format", inject("tag_key t") + "\n" + format("@type ltsv"), `{"a":1}`, "a:1\tt:tag\n", true},
		{"inject nothing", inject(""), `{"a":1}`, `{"a":1}` + "\n", false},
		{"inject makes a wide map", inject("tag_key t"), `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1}`,
			`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"t":"tag"}` + "\n", true},

		{"flat time", "include_time_key true", `{}`, `{"time":"2023-11-15T07:13:20+09:00"}` + "\n", false},
		{"flat time in UTC", "include_time_key\nutc\ntime_key @timestamp", `{}`, `{"@timestamp":"2023-11-14T22:13:20Z"}` + "\n", false},
		{"flat time, layout and zone", "include_time_key true\ntime_format %H\ntimezone +01:00", `{}`, `{"time":"23"}` + "\n", false},
		{"flat time as seconds", "time_as_epoch true\ntime_type float", `{}`, `{"time":1700000000}` + "\n", false},
		{"flat time off", "include_time_key false\nlocaltime true", `{}`, "{}\n", false},
		{"flat tag", "include_tag_key true", `{}`, `{"tag":"tag"}` + "\n", true},
		{"flat tag key", "include_tag_key true\ntag_key t", `{}`, `{"t":"tag"}` + "\n", true},
		{"a section counts more", "include_tag_key true\n" + inject("hostname_key h"), `{}`, `{"h":"h1"}` + "\n", false},
	} {
		f, usesTag, d := newFormatter(t, c.conf, tokyo)
		if len(d.Errors)+len(d.Warnings) > 0 || usesTag != c.usesTag {
			t.Errorf("%s: %v %v, uses tag: %v", c.name, d.Errors, d.Warnings, usesTag)
			continue
		}
		in := record(t, c.in)
		keep := bytes.Clone(in)
		for _, room := range []int{0, 1, 40, 1000} {
			got := f.Append(append(make([]byte, 0, 6+room), "before"...), "tag", at, in)
			if string(got) != "before"+c.want {
				t.Errorf("%s\n got %q\nwant %q", c.name, got, "before"+c.want)
				break
			}
		}
		if !bytes.Equal(in, keep) {
			t.Errorf("%s: the record was changed", c.name)
		}
	}
}

func TestMsgpack(t *testing.T) {
	f, _, _ := newFormatter(t, "<format>\n@type msgpack\n</format>\n<inject>\ntag_key t\n</inject>", Env{})
	if got := f.Append(nil, "x", at, record(t, `{"a":1}`)); !bytes.Equal(got, record(t, `{"a":1,"t":"x"}`)) {
		t.Errorf("% x", got)
	}
}

func TestOddRecords(t *testing.T) {
	// Keys that are no strings and bytes that are not UTF-8 keep a line a line.
	r := event.AppendMapHeader(nil, 3)
	r = event.AppendInt(event.AppendInt(r, 1), 2)
	r = event.AppendStr(event.AppendStr(r, "\xff"), "\xfe")
	r = event.AppendStr(event.AppendStr(r, "t"), "old")
	for format, want := range map[string]string{
		"json": "{\"1\":2,\"\uFFFD\":\"\uFFFD\",\"t\":\"tag\"}\n",
		"ltsv": "1:2\t\uFFFD:\uFFFD\tt:tag\n",
	} {
		f, _, _ := newFormatter(t, "<format>\n@type "+format+"\n</format>\n<inject>\ntag_key t\n</inject>", Env{})
		if got := string(f.Append(nil, "tag", at, r)); got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
}

func TestInjectKeyTwice(t *testing.T) {
	r := event.AppendMapHeader(nil, 3)
	for i, k := range []string{"t", "b", "t"} {
		r = event.AppendInt(event.AppendStr(r, k), int64(i))
	}
	f, _, _ := newFormatter(t, "<inject>\ntag_key t\n</inject>", Env{})
	if got := string(f.Append(nil, "tag", at, r)); got != `{"t":"tag","b":1}`+"\n" {
		t.Error(got)
	}
}

func TestMistakes(t *testing.T) {
	format := func(lines string) string { return "<format>\n" + lines + "\n</format>" }
	for conf, want := range map[string]string{
		format("@type parquet"):                                         `"parquet"`,
		format("@type csv"):                                             "fields",
		format("@type csv\nfields a,,b"):                                "empty name",
		format("@type csv\nfields a,$."):                                "bad record accessor",
		format("@type tsv"):                                             "keys",
		format("@type json\nadd_newline maybe"):                         "add_newline",
		format("@type out_file\ntimezone JST"):                          "timezone",
		format("@type out_file\ntime_format %"):                         "time_format",
		format("@type stdout\noutput_type stdout"):                      "contain itself",
		format("@type stdout\noutput_type what"):                        `"what"`,
		"<inject>\ntime_key t\ntime_type string\ntimezone X\n</inject>": "timezone",
		"<inject>\ntime_key t\ntime_type sometimes\n</inject>":          "time_type",
		"include_time_key true\nlocaltime true\nutc true":               "contradict",
		"include_time_key true\ntimezone X":                             "timezone",
	} {
		f, _, d := newFormatter(t, conf, Env{})
		if f != nil || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error(), want) || d.Errors[0].Pos.Line == 0 {
			t.Errorf("%s: %v", conf, d.Errors)
		}
	}
	for conf, want := range map[string]string{
		"<inject>\nhostname h\ntag_key t\n</inject>":      "hostname_key",
		"<inject>\ntime_key t\ntime_format %Y\n</inject>": "time_type string",
	} {
		_, _, d := newFormatter(t, conf, Env{})
		if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Error(), want) {
			t.Errorf("%s: %v", conf, d.Warnings)
		}
	}
}

func TestAllocations(t *testing.T) {
	r := record(t, `{"log":"a \"line\"\t","n":5,"f":1.5,"k":{"pod":"p","list":[1,2]}}`)
	dst := make([]byte, 0, 4096)
	for _, conf := range []string{
		"@type json", "@type single_value\nmessage_key log", "@type ltsv", "@type csv\nfields log,$.k.pod,n", "@type tsv\nkeys log,n", "@type msgpack", "@type hash", "@type out_file", "@type stdout",
	} {
		for _, inject := range []string{"", "\n<inject>\ntag_key t\nhostname_key h\ntime_key k\ntime_type string\n</inject>"} {
			f, _, _ := newFormatter(t, "<format>\n"+conf+"\n</format>"+inject, Env{Hostname: "h"})
			if n := testing.AllocsPerRun(100, func() { f.Append(dst, "tag", at, r) }); n != 0 {
				t.Errorf("%s%s: %v allocations", conf, inject, n)
			}
		}
	}
}

func BenchmarkOutFile(b *testing.B) {
	f, _, _ := newFormatter(b, "<format>\n@type out_file\n</format>", Env{})
	r := record(b, `{"log":"GET /api/v1/orders 200 12ms","stream":"stdout","kubernetes":{"pod":"p"}}`)
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		f.Append(dst, "app.web", at, r)
	}
}

func BenchmarkInject(b *testing.B) {
	f, _, _ := newFormatter(b, "<inject>\ntag_key tag\nhostname_key host\n</inject>", Env{Hostname: "h"})
	r := record(b, `{"log":"GET /api/v1/orders 200 12ms","stream":"stdout","kubernetes":{"pod":"p"}}`)
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		f.Append(dst, "app.web", at, r)
	}
}
