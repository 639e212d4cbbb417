//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/dockertest"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// world is what outlives processes: the directories, the spools and what is in the pipes.
type world struct {
	tb     testing.TB
	dir    string
	engine *dockertest.Engine

	mu     sync.Mutex // guards the rest
	disk   *vfstest.FS
	spools map[string]*spooled
	logs   strings.Builder
}

// spooled is what a spool has durably.
type spooled struct {
	opens, released int
	events          []stored
	chunks          []event.Chunk
}

// stored is an event or, with lost > 0, a booked loss.
type stored struct {
	tag, message string
	time         event.Time
	lost, bytes  uint64
}

func newWorld(tb testing.TB) *world {
	dir, err := os.MkdirTemp("", "weir") // short: the path of a socket is bounded
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{tb: tb, dir: dir, disk: vfstest.New(), spools: map[string]*spooled{}}
	if err := os.Mkdir(w.pipes(), 0o700); err != nil {
		tb.Fatal(err)
	}
	w.engine = dockertest.New(w.pipes(), w.socket())
	return w
}

func (w *world) pipes() string  { return filepath.Join(w.dir, "logging") }
func (w *world) socket() string { return filepath.Join(w.dir, "plugins", "weir.sock") }

// Write takes the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.Write(b)
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.String()
}

func (w *world) spool(id string) *spooled {
	s := w.spools[id]
	if s == nil {
		s = &spooled{}
		w.spools[id] = s
	}
	return s
}

// events gives what the spool of a container has.
func (w *world) events(id string) []stored {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]stored(nil), w.spool(id).events...)
}

func (w *world) messages(id string) (all []string) {
	for _, e := range w.events(id) {
		if e.lost > 0 {
			all = append(all, fmt.Sprintf("<%d lost>", e.lost))
		} else {
			all = append(all, e.message)
		}
	}
	return all
}

// process is a running plugin.
type process struct {
	*Plugin
	w     *world
	end   context.CancelFunc
	ended chan error

	mu     sync.Mutex // guards the rest; taken after the world's
	dead   bool
	die    func(key string, at stage) bool // asked at each stage
	putMax func(batches int) int           // how many of the batches are stored; fewer than all kills
	block  chan struct{}                   // Put waits for it
	putErr error
	open   error // of Host.Open
}

func (w *world) start(change ...func(*process, *Options)) *process {
	w.tb.Helper()
	p := &process{w: w, ended: make(chan error, 1)}
	o := Options{
		Socket: w.socket(), State: "sessions", Pipes: w.pipes(), Host: p, fs: w.disk, kill: p.kill,
		stop: time.Minute, // a busy machine is none of what is tested
		Log:  slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(p, &o)
	}
	p.Plugin = New(o)
	if err := p.Plugin.Open(); err != nil {
		w.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() { p.ended <- p.Run(ctx) }()
	w.tb.Cleanup(p.stop)
	return p
}

// stop ends the process in good order, or cleans up after a dead one.
func (p *process) stop() {
	p.end()
	if err, ok := <-p.ended; ok {
		close(p.ended)
		if err != nil {
			p.w.tb.Error(err)
		}
	}
}

// kill is the hook of the Plugin.
func (p *process) kill(key string, at stage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead && p.die != nil && p.die(key, at) {
		p.dieLocked()
	}
	return p.dead
}

func (p *process) dieLocked() {
	p.dead = true
	p.w.disk = p.w.disk.Kill()
}

// sigkill kills the process and waits until nothing of it is left.
func (p *process) sigkill() {
	p.mu.Lock()
	if !p.dead {
		p.dieLocked()
	}
	p.mu.Unlock()
	p.stop()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Open implements Host.
func (p *process) Open(c *Container) (Spool, error) {
	p.mu.Lock()
	err := p.open
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	s := p.w.spool(c.ID)
	s.opens++
	known := s.chunks
	if len(known) > 64 {
		known = known[len(known)-64:]
	}
	return &spoolOf{p, s, append([]event.Chunk(nil), known...)}, nil
}

type spoolOf struct {
	p      *process
	s      *spooled
	chunks []event.Chunk
}

var errDisk = errors.New("no answer from the disk")

func (s *spoolOf) Put(_ context.Context, batches []event.Batch) error {
	s.p.mu.Lock()
	block, err := s.p.block, s.p.putErr
	s.p.mu.Unlock()
	if block != nil {
		<-block
	}
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.dead {
		return nil
	}
	if s.p.putMax != nil {
		if n := s.p.putMax(len(batches)); n < len(batches) {
			batches = batches[:n]
			s.p.dieLocked()
		}
	}
	for _, b := range batches {
		count := 0
		var first, last event.Time
		for rest := b.Entries; len(rest) > 0; count++ {
			e, n, nerr := event.Next(rest)
			if nerr != nil {
				s.p.w.tb.Error(nerr)
				break
			}
			rest = rest[n:]
			if count == 0 {
				first, last = e.Time, e.Time
			}
			first, last = min(first, e.Time), max(last, e.Time)
			s.s.events = append(s.s.events, stored{tag: b.Tag, message: messageOf(e.Record), time: e.Time})
		}
		if count != b.Count || first != b.First || last != b.Last {
			s.p.w.tb.Errorf("batch says %d events %d to %d and has %d, %d to %d", b.Count, b.First, b.Last, count, first, last)
		}
		if b.Chunk.IsZero() {
			s.p.w.tb.Error("a batch without id")
		}
		s.s.chunks = append(s.s.chunks, b.Chunk)
	}
	return err
}

// messageOf reads {"m": message}.
func messageOf(r []byte) string {
	r = r[3:]
	switch {
	case r[0]>>5 == 5:
		return string(r[1:])
	case r[0] == 0xd9:
		return string(r[2:])
	case r[0] == 0xda:
		return string(r[3:])
	}
	return string(r[5:])
}

func (s *spoolOf) Miss(id event.Chunk, tag string, reason ledger.Reason, events, bytes uint64, first, last event.Time) {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	if s.p.isDead() {
		return
	}
	if reason != ledger.WireLoss || first <= 0 || first > last {
		s.p.w.tb.Errorf("loss for %v from %d to %d", reason, first, last)
	}
	s.s.events = append(s.s.events, stored{tag: tag, time: first, lost: events, bytes: bytes})
	s.s.chunks = append(s.s.chunks, id)
}

func (s *spoolOf) Chunks() []event.Chunk { return s.chunks }

func (s *spoolOf) Release() {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	s.s.released++
}

// id makes a name of 64 digits.
func id(n int) string { return fmt.Sprintf("%064x", n) }

// info is what StartLogging says.
func info(n int, options ...string) map[string]any {
	config := map[string]string{"awslogs-group": "g", "awslogs-stream": "s", "awslogs-region": "eu-central-1"}
	for _, o := range options {
		k, v, _ := strings.Cut(o, "=")
		config[k] = v
	}
	return map[string]any{"Config": config, "ContainerID": id(n), "ContainerName": fmt.Sprintf("/c%d", n), "DaemonName": "docker"}
}

var base = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).UnixNano()

func line(i int, text string) dockertest.Frame {
	return dockertest.Frame{Source: "stdout", Time: base + int64(i)*1000, Line: []byte(text)}
}

func errLine(i int, text string) dockertest.Frame {
	f := line(i, text)
	f.Source = "stderr"
	return f
}

// eventually waits for something that other goroutines bring about through the kernel, where
// virtual time does not reach.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("not within a minute: " + what)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
