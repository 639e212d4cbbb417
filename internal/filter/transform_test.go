package filter

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/event"
)

const vectorRecord = `{"n":5,"s":"str","h":{"k":"v"},"b":true,"nil":null,"total":100,"count":10,"f":1.5,"tag":"rt","@x":"at"}`

// TestTransformRecorded holds what Fluentd's record_transformer made of vectorRecord with
// the tag debug.my.app. The lines of conf go into <record>.
func TestTransformRecorded(t *testing.T) {
	for _, c := range []struct {
		options, conf, want string
		warnings            []string
	}{
		{"", "a ${record[\"n\"]}\nb x${record[\"n\"]}\nc ${tag}\nd ${tag_parts[-1]}\ne ${tag_prefix[1]}\ng ${tag_suffix[1]}\nh ${hostname}\ni ${time}",
			`{"a":5,"b":"x5","c":"debug.my.app","d":"app","e":"debug.my","g":"my.app","h":"h1","i":"2023-11-14 22:13:20 +0000"}`, nil},
		{"", "a ${record[\"h\"]}\nb x${record[\"h\"]}\nc ${record[\"nil\"]}\nd x${record[\"nil\"]}y\ne ${record[\"missing\"]}\nf x${record[\"missing\"]}y",
			`{"a":{"k":"v"},"b":"x{\"k\"=>\"v\"}","c":null,"d":"xy","e":null,"f":"xy"}`, nil},
		{"", "a ${record['s']}\nb ${n}\nc __TAG__\nd ${tag_parts[9]}\ne ${tag_prefix[-1]}\nz lit\nnum 5",
			`{"a":null,"b":null,"c":null,"d":null,"e":"debug.my.app","z":"lit","num":"5"}`, []string{"${record['s']}", "${n}", "__TAG__"}},
		{"auto_typecast false", "a ${record[\"n\"]}\nb ${record[\"h\"]}\nc ${record[\"nil\"]}", `{"a":"5","b":"{\"k\"=>\"v\"}","c":""}`, nil},
		{"", "k_${record[\"s\"]} v\nj {\"x\":\"${tag}\",\"y\":[1,\"${hostname}\"]}\narr [\"${tag}\"]",
			`{"k_str":"v","j":{"x":"debug.my.app","y":[1,"h1"]},"arr":["debug.my.app"]}`, nil},
		{"", "a ${record[\"@x\"]}\nb ${ record[\"n\"] }\nc ${record[\"h\"][\"k\"]}", `{"a":"at","b":null,"c":null}`,
			[]string{`${ record["n"] }`, `${record["h"]["k"]}`}},
	} {
		f, d := build(t, "@type record_transformer\nrenew_record true\n"+c.options+"\n<record>\n"+c.conf+"\n</record>")
		checkMessages(t, c.conf, d.Errors, nil)
		checkMessages(t, c.conf, d.Warnings, c.warnings)
		if got := apply(t, f, "debug.my.app", vectorRecord); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.conf, got, c.want)
		}
	}
}

func TestTransform(t *testing.T) {
	for _, c := range []struct{ name, conf, tag, in, want string }{
		{"order", "<record>\nb new\nc ${tag}\n</record>", "t", `{"a":1,"b":2,"d":3}`, `{"a":1,"b":"new","d":3,"c":"t"}`},
		{"sees the old record", "<record>\na ${record[\"b\"]}\nb ${record[\"a\"]}\n</record>", "t", `{"a":1,"b":2}`, `{"a":2,"b":1}`},
		{"remove", "remove_keys b, $.k.x ,$.l[0]\n<record>\nb gone\nc 1\n</record>", "t", `{"a":1,"b":2,"k":{"x":1,"y":2},"l":[1,2]}`, `{"a":1,"k":{"y":2},"l":[2],"c":"1"}`},
		{"keep", "renew_record true\nkeep_keys b,gone,a\n<record>\na new\nz 1\n</record>", "t", `{"a":1,"b":2,"c":3}`, `{"b":2,"a":"new","z":"1"}`},
		{"no record section", "remove_keys a", "t", `{"a":1,"b":2}`, `{"b":2}`},
		{"two record sections", "<record>\na 1\n</record>\n<record>\na 2\nb 3\n</record>", "t", `{}`, `{"a":"2","b":"3"}`},
		{"documented tag parts", "<record>\na x.__TAG_PARTS[0]__.__TAG_PARTS[-1]__\n</record>", "p.q.r", `{}`, `{"a":"x.p.r"}`},
		{"tag with empty parts", "<record>\na ${tag_parts[0]}-${tag_parts[1]}\nb ${tag_prefix[-1]}\nc ${tag_suffix[0]}\nd ${tag_parts[2]}\n</record>", ".b..", `{}`, `{"a":"-b","b":".b","c":".b","d":null}`},
		{"one part", "<record>\na ${tag_parts[1]}\nb ${tag_suffix[-1]}\nc ${tag_suffix[-2]}\nd x${tag_parts[-9]}y\n</record>", "only", `{}`, `{"a":null,"b":"only","c":null,"d":"xy"}`},
		{"not placeholders", "<record>\na $tag {tag} ${} __x__ ____ __ ${\n</record>", "t", `{}`, `{"a":"$tag {tag} ${} __x__ ____ __ ${"}`},
		{"single pass", "<record>\na ${record[\"x\"]} ${record[\"x\"]}\n</record>", "t", `{"x":"${tag}"}`, `{"x":"${tag}","a":"${tag} ${tag}"}`},
		{"keys become one", "<record>\nk ${tag}\n${tag} v\n</record>", "k", `{"z":1}`, `{"z":1,"k":"v"}`},
		{"nested keys become one", "<record>\nj {\"a\":1,\"k\":2,\"${tag}\":3}\n</record>", "k", `{}`, `{"j":{"a":1,"k":3}}`},
		{"keys are text", "<record>\n${record[\"n\"]} v\n</record>", "t", `{"n":5}`, `{"n":5,"5":"v"}`},
		{"the record has a key twice", "<record>\na 1\n</record>", "t", `{"b":1}`, `{"b":1,"a":"1"}`},
		{"wide", "<record>\nk1 1\nk2 2\n</record>", "t", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1}`,
			`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"k1":"1","k2":"2"}`},
		{"float and bool", "<record>\na ${record[\"f\"]}x${record[\"b\"]}\n</record>", "t", `{"f":1e20,"b":false}`, `{"f":1.0e+20,"b":false,"a":"1.0e+20xfalse"}`},
	} {
		f, d := build(t, "@type record_transformer\n"+c.conf)
		checkMessages(t, c.name, d.Errors, nil)
		if got := apply(t, f, c.tag, c.in); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestTransformKeyTwice(t *testing.T) {
	f, _ := build(t, "@type record_transformer\n<record>\na new\n</record>")
	record := event.AppendMapHeader(nil, 3)
	for i, k := range []string{"a", "b", "a"} {
		record = event.AppendInt(event.AppendStr(record, k), int64(i))
	}
	out, _, _ := f.Apply(&Scratch{}, "t", event.AppendEntry(nil, 1, record), nil)
	e, _, err := event.Next(out)
	if got := string(event.AppendJSON(nil, e.Record, event.Yajl)); got != `{"a":"new","b":1}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTransformBytes(t *testing.T) {
	// What is not UTF-8, and keys that are no strings, come through as they were.
	f, _ := build(t, "@type record_transformer\n<record>\na x${record[\"s\"]}\n</record>")
	record := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 2), "s"), "\xff")
	record = event.AppendInt(event.AppendInt(record, 7), 8)
	out, _, _ := f.Apply(&Scratch{}, "t", event.AppendEntry(nil, 1, record), nil)
	e, _, err := event.Next(out)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte{0x83}, record[1:]...)
	want = event.AppendStr(event.AppendStr(want, "a"), "x\xff")
	if string(e.Record) != string(want) {
		t.Errorf("got % x, want % x", e.Record, want)
	}
}

func TestTransformTime(t *testing.T) {
	f, _ := build(t, "@type record_transformer\nrenew_time_key t\nremove_keys t\n<record>\nx 1\n</record>")
	for in, want := range map[string]event.Time{
		`1`: event.Unix(1, 0), `1700000000.5`: event.Unix(1700000000, 5e8), `"1700000000.25 s"`: event.Unix(1700000000, 25e7), `null`: 0, `"x"`: 0, `" +1_000"`: event.Unix(1000, 0),
		`"1e3"`: event.Unix(1000, 0), `"1__0"`: event.Unix(1, 0), `"1."`: event.Unix(1, 0), `"1.5e+1"`: event.Unix(15, 0), `"2e"`: event.Unix(2, 0), `4294967295`: event.Unix(math.MaxUint32, 0),
		`true`: -1, `{}`: -1, `[]`: -1, `-1`: -1, `4294967296`: -1, `1e99`: -1, `"4294967296"`: -1, `4294967296.0`: -1, `4294967295.5`: event.Unix(math.MaxUint32, 5e8), `"-5"`: -1, `18446744073709551615`: -1,
	} {
		src := entry(t, event.Unix(77, 0), `{"t":`+in+`}`)
		out, kept, failed := f.Apply(&Scratch{}, "t", append(src, entry(t, event.Unix(78, 0), `{"a":1}`)...), nil)
		if want < 0 {
			if kept != 1 || failed != 1 {
				t.Errorf("%s: kept %d, failed %d", in, kept, failed)
			}
			continue
		}
		e, _, err := event.Next(out)
		if err != nil || e.Time != want || kept != 2 || failed != 0 {
			t.Errorf("%s: %d, kept %d, failed %d, %v; want %d", in, e.Time, kept, failed, err, want)
		}
		if got := string(event.AppendJSON(nil, e.Record, event.Yajl)); got != `{"x":"1"}` {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestTransformLocalTime(t *testing.T) {
	s := subject{time: event.Unix(1700000000, 9), location: time.FixedZone("", -90*60)}
	if got := string(s.appendTime(nil)); got != "2023-11-14 20:43:20 -0130" {
		t.Error(got)
	}
}

func TestTransformMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		conf           string
		errs, warnings []string
	}{
		"ruby": {"enable_ruby true\n<record>\na ${foo}\nb ${record[\"x\"].frob}\nc ${`ls`}\nd text ] ${tag}\ne x[ ${tag}\nf ${File.read(\"x\")}\n</record>",
			[]string{`undefined local variable or method "foo"`, "the method frob is not supported", "running a command", "a string is not closed", "File.read is not supported here"},
			nil},
		"keep":        {"keep_keys a", []string{"keep_keys needs renew_record"}, nil},
		"remove":      {"remove_keys $.", []string{"bad record accessor"}, nil},
		"not json":    {"<record>\na '[x] ${tag}'\n</record>", nil, []string{"taken as text"}},
		"not json 2":  {"<record>\na '[1] x'\n</record>", nil, []string{"taken as text"}},
		"placeholder": {"<record>\na ${tag_parts[1..2]}\nb ${tag_parts[+1]}${tag_parts[01]}\n</record>", nil, []string{"tag_parts[1..2]", "tag_parts[+1]", "tag_parts[01]"}},
		"in a key":    {"<record>\n${foo} 1\n</record>", nil, []string{"${foo}"}},
	} {
		_, d := build(t, "@type record_transformer\n"+c.conf)
		checkMessages(t, name, d.Errors, c.errs)
		checkMessages(t, name, d.Warnings, c.warnings)
	}
	f, _ := build(t, "@type record_transformer\n<record>\na '[x] ${tag}'\n</record>")
	if got := apply(t, f, "t", "{}"); got != `{"a":"[x] t"}` {
		t.Error(got)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"a ${tag} ${record[\"x\"]}", "${", "__TAG__", "__A__B__", "${tag_parts[-1]}", "__TAG_PARTS[99999999999999999999]__", "{\"${tag}\":[\"${tag}\"]}"} {
		f.Add(s, "a.b")
	}
	f.Fuzz(func(t *testing.T, text, tag string) {
		tpl, _ := parseTemplate(text)
		record, _, _ := event.AppendFromJSON(nil, []byte(`{"x":"${tag}","y":{"z":1}}`))
		s := subject{tag: tag, parts: splitTag(nil, tag), record: record, hostname: "h"}
		out := tpl.appendText(nil, &s)
		if !tpl.uses(partRecord, partTag, partTagPart, partTagPrefix, partTagSuffix, partHostname, partTime, partUnknown) && string(out) != text {
			t.Fatalf("%q became %q", text, out)
		}
		// The parts, joined again, are the tag without the dots at its end.
		var joined []string
		for _, p := range s.parts {
			joined = append(joined, tag[p.from:p.to])
		}
		if strings.Join(joined, ".") != strings.TrimRight(tag, ".") {
			t.Fatalf("%q has the parts %q", tag, joined)
		}
	})
}
