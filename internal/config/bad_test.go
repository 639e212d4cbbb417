package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/fluentconf"
)

// TestBadFiles reads one file per rule. Its comments `# want:` are the errors that it must
// give, all of them and no other.
func TestBadFiles(t *testing.T) {
	names, err := filepath.Glob("testdata/bad/*.conf")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(text)) {
				if w, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, filepath.Base(name)+":"+strings.TrimSpace(w))
				}
			}
			if got := checkFile(filepath.Base(name), string(text)); !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("errors\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		})
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// checkFile decodes a configuration strictly, as `weir check --strict` would.
func checkFile(name, text string) []string {
	d := &Diagnostics{Strict: true}
	root := Load(name, Files{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }}, d)
	ParseSystem(root, d)
	for _, s := range root.All("match") {
		var p plugin
		Decode(s, &p, d)
		ParseBuffer(s, BufferDefaults{}, d)
	}
	var out []string
	for _, e := range d.Errors {
		out = append(out, e.Error())
	}
	return out
}

// TestUnknownIsAWarning without Strict: a file that Fluentd takes is taken.
func TestUnknownIsAWarning(t *testing.T) {
	var p plugin
	d := decodeText(t, "<match a>\nlog_group_name g\nlog_grop_name h\nlog_group_name g2\n<foo>\n</foo>\nxyzzy 1\n</match>", &p)
	want := []string{
		"t.conf:4:1: parameter log_group_name stands twice, this one counts; remove the one at t.conf:2:1",
		"t.conf:3:1: parameter log_grop_name in <match a> is not used; did you mean log_group_name?",
		"t.conf:7:1: parameter xyzzy in <match a> is not used",
		"t.conf:5:1: section <foo> in <match a> is not used",
	}
	if got := texts(d.Warnings); len(d.Errors) > 0 || !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("errors %v, warnings\n%s", d.Errors, strings.Join(got, "\n"))
	}
	if p.Group != "g2" {
		t.Errorf("group %q, want the last one", p.Group)
	}
}

func texts(list []*fluentconf.Error) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Error())
	}
	return out
}
