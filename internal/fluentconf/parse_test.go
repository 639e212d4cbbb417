package fluentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/ruby/expr"
)

// source serves files from memory; names are absolute paths below /etc.
func source(files map[string]string) Source {
	mem := fstest.MapFS{}
	for name, text := range files {
		mem[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: []byte(text)}
	}
	return Source{
		Name:     "/etc/main.conf",
		End:      expr.End,
		ReadFile: func(name string) ([]byte, error) { return fs.ReadFile(mem, strings.TrimPrefix(name, "/")) },
		Glob: func(pattern string) ([]string, error) {
			names, err := GlobFS(mem, strings.TrimPrefix(pattern, "/"))
			for i := range names {
				names[i] = "/" + names[i]
			}
			slices.Reverse(names) // the order must not matter
			return names, err
		},
		Eval: func(expr string, _ Pos) (string, State, error) {
			switch strings.TrimSpace(expr) {
			case "nil":
				return "", UseNil, nil
			case "default":
				return "", UseDefault, nil
			case "quote":
				return `a"b`, Text, nil
			case "bad":
				return "", Text, errors.New("bad expression")
			}
			return "<" + expr + ">", Text, nil
		},
	}
}

// outline writes a tree in one line.
func outline(s *Section) string {
	var b strings.Builder
	for i, p := range s.Params {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", p.Key, p.Value.Text)
		if p.Value.State != Text {
			fmt.Fprintf(&b, "(%d)", p.Value.State)
		}
	}
	for _, c := range s.Sections {
		fmt.Fprintf(&b, "<%s %s|%s>", c.Name, c.Arg, outline(c))
	}
	return b.String()
}

func all(list []*Error) string {
	var out []string
	for _, e := range list {
		out = append(out, e.Error())
	}
	return strings.Join(out, "\n")
}

func TestGrammar(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"comments and blank lines", "# a\n\n  # b\n\t\r\n", ""},
		{"key glued to hash", "a#b c", "a#b=c"},
		{"comment after tag", "<a> # x\n</a># y", "<a |>"},
		{"blanks around argument", "<a   x y  >\n</a  >", "<a x y|>"},
		{"single-quoted argument", "<a 'x > y'>\n</a>", "<a x > y|>"},
		{"double-quoted argument", "<a \"x#{1}\" >\n</a>", "<a x<1>|>"},
		{"argument with >", "<a b>\n</a>", "<a b|>"},
		{"nested", "<a>\n<b>\nk v\n</b>\n<b>\n</b>\n</a>", "<a |<b |k=v><b |>>"},
		{"blank lines in a double-quoted text", "k \"a\n\n\nb\"", "k=a\n\n\nb"},
		{"CRLF in a double-quoted text", "k \"a\r\nb\\\r\nc\"\r\nl 1\r\n", "k=a\r\nbc l=1"},
		{"newline first in quotes", "k \"\nb\"", "k=\nb"},
		{"zero and symbols", `k "\0\b\f\r\.\/\_"`, "k=\x00\b\f\r./_"},
		{"hash sign", `k "a # b"`, "k=a # b"},
		{"escaped embedding", `k "a\#{b}"`, "k=a#{b}"},
		{"nil within text", `k "a#{nil}b"`, "k=(1)"},
		{"nil wins over default", `k "#{default}#{nil}"`, "k=(1)"},
		{"quotes inside plain", `k a"b'c`, `k=a"b'c`},
		{"backslash in plain", `k \d+\s`, `k=\d+\s`},
		{"JSON with comments", "k { # c\n \"a\": \"x # y\", # d\n \"b\": [1, 2.50, true, null] }", `k={"a":"x # y","b":[1,2.5,true,null]}`},
		{"JSON numbers as Ruby writes them", `k [1e3, 1.0, 1e15, 1e20, 1e-7, -0, 123456789012345678901234567890, 0.1]`, `k=[1000.0,1.0,1.0e+15,1.0e+20,1.0e-07,0,123456789012345678901234567890,0.1]`},
		{"JSON text", `k ["\u00e9\/<>&\n\u2028"]`, "k=[\"é/<>&\\n\u2028\"]"},
		{"JSON double keys", `k {"a":1,"b":2,"a":3}`, `k={"a":3,"b":2}`},
		{"JSON embedding outside strings", `k [#{x}]`, ""},
		{"JSON embedding in a string", `k ["a#{x}"]`, `k=["a<x>"]`},
		{"JSON embedding with a quote", `k ["#{quote}"]`, `k=["a\"b"]`},
		{"JSON comment behind", "k [1] # c", "k=[1]"},
		{"type and id without @", "type x\nid y", "type=x id=y"},
		{"include as a key in a section", "<a>\ninclude x\n</a>", "<a |include=x>"},
		{"reserved keys anywhere", "<match a>\n@type x\n@id y\n@label @z\n@log_level info\n</match>", "<match a|@type=x @id=y @label=@z @log_level=info>"},
		{"key in quotes with embedding", `"a#{b}" c`, "a<b>=c"},
		{"tab after key", "k\t\tv", "k=v"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, errs, _ := Parse(source(map[string]string{"/etc/main.conf": tt.in}))
			if tt.want == "" && strings.Contains(tt.in, "#{x}]") {
				if len(errs) != 1 { // <x> is no JSON
					t.Fatalf("errors: %s", all(errs))
				}
				return
			}
			if len(errs) > 0 {
				t.Fatalf("errors: %s", all(errs))
			}
			if got := outline(root); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestAllErrors has files with several mistakes: each is found, once, at its place.
func TestAllErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"three lines", "a \"\\d\"\nb [x\nc 1", "1:4: unexpected back-slash escape character 'd'\n2:3: got incomplete JSON array configuration"},
		{"after an open JSON the next line is read", "b {\nc \"\\q\"", "1:3: got incomplete JSON hash configuration\n2:4: unexpected back-slash escape character 'q'"},
		{"two escapes in one text", `a "\d \s" `, "1:4: unexpected back-slash escape character 'd'\n1:7: unexpected back-slash escape character 's'"},
		{"open quotes", "a \"x\nb 1\nc 'y", "1:3: unexpected end of file in a double quoted string\n3:3: unexpected end of file in a single quoted string"},
		{"sections left open", "<a>\n<b>\nk 1", "2:1: section <b> is not closed before the end of the file\n1:1: section <a> is not closed before the end of the file"},
		{"inner section left open", "<a>\n<b>\n</a>\nk 1", "3:1: unmatched end tag </a>: <b> of /etc/main.conf:2:1 is still open"},
		{"no section open", "</a>\nk \"\\q\"", "1:1: unmatched end tag </a>\n2:4: unexpected back-slash"},
		{"no name", "<>\n< a>\n</>", "1:1: expected a section name after '<'\n2:1: expected a section name after '<'\n3:3: expected character in tag name"},
		{"one line", "<a x>k v</a>\nb \"\\q\"", "1:6: expected end of line after tag\n2:4: unexpected back-slash"},
		{"argument not closed", "<a \"x\">\n</a>\n<b 'x\n</b>", "3:4: unexpected end of line in a single quoted string"},
		{"text behind tags", "<a> x\n</a> y", "1:4: expected end of line after tag\n2:5: expected end of line after end tag"},
		{"reserved prefix", "@a 1\n<match x>\n@b {\n\"x\":1}\nc \"\\q\"\n</match>", "1:1: '@' is the system reserved prefix\n3:1: '@' is the system reserved prefix\n5:4: unexpected back-slash"},
		{"embedded mistakes", `a "#{bad} #{bad}"`, "1:6: cannot evaluate #{bad}: bad expression\n1:13: cannot evaluate #{bad}: bad expression"},
		{"embedded without end", "a \"#{x\nb 1", "1:4: expected end of embedded code\n1:3: unexpected end of file in a double quoted string"},
		{"include", "@include\n@include ftp://x/y\n@include 'a' b", "1:1: @include needs a path\n2:10: @include from ftp:// is not supported\n3:13: expected end of line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs, _ := Parse(source(map[string]string{"/etc/main.conf": tt.in}))
			want := strings.Split(tt.want, "\n")
			if len(errs) != len(want) {
				t.Fatalf("errors\n%s\nwant\n%s", all(errs), tt.want)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), "/etc/main.conf:"+want[i]) {
					t.Errorf("got  %s\nwant %s", e, want[i])
				}
			}
		})
	}
}

func TestInclude(t *testing.T) {
	files := map[string]string{
		"/etc/main.conf":           "a 1\n@include conf.d/*.conf\n<match x>\n@include in match/part.conf\n</match>\n@include file:///etc/abs.conf\n@include nope.conf\n@include none/*.conf\nz 9",
		"/etc/conf.d/20.conf":      "b 20",
		"/etc/conf.d/10.conf":      "b 10\n@include sub/x.conf",
		"/etc/conf.d/.hidden.conf": "b hidden",
		"/etc/conf.d/sub/x.conf":   "c x",
		"/etc/conf.d/30.bak.conf":  "b bak",
		"/etc/in match/part.conf":  "@type null\n<buffer>\n</buffer>",
		"/etc/abs.conf":            "d abs",
	}
	root, errs, warnings := Parse(source(files))
	if len(errs) > 0 {
		t.Fatal(all(errs))
	}
	if got, want := outline(root), "a=1 b=10 c=x b=20 b=bak d=abs z=9<match x|@type=null<buffer |>>"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := root.Params[2].Pos.String(); got != "/etc/conf.d/sub/x.conf:1:1" {
		t.Errorf("position %s", got)
	}
	for _, want := range []string{"30.bak.conf, which looks like a backup copy", "@include nope.conf names no existing file"} {
		if !strings.Contains(all(warnings), want) {
			t.Errorf("warnings %s, want one with %q", all(warnings), want)
		}
	}
	if len(warnings) != 2 {
		t.Errorf("warnings %s", all(warnings))
	}
}

func TestIncludeLoop(t *testing.T) {
	_, errs, _ := Parse(source(map[string]string{"/etc/main.conf": "@include b.conf", "/etc/b.conf": "k 1\n@include *.conf"}))
	if got := all(errs); !strings.Contains(got, "/etc/b.conf:2:10: @include loop: /etc/main.conf -> /etc/b.conf -> /etc/b.conf includes itself") || !strings.Contains(got, "-> /etc/main.conf includes itself") {
		t.Errorf("errors %s", got)
	}
}

// TestIncludeBomb doubles at every step; it must end.
func TestIncludeBomb(t *testing.T) {
	files := map[string]string{"/etc/main.conf": "@include 0.conf\n@include 0.conf"}
	for i := range 40 {
		files[fmt.Sprintf("/etc/%d.conf", i)] = strings.Repeat(fmt.Sprintf("@include %d.conf\n", i+1), 2)
	}
	_, errs, _ := Parse(source(files))
	if len(errs) == 0 || !strings.Contains(errs[0].Text, "larger than") {
		t.Errorf("%d errors", len(errs))
	}
}

func TestIncludedSectionMustBeWhole(t *testing.T) {
	_, errs, _ := Parse(source(map[string]string{"/etc/main.conf": "<match a>\n@include b.conf\n</match>", "/etc/b.conf": "@type x\n</match>"}))
	if got := all(errs); !strings.HasPrefix(got, "/etc/b.conf:2:1: unmatched end tag </match>") {
		t.Errorf("errors %s", got)
	}
}

func TestRefusedFiles(t *testing.T) {
	src := source(map[string]string{})
	src.Name = "/etc/nope.conf"
	if _, errs, _ := Parse(src); !strings.Contains(all(errs), "cannot read the configuration") {
		t.Errorf("%s", all(errs))
	}
	src = source(map[string]string{"/etc/main.conf": `k "#{x}"`})
	src.Eval = nil
	if _, errs, _ := Parse(src); !strings.Contains(all(errs), "embedded code is not allowed") {
		t.Errorf("%s", all(errs))
	}
	if _, errs, _ := Parse(source(map[string]string{"/etc/main.conf": strings.Repeat("<a>\n", 200)})); len(errs) != 1 || !strings.Contains(errs[0].Text, "deeper") {
		t.Errorf("%s", all(errs))
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct{ in, want string }{
		{"\ufeffk v", "byte order mark"},
		{"k \xff", "not valid UTF-8"},
		{"expression /a #b/", "a regular expression is cut off here"},
		{"k #{x}", "not evaluated outside double quotes"},
		{"include x.conf", "'include' without '@' is deprecated"},
		{"<a>\n@x y\n</a>", "Fluentd may refuse it later"},
	}
	for _, tt := range tests {
		_, errs, warnings := Parse(source(map[string]string{"/etc/main.conf": tt.in, "/etc/x.conf": ""}))
		if len(errs) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0].Text, tt.want) {
			t.Errorf("%q: errors %s, warnings %s", tt.in, all(errs), all(warnings))
		}
	}
	if _, _, warnings := Parse(source(map[string]string{"/etc/main.conf": "expression /a[ ]#b/\nk /a/ # c\nl v # d"})); len(warnings) > 0 {
		t.Errorf("warnings %s", all(warnings))
	}
}

func TestGetAndAll(t *testing.T) {
	root, _, _ := Parse(source(map[string]string{"/etc/main.conf": "k 1\nk 2\n<a>\n</a>\n<b>\n</b>\n<a>\n</a>"}))
	if root.Get("k").Value.Text != "2" || root.Get("x") != nil || len(root.All("a")) != 2 || root.All("c") != nil {
		t.Error("Get and All")
	}
}

func TestGlobFS(t *testing.T) {
	mem := fstest.MapFS{}
	for _, name := range []string{"a/1.conf", "a/2.conf", "a/b/3.conf", "a/b/c/4.conf", "a/.h/5.conf", "x.conf", "y.txt"} {
		mem[name] = &fstest.MapFile{}
	}
	tests := []struct{ pattern, want string }{
		{"a/*.conf", "a/1.conf a/2.conf"},
		{"a/**/*.conf", "a/1.conf a/2.conf a/b/3.conf a/b/c/4.conf"},
		{"a/{2,1}.conf", "a/1.conf a/2.conf"},
		{"{a/b,.}/*.conf", "a/b/3.conf x.conf"},
		{"a/[2-9].conf", "a/2.conf"},
		{"a/.h/?.conf", "a/.h/5.conf"},
		{"./x.conf", "x.conf"},
		{"a", ""},
		{"nope/*", ""},
		{"*", "x.conf y.txt"},
		{"a/{1.conf", ""},
	}
	for _, tt := range tests {
		got, err := GlobFS(mem, tt.pattern)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.pattern, got, err, tt.want)
		}
	}
	if _, err := GlobFS(mem, "[a"); !errors.Is(err, path.ErrBadPattern) {
		t.Errorf("error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"<match a.**>\n@type x\n<buffer tag, time>\n</buffer>\n</match>", `k "a#{"}"}\tb" # c`, "k [1, # c\n\"#{x}\"]", "k {\"a\":{\"b\":1.0}}", "@include x.conf", "k 'a\\'b'", "<a \"b\">\r\n</a>", "\ufeffk", "a \"b\\\nc\"", "</a>\n<a\n<b>", "@x 1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root, errs, warnings := Parse(source(map[string]string{"/etc/main.conf": text, "/etc/x.conf": "k v"}))
		lines := strings.Count(text, "\n") + 1
		for _, e := range append(errs, warnings...) {
			if e.Text == "" || e.Pos.Line < 1 || e.Pos.Line > lines || e.Pos.Column < 1 {
				t.Errorf("position of %q: %v", e.Text, e.Pos)
			}
		}
		var walk func(s *Section)
		walk = func(s *Section) {
			for _, p := range s.Params {
				if p.Value.State != Text && p.Value.Text != "" || p.Pos.Line < 1 {
					t.Errorf("parameter %+v", p)
				}
			}
			for _, c := range s.Sections {
				walk(c)
			}
		}
		walk(root)
	})
}
