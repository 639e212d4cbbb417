package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/fluentconf"
)

// loadText loads a configuration from memory. Environment: X=xv, E is empty, B=true.
func loadText(files map[string]string) (*fluentconf.Section, *Diagnostics) {
	mem := fstest.MapFS{}
	for name, text := range files {
		mem[name] = &fstest.MapFile{Data: []byte(text)}
	}
	d := &Diagnostics{}
	root := Load("t.conf", Files{
		ReadFile: func(name string) ([]byte, error) { return fs.ReadFile(mem, name) },
		Glob: func(pattern string) ([]string, error) {
			return fluentconf.GlobFS(mem, strings.TrimPrefix(pattern, "/"))
		},
		Lookup: func(name string) (string, bool) {
			v, ok := map[string]string{"X": "xv", "E": "", "B": "true", "N": "5"}[name]
			return v, ok
		},
		Hostname: "box.example",
	}, d)
	return root, d
}

// dump shows a tree in the form of the golden vectors.
func dump(s *fluentconf.Section) string {
	last := map[string]int{}
	for i, p := range s.Params {
		last[p.Key] = i
	}
	var attrs, elems []string
	seen := map[string]bool{}
	for _, p := range s.Params {
		if seen[p.Key] {
			continue
		}
		seen[p.Key] = true
		v := s.Params[last[p.Key]].Value
		text := fmt.Sprintf("%q", v.Text)
		switch v.State {
		case fluentconf.UseNil:
			text = "nil"
		case fluentconf.UseDefault:
			text = ":default"
		}
		attrs = append(attrs, fmt.Sprintf("%q=>%s", p.Key, text))
	}
	for _, c := range s.Sections {
		elems = append(elems, fmt.Sprintf("[%q, %q, %s]", c.Name, c.Arg, dump(c)))
	}
	return "{" + strings.Join(attrs, ", ") + "} [" + strings.Join(elems, ", ") + "]"
}

// TestGoldenGrammar compares with what Fluentd's own parser made of the same texts.
func TestGoldenGrammar(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"unq hash inside", "k abc#def", `{"k"=>"abc#def"} []`},
		{"unq comment", "k abc #def", `{"k"=>"abc"} []`},
		{"unq only comment", "k #def", `{"k"=>"#def"} []`},
		{"empty then comment nextline", "k\n# c\nk2 v", `{"k"=>"", "k2"=>"v"} []`},
		{"unq interp not eval", `k #{ENV["X"]}`, `{"k"=>"#{ENV[\"X\"]}"} []`},
		{"dq interp", `k "a-#{ENV['X']}-b"`, `{"k"=>"a-xv-b"} []`},
		{"dq interp nested quotes/braces", `k "#{ {}.to_s }"`, `{"k"=>"{}"} []`},
		{"dq interp braces in string", `k "#{"{}"}"`, `{"k"=>"{}"} []`},
		{"dq nil env", `k "#{ENV['NOPE']}"`, `{"k"=>""} []`},
		{"dq nil env concat", `k "a#{ENV['NOPE']}"`, `{"k"=>"a"} []`},
		{"dq use_nil", `k "#{ENV['NOPE'] || use_nil}"`, `{"k"=>nil} []`},
		{"dq use_default", `k "#{ENV['NOPE'] || use_default}"`, `{"k"=>:default} []`},
		{"dq use_default with text", `k "a#{use_default}b"`, `{"k"=>:default} []`},
		{"dq || nil", `k "#{ENV['NOPE'] || nil}"`, `{"k"=>""} []`},
		{"dq || true", `k "#{ENV['NOPE'] || true}"`, `{"k"=>"true"} []`},
		{"dq || 5", `k "#{ENV['NOPE'] || 5}"`, `{"k"=>"5"} []`},
		{"dq empty env", `k "#{ENV['E']}"`, `{"k"=>""} []`},
		{"sq interp", `k '#{ENV["X"]}'`, `{"k"=>"#{ENV[\"X\"]}"} []`},
		{"dq escapes", `k "a\tb\\c\"d\#{x}\/e"`, `{"k"=>"a\tb\\c\"d#{x}/e"} []`},
		{"sq escapes", `k 'a\nb\\c\'d\d'`, `{"k"=>"a\\nb\\c'd\\d"} []`},
		{"multiline dq", "k \"a\nb\"", `{"k"=>"a\nb"} []`},
		{"multiline dq backslash", "k \"a\\\nb\"", `{"k"=>"ab"} []`},
		{"after dq comment", `k "a" # c`, `{"k"=>"a"} []`},
		{"array json", `k ["a", "b"]`, `{"k"=>"[\"a\",\"b\"]"} []`},
		{"array multi", "k [\n \"a\",\n \"b\"\n]", `{"k"=>"[\"a\",\"b\"]"} []`},
		{"array comment", "k [1, # one\n2]", `{"k"=>"[1,2]"} []`},
		{"array interp", `k ["#{ENV['X']}","b"]`, `{"k"=>"[\"xv\",\"b\"]"} []`},
		{"hash interp nil", `k {"a":"#{ENV['NOPE']}"}`, `{"k"=>"{\"a\":\"\"}"} []`},
		{"hash", `k {"a": {"b": 1.0}}`, `{"k"=>"{\"a\":{\"b\":1.0}}"} []`},
		{"regex", `k /^(?<a>[^ ]*) #x`, `{"k"=>"/^(?<a>[^ ]*)"} []`},
		{"key quoted", `"my key" v`, `{"my key"=>"v"} []`},
		{"key w/ dots", `a.b-c/d v w x`, `{"a.b-c/d"=>"v w x"} []`},
		{"value spaces", `k   a  b   c  `, `{"k"=>"a  b   c"} []`},
		{"tabs", "\tk\ta\tb", `{"k"=>"a\tb"} []`},
		{"crlf", "k a\r\nk2 b\r\n", `{"k"=>"a", "k2"=>"b"} []`},
		{"element arg", "<match a.** b.{c,d}>\n@type x\n</match>", `{} [["match", "a.** b.{c,d}", {"@type"=>"x"} []]]`},
		{"element arg quoted", "<match \"a.#{ENV['X']}.**\">\n@type x\n</match>", `{} [["match", "a.xv.**", {"@type"=>"x"} []]]`},
		{"record @foo", "<filter a>\n<record>\n@timestamp x\n</record>\n</filter>", `{} [["filter", "a", {} [["record", "", {"@timestamp"=>"x"} []]]]]`},
		{"elem arg w comment", "<match a> # c\n@type x\n</match> # d", `{} [["match", "a", {"@type"=>"x"} []]]`},
		{"dup key", "k 1\nk 2", `{"k"=>"2"} []`},
		{"buffer []", "<buffer []>\n</buffer>", `{} [["buffer", "[]", {} []]]`},
		{"buffer tag,time", "<buffer tag, time,$.kubernetes.pod>\n</buffer>", `{} [["buffer", "tag, time,$.kubernetes.pod", {} []]]`},
		{"dollar", "<record>\na ${record[\"x\"]}\nb ${record[\"x\"]#y}\n</record>", `{} [["record", "", {"a"=>"${record[\"x\"]}", "b"=>"${record[\"x\"]#y}"} []]]`},
		{"record json2", "<record>\na {\"x\":\"${record['y']}\"}\n</record>", `{} [["record", "", {"a"=>"{\"x\":\"${record['y']}\"}"} []]]`},
		{"multi-stmt", `k "#{a = 'h'; b = 1; "#{a}:#{b}"}"`, `{"k"=>"h:1"} []`},
		{"hostname", `k "#{hostname == Socket.gethostname}"`, `{"k"=>"true"} []`},
		{"worker_id", `k "#{worker_id}w"`, `{"k"=>"w"} []`},
		{"include missing", "@include conf.d/*.conf\nk v", `{"k"=>"v"} []`},
		{"include missing file", "@include nope.conf\nk v", `{"k"=>"v"} []`},
		{"include interp", "@include \"#{ENV['X']}.conf\"", `{"k"=>"v"} []`},
		{"utf8", "k 日本語", `{"k"=>"日本語"} []`},
		// Fluentd would make the mark part of the key.
		{"bom", "\ufeffk v", `{"k"=>"v"} []`},
		{"@type quoted", "<match a>\n@type \"#{ENV['X']}\"\n</match>", `{} [["match", "a", {"@type"=>"xv"} []]]`},
		{"only key eof", "k", `{"k"=>""} []`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, d := loadText(map[string]string{"t.conf": tt.in, "xv.conf": "k v"})
			if len(d.Errors) > 0 {
				t.Fatalf("%q: %v", tt.in, d.Errors[0])
			}
			if got := dump(root); got != tt.want {
				t.Errorf("%q\n got %s\nwant %s", tt.in, got, tt.want)
			}
		})
	}
}

// TestGoldenErrors has the texts that Fluentd's parser refuses. Positions are ours: where
// the mistake begins.
func TestGoldenErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"dq bad escape", `k "a\qb"`, `t.conf:1:5: unexpected back-slash escape character 'q'`},
		{"dq \\d regex", `k "/\d/"`, `t.conf:1:5: unexpected back-slash escape character 'd'`},
		{"multiline sq", "k 'a\nb'", `t.conf:1:3: unexpected end of line in a single quoted string`},
		{"after dq", `k "a" b`, `t.conf:1:6: expected end of line`},
		{"array trailing", `k ["a"] b`, `t.conf:1:8: expected end of line`},
		{"regex bracket value", `k [^ab]*`, `t.conf:1:3: got incomplete JSON array configuration`},
		{"brace value", `k {abc}`, `t.conf:1:3: got incomplete JSON hash configuration`},
		{"element arg multiline", "<match a\nb>\n</match>", `t.conf:1:9: expected '>'`},
		{"elem on one line", "<match a> @type x </match>", `t.conf:1:10: expected end of line after tag`},
		{"elem spaces", "<match a>\n@type x\n</ match>", `t.conf:3:3: expected character in tag name`},
		{"elem no end", "<match a>\n@type x\n", `t.conf:1:1: section <match> is not closed before the end of the file`},
		{"elem wrong end", "<match a>\n@type x\n</source>", `t.conf:3:1: unmatched end tag </source>`},
		{"root @param", "@foo x", `t.conf:1:1: '@' is the system reserved prefix. Don't use '@' prefix parameter in the configuration: @foo`},
		{"match @foo", "<match a>\n@foo x\n</match>", `t.conf:2:1: '@' is the system reserved prefix. Don't use '@' prefix parameter in the configuration: @foo`},
		{"record json", "<record>\na {\"x\": ${record['y']}}\n</record>", `t.conf:2:3: got incomplete JSON hash configuration`},
		{"ruby err", `k "#{foo_bar_undefined}"`, `t.conf:1:6: cannot evaluate #{foo_bar_undefined}: undefined local variable or method "foo_bar_undefined"`},
		{"fetch err", `k "#{ENV.fetch('NOPE')}"`, `t.conf:1:10: cannot evaluate #{ENV.fetch('NOPE')}: key not found: "NOPE"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, d := loadText(map[string]string{"t.conf": tt.in})
			if len(d.Errors) == 0 || !strings.HasPrefix(d.Errors[0].Error(), tt.want) {
				t.Errorf("%q\n got %v\nwant %s", tt.in, errors.Join(asErrors(d.Errors)...), tt.want)
			}
		})
	}
}

func asErrors(list []*fluentconf.Error) []error {
	var out []error
	for _, e := range list {
		out = append(out, e)
	}
	return out
}

// TestAWrongValueIsOneMistake has a value that cannot be evaluated: what the parameter
// would need is not asked for a second time.
func TestAWrongValueIsOneMistake(t *testing.T) {
	var d Diagnostics
	root := Load("a.conf", Files{
		Lookup: func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) {
			return []byte("<match>\nname \"x#{ENV.fetch('NO')}\"\nmode \"#{ENV.fetch('NO')}\"\nport \"#{ENV.fetch('NO')}\"\n</match>"), nil
		},
	}, &d)
	if len(d.Errors) != 3 {
		t.Fatalf("%v", d.Errors)
	}
	var into struct {
		Name string `conf:"name" required:"true"`
		Mode string `conf:"mode" enum:"a|b" default:"b"`
		Port int    `conf:"port" min:"5" default:"7"`
	}
	Decode(root.Sections[0], &into, &d)
	if len(d.Errors) != 3 || len(d.Warnings) != 0 || into.Name != "x" || into.Mode != "b" || into.Port != 7 {
		t.Errorf("%v, %v, %+v", d.Errors, d.Warnings, into)
	}
}
