package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// logFile is a log that can be opened again under its name, after logrotate has moved it.
type logFile struct {
	name   string
	rotate rotation
	stderr io.Writer // what cannot be said in the log

	mu     sync.Mutex
	f      *os.File
	size   int64
	next   time.Time // when it is renamed, if that is by time
	pause  time.Time // no rotation before
	failed bool      // the last one
}

// openLog opens where the log goes: a file, or stderr for "", or stdout for "-". file is
// nil unless it is a file.
func openLog(name string, rotate rotation, stdout, stderr io.Writer) (w io.Writer, file *logFile, err error) {
	switch name {
	case "":
		return stderr, nil, nil
	case "-":
		return stdout, nil, nil
	}
	l := &logFile{name: name, rotate: rotate, stderr: stderr}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the directory of the log file: %w", err)
	}
	if err := l.reopen(); err != nil {
		return nil, nil, err
	}
	return l, l, nil
}

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rotate != (rotation{}) {
		if now := time.Now(); l.due(now) {
			l.turn(now)
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// reopen opens the file again under its name. After an error the old one goes on.
func (l *logFile) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open(time.Now())
}

// open is reopen for who holds l.mu.
func (l *logFile) open(now time.Time) error {
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	old, last := l.f, now
	l.f, l.size = f, 0
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		l.size, last = st.Size(), st.ModTime()
	}
	l.next = l.rotate.next(last)
	if old != nil {
		_ = old.Close() // nothing is buffered: every line has been written
	}
	return nil
}

// close ends the log.
func (l *logFile) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.f.Close()
}
