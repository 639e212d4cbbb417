package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"weir/internal/fluentconf"
)

// TestMain sets the environment of all tests, so that those which wait can run side by side.
func TestMain(m *testing.M) {
	for k, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": "/nowhere/config",
	} {
		if err := os.Setenv(k, v); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// TestEveryMistakeHasItsPlace loads the files of testdata/bad. Each begins with the errors
// that it has: "# error LINE:COLUMN: beginning of the message".
func TestEveryMistakeHasItsPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.conf")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(text)) {
				if w, ok := strings.CutPrefix(line, "# error "); ok {
					want = append(want, file+":"+strings.TrimSpace(w))
				}
			}
			_, d := Load(file, Env{}, false)
			for _, e := range d.Errors {
				got := fmt.Sprint(e)
				found := false
				for i, w := range want {
					if strings.HasPrefix(got, w) {
						want = append(want[:i], want[i+1:]...)
						found = true
						break
					}
				}
				if !found {
					t.Errorf("not expected: %s", got)
				}
				if !strings.Contains(got, "; ") {
					t.Errorf("%s: does not say what to write instead", got)
				}
			}
			for _, w := range want {
				t.Errorf("missing: %s", w)
			}
		})
	}
}

func TestLoadOfNothing(t *testing.T) {
	for name, read := range map[string]func(string) ([]byte, error){
		"missing": func(string) ([]byte, error) { return nil, &os.PathError{Op: "open", Path: "x", Err: os.ErrNotExist} },
		"empty":   func(string) ([]byte, error) { return []byte(" \n\n"), nil },
		"broken":  func(string) ([]byte, error) { return nil, errors.New("input/output error") },
	} {
		p, d := Load("x.conf", Env{ReadFile: read}, false)
		if p != nil || len(d.Errors) != 1 || d.Errors[0].Pos != (fluentconf.Pos{File: "x.conf", Line: 1, Column: 1}) {
			t.Errorf("%s: %v", name, d.Errors)
		}
	}
}

// plan loads a configuration text that must be right.
func plan(t *testing.T, text string) *Plan {
	t.Helper()
	p, d := Load("test.conf", Env{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }}, false)
	for _, e := range d.Errors {
		t.Errorf("%s", e)
	}
	if t.Failed() {
		t.FailNow()
	}
	return p
}

func TestRoutesThroughLabels(t *testing.T) {
	p := plan(t, `
<source>
  @type forward
  @label @IN
</source>
<label @IN>
  <match loop.**>
    @type relabel
    @label @ROUND
  </match>
  <match both.**>
    @type copy
    <store>
      @type relabel
      @label @OUT
    </store>
    <store>
      @type relabel
      @label @OUT
    </store>
  </match>
  <match **>
    @type relabel
    @label @OUT
  </match>
</label>
<label @ROUND>
  <match **>
    @type copy
    <store>
      @type relabel
      @label @IN
    </store>
    <store>
      @type relabel
      @label @IN
    </store>
  </match>
</label>
<label @OUT>
  <match none.**>
    @type null
  </match>
</label>
<match **>
  @type null
</match>
`)
	a, err := New(p, Options{Log: quiet(t), HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := a.build(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	route := g.routes.from("@IN").Route
	if n := route("none.x"); n == nil || n.Ends[0].Next == nil || n.Ends[0].Next.Ends[0].Target.ID != "null.2" {
		t.Errorf("none.x: %+v", n)
	}
	if n := route("both.x"); n == nil || len(n.Ends) != 2 || n.Ends[0].Target == nil || n.Ends[0].Target.ID != "unmatched" {
		t.Errorf("both.x: %+v", n)
	}
	if n := route("loop.x"); n == nil { // ends, and ends as unmatched
		t.Errorf("loop.x has no route")
	}
	if n := g.routes.from("@GONE"); n != nil {
		t.Errorf("a label that is no more has a route: %+v", n)
	}
}
