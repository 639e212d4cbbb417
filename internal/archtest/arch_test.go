// Package archtest holds the rules of docs/architecture.md and CONTRIBUTING.md as tests: who may import whom, and how
// large things may grow. A failure names the file and the rule.
package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// levels gives each package of internal/ its level. Imports point down, or to the same
// level below the plug-ins. A package below one of these has its level, unless it is here.
func levels() map[string]int {
	return map[string]int{
		"internal/event": 0, "internal/vfs": 0, "internal/fluentconf": 0, "internal/ruby": 0, "internal/router": 0, "internal/ledger": 0,
		"internal/emulator": 0,
		"internal/config":   1, "internal/parser": 1, "internal/formatter": 1, "internal/filter": 1, "internal/placeholder": 1, "internal/retag": 1, "internal/fluentbuffer": 1, "internal/servertls": 1,
		"internal/input": 1, "internal/output": 1, "internal/buffer/segment": 1,
		"internal/buffer": 2, "internal/pipeline": 2, "internal/deliver": 2, "internal/awsx": 2,
		"internal/web": 3,
		"internal/app": 4,
	}
}

// above is the level of commands and of packages that serve tests only.
const above = 5

// levelOf gives a package's level, and whether it has one.
func levelOf(pkg string) (int, bool) {
	if within(pkg, "cmd", "test", "internal/archtest") || testOnly(pkg) {
		return above, true
	}
	if _, ok := plugin(pkg); ok {
		return 3, true
	}
	all := levels()
	for p := pkg; p != "."; p = path.Dir(p) {
		if l, ok := all[p]; ok {
			return l, true
		}
	}
	return 0, false
}

// testOnly says whether a package exists for tests: inputtest, outputtest, buffertest.
func testOnly(pkg string) bool { return strings.HasSuffix(path.Base(pkg), "test") }

// plugin names the plug-in that a package belongs to: everything below input and output.
func plugin(pkg string) (name string, ok bool) {
	for _, contract := range []string{"internal/input/", "internal/output/"} {
		if rest, found := strings.CutPrefix(pkg, contract); found && !testOnly(pkg) {
			first, _, _ := strings.Cut(rest, "/")
			return contract + first, true
		}
	}
	return "", false
}

// core lists the packages without goroutines, clock, I/O and logger.
func core() []string {
	return []string{
		"internal/event", "internal/buffer/segment", "internal/router", "internal/filter", "internal/retag", "internal/parser", "internal/formatter",
		"internal/ruby", "internal/fluentconf", "internal/config", "internal/placeholder", "internal/ledger",
		"internal/input/docker/awslogs", "internal/input/docker/frame", "internal/input/docker/lines",
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		from, ok := levelOf(s.pkg)
		if !ok {
			t.Errorf("%s: package %s has no level; give it one in archtest and a line in docs/architecture.md", s.file, s.pkg)
			continue
		}
		if s.test {
			continue // a test may use what lies above: conformance suites, the emulator
		}
		for _, i := range s.imports {
			if i.pkg == "" {
				continue
			}
			to, ok := levelOf(i.pkg)
			if ok && to > from {
				t.Errorf("%s imports %s: level %d must not import level %d", s.file, i.path, from, to)
			}
		}
	}
}

func TestOnlyAppImportsPlugins(t *testing.T) {
	for _, s := range sources(t) {
		own, isPlugin := plugin(s.pkg)
		for _, i := range s.imports {
			other, ok := plugin(i.pkg)
			if !ok || isPlugin && own == other {
				continue
			}
			switch {
			case isPlugin:
				t.Errorf("%s imports %s: plug-ins never import each other", s.file, i.path)
			case !within(s.pkg, "internal/app", "test") && !s.test:
				t.Errorf("%s imports %s: only internal/app knows the plug-ins", s.file, i.path)
			}
		}
	}
}

func TestPluginsImportNoEngine(t *testing.T) {
	for _, s := range sources(t) {
		if _, ok := plugin(s.pkg); !ok || s.test {
			continue
		}
		for _, i := range s.imports {
			if within(i.pkg, "internal/buffer", "internal/pipeline", "internal/deliver", "internal/web") {
				t.Errorf("%s imports %s: a plug-in knows its contract and nothing of the engines", s.file, i.path)
			}
		}
	}
}

func TestAppIsOnlyForCommands(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if i.pkg == "internal/app" && !within(s.pkg, "cmd", "test", "internal/app") {
				t.Errorf("%s imports %s", s.file, i.path)
			}
		}
	}
}

func TestEmulatorSharesNothing(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if within(s.pkg, "internal/emulator") && i.pkg != "" && !within(i.pkg, "internal/emulator") {
				t.Errorf("%s imports %s: the emulator shares nothing, not even a mistake, with the rest", s.file, i.path)
			}
			if within(i.pkg, "internal/emulator") && !s.test && !within(s.pkg, "cmd", "test", "internal/app", "internal/emulator") {
				t.Errorf("%s imports %s: only commands and tests use the emulator", s.file, i.path)
			}
		}
	}
}

func TestForeignModulesHaveTheirPlace(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || within(s.pkg, "test") {
			continue
		}
		for _, i := range s.imports {
			switch {
			case strings.HasPrefix(i.path, "github.com/aws/") && !within(s.pkg, "internal/awsx", "internal/output/cloudwatch", "internal/output/s3"):
				t.Errorf("%s imports %s: AWS modules belong to awsx, output/cloudwatch and output/s3", s.file, i.path)
			case strings.HasPrefix(i.path, "github.com/prometheus/") && path.Base(s.file) != "metrics.go" && !within(s.pkg, "internal/web"):
				t.Errorf("%s imports %s: Prometheus belongs to files named metrics.go and to web", s.file, i.path)
			case strings.HasPrefix(i.path, "github.com/tinylib/msgp"), strings.HasPrefix(i.path, "github.com/stretchr/testify"),
				strings.HasPrefix(i.path, "pgregory.net/rapid"), strings.HasPrefix(i.path, "go.uber.org/goleak"), strings.HasPrefix(i.path, "github.com/google/go-cmp"):
				if !testOnly(s.pkg) {
					t.Errorf("%s imports %s: that is for tests", s.file, i.path)
				}
			}
		}
	}
}

// impure lists what the functional core must not import or call.
var impure = struct {
	imports []string
	calls   map[string][]string // by import path
}{
	imports: []string{"os", "os/exec", "os/signal", "net", "net/http", "log", "log/slog", "syscall", "golang.org/x/sys/unix"},
	calls: map[string][]string{
		"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTicker", "NewTimer"},
	},
}

func TestTheCoreIsPure(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !within(s.pkg, core()...) || testOnly(s.pkg) {
			continue
		}
		for _, i := range s.imports {
			if slices.Contains(impure.imports, i.path) {
				t.Errorf("%s imports %s: %s belongs to the functional core", s.file, i.path, s.pkg)
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: %s belongs to the functional core", s.at(n), s.pkg)
			case *ast.SelectorExpr:
				if slices.Contains(impure.calls[packageOf(s, n)], n.Sel.Name) {
					t.Errorf("%s uses %s.%s: %s belongs to the functional core", s.at(n), packageOf(s, n), n.Sel.Name, s.pkg)
				}
			}
			return true
		})
	}
}

// packageOf gives the import path of pkg in pkg.Name, or "". Imports are not renamed in
// the files this matters for; a renamed one is found by its new name.
func packageOf(s *source, sel *ast.SelectorExpr) string {
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, i := range s.ast.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == id.Name {
			return p
		}
	}
	return ""
}

// globals lists what reaches for the state of the whole process.
var globals = map[string][]string{
	"log/slog": {"Default", "Info", "Warn", "Error", "Debug"},
	"net/http": {"Handle", "HandleFunc", "DefaultServeMux", "DefaultClient", "Get", "Post"},
	"github.com/prometheus/client_golang/prometheus": {"DefaultRegisterer", "DefaultGatherer", "MustRegister", "Register"},
}

func TestNoGlobalState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || within(s.pkg, "cmd", "test") || testOnly(s.pkg) {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init runs before anybody asked for it; make a constructor", s.at(f))
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(globals[packageOf(s, sel)], sel.Sel.Name) {
				t.Errorf("%s uses %s.%s, which is shared by the whole process; pass it in", s.at(sel), packageOf(s, sel), sel.Sel.Name)
			}
			return true
		})
	}
}

func TestPackageNamesSayWhatIsInside(t *testing.T) {
	empty := []string{"util", "utils", "common", "types", "helpers", "helper", "misc", "shared", "base", "lib"}
	for _, s := range sources(t) {
		if slices.Contains(empty, s.name) || slices.Contains(empty, path.Base(s.pkg)) {
			t.Errorf("%s: a package named %s can hold anything; name it by what it does", s.file, s.name)
		}
	}
}

const (
	maxFile = 500 // lines
	maxFunc = 80
)

func TestThingsFitTheScreen(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || testOnly(s.pkg) {
			continue
		}
		if s.lines > maxFile {
			t.Errorf("%s has %d lines, more than %d; divide it by topic", s.file, s.lines, maxFile)
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunc {
				t.Errorf("%s: %s has %d lines, more than %d", s.at(f), f.Name.Name, n, maxFunc)
			}
		}
	}
}

// TestCommandsOnlyTranslate keeps main short: flags and signals in, exit code out.
func TestCommandsOnlyTranslate(t *testing.T) {
	for _, s := range sources(t) {
		if s.file == "cmd/weir/main.go" && s.lines > 150 {
			t.Errorf("%s has %d lines, more than 150", s.file, s.lines)
		}
	}
}

func TestLevels(t *testing.T) {
	for pkg, want := range map[string]int{
		"internal/event": 0, "internal/ruby/rx": 0, "internal/output": 1, "internal/buffer/segment": 1, "internal/buffer": 2,
		"internal/output/file": 3, "internal/output/cloudwatch/put": 3, "internal/web": 3, "internal/app": 4,
		"internal/output/outputtest": above, "cmd/weir": above, "test/e2e": above, "internal/nobody": -1,
	} {
		got, ok := levelOf(pkg)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s has level %d, want %d", pkg, got, want)
		}
	}
	if own, ok := plugin("internal/output/cloudwatch/put"); !ok || own != "internal/output/cloudwatch" {
		t.Errorf("plug-in %q, %v", own, ok)
	}
	if _, ok := plugin("internal/output/outputtest"); ok {
		t.Error("a conformance suite is no plug-in")
	}
}

// TestTheMapIsWhole: docs/architecture.md names every package of internal/ and the level it has.
func TestTheMapIsWhole(t *testing.T) {
	doc, err := os.ReadFile(root + "/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int]string{}
	for line := range strings.Lines(string(doc)) {
		var level int
		if n, _ := fmt.Sscanf(line, "| L%d |", &level); n == 1 {
			rows[level] = line
		}
	}
	for pkg, level := range levels() {
		name := strings.TrimPrefix(pkg, "internal/")
		if name == "emulator" {
			level = 3 // it stands apart there
		}
		if !strings.Contains(rows[level], "`"+name+"`") && !strings.Contains(rows[level], "`"+name+"/…`") {
			t.Errorf("docs/architecture.md does not name %s in its row L%d", name, level)
		}
	}
}
