package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a process in the namespaces of an engine.
type Process struct {
	Pid  int // as this process sees it
	done chan struct{}
	err  error
}

// Enter starts cmd, which must not have been started, in the namespaces of the engine.
func (e *Engine) Enter(cmd *exec.Cmd) (*Process, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	tool, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{"nsenter", "-t", strconv.Itoa(e.holder.Process.Pid), "-m", "-p", "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = tool
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	// nsenter forks; its only child is the program.
	for end := time.Now().Add(5 * time.Second); p.Pid == 0; time.Sleep(time.Millisecond) {
		select {
		case <-p.done:
			return nil, fmt.Errorf("it ended at once: %v", p.err)
		default:
		}
		if kids := children()[cmd.Process.Pid]; len(kids) > 0 {
			p.Pid = kids[0]
		} else if time.Now().After(end) {
			_ = cmd.Process.Kill()
			return nil, errors.New("nsenter started nothing")
		}
	}
	return p, nil
}

// Exec runs a program in the namespaces of the engine and gives what it prints, both ways.
func (e *Engine) Exec(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(e.holder.Process.Pid), "-m", "-p", "--", name}, args...)...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return text, err
}

// Path is where a path that the engine sees is for this process.
func (e *Engine) Path(name string) string {
	return fmt.Sprintf("/proc/%d/root%s", e.holder.Process.Pid, name)
}

// Signal sends a signal; a process that has ended does not mind.
func (p *Process) Signal(s syscall.Signal) { _ = syscall.Kill(p.Pid, s) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Find gives the processes in the engine's namespaces whose command line, with blanks
// between the arguments, contains text: containers' and plugins' processes too.
func (e *Engine) Find(text string) []int {
	var found []int
	for _, pid := range descendants(e.holder.Process.Pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), text) {
			found = append(found, pid)
		}
	}
	return found
}

// descendants gives the processes below pid that run just now.
func descendants(pid int) []int {
	all := children()
	var found []int
	for next := []int{pid}; len(next) > 0; {
		kids := all[next[0]]
		found, next = append(found, kids...), append(next[1:], kids...)
	}
	return found
}

// children gives the children of each process.
func children() map[int][]int {
	entries, _ := os.ReadDir("/proc")
	all := map[int][]int{}
	for _, d := range entries {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may hold blanks; state and parent follow it.
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if parent, err := strconv.Atoi(f[1]); err == nil && f[0] != "Z" {
			all[parent] = append(all[parent], pid)
		}
	}
	return all
}

// freeze stops all processes of the engine, plugins and containers too, where they are.
func (e *Engine) freeze() error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var running []int
		for _, pid := range descendants(e.holder.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			if !stopped(pid) {
				running = append(running, pid)
			}
		}
		if len(running) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v do not stop", running)
		}
	}
}

// stopped says whether all threads of a process are stopped, or gone.
func stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if state, _, _ := bytes.Cut(bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:]), []byte{' '}); !bytes.ContainsAny(state, "TtZX") {
			return false
		}
	}
	return true
}

// waitGone waits until a process that was killed is no more.
func waitGone(pid int) {
	for range 500 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
