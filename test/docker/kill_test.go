package docker

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/test/docker/engine"
	"weir/test/docker/written"
	"weir/test/weirtest"
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
			if k == v1 && i%4 > 0 {
				// A service manager has more patience with a program that dies before it has begun.
				// One that never gets so far holds its containers up.
				r.flowingAgain()
			}
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
			if s := r.docker("logs", name); !strings.Contains(s, "end "+name) {
				t.Errorf("docker logs %s lacks the last line", name)
			}
		}
		r.settled()
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

// TestKillAtStop kills the plugin while the engine tells it that containers have ended.
func TestKillAtStop(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		names := []string{"aa", "bb", "cc"}
		for i, name := range names {
			r.run(container{name: name, steps: []string{"lines:n=0,id=" + name + ",rate=300"}})
			r.flowing(name)
			var stopped sync.WaitGroup
			stopped.Go(func() {
				// The engine tries to reach the plugin again after 1, 2, 4 … seconds.
				if out, err := r.tryDocker(30*time.Second, "stop", name); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
			time.Sleep(time.Duration(100+i*100) * time.Millisecond) // a stop takes about that long
			r.kill()
			stopped.Wait()
		}
		for _, name := range names {
			if a := ended(t, r.emu, name, name, 0, 1); a.lines != a.written || a.missing+a.disorder > 0 {
				t.Errorf("%s: %s", name, a)
			}
		}
		r.settled()
	})
}

// TestHostCrash switches the host off, in the middle of an outage and of writing.
func TestHostCrash(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		r.gate.refuse()
		const lost = 20_000 // lines before those that the spool can hold
		r.run(container{name: "full", driver: []string{"weir-buffer-size=4m", "weir-loss-notice=text"}, steps: []string{"lines:n=40000,id=full,size=200,burst=20"}})
		r.run(container{name: "ended", steps: []string{"lines:n=1000,id=ended"}})
		r.wait("full", "ended")
		r.run(container{name: "running", flags: []string{"--restart", "always"}, steps: []string{"lines:n=0,id=running,rate=500"}})
		weirtest.Eventually(t, "docker logs has lines", func() (string, bool) {
			s := r.docker("logs", "running")
			return clip(s), strings.Contains(s, "line running 500 ")
		})
		if err := r.e.Crash(); err != nil {
			t.Fatal(err)
		}
		if k == v1 {
			r.startV1() // a service manager starts it before the engine
		}
		if err := r.e.Run(t.Context(), engine.Options{}); err != nil {
			t.Fatal(err)
		}
		r.gate.open()
		whole(t, r.emu, "ended", "ended", 0, 1)
		a := r.sum("full", 40_001, 200)
		if a.missing < lost || len(a.notices) == 0 {
			t.Errorf("full: %s", a)
		}
		// The engine has started the container again, so its lines begin anew.
		weirtest.Eventually(t, "the container writes again", func() (string, bool) {
			a = count(r.emu, "running", "running", 0, 1)
			return a.String(), a.twice > 0
		})
		top := 0 // before the crash
		for _, m := range messages(r.emu, "running") {
			i, ok := written.Number(m, "running", 0)
			if !ok || i < top {
				break
			}
			top = i
		}
		if top < 500-50 {
			t.Errorf("running: the last line before the crash is %d; what is written is stored within a tenth of a second", top)
		}
		r.docker("stop", "running")
	})
}

// TestEngineRestart restarts the engine in order. Without live-restore that stops the
// containers, with it they run on.
func TestEngineRestart(t *testing.T) {
	needEngine(t)
	t.Parallel()
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
				if !live {
					// The engine starts bb again some time after it answers.
					weirtest.Eventually(t, "bb is up again", func() (string, bool) {
						out := r.docker("logs", "bb")
						return out, strings.Count(out, "up") == 2
					})
				}
				r.quick("stop", "bb")
				r.gate.open()
				if live {
					r.nearlyWhole("aa")
					arrive(t, r.emu, "bb", "up", "down")
				} else {
					whole(t, r.emu, "aa", "aa", 0, 1)
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
		r.nearlyWhole("aa")
	})
}

// nearlyWhole is whole after dockerd has left running containers, killed or with live-restore: what
// it had read of them and not yet written to the pipe went with it, lines of one read.
func (r *rig) nearlyWhole(name string) {
	r.t.Helper()
	a := ended(r.t, r.emu, name, name, 0, 1)
	r.t.Logf("%s: %s", name, a)
	if a.twice+a.disorder+len(a.notices)+len(a.other) > 0 || a.missing > 3 {
		r.t.Errorf("%s: %s", name, a)
	}
}
