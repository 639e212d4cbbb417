package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAsideWriter(t *testing.T) {
	var b bytes.Buffer
	a := newAsideWriter(&b)
	for i := range 10 {
		fmt.Fprintf(a, "line %d\n", i)
	}
	a.close()
	a.close()
	if _, err := a.Write([]byte("late")); err != nil {
		t.Error(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 10 || !strings.HasPrefix(b.String(), "line 0\n") {
		t.Errorf("%q", b.String())
	}
}

// TestAsideWriterNobodyReads: writing goes on when nobody reads, and says later what is
// missing.
func TestAsideWriterNobodyReads(t *testing.T) {
	r, w := io.Pipe()
	a := newAsideWriter(w)
	const n = 3 * asideLines
	began := time.Now()
	for i := range n {
		fmt.Fprintf(a, "line %d\n", i)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%d lines took %v", n, took)
	}
	var b bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&b, r)
	}()
	for len(a.queue) > 0 {
		<-time.After(time.Millisecond)
	}
	fmt.Fprint(a, "last\n")
	a.close()
	_ = w.Close()
	<-read
	lost, notes := 0, strings.Split(b.String(), "lines=")[1:]
	for _, note := range notes { // a second one if the first line was taken out late
		var n int
		if _, err := fmt.Sscan(note, &n); err != nil {
			t.Fatal(err)
		}
		lost += n
	}
	if len(notes) == 0 || !strings.HasSuffix(b.String(), "last\n") {
		t.Fatalf("%q", b.String()[max(0, b.Len()-200):])
	}
	if whole := strings.Count(b.String(), "line ") + lost; whole != n {
		t.Errorf("%d lines are written or told of, of %d", whole, n)
	}
}
