package filter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"weir/internal/event"
)

func TestGrep(t *testing.T) {
	rule := func(kind, key, pattern string) string {
		return fmt.Sprintf("<%s>\nkey %s\npattern %s\n</%s>\n", kind, key, pattern, kind)
	}
	in := func(group, rules string) string { return "<" + group + ">\n" + rules + "</" + group + ">\n" }
	for _, c := range []struct {
		name, conf    string
		passes, fails []string
	}{
		{"one regexp", rule("regexp", "m", "/ok/"), []string{`{"m":"is ok"}`}, []string{`{"m":"no"}`, `{}`, `{"m":null}`, `{"x":"ok"}`}},
		{"regexps are joined by and", rule("regexp", "a", "1") + rule("regexp", "b", "2"), []string{`{"a":1,"b":2}`}, []string{`{"a":1}`, `{"b":2}`, `{}`}},
		{"excludes are joined by or", rule("exclude", "a", "1") + rule("exclude", "b", "2"), []string{`{"a":2,"b":1}`, `{}`}, []string{`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`}},
		{"both", rule("regexp", "a", "^x") + rule("exclude", "a", "y$"), []string{`{"a":"x"}`, `{"a":"xyz"}`}, []string{`{"a":"xy"}`, `{"a":"y"}`}},
		{"and of excludes", in("and", rule("exclude", "a", "1")+rule("exclude", "b", "2")), []string{`{"a":1}`, `{"b":2}`, `{}`}, []string{`{"a":1,"b":2}`}},
		{"or of regexps", in("or", rule("regexp", "a", "1")+rule("regexp", "b", "2")), []string{`{"a":1}`, `{"b":2}`}, []string{`{}`, `{"a":2,"b":1}`}},
		{"and of regexps joins the others", in("and", rule("regexp", "a", "1")) + rule("regexp", "b", "2"), []string{`{"a":1,"b":2}`}, []string{`{"a":1}`, `{"b":2}`}},
		{"or of excludes joins the others", in("or", rule("exclude", "a", "1")) + rule("exclude", "b", "2"), []string{`{}`}, []string{`{"a":1}`, `{"b":2}`}},
		{"nested key", rule("regexp", "$.k.n", "/^shop$/"), []string{`{"k":{"n":"shop"}}`, `{"k":"x"}`, `{"k":["shop"]}`, `{"k":false}`}, []string{`{"k":{"n":"shopping"}}`, `{"k.n":"shop"}`, `{"k":null}`}},
		{"no way to a key behind one that decides", rule("regexp", "a", "1") + rule("regexp", "$.k.n", "x"), []string{`{"a":1,"k":"x"}`}, []string{`{"k":"x"}`}},
		{"bracket key", rule("regexp", "$['a.b'][0]", "1"), []string{`{"a.b":[1]}`}, []string{`{"a.b":[2,1]}`}},
		{"missing is empty", rule("regexp", "m", "/^$/"), []string{`{}`, `{"m":""}`, `{"m":null}`}, []string{`{"m":"x"}`}},
		{"other types as text", rule("regexp", "m", `/^(true|1\.5|\["a"\]|\{"k"=>1\})$/`), []string{`{"m":true}`, `{"m":1.5}`, `{"m":["a"]}`, `{"m":{"k":1}}`}, []string{`{"m":false}`}},
		{"lines", rule("regexp", "m", "/^b$/"), []string{`{"m":"a\nb\nc"}`}, []string{`{"m":"ab"}`}},
		{"case", rule("regexp", "m", "/ERR/i"), []string{`{"m":"err"}`}, nil},
		{"legacy", "regexp1 m ^a.*z$\nexclude20 m mm\nregexp3 n \\d", []string{`{"m":"a z","n":3}`}, []string{`{"m":"a z"}`, `{"m":"ammz","n":3}`}},
		{"nothing", "", []string{`{}`}, nil},
	} {
		f, d := build(t, "@type grep\n"+c.conf)
		checkMessages(t, c.name, append(d.Errors, d.Warnings...), nil)
		for _, r := range c.passes {
			if got := apply(t, f, "tag", r); got != r {
				t.Errorf("%s: %s became %q", c.name, r, got)
			}
		}
		for _, r := range c.fails {
			if got := apply(t, f, "tag", r); got != "" {
				t.Errorf("%s: %s passes", c.name, r)
			}
		}
	}
}

func TestGrepMistakes(t *testing.T) {
	re := "<regexp>\nkey a\npattern x\n</regexp>\n"
	ex := strings.ReplaceAll(re, "regexp", "exclude")
	for name, c := range map[string]struct {
		conf           string
		errs, warnings []string
	}{
		"twice":                   {re + re, []string{"two <regexp> rules look at the key a"}, nil},
		"twice by and":            {re + "<and>\n" + re + "</and>", []string{"two <regexp>"}, nil},
		"mixed and":               {"<and>\n" + re + ex + "</and>", []string{"<and> holds <regexp> and <exclude>"}, nil},
		"mixed or":                {"<or>\n" + re + ex + "</or>", []string{"<or> holds"}, nil},
		"accessor":                {"<regexp>\nkey $.\npattern x\n</regexp>", []string{"bad record accessor"}, nil},
		"no pattern":              {"<regexp>\nkey a\n</regexp>", []string{"pattern"}, nil},
		"bad pattern":             {"<regexp>\nkey a\npattern /(/\n</regexp>", []string{"pattern"}, nil},
		"legacy":                  {"regexp1 onlykey", []string{"regexp1 has no pattern"}, nil},
		"legacy regex":            {"exclude2 a (", []string{"exclude2"}, nil},
		"legacy slash":            {"regexp1 a /x/", nil, []string{"slashes"}},
		"all at once":             {re + re + "regexp1 onlykey", []string{"regexp1", "two <regexp>"}, nil},
		"same key as other kinds": {re + ex + "<or>\n" + re + "</or>\n<and>\n" + ex + "</and>", nil, nil},
	} {
		_, d := build(t, "@type grep\n"+c.conf)
		checkMessages(t, name, d.Errors, c.errs)
		checkMessages(t, name, d.Warnings, c.warnings)
	}
}

// TestGrepInvalid: what is not UTF-8 in a value counts as a question mark.
func TestGrepInvalid(t *testing.T) {
	bad := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "m"), "a\xff")
	src := event.AppendEntry(nil, 1, bad)
	for conf, want := range map[string]int{
		"<regexp>\nkey m\npattern /z/\n</regexp>":                                               0,
		"<regexp>\nkey m\npattern /^a\\?$/\n</regexp>":                                          1,
		"<exclude>\nkey m\npattern /a/\n</exclude>":                                             0,
		"<regexp>\nkey x\npattern /z/\n</regexp>\n<regexp>\nkey m\npattern /z/\n</regexp>":      0, // x is looked at first
		"<or>\n<regexp>\nkey m\npattern /z/\n</regexp>\n</or>":                                  0,
		"<and>\n<exclude>\nkey m\npattern /a/\n</exclude>\n</and>":                              0,
		"<exclude>\nkey x\npattern /^$/\n</exclude>\n<exclude>\nkey m\npattern /a/\n</exclude>": 0,
	} {
		f, _ := build(t, "@type grep\n"+conf)
		if _, kept, failed := f.Apply(&Scratch{}, "t", src, nil); kept != want || failed != 0 {
			t.Errorf("%s: kept %d, failed %d", conf, kept, failed)
		}
	}
}

func TestGrepBatch(t *testing.T) {
	f, _ := build(t, "@type grep\n<regexp>\nkey m\npattern /^1/\n</regexp>")
	for _, pattern := range []string{"1111", "0000", "0110", "1001", "1010", "0101", ""} {
		var src, want []byte
		for i, c := range pattern {
			e := entry(t, event.Time(i), fmt.Sprintf(`{"m":"%c","i":%d}`, c, i))
			src = append(src, e...)
			if c == '1' {
				want = append(want, e...)
			}
		}
		out, kept, failed := f.Apply(&Scratch{}, "t", src, nil)
		if !bytes.Equal(out, want) || kept != strings.Count(pattern, "1") || failed != 0 {
			t.Errorf("%s: kept %d, failed %d, % x", pattern, kept, failed, out)
		}
		if kept == len(pattern) && kept > 0 && &out[0] != &src[0] {
			t.Errorf("%s: copied", pattern)
		}
	}
}

func TestAllocations(t *testing.T) {
	var src []byte
	for i := range 100 {
		src = append(src, entry(t, event.Unix(1700000000, 5), fmt.Sprintf(`{"log":"line %d","n":%d,"f":1.5,"when":"1700000001.5","kubernetes":{"pod":"p","labels":{"a":"b"}}}`, i, i%2))...)
	}
	for _, conf := range []string{
		"@type record_transformer\nrenew_time_key when\nremove_keys $.kubernetes.labels,gone\n<record>\ntag ${tag_parts[0]}-${tag_suffix[1]}\nhost ${hostname}\nt ${time}\nf ${record[\"f\"]}\nn_${tag} x\nmap {\"a\":[\"${tag}\",1],\"${tag}\":2}\nsum ${record[\"kubernetes\"]} and ${record[\"f\"]}\n</record>",
		"@type record_transformer\nrenew_record true\nkeep_keys log,n\n<record>\nn 5\n</record>",
	} {
		f, d := build(t, conf)
		checkMessages(t, conf, append(d.Errors, d.Warnings...), nil)
		s := &Scratch{}
		dst, kept, _ := f.Apply(s, "a.b.c", src, nil)
		if kept == 0 {
			t.Errorf("%s: nothing passes", conf)
		}
		if n := testing.AllocsPerRun(20, func() { f.Apply(s, "a.b.c", src, dst[:0]) }); n != 0 {
			t.Errorf("%s: %v allocations a batch", conf, n)
		}
	}
}

// contains is a Matcher that surely allocates nothing; regular expressions have pools.
type contains string

func (c contains) Match(b []byte) bool { return bytes.Contains(b, []byte(c)) }

func TestGrepAllocations(t *testing.T) {
	pod, err := event.ParsePath("$.k.pod")
	if err != nil {
		t.Fatal(err)
	}
	g := &Grep{mustAll: []condition{{event.KeyPath("n"), contains("1")}}, notAny: []condition{{pod, contains("q")}}}
	src := bytes.Repeat(append(entry(t, 5, `{"n":1,"k":{"pod":"p"}}`), entry(t, 5, `{"n":{"x":2}}`)...), 50)
	s := &Scratch{}
	dst, kept, _ := g.Apply(s, "t", src, nil)
	if kept != 50 {
		t.Errorf("kept %d", kept)
	}
	if n := testing.AllocsPerRun(20, func() { g.Apply(s, "t", src, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func BenchmarkGrep(b *testing.B) {
	f, _ := build(b, "@type grep\n<exclude>\nkey log\npattern /healthz/\n</exclude>")
	src := bytes.Repeat(entry(b, 5, `{"log":"GET /api/v1/orders 200 12ms","stream":"stdout","kubernetes":{"pod":"p"}}`), 100)
	s := &Scratch{}
	b.ReportAllocs()
	for i := 0; i < b.N; i += 100 {
		f.Apply(s, "t", src, nil)
	}
}

func BenchmarkTransform(b *testing.B) {
	f, _ := build(b, "@type record_transformer\n<record>\nhost ${hostname}\nservice ${tag_parts[1]}\ncopy ${record[\"stream\"]}\n</record>")
	src := bytes.Repeat(entry(b, 5, `{"log":"GET /api/v1/orders 200 12ms","stream":"stdout","kubernetes":{"pod":"p"}}`), 100)
	s := &Scratch{}
	var dst []byte
	b.ReportAllocs()
	for i := 0; i < b.N; i += 100 {
		dst, _, _ = f.Apply(s, "app.web", src, dst[:0])
	}
}
