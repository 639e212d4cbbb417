package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoWorkers = `
<system>
  workers 2
</system>
<worker 0>
  <source>
    @type forward
    port 1
  </source>
  <match **>
    @type null
    @id zero
  </match>
</worker>
<worker 1>
  <source>
    @type forward
    port 2
  </source>
  <match **>
    @type null
    @id one
  </match>
</worker>
<filter a>
  @type grep
</filter>
<match early>
  @type null
  @id both
</match>
`

// TestWorkersRouteApart says where events of a source of each worker go: by the rules
// outside of workers, and then by those of its own.
func TestWorkersRouteApart(t *testing.T) {
	p, d := Load("test.conf", Env{ReadFile: func(string) ([]byte, error) { return []byte(twoWorkers), nil }}, false)
	if len(d.Errors) > 0 || len(d.Notes) != 1 || !strings.Contains(d.Notes[0].Text, "one process that uses all cores") {
		t.Fatalf("errors %v, notes %v", d.Errors, d.Notes)
	}
	for _, w := range d.Warnings {
		if strings.Contains(w.Text, "never sees an event") {
			t.Errorf("not true: %s", w)
		}
	}
	for i, want := range []string{"zero", "one"} {
		c := p.contexts[p.Sources[i].label]
		filters, m, ok := c.table.Lookup("a")
		if !ok || len(filters) != 1 || m.ends[0].out.id != want {
			t.Errorf("source %d: filters %v, to %v, want %s", i, filters, m, want)
		}
		if _, m, _ := c.table.Lookup("early"); m.ends[0].out.id != "both" {
			t.Errorf("source %d: the rule outside of workers does not come first", i)
		}
	}
	if got := p.Summary(); !strings.Contains(got, "  <worker 1>\n") || strings.Count(got, "null (one)") != 1 {
		t.Errorf("summary\n%s", got)
	}
}

// TestOneWorkerSectionStandsAtTheRoot has rules in one section only: no context of its own.
func TestOneWorkerSectionStandsAtTheRoot(t *testing.T) {
	p := plan(t, "<worker 0>\n<source>\n@type forward\n</source>\n<match a>\n@type null\n@id in\n</match>\n</worker>\n<match **>\n@type null\n@id out\n</match>")
	if len(p.contexts) != 1 || p.Sources[0].label != "" {
		t.Fatalf("contexts %v", p.contexts)
	}
	if _, m, _ := p.contexts[""].table.Lookup("a"); m.ends[0].out.id != "out" {
		t.Error("rules of workers stand behind those of the root, as in Fluentd")
	}
}

// TestFlags has what a command line says about a configuration.
func TestFlags(t *testing.T) {
	load := func(text string, f Flags) (*Plan, string) {
		p, d := Load("test.conf", Env{Flags: f, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }}, false)
		return p, fmt.Sprint(d.Errors, d.Notes)
	}
	if _, msgs := load(twoWorkers, Flags{Workers: 1}); !strings.Contains(msgs, "between 0 and 0") {
		t.Errorf("workers: %s", msgs)
	}
	if p, msgs := load("<match **>\n@type null\n</match>", Flags{WithoutSource: true}); len(p.Sources) != 0 || strings.Contains(msgs, "nothing can arrive") {
		t.Errorf("without source: %s", msgs)
	}
	const odd = "<source>\n@type forward\nport 12x\n</source>\n<match **>\n@type null\n</match>"
	if _, msgs := load(odd, Flags{StrictValues: true}); !strings.Contains(msgs, "port") {
		t.Errorf("strict values: %s", msgs)
	}
	if p, msgs := load("<match **>\n@type null\n</match>", Flags{Inline: "<source>\n@type forward\n</source>"}); len(p.Sources) != 1 {
		t.Errorf("inline: %s", msgs)
	}
	if p, msgs := load("config:\n- source: {$type: forward}\n- match: {$tag: '**', $type: 'null'}\n", Flags{Form: "yaml"}); len(p.Sources) != 1 || len(p.Outputs) != 1 {
		t.Errorf("form: %s", msgs)
	}
}

func TestIncludeDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.conf":       "@include d/a.conf\n<match **>\n@type null\n</match>",
		"d/a.conf":        "<source>\n@type forward\nport 1\n@id a\n</source>",
		"d/b.conf":        "<source>\n@type forward\nport 2\n@id b\n</source>",
		"d/sub/c.yaml":    "config:\n- source: {$type: forward, $id: c, port: 3}\n",
		"d/README":        "<source>",
		"other/main.conf": "@include ../d/a.conf\n@include ../d/sub/*\n<match **>\n@type null\n</match>\n<system>\nconfig_include_dir \"\"\n</system>",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(file string) (out []string) {
		p, d := Load(file, Env{Flags: Flags{IncludeDir: dir + "/d"}}, false)
		if len(d.Errors) > 0 {
			t.Fatalf("%s: %v", file, d.Errors)
		}
		for _, s := range p.Sources {
			out = append(out, s.id)
		}
		return out
	}
	if got := fmt.Sprint(ids(dir + "/main.conf")); got != "[a b c]" {
		t.Errorf("sources %s", got)
	}
	if got := fmt.Sprint(ids(dir + "/other/main.conf")); got != "[a c]" {
		t.Errorf("sources %s: the directory was turned off", got)
	}
	// Paths relative to the working directory, also to its parent.
	t.Chdir(dir + "/other")
	for _, file := range []string{"main.conf", "../other/main.conf"} {
		if got := fmt.Sprint(ids(file)); got != "[a c]" {
			t.Errorf("%s: sources %s", file, got)
		}
	}
}
