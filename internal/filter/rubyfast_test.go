package filter

import (
	"fmt"
	"testing"

	"weir/internal/event"
)

// TestRubyFastIsExact compares templates that are made from raw msgpack with what the
// interpreter makes of them, errors included, over records of all shapes.
func TestRubyFastIsExact(t *testing.T) {
	records := [][]byte{}
	for _, json := range []string{
		`{"a":{"b":{"c":1},"s":"text","n":null,"f":1e20,"l":[1,{"x":null}],"t":true}}`, `{"a":{}}`, `{"a":null}`, `{"a":"b is in it"}`, `{"a":5}`, `{"a":-1.5}`, `{"a":[1,2]}`, `{"a":true}`, `{}`,
		`{"a":{"b":"x"}}`, `{"a":{"b":null}}`, `{"a":{"b":[]}}`, `{"a":{"b":{"c":"\u0001\"#{}"}}}`,
	} {
		r, _, err := event.AppendFromJSON(nil, []byte(json))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	// A key twice, a key that is no string, a binary string, an ext, a large integer, bytes
	// that are not UTF-8.
	odd := event.AppendMapHeader(nil, 2)
	odd = event.AppendStr(odd, "a")
	odd = event.AppendStr(odd, "first")
	odd = event.AppendStr(odd, "a")
	odd = event.AppendMapHeader(odd, 5)
	odd = event.AppendInt(event.AppendInt(odd, 1), 2)
	odd = event.AppendBin(event.AppendStr(odd, "b"), []byte("bin\xff"))
	odd = append(event.AppendStr(odd, "s"), 0xd4, 5, 1)
	odd = event.AppendUint(event.AppendStr(odd, "n"), 1<<64-1)
	odd = event.AppendStr(event.AppendStr(odd, "f"), "\xff\xfe")
	records = append(records, odd)

	for _, template := range []string{
		`${record["a"]}`, `${record['a']["b"]}`, `${record["a"]["b"]["c"]}`, `${record["a"]["s"]}`, `${record["a"]["n"]}`, `${record["a"]["f"]}`, `${record["a"]["l"]}`, `${record["a"]["t"]}`,
		`x${record["a"]}y`, `x${record["a"]["b"]}`, `${record["a"]["b"]["c"]}y`, `${record["a"]["s"]}-${record["a"]["n"]}-${record["a"]["f"]}-${record["a"]["l"]}-${record["a"]["t"]}`,
		`${tag}`, `${tag}x`, `${tag_parts[0]}`, `${tag_parts[-1]}`, `${tag_parts[9]}`, `x${tag_parts[9]}`, `${tag_prefix[1]}`, `${tag_suffix[-2]}`, `${hostname}`, `a`, ``, `${hostname}.${tag_parts[1]}`, `{"j":"${record[\"a\"][\"b\"]}","${tag}":["${tag}x"]}`,
	} {
		f, d := buildRuby(t, "renew_record=true", "v", template)
		if f == nil {
			t.Fatal(template, d.Errors)
		}
		slow, _ := buildRuby(t, "renew_record=true", "v", template)
		slow.(*RecordTransformer).mutates = true
		for _, tag := range []string{"a.b.c", "one", "", ".x..", "a..b"} {
			for _, r := range records {
				src := event.AppendEntry(nil, event.Unix(5, 6), r)
				got, want := outcome(f, tag, src), outcome(slow, tag, src)
				if got != want {
					t.Errorf("%s for %q, %s\n got %q\nwant %q", template, tag, event.AppendJSON(nil, r, event.Yajl), got, want)
				}
			}
		}
	}
}

func outcome(f Filter, tag string, src []byte) string {
	errs := &sink{}
	out, kept, failed := f.Apply(&Scratch{Errors: errs}, tag, src, nil)
	return fmt.Sprintf("%x %d %d %s", out, kept, failed, errs.messages)
}
