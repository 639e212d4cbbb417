package fluentconf

import (
	"strings"
	"testing"
)

func yamlSource(text string, files map[string]string) Source {
	all := map[string]string{"/etc/main.yaml": text}
	for name, t := range files {
		all[name] = t
	}
	src := source(all)
	src.Name = "/etc/main.yaml"
	src.Eval = func(expr string, _ Pos) (string, State, error) {
		switch expr {
		case `"#{use_nil}"`:
			return "", UseNil, nil
		case `"#{use_default}"`:
			return "", UseDefault, nil
		}
		return "<" + expr + ">", Text, nil
	}
	return src
}

func TestYAML(t *testing.T) {
	files := map[string]string{
		"/etc/list.yaml":    "- source: {$type: a}\n- source: {$type: b}\n",
		"/etc/d/2.yml":      "- source: {$type: two}\n",
		"/etc/d/1.yaml":     "- source: {$type: one}\n- !include sub/x.yaml\n",
		"/etc/d/sub/x.yml":  "",
		"/etc/d/sub/x.yaml": "config:\n- source:\n    $type: x\n",
		"/etc/v1.conf":      "<source>\n  @type v1\n</source>\n",
		"/etc/buffer.yaml":  "$type: file\npath: /b\nopt: !include keys.yaml\n",
		"/etc/keys.yaml":    "[k1, k2]\n",
	}
	for _, tt := range []struct{ name, in, want string }{
		{"sections", "system:\n  workers: 2\n  log: {format: json}\nconfig:\n  - source:\n      $type: forward\n      port: 24224\n  - match:\n      $tag: a.**\n      $type: x\n      $id: y\n      $log_level: debug\n      $label: \"@L\"\n",
			"<system |workers=2<log |format=json>><source |@type=forward port=24224><match a.**|@type=x @id=y @log_level=debug @label=@L>"},
		{"several in one item", "config:\n  - source: {$type: a}\n    filter: {$tag: b, $type: c}\n", "<source |@type=a><filter b|@type=c>"},
		{"nested", "config:\n- match:\n    $tag: x\n    buffer:\n      $arg: [tag, time]\n      $type: file\n    store:\n    - $arg: ignore_error\n      $type: s\n    - $type: t\n      format: {$type: json}\n",
			"<match x|<buffer tag,time|@type=file><store ignore_error|@type=s><store |@type=t<format |@type=json>>>"},
		{"label and worker", "config:\n- label:\n    $name: \"@A\"\n    config:\n    - match: {$tag: x, $type: y}\n- worker:\n    $arg: 0-1\n    config:\n    - source: {$type: z}\n",
			"<label @A|<match x|@type=y>><worker 0-1|<source |@type=z>>"},
		{"list of tags", "config:\n- match:\n    $tag: [a.*, b.**]\n    $type: x\n", "<match a.* b.**|@type=x>"},
		{"worker number", "config:\n- worker:\n    $arg: 1\n    config:\n", "<worker 1|>"},
		{"integers", "config:\n- source: {a: 0644, b: 1_000, c: 0x1F, d: 0b101, e: -7, g: '0644', h: 08}\n- filter:\n    $tag: x\n    f: 1,000\n", "<source |a=420 b=1000 c=31 d=5 e=-7 g=0644 h=08><filter x|f=1000>"},
		{"floats", "config:\n- source: {a: 1.50, b: .5, c: 1e3, d: 1.5e+20, e: .inf, f: 1.2.3, g: .}\n", "<source |a=1.5 b=0.5 c=1e3 d=1.5e+20 e=Infinity f=1.2.3 g=.>"},
		{"booleans", "config:\n- source: {a: On, b: yes, c: no, d: OFF, e: 'yes', f: y}\n", "<source |a=true b=true c=false d=false e=yes f=y>"},
		{"nulls", "config:\n- source:\n    a:\n    b: ~\n    c: null\n    d: ''\n", "<source |a=(1) b=(1) c=(1) d=>"},
		{"dates", "config:\n- source: {a: 2023-01-05, b: 2001-12-14 21:59:43, c: '2001-12-14 23:59:43 +02:00', d: 2001-12-14T23:59:43+02:00}\n",
			"<source |a=2023-01-05 b=2001-12-14 21:59:43 UTC c=2001-12-14 23:59:43 +02:00 d=2001-12-14 23:59:43 +0200>"},
		{"base 60", "config:\n- source: {a: '1:30', b: 1:30, c: 12:30:45, d: -1:30, e: 1:2:3.5, f: 0:0:5., g: 1:60, h: 1_0:30, i: 1:2:3:4}\n", "<source |a=1:30 b=5400 c=45045 d=-1800 e=3723.5 f=5.0 g=1:60 h=37800 i=1:2:3:4>"},
		{"symbols", "config:\n- source:\n    a: :json\n    b: !ruby/symbol x\n    c: !ruby/regexp '/a b/i'\n", "<source |a=json b=x c=/a b/i>"},
		{"blocks", "config:\n- source:\n    a: |\n      one\n      two\n    b: >\n      one\n      two\n", "<source |a=one\ntwo\n b=one two\n>"},
		{"list value", "config:\n- source: {a: [x, 1, 1.5, true, null, \"q\\\"\"], b: [], c: [[1], {k: v}]}\n", `<source |a=["x",1,1.5,true,null,"q\""] b=[] c=[[1],{"k":"v"}]>`},
		{"json", "config:\n- source:\n    a: !fluent/json {k: v, n: 10, l: [1]}\n    b: !fluent/json '{\"a\" : 1}'\n    c: !fluent/json [{a: b}]\n", `<source |a={"k":"v","n":10,"l":[1]} b={"a":1} c=[{"a":"b"}]>`},
		{"ruby", "config:\n- source:\n    a: !fluent/s \"x#{ENV['Y']}z\"\n    b: !fluent/s \"#{use_nil}\"\n    c: !fluent/s \"#{use_default}\"\n    d: !fluent/s plain\n    e: !fluent/s 'say \"#{\"}\"}\"'\n    f: \"#{no}\"\n",
			"<source |a=<\"x#{ENV['Y']}z\"> b=(1) c=(2) d=plain e=<\"say \\\"#{\"}\"}\\\"\"> f=#{no}>"},
		{"ruby in a tag and a list", "config:\n- match:\n    $tag: !fluent/s 'a.#{x}'\n    l: [!fluent/s 'b#{y}']\n", `<match <"a.#{x}">|l=["<\"b#{y}\">"]>`},
		{"merge", "base: &b\n  x: 1\n  y: 2\nconfig:\n- source:\n    x: 0\n    <<: *b\n    y: 3\n    z: 4\n", "<source |x=1 y=3 z=4>"},
		{"merge of several", "config:\n- source: &a {x: 1}\n- source: &b {y: 2}\n- source: {<<: [*a, *b], z: 3}\n", "<source |x=1><source |y=2><source |x=1 y=2 z=3>"},
		{"alias as a section", "config:\n- source: &s\n    $type: a\n    buffer: &b {x: 1}\n- match:\n    $tag: t\n    buffer: *b\n- source: *s\n", "<source |@type=a<buffer |x=1>><match t|<buffer |x=1>><source |@type=a<buffer |x=1>>"},
		{"include of a list", "config:\n- !include list.yaml\n- source: {$type: c}\n", "<source |@type=a><source |@type=b><source |@type=c>"},
		{"include of the whole list", "config: !include list.yaml\n", "<source |@type=a><source |@type=b>"},
		{"include of many", "config:\n- !include d/*.y*ml\n", "<source |@type=one><source |@type=x><source |@type=two>"},
		{"include of the v1 form", "config:\n- !include v1.conf\n", "<source |@type=v1>"},
		{"include of a map", "config:\n- match:\n    $tag: x\n    buffer: !include buffer.yaml\n", `<match x|<buffer |@type=file path=/b opt=["k1","k2"]>>`},
		{"include merged", "config:\n- match:\n    $tag: x\n    buffer:\n      <<: !include buffer.yaml\n      path: /c\n", `<match x|<buffer |@type=file path=/c opt=["k1","k2"]>>`},
		{"label without config", "config:\n- label:\n    $name: \"@A\"\n    match: {$tag: x, $type: y}\n", "<label @A|<match x|@type=y>>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, errs, _ := Parse(yamlSource(tt.in, files))
			if len(errs) > 0 {
				t.Fatalf("errors: %s", all(errs))
			}
			if got := outline(root); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestYAMLPositions(t *testing.T) {
	root, errs, _ := Parse(yamlSource("config:\n  - source:\n      port: 24224\n      <<: !include m.yaml\n", map[string]string{"/etc/m.yaml": "\n\nbind: x\n"}))
	if len(errs) > 0 {
		t.Fatal(all(errs))
	}
	s := root.Sections[0]
	for i, want := range []string{"/etc/main.yaml:3:13", "/etc/m.yaml:3:7"} {
		if got := s.Params[i].Value.Pos.String(); got != want {
			t.Errorf("value %d at %s, want %s", i, got, want)
		}
	}
	if s.Pos.String() != "/etc/main.yaml:2:5" || s.Params[1].Pos.String() != "/etc/m.yaml:3:1" {
		t.Errorf("section at %s, key at %s", s.Pos, s.Params[1].Pos)
	}
}

// TestYAMLErrors has the mistakes that a file in this form can have.
func TestYAMLErrors(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "1:1: the file holds nothing"},
		{"tab", "config:\n\t- a: b\n", "2:1: this is not YAML: found character that cannot start any token"},
		{"indentation", "config:\n  - source:\n      a: b\n    c: d\n   e: f\n", "2:1: this is not YAML: did not find expected '-' indicator"},
		{"two colons", "config:\n  - source: a: b\n", "2:1: this is not YAML: mapping values are not allowed in this context"},
		{"at sign", "config:\n  - source:\n      a: @x\n", "3:1: this is not YAML: found character that cannot start any token"},
		{"unknown alias", "config: *x\n", "1:1: this is not YAML: unknown anchor 'x' referenced"},
		{"list at the top", "- source: {$type: a}\n", "1:1: a configuration in YAML form is a map"},
		{"no config", "sources: []\n", "1:1: the file has no config:"},
		{"config is a map", "config:\n  source: {}\n", "2:3: config: is to be a list"},
		{"item", "config:\n- source\n- match: x\n", "2:3: an item of config: is to be a section\n3:3: match: is to be a map"},
		{"system", "system: x\n", "1:9: system: is to be a map"},
		{"no tag", "config:\n- match: {$type: x}\n- label: {config: []}\n- worker: {config: []}\n", "3:3: label: has no $name\n4:3: worker: has no $arg"},
		{"tag", "config:\n- source: {a: !foo x}\n", "2:15: the tag !foo is not supported"},
		{"binary", "config:\n- source: {a: !!binary '%'}\n", "2:15: the value is not base64"},
		{"reserved", "config:\n- source: {\"@x\": 1}\n", "2:12: '@' is the system reserved prefix"},
		{"mixed list", "config:\n- source:\n    s:\n    - a: 1\n    - 2\n", "5:7: the items of s are sections, this is none"},
		{"key", "config:\n- source:\n    ? [a]\n    : 1\n", "3:7: a key is to be a text"},
		{"merge of a text", "config:\n- source: {<<: x}\n", "2:16: << takes in a map"},
		{"argument", "config:\n- match: {$tag: {a: b}}\n", "2:17: a single value is to stand here"},
		{"ruby without end", "config:\n- source: {a: !fluent/s '#{x'}\n", "2:15: expected end of embedded code"},
		{"loop", "config:\n- !include main.yaml\n", "2:3: @include loop"},
		{"merge loop", "config:\n- source:\n    <<: !include main.yaml\n", "3:9: @include loop"},
		{"include as a text", "config:\n- source: {$type: [!include x.yaml]}\n", "2:20: !include cannot stand here"},
		{"include of nothing", "config: !include\n", "1:9: !include needs a path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, errs, _ := Parse(yamlSource(tt.in, nil))
			want := strings.Split(tt.want, "\n")
			if len(errs) != len(want) {
				t.Fatalf("errors\n%s\nwant\n%s", all(errs), tt.want)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), "/etc/main.yaml:"+want[i]) {
					t.Errorf("got  %s\nwant %s", e, want[i])
				}
			}
		})
	}
}

// TestYAMLBombs are small files that name themselves without end; each must end in an error.
func TestYAMLBombs(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 40; i++ {
		n := string(rune('a'+i%26)) + string(rune('0'+i/26))
		prev := "a0"
		if i > 1 {
			prev = string(rune('a'+(i-1)%26)) + string(rune('0'+(i-1)/26))
		}
		b.WriteString(n + ": &" + n + " [*" + prev + ", *" + prev + "]\n")
	}
	b.WriteString("config:\n- source: {v: *n1}\n")
	for name, in := range map[string]string{
		"doubling": b.String(),
		"itself":   "config:\n- source: &s\n    buffer: *s\n",
		"list":     "config: &c\n- *c\n",
		"merge":    "config:\n- source: &s\n    <<: *s\n",
		"long":     "x: &x " + strings.Repeat("y", 200_000) + "\nl: &l [" + strings.Repeat("*x,", 1000) + "]\nconfig:\n- source: {v: *l}\n",
		"deep":     "config:\n- source: {v: " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}\n",
	} {
		_, errs, _ := Parse(yamlSource(in, nil))
		if len(errs) != 1 || !strings.Contains(errs[0].Text, "than") {
			t.Errorf("%s: %s", name, all(errs))
		}
	}
	many := strings.Repeat("- !include a.yaml\n", 4)
	if _, errs, _ := Parse(yamlSource("config:\n"+many, map[string]string{"/etc/a.yaml": strings.Repeat("- !include b.yaml\n", 200), "/etc/b.yaml": strings.Repeat("- !include c.yaml\n", 200), "/etc/c.yaml": "[]\n"})); len(errs) == 0 {
		t.Error("a hundred thousand files are no error")
	}
}

func TestYAMLWarnings(t *testing.T) {
	_, errs, warnings := Parse(yamlSource("other: 1\nconfig:\n- source: {a: 0644, b: 2023-01-05}\n- !include nope.yaml\n", nil))
	if len(errs) > 0 {
		t.Fatal(all(errs))
	}
	for _, want := range []string{"1:1: the key other is not used", "3:15: 0644 is an octal number in YAML: 420", "3:24: 2023-01-05 is a date in YAML", "4:3: !include nope.yaml names no existing file"} {
		if !strings.Contains(all(warnings), want) {
			t.Errorf("no warning %q in\n%s", want, all(warnings))
		}
	}
	if len(warnings) != 4 {
		t.Errorf("%d warnings", len(warnings))
	}
}

// TestFormsTogether reads one form from the other, text behind a file, and more files.
func TestFormsTogether(t *testing.T) {
	src := source(map[string]string{
		"/etc/main.conf": "<label @A>\n@include part.yaml\n</label>\n<system>\nconfig_include_dir x\n</system>",
		"/etc/part.yaml": "- match: {$tag: a, $type: b}\n",
		"/etc/x/1.yml":   "config:\n- source: {$type: one}\n",
		"/etc/x/2.conf":  "<source>\n@type two\n</source>",
	})
	src.Inline = "<source>\n@type inline\n</source>"
	src.More = func(root *Section) []string {
		if root.All("system")[0].Get("config_include_dir").Value.Text != "x" {
			t.Error("More is asked too early")
		}
		return []string{"/etc/main.conf", "/etc/part.yaml", "/etc/x/1.yml", "/etc/x/2.conf"} // two have been read
	}
	root, errs, _ := Parse(src)
	if want := "<label @A|<match a|@type=b>><system |config_include_dir=x><source |@type=inline><source |@type=one><source |@type=two>"; len(errs) > 0 || outline(root) != want {
		t.Errorf("%s\ngot  %s\nwant %s", all(errs), outline(root), want)
	}
	src = source(map[string]string{"/etc/main.conf": "config:\n- source: {$type: a}\n"})
	src.Form = "yaml"
	if root, errs, _ := Parse(src); len(errs) > 0 || outline(root) != "<source |@type=a>" {
		t.Errorf("by form: %s %s", all(errs), outline(root))
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{
		"system: {a: 1}\nconfig:\n- source:\n    $type: x\n    a: [1, !fluent/s '#{x}', ~]\n", "config: !include x.yaml\n", "a: &a {b: c}\nconfig:\n- match:\n    $tag: [a, b]\n    <<: *a\n",
		"config:\n- source: &s\n    b: *s\n", "config:\n- label:\n    $name: '@x'\n    config:\n    - match: {$tag: x, b: !fluent/json {a: 0644}}\n", "config:\n- source: {a: 2001-12-14t21:59:43.10-05:00, b: 0x, c: 1__0}\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root, errs, warnings := Parse(yamlSource(text, map[string]string{"/etc/x.yaml": "- source: {a: b}\n"}))
		for _, e := range append(errs, warnings...) {
			if e.Text == "" || e.Pos.Line < 1 || e.Pos.Column < 1 {
				t.Errorf("position of %q: %v", e.Text, e.Pos)
			}
		}
		var walk func(s *Section)
		walk = func(s *Section) {
			for _, p := range s.Params {
				if p.Value.State != Text && p.Value.Text != "" || p.Pos.Line < 1 || p.Value.Pos.Line < 1 {
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
