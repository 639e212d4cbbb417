package expr

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/event"
)

// templateRecord is the record of testdata/templates.rb.
const templateRecord = `{"n":5,"s":"str","h":{"k":"v","list":[1,2,{"z":3}]},"b":true,"nil":null,"total":100,"count":10,"f":1.5,"neg":-7,"big":9007199254740993,"tag":"rt","@x":"at","log":"2023-11-14 ERROR [main] Something failed: code=42\n","json":"{\"a\":1,\"b\":[true,null]}","u":"äöü 日本","arr":["b","a","c",null],"labels":{"app.kubernetes.io/name":"web","x":"y"},"empty":"","sp":"  pad  ","csv":"a,b,,c,,"}`

func templateEnv() *Env {
	e := testEnv()
	e.Hostname = "h1"
	e.Location = time.FixedZone("JST", 9*3600)
	e.Now = func() time.Time { return time.Unix(1800000000, 0) }
	e.Random = func(b []byte) {
		for i := range b {
			b[i] = byte(i * 37)
		}
	}
	return e
}

// templateSubject is the event of testdata/templates.rb.
func templateSubject(tb testing.TB) Subject {
	tb.Helper()
	record, _, err := event.AppendFromJSON(nil, []byte(templateRecord))
	if err != nil {
		tb.Fatal(err)
	}
	return Subject{Tag: "debug.my.app", Time: event.Unix(1700000000, 123456789), Record: record}
}

// TestTemplatesGolden compares with what Ruby 3.1 made of the same expressions, the record
// included where an expression changed it.
func TestTemplatesGolden(t *testing.T) {
	for _, row := range golden(t, "templates.jsonl", 1000) {
		text := *row[0]
		p := newParser(text)
		p.event = true
		prog, err := compile(p)
		if why := refusedTemplates[text]; why != "" {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: error %v, want one with %q", text, err, why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		subject := templateSubject(t)
		before := string(subject.Record)
		m := &Machine{}
		m.BeginEvent(templateEnv(), subject, !prog.Mutates())
		v, err := m.Run(prog)
		if string(subject.Record) != before {
			t.Fatalf("%s changed its input", text)
		}
		checkTemplate(t, m, text, row, v, err)
	}
}

func checkTemplate(t *testing.T, m *Machine, text string, row []*string, v Value, err error) {
	address := regexp.MustCompile(`:0x[0-9a-f]+`)
	switch {
	case row[1] == nil && err == nil:
		t.Errorf("%s gives %s, Ruby raises %s: %s", text, v.Inspect(), *row[2], *row[3])
	case row[1] == nil:
		want := address.ReplaceAllString(*row[3], "")
		if e, ok := err.(*Error); !ok || e.Class != *row[2] || e.Text != want && differentText[text] == "" {
			t.Errorf("%s raises %#v,\nRuby %s: %s", text, err, *row[2], want)
		}
	case err != nil:
		t.Errorf("%s: %v, Ruby gives %s", text, err, *row[1])
	case v.Inspect() != *row[1] && differentText[text] == "":
		t.Errorf("%s gives %s, Ruby %s", text, v.Inspect(), *row[1])
	case *row[2] != "":
		if got := m.subjectValue(subjectRecord).Inspect(); got != *row[2] {
			t.Errorf("%s makes the record\n     %s\nRuby %s", text, got, *row[2])
		}
	}
}

// refusedTemplates lists what we refuse when it is compiled, and what the message says.
var refusedTemplates = map[string]string{
	`a, (b, c) = 1, [2, 3] rescue 0`:         "undefined local variable",
	`["a"].product(["b"]) rescue "p"`:        "the method product",
	`[1, 2].cycle.first(3) rescue "c"`:       "the method cycle",
	`record["arr"].fill(0) rescue "f"`:       "the method fill",
	`1.nope`:                                 "the method nope",
	`record["s"].nope rescue "r"`:            "the method nope",
	`record["u"].unicode_normalize rescue 0`: "the method unicode_normalize",
}

// differentText lists results that differ on purpose, and how.
var differentText = map[string]string{
	`Comparable.class`:                            "modules are classes here",
	`"é\u0000\u001f\u007f".to_json`:               "DEL is shown as in records",
	`"abc".force_encoding("ASCII-8BIT").encoding`: "an encoding is shown by its name",
	`"abc\xff".to_json`:                           "the newer text of the same error",
}

func FuzzTemplates(f *testing.F) {
	text, err := os.ReadFile("testdata/templates.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f.Add(strings.TrimSpace(line))
	}
	env, subject := templateEnv(), templateSubject(f)
	before := string(subject.Record)
	f.Fuzz(func(t *testing.T, text string) {
		p := newParser(text)
		p.event = true
		prog, err := compile(p)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Offset() < 0 || e.Offset() > len(text) || strings.HasPrefix(e.Text, broken) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		m := &Machine{}
		m.BeginEvent(env, subject, !prog.Mutates())
		v, err := m.Run(prog)
		if err != nil && strings.Contains(err.Error(), broken) {
			t.Fatal(err)
		}
		if err == nil {
			raw, err := m.Append(nil, v)
			if _, skip := event.Skip(raw, 0); err == nil && skip != nil {
				t.Errorf("%q gives damaged msgpack: %v", text, skip)
			}
			v.Inspect()
			m.Changed([]byte("h"))
		}
		if string(subject.Record) != before {
			t.Errorf("%q changed its input", text)
		}
		if !prog.Mutates() && m.Mutated() {
			t.Errorf("%q changes values, but does not say so", text)
		}
	})
}
