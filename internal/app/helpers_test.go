package app

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// logs collects log lines.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// quiet is a log that is shown when the test fails.
func quiet(t *testing.T) *slog.Logger {
	l := &logs{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.String())
		}
	})
	return slog.New(slog.NewTextHandler(l, nil))
}
