package archtest

import (
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// TestEveryParameterIsRead: a parameter that is documented and that no code looks at would be
// accepted, and do nothing. Where that is meant its documentation says so. Code reads a
// parameter by its field, or by its name where sections are looked through.
func TestEveryParameterIsRead(t *testing.T) {
	fields, names := map[string]map[string]bool{}, map[string]bool{}
	all := sources(t)
	for _, s := range all {
		if !s.test {
			collectReads(s, fields, names)
		}
	}
	for _, s := range all {
		if s.test || within(s.pkg, "test") {
			continue
		}
		for _, p := range parameters(s) {
			if says := p.doc; strings.Contains(says, "accepted for compatibility") || strings.Contains(says, "without effect") {
				continue
			}
			if !names[p.name] && !fields[s.pkg][p.field] {
				t.Errorf("%s: nothing reads the parameter %s: use %s, or let its doc begin with %q", s.at(p.node), p.name, p.field, "accepted for compatibility")
			}
		}
	}
}

// collectReads notes the fields that a file takes out of anything, for its own package and for
// those it imports, and its texts.
func collectReads(s *source, fields map[string]map[string]bool, names map[string]bool) {
	written, tags := map[ast.Node]bool{}, map[ast.Node]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				written[l] = n.Tok == token.ASSIGN
			}
		case *ast.Field:
			if n.Tag != nil {
				tags[n.Tag] = true
			}
		case *ast.SelectorExpr:
			if written[n] {
				break
			}
			pkgs := []string{s.pkg}
			for _, i := range s.imports {
				pkgs = append(pkgs, i.pkg)
			}
			for _, pkg := range pkgs {
				if fields[pkg] == nil {
					fields[pkg] = map[string]bool{}
				}
				fields[pkg][n.Sel.Name] = true
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && !tags[n] {
				names[text] = true
			}
		}
		return true
	})
}

// parameter is a field that config.Decode fills.
type parameter struct {
	name, field, doc string
	node             ast.Node
}

func parameters(s *source) (out []parameter) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		if !ok || f.Tag == nil {
			return true
		}
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return true
		}
		tag := reflect.StructTag(text)
		for _, kind := range []string{"conf", "section"} {
			for _, id := range f.Names {
				if name := tag.Get(kind); name != "" {
					out = append(out, parameter{name, id.Name, tag.Get("doc"), f})
				}
			}
		}
		return true
	})
	return out
}
