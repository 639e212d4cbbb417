package filter

import (
	"strings"
	"testing"

	"weir/internal/event"
)

func TestParserFilter(t *testing.T) {
	const json = "\n<parse>\n@type json\n</parse>"
	for _, c := range []struct {
		name, conf, in, want, message string
		at                            event.Time // 0: the event's own
	}{
		{"replaces", "key_name log" + json, `{"log":"{\"a\":1}","x":2}`, `{"a":1}`, "", 0},
		{"reserve", "key_name log\nreserve_data true" + json, `{"log":"{\"a\":1,\"x\":3}","x":2,"y":5}`, `{"log":"{\"a\":1,\"x\":3}","x":3,"y":5,"a":1}`, "", 0},
		{"remove", "key_name log\nreserve_data true\nremove_key_name_field true" + json, `{"log":"{\"a\":1}","x":2}`, `{"x":2,"a":1}`, "", 0},
		{"remove, but parsed again", "key_name log\nreserve_data true\nremove_key_name_field true" + json, `{"log":"{\"log\":1}","x":2}`, `{"x":2,"log":1}`, "", 0},
		{"nested", "key_name $.k.log\nreserve_data true\nremove_key_name_field true" + json, `{"k":{"log":"{\"a\":1}","b":1}}`, `{"k":{"b":1},"a":1}`, "", 0},
		{"prefix", "key_name log\ninject_key_prefix p_" + json, `{"log":"{\"a\":1}"}`, `{"p_a":1}`, "", 0},
		{"hash", "key_name log\nreserve_data true\nhash_value_field parsed\ninject_key_prefix p_" + json, `{"log":"{\"a\":1}"}`, `{"log":"{\"a\":1}","parsed":{"p_a":1}}`, "", 0},
		{"time", "key_name log" + json, `{"log":"{\"time\":5,\"a\":1}"}`, `{"a":1}`, "", event.Unix(5, 0)},
		{"reserve_time", "key_name log\nreserve_time true" + json, `{"log":"{\"time\":5,\"a\":1}"}`, `{"a":1}`, "", 0},
		{"bad", "key_name log" + json, `{"log":"x"}`, "failed", "pattern not matched with data 'x'", 0},
		{"bad, reserved", "key_name log\nreserve_data true\nremove_key_name_field true" + json, `{"log":"x","y":1}`, `{"log":"x","y":1}`, "pattern not matched with data 'x'", 0},
		{"bad, silent", "key_name log\nemit_invalid_record_to_error false" + json, `{"log":"x"}`, "", "", 0},
		{"missing", "key_name log" + json, `{"y":1}`, "failed", "log does not exist", 0},
		{"missing, reserved", "key_name log\nreserve_data true" + json, `{"y":1}`, `{"y":1}`, "log does not exist", 0},
		{"missing, reserved, hash", "key_name log\nreserve_data true\nhash_value_field h" + json, `{"y":1}`, `{"y":1,"h":{}}`, "log does not exist", 0},
		{"nil", "key_name log" + json, `{"log":null}`, "failed", "log does not exist", 0},
		{"number", "key_name log\n<parse>\n@type none\n</parse>", `{"log":5}`, `{"message":5}`, "", 0},
		{"regexp type", "key_name log\n<parse>\n@type /^(?<a>.)(?<b>.)/\n</parse>", `{"log":"xy"}`, `{"a":"x","b":"y"}`, "", 0},
		{"old form", "key_name log\nreserve_data true\nformat /^(?<a>.)(?<b>.)/\ntypes b:integer", `{"log":"x7"}`, `{"log":"x7","a":"x","b":7}`, "", 0},
		{"wide", "key_name log\nreserve_data true" + json, `{"log":"{\"n\":1,\"o\":2}","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1}`, `{"log":"{\"n\":1,\"o\":2}","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":2}`, "", 0},
	} {
		f, d := build(t, "@type parser\n"+c.conf)
		checkMessages(t, c.name, d.Errors, nil)
		checkMessages(t, c.name, d.Warnings, nil)
		errs := &sink{}
		src := entry(t, event.Unix(77, 5), c.in)
		out, kept, failed := f.Apply(&Scratch{Errors: errs}, "t", src, nil)
		got := strings.Repeat("failed", failed)
		if kept == 1 {
			e, n, err := event.Next(out)
			if err != nil || n != len(out) {
				t.Fatalf("%s: %v", c.name, err)
			}
			got = string(event.AppendJSON(nil, e.Record, event.Yajl))
			want := c.at
			if want == 0 {
				want = event.Unix(77, 5)
			}
			if e.Time != want {
				t.Errorf("%s: time %d, want %d", c.name, e.Time, want)
			}
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		if message := strings.Join(errs.messages, ";"); c.message == "" && message != "" || !strings.HasSuffix(message, c.message) {
			t.Errorf("%s: message %q, want %q", c.name, message, c.message)
		}
	}
}

// A text that would make too much is an error, and only its event.
func TestParserFilterIsBounded(t *testing.T) {
	f, _ := build(t, "@type parser\nkey_name log\nreserve_data true\n<parse>\n@type json\n</parse>")
	long := `"[` + strings.Repeat("{},", 10_000) + `{}]"`
	src := entry(t, 1, `{"log":"[{\"a\":1},{\"a\":2}]"}`)
	for range 2 {
		src = append(src, entry(t, 2, `{"log":`+long+`}`)...)
	}
	src = append(src, entry(t, 3, `{"log":"[{},5,{}]"}`)...)
	errs := &sink{}
	s := &Scratch{Errors: errs}
	out, kept, failed := f.Apply(s, "t", src, nil)
	if kept != 2+3 || failed != 2 || s.Made != 1+2 || len(out) > 1000 {
		t.Errorf("kept %d, failed %d, made %d, %d bytes", kept, failed, s.Made, len(out))
	}
	if len(errs.messages) != 3 || !strings.HasSuffix(errs.messages[1], "too many records") || !strings.HasSuffix(errs.messages[2], "data '[{},5,{}]'") {
		t.Errorf("%d messages", len(errs.messages))
	}
}

func TestParserFilterDoesNotAllocate(t *testing.T) {
	f, _ := build(t, "@type parser\nkey_name log\nreserve_data true\nremove_key_name_field true\n<parse>\n@type json\n</parse>")
	src := entry(t, 1, `{"log":"{\"a\":1,\"b\":\"x\"}","c":2}`)
	src = append(src, entry(t, 2, `{"log":"[{\"a\":1},{\"b\":1}]","c":2}`)...)
	s, dst := &Scratch{}, []byte(nil)
	if n := testing.AllocsPerRun(100, func() { dst, _, _ = f.Apply(s, "t", src, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParserFilterInvalid(t *testing.T) {
	f, _ := build(t, "@type parser\nkey_name log\nreplace_invalid_sequence true\n<parse>\n@type /(?<message>.*)/\n</parse>")
	record := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "log"), "a\xffb")
	out, _, _ := f.Apply(&Scratch{}, "t", event.AppendEntry(nil, 1, record), nil)
	e, _, err := event.Next(out)
	if got := string(event.AppendJSON(nil, e.Record, event.Yajl)); got != `{"message":"a?b"}` || err != nil {
		t.Errorf("%s %v", got, err)
	}
}

func TestParserFilterMistakes(t *testing.T) {
	for conf, want := range map[string][]string{
		"key_name log":                            {"no <parse> section"},
		"<parse>\n@type json\n</parse>":           {"key_name"},
		"key_name $.\n<parse>\n@type x\n</parse>": {"key_name", `no parser of type "x"`},
	} {
		_, d := build(t, "@type parser\n"+conf)
		checkMessages(t, conf, d.Errors, want)
	}
}
