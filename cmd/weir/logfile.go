package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// logFile is a log that can be opened again under its name, after logrotate has moved it.
type logFile struct {
	name string

	mu sync.Mutex
	f  *os.File
}

// openLog opens where the log goes: a file, or stderr for "", or stdout for "-". file is
// nil unless it is a file.
func openLog(name string, stdout, stderr io.Writer) (w io.Writer, file *logFile, err error) {
	switch name {
	case "":
		return stderr, nil, nil
	case "-":
		return stdout, nil, nil
	}
	l := &logFile{name: name}
	if err := l.reopen(); err != nil {
		return nil, nil, err
	}
	return l, l, nil
}

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}

// reopen opens the file again under its name. After an error the old one goes on.
func (l *logFile) reopen() error {
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	l.mu.Lock()
	old := l.f
	l.f = f
	l.mu.Unlock()
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
