//go:build linux

package docker

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/input/docker/dockertest"
)

// writer is a container, and knows which events its lines make.
type writer struct {
	w     *world
	l     *dockertest.Logger
	multi bool // events begin with !
	two   bool // stderr has a stream of its own

	n      int
	chain  [2]*chain // open lines of stdout and stderr
	joined [2]string // events that may still grow
	want   [2][]string
}

type chain struct {
	id      string
	text    string
	time    int64
	ordinal int
}

func (c *writer) options() (o []string) {
	if c.multi {
		o = append(o, "awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=3600")
	}
	if c.two {
		o = append(o, "weir-stderr-stream=e")
	}
	return o
}

func (c *writer) tag(source int) int {
	if c.two {
		return source
	}
	return 0
}

var sources = [2]string{"stdout", "stderr"}

// write writes one line, or a chunk of one.
func (c *writer) write(source int, begins, partial, last bool, pad int) {
	c.n++
	text := fmt.Sprintf("%d%s", c.n, strings.Repeat(".", pad))
	if begins && c.chain[source] == nil {
		text = "!" + text
	}
	f := dockertest.Frame{Source: sources[source], Time: base + int64(c.n), Line: []byte(text)}
	ch := c.chain[source]
	if ch == nil && partial {
		ch = &chain{id: fmt.Sprint(c.n), time: f.Time}
		c.chain[source], last = ch, false
	}
	if ch != nil {
		ch.text += text
		ch.ordinal++
		f.Partial, f.ID, f.Ordinal, f.Last, f.Time = true, ch.id, ch.ordinal, last, ch.time
		if last {
			c.chain[source] = nil
			c.complete(source, ch.text)
		}
	} else {
		c.complete(source, text)
	}
	must(c.w.tb, c.l.Write(f))
}

func (c *writer) complete(source int, text string) {
	tag := c.tag(source)
	if !c.multi {
		c.want[tag] = append(c.want[tag], text)
		return
	}
	if text[0] == '!' {
		c.flush(tag)
	}
	c.joined[tag] += text + "\n"
}

func (c *writer) flush(tag int) {
	if c.joined[tag] != "" {
		c.want[tag] = append(c.want[tag], c.joined[tag])
		c.joined[tag] = ""
	}
}

// end is the end of the stream.
func (c *writer) end() {
	first := 0
	if c.chain[0] == nil || c.chain[1] != nil && c.chain[1].time < c.chain[0].time {
		first = 1
	}
	for _, source := range []int{first, 1 - first} {
		if ch := c.chain[source]; ch != nil {
			c.complete(source, ch.text)
		}
	}
	c.flush(0)
	c.flush(1)
}

// check compares what the spool has.
func (c *writer) check(tb interface {
	Errorf(string, ...any)
	Helper()
}) {
	tb.Helper()
	var got [2][]string
	for _, e := range c.w.events(id(1)) {
		switch {
		case e.lost > 0:
			tb.Errorf("a loss of %d events and %d bytes is booked", e.lost, e.bytes)
		case e.tag == "g\x00e":
			got[1] = append(got[1], e.message)
		default:
			got[0] = append(got[0], e.message)
		}
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], c.want[i]) {
			tb.Errorf("stream %d: got %d events, want %d\ngot  %.300q\nwant %.300q", i, len(got[i]), len(c.want[i]), got[i], c.want[i])
		}
	}
}

func fast(_ *process, o *Options) { o.pace = time.Millisecond }

// TestKilledAtEachStage kills the process at each stage for the first and second time, in
// the middle of a stream and at its end.
func TestKilledAtEachStage(t *testing.T) {
	for _, multi := range []bool{false, true} {
		for _, two := range []bool{false, true} {
			for at := range stages {
				for _, nth := range []int{1, 3} {
					t.Run(fmt.Sprintf("multi=%v/two=%v/stage=%d/%d", multi, two, at, nth), func(t *testing.T) {
						t.Parallel()
						testKilled(t, multi, two, at, nth)
					})
				}
			}
		}
	}
}

func testKilled(t *testing.T, multi, two bool, at stage, nth int) {
	w := newWorld(t)
	p := w.start(fast)
	c := &writer{w: w, multi: multi, two: two}
	var err error
	c.l, err = w.engine.Start(id(100), info(1, c.options()...))
	must(t, err)
	left := nth
	p.mu.Lock()
	p.die = func(_ string, s stage) bool {
		if s == at {
			left--
		}
		return left == 0
	}
	p.mu.Unlock()
	rnd := rand.New(rand.NewPCG(uint64(at), uint64(nth)))
	for range 6 {
		for range 20 {
			c.write(rnd.IntN(2), rnd.IntN(3) == 0, rnd.IntN(3) == 0, rnd.IntN(2) == 0, rnd.IntN(300))
		}
		eventually(t, "the pipe to be empty, or a death", func() bool { return p.isDead() || c.l.Waiting() == 0 })
		if p.isDead() {
			p.sigkill()
			p = w.start(fast)
		}
	}
	c.end()
	stopped := c.l.Stop() == nil
	if p.isDead() { // while Docker waited
		if stopped {
			t.Error("StopLogging was answered by a process that had been killed")
		}
		p.sigkill()
		p = w.start(fast)
		must(t, c.l.Vanish())
	}
	eventually(t, "the end of the session", func() bool { return len(p.Sessions()) == 0 })
	c.check(t)
}

// TestKilledWhileFlushing kills at the stages of a flush that the clock asks for.
func TestKilledWhileFlushing(t *testing.T) {
	for _, at := range []stage{stageFlushing, stageFlushed, stageFlushHeld} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.start(fast, func(p *process, _ *Options) { p.die = func(_ string, s stage) bool { return s == at } })
			l, err := w.engine.Start(id(100), info(1, "awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=1"))
			must(t, err)
			must(t, l.Write(line(1, "!a"), line(2, "b")))
			eventually(t, "death", p.isDead)
			must(t, l.Write(line(3, "!c")))
			p.sigkill()
			w.start(fast)
			eventually(t, "two events", func() bool { return len(w.events(id(1))) >= 2 })
			must(t, l.Stop())
			if got := w.messages(id(1)); !reflect.DeepEqual(got, []string{"!a\nb\n", "!c\n"}) {
				t.Errorf("events %q", got)
			}
		})
	}
}

// TestKilledAroundALoss has chunks missing in the middle of a look. The loss is booked once
// and stands at its place, unless the process dies between it and what follows.
func TestKilledAroundALoss(t *testing.T) {
	for at := range stageFlushing {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			w := newWorld(t)
			p := w.start(fast, func(p *process, _ *Options) { p.die = func(_ string, s stage) bool { return s == at } })
			l, err := w.engine.Make(id(100))
			must(t, err)
			chunk := func(ordinal int, text string) dockertest.Frame {
				return dockertest.Frame{Source: "stdout", Time: base, Line: []byte(text), Partial: true, ID: "x", Ordinal: ordinal, Last: ordinal == 4}
			}
			must(t, l.Write(line(1, "a"), chunk(1, "p"), chunk(3, "q"), line(2, "b")))
			must(t, l.WriteRaw([]byte("garbage, and more of it")))
			must(t, l.Write(line(3, "c"), line(4, "d")))
			must(t, l.Announce(info(1)))
			eventually(t, "death", p.isDead)
			p.sigkill()
			w.start(fast)
			must(t, l.Stop())
			want := []string{"a", "p", "<1 lost>", "q", "<1 lost>", "b", "<1 lost>", "c", "d"}
			if got := w.messages(id(1)); !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestKilledOften is a model: whatever a container writes, and whenever the plugin is
// killed or stopped, each event is in the spool once, in order.
func TestKilledOften(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		p := w.start(fast)
		c := &writer{w: w, multi: rapid.Bool().Draw(r, "multi"), two: rapid.Bool().Draw(r, "two")}
		var err error
		c.l, err = w.engine.Start(id(100), info(1, c.options()...))
		must(t, err)
		defer func() { p.stop() }()
		revive := func() {
			p.sigkill()
			p = w.start(fast)
		}
		for range rapid.IntRange(1, 12).Draw(r, "rounds") {
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0:
				at, left := stage(rapid.IntRange(0, int(stages)-1).Draw(r, "stage")), rapid.IntRange(1, 3).Draw(r, "nth")
				p.mu.Lock()
				p.die = func(_ string, s stage) bool {
					if s == at {
						left--
					}
					return left == 0
				}
				p.mu.Unlock()
			case 1:
				most := rapid.IntRange(0, 1).Draw(r, "most")
				p.mu.Lock()
				p.putMax = func(n int) int { return min(most, n) }
				p.mu.Unlock()
			case 2:
				revive()
			case 3:
				p.stop()
				p = w.start(fast)
			}
			for range rapid.IntRange(1, 30).Draw(r, "lines") {
				c.write(rapid.IntRange(0, 1).Draw(r, "source"), rapid.Bool().Draw(r, "begins"), rapid.Bool().Draw(r, "partial"),
					rapid.Bool().Draw(r, "last"), rapid.IntRange(0, 700).Draw(r, "pad"))
			}
			if rapid.Bool().Draw(r, "settle") {
				eventually(t, "the pipe to be empty, or a death", func() bool { return p.isDead() || c.l.Waiting() == 0 })
			}
			if p.isDead() {
				revive()
			}
		}
		c.end()
		stopped := false
		if rapid.Bool().Draw(r, "stop") {
			err := c.l.Stop()
			if stopped = err == nil; !stopped && !p.isDead() {
				r.Errorf("StopLogging: %v", err)
			}
		}
		if !stopped {
			// What is in a pipe ends with its last user: no more deaths from here on.
			p.mu.Lock()
			p.die, p.putMax = nil, nil
			p.mu.Unlock()
			if p.isDead() {
				revive()
			}
			must(t, c.l.Vanish())
		}
		eventually(t, "the end of the session", func() bool {
			if p.isDead() {
				revive()
			}
			return len(p.Sessions()) == 0
		})
		c.check(r)
	})
}
