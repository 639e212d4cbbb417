package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/engine"
	"weir/test/weirtest"
)

// kind is how the plugin is run.
type kind string

const (
	managed kind = "managed"
	v1      kind = "v1"
	// builtin is no plugin but the engine's own awslogs driver, to see that a test wants
	// what that does.
	builtin kind = "awslogs"
)

// each runs a test with both kinds of plugin, at the same time.
func each(t *testing.T, test func(t *testing.T, k kind)) {
	needEngine(t)
	t.Parallel()
	for _, k := range []kind{managed, v1} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// rig is an engine with the plugin and an endpoint.
type rig struct {
	t      *testing.T
	kind   kind
	e      *engine.Engine
	driver string // name of the plugin
	emu    *emulator.Server
	gate   *gate
	http   string // host:port of the plugin's status
	prefix string // of containers' names, on an engine that is lent

	o     rigOptions
	spool string // of a v1 plugin
	v1    *engine.Process
	v1log string
}

// rigOptions are what a test wants different.
type rigOptions struct {
	engine   engine.Options
	emulator emulator.Options
	env      []string // of the plugin, KEY=value
	spool    string   // directory of a v1 plugin
	late     bool     // the plugin is not started
}

// credentials are what the plugin gets unless a test says otherwise.
var credentials = []string{"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=secret"}

// newRig starts everything; the end of the test ends it.
func newRig(t *testing.T, k kind, o rigOptions) *rig {
	t.Helper()
	needEngine(t)
	if o.env == nil {
		o.env = credentials
	}
	r := &rig{t: t, kind: k, driver: "weir", o: o}
	r.emu = weirtest.Endpoint(t, o.emulator)
	r.gate = newGate(t, r.emu.Addr())
	r.http = fmt.Sprintf("127.0.0.1:%d", weirtest.Port(t))
	var err error
	if r.e, err = engine.Start(t.Context(), o.engine); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			r.explain()
		}
		r.e.Close()
	})
	if err := r.e.ImportWriter(t.Context(), writer); err != nil {
		t.Fatal(err)
	}
	r.v1log = filepath.Join(r.e.Dir, "plugin.log")
	r.spool = filepath.Join(r.e.Dir, "spool")
	if o.spool != "" {
		r.spool = o.spool
	}
	if o.late {
		return r
	}
	r.startPlugin()
	return r
}

// explain shows what went on before a failure.
func (r *rig) explain() {
	if r.kind == v1 {
		b, _ := os.ReadFile(r.v1log)
		r.t.Logf("end of the plugin's log:\n%s", b[max(0, len(b)-6000):])
		return
	}
	var lines []string
	for line := range strings.Lines(r.e.Log(2000)) {
		if strings.Contains(line, "plugin=") || strings.Contains(line, "level=error") || strings.Contains(line, "level=fatal") {
			lines = append(lines, line)
		}
	}
	r.t.Logf("what the engine's log has of the plugin:\n%s", strings.Join(lines[max(0, len(lines)-40):], ""))
}

// startPlugin installs and enables the managed plugin, or starts the v1 plugin.
func (r *rig) startPlugin() {
	r.t.Helper()
	if r.kind == v1 {
		r.startV1()
		return
	}
	if !strings.Contains(r.docker("plugin", "ls", "--format", "{{.Name}}"), r.driver) { // spoolDir may have made it
		r.docker("plugin", "create", r.driver, plugin)
	}
	r.docker(append([]string{"plugin", "set", r.driver, "WEIR_HTTP=" + r.http}, r.o.env...)...)
	r.docker("plugin", "enable", r.driver)
}

// startV1 starts the plugin as a process, as a service manager does.
func (r *rig) startV1() {
	r.t.Helper()
	log, err := os.OpenFile(r.v1log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(weirtest.Binary(), "docker-plugin", "--socket", "/run/docker/plugins/"+r.driver+".sock", "--spool", r.spool, "--http", r.http)
	cmd.Env = append(weirtest.CleanEnv(), r.o.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if r.v1, err = r.e.Enter(cmd); err != nil {
		r.t.Fatal(err)
	}
	weirtest.Eventually(r.t, "the plugin listens", func() (string, bool) {
		_, err := os.Stat(filepath.Join(r.e.RunDir(), "plugins", r.driver+".sock"))
		return fmt.Sprint(err), err == nil
	})
}

// kill ends the plugin's process with SIGKILL. The engine starts a managed plugin again by
// itself; a v1 plugin is started here.
func (r *rig) kill() {
	r.t.Helper()
	if r.prefix != "" {
		r.t.Fatal("this plugin is for others too")
	}
	if r.kind == v1 {
		r.v1.Signal(syscall.SIGKILL)
		<-r.v1.Done()
		r.startV1()
		return
	}
	pids := r.pluginPids()
	if len(pids) == 0 {
		r.t.Fatal("the plugin does not run")
	}
	begin := time.Now()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	weirtest.Eventually(r.t, "the engine has started the plugin again", func() (string, bool) {
		now := r.pluginPids()
		return fmt.Sprint(now), len(now) > 0 && !slices.Contains(now, pids[0])
	})
	// An engine tries to reach a plugin half a second after its start for the first time. One
	// that has died before that it disables, whatever the plugin does. What it has reached it
	// notes in a file.
	weirtest.Eventually(r.t, "the engine has reached the plugin", func() (string, bool) {
		files, _ := filepath.Glob(filepath.Join(r.e.Dir, "data", "plugins", "*", "config.json"))
		for _, name := range files {
			if st, err := os.Stat(name); err == nil && st.ModTime().After(begin) {
				return "", true
			}
		}
		return fmt.Sprint(files), false
	})
}

// pluginPids are the processes of the managed plugin.
func (r *rig) pluginPids() []int {
	var pids []int
	for _, pid := range r.e.Find("docker-plugin") {
		// runc and the shim may have these words in their command line while they start it.
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.HasSuffix(exe, "/weir") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// docker runs a command that must succeed, within a minute.
func (r *rig) docker(args ...string) string {
	r.t.Helper()
	out, err := r.tryDocker(time.Minute, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) tryDocker(patience time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.e.Docker(ctx, args...)
}

// promptly is how long a command about a container may take at most, whatever the network
// does.
const promptly = 3 * time.Second

// quick runs a command that must succeed within 3 s.
func (r *rig) quick(args ...string) string {
	r.t.Helper()
	begin := time.Now()
	out, err := r.tryDocker(40*time.Second, args...)
	if took := time.Since(begin); took > promptly {
		// Is it the machine? A container without any log driver tells.
		var alone time.Duration
		for range 2 {
			begin = time.Now()
			_ = r.docker("run", "--rm", "--network", "none", "--log-driver", "none", engine.Image)
			alone = max(alone, time.Since(begin))
		}
		if took > promptly+5*alone {
			r.t.Errorf("docker %s took %s, more than %s; a container without logs takes %s", args[0], took.Round(time.Millisecond), promptly, alone.Round(time.Millisecond))
		}
	}
	if err != nil {
		r.t.Error(err)
	}
	return out
}

// group is the log group of all tests unless they name another.
const group = "g"

// container describes a container to run.
type container struct {
	name   string   // also of the stream
	driver []string // more log options, key=value; one with a key of the defaults replaces it
	flags  []string // of docker run
	steps  []string // of the writer
}

// args are those of `docker run` or `docker create`.
func (r *rig) args(c container) []string {
	opts := []string{"awslogs-group=" + group, "awslogs-stream=" + c.name, "awslogs-region=eu-west-1",
		"awslogs-endpoint=" + r.gate.url(), "awslogs-create-group=true", "awslogs-force-flush-interval-seconds=1"}
	for _, o := range c.driver {
		key, _, _ := strings.Cut(o, "=")
		opts = slices.DeleteFunc(opts, func(s string) bool { return strings.HasPrefix(s, key+"=") })
		if !strings.HasPrefix(o, "-") { // "-key" takes a default away
			opts = append(opts, o)
		} else {
			opts = slices.DeleteFunc(opts, func(s string) bool { return strings.HasPrefix(s, o[1:]+"=") })
		}
	}
	args := []string{"--name", r.name(c.name), "--network", "none", "--log-driver", r.driver}
	for _, o := range opts {
		args = append(args, "--log-opt", o)
	}
	return append(append(append(args, c.flags...), engine.Image), c.steps...)
}

// run starts a container in the background.
func (r *rig) run(c container) {
	r.t.Helper()
	r.docker(append([]string{"run", "-d"}, r.args(c)...)...)
}

// wait waits for the end of containers.
func (r *rig) wait(names ...string) {
	r.t.Helper()
	r.docker(append([]string{"wait"}, r.names(names...)...)...)
}

// do runs a container to its end.
func (r *rig) do(c container) {
	r.t.Helper()
	r.run(c)
	r.wait(c.name)
}

// get asks the plugin's status server.
func (r *rig) get(path string) (string, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + r.http + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(b), err
}

// flowing waits until a stream has lines.
func (r *rig) flowing(stream string) {
	r.t.Helper()
	weirtest.Eventually(r.t, "lines of "+stream+" come", func() (string, bool) {
		n := len(messages(r.emu, stream))
		return fmt.Sprint(n), n > 0
	})
}
