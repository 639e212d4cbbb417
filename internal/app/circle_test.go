package app

import (
	"strings"
	"testing"
)

func TestRewriteInACircleIsNamed(t *testing.T) {
	const source = "<source>\n@type stdin\n</source>\n"
	rule := func(pattern, tag, more string) string {
		return source + "<match " + pattern + ">\n@type rewrite_tag_filter\n" + more + "<rule>\nkey k\npattern /x/\ntag " + tag + "\n</rule>\n</match>\n<match **>\n@type null\n</match>\n"
	}
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"new tag taken again":       {rule("a.**", "a.new", ""), true},
		"new tag goes on":           {rule("a.**", "b.new", ""), false},
		"everything is taken again": {rule("**", "new.${tag}", ""), true},
		"a label takes it on":       {rule("**", "new.${tag}", "@label @L\n") + "<label @L>\n<match **>\n@type null\n</match>\n</label>\n", false},
	} {
		_, d := Load("t.conf", Env{ReadFile: func(string) ([]byte, error) { return []byte(c.text), nil }}, false)
		got := false
		for _, w := range d.Warnings {
			got = got || strings.Contains(w.Text, "in a circle") && w.Pos.Line > 3
		}
		if got != c.want {
			t.Errorf("%s: warned %v, want %v; warnings %v, errors %v", name, got, c.want, d.Warnings, d.Errors)
		}
	}
}
