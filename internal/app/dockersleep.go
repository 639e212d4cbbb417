package app

import (
	"context"
	"os"
	"slices"
	"time"

	"weir/internal/web"
)

// dockerAwake is how many containers that have ended, and whose events wait, are open at
// once. In a long outage there may be thousands; the others sleep: their events are on disk
// and nothing of them is in memory but a line of the status. When half of those that are
// awake have delivered everything, others are woken; and who has been awake in vain for
// dockerTurn makes room for another, since it may be the only one in trouble.
const (
	dockerAwake = 64
	dockerTurn  = 2 * time.Minute
)

// sleepAfter is how long nothing of a container was delivered, and nothing was wanted of it, before it may sleep.
const sleepAfter = 5 * time.Second

// slept is what is known of a container that sleeps.
type slept struct {
	status web.ContainerStatus // its queues' part
	bytes  int64               // that its files take, which the share is told of
	since  time.Time
}

// resting is a container that has ended, and since when it is open, or sleeps.
type resting struct {
	c     *dockerContainer
	since time.Time
}

// rest lets containers sleep that are too many, and wakes some when there are few.
func (d *Docker) rest() {
	ended, asleep, opening, closing := d.atRest()
	awake := len(ended) + opening
	for i := len(ended) - 1; i >= 0 && awake > d.o.awake; i-- {
		if ended[i].c.sleep() {
			awake--
		}
	}
	turn := 0
	for _, r := range ended {
		if turn < len(asleep) && time.Since(r.since) > d.o.turn && r.c.sleep() {
			awake--
			turn++
		}
	}
	awake += closing
	if turn == 0 && awake > d.o.awake/2 {
		return
	}
	for _, r := range asleep[:max(min(len(asleep), d.o.awake-awake), 0)] {
		d.opening.Go(func() { r.c.open(0) })
	}
}

// atRest lists the containers that have ended: those that are open and those that sleep, who
// has been so for longest first, and how many are about to be open,
// and to be closed.
func (d *Docker) atRest() (ended, asleep []resting, opening, closing int) {
	for _, c := range d.list() {
		c.mu.Lock()
		switch {
		case c.gone && c.closing == nil || !c.gone && c.refs > 0:
		case c.closing != nil:
			closing++
		case c.opening != nil:
			opening++
		case c.asleep:
			asleep = append(asleep, resting{c, c.slept.since})
		case c.opened:
			ended = append(ended, resting{c, c.openedAt})
		case c.stored:
			opening++ // it will be
		}
		c.mu.Unlock()
	}
	longest := func(a, b resting) int { return a.since.Compare(b.since) }
	slices.SortFunc(ended, longest)
	slices.SortFunc(asleep, longest)
	return ended, asleep, opening, closing
}

// sleep begins to close the queues of a container that has ended and delivers nothing. It returns
// false if it must stay awake.
func (c *dockerContainer) sleep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.refs > 0 || !c.opened || c.closing != nil || time.Since(c.wanted) < sleepAfter {
		return false
	}
	for _, q := range c.queues {
		if q.del == nil {
			continue
		}
		if st := q.del.Stats(); st.InFlight > 0 || time.Since(st.LastSuccess) < sleepAfter {
			return false // a request that is cut off may be repeated
		}
	}
	c.closing = make(chan struct{})
	c.d.opening.Go(c.fallAsleep)
	return true
}

// answerLimit is how long a request that began just before its container was to sleep may wait for its
// answer. Who is cut off sends again what may have arrived; a session that begins meanwhile waits as long.
const answerLimit = 5 * time.Second

// fallAsleep is the rest of sleep.
func (c *dockerContainer) fallAsleep() {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	for _, q := range c.queues { // nobody changes them now
		q.halt(ctx)
	}
	c.d.disk <- struct{}{}
	for _, q := range c.queues {
		q.close()
	}
	<-c.d.disk
	c.mu.Lock()
	defer c.mu.Unlock()
	was, sent := slept{}, newDockerTotals()
	for _, q := range c.queues {
		q.status(&was.status)
		if q.del != nil {
			sent.stats.Add(q.del.Stats())
		}
	}
	was.bytes = was.status.Buffer.Bytes
	c.d.keep(c.out, &sent)
	c.slept = was
	c.doze()
	c.queues, c.opened = nil, false
	close(c.closing)
	c.closing = nil
	c.d.wake()
}

// wakeLargest opens the container that sleeps with the most on disk, if that is more than so much, since only
// who is awake can give something up.
func (d *Docker) wakeLargest(above int64) {
	var largest *dockerContainer
	for _, c := range d.list() {
		c.mu.Lock()
		if c.asleep && c.opening == nil && !c.gone && c.slept.bytes > above {
			largest, above = c, c.slept.bytes
		}
		c.mu.Unlock()
	}
	if largest == nil {
		return
	}
	largest.mu.Lock()
	largest.wanted = time.Now()
	largest.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopping {
		d.opening.Go(func() { largest.open(0) })
	}
}

// doze notes that the container sleeps. mu is held.
func (c *dockerContainer) doze() {
	c.asleep, c.stored, c.slept.since = true, true, time.Now()
	c.d.limits.share.Hold(c.slept.bytes)
}

// awoken notes that it is open again. mu is held.
func (c *dockerContainer) awoken() {
	if c.asleep {
		c.d.limits.share.Hold(-c.slept.bytes)
	}
	c.asleep, c.stored, c.slept = false, false, slept{}
}

// filesIn is what the files in some directories take.
func filesIn(dirs ...string) (bytes int64) {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
				bytes += st.Size()
			}
		}
	}
	return bytes
}
