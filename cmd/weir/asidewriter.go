package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// asideWriter writes in a goroutine of its own, so that nobody waits for a reader: dockerd
// reads what a plugin writes to stderr, and does not while it is down. What does not fit into
// the queue is counted and left out.
type asideWriter struct {
	w     io.Writer
	queue chan []byte
	done  chan struct{}

	mu     sync.Mutex // guards what follows
	lost   int
	closed bool
}

// asideLines is how many lines may wait.
const asideLines = 256

func newAsideWriter(w io.Writer) *asideWriter {
	a := &asideWriter{w: w, queue: make(chan []byte, asideLines), done: make(chan struct{})}
	go a.run()
	return a
}

// Write takes one line. It never blocks and never fails.
func (a *asideWriter) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return len(line), nil
	}
	if a.lost > 0 {
		note := fmt.Appendf(nil, "level=WARN msg=\"lines of this log were left out since nobody read it\" lines=%d\n", a.lost)
		select {
		case a.queue <- note:
			a.lost = 0
		default:
		}
	}
	select {
	case a.queue <- append([]byte(nil), line...):
	default:
		a.lost++
	}
	return len(line), nil
}

func (a *asideWriter) run() {
	defer close(a.done)
	for line := range a.queue {
		_, _ = a.w.Write(line) // a reader that has gone is no reason to end
	}
}

// close writes what waits, for a second at most.
func (a *asideWriter) close() {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.queue)
	}
	a.mu.Unlock()
	select {
	case <-a.done:
	case <-time.After(time.Second):
	}
}
