package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/app"
	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// store puts an event {"n": 1} of each tag into the buffer in dir.
func store(t *testing.T, dir string, tags ...string) {
	t.Helper()
	b, err := buffer.Open(buffer.Options{FS: vfs.OS{}, Dir: dir, Book: &ledger.Book{}, Log: slog.New(slog.DiscardHandler), Limit: 1 << 20, Durability: buffer.OS})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		entries := event.AppendEntry(nil, 5e9, []byte("\x81\xa1n\x01"))
		if _, err := b.Append(context.Background(), event.Batch{Tag: tag, Entries: entries, Count: 1, First: 5e9, Last: 5e9}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestDrainTakesOutEverything: also what is parked, whose tag may not be known.
func TestDrainTakesOutEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "buf")
	store(t, dir, "a")
	store(t, filepath.Join(dir, app.ParkedDir), "group\x00stream", "group\x00stream\x00\x00b")
	store(t, filepath.Join(dir, app.BacklogDir), "c")
	const want = `{"tag":"","lane":"group stream","time":"1970-01-01T00:00:05Z","record":{"n":1}}
{"tag":"b","lane":"group stream","time":"1970-01-01T00:00:05Z","record":{"n":1}}
{"tag":"a","time":"1970-01-01T00:00:05Z","record":{"n":1}}
{"tag":"c","time":"1970-01-01T00:00:05Z","record":{"n":1}}
`
	for i, args := range [][]string{{"dump"}, {"dump", "--pending"}, {"drain"}, {"drain"}} {
		var out, errs bytes.Buffer
		expected := want
		if i == 3 {
			expected = "" // nothing is left
		}
		if code := runBuffer(append(args, dir), &out, &errs); code != exitOK || out.String() != expected {
			t.Errorf("%v: exit code %d\n%s%s", args, code, &out, &errs)
		}
	}
}

// TestNoBuffer: a directory that is no buffer is told to be none, and stays as it is.
func TestNoBuffer(t *testing.T) {
	dir := t.TempDir()
	for _, verb := range []string{"ls", "verify", "dump", "drain"} {
		var out, errs bytes.Buffer
		if code := runBuffer([]string{verb, dir}, &out, &errs); code != exitFault || !strings.Contains(errs.String(), "is not the directory of a buffer") {
			t.Errorf("%s: exit code %d, %s", verb, code, &errs)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v: there was nothing", files, err)
	}
}
