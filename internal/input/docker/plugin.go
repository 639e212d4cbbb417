package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/input/docker/awslogs"
)

const (
	maxViewers  = 8
	collectTime = 10 * time.Minute // between two searches for stray pipes, and how old one must be
	closeTime   = 1500 * time.Millisecond
)

// Plugin is the logging driver: a listener on a unix socket and a session for each pipe.
type Plugin struct {
	o     Options
	store store
	lock  io.Closer // of Options.State

	server   *http.Server
	listener net.Listener
	leave    chan struct{}  // closed when Run ends
	tasks    sync.WaitGroup // goroutines of sessions and of orphans
	free     chan *viewer
	drafts   sync.Pool
	looks    atomic.Int64 // sessions that look at their pipes, or want to
	lost     []string     // pipes of sessions that could not be taken over
	saves    lockedTrouble
	forgets  lockedTrouble
	pipeMax  int // the largest size that a pipe can be given

	mu       sync.Mutex // guards the rest
	sessions map[string]*session
	order    []*session
	orphans  map[string]bool // pipes without a session that are emptied
	closed   bool
	total    Counts // of sessions that have ended
	pipeSum  int    // bytes of pipes that were made larger
}

// stage is a point in the work of a session at which a process may be killed.
type stage int

const (
	stageLooked    stage = iota // nothing is stored yet
	stageStored                 // the spool has it
	stageHeld                   // what is held is stored
	stageTaken                  // the pipe is without it
	stageFlushing               // what will be flushed is stored
	stageFlushed                // the spool has it
	stageFlushHeld              // what is held after a flush is stored
	stageEmpty                  // there was nothing in the pipe
	stages
)

// New makes a Plugin. Call Open and then Run.
func New(o Options) *Plugin {
	return &Plugin{o: o, leave: make(chan struct{}), sessions: map[string]*session{}, orphans: map[string]bool{}}
}

// Open takes over the sessions that an earlier process left and listens on the socket. It
// waits for nobody. After an error nothing is left open; without one call Run.
func (p *Plugin) Open() (err error) {
	if err := p.o.validate(); err != nil {
		return err
	}
	p.drafts.New = func() any { return new(draft) }
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.store = store{p.o.fs, p.o.State}
	if err := p.o.fs.MkdirAll(p.o.State); err != nil {
		return fmt.Errorf("make the directory of sessions: %w", err)
	}
	if p.lock, err = p.o.fs.Lock(p.o.State); err != nil {
		return fmt.Errorf("take the directory of sessions; is another weir docker-plugin running?: %w", err)
	}
	p.pipeMax = pipeLimit()
	viewers := min(2*runtime.GOMAXPROCS(0), maxViewers) // nobody waits while he has one
	p.free = make(chan *viewer, viewers)
	for range viewers {
		b, err := newViewer()
		if err != nil {
			return err
		}
		p.free <- b
	}
	if err := p.takeOver(); err != nil {
		return err
	}
	p.server = p.newServer()
	p.listener, err = listen(p.o.Socket)
	return err
}

// takeOver opens the pipes of the sessions that an earlier process left. Run starts them.
func (p *Plugin) takeOver() error {
	all, damaged, err := p.store.load()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *saved) int { return a.Since.Compare(b.Since) })
	const lost = "a container's session cannot be taken over: its log lines are thrown away until the container is restarted"
	for _, d := range damaged {
		p.o.Log.Error(lost, "error", d.err)
		p.lost = append(p.lost, filepath.Join(p.o.Pipes, d.key))
	}
	for _, sv := range all {
		s := newSession(p, sv, true)
		if err := s.compile(); err != nil {
			p.o.Log.Error(lost, "container", sv.ID, "error", err)
			p.lost = append(p.lost, sv.File)
			continue
		}
		// Now, so that what is in the pipe does not end with its writer.
		if s.pipe, err = openPipe(sv.File); err == nil {
			p.grow(s.pipe)
		}
		close(s.ready)
		p.add(s)
	}
	return nil
}

// Run serves Docker until ctx ends. Then it stops in good order: what was looked at is stored,
// and the sessions are kept for the next process. Open must have been called.
func (p *Plugin) Run(ctx context.Context) error {
	p.mu.Lock()
	for _, s := range p.order {
		p.tasks.Go(s.run)
	}
	p.mu.Unlock()
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(p.listener) }()

	for _, path := range p.lost {
		p.collectOne(path)
	}
	p.collect(time.Now())
	t := time.NewTicker(collectTime)
	defer t.Stop()
	var err error
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-t.C:
			p.collect(now)
		case err = <-served:
			err = fmt.Errorf("serve %s: %w", p.o.Socket, err)
		}
	}
	soon, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if p.server.Shutdown(soon) != nil {
		_ = p.server.Close()
	}
	if err == nil {
		<-served
	}
	p.close()
	return err
}

// close ends all sessions, which stay stored, and gives back what Open took.
func (p *Plugin) close() {
	p.mu.Lock()
	p.closed = true
	close(p.leave)
	for _, s := range p.order {
		s.wake()
	}
	p.mu.Unlock()
	p.tasks.Wait()
	for _, s := range p.list() { // those of which the goroutine never began
		if s.pipe != nil {
			_ = s.pipe.close()
		}
	}
	for len(p.free) > 0 {
		(<-p.free).close()
	}
	if p.lock != nil {
		_ = p.lock.Close()
	}
}

// begin answers StartLogging. When it returns without an error, the container's lines are
// read, also by a process that takes over from this one.
func (p *Plugin) begin(file string, info *awslogs.Info) error {
	o, err := awslogs.Parse(info, awslogs.Env{Hostname: p.o.Hostname})
	if err != nil {
		return err
	}
	s := newSession(p, &saved{File: file, ID: info.ContainerID, Name: info.Name(), Since: time.Now(), Options: o}, false)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errors.New("the plugin stops just now; try again")
	}
	if first := p.sessions[s.key]; first != nil { // Docker asks again when an answer was lost
		p.mu.Unlock()
		<-first.ready
		return first.startErr
	}
	p.addLocked(s)
	p.mu.Unlock()

	s.startErr = p.prepare(s)
	close(s.ready)
	if s.startErr != nil {
		p.remove(s)
		close(s.done)
	}
	return s.startErr
}

// prepare opens what a new session needs and starts it.
func (p *Plugin) prepare(s *session) (err error) {
	if err := s.compile(); err != nil {
		return err
	}
	from, err := openPipe(s.saved.File)
	if err != nil {
		return fmt.Errorf("open the pipe of the container: %w", err)
	}
	if s.spool, err = p.o.Host.Open(s.container()); err != nil {
		return errors.Join(err, from.close())
	}
	p.grow(from)
	err = p.store.save(s.saved)

	p.saves.note(p.o.Log, "the sessions of containers cannot be stored: the lines that they write after a restart of the plugin would be lost",
		"sessions are stored again", err)
	p.o.Log.Debug("session begins", "container", s.saved.ID, "pipe", s.saved.File)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.mu.Lock()
	s.pipe = from
	s.mu.Unlock()
	if p.closed { // the next process takes it over
		s.spool.Release()
		return errors.Join(from.close(), errors.New("the plugin stops just now; try again"))
	}
	p.tasks.Go(s.run)
	return nil
}

// finish answers StopLogging: it returns when all that was in the pipe is in the spool, or
// after a while, since the end of the container waits for it. Nothing but time ends that wait:
// no disk, no lock, no other session. After an error Docker leaves the pipe as it is, and the next
// process finds what is in it.
func (p *Plugin) finish(file string) error {
	var found atomic.Pointer[session]
	ended := make(chan error, 1)
	go func() { ended <- p.halt(file, &found) }()
	t := time.NewTimer(p.o.stop)
	defer t.Stop()
	select {
	case err := <-ended:
		return err
	case <-t.C:
		log := p.o.Log.With("pipe", file)
		if s := found.Load(); s != nil {
			log = s.log
		}
		log.Warn("the container has ended, and its last lines are not all stored yet")
		return nil
	}
}

// halt ends a session and returns when all that was in its pipe is in the spool.
func (p *Plugin) halt(file string, found *atomic.Pointer[session]) error {
	p.mu.Lock()
	s := p.sessions[keyOf(file)]
	p.mu.Unlock()
	if s == nil {
		return nil // it has ended already, when the pipe did
	}
	found.Store(s)
	s.halt()
	<-s.done // it ends with the plugin at the latest
	if !s.ended {
		return errors.New("the plugin stops just now")
	}
	return nil
}

func (p *Plugin) add(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(s)
}

// addLocked puts s into the table, behind the session before of the same container: Docker
// went away without a word, and has come back.
func (p *Plugin) addLocked(s *session) {
	for _, other := range p.order {
		if other.saved.ID == s.saved.ID {
			s.prev = other
		}
	}
	p.sessions[s.key] = s
	p.order = append(p.order, s)
}

func (p *Plugin) remove(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[s.key] == s {
		delete(p.sessions, s.key)
	}
	if i := slices.Index(p.order, s); i >= 0 {
		p.order = slices.Delete(p.order, i, i+1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.total.add(&s.stats.Counts)
	if s.pipe != nil {
		p.pipeSum -= s.pipe.grown
	}
}

func (p *Plugin) list() []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

// Sessions lists the sessions that run, in the order in which they began.
func (p *Plugin) Sessions() []SessionStats {
	all := p.list()
	stats := make([]SessionStats, len(all))
	for i, s := range all {
		s.mu.Lock()
		stats[i] = s.stats
		s.mu.Unlock()
	}
	return stats
}

// Totals sums the counts of all sessions of this process, those that have ended included.
func (p *Plugin) Totals() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.total
	for _, s := range p.order {
		s.mu.Lock()
		sum.add(&s.stats.Counts)
		s.mu.Unlock()
	}
	return sum
}

// killedAt says whether a test wants the process to be dead from here on.
func (p *Plugin) killedAt(s *session, at stage) bool { return p.o.kill != nil && p.o.kill(s.key, at) }

// takeViewer gives the means to look at a pipe. It waits while all are in use, and fails when the
// plugin stops.
func (p *Plugin) takeViewer() (*viewer, error) {
	select {
	case <-p.leave:
		return nil, errLeave
	default:
	}
	select {
	case <-p.leave:
		return nil, errLeave
	case b := <-p.free:
		return b, nil
	}
}

func (p *Plugin) returnViewer(b *viewer) { p.free <- b }

// share is how much one of the sessions that look at their pipes just now should take: what all have
// taken is in memory until it is stored.
func (p *Plugin) share() int {
	return min(max(maxLooks/max(int(p.looks.Load()), 1), minBlock), maxBlock)
}

func (p *Plugin) takeDraft(tags []string) *draft {
	d := p.drafts.Get().(*draft)
	d.reset(tags)
	return d
}

func (p *Plugin) returnDraft(d *draft) {
	d.trim()
	p.drafts.Put(d)
}

// maxPipes is how much larger than before all pipes together are made. The kernel counts
// pipes by user and gives root's other pipes, those of containers too, very little room once
// 64 MiB are reached.
const maxPipes = 32 << 20

// grow makes a pipe as large as is proper: the first ones hold most, so that their containers
// can go on longer while no plugin runs.
func (p *Plugin) grow(from *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := p.pipeMax
	if p.pipeSum > maxPipes/2 {
		size = min(size, maxBlock)
	}
	if extra := size - from.size; extra > 0 && p.pipeSum+extra <= maxPipes {
		from.grow(size)
		p.pipeSum += from.grown
	}
}
