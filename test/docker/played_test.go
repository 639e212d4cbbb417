package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/player"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// stage is a plugin with a played engine: a process of its own, for which no root is needed, or
// the managed plugin of the engine that is lent, which plays along.
type stage struct {
	t     *testing.T
	dir   string // short; "" for the managed plugin
	emu   *emulator.Server
	gate  *gate
	e     *player.Engine
	http  string
	cmd   *exec.Cmd
	flags []string
	clock time.Time // of the frames that later has timed
}

// played runs a test with both kinds of plugin.
func played(t *testing.T, o emulator.Options, test func(t *testing.T, s *stage)) {
	t.Parallel()
	t.Run(string(v1), func(t *testing.T) {
		t.Parallel()
		test(t, newStage(t, o))
	})
	t.Run(string(managed), func(t *testing.T) {
		needEngine(t)
		t.Parallel()
		test(t, lent.rig(t, managed, o).stage())
	})
}

// stage is a played engine for the managed plugin, beside the real one. The plugin is for others
// too, so it is not killed.
func (r *rig) stage() *stage {
	r.t.Helper()
	id := r.docker("plugin", "inspect", "-f", "{{.Id}}", r.driver)
	e := player.New(filepath.Join(r.e.RunDir(), "plugins", id, "weir.sock"), filepath.Join(r.e.Dir, "data", "plugins", id, "propagated-mount"))
	e.Seen = "/run/docker/logging"
	return &stage{t: r.t, emu: r.emu, gate: r.gate, e: e, http: r.http}
}

func newStage(t *testing.T, o emulator.Options, flags ...string) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "wdp")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: dir, emu: weirtest.Endpoint(t, o), flags: flags}
	s.gate = newGate(t, s.emu.Addr())
	s.http = fmt.Sprintf("127.0.0.1:%d", weirtest.Port(t))
	pipes := filepath.Join(dir, "pipes")
	if err := os.Mkdir(pipes, 0o700); err != nil {
		t.Fatal(err)
	}
	s.e = player.New(filepath.Join(dir, "weir.sock"), pipes)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("end of the plugin's log:\n%s", b[max(0, len(b)-6000):])
		}
		_ = os.RemoveAll(dir)
	})
	s.start()
	return s
}

func (s *stage) start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(weirtest.Binary(), append([]string{"docker-plugin", "--socket", filepath.Join(s.dir, "weir.sock"),
		"--spool", filepath.Join(s.dir, "spool"), "--pipes", s.e.Dir, "--http", s.http}, s.flags...)...)
	s.cmd.Env = weirtest.CleanEnv()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	weirtest.Eventually(s.t, "the plugin answers", func() (string, bool) {
		err := s.e.Call("/LogDriver.Capabilities", nil, nil)
		return errText(err), err == nil
	})
}

func (s *stage) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed: the error says so
	s.cmd = nil
}

// options are the log options of a container, and more.
func (s *stage) options(stream string, more ...string) map[string]string {
	o := map[string]string{"awslogs-group": group, "awslogs-stream": stream, "awslogs-region": "eu-west-1",
		"awslogs-endpoint": s.gate.url(), "awslogs-create-group": "true", "awslogs-force-flush-interval-seconds": "1"}
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		o[key] = value
	}
	return o
}

// session starts the logging of a container.
func (s *stage) session(stream string, more ...string) *player.Session {
	s.t.Helper()
	p, err := s.e.Start(player.ContainerID(), stream, s.options(stream, more...))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// write writes frames of the lines from to to-1 of a stream, each a step after the other.
func (s *stage) write(p *player.Session, id string, from, to int, at time.Time, step time.Duration) {
	s.t.Helper()
	var b []byte
	for i := from; i < to; i++ {
		b = player.AppendFrame(b, player.Stdout, at.Add(time.Duration(i-from)*step), []byte(written.Line(id, i, 0)), nil)
	}
	if err := p.Full(time.Now().Add(weirtest.Patience)); err != nil {
		s.t.Fatal(err)
	}
	if err := p.Write(b); err != nil {
		s.t.Fatalf("the pipe of %s is not read: %v", id, err)
	}
}

// later is a time for the next frames: a second after the one before.
func (s *stage) later() time.Time {
	if s.clock.IsZero() {
		s.clock = time.Now().Add(-time.Minute)
	}
	s.clock = s.clock.Add(time.Second)
	return s.clock
}

func (s *stage) stop(p *player.Session) {
	s.t.Helper()
	begin := time.Now()
	if err := p.Stop(); err != nil {
		s.t.Error(err)
	}
	if took := time.Since(begin); took > promptly {
		s.t.Errorf("StopLogging took %s", took)
	}
}

// lines waits for n lines of a stream and wants each once and in order.
func (s *stage) lines(stream string, n int) *tally {
	s.t.Helper()
	var a *tally
	weirtest.Eventually(s.t, fmt.Sprintf("%s has %d lines", stream, n), func() (string, bool) {
		a = count(s.emu, stream, stream, 0, 1)
		return a.String(), a.lines >= n
	})
	if a.lines != n || a.missing+a.twice+a.disorder+len(a.other) > 0 {
		s.t.Errorf("%s: %s", stream, a)
	}
	return a
}

// TestThrottledCreation starts 200 containers at once against an account that may create 50
// streams a second.
func TestThrottledCreation(t *testing.T) {
	played(t, emulator.Options{Quotas: true}, throttledCreation)
}

func throttledCreation(t *testing.T, s *stage) {
	const n = 200
	var wg sync.WaitGroup
	var names []string
	for i := range n {
		name := fmt.Sprintf("s%03d", i)
		names = append(names, name)
		wg.Go(func() {
			p := s.session(name)
			s.write(p, name, 0, 20, time.Now(), time.Millisecond)
			s.stop(p)
		})
	}
	wg.Wait()
	for _, name := range names {
		s.lines(name, 20)
	}
	t.Logf("requests: %v", s.emu.Stats().Requests)
}

// TestOldBacklog has a backlog from the last three days, part of it older than a request may
// span, and one that begins 15 days ago, which the service does not take any more.
func TestOldBacklog(t *testing.T) { played(t, emulator.Options{}, oldBacklog) }

func oldBacklog(t *testing.T, s *stage) {
	s.gate.refuse()
	now := time.Now()
	days := s.session("days")
	s.write(days, "days", 0, 3000, now.Add(-72*time.Hour), 72*time.Hour/3000)
	aged := s.session("aged", "weir-loss-notice=json", "awslogs-force-flush-interval-seconds=5")
	s.write(aged, "aged", 0, 2000, now.Add(-20*24*time.Hour), 20*24*time.Hour/2000)
	gone := s.session("gone", "weir-loss-notice=text") // nothing of it can be delivered
	s.write(gone, "gone", 0, 100, now.Add(-30*24*time.Hour), time.Second)
	for _, p := range []*player.Session{days, aged, gone} {
		s.stop(p)
	}
	if s.dir != "" {
		s.kill()
		s.start()
	}
	s.gate.open()
	s.lines("days", 3000)
	for name, all := range map[string]int{"aged": 2000, "gone": 100} {
		var a *tally
		weirtest.Eventually(t, name+" adds up", func() (string, bool) {
			a = count(s.emu, name, name, 0, 1)
			return a.String(), a.lines+told(t, a.notices) >= all
		})
		t.Logf("%s: %s", name, a)
		// One gap, although it takes several requests to find that out, as none spans a day.
		if a.lines+told(t, a.notices) != all || a.twice+a.disorder+len(a.other) > 0 || len(a.notices) != 1 {
			t.Errorf("%s: %s", name, a)
		}
		for _, n := range a.notices {
			if age := n.First.Sub(now); age > -14*24*time.Hour {
				t.Errorf("%s: notice %+v tells of events that were not too old", name, n)
			}
		}
	}
	if a := count(s.emu, "aged", "aged", 0, 1); a.lines < 1390 || a.lines > 1400 {
		t.Errorf("of 2000 lines in 20 days %d were young enough for 14", a.lines)
	}
}

// TestClockBack has a clock that steps back by two hours and forth again. The service takes
// the events of a request only in order of their times, so what was written before a step
// may arrive behind what was written after it; but nothing is lost.
func TestClockBack(t *testing.T) { played(t, emulator.Options{}, clockBack) }

func clockBack(t *testing.T, s *stage) {
	p := s.session("x")
	q := s.session("traces", `awslogs-multiline-pattern=^\d{4}-`)
	now := time.Now()
	for round, at := range []time.Time{now, now.Add(-2 * time.Hour), now.Add(-time.Hour), now.Add(time.Second)} {
		s.write(p, "x", round*500, (round+1)*500, at, time.Millisecond)
		var b []byte
		for i := range 5 {
			for line := range strings.SplitSeq(written.Trace("x", i), "\n") {
				b = player.AppendFrame(b, player.Stdout, at.Add(time.Duration(i)*time.Millisecond), []byte(line), nil)
			}
		}
		if err := q.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	s.stop(p)
	s.stop(q)
	weirtest.Eventually(t, "all lines have come", func() (string, bool) {
		a := count(s.emu, "x", "x", 0, 1)
		return a.String(), a.lines == 2000
	})
	a := count(s.emu, "x", "x", 0, 1)
	rounds := 0 // neighbours that are not in order: at most one for each step of the clock
	last := -1
	for _, m := range messages(s.emu, "x") {
		i, _ := written.Number(m, "x", 0)
		if i < last {
			rounds++
		}
		last = i
	}
	if a.lines != 2000 || a.missing+a.twice+len(a.other) > 0 || rounds > 3 {
		t.Errorf("%s; %d breaks of order", a, rounds)
	}
	var want []string
	for range 4 {
		for i := range 5 {
			want = append(want, written.Trace("x", i)+"\n")
		}
	}
	weirtest.Eventually(t, "all traces have come", func() (string, bool) {
		n := len(messages(s.emu, "traces"))
		return fmt.Sprint(n), n >= len(want)
	})
	got := messages(s.emu, "traces")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("traces: %q", got)
	}
}

// TestTornFrame has bytes in a pipe that are no frames, as a reader leaves that died in the
// middle of one.
func TestTornFrame(t *testing.T) { played(t, emulator.Options{}, tornFrame) }

func tornFrame(t *testing.T, s *stage) {
	p := s.session("x", "weir-loss-notice=json")
	s.write(p, "x", 0, 10, s.later(), time.Millisecond)
	torn := player.AppendFrame(nil, player.Stdout, time.Now(), []byte(strings.Repeat("t", 300)), nil)
	if err := p.Write(torn[100:]); err != nil {
		t.Fatal(err)
	}
	s.write(p, "x", 10, 20, s.later(), time.Millisecond)
	s.stop(p)
	weirtest.Eventually(t, "the lines around it have come", func() (string, bool) {
		a := count(s.emu, "x", "x", 0, 1)
		return a.String(), a.lines == 20 && len(a.notices) > 0
	})
	a := count(s.emu, "x", "x", 0, 1)
	if a.lines != 20 || a.disorder+len(a.other) > 0 || told(t, a.notices) < 1 {
		t.Errorf("%s", a)
	}
}

// TestTornFramesAndKills has a torn frame before each of some kills, which come while it is booked:
// each counts once.
func TestTornFramesAndKills(t *testing.T) {
	t.Parallel()
	s := newStage(t, emulator.Options{})
	s.gate.refuse()
	p := s.session("x", "weir-loss-notice=json")
	const kills = 15
	for i := range kills {
		torn := player.AppendFrame(nil, player.Stdout, time.Now(), []byte(strings.Repeat("t", 300)), nil)
		b := torn[100:]
		for k := range 2 {
			b = player.AppendFrame(b, player.Stdout, time.Now(), []byte(written.Line("x", 2*i+k, 0)), nil)
		}
		if err := p.Write(b); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i%5) * time.Millisecond / 2)
		s.kill()
		s.start()
	}
	s.stop(p)
	s.gate.open()
	var a *tally
	weirtest.Eventually(t, "lines and notices have come", func() (string, bool) {
		a = count(s.emu, "x", "x", 0, 1)
		return a.String(), a.lines == 2*kills && told(t, a.notices) >= kills
	})
	if a.twice+a.disorder+len(a.other) > 0 || told(t, a.notices) != kills {
		t.Errorf("%d frames were torn: %s", kills, a)
	}
}

// TestSessionsOfOneContainer has a second session while the first has seen its end only: an
// engine with live-restore makes one.
func TestSessionsOfOneContainer(t *testing.T) {
	t.Parallel()
	s := newStage(t, emulator.Options{})
	id := player.ContainerID()
	start := func() *player.Session {
		t.Helper()
		p, err := s.e.Start(id, "x", s.options("x"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s.gate.refuse()
	first := start()
	s.write(first, "x", 0, 100, s.later(), time.Millisecond)
	first.Abandon()
	second := start()
	s.write(second, "x", 100, 200, s.later(), time.Millisecond)
	// A pipe that nobody holds open any more forgets what is in it: before the kill, the
	// plugin has to be through with it. Then it removes it.
	weirtest.Eventually(t, "the pipe that was abandoned is collected", func() (string, bool) {
		left, _ := filepath.Glob(filepath.Join(s.dir, "pipes", "*"))
		return fmt.Sprint(left), !slices.Contains(left, first.File)
	})
	s.kill()
	s.write(second, "x", 200, 300, s.later(), time.Millisecond)
	s.start()
	s.write(second, "x", 300, 400, s.later(), time.Millisecond)
	s.stop(second)
	third := start() // `docker logs` of a stopped container makes one without frames
	s.stop(third)
	s.gate.open()
	s.lines("x", 400)
}

// TestEmptyBodies sends what an engine sends when it repeats a call.
func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	s := newStage(t, emulator.Options{})
	for _, path := range []string{"/LogDriver.StartLogging", "/LogDriver.StopLogging", "/LogDriver.ReadLogs"} {
		if err := s.e.Call(path, nil, nil); err == nil {
			t.Errorf("%s with an empty body succeeds", path)
		}
	}
	var got struct{ Implements []string }
	if err := s.e.Call("/Plugin.Activate", nil, &got); err != nil || !slices.Contains(got.Implements, "LogDriver") {
		t.Errorf("activation: %v %v", got, err)
	}
	var can struct{ Cap struct{ ReadLogs bool } }
	if err := s.e.Call("/LogDriver.Capabilities", nil, &can); err != nil || can.Cap.ReadLogs {
		t.Errorf("capabilities: %v %v", can, err)
	}
	if err := s.e.Call("/LogDriver.StopLogging", map[string]string{"File": "/run/docker/logging/unknown"}, nil); err != nil {
		t.Errorf("StopLogging of an unknown pipe, as after a lost answer: %v", err)
	}
}
