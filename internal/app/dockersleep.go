package app

import (
	"context"
	"os"
	"time"

	"weir/internal/web"
)

// dockerAwake is how many containers that have ended, and whose events wait, are open at
// once. In a long outage there may be thousands; the others sleep: their events are on disk
// and nothing of them is in memory but a line of the status. When half of those that are
// awake have delivered everything, others are woken.
const dockerAwake = 64

// sleepAfter is how long nothing of a container was delivered before it may sleep.
const sleepAfter = 5 * time.Second

// slept is what is known of a container that sleeps.
type slept struct {
	status web.ContainerStatus // its queues' part
	bytes  int64               // that its files take, which the share is told of
}

// rest lets containers sleep that are too many, and wakes some when there are few.
func (d *Docker) rest() {
	var ended, asleep []*dockerContainer
	opening := 0
	for _, c := range d.list() {
		c.mu.Lock()
		switch {
		case c.gone || c.refs > 0:
		case c.opening != nil:
			opening++
		case c.asleep:
			asleep = append(asleep, c)
		case c.opened:
			ended = append(ended, c)
		case c.stored:
			opening++ // it will be
		}
		c.mu.Unlock()
	}
	awake := len(ended) + opening
	for i := len(ended) - 1; i >= 0 && awake > d.o.awake; i-- {
		if ended[i].sleep() {
			awake--
		}
	}
	if awake > d.o.awake/2 {
		return
	}
	for _, c := range asleep[:min(len(asleep), d.o.awake-awake)] {
		d.opening.Go(func() { c.open(0) })
	}
}

// sleep closes the queues of a container that has ended and delivers nothing. It returns
// false if it must stay awake.
func (c *dockerContainer) sleep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.refs > 0 || !c.opened || c.asleep {
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
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.slept = slept{}
	sent := newDockerTotals()
	for _, q := range c.queues {
		q.halt(ctx)
		q.status(&c.slept.status)
		if q.del != nil {
			sent.stats.Add(q.del.Stats())
		}
		q.close()
	}
	c.d.outputs.keep(c.out, &sent)
	c.slept.bytes = c.slept.status.Buffer.Bytes
	c.doze()
	c.queues, c.opened = nil, false
	c.d.outputs.release(c.out)
	return true
}

// doze notes that the container sleeps. mu is held.
func (c *dockerContainer) doze() {
	c.asleep, c.stored = true, true
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
