package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/test/docker/engine"
	"weir/test/docker/player"
	"weir/test/weirtest"
)

// TestDisableAndUpgrade takes the managed plugin away from running containers and gives it
// back, as the same and as another version.
func TestDisableAndUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t, managed, rigOptions{})
	registry, err := engine.ServePlugin(plugin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	r.run(container{name: "aa", steps: []string{"lines:n=0,id=aa,rate=200"}})
	r.run(container{name: "traces", driver: []string{`awslogs-multiline-pattern=^\d{4}-`}, steps: []string{"trace:n=9,id=x", "hold", "trace:n=9,id=x"}})
	r.flowing("aa")
	if out, err := r.tryDocker(time.Minute, "plugin", "disable", r.driver); err == nil {
		t.Errorf("the plugin can be disabled without force while containers use it: %s", out)
	}
	r.gate.refuse()
	r.docker("plugin", "disable", "-f", r.driver)
	r.quick("inspect", "aa")
	time.Sleep(500 * time.Millisecond) // the container goes on writing
	r.docker("plugin", "enable", r.driver)
	time.Sleep(200 * time.Millisecond)
	r.docker("plugin", "disable", "-f", r.driver)
	before := r.docker("plugin", "inspect", "-f", "{{.Id}}", r.driver)
	r.docker("plugin", "upgrade", "--skip-remote-check", "--grant-all-permissions", r.driver, registry.Ref)
	if after := r.docker("plugin", "inspect", "-f", "{{.Id}}", r.driver); after != before {
		t.Errorf("the upgrade has made another plugin: %s, was %s", after, before)
	}
	r.docker("plugin", "enable", r.driver)
	r.flowingAgain()
	r.quick("stop", "aa", "traces")
	r.gate.open()
	a := whole(t, r.emu, "aa", "aa", 0, 1)
	if a.slowest > blocked {
		t.Errorf("the container was held up for %s", a.slowest)
	}
	r.traces("traces", 2, 9)
	r.docker("rm", "aa", "traces")
	r.docker("plugin", "disable", r.driver) // not in use any more
}

// flowingAgain waits until the plugin answers.
func (r *rig) flowingAgain() {
	r.t.Helper()
	weirtest.Eventually(r.t, "the plugin answers", func() (string, bool) {
		_, err := r.get("/api/status")
		return errText(err), err == nil
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestStoppedWhileAway stops a container while the plugin is disabled. The engine then
// forgets the pipe, and its garbage collector closes it some time. If the plugin is back before that, what
// was in the pipe must come all the same. Otherwise nobody has it.
func TestStoppedWhileAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, managed, rigOptions{})
	r.run(container{name: "aa", steps: []string{"lines:n=0,id=aa,rate=100"}})
	r.flowing("aa")
	r.docker("plugin", "disable", "-f", r.driver)
	time.Sleep(300 * time.Millisecond) // the container goes on writing
	r.docker("stop", "aa")             // takes as long as the engine tries to reach the plugin
	r.docker("plugin", "enable", r.driver)
	r.flowingAgain()
	if r.heldPipes() > 0 {
		whole(t, r.emu, "aa", "aa", 0, 1)
		return
	}
	t.Log("the engine has closed the pipe")
	if a := count(r.emu, "aa", "aa", 0, 1); a.missing+a.twice+a.disorder > 0 {
		t.Errorf("%s", a)
	}
}

// heldPipes is how many ends of containers' pipes dockerd has open.
func (r *rig) heldPipes() (n int) {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.e.Pid()))
	for _, fd := range fds {
		name, err := os.Readlink(fd)
		if err != nil || len(filepath.Base(name)) != len(player.ContainerID()) {
			continue
		}
		if st, err := os.Stat(fd); err == nil && st.Mode().Type() == os.ModeNamedPipe {
			n++
		}
	}
	return n
}

// TestServiceRestart stops and starts a v1 plugin in order, as a service manager does for an
// upgrade.
func TestServiceRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, v1, rigOptions{})
	r.run(container{name: "aa", steps: []string{"lines:n=0,id=aa,rate=500"}})
	r.run(container{name: "long", steps: []string{"long:n=20000,nl=0", "hold", "long:n=20000"}})
	r.flowing("aa")
	for range 3 {
		begin := time.Now()
		r.v1.Signal(syscall.SIGTERM)
		<-r.v1.Done()
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the plugin took %s to stop", took)
		}
		time.Sleep(100 * time.Millisecond) // containers go on writing
		r.startV1()
	}
	r.quick("stop", "aa", "long")
	whole(t, r.emu, "aa", "aa", 0, 1)
	weirtest.Eventually(t, "the long line has come", func() (string, bool) {
		m := strings.Join(messages(r.emu, "long"), "")
		return clip(m), len(m) == 40000
	})
	if m := messages(r.emu, "long"); len(m) != 1 {
		t.Errorf("a line of 40000 bytes came in %d events", len(m))
	}
}

// TestDefaultDriver has the plugin as the engine's default driver: it has to be there before
// containers are started again, and each container takes the engine's options.
func TestDefaultDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t, managed, rigOptions{})
	if err := r.e.Stop(); err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Flags: []string{"--log-driver", r.driver, "--log-opt", "awslogs-group=" + group, "--log-opt", "awslogs-stream=x",
		"--log-opt", "awslogs-region=eu-west-1", "--log-opt", "awslogs-create-group=true", "--log-opt", "awslogs-endpoint=" + r.gate.url()}}
	if err := r.e.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.docker("run", "-d", "--name", "c1", "--network", "none", "--restart", "always", engine.Image, `text:"hello\n"`, "hold")
	arrive(t, r.emu, "x", "hello")
	if err := r.e.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.e.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	arrive(t, r.emu, "x", "hello", "hello")
}

// TestPipesUsedUp has all the pipes that the kernel gives root for nothing in use, as on a host
// with hundreds of containers: each new one is small then, unless its process may do more.
func TestPipesUsedUp(t *testing.T) {
	needEngine(t)
	for range 80 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = r.Close(), w.Close() })
		if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, managed, rigOptions{})
	r.do(container{name: "plain", steps: []string{"lines:n=20000,id=plain,size=200,burst=20", "long:n=100000"}})
	if a := ended(t, r.emu, "plain", "plain", 200, 1); a.lines != a.written || a.missing+a.twice+a.disorder > 0 {
		t.Errorf("%s", a)
	}
}
