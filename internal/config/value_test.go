package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/fluentconf"
	"weir/internal/ruby/rx"
)

// typed holds one parameter of each type.
type typed struct {
	Size  Size              `conf:"size"`
	Time  time.Duration     `conf:"time"`
	Bool  bool              `conf:"bool"`
	Int   int               `conf:"int"`
	Float float64           `conf:"float"`
	Array []string          `conf:"array"`
	Ints  []int             `conf:"ints"`
	Hash  map[string]string `conf:"hash"`
	Re    *rx.Regexp        `conf:"regexp"`
	Enum  string            `conf:"enum" enum:"file|memory"`
}

// decodeOne decodes a section with one parameter.
func decodeOne(key, text string, into any) *Diagnostics {
	d := &Diagnostics{}
	pos := fluentconf.Pos{File: "t.conf", Line: 1, Column: 5}
	Decode(&fluentconf.Section{Name: "match", Params: []fluentconf.Param{{Key: key, Value: fluentconf.Value{Text: text, Pos: pos}}}}, into, d)
	return d
}

// TestGoldenValues has what Fluentd's types made of these texts, and whether we warn.
func TestGoldenValues(t *testing.T) {
	tests := []struct {
		key, text string
		want      any
		warn      string // beginning of the hint; "-" for no warning
	}{
		{"size", "10", Size(10), "-"},
		{"size", "10k", Size(10240), "-"},
		{"size", "10K", Size(10240), "-"},
		{"size", "1.5m", Size(5 << 20), "write a whole number of a smaller unit"},
		{"size", "10MB", Size(10 << 20), "-"},
		{"size", "5g", Size(5 << 30), "-"},
		{"size", "1t", Size(1 << 40), "-"},
		{"size", "1gib", Size(1 << 30), "-"},
		{"size", "abc", Size(0), "write a whole number"},
		{"size", "10kb", Size(10240), "-"},
		{"size", "k", Size(0), "write a whole number"},
		{"size", "99999999999g", Size(9223372035781033984), "-"},
		{"time", "10", 10 * time.Second, "-"},
		{"time", "10s", 10 * time.Second, "-"},
		{"time", "1.5", 1500 * time.Millisecond, "-"},
		{"time", "1.5h", 18000 * time.Second, "write 5400 for 1h30m0s"},
		{"time", "5m", 300 * time.Second, "-"},
		{"time", "2h", 7200 * time.Second, "-"},
		{"time", "1d", 86400 * time.Second, "-"},
		{"time", "500ms", 30000 * time.Second, "write 0.5 for 500ms"},
		{"time", "0.2s", 2 * time.Second, "write 0.2 for 200ms"},
		{"time", "1h30m", 1800 * time.Second, "write 5400 for 1h30m0s"},
		{"time", ".5", 500 * time.Millisecond, "-"},
		{"time", "0.1", 100 * time.Millisecond, "-"},
		{"time", "abc", time.Duration(0), "write seconds"},
		{"time", "10S", 10 * time.Second, "write 10 for 10s"},
		{"time", "3w", 3 * time.Second, "write seconds"},
		{"time", "-1", -time.Second, "-"},
		{"time", "-1s", time.Second, "write -1 for -1s"},
		{"time", "1e30", time.Duration(1<<63 - 1), "-"},
		{"bool", "true", true, "-"},
		{"bool", "yes", true, "-"},
		{"bool", "false", false, "-"},
		{"bool", "no", false, "-"},
		{"bool", "", true, "-"},
		{"bool", "#x", true, "-"},
		{"int", "10", 10, "-"},
		{"int", "abc", 0, "write 0 or the number"},
		{"int", "10k", 10, "write 10 or"},
		{"int", "1_000", 1000, "-"},
		{"int", "0x1f", 0, "write 0"},
		{"int", "3.7", 3, "write 3"},
		{"float", "1.5", 1.5, "-"},
		{"float", "x", 0.0, "write 0"},
		{"array", "a,b , c", []string{"a", "b", "c"}, "-"},
		{"array", `["a","b"]`, []string{"a", "b"}, "-"},
		{"array", `["a",1,null,{"b":2}]`, []string{"a", "1", "", `{"b":2}`}, "-"},
		{"array", "a", []string{"a"}, "-"},
		{"array", "", []string{}, "-"},
		{"array", " a", []string{"a"}, "-"},
		{"ints", "1,2", []int{1, 2}, "-"},
		{"hash", "a:b,c:d", map[string]string{"a": "b", "c": "d"}, "-"},
		{"hash", `{"a":1}`, map[string]string{"a": "1"}, "-"},
		{"hash", "a:b:c", map[string]string{"a": "b:c"}, "-"},
		{"hash", "a", map[string]string{"a": ""}, "-"},
		{"hash", "", map[string]string{}, "-"},
		{"regexp", "/a/", "a", "-"},
		{"regexp", "/a/im", "a", "-"},
		{"regexp", "a.b", "a.b", "-"},
		{"regexp", "^x$", "^x$", "-"},
		{"regexp", "/a", "", "close it with /"},
		{"regexp", "/a/b/", "a/b", "-"},
		{"regexp", "/a/x", "a", "only i and m"},
		{"regexp", "//", "", "-"},
		{"enum", "file", "file", "-"},
	}
	for _, tt := range tests {
		var v typed
		d := decodeOne(tt.key, tt.text, &v)
		if len(d.Errors) > 0 {
			t.Errorf("%s %q: %v", tt.key, tt.text, d.Errors[0])
			continue
		}
		var got any
		for i := range reflect.TypeFor[typed]().NumField() {
			if reflect.TypeFor[typed]().Field(i).Tag.Get("conf") == tt.key {
				got = reflect.ValueOf(v).Field(i).Interface()
			}
		}
		if re, ok := got.(*rx.Regexp); ok {
			got = re.String()
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s %q = %#v, want %#v", tt.key, tt.text, got, tt.want)
		}
		switch {
		case tt.warn == "-":
			if len(d.Warnings) > 0 {
				t.Errorf("%s %q: unexpected warning %v", tt.key, tt.text, d.Warnings[0])
			}
		case len(d.Warnings) != 1 || !strings.HasPrefix(d.Warnings[0].Hint, tt.warn):
			t.Errorf("%s %q: warnings %v, want one with the hint %q", tt.key, tt.text, d.Warnings, tt.warn)
		}
	}
}

func TestStrictValues(t *testing.T) {
	d := &Diagnostics{StrictValues: true}
	Decode(&fluentconf.Section{Params: []fluentconf.Param{{Key: "size", Value: fluentconf.Value{Text: "abc"}}, {Key: "time", Value: fluentconf.Value{Text: "5m"}}}}, &typed{}, d)
	if len(d.Errors) != 1 || len(d.Warnings) != 0 {
		t.Errorf("errors %v, warnings %v", d.Errors, d.Warnings)
	}
}

func TestWrongValues(t *testing.T) {
	tests := []struct{ key, text, want string }{
		{"bool", "TRUE", `t.conf:1:5: bool: "TRUE" is neither true nor false; write true or false`},
		{"bool", "on", `t.conf:1:5: bool: "on" is neither true nor false; write true or false`},
		{"bool", "1", `t.conf:1:5: bool: "1" is neither true nor false; write true or false`},
		{"enum", "x", `t.conf:1:5: enum: valid options are file,memory but got x; write one of file, memory`},
		{"regexp", "/(/", `t.conf:1:5: regexp: regular expression /(/: end pattern with unmatched parenthesis at offset 0`},
		{"regexp", "/abc", `t.conf:1:5: regexp: regular expression //abc/: the closing slash is missing at offset 0; write it as /expression/, in single quotes if it has a #`},
		{"array", "[1", "t.conf:1:5: array: the array is not valid JSON"},
		{"hash", "{1", "t.conf:1:5: hash: the hash is not valid JSON"},
	}
	for _, tt := range tests {
		d := decodeOne(tt.key, tt.text, &typed{})
		if len(d.Errors) != 1 || !strings.HasPrefix(d.Errors[0].Error(), tt.want) {
			t.Errorf("%s %q: %v, want %s", tt.key, tt.text, d.Errors, tt.want)
		}
	}
}

// plugin is a struct with everything that Decode knows.
type plugin struct {
	Plugin
	Group   string                `conf:"log_group_name" required:"true" doc:"name of the group"`
	Key     string                `conf:"aws_sec_key" secret:"true"`
	Pin     int                   `conf:"pin" secret:"true"`
	Retain  *int                  `conf:"retention_in_days" min:"1"`
	Flag    *bool                 `conf:"flag"`
	Mode    string                `conf:"mode" enum:"a|b" default:"a"`
	Old     string                `conf:"new_name" alias:"old_name|older_name"`
	Count   int                   `conf:"count" default:"3" min:"1"`
	Users   []user                `section:"user"`
	Secure  *user                 `section:"security"`
	Raw     *fluentconf.Section   `section:"buffer"`
	Always  user2                 `section:"always"`
	Re      *rx.Regexp            `conf:"re"`
	Parsers []*fluentconf.Section `section:"parse"`
}

type user struct {
	Arg  []string `arg:"true"`
	Name string   `conf:"name" required:"true"`
}

type user2 struct {
	N int `conf:"n" default:"7"`
}

func decodeText(t *testing.T, text string, into any) *Diagnostics {
	t.Helper()
	root, d := loadText(map[string]string{"t.conf": text})
	if len(d.Errors) > 0 {
		t.Fatalf("%q: %v", text, d.Errors[0])
	}
	Decode(root.Sections[0], into, d)
	return d
}

func TestDecode(t *testing.T) {
	var p plugin
	d := decodeText(t, `<match a>
  type cloudwatch_logs
  id out
  @label @X
  log_level warn
  log_group_name g
  retention_in_days 30
  old_name o
  <user a, b>
    name u1
  </user>
  <user>
    name u2
  </user>
  <security>
    name s
  </security>
  <buffer tag>
  </buffer>
  <parse>
  </parse>
  flush_interval 5
</match>`, &p)
	if len(d.Errors)+len(d.Warnings) > 0 {
		t.Fatal(d.Errors, d.Warnings)
	}
	if p.Type != "cloudwatch_logs" || p.ID != "out" || p.Label != "@X" || p.LogLevel != "warn" || p.Group != "g" || *p.Retain != 30 || p.Flag != nil || p.Mode != "a" || p.Old != "o" || p.Count != 3 {
		t.Errorf("%+v", p)
	}
	if len(p.Users) != 2 || p.Users[1].Name != "u2" || !slices.Equal(p.Users[0].Arg, []string{"a", "b"}) || p.Secure.Name != "s" || p.Raw.Arg != "tag" || p.Always.N != 7 || len(p.Parsers) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestSecretsStaySecret looks for the values in every message.
func TestSecretsStaySecret(t *testing.T) {
	type secrets struct {
		A string            `conf:"a" secret:"true" enum:"x|y"`
		B bool              `conf:"b" secret:"true"`
		C int               `conf:"c" secret:"true"`
		D Size              `conf:"d" secret:"true"`
		E []string          `conf:"e" secret:"true"`
		F *rx.Regexp        `conf:"f" secret:"true"`
		G map[string]string `conf:"g" secret:"true"`
	}
	d := decodeText(t, "<m>\na hunter2\nb hunter2\nc hunter2\nd hunter2\ne \"[hunter2\"\nf /hunter2(/\ng \"{hunter2\"\n</m>", &secrets{})
	if len(d.Errors) < 4 || len(d.Warnings) < 2 {
		t.Errorf("want mistakes in all parameters, got %v, %v", d.Errors, d.Warnings)
	}
	if s := fmt.Sprint(d.Errors, d.Warnings); strings.Contains(s, "hunter2") {
		t.Errorf("a secret is printed: %s", s)
	}
}

// TestFirstSectionCounts when one stands twice that may stand once.
func TestFirstSectionCounts(t *testing.T) {
	var p plugin
	d := decodeText(t, "<m>\nlog_group_name g\n<security>\nname a\n</security>\n<security>\nname b\n</security>\n</m>", &p)
	if len(d.Errors) != 1 || p.Secure.Name != "a" {
		t.Errorf("%v, %+v", d.Errors, p.Secure)
	}
}

func TestUseNilAndUseDefault(t *testing.T) {
	var p plugin
	d := decodeText(t, "<m>\nlog_group_name g\nmode \"#{use_default}\"\nretention_in_days \"#{use_nil}\"\ncount \"#{use_default}\"\n</m>", &p)
	if len(d.Errors) > 0 || p.Mode != "a" || p.Retain != nil || p.Count != 3 {
		t.Errorf("%+v %v", p, d.Errors)
	}
	d = decodeText(t, "<m>\nlog_group_name \"#{use_nil}\"\nmode \"#{use_nil}\"\n</m>", &plugin{})
	if len(d.Errors) != 2 {
		t.Errorf("%v", d.Errors)
	}
}

func TestDoc(t *testing.T) {
	docs := Doc(plugin{})
	find := func(section, key string) *ParamDoc {
		for i := range docs {
			if docs[i].Section == section && docs[i].Key == key {
				return &docs[i]
			}
		}
		t.Fatalf("no %s in %q", key, section)
		return nil
	}
	if d := find("", "@type"); d.Type != "string" || !slices.Equal(d.Aliases, []string{"type"}) {
		t.Errorf("%+v", d)
	}
	if d := find("", "mode"); d.Type != "enum" || d.Default != "a" || !slices.Equal(d.Enum, []string{"a", "b"}) {
		t.Errorf("%+v", d)
	}
	if d := find("user", "name"); !d.Required {
		t.Errorf("%+v", d)
	}
	if d := find("", "user"); d.Type != "section" || !d.Repeated {
		t.Errorf("%+v", d)
	}
	if d := find("", "aws_sec_key"); !d.Secret {
		t.Errorf("%+v", d)
	}
	for _, d := range Doc(Buffer{}) {
		if d.Doc == "" {
			t.Errorf("parameter %s of <buffer> has no description", d.Key)
		}
	}
}
