package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/test/docker/player"
	"weir/test/docker/written"
)

// pipeJob is what the process that plays the engine has to do.
type pipeJob struct {
	Socket, Dir string
	Containers  int
	Lines       int // of each container
	Size        int // bytes of a line
	Options     map[string]string
}

// pipeReport is what it says at its end.
type pipeReport struct {
	Seconds float64 // from the first write to the last answer to StopLogging
	CPU     float64
}

// runPipes reads a job, starts the containers' logging, says that it is ready, and writes
// everything when a line comes.
func runPipes(in io.Reader, out io.Writer) error {
	d := json.NewDecoder(in)
	var j pipeJob
	if err := d.Decode(&j); err != nil {
		return err
	}
	e := player.New(j.Socket, j.Dir)
	var sessions []*player.Session
	for i := range j.Containers {
		options := map[string]string{}
		for k, v := range j.Options {
			options[k] = v
		}
		options["awslogs-stream"] = fmt.Sprintf("c%d", i)
		s, err := e.Start(player.ContainerID(), options["awslogs-stream"], options)
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
	}
	fmt.Fprintln(out, "ready")
	var word string
	if err := d.Decode(&word); err != nil {
		return err
	}
	begin := time.Now()
	errs := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() { errs[i] = j.write(s) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	u, err := usageOf(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(pipeReport{Seconds: time.Since(begin).Seconds(), CPU: u.cpu().Seconds()})
}

// perBlock is how many frames the played engine writes at once.
const perBlock = 256

// frameBlock is frames of lines that are made once; then only the time in them changes.
type frameBlock struct {
	bytes []byte
	ends  []int // where each frame ends
	times []int // where the time of each frame stands
}

func newFrameBlock(size int) *frameBlock {
	b := &frameBlock{}
	for i := range perBlock {
		// Before the time stand the length, a tag, the length of the source, the source, a tag.
		b.times = append(b.times, len(b.bytes)+4+2+len(player.Stdout)+1)
		b.bytes = player.AppendFrame(b.bytes, player.Stdout, time.Now(), written.AppendLine(nil, "bench", i, size), nil)
		b.ends = append(b.ends, len(b.bytes))
	}
	return b
}

// frames gives the first n frames, a nanosecond apart.
func (b *frameBlock) frames(n int, at time.Time) []byte {
	for i, where := range b.times[:n] {
		v := uint64(at.UnixNano() + int64(i))
		protowire.AppendVarint(b.bytes[where:where:where+protowire.SizeVarint(v)], v)
	}
	return b.bytes[:b.ends[n-1]]
}

// write writes the lines of a container as an engine does, in order of time.
func (j *pipeJob) write(s *player.Session) error {
	block := newFrameBlock(j.Size)
	for left := j.Lines; left > 0; {
		n := min(left, perBlock)
		if err := s.Write(block.frames(n, time.Now())); err != nil {
			return err
		}
		left -= n
	}
	return s.Stop()
}

// pipes measures weir with a played engine.
func (b *bench) pipes(ctx context.Context, s *subject, containers int) (row dockerRow, err error) {
	if err := b.sink.ask("/reset", nil); err != nil {
		return row, err
	}
	dir, err := b.emptied("docker")
	if err != nil {
		return row, err
	}
	short, err := os.MkdirTemp("", "wdb") // for the socket and the pipes
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(short)
	ports := [2]int{}
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return row, err
		}
	}
	r := &running{s: s, dir: dir, http: fmt.Sprintf("127.0.0.1:%d", ports[0]), profile: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	socket := filepath.Join(short, "weir.sock")
	if r.process, err = start(ctx, filepath.Join(dir, s.name+".log"), b.dockerEnv(r.profile), s.path, "docker-plugin",
		"--socket", socket, "--pipes", short, "--spool", filepath.Join(dir, "spool"), "--http", r.http); err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, r.terminate()) }()
	if err := r.listens(socket); err != nil {
		return row, err
	}
	self, err := os.Executable()
	if err != nil {
		return row, err
	}
	job := pipeJob{Socket: socket, Dir: short, Containers: containers, Lines: b.o.lines / containers, Size: dockerLine, Options: b.dockerOptions("")}
	report, row, err := b.play(ctx, self, job, r)
	if err != nil {
		return row, err
	}
	row.what, row.containers, row.lines = s.name, containers, job.Lines*containers
	row.taken = time.Duration(report.Seconds * float64(time.Second))
	if row.arrived != int64(row.lines) {
		return row, r.failed(fmt.Errorf("%d lines were written, %d have arrived", row.lines, row.arrived))
	}
	return row, nil
}

// play runs the process that plays the engine and measures weir meanwhile.
func (b *bench) play(ctx context.Context, self string, job pipeJob, r *running) (report pipeReport, row dockerRow, err error) {
	stop := b.profile(ctx, benchCase{name: fmt.Sprintf("docker%d", job.Containers)}, r)
	p, err := startPlayer(ctx, self, job)
	if err != nil {
		return report, row, err
	}
	before, err := r.usage()
	if err != nil {
		return report, row, err
	}
	begin := time.Now()
	if report, err = p.run(); err != nil {
		return report, row, r.failed(err)
	}
	if row.arrived, err = b.arrived(ctx, int64(job.Lines*job.Containers), 20*time.Second); err != nil {
		return report, row, err
	}
	row.wall = time.Since(begin)
	after, err := r.usage()
	row.cpu, row.user, row.peak = after.cpu()-before.cpu(), after.user-before.user, after.peak
	return report, row, errors.Join(err, stop())
}

// listens waits until weir answers on its socket.
func (r *running) listens(socket string) error {
	e := player.New(socket, "")
	for range 400 {
		if e.Call("/LogDriver.Capabilities", nil, nil) == nil {
			return nil
		}
		if err := r.alive(); err != nil {
			return r.failed(err)
		}
		time.Sleep(25 * time.Millisecond)
	}
	return r.failed(errors.New("it does not answer after 10 s"))
}

// playerProcess is the process that plays the engine, seen from the runner.
type playerProcess struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *bufio.Reader
}

// startPlayer starts it and waits until all containers have their pipes.
func startPlayer(ctx context.Context, self string, job pipeJob) (*playerProcess, error) {
	p := &playerProcess{cmd: exec.CommandContext(ctx, self, "pipes")}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = json.NewEncoder(in), bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.in.Encode(job); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the played engine says %q: %w", line, errors.Join(err, p.cmd.Wait()))
	}
	return p, nil
}

// run lets it write and waits for its report.
func (p *playerProcess) run() (report pipeReport, err error) {
	if err := p.in.Encode("go"); err != nil {
		return report, err
	}
	err = json.NewDecoder(p.out).Decode(&report)
	return report, errors.Join(err, p.cmd.Wait())
}
