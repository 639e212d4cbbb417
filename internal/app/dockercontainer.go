package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/input/docker"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// dockerContainer is the spool of one container and its delivery. Nothing of it is on disk
// before the first event.
type dockerContainer struct {
	d    *Docker
	info docker.Container
	dir  string
	log  *slog.Logger
	left uint64 // events that wait, after stop

	mu       sync.Mutex // guards what follows
	refs     int        // sessions
	gone     bool
	stored   bool // an earlier process has left something, which resume opens
	opened   bool // the queues are
	openedAt time.Time
	asleep   bool // see dockersleep.go
	slept    slept
	wanted   time.Time      // when it was woken to give something up
	opening  chan struct{}  // closed when an attempt to open them has ended; nil if there is none
	closing  chan struct{}  // closed when they are closed, because it sleeps or is gone; nil if they are not being closed
	hastened bool           // hasten runs
	queues   []*dockerQueue // one, or with live-first two: the live one, and the backlog
	turn     turn           // live-first: where events go
	out      *dockerOutput
	book     *ledger.Book // of events that came while no queue could be opened
	lost     dockerLosses // of these: to be booked and told by the queue
	tried    time.Time    // when opening was tried last
	fault    error        // why it failed
	faulted  time.Time
}

func newDockerContainer(d *Docker, info *docker.Container) *dockerContainer {
	c := &dockerContainer{d: d, info: *info, dir: filepath.Join(d.o.Spool, dockerContainers, info.ID), book: &ledger.Book{}}
	c.log = d.log.With("container", c.name())
	return c
}

// name is the container's for people.
func (c *dockerContainer) name() string {
	if c.info.Name == "" {
		return shortID(c.info.ID)
	}
	return c.info.Name + " (" + shortID(c.info.ID) + ")"
}

// use takes a reference; nil if the container is gone.
func (c *dockerContainer) use() (docker.Spool, error) {
	late := time.NewTimer(openLimit)
	defer late.Stop()
	c.mu.Lock()
	for c.closing != nil {
		closing := c.closing
		c.mu.Unlock()
		select {
		case <-closing:
		case <-late.C:
			return nil, fmt.Errorf("the disk does not answer: the spool %s has not been closed for %s; try again", c.dir, openLimit)
		}
		c.mu.Lock()
	}
	if c.gone {
		c.mu.Unlock()
		return nil, nil
	}
	c.refs++
	c.mu.Unlock()
	if onDisk(c.dir) {
		c.open(openLimit) // what an earlier process has stored there must be known
	}
	return &dockerSpool{c: c}, nil
}

func onDisk(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// openAgain is how long opening is not tried again after a failure.
const openAgain = time.Second

// open opens the queues and begins to deliver, unless that is done. It waits no longer than
// patience for the disk: opened says afterwards whether they are open.
func (c *dockerContainer) open(patience time.Duration) {
	c.mu.Lock()
	if c.opened || c.gone || c.opening == nil && c.fault != nil && time.Since(c.tried) < openAgain {
		c.mu.Unlock()
		return
	}
	if c.opening == nil {
		c.opening, c.tried = make(chan struct{}), time.Now()
		c.d.opening.Go(c.opener)
	}
	done := c.opening
	c.mu.Unlock()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// opener opens the queues. A failure is logged once and kept in fault.
func (c *dockerContainer) opener() {
	c.d.disk <- struct{}{}
	defer func() { <-c.d.disk }()
	queues, err := c.openQueues()
	for range 4 {
		if vfs.IsFull(err) && c.d.limits.makeRoom(nil, 0) {
			queues, err = c.openQueues()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.opening)
	c.opening = nil
	if err != nil {
		if c.fault == nil {
			c.faulted = c.tried
			c.log.Error("the spool of a container cannot be opened; its events are dropped and counted until it can", "dir", c.dir, "error", err)
		}
		c.fault = err
		return
	}
	if c.gone { // it was stopped meanwhile
		for _, q := range queues {
			q.close()
		}
		return
	}
	if c.fault != nil {
		c.log.Info("the spool of a container is open again", "dir", c.dir, "after", time.Since(c.faulted).Round(time.Millisecond))
		c.fault = nil
	}
	c.queues, c.opened, c.openedAt = queues, true, time.Now()
	c.awoken()
	c.lost.settle(c.queues[0])
	c.book = &ledger.Book{}
	c.out = c.d.outputs.acquire(c)
	c.hasten()
}

func (c *dockerContainer) openQueues() (queues []*dockerQueue, err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	if err := writeContainerFile(c.dir, &c.info); err != nil {
		return nil, err
	}
	for _, dir := range c.queueDirs() {
		q, err := openDockerQueue(c, dir)
		if err != nil {
			for _, q := range queues {
				q.close()
			}
			return nil, err
		}
		queues = append(queues, q)
	}
	return queues, nil
}

// begin starts the delivery; the output is there now.
func (c *dockerContainer) begin(out *dockerOutput) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.closing != nil || c.out != nil && c.out != out {
		return
	}
	c.startDelivery(out)
}

// startDelivery lets the queues deliver that do not yet. mu is held.
func (c *dockerContainer) startDelivery(out *dockerOutput) {
	for _, q := range c.queues {
		q.deliver(out)
	}
}

// queue gives where events go now; nil if nothing can be opened.
func (c *dockerContainer) queue() *dockerQueue {
	c.mu.Lock()
	if !c.opened {
		c.mu.Unlock()
		c.open(openLimit)
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if !c.opened {
		return nil
	}
	c.direct(time.Now())
	return c.queues[c.current()]
}

// inUse gives the queues that are open.
func (c *dockerContainer) inUse() []*dockerQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.closing != nil {
		return nil
	}
	return c.queues
}

func (c *dockerContainer) current() int {
	if c.turn.away {
		return 1
	}
	return 0
}

// lose books events that no queue could take.
func (c *dockerContainer) lose(tag string, reason ledger.Reason, l buffer.Loss) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queues) > 0 {
		c.queues[c.current()].miss(event.Chunk{}, tag, reason, l)
		return
	}
	c.book.AdmitEnded(ledger.Fate{Class: ledger.Dropped, Reason: reason}, int(l.Events))
	c.lost.add(tag, reason, l)
}

// look does what is to be done now and then.
func (c *dockerContainer) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.closing != nil {
		return
	}
	c.direct(time.Now())
	if c.refs == 0 && c.finished() {
		c.gone, c.closing = true, make(chan struct{})
		c.d.opening.Go(c.finish)
	}
}

// hasten sends what waits of a container that has ended, without waiting for company, until all of it
// was delivered. mu is held.
func (c *dockerContainer) hasten() {
	if c.refs > 0 || c.hastened || !c.opened {
		return
	}
	c.hastened = true
	c.d.opening.Go(func() {
		// Again and again: what was written last may not have been read before.
		for pause := 5 * time.Millisecond; c.flush(); pause = min(2*pause, time.Second) {
			select {
			case <-time.After(pause):
			case <-c.d.outputs.ctx.Done():
				return
			}
		}
		c.d.wake()
	})
}

// flush is a step of hasten; false: it was the last.
func (c *dockerContainer) flush() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refs == 0 && c.opened && !c.gone && c.closing == nil && !c.idle() {
		for _, q := range c.queues {
			q.flush()
		}
		return true
	}
	c.hastened = false
	return false
}

// idle says that all has ended, and everything there is to tell was told. mu is held.
func (c *dockerContainer) idle() bool {
	return !slices.ContainsFunc(c.queues, func(q *dockerQueue) bool { return !q.idle() })
}

// finished says that a container without sessions can go: its events are delivered. One whose
// spool has still to be opened for that is opened. mu is held.
func (c *dockerContainer) finished() bool {
	c.d.mu.Lock()
	stopping := c.d.stopping
	c.d.mu.Unlock()
	if stopping {
		return false
	}
	if !c.opened && (c.stored || c.opening != nil || c.fault != nil || !c.lost.empty()) {
		if c.opening == nil && (c.fault != nil || !c.stored) {
			c.d.opening.Go(func() { c.open(0) })
		}
		return false
	}
	return c.idle()
}

// finish closes a container that has finished, and removes its directory.
func (c *dockerContainer) finish() {
	c.d.disk <- struct{}{}
	for _, q := range c.queues { // nobody changes them now
		q.halt(context.Background())
		q.discard()
	}
	if c.opened {
		c.d.outputs.release(c, c.out)
		if err := removeSpool(c.dir); err != nil {
			c.log.Error("the empty spool of a container cannot be removed", "dir", c.dir, "error", err)
		}
	}
	<-c.d.disk
	c.mu.Lock()
	c.d.leave(c)
	close(c.closing)
	c.closing = nil
	c.mu.Unlock()
	c.d.wake()
}

// stop delivers what waits until ctx is done and leaves the rest in the spool.
func (c *dockerContainer) stop(ctx context.Context) {
	c.mu.Lock()
	for _, busy := range []chan struct{}{c.opening, c.closing} {
		if busy == nil {
			continue
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.gone || c.closing != nil {
		return
	}
	c.gone = true
	if c.opened && c.d.outputs.ready(c.out) {
		c.startDelivery(c.out) // if it is still about to begin
	}
	c.left = c.slept.status.Buffer.PendingEvents
	var wg sync.WaitGroup
	for _, q := range c.queues {
		wg.Go(func() { q.stop(ctx) })
	}
	wg.Wait()
	for _, q := range c.queues {
		c.left += q.buf.Stats().PendingEvents
		q.close()
	}
	if c.opened {
		c.d.outputs.release(c, c.out)
	}
}

// dockerSpool is a session's use of a container. It implements docker.Spool.
type dockerSpool struct {
	c    *dockerContainer
	once sync.Once
}

// How long a container's session waits for a disk that is slow or does not answer. Until it
// has room in memory nothing is lost, since what is in the pipe stays there; in the end what
// the container writes is dropped and counted, so that it never stops for good.
const (
	openLimit   = 20 * time.Second // for its spool to be opened
	roomLimit   = 30 * time.Second // for room in memory
	storedLimit = 3 * time.Second  // until what has room is written
)

// Put implements docker.Spool.
func (s *dockerSpool) Put(ctx context.Context, batches []event.Batch) error {
	q := s.c.queue()
	if q == nil {
		for i := range batches {
			s.c.lose(batches[i].Tag, ledger.DiskFull, lossOf(&batches[i]))
		}
		return nil // booked, and logged
	}
	if err := q.put(ctx, batches); err != nil {
		return fmt.Errorf("store events of container %s: %w", s.c.name(), err)
	}
	return nil
}

func lossOf(b *event.Batch) buffer.Loss {
	return buffer.Loss{Events: uint64(b.Count), Bytes: uint64(len(b.Entries)), First: b.First, Last: b.Last}
}

// Miss implements docker.Spool.
func (s *dockerSpool) Miss(id event.Chunk, tag string, reason ledger.Reason, events, bytes uint64, first, last event.Time) {
	if q := s.c.queue(); q != nil {
		q.miss(id, tag, reason, buffer.Loss{Events: events, Bytes: bytes, First: first, Last: last})
		return
	}
	s.c.lose(tag, reason, buffer.Loss{Events: events, Bytes: bytes, First: first, Last: last})
}

// Chunks implements docker.Spool.
func (s *dockerSpool) Chunks() []event.Chunk {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	var all []event.Chunk
	for _, q := range s.c.queues {
		all = append(append(all, q.buf.Chunks()...), q.buf.LostIDs()...)
	}
	return all
}

// Release implements docker.Spool.
func (s *dockerSpool) Release() {
	s.once.Do(func() {
		c := s.c
		c.mu.Lock()
		c.refs--
		c.hasten()
		c.mu.Unlock()
		c.d.wake()
	})
}
