//go:build linux

package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/input/docker/dockertest"
	"weir/internal/vfs/vfstest"
)

func TestRestartGoesOn(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, l.Write(line(1, "a")))
	eventually(t, "a", func() bool { return len(w.events(id(1))) == 1 })
	since := p.Sessions()[0].Since
	p.stop()
	must(t, l.Write(line(2, "b"))) // nobody reads
	p = w.start()
	eventually(t, "b", func() bool { return len(w.events(id(1))) == 2 })
	s := p.Sessions()
	if len(s) != 1 || !s[0].Since.Equal(since) || s[0].Container.Name != "c1" || s[0].Container.Options.Group != "g" {
		t.Errorf("sessions %+v", s)
	}
	must(t, l.Write(line(3, "c")))
	must(t, l.Stop())
	if got := w.messages(id(1)); !reflect.DeepEqual(got, []string{"a", "b", "c"}) {
		t.Errorf("events %q", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.spool(id(1)); s.opens != 2 || s.released != 2 {
		t.Errorf("%d opens, %d releases", s.opens, s.released)
	}
}

// TestPipeCannotBeOpened is a pipe that is there and cannot be opened for some time.
func TestPipeCannotBeOpened(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	p.stop()
	must(t, os.Rename(l.File, l.File+"x"))
	must(t, os.Symlink(l.File+"x", l.File)) // links are not followed
	w.start()
	must(t, l.Write(line(1, "a")))
	eventually(t, "a warning", func() bool { return strings.Contains(w.log(), "it may have to wait") })
	must(t, os.Rename(l.File+"x", l.File))
	eventually(t, "the event", func() bool { return len(w.events(id(1))) == 1 })
	must(t, l.Stop())
}

// TestStaleSessions are those whose pipe has gone, or has no writer any more: the host was
// started anew, or Docker was.
func TestStaleSessions(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	var all []*dockertest.Logger
	for i := range 2 {
		l, err := w.engine.Start(id(100+i), info(i, "awslogs-multiline-pattern=^!"))
		must(t, err)
		must(t, l.Write(line(1, "!held")))
		eventually(t, "an empty pipe", func() bool { return l.Waiting() == 0 })
		all = append(all, l)
	}
	p.sigkill()
	must(t, all[0].Vanish())
	must(t, all[1].Vanish())
	must(t, os.Remove(all[1].File))
	p = w.start()
	for i := range 2 {
		eventually(t, "what was held", func() bool { return len(w.events(id(i))) == 1 })
	}
	eventually(t, "no sessions", func() bool { return len(p.Sessions()) == 0 })
	if names, _ := w.disk.List("sessions"); len(names) > 0 {
		t.Errorf("files that are left: %v", names)
	}
	if _, err := os.Stat(all[0].File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pipe without a writer: %v", err)
	}
}

func TestDamagedSessionHurtsOnlyItself(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	bad, err := w.engine.Start(id(100), info(1))
	must(t, err)
	good, err := w.engine.Start(id(101), info(2))
	must(t, err)
	p.stop()
	w.disk.Damage("sessions/"+id(100)+".json", []byte("{"))
	w.start()
	// More than a pipe holds: nobody may be made to wait.
	for i := range 2000 {
		must(t, bad.Write(line(i, strings.Repeat("x", 1000))))
	}
	must(t, good.Write(line(1, "a")))
	must(t, good.Stop())
	must(t, bad.Stop())
	if got := w.messages(id(2)); len(got) != 1 {
		t.Errorf("the other container: %q", got)
	}
	eventually(t, "the end to be told", func() bool { return strings.Contains(w.log(), "lines=2000") })
	if n := strings.Count(w.log(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors in the log:\n%s", n, w.log())
	}
	if w.disk.Contents("sessions/"+id(100)+".damaged") == nil {
		t.Error("the damaged session was not set aside")
	}
}

// TestSpoolCannotBeOpened is a spool that fails when a session is taken over. The container
// goes on; what does not fit into its pipe is booked.
func TestSpoolCannotBeOpened(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	p.stop()
	p = w.start(func(p *process, _ *Options) { p.open = errDisk })
	const n = 3000
	for i := range n {
		must(t, l.Write(line(i, fmt.Sprintf("%04d%s", i, strings.Repeat("x", 1000)))))
	}
	p.mu.Lock()
	p.open = nil
	p.mu.Unlock()
	eventually(t, "the last line", func() bool {
		got := w.messages(id(1))
		return len(got) > 0 && strings.HasPrefix(got[len(got)-1], fmt.Sprintf("%04d", n-1))
	})
	must(t, l.Stop())
	got := w.events(id(1))
	if got[0].lost == 0 || int(got[0].lost)+len(got)-1 != n {
		t.Errorf("%d lost and %d stored of %d", got[0].lost, len(got)-1, n)
	}
	if n := strings.Count(w.log(), "cannot be opened"); n != 2 { // its beginning, and the sum
		if n = strings.Count(w.log(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings:\n%s", n, w.log())
		}
	}
}

func TestSessionCannotBeStored(t *testing.T) {
	w := newWorld(t)
	w.disk.Inject(vfstest.Fault{Op: vfstest.Create, Err: unix.ENOSPC})
	p := w.start()
	for i := range 3 {
		l, err := w.engine.Start(id(100+i), info(1))
		must(t, err)
		must(t, l.Write(line(i, "a")))
		must(t, l.Stop())
	}
	if n := len(w.events(id(1))); n != 3 {
		t.Errorf("%d events", n)
	}
	w.disk.Heal()
	l, err := w.engine.Start(id(105), info(1))
	must(t, err)
	must(t, l.Stop())
	if n := strings.Count(w.log(), "sessions of containers cannot be stored"); n != 1 || !strings.Contains(w.log(), "failures=3") {
		t.Errorf("log:\n%s", w.log())
	}
	p.stop()
}

func TestHeldCannotBeStored(t *testing.T) {
	w := newWorld(t)
	w.start(fast)
	l, err := w.engine.Start(id(100), info(1, "awslogs-multiline-pattern=^!"))
	must(t, err)
	w.disk.Inject(vfstest.Fault{Op: vfstest.Create, Err: unix.ENOSPC})
	for i := range 4 {
		must(t, l.Write(line(i, "!a")))
		eventually(t, "an empty pipe", func() bool { return l.Waiting() == 0 })
	}
	w.disk.Heal()
	must(t, l.Stop())
	if n := len(w.events(id(1))); n != 4 {
		t.Errorf("%d events", n)
	}
	if n := strings.Count(w.log(), "level=WARN"); n != 1 {
		t.Errorf("log:\n%s", w.log())
	}
}

func TestStrayPipes(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	for _, managed := range []bool{false, true} {
		t.Run(fmt.Sprint(managed), func(t *testing.T) {
			w := newWorld(t)
			var kept []*dockertest.Logger
			make := func(n int, age time.Time, open bool) string {
				l, err := w.engine.Make(id(n))
				must(t, err)
				if open {
					kept = append(kept, l)
				} else {
					must(t, l.Vanish())
				}
				must(t, os.Chtimes(l.File, age, age))
				return l.File
			}
			stray, young, writer := make(1, old, false), make(2, time.Now(), false), make(3, old, true)
			other := filepath.Join(w.pipes(), "other")
			must(t, unix.Mkfifo(other, 0o600))
			file := filepath.Join(w.pipes(), id(4))
			must(t, os.WriteFile(file, []byte("x"), 0o600))
			for _, path := range []string{other, file} {
				must(t, os.Chtimes(path, old, old))
			}
			p := w.start(func(_ *process, o *Options) { o.Managed = managed })
			eventually(t, "the plugin to answer", func() bool { _, _, err := w.engine.Call("Plugin.Activate", nil); return err == nil })
			if managed {
				eventually(t, "the stray pipe to go", func() bool { _, err := os.Stat(stray); return errors.Is(err, os.ErrNotExist) })
				for i := range 1000 {
					must(t, kept[0].Write(line(i, strings.Repeat("x", 1000))))
				}
			}
			p.stop()
			for _, path := range []string{young, writer, other, file} {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Stat(stray); (err != nil) != managed {
				t.Errorf("the stray pipe: %v", err)
			}
			must(t, kept[0].Vanish())
		})
	}
}

// TestManyContainers comes and goes, and leaves nothing behind.
func TestManyContainers(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	files := func() int {
		e, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(e)
	}
	before := 0
	for round := range 4 {
		var all []*dockertest.Logger
		for i := range 50 {
			l, err := w.engine.Start(id(1000*round+i), info(i))
			must(t, err)
			must(t, l.Write(line(1, "a"), line(2, "b")))
			all = append(all, l)
		}
		for i, l := range all {
			if i%2 == 0 {
				must(t, l.Stop())
			} else {
				must(t, l.Vanish())
			}
		}
		eventually(t, "no sessions", func() bool { return len(p.Sessions()) == 0 })
		if round == 0 {
			before = files()
		}
	}
	if after := files(); after > before+4 {
		t.Errorf("%d descriptors after one round, %d after four", before, after)
	}
	if c := p.Totals(); c.Events != 400 {
		t.Errorf("totals %+v", c)
	}
	if len(p.sessions) > 0 || len(p.order) > 0 || p.pipeSum != 0 {
		t.Errorf("%d sessions, %d in order, %d bytes of pipes", len(p.sessions), len(p.order), p.pipeSum)
	}
	if names, _ := w.disk.List("sessions"); len(names) > 0 {
		t.Errorf("files that are left: %v", names)
	}
}
