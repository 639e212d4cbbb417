package docker

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"weir/test/docker/engine"
)

// blocked is a write that took so long that its container was held up by the plugin. A
// managed plugin is back within a second, and the pipe has room for more than that.
const blocked = 5 * time.Second

// TestKillUnderLoad kills the plugin with SIGKILL again and again while containers write.
func TestKillUnderLoad(t *testing.T) {
	kills := 20
	if n, err := strconv.Atoi(os.Getenv("WEIR_DOCKER_KILLS")); err == nil {
		kills = n
	}
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		names := []string{"aa", "bb", "cc", "dd"}
		for _, name := range names {
			r.run(container{name: name, steps: []string{"lines:n=0,id=" + name + ",rate=500,to=both", "long:n=50000"}})
		}
		// In the first half nothing is in flight when a kill comes, so nothing may come twice.
		r.gate.refuse()
		for i := range kills {
			if i == kills/2 {
				r.gate.open()
			}
			time.Sleep(time.Duration(50+i*37%300) * time.Millisecond) // load goes on meanwhile
			r.kill()
		}
		for _, name := range names {
			r.quick("stop", name)
		}
		for _, name := range names {
			a := ended(t, r.emu, name, name, 0, 2)
			t.Logf("%s after %d kills: %s", name, kills, a)
			if a.lines != a.written || a.missing+a.disorder > 0 {
				t.Errorf("%s: lines are missing or out of order: %s", name, a)
			}
			if a.slowest > blocked {
				t.Errorf("%s was held up for %s", name, a.slowest)
			}
			// In flight is one request of a stream; between the kills of the second half
			// some hundred lines were written.
			if limit := kills / 2 * 1000; a.twice > limit {
				t.Errorf("%s: %d lines came twice, more than were in flight", name, a.twice)
			}
		}
	})
}

// TestKillDuringOutage is the same with the endpoint away all the time: nothing was in
// flight, so each line must come exactly once, parts of long lines among them.
func TestKillDuringOutage(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		r.gate.refuse()
		names := []string{"aa", "bb"}
		for _, name := range names {
			r.run(container{name: name, steps: []string{"lines:n=0,id=" + name + ",rate=200,size=40000,to=both"}})
		}
		traces := container{name: "traces", driver: []string{`awslogs-multiline-pattern=^\d{4}-`}}
		for range 40 {
			traces.steps = append(traces.steps, "trace:n=5,id=x", "sleep:ms=50")
		}
		r.run(traces)
		for i := range 6 {
			time.Sleep(time.Duration(50+i*61%200) * time.Millisecond) // load goes on meanwhile
			r.kill()
		}
		r.quick("stop", "aa", "bb")
		r.wait("traces")
		r.gate.open()
		for _, name := range names {
			a := whole(t, r.emu, name, name, 40_000, 2)
			t.Logf("%s: %s", name, a)
		}
		r.traces("traces", 40, 5)
	})
}

// TestEngineRestart restarts the engine in order. Without live-restore that stops the
// containers, with it they run on.
func TestEngineRestart(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("live-restore=%v", live), func(t *testing.T) {
			each(t, func(t *testing.T, k kind) {
				o := engine.Options{LiveRestore: live}
				r := newRig(t, k, rigOptions{engine: o})
				r.run(container{name: "aa", steps: []string{"lines:n=0,id=aa,rate=100"}})
				r.run(container{name: "bb", flags: []string{"--restart", "always"}, steps: []string{`text:"up\n"`, "hold", `text:"down\n"`}})
				r.flowing("aa")
				r.gate.refuse()
				if err := r.e.Stop(); err != nil {
					t.Fatal(err)
				}
				if err := r.e.Run(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				r.quick("inspect", "aa")
				if live {
					time.Sleep(300 * time.Millisecond) // it goes on writing
					r.quick("stop", "aa")
				}
				r.quick("stop", "bb")
				r.gate.open()
				whole(t, r.emu, "aa", "aa", 0, 1)
				if live {
					arrive(t, r.emu, "bb", "up", "down")
				} else {
					arrive(t, r.emu, "bb", "up", "down", "up", "down")
				}
			})
		})
	}
}

// TestEngineKilled kills dockerd alone.
func TestEngineKilled(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		o := engine.Options{LiveRestore: true}
		r := newRig(t, k, rigOptions{engine: o})
		r.run(container{name: "aa", steps: []string{"lines:n=0,id=aa,rate=50"}})
		r.flowing("aa")
		r.e.Kill()
		if err := r.e.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // it goes on writing
		r.quick("stop", "aa")
		a := ended(t, r.emu, "aa", "aa", 0, 1)
		t.Logf("dockerd killed: %s", a)
		// What dockerd had read and not yet written to the pipe went with it: lines of one read.
		if a.twice+a.disorder > 0 || a.missing > 3 {
			t.Errorf("%s", a)
		}
	})
}
