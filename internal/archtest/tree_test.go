package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the path of the module; root leads from this package to its directory.
const (
	module = "weir"
	root   = "../.."
)

// source is one Go file of the module.
type source struct {
	file    string // path from the root, with slashes
	pkg     string // directory of the package from the root: internal/event
	name    string // of the package
	test    bool
	lines   int
	imports []imported
	ast     *ast.File
	fset    *token.FileSet
}

type imported struct {
	path string // weir/internal/event
	pkg  string // internal/event; "" outside the module
}

// at gives file:line of a node, the form editors jump to.
func (s *source) at(n ast.Node) string {
	return s.file + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// sources gives all Go files of the module, tests too. Other modules inside are skipped.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files found: the tree is not where it should be", len(all))
	}
	return all
}

// tree parses the files, once for all tests: they only read it.
var tree = sync.OnceValues(func() (all []*source, err error) {
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(p, d.Name())
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		s := &source{file: filepath.ToSlash(rel), name: f.Name.Name, test: strings.HasSuffix(p, "_test.go"), ast: f, fset: fset,
			lines: fset.File(f.Pos()).LineCount() - 1}
		s.pkg = path.Dir(s.file)
		for _, i := range f.Imports {
			ip, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			im := imported{path: ip}
			if rest, ok := strings.CutPrefix(ip, module+"/"); ok {
				im.pkg = rest
			}
			s.imports = append(s.imports, im)
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

func skipDir(p, name string) error {
	if name == "testdata" || len(name) > 1 && name[0] == '.' && name != ".." {
		return fs.SkipDir
	}
	if p != root {
		if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
			return fs.SkipDir
		}
	}
	return nil
}

// within says whether pkg is one of these packages or below one.
func within(pkg string, parents ...string) bool {
	for _, p := range parents {
		if pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}
