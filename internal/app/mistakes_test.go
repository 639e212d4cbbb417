package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fluentconf"
)

// TestFrequentMistakesAreExplained loads testdata/mistakes: a file for each mistake that
// people make often. It begins with what check has to say about it:
// "# error|warning|note LINE:COLUMN: beginning of the message".
func TestFrequentMistakesAreExplained(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.conf")
	if err != nil || len(files) < 19 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, d := Load(file, Env{}, false)
			said := map[string][]*fluentconf.Error{"error": d.Errors, "warning": d.Warnings, "note": d.Notes}
			wanted := 0
			for line := range strings.Lines(string(text)) {
				kind, want, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), " ")
				if !ok || !strings.HasPrefix(line, "# ") {
					continue
				}
				wanted++
				if !contains(said[kind], file+":"+want) {
					t.Errorf("missing: %s %s", kind, want)
				}
			}
			if wanted == 0 {
				t.Error("the file does not say what is wrong with it")
			}
			if said := len(d.Errors); said > wanted {
				t.Errorf("more errors than the file has: %v", d.Errors)
			}
		})
	}
}

// contains looks for a message that begins like this and tells what to write.
func contains(list []*fluentconf.Error, begin string) bool {
	for _, e := range list {
		if strings.HasPrefix(fmt.Sprint(e), begin) && e.Hint != "" {
			return true
		}
	}
	return false
}
