//go:build linux

package docker

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/input/docker/dockertest"
	"weir/internal/vfs"
)

// stuckFS is a disk that stops to answer when somebody says so.
type stuckFS struct {
	vfs.FS
	stuck sync.RWMutex // locked: it does not answer
}

func (f *stuckFS) wait() {
	f.stuck.RLock()
	defer f.stuck.RUnlock()
}

func (f *stuckFS) Create(name string) (vfs.File, error) { f.wait(); return f.FS.Create(name) }
func (f *stuckFS) Open(name string) (vfs.File, error)   { f.wait(); return f.FS.Open(name) }
func (f *stuckFS) Rename(a, b string) error             { f.wait(); return f.FS.Rename(a, b) }
func (f *stuckFS) Remove(name string) error             { f.wait(); return f.FS.Remove(name) }

// TestStopWaitsForNothing: whatever hangs, StopLogging is answered, and what the container wrote
// is stored when it hangs no more.
func TestStopWaitsForNothing(t *testing.T) {
	for what, hang := range map[string]func(p *process, disk *stuckFS) (free func()){
		"the plugin's lock": func(p *process, _ *stuckFS) func() { p.Plugin.mu.Lock(); return p.Plugin.mu.Unlock },
		"the session's lock": func(p *process, _ *stuckFS) func() {
			s := p.list()[0]
			s.mu.Lock()
			return s.mu.Unlock
		},
		"the disk of the sessions": func(_ *process, disk *stuckFS) func() { disk.stuck.Lock(); return disk.stuck.Unlock },
		"the spool": func(p *process, _ *stuckFS) func() {
			block := make(chan struct{})
			p.mu.Lock()
			defer p.mu.Unlock()
			p.block = block
			return func() { close(block) }
		},
		"viewers": func(p *process, _ *stuckFS) func() {
			var all []*viewer
			for range cap(p.free) {
				all = append(all, <-p.free)
			}
			return func() {
				for _, b := range all {
					p.returnViewer(b)
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			disk := &stuckFS{FS: w.disk}
			p := w.start(func(_ *process, o *Options) { o.fs, o.stop = disk, stopTime })
			l, err := w.engine.Start(id(100), info(1))
			must(t, err)
			free := hang(p, disk)
			must(t, l.Write(line(1, "a"), dockertest.Frame{Source: "stdout", Time: base, Line: []byte("open"), Partial: true, ID: "x", Ordinal: 1}))
			stopped := make(chan error, 1)
			go func() { stopped <- l.Stop() }()
			select {
			case err := <-stopped:
				must(t, err)
			case <-time.After(20 * time.Second):
				t.Error("StopLogging is not answered")
			}
			free()
			eventually(t, "both events", func() bool { return len(w.events(id(1))) == 2 })
			eventually(t, "the end of the session", func() bool { return len(p.Sessions()) == 0 })
		})
	}
}

// TestStopWithoutDescriptors: Docker is answered when the process has no descriptor left.
func TestStopWithoutDescriptors(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, l.Write(line(1, "a")))
	eventually(t, "an event", func() bool { return len(w.events(id(1))) == 1 })
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) // Docker's end is of this process, too
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	must(t, l.Write(line(2, "b")))

	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	less := was
	less.Cur = uint64(fd) + 30
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &less))
	var all []*os.File
	defer func() {
		for _, f := range all {
			_ = f.Close()
		}
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	}()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		all = append(all, f)
	}
	time.Sleep(2 * pace) // a look at the pipe asks for none

	must(t, unix.Connect(fd, &unix.SockaddrUnix{Name: w.socket()}))
	body := fmt.Sprintf(`{"File":%q}`, l.File)
	_, err = unix.Write(fd, fmt.Appendf(nil, "POST /LogDriver.StopLogging HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	must(t, err)
	answer := make([]byte, 1000)
	n, err := unix.Read(fd, answer)
	must(t, err)
	if !strings.Contains(string(answer[:n]), "200 OK") {
		t.Errorf("the answer is %q", answer[:n])
	}
	eventually(t, "both events", func() bool { return len(w.events(id(1))) == 2 })
	eventually(t, "the end of the session", func() bool { return len(p.Sessions()) == 0 })
}
