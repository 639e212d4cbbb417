package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestReloadUnderLoadLosesNothing(t *testing.T) {
	s := cloud(t)
	dir := filepath.Join(t.TempDir(), "buf")
	r := start(t, forwardIn+cloudMatch(s.URL(), dir, ""))
	addr := r.addr(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	sent := make([]int, 4)
	for c := range sent {
		wg.Go(func() {
			var sn *sender
			for {
				select {
				case <-done:
					if sn != nil {
						_ = sn.c.Close()
					}
					return
				default:
				}
				if sn == nil {
					var err error
					if sn, err = dial(addr); err != nil {
						t.Error(err)
						return
					}
				}
				if err := sn.send(fmt.Sprint("app", c), "n", sent[c], 10); err != nil {
					t.Errorf("a batch was not acknowledged: %v", err)
					return
				}
				sent[c] += 10
			}
		})
	}
	for i := range 12 {
		more := ""
		if i%2 == 0 {
			more = "concurrency " + strconv.Itoa(2+i%3) // a changed output takes over the buffer
		}
		in := forwardIn
		if i%3 == 1 {
			in += fmt.Sprintf("<filter none%d>\n@type grep\n</filter>\n", i) // other routes
		}
		if err := r.Reload(r.load(in + cloudMatch(s.URL(), dir, more))); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Millisecond) // load between reloads
	}
	close(done)
	wg.Wait()
	r.stop(10 * time.Second)
	for c, n := range sent {
		if n == 0 {
			t.Error("nothing was sent")
		}
		checkSequence(t, s, fmt.Sprint("app", c), "n", n)
	}
	if sum := r.Totals(); sum.Pending() != 0 || sum.Delivered != sum.Admitted {
		t.Errorf("%+v", sum)
	}
}

func TestReloadAllOrNothing(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, freePort, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := "<match **>\n@type stdout\n</match>\n"
	r := start(t, forwardIn+out)
	source := func(id, port string) string {
		return fmt.Sprintf("<source>\n@type forward\n@id %s\nport %s\nbind 127.0.0.1\n</source>\n", id, port)
	}
	fileOut := func(path string) string {
		return fmt.Sprintf("<match a.**>\n@type stdout\n<buffer>\n@type file\npath %s\nmin_free_space 0\n</buffer>\n</match>\n", path)
	}
	for name, text := range map[string]string{
		"port":   source("new", freePort) + source("taken", port) + out,
		"buffer": source("new", freePort) + fileOut(filepath.Join(dir, "good")) + fileOut(filepath.Join(blocked, "x")) + out,
	} {
		if err := r.Reload(r.load(forwardIn + text)); err == nil {
			t.Errorf("%s: the reload succeeded", name)
		}
		if c, err := net.Dial("tcp", "127.0.0.1:"+freePort); err == nil {
			_ = c.Close()
			t.Errorf("%s: the new port is open after a reload that failed", name)
		}
		mustSend(t, r.addr(0), "x", name, 0, 5)
	}
	// What was opened was closed again: the same works now.
	if err := r.Reload(r.load(forwardIn + source("new", freePort) + fileOut(filepath.Join(dir, "good")) + out)); err != nil {
		t.Fatal(err)
	}
	mustSend(t, "127.0.0.1:"+freePort, "x", "last", 0, 5)
	r.stop(10 * time.Second)
	if n := strings.Count(r.out.String(), "\n"); n != 15 {
		t.Errorf("%d lines, want 15:\n%s", n, r.out.String())
	}
}

func TestReloadThatRemovesALabelAndItsSource(t *testing.T) {
	t.Parallel()
	second := "<source>\n@type forward\n@id two\nport 0\nbind 127.0.0.1\n@label @L\n</source>\n<label @L>\n<match **>\n@type stdout\n@id lout\n</match>\n</label>\n"
	rest := "<match **>\n@type stdout\n@id out\n</match>\n"
	r := start(t, forwardIn+second+rest)
	sn, err := dial(r.addr(1))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	if err := sn.send("a", "before", 0, 5); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // the connection is served to its end, or closed: never half
		for i := range 1000 {
			if sn.send("a", "during", i, 1) != nil {
				return
			}
		}
	})
	if err := r.Reload(r.load(forwardIn + rest)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	mustSend(t, r.addr(0), "a", "after", 0, 5)
	r.stop(10 * time.Second)
	if strings.Contains(r.log.String(), "panic") || r.unmatchedEvents() != 0 {
		t.Errorf("%d events had no way any more", r.unmatchedEvents())
	}
}

func TestMemoryBufferStaysWithItsOutput(t *testing.T) {
	match := func(tag, path string) string {
		return fmt.Sprintf("<match %s>\n@type file\npath %s\nappend true\n<buffer>\nflush_mode interval\nflush_interval 1h\n</buffer>\n<format>\n@type single_value\n</format>\n</match>\n", tag, path)
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	r := start(t, forwardIn+match("one", one)+match("two", two))
	mustSend(t, r.addr(0), "one", "for one", 0, 5)
	mustSend(t, r.addr(0), "two", "for two", 0, 5)
	// A third output before them changes their numbers, not their events.
	if err := r.Reload(r.load(forwardIn + match("new", filepath.Join(dir, "new")) + match("one", one) + match("two", two))); err != nil {
		t.Fatal(err)
	}
	r.stop(10 * time.Second)
	for _, name := range []string{"one", "two", "new"} {
		var text []byte
		files, _ := filepath.Glob(filepath.Join(dir, name+"*"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		want := 5
		if name == "new" {
			want = 0
		}
		if n := bytes.Count(text, []byte("for "+name)); n != want || bytes.Count(text, []byte("\n")) != want {
			t.Errorf("%s has:\n%s", name, text)
		}
	}
}

func TestRemovedOutputDeliversItsMemory(t *testing.T) {
	s := cloud(t)
	mem := strings.Replace(cloudMatch(s.URL(), "/nowhere", ""), "@type file\n    path /nowhere", "@type memory", 1)
	mem = strings.Replace(mem, "flush_interval 0.1s", "flush_interval 1h", 1)
	r := start(t, forwardIn+mem)
	mustSend(t, r.addr(0), "app", "n", 0, 50)
	// The buffer's type changes: what is in memory is delivered by the one that leaves.
	if err := r.Reload(r.load(forwardIn + cloudMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), ""))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the events of the old buffer arrive", func() bool { return len(s.Events("group", "app")) == 50 })
	mustSend(t, r.addr(0), "app", "n", 50, 50)
	r.stop(10 * time.Second)
	checkSequence(t, s, "app", "n", 100)
}

func TestEmitterWaitsForItsBatches(t *testing.T) {
	var e emitter
	e.set(nil)
	w := e.enter()
	old := e.set(nil)
	if old != w {
		t.Fatal("another way")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	old.wait(ctx)
	if ctx.Err() == nil {
		t.Error("it does not wait for a batch on its way")
	}
	w.calls.Add(-1)
	old.wait(context.Background())
}
