// Package engine runs a Docker Engine of its own, for tests and benchmarks: Debian's dockerd
// with its data in a directory of its own, without networks and without any image from
// elsewhere.
//
// The engine lives in its own mount and process namespaces, in which /run/docker and
// /run/containerd are its own as well. So an engine that the machine has anyway is not
// touched, log plugins of both do not meet, and when the first process of the namespace is
// killed everything is gone with it: engine, containers, plugins and mounts. The kernel
// kills it when the process that called Start ends, however it ends.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Options are how an engine is started.
type Options struct {
	// Env is added to the environment of dockerd: credentials of its own log drivers.
	Env []string
	// LiveRestore lets containers run on while dockerd is away.
	LiveRestore bool
	// Flags are further flags of dockerd.
	Flags []string
	// Before is called before dockerd runs, by Start and by Run after Crash, to mount
	// something; nil: nothing.
	Before func(e *Engine) error
}

// Engine is a running engine. Its methods may be used from any goroutine, except Stop,
// Kill, Run and Close, which are for one.
type Engine struct {
	Dir string // short, since it holds sockets; removed by Close

	holder *exec.Cmd // keeps the namespaces
	daemon *Process
	log    string // dockerd's log

	mounted bool // Options.Before was called in these namespaces
}

// patience is how long dockerd may take to start and to stop. It needs well below a second.
const patience = 90 * time.Second

// Available says why no engine can be had here, or nil. It looks only for what can be seen;
// Start may still fail where mounts or cgroups are not permitted.
func Available() error {
	if os.Getuid() != 0 {
		return errors.New("a Docker Engine needs root")
	}
	for _, name := range []string{"dockerd", "containerd", "runc", "docker", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not on the PATH (apt-get install docker.io)", name)
		}
	}
	return nil
}

// script prepares the namespaces and then waits for nothing, as their first process. A shell
// reaps what is left to it.
const script = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mkdir -p /run/docker /run/containerd
mount --bind "$1/run" /run/docker
mount --bind "$1/ctd" /run/containerd
echo ready
while sleep 3600; do :; done`

// Start starts an engine and waits until it answers.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wde")
	if err != nil {
		return nil, err
	}
	e := &Engine{Dir: dir, log: filepath.Join(dir, "dockerd.log")}
	if err := e.hold(); err != nil {
		e.Close()
		return nil, fmt.Errorf("make namespaces for an engine: %w", err)
	}
	if err := e.Run(ctx, o); err != nil {
		err = fmt.Errorf("%w; its log ends with:\n%s", err, e.Log(20))
		e.Close()
		return nil, err
	}
	return e, nil
}

// hold starts the first process of the namespaces.
func (e *Engine) hold() error {
	for _, d := range []string{"run/plugins", "ctd", "cli"} {
		if err := os.MkdirAll(filepath.Join(e.Dir, d), 0o755); err != nil {
			return err
		}
	}
	e.holder = exec.Command("sh", "-c", script, "sh", e.Dir)
	e.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	e.holder.Stderr = &stderr
	out, err := e.holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := e.holder.Start(); err != nil {
		return err
	}
	word := make([]byte, 5)
	if _, err := out.Read(word); err != nil || string(word) != "ready" {
		return fmt.Errorf("the shell says %q %s", word, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// Run starts dockerd, again after Stop or Kill, and waits until it answers.
func (e *Engine) Run(ctx context.Context, o Options) error {
	_ = os.Remove(filepath.Join(e.Dir, "pid")) // of a dockerd that was killed: its number may be taken again
	if o.Before != nil && !e.mounted {
		if err := o.Before(e); err != nil {
			return err
		}
		e.mounted = true
	}
	args := []string{"--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs",
		"--data-root", e.Dir + "/data", "--exec-root", e.Dir + "/exec", "--pidfile", e.Dir + "/pid", "-H", "unix://" + e.Dir + "/s",
		"--cgroup-parent", e.cgroup(), "--shutdown-timeout", "10"}
	if o.LiveRestore {
		args = append(args, "--live-restore")
	}
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("dockerd", append(args, o.Flags...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(cleanEnv(), o.Env...)
	if e.daemon, err = e.Enter(cmd); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	for end := time.Now().Add(patience); ; {
		if _, err = e.Docker(ctx, "version"); err == nil {
			return nil
		}
		select {
		case <-e.daemon.done:
			return fmt.Errorf("dockerd has ended: %v", e.daemon.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("dockerd does not answer after %s: %w", patience, err)
		}
	}
}

// Stop ends dockerd in order, as a service manager does. Without live-restore it stops the
// containers.
func (e *Engine) Stop() error {
	e.daemon.Signal(syscall.SIGTERM)
	select {
	case <-e.daemon.done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("dockerd has not ended after %s", patience)
	}
}

// Kill ends dockerd at once. Containers and plugins run on.
func (e *Engine) Kill() {
	e.daemon.Signal(syscall.SIGKILL)
	<-e.daemon.done
}

// Crash ends everything at once, as when a host is switched off, and prepares for Run. What
// a host keeps in memory is lost: /run. What was written to disk is all there, except on a
// disk that was cut off before, see Mount; mounts are gone.
func (e *Engine) Crash() error {
	e.end()
	e.mounted = false
	for _, d := range []string{"run", "ctd", "exec"} {
		if err := os.RemoveAll(filepath.Join(e.Dir, d)); err != nil {
			return err
		}
	}
	return e.hold()
}

// Pid is the process id of dockerd, as this process sees it.
func (e *Engine) Pid() int { return e.daemon.Pid }

// Close ends everything and removes it. It may be called more than once.
func (e *Engine) Close() {
	e.end()
	_ = os.RemoveAll(e.Dir)
}

// end kills all processes and waits for them.
func (e *Engine) end() {
	if e.holder != nil && e.holder.Process != nil {
		below := descendants(e.holder.Process.Pid)
		_ = e.holder.Process.Kill() // the kernel kills all others in the namespace
		_ = e.holder.Wait()         // it was killed: the error says so
		for _, pid := range below {
			waitGone(pid)
		}
		e.holder = nil
	}
	if e.daemon != nil {
		<-e.daemon.done
	}
	e.removeCgroups()
}

// cgroup is the parent of the containers' groups.
func (e *Engine) cgroup() string { return "/" + filepath.Base(e.Dir) }

// removeCgroups removes the groups of containers that were killed with their engine.
func (e *Engine) removeCgroups() {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*" + e.cgroup())
	for _, root := range append(roots, "/sys/fs/cgroup"+e.cgroup()) {
		var dirs []string
		_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i]) // a group that is still busy stays: nothing depends on it
		}
	}
}

// Docker runs the command line client and gives what it prints, both ways, without blanks
// around it.
func (e *Engine) Docker(ctx context.Context, args ...string) (string, error) {
	cmd := e.Client(ctx, args...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return text, fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return text, nil
}

// Client is a command of the command line client that has not been started.
func (e *Engine) Client(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = append(cleanEnv(), "DOCKER_HOST=unix://"+e.Dir+"/s", "DOCKER_CONFIG="+e.Dir+"/cli")
	return cmd
}

// RunDir is where the engine's /run/docker is for this process: sockets of plugins and the
// pipes of plugins without packaging lie there.
func (e *Engine) RunDir() string { return filepath.Join(e.Dir, "run") }

// Log is the end of dockerd's log, in lines.
func (e *Engine) Log(n int) string {
	b, _ := os.ReadFile(e.log)
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// cleanEnv is this process's environment without what would lead a client or a log driver
// elsewhere.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		upper := strings.ToUpper(name)
		if strings.HasPrefix(upper, "AWS_") || strings.HasPrefix(upper, "DOCKER_") || strings.HasSuffix(upper, "_PROXY") {
			continue
		}
		env = append(env, v)
	}
	return append(env, "NO_PROXY=127.0.0.1,localhost")
}
