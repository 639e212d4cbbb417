package event

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestJSONProperty compares every writer with the slow model, and with encoding/json.
func TestJSONProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v tree = drawMap(t, 3)
		if rapid.IntRange(0, 9).Draw(t, "bare") == 0 {
			v = drawTree(t, 3)
		}
		value := pack(nil, v)
		if end, err := Skip(value, 0); err != nil || end != len(value) {
			t.Fatalf("Skip: %d, %v", end, err)
		}
		o := &JSONOptions{Style: rapid.SampledFrom([]JSONStyle{Yajl, Oj, Gem}).Draw(t, "style"), DropEmpty: rapid.Bool().Draw(t, "drop empty")}

		want := slowJSON(v, o.Style, 0, &JSONOptions{}, "", nil)
		if got := string(AppendJSON([]byte("before"), value, o.Style)); got != "before"+want {
			t.Fatalf("AppendJSON\n got %s\nwant before%s", got, want)
		}
		want = slowJSON(v, o.Style, 0, o, "", nil)
		if got, n := appendJSONText([]byte("before"), value, o); string(got) != "before"+want || n != len(want) {
			t.Fatalf("appendJSONText\n got %s, %d\nwant before%s, %d", got, n, want, len(want))
		}
		if !json.Valid([]byte(want)) {
			t.Fatalf("encoding/json refuses %s", want)
		}
		// A capacity drawn at random: growth at any place must not lose bytes.
		dst := append(make([]byte, 0, rapid.IntRange(6, 6+2*len(want)).Draw(t, "cap")), "before"...)
		got, n := AppendJSONEscaped(dst, value, o)
		if string(got) != "before"+slowEscape(want, o.Style) || n != len(want) {
			t.Fatalf("AppendJSONEscaped\n got %s, %d\nwant before%s, %d", got, n, slowEscape(want, o.Style), len(want))
		}
		var back string
		if err := json.Unmarshal([]byte(`"`+string(got[6:])+`"`), &back); err != nil || back != want {
			t.Fatalf("encoding/json reads %q, %v; want %q", back, err, want)
		}
		if got, n := AppendTextEscaped([]byte("before"), value); string(got) != "before"+slowEscape(slowText(v), Yajl) || n != len(slowText(v)) {
			t.Fatalf("AppendTextEscaped: %s, %d", got, n)
		}
	})
}

func TestStringEscapedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawString(t, "s")
		valid := slowScrub(s)
		// The string stands inside a larger slice: what lies around it must not matter.
		around := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "around")
		b := append(append(bytes.Clone(around), s...), around...)
		dst := append(make([]byte, 0, rapid.IntRange(6, 60).Draw(t, "cap")), "before"...)
		out, n := AppendStringEscaped(dst, b[len(around):len(around)+len(s)])
		if string(out) != "before"+slowEscape(valid, Yajl) || n != len(valid) {
			t.Fatalf("%q: got %s, %d; want before%s, %d", s, out, n, slowEscape(valid, Yajl), len(valid))
		}
		if got := appendScrubbed(nil, []byte(s)); string(got) != valid {
			t.Fatalf("appendScrubbed(%q) = %q, want %q", s, got, valid)
		}
	})
}

// TestJSONRecorded holds what Fluentd 1.18 with its CloudWatch Logs and S3 plug-ins wrote
// for the same record.
func TestJSONRecorded(t *testing.T) {
	record := pack(nil, pairs{
		{"log", "tab\tnewline\ncontrol\x01\x1f del\x7f"}, {"n", 1}, {"f", 1.5}, {"big", uint64(12345678901234567890)},
		{"neg", -9007199254740993}, {"exp", 1e15}, {"small", 9.9e-05}, {"one", 1.0}, {"t", true}, {"nil", nil},
		{"empty", ""}, {"m", pairs{{"app", "x"}, {"empty", ""}}},
	})
	rest := `"t":true,"nil":null,`
	yajl := `{"log":"tab\tnewline\ncontrol\u0001\u001F del` + "\x7f" + `","n":1,"f":1.5,"big":12345678901234567890,"neg":-9007199254740993,"exp":1.0e+15,"small":9.9e-05,"one":1.0,` +
		rest + `"m":{"app":"x","empty":""}}`
	oj := `{"log":"tab\tnewline\ncontrol\u0001\u001f del` + "\x7f" + `","n":1,"f":1.5,"big":12345678901234567890,"neg":-9007199254740993,"exp":1000000000000000.0,"small":9.9e-05,"one":1.0,` +
		rest + `"empty":"","m":{"app":"x","empty":""}}`
	if got, n := appendJSONText(nil, record, &JSONOptions{DropEmpty: true}); string(got) != yajl || n != len(yajl) {
		t.Errorf("yajl\n got %s\nwant %s", got, yajl)
	}
	gem := strings.Replace(yajl, "\\u001F", "\\u001f", 1)
	if got, _ := appendJSONText(nil, record, &JSONOptions{Style: Gem, DropEmpty: true}); string(got) != gem {
		t.Errorf("gem\n got %s\nwant %s", got, gem)
	}
	if got := AppendJSON(nil, record, Oj); string(got) != oj {
		t.Errorf("oj\n got %s\nwant %s", got, oj)
	}
	for _, c := range []struct {
		in   tree
		want string
	}{
		{"quotes \" and \\ and / and <b>&amp;</b> \u2028 end", `"quotes \" and \\ and / and <b>&amp;</b> ` + "\u2028" + ` end"`},
		{"bad utf8 \xff\xfe mid \xc3( end", "\"bad utf8 \uFFFD\uFFFD mid \uFFFD( end\""},
		{pairs{{"bin", bin("\xff")}, {1, 2}, {nil, 1}}, "{\"bin\":\"\uFFFD\",\"1\":2,\"\":1}"},
		{pairs{{"bad\xff", 1}, {1.5, 1}, {pairs{{"a", nil}}, 1}, {true, 1}}, "{\"bad\uFFFD\":1,\"1.5\":1,\"{\\\"a\\\"=>nil}\":1,\"true\":1}"},
		{[]tree{math.NaN(), math.Inf(-1), extv{AppendTime(nil, Unix(1700000000, 5))}}, "[null,null,1700000000]"},
		{extv{[]byte{0xd5, 5, 10, 11}}, `"ext(5):0a0b"`},
		{extv{[]byte{0xc7, 3, 0xff, 1, 2, 3}}, `"ext(-1):010203"`},
		{extv{[]byte{0xd4, 0, 7}}, `"ext(0):07"`},
	} {
		if got := string(AppendJSON(nil, pack(nil, c.in), Yajl)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestFloat holds floats as real Ruby printed them.
func TestFloat(t *testing.T) {
	for want, f := range map[string]float64{
		"100000000000000.0": 1e14, "1.0e+15": 1e15, "1.0e+16": 1e16, "1.2345678901234568e+17": 123456789012345678,
		"9.999999999999998e+15": 9999999999999998, "0.0001": 1e-4, "9.9e-05": 9.9e-5, "0.1": 0.1, "1.5": 1.5, "100.0": 100,
		"1.0e+20": 1e20, "123456789012345.0": 123456789012345, "1.234567890123456e+15": 1234567890123456, "0.00012": 0.00012,
		"1.0e-05": 1e-5, "1.0": 1, "-0.0": math.Copysign(0, -1), "3.14": 3.14, "1.0e-07": 1e-7, "5.0e-324": 5e-324,
		"1.7976931348623157e+308": math.MaxFloat64, "1000000000000000.5": 1e15 + 0.5, "-Infinity": math.Inf(-1), "NaN": math.NaN(),
	} {
		if got := string(AppendFloatText(nil, f)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := string(AppendJSON(nil, []byte{0xca, 0x3f, 0xc0, 0, 0}, Yajl)); got != "1.5" {
		t.Errorf("float32: %s", got)
	}
}

func TestDrop(t *testing.T) {
	var value tree = pairs{
		{"a", 1}, {"b", pairs{{"c", 1}, {"d", []tree{1, 2, pairs{{"x", 1}, {"y", 2}}}}}}, {bin("e"), 1}, {"", ""}, {"a", ""}, {7, ""},
	}
	for _, c := range []struct{ paths, want string }{
		{"", `{"a":1,"b":{"c":1,"d":[1,2,{"x":1,"y":2}]},"e":1,"":"","a":"","7":""}`},
		{"a e", `{"b":{"c":1,"d":[1,2,{"x":1,"y":2}]},"":"","7":""}`},
		{"b $.a.q $.e[0]", `{"a":1,"e":1,"":"","a":"","7":""}`},
		{"$.b.c", `{"a":1,"b":{"d":[1,2,{"x":1,"y":2}]},"e":1,"":"","a":"","7":""}`},
		{"$.b.d[0] $.b.d[-1].x", `{"a":1,"b":{"c":1,"d":[2,{"y":2}]},"e":1,"":"","a":"","7":""}`},
		{"$.b.d[2].x $.b.d[1] $.b.d[9]", `{"a":1,"b":{"c":1,"d":[1,{"y":2}]},"e":1,"":"","a":"","7":""}`},
		{"$.b.d $.b.c 7", `{"a":1,"b":{},"e":1,"":"","a":"","7":""}`},
	} {
		var paths []Path
		for _, text := range strings.Fields(c.paths) {
			p, err := ParsePath(text)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, p)
		}
		set := NewPathSet(paths...)
		record := pack(nil, value)
		if got, n := appendJSONText(nil, record, &JSONOptions{Drop: set}); string(got) != c.want || n != len(c.want) {
			t.Errorf("%q: got %s, %d, want %s", c.paths, got, n, c.want)
		}
		without := AppendWithout([]byte("before"), record, set)
		if got := AppendJSON(nil, without[6:], Yajl); string(got) != c.want {
			t.Errorf("%q: AppendWithout: %s, want %s", c.paths, got, c.want)
		}
		if end, err := Skip(without[6:], 0); err != nil || end != len(without)-6 {
			t.Errorf("%q: AppendWithout is not one value: %d of %d, %v", c.paths, end, len(without)-6, err)
		}
	}
	if got, _ := appendJSONText(nil, pack(nil, value), &JSONOptions{DropEmpty: true}); string(got) != `{"a":1,"b":{"c":1,"d":[1,2,{"x":1,"y":2}]},"e":1}` {
		t.Errorf("DropEmpty: %s", got)
	}
}

func TestDropBoth(t *testing.T) {
	record := pack(nil, pairs{{"a", ""}, {"k", pairs{{"a", ""}, {"b", 1}, {"c", ""}}}, {"c", bin("")}, {"d", 1}})
	path, err := ParsePath("$.k.b")
	if err != nil {
		t.Fatal(err)
	}
	o := &JSONOptions{DropEmpty: true, Drop: NewPathSet(path, KeyPath("d"))}
	if got, _ := appendJSONText(nil, record, o); string(got) != `{"k":{"a":"","c":""}}` {
		t.Errorf("%s", got)
	}
}

// TestDepth: the writers bound their own depth, also over what nobody checked.
func TestDepth(t *testing.T) {
	for _, c := range []struct {
		head       byte
		open, text string
	}{{0x91, "[", "["}, {0x81, `{"":`, `{nil=>`}} {
		unit := []byte{c.head}
		if c.head == 0x81 {
			unit = append(unit, 0xc0)
		}
		for _, levels := range []int{MaxDepth, MaxDepth + 1, 10 * MaxDepth} {
			b := append(bytes.Repeat(unit, levels), 1)
			want := strings.Repeat(c.open, MaxDepth) + map[bool]string{true: "1", false: "null"}[levels == MaxDepth]
			want += strings.Repeat(map[byte]string{0x91: "]", 0x81: "}"}[c.head], MaxDepth)
			if got := string(AppendJSON(nil, b, Yajl)); got != want {
				t.Errorf("%d levels\n got %s\nwant %s", levels, got, want)
			}
			if got := string(AppendText(nil, b)); strings.Count(got, c.text) != MaxDepth {
				t.Errorf("%d levels: AppendText: %s", levels, got)
			}
		}
	}
}

func TestWithoutWide(t *testing.T) {
	// More entries than a one-byte head holds, before and after.
	for _, n := range []int{15, 16, 17, 70000} {
		var v pairs
		for i := range n {
			v = append(v, pair{i, i})
		}
		v = append(v, pair{"out", 1})
		got := AppendWithout(nil, pack(nil, v), NewPathSet(KeyPath("out")))
		if !bytes.Equal(got, pack(nil, v[:n])) {
			t.Errorf("%d entries: wrong bytes", n)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		in   tree
		want string
	}{
		{nil, ""}, {true, "true"}, {-5, "-5"}, {uint64(math.MaxUint64), "18446744073709551615"}, {1e15, "1.0e+15"},
		{"plain", "plain"}, {bin("\xe3\x81\xff"), "\uFFFD\uFFFD"}, {"é\xff", "é\uFFFD"},
		{extv{AppendTime(nil, Unix(1700000000, 1))}, "1700000000"},
		{pairs{{"k", "v"}, {"n", nil}, {1, 2.0}}, `{"k"=>"v", "n"=>nil, 1=>2.0}`},
		{[]tree{"a", []tree{}, pairs{}, false}, `["a", [], {}, false]`},
		{[]tree{"q\" b\\ #{x} #$y #@z # #a \a\b\t\n\v\f\r\x1b\x00\x1f\x7f"}, `["q\" b\\ \#{x} \#$y \#@z # #a \a\b\t\n\v\f\r\e\u0000\u001F\u007F"]`},
		{[]tree{"日本 \u2028 \U000E0001 \U0001F680 \xff\u0085\u00a0"}, "[\"日本 \\u2028 \U000E0001 🚀 \\xFF\\u0085\u00a0\"]"},
		{[]tree{"\U0010FFFE"}, `["\u{10FFFE}"]`},
		{[]tree{bin("\xe3a\x01")}, `["\xE3a\x01"]`},
	} {
		if got := string(AppendText(nil, pack(nil, c.in))); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := string(AppendInspect(nil, pack(nil, nil))); got != "nil" {
		t.Errorf("inspect nil: %s", got)
	}
}

func TestNoAllocations(t *testing.T) {
	record := pack(nil, pairs{{"a", "text \x01\xff é"}, {1, 1.5}, {2.5, "odd"}, {[]tree{1}, nil}, {"m", pairs{{"x", []tree{1, "2"}}}}})
	path, err := ParsePath("$.m.x[-1]")
	if err != nil {
		t.Fatal(err)
	}
	drop := NewPathSet(KeyPath("q"), path)
	dst := make([]byte, 0, 4096)
	src := []byte(kubernetesRecord)
	for name, f := range map[string]func(){
		"AppendJSON":        func() { AppendJSON(dst, record, Oj) },
		"AppendJSONEscaped": func() { AppendJSONEscaped(dst, record, &JSONOptions{DropEmpty: true, Drop: drop}) },
		"AppendTextEscaped": func() { AppendTextEscaped(dst, record) },
		"AppendText":        func() { AppendText(dst, record) },
		"AppendWithout":     func() { AppendWithout(dst, record, drop) },
		"AppendFromJSON":    func() { AppendFromJSON(dst, src) },
		"Find":              func() { path.Find(record) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzAppendJSON gives the writers bytes that passed no check: they must not panic and
// what they write must be JSON of the length they say.
func FuzzAppendJSON(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'a', 0xa1, 'b'})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 'a'})
	f.Add([]byte{0x82, 0x91, 0x01, 0xd7, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0xc4, 1, 0xff, 0xc1})
	f.Add(bytes.Repeat([]byte{0x91}, 100))
	f.Add(bytes.Repeat([]byte{0x81}, 100))
	f.Add([]byte{0x93, 0xca, 0xd9, 200})
	f.Add(kubernetes(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, style := range []JSONStyle{Yajl, Oj, Gem} {
			o := &JSONOptions{Style: style, DropEmpty: true, Drop: NewPathSet(KeyPath("a"), Path{first: step{key: "b"}, rest: []step{{index: -1, isIndex: true}}})}
			for _, o := range []*JSONOptions{o, {Style: style}} {
				text, n := appendJSONText(nil, b, o)
				if n != len(text) || !json.Valid(text) {
					t.Fatalf("%x: not JSON: %s", b, text)
				}
				escaped, n := AppendJSONEscaped(nil, b, o)
				var back string
				if err := json.Unmarshal([]byte(`"`+string(escaped)+`"`), &back); err != nil || back != string(text) || n != len(text) {
					t.Fatalf("%x: %v\n got %s, %d\nwant %s, %d", b, err, back, n, text, len(text))
				}
			}
		}
		escaped, n := AppendTextEscaped(nil, b)
		var back string
		if err := json.Unmarshal([]byte(`"`+string(escaped)+`"`), &back); err != nil || len(back) != n {
			t.Fatalf("%x: AppendTextEscaped: %s, %d, %v", b, escaped, n, err)
		}
		AppendWithout(nil, b, NewPathSet(KeyPath("a")))
	})
}

func TestEventTimesInside(t *testing.T) {
	at := time.Unix(1700000000, 500)
	v := AppendMapHeader(nil, 2)
	v = AppendTime(AppendStr(v, "a"), FromTime(at))
	v = append(AppendArrayHeader(AppendStr(v, "b"), 3), 0xc7, 8, 0, 0, 0, 0, 5, 0, 0, 0, 0) // as ext8
	v = append(AppendStr(v, "\xd7\x00"), 0xd4, 5, 1)                                        // and what looks like one
	const local = "2006-01-02 15:04:05.000000000 -0700"
	want := `{"a"=>` + at.Format(local) + `, "b"=>[` + time.Unix(5, 0).Format(local) + `, "\xD7\u0000", ext(5):01]}`
	if got := string(AppendText(nil, v)); got != want {
		t.Errorf("text %s, want %s", got, want)
	}
	plain := AppendWithoutTimes([]byte("x"), v)
	if got, want := string(AppendJSON(nil, plain[1:], Yajl)), string(AppendJSON(nil, v, Yajl)); got != want || bytes.Contains(plain, []byte{0xc7, 8, 0}) {
		t.Errorf("plain %s, want %s", got, want)
	}
	if end, err := Skip(plain, 1); err != nil || end != len(plain) {
		t.Error(end, err)
	}
	if got := string(AppendText(nil, AppendTime(nil, FromTime(at)))); got != "1700000000" {
		t.Errorf("alone: %s", got)
	}
}

// appendJSONText appends what AppendJSONEscaped escapes. n is the number of bytes appended.
func appendJSONText(dst, value []byte, o *JSONOptions) (out []byte, n int) {
	e := encoder{dst: dst, b: value, d: plain[o.Style], dropEmpty: o.DropEmpty}
	e.value(0, 0, o.Drop)
	return e.dst, len(e.dst) - len(dst)
}
