package weirtest

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// EmulatorProcess is `weir emulate` as a process of its own.
type EmulatorProcess struct {
	t        testing.TB
	Dir, URL string
	cmd      *exec.Cmd
}

// StartEmulator runs `weir emulate --dir dir` on a free port.
func StartEmulator(t testing.TB, dir string, args ...string) *EmulatorProcess {
	t.Helper()
	p := &EmulatorProcess{t: t, Dir: dir}
	p.start("127.0.0.1:0", args...)
	t.Cleanup(func() {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait() // killed: the error says so
		}
	})
	return p
}

func (p *EmulatorProcess) start(addr string, args ...string) {
	p.t.Helper()
	p.cmd = exec.Command(Binary(), append([]string{"emulate", "--addr", addr, "--dir", p.Dir}, args...)...)
	p.cmd.Env = CleanEnv()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	at := strings.Index(line, "http://")
	if err != nil || at < 0 {
		p.t.Fatalf("weir emulate printed %q (%v)", line, err)
	}
	p.URL, _, _ = strings.Cut(line[at:], " ")
}

// Restart kills the process with SIGKILL and starts it again at the same address.
func (p *EmulatorProcess) Restart() {
	p.t.Helper()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.start(strings.TrimPrefix(p.URL, "http://"))
}

// Stop ends the process in order.
func (p *EmulatorProcess) Stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("weir emulate: %v", err)
	}
	p.cmd = nil
}
