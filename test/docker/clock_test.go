package docker

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// clockVar makes this program the guard of the clock. Its value is by how much the clock on
// the wall is ahead of the monotonic one, in nanoseconds.
const clockVar = "WEIR_CLOCK_GUARD"

// guardClock is what the guard does: when who started it says so, or has ended, however it
// ended, the clock is set right.
func guardClock() {
	ahead, err := strconv.ParseInt(os.Getenv(clockVar), 10, 64)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := setClock(time.Duration(ahead)); err != nil {
		fmt.Fprintln(os.Stderr, "the clock is left wrong:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// clockAhead is by how much the clock on the wall is ahead of the monotonic one.
func clockAhead() (time.Duration, error) {
	var wall, mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return 0, err
	}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &wall); err != nil {
		return 0, err
	}
	return time.Duration(wall.Nano() - mono.Nano()), nil
}

// setClock sets the clock on the wall so much ahead of the monotonic one.
func setClock(ahead time.Duration) error {
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return err
	}
	wall := unix.NsecToTimespec(mono.Nano() + int64(ahead))
	return unix.ClockSettime(unix.CLOCK_REALTIME, &wall)
}

// stepClock sets the machine's clock wrong for a while.
func stepClock(t *testing.T, by, during time.Duration) {
	t.Helper()
	right, err := clockAhead()
	if err != nil {
		t.Fatal(err)
	}
	guard := exec.Command(os.Args[0])
	guard.Env = append(os.Environ(), clockVar+"="+strconv.FormatInt(int64(right), 10))
	guard.Stderr = os.Stderr
	end, err := guard.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = end.Close()
		if err := guard.Wait(); err != nil {
			t.Errorf("the clock is left wrong: %v", err)
		}
	}()
	if err := setClock(right + by); err != nil {
		t.Errorf("set the clock: %v", err)
		return
	}
	time.Sleep(during) // containers write meanwhile
}

// TestClockSteps steps the machine's clock back and forth again under engine, plugin and
// service while containers write. Nothing is lost. The service takes the events of a request
// only in the order of their times, so where a request holds lines from before and after a
// step, these are sorted by their times: once for each step at most.
func TestClockSteps(t *testing.T) {
	if os.Getenv("WEIR_DOCKER_CLOCK") == "" {
		t.Skip("it sets the machine's clock: WEIR_DOCKER_CLOCK=1 allows that")
	}
	steps := []time.Duration{-time.Minute, time.Minute, -100 * time.Second}
	var rigs []*rig
	for _, k := range []kind{managed, v1} {
		rigs = append(rigs, lent.rig(t, k, emulator.Options{}))
	}
	names := []string{"aa", "bb"}
	for _, r := range rigs {
		for _, name := range names {
			r.run(container{name: name, driver: []string{"weir-loss-notice=json"}, steps: []string{"lines:n=0,id=" + name + ",rate=200"}})
		}
		// One that holds a multi-line event open over a step.
		r.run(container{name: "traces", driver: []string{`awslogs-multiline-pattern=^\d{4}-`}, steps: []string{"trace:n=9,id=x", "hold", "trace:n=9,id=x"}})
		r.flowing("aa")
		r.flowing("bb")
	}
	for i, by := range steps {
		if i == len(steps)-1 { // from the spool
			for _, r := range rigs {
				r.gate.refuse()
			}
		}
		stepClock(t, by, 2*time.Second)
		time.Sleep(2 * time.Second) // containers write with the right clock again
	}
	for _, r := range rigs {
		r.quick(append([]string{"stop"}, r.names("aa", "bb", "traces")...)...)
		r.gate.open()
		for _, name := range names {
			var a *tally
			weirtest.Eventually(t, "every line of "+name+" has come", func() (string, bool) {
				a = count(r.emu, name, name, 0, 1)
				return a.String(), a.written >= 0 && a.lines == a.written
			})
			breaks, last := 0, -1
			for _, m := range messages(r.emu, name) {
				if i, ok := written.Number(m, name, 0); ok {
					if i < last {
						breaks++
					}
					last = i
				}
			}
			t.Logf("%s %s: %s; %d breaks of order", r.kind, name, a, breaks)
			if a.missing+a.twice+len(a.notices)+len(a.other) > 0 || breaks > 2*len(steps) {
				t.Errorf("%s %s: %s; %d breaks of order", r.kind, name, a, breaks)
			}
		}
		r.traces("traces", 2, 9)
		r.settled()
	}
}
