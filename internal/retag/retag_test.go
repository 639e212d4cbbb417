package retag

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// build compiles the body of a <match> section.
func build(t testing.TB, body string) (*Rewriter, *config.Diagnostics) {
	t.Helper()
	d := &config.Diagnostics{}
	root, errs, _ := fluentconf.Parse(fluentconf.Source{Name: "t.conf",
		ReadFile: func(string) ([]byte, error) { return []byte("<match **>\n" + body + "\n</match>\n"), nil }})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	var p Params
	config.Decode(root.Sections[0], &p, d)
	return New(root.Sections[0], p, "host1", d), d
}

// entries makes a batch out of JSON records, a second apart.
func entries(t testing.TB, records ...string) []byte {
	t.Helper()
	var out []byte
	for i, r := range records {
		rec, _, err := event.AppendFromJSON(nil, []byte(r))
		if err != nil {
			t.Fatal(err)
		}
		out = event.AppendEntry(out, event.Time(i)*1e9, rec)
	}
	return out
}

// describe prints groups as tag@label:count.
func describe(gs []Group, dropped int) string {
	var parts []string
	for _, g := range gs {
		n, first, last, _, err := event.Check(g.Entries)
		if err != nil || n != g.Count || first != g.First || last != g.Last {
			parts = append(parts, fmt.Sprintf("WRONG %d %d..%d, entries say %d %d..%d %v", g.Count, g.First, g.Last, n, first, last, err))
		}
		parts = append(parts, fmt.Sprintf("%s%s:%d", g.Tag, g.Label, g.Count))
	}
	return strings.Join(parts, " ") + fmt.Sprintf(" dropped:%d", dropped)
}

func TestRewrite(t *testing.T) {
	abc := []string{`{"k":"a"}`, `{"k":"b"}`, `{"k":"a"}`, `{"k":"c"}`}
	rule := func(key, pattern, tag string, more ...string) string {
		return fmt.Sprintf("<rule>\nkey %s\npattern %s\ntag %s\n%s\n</rule>\n", key, pattern, tag, strings.Join(more, "\n"))
	}
	for _, c := range []struct {
		name, body string
		records    []string
		want       string
	}{
		{"capture", rule("k", "/(.+)/", "new.$1"), abc, "new.a:2 new.b:1 new.c:1 dropped:0"},
		{"record order", "emit_mode record\n" + rule("k", "/(.+)/", "new.$1"), abc, "new.a:1 new.b:1 new.a:1 new.c:1 dropped:0"},
		{"first rule wins", rule("k", "/^[ab]$/", "x") + rule("k", "/a/", "y") + rule("k", "/c/", "z"), abc, "x:3 z:1 dropped:0"},
		{"no rule", rule("k", "/a/", "x"), abc, "x:2 dropped:2"},
		{"same tag is dropped", rule("k", "/a/", "app.web"), abc, " dropped:4"},
		{"same tag with label goes on", rule("k", "/a/", "app.web", "label @L"), abc, "app.web@L:2 dropped:2"},
		{"invert", rule("k", "/a/", "not.$1", "invert true"), abc, "not.$1:2 dropped:2"},
		{"inverted rule takes missing", rule("nope", "/a/", "missing", "invert true"), abc, "missing:4 dropped:0"},
		{"empty never fires", rule("k", "/.*/", "x"), []string{`{"k":""}`, `{"k":null}`, `{}`}, " dropped:3"},
		{"nested", rule("$.a.b", "/(.+)/", "$1"), []string{`{"a":{"b":"deep"}}`, `{"a":"flat"}`}, "deep:1 dropped:0"},
		{"brackets", rule("$['a.x']['b']", "/(.+)/", "$1"), []string{`{"a.x":{"b":"deep"}}`}, "deep:1 dropped:0"},
		{"number", rule("n", "/^(4)(\\d)$/", "n.$2.$1.$3"), []string{`{"n":42}`}, "n.2.4.:1 dropped:0"},
		{"placeholders", rule("k", "/a/", "${tag}.${tag_parts[1]}.__TAG_PARTS[0]__.${hostname}.__TAG__.${tag_parts[7]}x"), []string{`{"k":"a"}`}, "app.web.web.app.host1.app.web.x:1 dropped:0"},
		{"captured text is not expanded", rule("k", "/(.+)/", "x.$1"), []string{`{"k":"${tag}$1"}`}, "x.${tag}$1:1 dropped:0"},
		{"capitalize", "capitalize_regex_backreference true\n" + rule("k", "/(.+)/", "x.$1"), []string{`{"k":"éCOLE"}`}, "x.École:1 dropped:0"},
		{"remove prefix", "remove_tag_prefix app\n" + rule("k", "/a/", "new.${tag}"), []string{`{"k":"a"}`}, "new.web:1 dropped:0"},
		{"remove regexp", "remove_tag_regexp /^a../\n" + rule("k", "/a/", "new${tag}"), []string{`{"k":"a"}`}, "new.web:1 dropped:0"},
		{"first line", rule("k", "/(.+)/", "x.$1"), []string{`{"k":"\n\nab\ncd"}`, `{"k":"\n"}`}, "x.ab:1 dropped:1"},
		{"all lines with m", rule("k", "/(.+)/m", "x.$1"), []string{`{"k":"a\nb"}`}, "x.a\nb:1 dropped:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, d := build(t, c.body)
			if len(d.Errors) > 0 {
				t.Fatal(d.Errors[0])
			}
			var s Scratch
			for range 2 { // again with used memory
				gs, dropped, _ := r.Apply(&s, "app.web", entries(t, c.records...))
				if got := describe(gs, dropped); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			}
		})
	}
}

func TestInvalidBytesBecomeQuestionMarks(t *testing.T) {
	r, _ := build(t, "<rule>\nkey k\npattern /(.+)/\ntag x.$1\n</rule>")
	rec := append([]byte{0x81, 0xa1, 'k', 0xa4}, "a\xffb\xfe"...)
	gs, n, _ := r.Apply(&Scratch{}, "t", event.AppendEntry(nil, 1e9, rec))
	if got := describe(gs, n); got != "x.a?b?:1 dropped:0" {
		t.Error(got)
	}
}

// failures is an ErrorSink.
type failures []string

func (f *failures) FilterError(tag string, entry []byte, message string) {
	e, _, _ := event.Next(entry)
	*f = append(*f, fmt.Sprintf("%s %s %s", tag, event.AppendJSON(nil, e.Record, event.Yajl), message))
}

func TestFailures(t *testing.T) {
	r, _ := build(t, "capitalize_regex_backreference true\n<rule>\nkey $.a.b\npattern /^(x)?(.*)$/\ntag n.$2\n</rule>")
	var errs failures
	s := &Scratch{Errors: &errs}
	gs, dropped, failed := r.Apply(s, "t", entries(t, `{"a":{"b":"xy"}}`, `{"a":"text"}`, `{"a":[1]}`, `{"a":{"b":"y"}}`, `{}`, `{"a":null}`))
	if got := describe(gs, dropped); got != "n.Y:1 dropped:2" || failed != 3 {
		t.Errorf("%s, %d failed", got, failed)
	}
	const through = " rewrite_tag_filter: the way to $.a.b goes through a value that is no map"
	want := []string{`t {"a":"text"}` + through, `t {"a":[1]}` + through, `t {"a":{"b":"y"}} rewrite_tag_filter: a group of the pattern has no part in the match, there is nothing to capitalize`}
	if fmt.Sprint(errs) != fmt.Sprint(want) {
		t.Errorf("%q", errs)
	}
	r.Apply(&Scratch{}, "t", entries(t, `{"a":"text"}`)) // nobody wants them
}

func TestOneGroupIsNotCopied(t *testing.T) {
	r, _ := build(t, "<rule>\nkey k\npattern /(.+)/\ntag x.$1\n</rule>")
	src := entries(t, `{"k":"a"}`, `{"k":"a"}`)
	gs, _, _ := r.Apply(&Scratch{}, "t", src)
	if len(gs) != 1 || &gs[0].Entries[0] != &src[0] {
		t.Error("a batch that goes one way was copied")
	}
}

func TestConfigurationMistakes(t *testing.T) {
	for body, want := range map[string]string{
		"": "no <rule>",
		"<rule>\nkey k\npattern /a/\ntag x\n</rule>\n<rule>\nkey k\npattern /a/\ntag y\n</rule>": "same key and pattern",
		"remove_tag_prefix a\nremove_tag_regexp /b/\n<rule>\nkey k\npattern /a/\ntag x\n</rule>": "exclude each other",
		"rewriterule1 k a b\n<rule>\nkey k\npattern /a/\ntag x\n</rule>":                         "old form",
		"hostname_command uname -n\n<rule>\nkey k\npattern /a/\ntag x\n</rule>":                  "does not run commands",
		"<rule>\nkey k\ntag x\n</rule>":                                                          "pattern",
		"<rule>\nkey $.\npattern /a/\ntag x\n</rule>":                                            "$.",
	} {
		r, d := build(t, body)
		text := ""
		for _, e := range d.Errors {
			text += e.Error() + "\n"
		}
		if r != nil || !strings.Contains(text, want) || !strings.HasPrefix(text, "t.conf:") {
			t.Errorf("%q: got %q, want an error about %q", body, text, want)
		}
	}
}

func TestApplyAllocatesNothing(t *testing.T) {
	r, _ := build(t, "<rule>\nkey k\npattern /(.+)/\ntag x.$1\n</rule>")
	src := entries(t, `{"k":"a"}`, `{"k":"b"}`, `{"k":"a"}`)
	var s Scratch
	r.Apply(&s, "t", src)
	if n := testing.AllocsPerRun(100, func() { r.Apply(&s, "t", src) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkApply(b *testing.B) {
	r, _ := build(b, "<rule>\nkey $.kubernetes.pod_name\npattern /(.+)/\ntag pods.$1\n</rule>")
	rec := `{"log":"some text of a line that is not very long","kubernetes":{"namespace_name":"shop","pod_name":"web-0"}}`
	var recs []string
	for range 1000 {
		recs = append(recs, rec)
	}
	src := entries(b, recs...)
	var s Scratch
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		r.Apply(&s, "kube", src)
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
}
