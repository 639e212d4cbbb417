package docker

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/awslogs"
	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

var (
	errEmpty  = errors.New("nothing in the pipe")
	errNoPipe = errors.New("there is no such pipe")
	errLeave  = errors.New("the plugin stops")
	errKilled = errors.New("killed by a test")
)

const (
	maxBlock = 256 << 10 // bytes of one look
	minBlock = 64 << 10  // what a look must be able to see, since frames have up to 17 KiB
	maxLooks = 4 << 20   // bytes of all looks together, as far as minBlock allows it

	pace      = 25 * time.Millisecond
	tornWait  = 100 * time.Millisecond
	restWait  = time.Second
	spoolWait = time.Second
	turnWait  = time.Second // for the session before of the same container
)

// session reads one pipe of a container. Its goroutine is started by the Plugin, which waits
// for it.
type session struct {
	p     *Plugin
	saved *saved
	key   string
	old   bool     // an earlier process began it
	pipe  *pipe    // nil: it had gone when the session was taken over; set under mu
	prev  *session // of the same container: its events come first
	log   *slog.Logger

	ready chan struct{} // closed when StartLogging has its answer, which is startErr
	stop  chan struct{} // closed by halt
	done  chan struct{} // closed when the goroutine has ended

	startErr error
	ended    bool // all that was in the pipe is in the spool; set before done is closed

	mu    sync.Mutex // guards the rest of this group
	halts bool       // stop is closed
	left  bool       // wake was called: the plugin stops
	stats SessionStats

	// Of the goroutine alone:
	spool  Spool
	lines  *lines.Lines
	draft  *draft // where lines.Emit writes
	tags   []string
	namer  namer
	known  map[event.Chunk]struct{} // until the first look after a restart
	last   held                     // what the files say; state and pending are not kept
	view   int                      // bytes that the last look could show
	onDisk bool                     // they say that something is held
	buf    []byte                   // scratch of hold
	state  []byte                   // scratch of hold
	reads  event.Time               // time of the frame that package lines is given
	due    int64                    // what lines.Due said last
	dueAt  time.Time                // the same on a clock that does not step
	timer  *time.Timer
	puts   trouble
	holds  trouble
}

// container is what the Host is told; it may keep it.
func (s *session) container() *Container {
	return &Container{s.saved.ID, s.saved.Name, s.saved.Options}
}

// matcher gives package lines the pattern of the options.
type matcher struct{ c *awslogs.Compiled }

func (m matcher) Match(line []byte) bool { return m.c.Begins(line) }

func newSession(p *Plugin, sv *saved, old bool) *session {
	return &session{
		p: p, saved: sv, key: keyOf(sv.File), old: old, log: p.o.Log.With("container", sv.ID[:min(12, len(sv.ID))], "name", sv.Name),
		ready: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
		stats: SessionStats{File: sv.File, Since: sv.Since, Container: Container{sv.ID, sv.Name, sv.Options}},
		due:   lines.Never,
	}
}

// compile makes ready what the options say about lines.
func (s *session) compile() error {
	o := s.saved.Options
	c, err := o.Compile(s.p.o.Local)
	if err != nil {
		return err
	}
	s.tags = []string{o.Group + "\x00" + o.Stream}
	if o.StderrStream != "" && o.StderrStream != o.Stream {
		s.tags = append(s.tags, o.Group+"\x00"+o.StderrStream)
	}
	lo := lines.Options{
		EventSize: o.EventSize, FlushAfter: int64(o.FlushInterval), Separate: len(s.tags) > 1,
		Emit: func(e lines.Event) { s.draft.emit(e) },
	}
	if c.Multiline() {
		lo.Begins = matcher{c}
	}
	if c.TakesTime() {
		lo.TimeOf = func(line []byte) (int64, bool) {
			t, ok := c.TimeOf(line, s.reads)
			return int64(t), ok
		}
	}
	s.lines = lines.New(lo)
	s.namer = newNamer(s.key)
	return nil
}

// run is the session's goroutine.
func (s *session) run() {
	err := s.attach()
	if err == nil {
		err = s.read()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if err == nil {
		err = s.end()
		s.ended = err == nil
	}
	if s.pipe != nil {
		_ = s.pipe.close()
	}
	if s.spool != nil {
		s.spool.Release()
	}
	if !errors.Is(err, errLeave) && !errors.Is(err, errKilled) {
		if err != nil {
			s.log.Error("a container's pipe cannot be read; what it writes is lost and it may stop until it is restarted", "error", err)
		}
		s.p.remove(s) // otherwise StopLogging, if it still comes, must not be told that all is well
	}
	close(s.done)
}

// read goes on until the session ends, which is no error, or the plugin does.
func (s *session) read() error {
	if s.pipe == nil {
		return nil // what was held goes out, and that is all
	}
	final := false
	for {
		// Docker says that a container has ended when all is written. So only a look that began
		// after that can say that there is nothing more.
		halted := s.halted()
		seen, took, err := s.turn(final)
		switch {
		case errors.Is(err, errEmpty):
			if s.p.killedAt(s, stageEmpty) {
				return errKilled
			}
			if halted {
				return nil
			}
			if err := s.tick(); err != nil {
				return err
			}
			s.await(0)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case took == 0:
			final = s.awaitRest(seen)
			if err := s.tick(); err != nil {
				return err
			}
			continue
		default:
			if took == seen && seen < s.view {
				if err := s.tick(); err != nil {
					return err
				}
			}
			if seen < min(s.view/2, s.pipe.size/4) {
				s.pause(s.p.o.pace)
			}
		}
		final = false
	}
}

// turn takes one look at the pipe, stores what it shows, and takes it out. final says that
// no more comes: the beginning of a frame at the end is lost.
func (s *session) turn(final bool) (seen, took int, err error) {
	s.p.looks.Add(1)
	defer s.p.looks.Add(-1)
	b, err := s.p.takeViewer()
	if err != nil {
		return 0, 0, err
	}
	d := s.p.takeDraft(s.tags)
	defer s.p.returnDraft(d)
	n, err := s.look(b)
	if err != nil {
		s.p.returnViewer(b)
		return 0, 0, err
	}
	d.expect(n)
	raw := b.raw[:n]
	if s.known != nil {
		if raw, err = s.again(raw); err != nil || raw == nil {
			s.p.returnViewer(b)
			return n, n, err
		}
	}
	var c Counts
	took = s.compose(d, raw, final && n < s.view, &c)
	sum := s.namer.sum(raw[:took])
	s.p.returnViewer(b)
	if took == 0 {
		return n, 0, nil
	}
	d.finish(took, &sum)
	if s.known != nil {
		d.drop(s.known)
		s.known = nil
	}
	if err := s.store(d, took, &sum, &c); err != nil {
		return n, took, err
	}
	return n, took, nil
}

// look shows the pipe, all of it or a share of what all sessions may look at together.
func (s *session) look(b *viewer) (n int, err error) {
	s.view = len(b.raw)
	if s.known == nil { // else a block of the process before may be as large as one can be
		s.view = min(s.view, s.p.share())
	}
	if n, err = s.pipe.look(b, s.view); n < s.view || s.view == len(b.raw) {
		return n, err
	}
	if _, _, state := frame.Next(b.raw[:n], 0); state == frame.More { // one that is longer than that
		s.view = len(b.raw)
		return s.pipe.look(b, s.view)
	}
	return n, nil
}

// store is what must happen, in this order, before the bytes leave the pipe, and their
// leaving.
func (s *session) store(d *draft, took int, sum *digest, c *Counts) error {
	if s.p.killedAt(s, stageLooked) {
		return errKilled
	}
	s.put(d, c)
	if s.p.killedAt(s, stageStored) {
		return errKilled
	}
	s.hold(chunkOf(took, sum, wholeBlock), nil)
	if s.p.killedAt(s, stageHeld) {
		return errKilled
	}
	if cap(d.enc[0]) < took {
		d.enc[0] = make([]byte, took)
	}
	if err := s.pipe.take(d.enc[0][:took]); err != nil {
		return err
	}
	s.count(c)
	if s.p.killedAt(s, stageTaken) {
		return errKilled
	}
	return nil
}

// await returns when there is something to do: more than seen bytes in the pipe, no writer
// any more, something due, or an end.
func (s *session) await(seen int) (hungUp bool) {
	var until time.Time
	if s.due != lines.Never {
		until = s.dueAt
	}
	if seen > 0 {
		until = time.Now().Add(restWait)
	}
	s.mu.Lock()
	if s.halts || s.left {
		s.mu.Unlock()
		return false
	}
	s.pipe.deadline(until)
	s.mu.Unlock()
	return s.pipe.wait(seen)
}

// awaitRest waits for the rest of a frame. It says true if that will not come: the writer
// has gone, or Docker says that the container has ended.
func (s *session) awaitRest(seen int) bool {
	if !s.halted() {
		return s.await(seen)
	}
	for end := time.Now().Add(tornWait); time.Now().Before(end); time.Sleep(tornWait / 10) {
		if s.pipe.waiting() > seen {
			return false
		}
	}
	return true
}

// pause waits, unless there is an end.
func (s *session) pause(d time.Duration) {
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	select {
	case <-s.timer.C:
	case <-s.stop:
	case <-s.p.leave:
	}
}

// halt says that the container has ended: the pipe is to be emptied and the session to end.
func (s *session) halt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.halts {
		s.halts, s.stats.Stopping = true, true
		close(s.stop)
	}
	s.wakeLocked()
}

// wake makes the session see that the plugin stops.
func (s *session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	s.wakeLocked()
}

func (s *session) wakeLocked() {
	if s.pipe != nil {
		s.pipe.deadline(time.Unix(1, 0))
	}
}

func (s *session) halted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halts
}

func (s *session) count(c *Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.add(c)
	s.stats.Last = time.Now()
}

// lockedTrouble is a trouble for several goroutines.
type lockedTrouble struct {
	mu sync.Mutex
	t  trouble
}

func (t *lockedTrouble) note(log *slog.Logger, begins, ends string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.t.note(log, begins, ends, err)
}

// trouble logs a lasting fault when it begins and when it ends.
type trouble struct {
	since time.Time
	times int
}

func (t *trouble) note(log *slog.Logger, begins, ends string, err error) {
	switch {
	case err != nil:
		if t.times == 0 {
			t.since = time.Now()
			log.Warn(begins, "error", err)
		}
		t.times++
	case t.times > 0:
		log.Info(ends, "failures", t.times, "lasted", time.Since(t.since).Round(time.Millisecond))
		t.times = 0
	}
}
