package stdout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// plain prints tag, seconds and the size of the record.
type plain struct{}

func (plain) Append(dst []byte, tag string, t event.Time, record []byte) []byte {
	return fmt.Appendf(dst, "%s %d %d\n", tag, t.Seconds(), len(record))
}

func entries(n int) []byte {
	var b []byte
	for i := range n {
		b = event.AppendEntry(b, event.Unix(int64(i), 0), []byte{0x80})
	}
	return b
}

func TestLinesInOrder(t *testing.T) {
	var w bytes.Buffer
	o := New(Options{Writer: &w, Formatter: plain{}})
	b := event.Batch{Tag: "app", Entries: entries(3), Count: 3}
	lanes := 0
	o.Splitter().Split(b, func(lane []byte, r output.Run) {
		lanes++
		if string(lane) != "stdout" || r.Off != 0 || r.Len != len(b.Entries) || r.Count != 3 {
			t.Errorf("lane %q, run %+v", lane, r)
		}
	})
	if lanes != 1 {
		t.Errorf("%d runs", lanes)
	}
	r := o.Request()
	for range 2 { // a request is reused
		w.Reset()
		r.Reset("stdout")
		r.(output.TagTaker).SetTag("app")
		if n, size, isFull := r.Add(b.Entries, 2); n != 2 || isFull || size >= len(b.Entries) {
			t.Errorf("Add took %d entries, %d bytes, full %v", n, size, isFull)
		} else if n, size, _ = r.Add(b.Entries[size:], 5); n != 1 {
			t.Errorf("the second Add took %d entries, %d bytes", n, size)
		}
		if res := r.Send(context.Background()); res.Err != nil || len(res.Ended) != 0 || res.Bytes != w.Len() {
			t.Errorf("Send: %+v", res)
		}
		if want := "app 0 1\napp 1 1\napp 2 1\n"; w.String() != want {
			t.Errorf("wrote %q, want %q", w.String(), want)
		}
	}
}

func TestFull(t *testing.T) {
	o := New(Options{Writer: &bytes.Buffer{}, Formatter: plain{}})
	r := o.Request()
	r.Reset("stdout")
	r.(output.TagTaker).SetTag(strings.Repeat("t", 100_000))
	b := entries(50)
	n, size, isFull := r.Add(b, 50)
	if !isFull || n != 11 || size != n*len(b)/50 {
		t.Errorf("took %d entries, %d bytes, full %v", n, size, isFull)
	}
	if f := r.Fill(); f != 1 {
		t.Errorf("fill %v", f)
	}
	if n, _, isFull := r.Add(b, 50); n != 0 || !isFull {
		t.Errorf("a full request took %d, full %v", n, isFull)
	}
}

// limited fails after some bytes, once.
type limited struct {
	bytes.Buffer
	left int
}

var errGone = errors.New("broken pipe")

func (l *limited) Write(p []byte) (int, error) {
	if l.left < 0 {
		return l.Buffer.Write(p)
	}
	n := min(l.left, len(p))
	l.Buffer.Write(p[:n])
	l.left = -1
	return n, errGone
}

func TestRetryGoesOnWhereTheWriteStopped(t *testing.T) {
	w := &limited{left: 10}
	o := New(Options{Writer: w, Formatter: plain{}})
	r := o.Request()
	r.Reset("stdout")
	r.(output.TagTaker).SetTag("a")
	r.Add(entries(3), 3)
	res := r.Send(context.Background())
	if res.Err == nil || res.Err.Kind != output.Unavailable || !errors.Is(res.Err, errGone) {
		t.Fatalf("Send: %+v", res)
	}
	if res := r.Send(context.Background()); res.Err != nil {
		t.Fatalf("second Send: %v", res.Err)
	}
	if want := "a 0 1\na 1 1\na 2 1\n"; w.String() != want {
		t.Errorf("wrote %q, want %q", w.String(), want)
	}
}

func TestDamagedEntriesEndAsInvalid(t *testing.T) {
	var w bytes.Buffer
	o := New(Options{Writer: &w, Formatter: plain{}})
	r := o.Request()
	r.Reset("stdout")
	r.(output.TagTaker).SetTag("a")
	b := append(entries(1), 0xc1, 0xc1)
	if n, size, isFull := r.Add(b, 3); n != 3 || size != len(b) || !isFull {
		t.Errorf("took %d, %d, %v", n, size, isFull)
	}
	res := r.Send(context.Background())
	want := output.Ended{First: 1, Count: 2, Fate: ledger.Invalid.Fate()}
	if res.Err != nil || len(res.Ended) != 1 || res.Ended[0] != want || w.String() != "a 0 1\n" {
		t.Errorf("Send: %+v, wrote %q", res, w.String())
	}
}

func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var w bytes.Buffer
	r := New(Options{Writer: &w, Formatter: plain{}}).Request()
	r.Reset("stdout")
	r.(output.TagTaker).SetTag("a")
	r.Add(entries(1), 1)
	if res := r.Send(ctx); res.Err == nil || w.Len() != 0 {
		t.Errorf("Send: %+v, wrote %q", res, w.String())
	}
}
