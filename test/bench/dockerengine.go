package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"weir/test/docker/engine"
	"weir/test/docker/player"
)

var errNoEngine = errors.New("no Docker Engine")

// engineContainers write at the same time on a real engine.
const engineContainers = 20

// engines measures the engine's own awslogs driver, and weir as its plugin, each on an engine
// started for it.
func (b *bench) engines(ctx context.Context, subjects []*subject, add func(func() (dockerRow, error)) error) error {
	if err := engine.Available(); err != nil {
		return fmt.Errorf("%w: %w", errNoEngine, err)
	}
	dir, err := b.emptied("writer")
	if err != nil {
		return err
	}
	writer, err := engine.BuildWriter(ctx, dir)
	if err != nil {
		return err
	}
	if err := add(func() (dockerRow, error) { return b.onEngine(ctx, nil, writer) }); err != nil {
		return err
	}
	for _, s := range subjects {
		if err := add(func() (dockerRow, error) { return b.onEngine(ctx, s, writer) }); err != nil {
			return err
		}
	}
	return nil
}

// onEngine measures a log driver on a real engine: weir, or the engine's own with a nil subject.
func (b *bench) onEngine(ctx context.Context, s *subject, writer string) (row dockerRow, err error) {
	e, err := engine.Start(ctx, engine.Options{Env: []string{"AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "SSL_CERT_FILE=" + b.sink.cert}})
	if err != nil {
		return row, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	defer e.Close()
	if err := e.ImportWriter(ctx, writer); err != nil {
		return row, err
	}
	driver, pid := "awslogs", e.Pid()
	row.what, row.containers = "awslogs of the engine", engineContainers
	if s != nil {
		p, err := b.plugin(e, s)
		if err != nil {
			return row, err
		}
		driver, pid, row.what = "weir", p.Pid, s.name+" on the same engine"
	}
	perContainer := b.o.lines / 4 / engineContainers
	row.lines = (perContainer + 1) * engineContainers // each ends with one line more
	names, err := b.containers(ctx, e, driver, perContainer)
	if err != nil {
		return row, err
	}
	if err := b.sink.ask("/reset", nil); err != nil {
		return row, err
	}
	before, err := usageOf(pid)
	if err != nil {
		return row, err
	}
	engineBefore, err := usageOf(e.Pid())
	if err != nil {
		return row, err
	}
	begin := time.Now()
	for _, step := range [][]string{{"kill", "-s", "USR1"}, {"wait"}} {
		if _, err := e.Docker(ctx, append(step, names...)...); err != nil {
			return row, err
		}
	}
	row.taken = time.Since(begin)
	if row.arrived, err = b.arrived(ctx, int64(row.lines), 15*time.Second); err != nil {
		return row, err
	}
	row.wall = time.Since(begin)
	after, err1 := usageOf(pid)
	engineAfter, err2 := usageOf(e.Pid())
	row.cpu, row.user, row.peak = after.cpu()-before.cpu(), after.user-before.user, after.peak
	if s != nil {
		row.engine, row.enginePeak = engineAfter.cpu()-engineBefore.cpu(), engineAfter.peak
		if row.arrived != int64(row.lines) {
			return row, fmt.Errorf("%s: %d lines were written, %d have arrived", row.what, row.lines, row.arrived)
		}
	}
	return row, errors.Join(err1, err2)
}

// plugin starts weir beside an engine.
func (b *bench) plugin(e *engine.Engine, s *subject) (*engine.Process, error) {
	dir, err := b.emptied("docker")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, s.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "docker-plugin", "--socket", "/run/docker/plugins/weir.sock", "--spool", filepath.Join(dir, "spool"))
	cmd.Env = append(os.Environ(), b.dockerEnv("")...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := e.Enter(cmd)
	if err != nil {
		return nil, err
	}
	socket := player.New(filepath.Join(e.RunDir(), "plugins", "weir.sock"), "")
	for range 400 {
		if socket.Call("/LogDriver.Capabilities", nil, nil) == nil {
			return p, nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s does not answer after 10 s; its log ends with:\n%s", s.name, text[max(0, len(text)-2000):])
}

// containers starts containers that wait for SIGUSR1 to write.
func (b *bench) containers(ctx context.Context, e *engine.Engine, driver string, lines int) ([]string, error) {
	var names []string
	for i := range engineContainers {
		name := fmt.Sprintf("c%d", i)
		args := []string{"create", "--name", name, "--network", "none", "--log-driver", driver}
		for k, v := range b.dockerOptions(name) {
			args = append(args, "--log-opt", k+"="+v)
		}
		args = append(args, engine.Image, "await", fmt.Sprintf("lines:n=%d,id=%s,size=%d,burst=10", lines, name, dockerLine))
		if _, err := e.Docker(ctx, args...); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	_, err := e.Docker(ctx, append([]string{"start"}, names...)...)
	return names, err
}
