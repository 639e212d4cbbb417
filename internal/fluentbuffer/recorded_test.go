package fluentbuffer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weir/internal/event"
)

// TestRecorded reads a directory that Fluentd's own code has written.
func TestRecorded(t *testing.T) {
	l, err := List("testdata/fluentd")
	if err != nil || len(l.Broken) != 0 {
		t.Fatalf("%v, broken %v", err, l.Broken)
	}
	var g got
	cut := 0
	for i := range l.Chunks {
		c := &l.Chunks[i]
		res, err := c.Read(g.emit)
		if err != nil || res.Bad != 0 {
			t.Errorf("%s: %+v, %v", c.Path, res, err)
		}
		if res.Rest != nil {
			cut++
			if c.Tag != "std.cut" || !errors.Is(res.Rest, event.ErrShort) {
				t.Errorf("%s: %v", c.Path, res.Rest)
			}
		}
		if c.Tag == "own.staged" && c.Timekey != 1700000000 {
			t.Errorf("%+v", c)
		}
		if single := c.Tag == "single/tag.x"; (c.Meta == "") != single {
			t.Errorf("metadata of %s: %q", c.Path, c.Meta)
		}
	}
	// Without metadata the file's own time counts, which is that of the check-out.
	isSingle := func(e string) bool { return strings.HasPrefix(e, "single") }
	single := slices.DeleteFunc(slices.Clone(g), func(e string) bool { return !isSingle(e) })
	g = slices.DeleteFunc(g, isSingle)
	want := got{
		"std.queued:1", "std.queued:2", "std.gzip:3", "std.gzip:4", "std.gzip:5", "std.gzip:6", "std.between:12", "std.rewritten:13", "std.rewritten:14",
		"own.staged:7", "own.staged:8", "own.staged:9", "own.one:10", "own.two:11", "std.cut:17", "std.cut:18",
	}
	if !slices.Equal(single, got{"single/tag.x:15", "single/tag.x:16"}) {
		t.Errorf("of file_single: %q", single)
	}
	if !slices.Equal(g, want) || cut != 1 {
		t.Errorf("%d cut, events\n%q, want\n%q", cut, g, want)
	}
}
