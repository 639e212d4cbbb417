package buffer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"weir/internal/ledger"
	"weir/internal/vfs"
)

// TestBeside warns about files that are nobody's, but not about the one that is known.
func TestBeside(t *testing.T) {
	fs := vfs.NewMem(0)
	for _, name := range []string{"b/lot", "b/stray"} {
		if err := fs.MkdirAll("b"); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for beside, want := range map[string]string{"lot": "files=[stray]", "": "lot"} {
		var logged bytes.Buffer
		o := Options{FS: fs, Dir: "b", Book: &ledger.Book{}, Log: slog.New(slog.NewTextHandler(&logged, nil)), Limit: 1 << 20}
		if beside != "" {
			o.Beside = func(name string) bool { return name == beside }
		}
		b, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := logged.String(); !strings.Contains(s, want) || beside != "" && strings.Contains(s, beside) {
			t.Errorf("beside %q: logged %s", beside, s)
		}
	}
}
