package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/internal/input/docker"
	"weir/internal/input/docker/awslogs"
	"weir/internal/ledger"
)

// TestDockerSleep: of many containers that have ended during an outage a few are open. The
// others are delivered later, over a restart too, and wake for a new session.
func TestDockerSleep(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
		t.Fatal(err)
	}
	o := DockerOptions{Spool: t.TempDir(), awake: 4}
	d := openDocker(t, o)
	const n = 12
	for i := range n {
		c := testContainer(s.URL(), i, nil)
		sp := d.spool(t, c)
		put(t, sp, lineBatch(c, "n", 0, 10, 0))
		sp.Release()
	}
	open := func() int {
		k := 0
		for _, c := range d.list() {
			if len(c.inUse()) > 0 {
				k++
			}
		}
		return k
	}
	eventually(t, "most sleep", func() bool { return open() <= 4 })
	check := func() {
		t.Helper()
		if sum := d.Totals(); sum.Pending() != n*10 || d.limits.share.Used() <= 0 {
			t.Errorf("%d events pending, %d bytes", sum.Pending(), d.limits.share.Used())
		}
		if st := d.Status(); len(st.Containers) != n || st.Outputs[0].Sheet.Pending() != n*10 {
			t.Errorf("%d containers in the status, %d events", len(st.Containers), st.Outputs[0].Sheet.Pending())
		}
	}
	check()
	used := d.limits.share.Used()
	d.Stop(context.Background())
	if !strings.Contains(d.log.String(), fmt.Sprintf("events=%d containers=%d", n*10, n)) {
		t.Error("the log does not say what was left")
	}
	d = openDocker(t, o)
	eventually(t, "some are open", func() bool { return open() == 4 })
	if now := d.limits.share.Used(); now < used/2 {
		t.Errorf("%d bytes are booked, %d were before the restart", now, used)
	}
	var sleeper *docker.Container
	for i := range n {
		if c := testContainer(s.URL(), i, nil); len(d.containers[c.ID].inUse()) == 0 {
			sleeper = c
		}
	}
	sp := d.spool(t, sleeper)
	put(t, sp, lineBatch(sleeper, "n", 10, 5, 0))
	if err := s.SetFaults(nil); err != nil {
		t.Fatal(err)
	}
	sp.Release()
	eventually(t, "all is delivered and gone", func() bool { return len(d.list()) == 0 })
	for i := range n {
		want := 10
		if testContainer("", i, nil).ID == sleeper.ID {
			want = 15
		}
		checkLines(t, s, fmt.Sprint("s", i), "n", want)
	}
	if used := d.limits.share.Used(); used != 0 {
		t.Errorf("%d bytes are booked for nothing", used)
	}
}

// TestDockerSleepAwaitsAnswers: a request that begins while its container is about to sleep is answered, so that
// nothing of it is sent again.
func TestDockerSleepAwaitsAnswers(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	slow := emulator.FaultRule{Operations: []string{"PutLogEvents"}, Kind: emulator.FaultSlowAnswer, BytesPerSecond: 100, Count: 2} // no stream, then accepted
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{slow}}); err != nil {
		t.Fatal(err)
	}
	d := openDocker(t, DockerOptions{Spool: t.TempDir()})
	info := testContainer(s.URL(), 1, nil)
	sp := d.spool(t, info)
	put(t, sp, lineBatch(info, "n", 0, 10, 0))
	sp.Release()
	c := d.list()[0]
	eventually(t, "the service has the events", func() bool { return len(s.Events("group", "s1")) > 0 })
	c.mu.Lock()
	c.closing = make(chan struct{}) // as sleep, which saw nothing under way
	c.mu.Unlock()
	c.fallAsleep()
	eventually(t, "all is delivered and gone", func() bool { return len(d.list()) == 0 })
	checkLines(t, s, "s1", "n", 10)
}

// TestDockerDrains: containers that sleep follow each other closely when they can be delivered.
func TestDockerDrains(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
		t.Fatal(err)
	}
	d := openDocker(t, DockerOptions{Spool: t.TempDir(), awake: 1})
	const n = 12
	for i := range n {
		c := testContainer(s.URL(), i, func(o *awslogs.Options) { o.FlushInterval = time.Hour })
		sp := d.spool(t, c)
		put(t, sp, lineBatch(c, "n", 0, 10, 0))
		sp.Release()
	}
	eventually(t, "most sleep", func() bool {
		k := 0
		for _, c := range d.list() {
			k += len(c.inUse())
		}
		return k <= 1
	})
	began := time.Now()
	if err := s.SetFaults(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is delivered and gone", func() bool { return len(d.list()) == 0 })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v: one in two seconds", took)
	}
	for i := range n {
		checkLines(t, s, fmt.Sprint("s", i), "n", 10)
	}
}

// TestDockerWakeLargest: what a full disk needs is given up by a container that sleeps, if it has the most; it
// is woken for that, though others are awake, and stays so until it has been asked.
func TestDockerWakeLargest(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
		t.Fatal(err)
	}
	d := openDocker(t, DockerOptions{Spool: t.TempDir(), awake: 1})
	fill := func(n, batches int) docker.Spool {
		c := testContainer(s.URL(), n, func(o *awslogs.Options) { o.BufferSize = 16 << 20 })
		sp := d.spool(t, c)
		for i := range batches {
			put(t, sp, lineBatch(c, "n", i*500, 500, 1000))
		}
		return sp
	}
	of := func(n int) *dockerContainer {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.containers[testContainer("", n, nil).ID]
	}
	sleeps := func(n int) bool {
		c := of(n)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.asleep
	}
	awake := fill(1, 1)
	c := of(1)
	c.mu.Lock()
	c.wanted = time.Now().Add(time.Hour) // so it stays awake
	c.mu.Unlock()
	awake.Release()
	fill(2, 2).Release()
	fill(3, 12).Release() // its reader has begun 2 MiB of it
	running := fill(4, 1)
	defer running.Release()
	eventually(t, "two sleep", func() bool { d.rest(); return sleeps(2) && sleeps(3) })
	asks := of(4).inUse()[0].buf
	eventually(t, "the largest gives something up", func() bool {
		d.rest()
		return d.limits.makeRoom(asks, 1<<16)
	})
	if !sleeps(2) {
		t.Error("another was woken")
	}
	if sum := d.Totals(); sum.Dropped[ledger.DiskFull] == 0 {
		t.Errorf("%+v", sum)
	}
}

// TestDockerOpenWhileItGoes: who opens a container that is just being closed gets another one.
func TestDockerOpenWhileItGoes(t *testing.T) {
	t.Parallel()
	d := openDocker(t, DockerOptions{Spool: t.TempDir()})
	info := testContainer("http://127.0.0.1:1", 1, nil)
	c := newDockerContainer(d.Docker, info)
	d.mu.Lock()
	d.containers[info.ID] = c
	d.mu.Unlock()
	c.look()
	d.spool(t, info).Release()
	eventually(t, "both are gone", func() bool { return len(d.list()) == 0 })
	if s, err := c.use(); s != nil || err != nil {
		t.Errorf("one that is gone is used again: %v", err)
	}
}

// TestDockerTurns: containers that are awake in vain hold up no others.
func TestDockerTurns(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	bad := []emulator.FaultRule{{Kind: emulator.FaultAccessDenied, Stream: "s[0-3]", Operations: []string{"PutLogEvents"}}}
	if err := s.SetFaults(&emulator.FaultScript{Rules: append(bad, emulator.FaultRule{Kind: emulator.Fault503})}); err != nil {
		t.Fatal(err)
	}
	o := DockerOptions{Spool: t.TempDir(), awake: 2, turn: time.Second}
	d := openDocker(t, o)
	const n = 7
	for i := range n {
		c := testContainer(s.URL(), i, nil)
		sp := d.spool(t, c)
		put(t, sp, lineBatch(c, "n", 0, 10, 0))
		sp.Release()
	}
	eventually(t, "most sleep", func() bool {
		k := 0
		for _, c := range d.list() {
			k += len(c.inUse())
		}
		return k <= 2
	})
	if err := s.SetFaults(&emulator.FaultScript{Rules: bad}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "those that can be delivered are", func() bool { return len(d.list()) == 4 })
	for i := 4; i < n; i++ {
		checkLines(t, s, fmt.Sprint("s", i), "n", 10)
	}
}
