package docker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// TestCrowd starts many containers at once while the service throttles the creation of
// streams. All together they write 10 000 lines a second; somebody reads `docker logs`
// meanwhile.
func TestCrowd(t *testing.T) {
	size := map[kind]int{managed: 20, v1: 20}
	if full {
		size = map[kind]int{managed: 200, v1: 100}
	}
	together(t, emulator.Options{Quotas: true}, func(t *testing.T, r *rig) {
		n := size[r.kind]
		throttle := emulator.FaultRule{Kind: emulator.FaultThrottle, Operations: []string{"CreateLogStream"}, Probability: 0.75, Count: int64(3 * n)}
		weirtest.Faults(t, r.emu, throttle)
		const seconds = 5
		rate := max(10_000/n, 50)
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		r.crowd(names, fmt.Sprintf("lines:n=%d,rate=%d,size=100,burst=5", rate*seconds, rate))
		follow := r.follow(names[0])
		r.docker(append([]string{"kill", "-s", "USR1"}, r.names(names...)...)...) // all begin
		// What an operator does meanwhile is as quick as always.
		r.quick(append([]string{"run", "-d"}, r.args(container{name: "late", steps: []string{`text:"hello\n"`, "hold"}})...)...)
		r.quick("logs", "--tail", "10", r.name(names[1]))
		r.quick("stop", r.name("late"))
		r.wait(names...)
		arrive(t, r.emu, "late", "hello")
		for _, name := range names {
			if a := whole(t, r.emu, name, name, 100, 1); a.written != rate*seconds {
				t.Errorf("%s wrote %d lines", name, a.written)
			}
		}
		if struck := weirtest.Struck(r.emu); struck == 0 {
			t.Error("nothing was throttled, the test tests less than it says")
		}
		follow(rate * seconds)
		r.settled()
	})
}

// crowd starts containers that wait for SIGUSR1 and then take a step with an id of their own.
func (r *rig) crowd(names []string, step string) {
	r.t.Helper()
	todo := make(chan string)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for name := range todo {
				out, err := r.tryDocker(2*weirtest.Patience, append([]string{"run", "-d"}, r.args(container{name: name, steps: []string{"await", step + ",id=" + name}})...)...)
				if err != nil {
					r.t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	wg.Wait()
}

// follow runs `docker logs -f` of a container that writes lines of 100 bytes. The function
// that it gives waits for its end and looks at what it has shown of n lines.
func (r *rig) follow(name string) func(n int) {
	r.t.Helper()
	var out strings.Builder
	cmd := r.e.Client(r.t.Context(), "logs", "-f", r.name(name))
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return func(n int) {
		r.t.Helper()
		select {
		case err := <-done:
			if err != nil {
				r.t.Errorf("docker logs -f: %v", err)
			}
		case <-time.After(weirtest.Patience):
			r.t.Fatal("docker logs -f does not end although its container has")
		}
		// The engine's copy is its own work: when the machine is slow it leaves lines out. Those
		// that it shows must be right.
		shown, last := 0, -1
		for line := range strings.Lines(out.String()) {
			i, ok := written.Number(strings.TrimSuffix(line, "\n"), name, 100)
			if ok && i > last {
				shown, last = shown+1, i
			} else if _, _, end := written.ParseEnd(strings.TrimSuffix(line, "\n"), name); !end {
				r.t.Errorf("docker logs -f shows %s behind line %d", clip(line), last)
				return
			}
		}
		if shown < n/2 {
			r.t.Errorf("docker logs -f has shown %d lines of %d", shown, n)
		}
	}
}

// TestLargeLines has lines of ten megabytes, by themselves and with others around.
func TestLargeLines(t *testing.T) {
	together(t, emulator.Options{}, func(t *testing.T, r *rig) {
		const n = 10_000_000
		r.gate.refuse() // both are in the spool at once
		r.run(container{name: "out", driver: []string{"mode=blocking"}, steps: []string{fmt.Sprintf("long:n=%d", n), `text:"next\n"`}})
		r.run(container{name: "end", steps: []string{`err:"first\n"`, fmt.Sprintf("long:n=%d,nl=0,to=err", n)}})
		r.wait("out", "end")
		r.gate.open()
		long := written.Long(n)
		arrive(t, r.emu, "out", append(pieces(long), "next")...)
		arrive(t, r.emu, "end", append([]string{"first"}, pieces(long)...)...)
		// The engine's copy is its own work. Unless the mode is blocking it lacks what its disk
		// could not take at once, and it always lacks the newline behind a line in parts.
		if got := r.docker("logs", r.name("out")); strings.ReplaceAll(got, "\n", "") != long+"next" {
			t.Errorf("docker logs has %d bytes: %s", len(got), clip(got))
		}
	})
}
