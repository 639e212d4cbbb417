//go:build linux

// Package dockertest plays Docker's engine for tests of logging drivers: it makes pipes,
// writes frames into them and calls the plugin, with the habits of the real one. It shares
// no code with what reads the frames.
package dockertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Engine is the daemon's side of the protocol.
type Engine struct {
	Dir    string // of the pipes
	client *http.Client
	// Retry is how long the engine goes on asking a plugin that does not answer, with empty
	// bodies after the first time. The real one takes 30 s; the default here is 2 s.
	Retry time.Duration
}

// New makes an engine that calls the plugin at socket and makes its pipes in dir.
func New(dir, socket string) *Engine {
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	return &Engine{Dir: dir, client: &http.Client{Transport: t, Timeout: 30 * time.Second}, Retry: 2 * time.Second}
}

// Call makes a request as the engine does. A body is sent once: a repeat has none.
func (e *Engine) Call(method string, body any) (status int, answer []byte, err error) {
	var raw []byte
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	for wait, end := 10*time.Millisecond, time.Now().Add(e.Retry); ; wait *= 2 {
		status, answer, err = e.once(method, raw)
		if err == nil || time.Now().Add(wait).After(end) {
			return status, answer, err
		}
		raw = nil
		time.Sleep(wait)
	}
}

func (e *Engine) once(method string, raw []byte) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodPost, "http://plugin/"+method, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/vnd.docker.plugins.v1.2+json")
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// do calls and reads Err.
func (e *Engine) do(method string, body any) error {
	status, answer, err := e.Call(method, body)
	if err != nil {
		return err
	}
	var a struct{ Err string }
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("%s: answer %q: %w", method, answer, err)
	}
	if a.Err != "" || status != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", method, status, a.Err)
	}
	return nil
}

// Logger is the engine's end of one container's pipe.
type Logger struct {
	File string
	e    *Engine
	mu   sync.Mutex // guards f: frames are written whole, one after the other
	f    *os.File
	buf  []byte
}

// Make makes a pipe with a name of 64 digits and opens it, without a word to the plugin.
func (e *Engine) Make(name string) (*Logger, error) {
	path := filepath.Join(e.Dir, name)
	if err := unix.Mkfifo(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &Logger{File: path, e: e, f: f}, nil
}

// Start makes a pipe and calls StartLogging. info is the Info of the request. If the plugin
// refuses, the pipe is left behind.
func (e *Engine) Start(name string, info any) (*Logger, error) {
	l, err := e.Make(name)
	if err != nil {
		return nil, err
	}
	if err := l.Announce(info); err != nil {
		return nil, errors.Join(err, l.f.Close())
	}
	return l, nil
}

// Announce calls StartLogging.
func (l *Logger) Announce(info any) error {
	return l.e.do("LogDriver.StartLogging", map[string]any{"File": l.File, "Info": info})
}

// Write writes frames; it waits, like the engine, while the pipe is full.
func (l *Logger) Write(frames ...Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range frames {
		l.buf = frames[i].append(l.buf[:0])
		if _, err := l.f.Write(l.buf); err != nil {
			return err
		}
	}
	return nil
}

// WriteRaw writes bytes that need not be frames.
func (l *Logger) WriteRaw(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.f.Write(b)
	return err
}

// Waiting is how many bytes are in the pipe.
func (l *Logger) Waiting() int {
	n := 0
	if rc, err := l.f.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// Stop ends the container: the engine holds its end of the pipe until the plugin has
// answered. If the plugin does not, pipe and descriptor stay.
func (l *Logger) Stop() error {
	if err := l.e.do("LogDriver.StopLogging", map[string]any{"File": l.File}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.f.Close(), os.Remove(l.File))
}

// Vanish is what the plugin sees when the engine is killed, or restarted with live-restore.
func (l *Logger) Vanish() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
