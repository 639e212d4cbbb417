package archtest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMapsOfFilesAreWhole: a package doc with a part "Where things are" names every file of the
// package, and no other.
func TestMapsOfFilesAreWhole(t *testing.T) {
	files := map[string][]string{}
	for _, s := range sources(t) {
		files[s.pkg] = append(files[s.pkg], path.Base(s.file))
	}
	maps := 0
	for _, s := range sources(t) {
		if s.ast.Doc == nil || !strings.Contains(s.ast.Doc.Text(), "# Where things are") {
			continue
		}
		maps++
		named := regexp.MustCompile(`[a-z0-9]+\.go\b`).FindAllString(s.ast.Doc.Text(), -1)
		for _, f := range files[s.pkg] {
			if f != "doc.go" && !strings.HasSuffix(f, "_test.go") && !slices.Contains(named, f) {
				t.Errorf("%s does not say what is in %s", s.file, f)
			}
		}
		for _, f := range named {
			if !slices.Contains(files[s.pkg], f) {
				t.Errorf("%s names %s, which does not exist", s.file, f)
			}
		}
	}
	if maps < 2 {
		t.Errorf("only %d maps found", maps)
	}
}
