package filter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// sink keeps what failed.
type sink struct{ messages []string }

func (s *sink) FilterPassed(tag, message string) {
	s.messages = append(s.messages, tag+" passed: "+message)
}

func (s *sink) FilterError(tag string, entry []byte, message string) {
	e, _, err := event.Next(entry)
	s.messages = append(s.messages, fmt.Sprintf("%s %d %s %v %s", tag, e.Time, event.AppendJSON(nil, e.Record, event.Yajl), err, message))
}

// buildRuby makes a record_transformer with enable_ruby of lines "key value".
func buildRuby(tb testing.TB, options string, records ...string) (Filter, *config.Diagnostics) {
	tb.Helper()
	s := &fluentconf.Section{Params: []fluentconf.Param{param("@type", "record_transformer"), param("enable_ruby", "true")}, Pos: fluentconf.Pos{File: "t.conf", Line: 1}}
	for o := range strings.FieldsSeq(options) {
		k, v, _ := strings.Cut(o, "=")
		s.Params = append(s.Params, param(k, v))
	}
	r := &fluentconf.Section{Name: "record", Pos: s.Pos}
	for i := 0; i < len(records); i += 2 {
		r.Params = append(r.Params, param(records[i], records[i+1]))
	}
	s.Sections = append(s.Sections, r)
	d := &config.Diagnostics{}
	f, _ := New(s, Env{
		Hostname: "h1", Now: func() time.Time { return time.Unix(1800000000, 0) }, Random: func(b []byte) { clear(b) }, PID: 7,
		Lookup: func(name string) (string, bool) { return "/root", name == "HOME" },
	}, d)
	return f, d
}

func param(k, v string) fluentconf.Param {
	pos := fluentconf.Pos{File: "t.conf", Line: 2}
	return fluentconf.Param{Key: k, Pos: pos, Value: fluentconf.Value{Text: v, Pos: pos}}
}

// TestRubyRecorded holds what Fluentd's record_transformer with enable_ruby made of
// vectorRecord. An error begins with !.
func TestRubyRecorded(t *testing.T) {
	for _, c := range []struct {
		options string
		records []string
		want    string
	}{
		{"", []string{"a", `${record["n"]}`, "b", `x${record["n"]}`, "c", "${tag}", "d", "${tag_parts[-1]}", "e", "${tag_prefix[1]}", "g", "${tag_suffix[1]}", "h", "${hostname}", "i", "${time.to_s}"},
			`{"a":5,"b":"x5","c":"debug.my.app","d":"app","e":"debug.my","g":"my.app","h":"h1","i":"2023-11-14 22:13:20 +0000"}`},
		{"", []string{"a", `${record["h"]}`, "b", `x${record["h"]}`, "c", `${record["nil"]}`, "d", `x${record["nil"]}y`, "e", `${record["missing"]}`, "f", `x${record["missing"]}y`},
			`{"a":{"k":"v"},"b":"x{\"k\"=>\"v\"}","c":null,"d":"xy","e":null,"f":"xy"}`},
		{"auto_typecast=false", []string{"a", `${record["n"]}`, "b", `${record["h"]}`, "c", `${record["nil"]}`}, `{"a":"5","b":"{\"k\"=>\"v\"}","c":""}`},
		{"", []string{`k_${record["s"]}`, "v", "j", `{"x":"${tag}","y":[1,"${hostname}"]}`, "arr", `["${tag}"]`}, `{"k_str":"v","j":{"x":"debug.my.app","y":[1,"h1"]},"arr":["debug.my.app"]}`},
		{"", []string{"a", `${record["@x"]}`, "b", `${ record["n"] }`, "c", `${record["h"]["k"]}`}, `{"a":"at","b":5,"c":"v"}`},
		{"", []string{"a", `${record["total"]/record["count"]}`, "b", `${record.dig("h","k")}`, "c", `${record["h"]["zz"]["y"]}`}, "!failed to expand `record[\"h\"][\"zz\"][\"y\"]` : error = undefined method `[]' for nil:NilClass"},
		{"", []string{"b", `${record.dig("h","zz") || "unk"}`, "c", `${time.strftime("%Y-%m-%dT%H:%M:%S.%L%z")}`, "d", "${time.to_i}", "e", "${time.utc.iso8601(3)}", "f", `${tag.gsub(".","-")}`, "g", "${tag_parts.last}", "h", "${record.to_json}"},
			`{"b":"unk","c":"2023-11-14T22:13:20.123+0000","d":1700000000,"e":"2023-11-14T22:13:20.123Z","f":"debug-my-app","g":"app","h":"{\"n\":5,\"s\":\"str\",\"h\":{\"k\":\"v\"},\"b\":true,\"nil\":null,\"total\":100,\"count\":10,\"f\":1.5,\"tag\":\"rt\",\"@x\":\"at\"}"}`},
		{"", []string{"a", `${record["s"].sub(/t(.)/) { $1.upcase }}`, "b", `${ {"x"=>1} }`, "c", `${record["s"]}-${record["n"]}`, "d", `${"#{record["s"]}!"}`}, `{"a":"sR","b":{"x":1},"c":"str-5","d":"str!"}`},
		{"", []string{"a", `${record["s"] =~ /st/ ? "yes" : "no"}`, "b", `${if record["n"] > 3; "big"; else; "small"; end}`, "c", `${record["nope"]&.upcase}`, "d", `${record["nope"].nil?}`}, `{"a":"yes","b":"big","c":null,"d":true}`},
		{"", []string{"a", `${ENV["HOME"]}`, "c", `${JSON.parse("{\"a\":1}")}`, "d", `${URI.parse("http://a/b").path}`, "e", `${CGI.escape("a b")}`, "f", "${puts 1}"}, `{"a":"/root","c":{"a":1},"d":"/b","e":"a+b","f":null}`},
		{"", []string{"a", "${rand.class}", "b", `${format("%05d", 3)}`, "c", `${Integer("3")}`, "e", `${require "json"}`, "f", `${sprintf("%d",3)}`}, `{"a":"Float","b":"00003","c":3,"e":false,"f":"3"}`},
		{"", []string{"a", `${raise "x"}`}, "!failed to expand `raise \"x\"` : error = x"},
		{"", []string{"e", "unbalanced ] ${tag}"}, `{"e":"unbalanced "}`},
		{"", []string{"a", `${record["s"]}${record["n"]}`, "b", `${record["s"]} `, "c", `back\n ${tag}`, "d", `hash #{tag} ${tag}`}, `{"a":"str5","b":"str ","c":"back\n debug.my.app","d":"hash debug.my.app debug.my.app"}`},
		{"", []string{"a", `${record["x"]="set"; record["x"]}`, "b", `${record["x"]}`}, `{"a":"set","b":"set"}`},
		{"", []string{"_", `${record.delete("s"); nil}`, "q", `${record.key?("s")}`}, `{"_":null,"q":false}`},
		{"", []string{"t", `${Time.at(time).strftime("%Y")}`, "v", "${time.nsec}"}, `{"t":"2023","v":123456789}`},
	} {
		f, d := buildRuby(t, "renew_record=true "+c.options, c.records...)
		if f == nil {
			t.Errorf("%q: %v", c.records, d.Errors)
			continue
		}
		want, failing := strings.CutPrefix(c.want, "!")
		s := &Scratch{}
		errs := &sink{}
		s.Errors = errs
		out, kept, failed := f.Apply(s, "debug.my.app", entry(t, event.Unix(1700000000, 123456789), vectorRecord), nil)
		if failing {
			if kept != 0 || failed != 1 || len(out) != 0 || len(errs.messages) != 1 || errs.messages[0] != "debug.my.app 1700000000123456789 "+vectorRecord+" <nil> "+want {
				t.Errorf("%q: %d kept, %d failed, %q", c.records, kept, failed, errs.messages)
			}
			continue
		}
		e, _, err := event.Next(out)
		if got := string(event.AppendJSON(nil, e.Record, event.Yajl)); got != want || err != nil || kept != 1 {
			t.Errorf("%q (%v %v)\n got %s\nwant %s", c.records, err, errs.messages, got, want)
		}
	}
}

// TestRubyMutation has templates that change the record: what hangs below its fields is
// shared with the result, its fields are not.
func TestRubyMutation(t *testing.T) {
	const in = `{"a":{"b":1,"c":{"d":2}},"s":"x y","l":[1,2],"n":5}`
	for _, c := range []struct {
		options string
		records []string
		want    string
	}{
		{"remove_keys=_", []string{"_", `${record["a"].delete("b"); nil}`}, `{"a":{"c":{"d":2}},"s":"x y","l":[1,2],"n":5}`},
		{"remove_keys=_", []string{"_", `${record["a"]["c"]["d"] = "new"}`}, `{"a":{"b":1,"c":{"d":"new"}},"s":"x y","l":[1,2],"n":5}`},
		{"remove_keys=_", []string{"_", `${record.delete("a"); nil}`}, `{"a":{"b":1,"c":{"d":2}},"s":"x y","l":[1,2],"n":5}`},
		{"remove_keys=_", []string{"_", `${record["s"].gsub!(" ", "-"); record["l"] << 3; nil}`}, `{"a":{"b":1,"c":{"d":2}},"s":"x-y","l":[1,2,3],"n":5}`},
		{"remove_keys=_", []string{"_", `${record["a"] = 1}`, "z", `${record["a"]}`}, `{"a":{"b":1,"c":{"d":2}},"s":"x y","l":[1,2],"n":5,"z":1}`},
		{"", []string{"k", `${record["a"]}`, "z", `${record["a"].delete("c"); 1}`}, `{"a":{"b":1},"s":"x y","l":[1,2],"n":5,"k":{"b":1},"z":1}`},
		{"renew_record=true keep_keys=a", []string{"z", `${record["a"].delete("c"); 1}`}, `{"a":{"b":1},"z":1}`},
		{"", []string{"a", `${record["a"].merge("e" => 1)}`}, `{"a":{"b":1,"c":{"d":2},"e":1},"s":"x y","l":[1,2],"n":5}`},
		{"", []string{"j", `{"x":"${record[\"l\"].push(9); 1}","y":["${record[\"l\"].size}"]}`}, `{"a":{"b":1,"c":{"d":2}},"s":"x y","l":[1,2,9],"n":5,"j":{"x":1,"y":[3]}}`},
		{"", []string{"t", `${time}`}, `{"a":{"b":1,"c":{"d":2}},"s":"x y","l":[1,2],"n":5,"t":"2023-11-14 22:13:20 +0000"}`},
		{"renew_record=true", []string{"x", `${record["s"]["y"]}`, "y", `${record["s"]["q"]}`}, `{"x":"y","y":null}`},
	} {
		f, d := buildRuby(t, c.options, c.records...)
		if f == nil {
			t.Errorf("%q: %v", c.records, d.Errors)
			continue
		}
		if got := apply(t, f, "t", in); got != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.records, got, c.want)
		}
	}
}

// TestRubyBounded has templates that would never end: the event fails, the next one goes on.
func TestRubyBounded(t *testing.T) {
	f, _ := buildRuby(t, "", "a", `${if record["n"] == 1; loop { 1 }; else; 2; end}`)
	src := append(entry(t, 1, `{"n":1}`), entry(t, 2, `{"n":2}`)...)
	s := &Scratch{Errors: &sink{}}
	out, kept, failed := f.Apply(s, "t", src, nil)
	e, _, err := event.Next(out)
	if kept != 1 || failed != 1 || err != nil || string(event.AppendJSON(nil, e.Record, event.Yajl)) != `{"n":2,"a":2}` {
		t.Errorf("%d kept, %d failed, %v", kept, failed, err)
	}
	if got := s.Errors.(*sink).messages; len(got) != 1 || !strings.Contains(got[0], "more than 100000 steps") {
		t.Errorf("%q", got)
	}
}

// TestRubyOnError has the option to keep an event whose template fails.
func TestRubyOnError(t *testing.T) {
	f, _ := buildRuby(t, "on_error=pass", "a", `${record["h"]["k"].upcase}`)
	for in, want := range map[string]string{`{"h":{"k":"v"}}`: `{"h":{"k":"v"},"a":"V"}`, `{"h":null}`: `{"h":null}`} {
		if got := apply(t, f, "t", in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

const podRecord = `{"log":"2023-11-14T22:13:20.123Z INFO something happened in the application, request 7f3a served in 12 ms","stream":"stdout","time":"2023-11-14T22:13:20.123456789Z","kubernetes":{"pod_name":"web-5d8f7c9b6-x2x4z","namespace_name":"shop","container_name":"app","host":"ip-10-0-0-1","docker_id":"0123456789abcdef","labels":{"app":"web"}}}`

func BenchmarkPodLogs(b *testing.B) {
	benchmark(b, "", "namespace", `${record["kubernetes"]["namespace_name"]}`, "pod", `${record["kubernetes"]["pod_name"]}`)
}

func BenchmarkRubyValues(b *testing.B) {
	benchmark(b, "", "level", `${record["log"].include?("ERROR") ? "error" : "info"}`, "pod", `${record.dig("kubernetes", "pod_name") || "none"}`)
}

func BenchmarkRubyMutation(b *testing.B) {
	benchmark(b, "remove_keys=_", "_", `${record["kubernetes"].delete("labels"); nil}`)
}

func BenchmarkRubyRegexp(b *testing.B) {
	benchmark(b, "", "id", `${record["log"][/request (\w+)/, 1]}`)
}

func benchmark(b *testing.B, options string, records ...string) {
	f, d := buildRuby(b, options, records...)
	if f == nil {
		b.Fatal(d.Errors)
	}
	var src []byte
	const events = 100
	for range events {
		src = append(src, entry(b, event.Unix(1700000000, 0), podRecord)...)
	}
	s := &Scratch{}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _, _ = f.Apply(s, "kube.var.log", src, dst[:0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

func FuzzRuby(f *testing.F) {
	for _, s := range []string{`${record["h"]["k"]}`, `x${tag}y`, `${record["h"].delete("k"); nil}`, `{"a":"${time.to_i}"}`, `${record.map { |k, v| [v, k] }.to_h}`, `${record["s"] << "x"}`, `${tag_parts[0..1].join("-")}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		flt, d := buildRuby(t, "", "a", text)
		if flt == nil {
			if len(d.Errors) == 0 {
				t.Fatal("no filter and no error")
			}
			return
		}
		src := entry(t, 1, vectorRecord)
		before := string(src)
		out, kept, failed := flt.Apply(&Scratch{}, "a.b.c", src, nil)
		if string(src) != before {
			t.Fatal("the filter changed its input")
		}
		if n, _, _, _, err := event.Check(out); err != nil || n != kept || kept+failed != 1 {
			t.Fatalf("%q: %d events, kept %d, failed %d: %v", text, n, kept, failed, err)
		}
	})
}
