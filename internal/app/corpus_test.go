package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCorpus loads configurations as people have them and compares what `weir check` would
// say with the .golden file beside each: what is unsupported, or the warnings and the
// routes. Hints are left out, they list what weir has. Lines "# env NAME=VALUE" set the
// environment. After a change that is meant: go test ./internal/app -run TestCorpus -update.
func TestCorpus(t *testing.T) {
	// What the machine knows about AWS must not show.
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nowhere/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
	var files []string
	for _, ext := range []string{"conf", "yaml"} {
		found, err := filepath.Glob("testdata/corpus/*." + ext)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 25 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := verdict(t, file)
			golden := file + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s\nif that is meant: go test ./internal/app -run TestCorpus -update", got, want)
			}
		})
	}
}

// verdict is what there is to say about a file, as text.
func verdict(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if set, ok := strings.CutPrefix(line, "# env "); ok {
			name, value, _ := strings.Cut(strings.TrimSpace(set), "=")
			env[name] = value
		}
	}
	p, d := Load(file, Env{
		Hostname: "host-1.example", Location: time.UTC,
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}, false)
	var b strings.Builder
	for _, e := range d.Errors {
		fmt.Fprintf(&b, "error %s: %s\n", e.Pos, e.Text)
	}
	if len(d.Errors) > 0 {
		return b.String()
	}
	for _, e := range d.Notes {
		fmt.Fprintf(&b, "note %s: %s\n", e.Pos, e.Text)
	}
	for _, e := range d.Warnings {
		fmt.Fprintf(&b, "warning %s: %s\n", e.Pos, e.Text)
	}
	return b.String() + p.Summary()
}

// TestExamplesAreGood loads what users begin with.
func TestExamplesAreGood(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	for _, pattern := range []string{"../../examples/*.conf", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			p, d := Load(file, Env{}, true)
			if len(d.Errors)+len(d.Warnings) > 0 {
				t.Errorf("%s: %v %v", file, d.Errors, d.Warnings)
			} else if len(p.Sources) == 0 || len(p.Outputs) == 0 {
				t.Errorf("%s: %d sources, %d outputs", file, len(p.Sources), len(p.Outputs))
			}
		}
	}
}
