package awslogs

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

const root = "../../../../"

// TestOptionsAreKnown: an option with a name here that known does not list is refused when
// somebody sets it.
func TestOptionsAreKnown(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all, keys := known(), 0
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.ValueSpec)
		if !ok || len(c.Values) != 1 || !strings.HasPrefix(c.Names[0].Name, "key") {
			return true
		}
		value, ok := c.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		keys++
		if key := strings.Trim(value.Value, `"`); !all[key] {
			t.Errorf("known does not list %s (%s)", key, c.Names[0].Name)
		}
		return true
	})
	if keys < 25 {
		t.Errorf("only %d names found", keys)
	}
}

// TestOptionsAreDocumented looks for each option in the table of docs/docker.md.
func TestOptionsAreDocumented(t *testing.T) {
	b, err := os.ReadFile(root + "docs/docker.md")
	if err != nil {
		t.Fatal(err)
	}
	for key := range known() {
		if group, _, ok := strings.Cut(key, "-"); ok && group == "cache" {
			continue // they share a row
		}
		if !strings.Contains(string(b), "| `"+key+"`") && !strings.Contains(string(b), ", `"+key+"` |") {
			t.Errorf("docs/docker.md has no row for %s", key)
		}
	}
}

// TestExamples reads the options of the examples as the driver does.
func TestExamples(t *testing.T) {
	b, err := os.ReadFile(root + "deploy/docker/daemon.json")
	if err != nil {
		t.Fatal(err)
	}
	var daemon struct {
		Opts map[string]string `json:"log-opts"`
	}
	if err := json.Unmarshal(b, &daemon); err != nil {
		t.Fatal(err)
	}
	compose, err := os.ReadFile(root + "deploy/docker/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(compose), "options:\n")
	opts := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && key[0] != '#' {
			opts[key] = strings.Trim(value, `"'`)
		}
	}
	for name, opts := range map[string]map[string]string{"daemon.json": daemon.Opts, "compose.yaml": opts} {
		i := container()
		i.Config = opts
		if o, err := Parse(i, Env{Hostname: "host-1"}); err != nil || len(opts) < 4 {
			t.Errorf("%s: %v: %+v, %v", name, opts, o, err)
		}
	}
}
