//go:build linux

package docker

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/input/docker/dockertest"
	"weir/internal/input/docker/lines"
)

// TestStopWithATornFrame does not wait for the rest of it.
func TestStopWithATornFrame(t *testing.T) {
	w := newWorld(t)
	w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	f := line(2, "torn")
	must(t, l.Write(line(1, "a")))
	must(t, l.WriteRaw(f.Bytes()[:15]))
	must(t, l.Stop())
	eventually(t, "the line and the loss", func() bool { return reflect.DeepEqual(w.messages(id(1)), []string{"a", "<1 lost>"}) })
}

// TestRestOfAFrame comes later, after more than one look.
func TestRestOfAFrame(t *testing.T) {
	w := newWorld(t)
	p := w.start(fast)
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	f := line(2, strings.Repeat("x", 9000))
	b := f.Bytes()
	must(t, l.Write(line(1, "a")))
	for len(b) > 0 {
		n := min(len(b), 1500)
		must(t, l.WriteRaw(b[:n]))
		b = b[n:]
		if len(b) > 0 {
			eventually(t, "the line before", func() bool { return p.Totals().Frames == 1 })
		}
	}
	eventually(t, "the long line", func() bool { return len(w.events(id(1))) == 2 })
	must(t, l.Stop())
	if c := p.Totals(); c.Lost != 0 {
		t.Errorf("totals %+v", c)
	}
}

// TestSessionsOfOneContainerKeepTheirOrder when both are taken over: the older one gives
// what it holds first.
func TestSessionsOfOneContainerKeepTheirOrder(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	multi := info(1, "awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=3600")
	old, err := w.engine.Start(id(100), multi)
	must(t, err)
	must(t, old.Write(line(1, "!old")))
	eventually(t, "an empty pipe", func() bool { return old.Waiting() == 0 })
	next, err := w.engine.Start(id(101), multi)
	must(t, err)
	p.mu.Lock()
	p.die = func(string, stage) bool { return true } // from here on nothing is done any more
	p.mu.Unlock()
	must(t, next.Write(line(2, "!new"), line(3, "!newer")))
	must(t, old.Vanish())
	eventually(t, "death", p.isDead)
	p.sigkill()
	w.start()
	eventually(t, "events", func() bool { return len(w.events(id(1))) == 2 })
	must(t, next.Stop())
	if got := w.messages(id(1)); !reflect.DeepEqual(got, []string{"!old\n", "!new\n", "!newer\n"}) {
		t.Errorf("events %q", got)
	}
	if _, err := os.Stat(old.File); !os.IsNotExist(err) {
		t.Errorf("the old pipe: %v", err)
	}
}

// TestALongLine is as the engine cuts a megabyte, on both streams at once.
func TestALongLine(t *testing.T) {
	w := newWorld(t)
	w.start()
	l, err := w.engine.Start(id(100), info(1, "weir-stderr-stream=e"))
	must(t, err)
	text := []byte(strings.Repeat("0123456789abcdef", 1<<16))
	out := dockertest.Cut("stdout", base, text, "o", 16<<10, true)
	errs := dockertest.Cut("stderr", base+1, text, "e", 16<<10, false)
	for i := range out {
		must(t, l.Write(out[i]))
		if i < len(errs) {
			must(t, l.Write(errs[i]))
		}
	}
	must(t, l.Stop())
	var got [2]strings.Builder
	for _, e := range w.events(id(1)) {
		i := 0
		if e.tag == "g\x00e" {
			i = 1
		}
		got[i].WriteString(e.message)
		if len(e.message) > lines.DefaultEventSize {
			t.Errorf("an event of %d bytes", len(e.message))
		}
	}
	for i := range got {
		if got[i].String() != string(text) {
			t.Errorf("stream %d: %d bytes, want %d", i, got[i].Len(), len(text))
		}
	}
}

// TestDueIgnoresTheClock measures what lines.Due says on a clock that does not step.
func TestDueIgnoresTheClock(t *testing.T) {
	s := &session{due: lines.Never}
	now := time.Now()
	s.dueIn(now.Add(5*time.Second).UnixNano(), now)
	if got := s.dueAt.Sub(now).Round(time.Millisecond); got != 5*time.Second {
		t.Errorf("due in %v", got)
	}
	s.dueIn(now.Add(-time.Hour).UnixNano(), now)
	if got := s.dueAt.Sub(now); got != pace {
		t.Errorf("what is long due comes in %v, so that nobody turns in circles", got)
	}
}

// A line and the end of its container may both come just after a look that found nothing.
func TestWrittenAfterTheLastLook(t *testing.T) {
	w := newWorld(t)
	began := make(chan struct{})
	var l *dockertest.Logger
	stopped := make(chan error, 1)
	once := false
	p := w.start(func(p *process, _ *Options) {
		p.die = func(key string, at stage) bool {
			if at != stageEmpty || once {
				return false
			}
			once = true
			<-began
			if err := l.Write(line(0, "last")); err != nil {
				t.Error(err)
			}
			go func() { stopped <- l.Stop() }()
			p.Plugin.mu.Lock()
			s := p.sessions[key]
			p.Plugin.mu.Unlock()
			<-s.stop
			return false
		}
	})
	var err error
	l, err = w.engine.Start(id(100), info(1))
	must(t, err)
	close(began)
	must(t, <-stopped)
	if got := w.messages(id(1)); !slices.Equal(got, []string{"last"}) {
		t.Errorf("got %q", got)
	}
	p.stop()
}

// TestLossIsBookedOnce kills the process after it has booked a loss and before anything that
// stands behind it is stored: the next one finds the same bytes in the pipe.
func TestLossIsBookedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		kill    func(p *process)
		want    []string
	}{
		"events behind": {nil, func(p *process) { p.putMax = func(int) int { return 0 } }, []string{"<1 lost>", "!a", "b"}},
		"lines behind that are held": {[]string{"awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=3600"},
			func(p *process) { p.die = func(_ string, s stage) bool { return s == stageStored } }, []string{"<1 lost>", "!a\nb\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.start()
			l, err := w.engine.Start(id(100), info(1, c.options...))
			must(t, err)
			p.mu.Lock()
			c.kill(p)
			p.mu.Unlock()
			torn, a, b := line(1, strings.Repeat("x", 300)), line(2, "!a"), line(3, "b")
			must(t, l.WriteRaw(slices.Concat(torn.Bytes()[100:], a.Bytes(), b.Bytes())))
			eventually(t, "a death", p.isDead)
			p.sigkill()
			w.start()
			must(t, l.Stop())
			eventually(t, "the last line", func() bool { return slices.Contains(w.messages(id(1)), c.want[len(c.want)-1]) })
			if got := w.messages(id(1)); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
