package event

import (
	"errors"
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	record := pack(nil, pairs{
		{"a", pairs{{"b", []tree{10, pairs{{"c", "deep"}}}}, {"b.c", "dotted"}}},
		{"a.b", "plain"}, {"$", "dollar"}, {bin("bin"), 1}, {"", "empty key"}, {7, "number"},
		{"twice", 1}, {"twice", 2}, {"nil", nil}, {"it's", "quote"}, {"x]", "bracket"}, {"text", "abc"}, {"list", []tree{}},
	})
	for path, want := range map[string]string{
		"a.b": `"plain"`, "$.a.b[0]": "10", "$.a.b[-2]": "10", "$.a.b[1].c": `"deep"`, "$.a.b[-1].c": `"deep"`,
		"$['a.b']": `"plain"`, `$["a"]['b.c']`: `"dotted"`, "$['a']['b'][1]['c']": `"deep"`, "$": `"dollar"`,
		"bin": "1", "": `"empty key"`, "twice": "2", "$.twice": "2", "nil": "null", `$["it's"]`: `"quote"`, "$['x]']": `"bracket"`,
		"$.a.b[2]": "", "$.a.b[-3]": "", "$.a.x": "", "$.text.b": "", "$.text[0]": "", "$.list[0]": "", "$.list[-1]": "", "none": "", "7": "",
		"$.nil.x": "", "$.a.b.c": "",
		"$.text.": `"abc"`, "$.a.b[0]..": "10", "$['']": `"empty key"`, "$..a": "", "$.[0]": "", "$.a.b.[0]": "10", // as Fluentd reads them
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if p.String() != path {
			t.Errorf("String() = %q, want %q", p, path)
		}
		v, ok := p.Find(record)
		if ok != (want != "") || ok && string(AppendJSON(nil, v, Yajl)) != want {
			t.Errorf("%s: got % x, %v; want %s", path, v, ok, want)
		}
		if !ok && v != nil {
			t.Errorf("%s: a value that was not found: % x", path, v)
		}
	}
	if _, ok := FindKey([]byte{1}, "a"); ok {
		t.Error("found in a number")
	}
}

func TestPathErrors(t *testing.T) {
	for _, path := range []string{
		"$.", "$..", "$[", "$.a b", "$.a\t", "$[]", "$['a'", "$['a\"]", "$['a']b", "$[x]", "$.a[", "$.a[]", "$.a[x]", "$.a[0]x", "$[1", "$.a[99999999999999999999]",
	} {
		if p, err := ParsePath(path); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), path[:2]) {
			t.Errorf("%q: %v, %v", path, p, err)
		}
	}
}

func TestPathKey(t *testing.T) {
	for path, want := range map[string]bool{"a": true, "a.b": true, "$.a": true, "$['x']": true, "$.a.b": false, "$.a[0]": false, "$[0]": false} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := p.Key(); ok != want {
			t.Errorf("%s: %q, %v", path, key, ok)
		}
	}
	if p := KeyPath("$.a"); p.String() != "$.a" {
		t.Errorf("%v", p)
	} else if _, ok := p.Find(pack(nil, pairs{{"$.a", 1}})); !ok {
		t.Error("KeyPath is not literal")
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a", "$.a.b[0].c", "$['a.b'][\"c\"][0]", "$.a[-1][2]", "$.", "$[", "$['a'", "$.a[99999999999999999999]"} {
		f.Add(s)
	}
	record := kubernetes(f)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			if !errors.Is(err, ErrPath) {
				t.Fatalf("%v does not wrap ErrPath", err)
			}
			return
		}
		p.Find(record)
		AppendWithout(nil, record, NewPathSet(p, p))
		if _, err := ParsePath(p.String()); err != nil {
			t.Fatalf("%q is not accepted again: %v", p, err)
		}
	})
}
