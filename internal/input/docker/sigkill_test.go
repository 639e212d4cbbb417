//go:build linux

package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/dockertest"
	"weir/internal/ledger"
)

// spoolEnv makes the test binary a plugin that stores into that directory.
const spoolEnv = "WEIR_TEST_DOCKER_PLUGIN"

// fileHost has a spool that is a file, to which each Put appends once.
type fileHost struct{ path string }

type fileSpool struct {
	f      *os.File
	chunks []event.Chunk
	buf    []byte
}

func (h fileHost) Open(*Container) (Spool, error) {
	f, err := os.OpenFile(h.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	s := &fileSpool{f: f}
	b, err := os.ReadFile(h.path)
	whole := eachStored(b, func(c event.Chunk, _ []byte) { s.chunks = append(s.chunks, c) })
	s.chunks = s.chunks[max(0, len(s.chunks)-64):]
	if err == nil {
		err = f.Truncate(int64(whole)) // a Put that was killed in the middle
	}
	return s, err
}

// eachStored reads what Put wrote and gives the size of what is whole.
func eachStored(b []byte, f func(event.Chunk, []byte)) int {
	at := 0
	for len(b)-at >= 20 {
		n := int(binary.BigEndian.Uint32(b[at+16:]))
		if len(b)-at-20 < n {
			break
		}
		f(event.Chunk(b[at:at+16]), b[at+20:at+20+n])
		at += 20 + n
	}
	return at
}

func (s *fileSpool) Put(_ context.Context, batches []event.Batch) error {
	s.buf = s.buf[:0]
	for _, b := range batches {
		s.buf = append(s.buf, b.Chunk[:]...)
		s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(b.Entries)))
		s.buf = append(s.buf, b.Entries...)
	}
	_, err := s.f.Write(s.buf)
	return err
}

func (s *fileSpool) Miss(_ event.Chunk, tag string, _ ledger.Reason, events, bytes uint64, _, _ event.Time) {
	panic(fmt.Sprintf("%d events, %d bytes lost of %s", events, bytes, tag))
}
func (s *fileSpool) Chunks() []event.Chunk { return s.chunks }
func (s *fileSpool) Release()              { _ = s.f.Close() }

// TestPluginProcess is the process that TestSigkill kills.
func TestPluginProcess(t *testing.T) {
	dir := os.Getenv(spoolEnv)
	if dir == "" {
		return // TestSigkill starts it
	}
	p := New(Options{
		Socket: filepath.Join(dir, "weir.sock"), State: filepath.Join(dir, "sessions"), Pipes: dir,
		Host: fileHost{filepath.Join(dir, "spool")}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, p.Open())
	must(t, p.Run(context.Background()))
}

// TestSigkill kills a real process, by the real signal, while lines, long lines and
// multi-line events pass.
func TestSigkill(t *testing.T) {
	for _, multi := range []bool{false, true} {
		t.Run(fmt.Sprint(multi), func(t *testing.T) { testSigkill(t, multi) })
	}
}

func testSigkill(t *testing.T, multi bool) {
	dir, err := os.MkdirTemp("", "weir")
	must(t, err)
	defer os.RemoveAll(dir)
	var stderr bytes.Buffer
	begin := func() *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^TestPluginProcess$")
		c.Env, c.Stderr = append(os.Environ(), spoolEnv+"="+dir), &stderr
		must(t, c.Start())
		return c
	}
	end := func(c *exec.Cmd) {
		must(t, c.Process.Kill())
		_ = c.Wait()
	}
	plugin := begin()
	e := dockertest.New(dir, filepath.Join(dir, "weir.sock"))
	e.Retry = 10 * time.Second
	eventually(t, "the plugin to answer", func() bool { _, _, err := e.Call("Plugin.Activate", nil); return err == nil })
	var options []string
	if multi {
		options = []string{"awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=3600"}
	}
	l, err := e.Start(id(1), info(1, options...))
	must(t, err)

	const lines = 150_000
	written := make(chan error)
	go func() {
		var err error
		for i := 0; i < lines && err == nil; i++ {
			text := fmt.Sprintf("!%d %s", i, strings.Repeat(".", i%200))
			if i%50 == 0 { // in three chunks
				for n, part := range []string{text[:1], text[1:], ""} {
					f := line(i, part)
					f.Partial, f.ID, f.Ordinal, f.Last = true, text, n+1, n == 2
					err = l.Write(f)
				}
			} else {
				err = l.Write(line(i, text))
			}
		}
		written <- err
	}()
	kills := 0
	for writing := true; writing; {
		wait := time.Duration(1+kills*7%40) * time.Millisecond // some moment of the kernel's time
		if kills == 60 {
			wait = time.Hour // a slow machine is to come to an end too
		}
		select {
		case err := <-written:
			must(t, err)
			writing = false
		case <-time.After(wait):
			end(plugin)
			plugin = begin()
			kills++
			if kills%3 == 0 { // long enough for it to get somewhere
				_, _, err := e.Call("Plugin.Activate", nil)
				must(t, err)
			}
		}
	}
	t.Logf("killed %d times", kills)
	if kills < 3 {
		t.Error("too seldom to tell anything")
	}
	eventually(t, "the plugin to answer", func() bool { _, _, err := e.Call("Plugin.Activate", nil); return err == nil })
	must(t, l.Stop())
	end(plugin)

	b, err := os.ReadFile(filepath.Join(dir, "spool"))
	must(t, err)
	next := 0
	eachStored(b, func(_ event.Chunk, entries []byte) {
		for len(entries) > 0 {
			e, n, err := event.Next(entries)
			must(t, err)
			entries = entries[n:]
			got := messageOf(e.Record)
			want := fmt.Sprintf("!%d %s", next, strings.Repeat(".", next%200))
			if multi {
				want += "\n"
			}
			if got != want {
				t.Fatalf("event %d is %.60q, want %.60q\n%s", next, got, want, stderr.String())
			}
			next++
		}
	})
	if next != lines {
		t.Errorf("%d events, want %d\n%s", next, lines, stderr.String())
	}
}
