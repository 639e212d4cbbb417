package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	err   error
}

// startHelper starts this program again in another role and reads the line it begins with.
func startHelper(ctx context.Context, path string, args ...string) (*process, string, error) {
	p := &process{cmd: exec.CommandContext(ctx, path, args...), done: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, line, err
}

// start starts a subject; its output goes to the file log.
func start(ctx context.Context, log string, env []string, path string, args ...string) (*process, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &process{cmd: exec.CommandContext(ctx, path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.Env = append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// end closes the standard input of a helper, which ends it.
func (p *process) end() {
	_ = p.stdin.Close()
	<-p.done
}

// terminate sends SIGTERM and waits.
func (p *process) terminate() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
		return errors.New("it did not stop within 40 s")
	}
}

// alive says nil, or how the process ended.
func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("it has ended: %v", p.err)
	default:
		return nil
	}
}

// usage is what the kernel says about a process.
type usage struct {
	user, system time.Duration
	rss, peak    int64 // bytes
}

func (u usage) cpu() time.Duration { return u.user + u.system }

// tick is a unit of /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

func (p *process) usage() (usage, error) { return usageOf(p.cmd.Process.Pid) }

func usageOf(pid int) (u usage, err error) {
	base := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(base + "stat")
	if err != nil {
		return u, err
	}
	// The name in parentheses may hold blanks; utime and stime are the 12th and 13th behind.
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ut, err1 := strconv.ParseInt(f[11], 10, 64)
	st, err2 := strconv.ParseInt(f[12], 10, 64)
	u.user, u.system = time.Duration(ut)*tick, time.Duration(st)*tick
	status, err3 := os.ReadFile(base + "status")
	for line := range strings.Lines(string(status)) {
		key, val, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(val), " kB"), 10, 64)
		switch key {
		case "VmHWM":
			u.peak = n << 10
		case "VmRSS":
			u.rss = n << 10
		}
	}
	return u, errors.Join(err1, err2, err3)
}

// machine describes this machine in a line.
func machine() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if key, val, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(val)
				break
			}
		}
	}
	var u syscall.Utsname
	release := ""
	if syscall.Uname(&u) == nil {
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			release += string(rune(c))
		}
	}
	load := ""
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Fields(string(b))[0]
	}
	return fmt.Sprintf("%d x %s, Linux %s, load %s, %s", runtime.NumCPU(), model, release, load, runtime.Version())
}
