package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// contents are the files of a directory as "name text".
func contents(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Name()+" "+strings.ReplaceAll(string(text), "\n", ""))
	}
	slices.Sort(out)
	return out
}

func TestLogRotatesBySize(t *testing.T) {
	for _, c := range []struct {
		age  string
		want []string
	}{
		{"3", []string{"log g", "log.0 ef", "log.1 cd"}},
		{"2", []string{"log g", "log.0 ef"}},
		{"1", []string{"log g", "log.0 ef"}},
		{"0", []string{"log abcdefg"}},
		{"", []string{"log g", "log.0 ef", "log.1 cd", "log.2 ab"}},
	} {
		dir := t.TempDir()
		w, l, err := openLog(filepath.Join(dir, "new", "log"), newRotation(c.age, 3), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"a\n", "b\n", "c\n", "d\n", "e\n", "f\n", "g\n"} {
			if _, err := w.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		l.close()
		if got := contents(t, filepath.Join(dir, "new")); !slices.Equal(got, c.want) {
			t.Errorf("age %q: %q, want %q", c.age, got, c.want)
		}
	}
}

func TestLogRotatesByTime(t *testing.T) {
	at := func(text string) time.Time {
		d, err := time.ParseInLocation("2006-01-02 15:04", text, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct{ period, last, next, suffix string }{ // 2026-11-30 is a Monday
		{"daily", "2026-11-29 23:59", "2026-11-30 00:00", "20261129"},
		{"daily", "2026-12-31 00:00", "2027-01-01 00:00", "20261231"},
		{"weekly", "2026-11-30 10:00", "2026-12-06 00:00", "20261205"},
		{"weekly", "2026-12-06 00:00", "2026-12-13 00:00", "20261212"},
		{"monthly", "2026-01-31 10:00", "2026-02-01 00:00", "20260131"},
		{"monthly", "2026-12-01 00:00", "2027-01-01 00:00", "20261231"},
	} {
		r := newRotation(c.period, 0)
		next := r.next(at(c.last))
		if !next.Equal(at(c.next)) || r.suffix(next) != c.suffix {
			t.Errorf("%s after %s: %s as %s, want %s as %s", c.period, c.last, next, r.suffix(next), c.next, c.suffix)
		}
	}
	// A file of before yesterday is put aside before the first line, beside one of that name.
	dir := t.TempDir()
	name := filepath.Join(dir, "log")
	now := time.Now()
	r := newRotation("daily", 0)
	for _, f := range []string{name, name + "." + r.suffix(now)} {
		if err := os.WriteFile(f, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(name, now, now.Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	w, l, err := openLog(name, r, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for range 2 {
		if _, err := w.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	got := contents(t, dir)
	if len(got) != 3 || got[0] != "log newnew" || !strings.HasSuffix(got[1], " old") || !strings.HasSuffix(got[2], ".1 old") {
		t.Errorf("%q", got)
	}
}

func TestLogGoesOnWhenItCannotRotate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "log")
	var said strings.Builder
	w, l, err := openLog(name, newRotation("2", 1), nil, &said)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := os.MkdirAll(name+".0/x", 0o755); err != nil { // in the way
		t.Fatal(err)
	}
	for range 5 {
		if _, err := w.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(name); string(text) != strings.Repeat("line\n", 5) || strings.Count(said.String(), "cannot be rotated") != 1 {
		t.Errorf("%q, said %q", text, said.String())
	}
}
