package app

import (
	"path/filepath"
	"time"

	"weir/internal/deliver"
)

// backlogPause is after each request of a container's backlog, see livefirst.go.
const backlogPause = 250 * time.Millisecond

func (c *dockerContainer) queueDirs() []string {
	dirs := []string{c.dir}
	if c.info.Options.LiveFirst || onDisk(c.backlogDir()) { // it may have been live-first before
		dirs = append(dirs, c.backlogDir())
	}
	return dirs
}

func (c *dockerContainer) backlogDir() string { return filepath.Join(c.dir, BacklogDir) }

// queueLimit divides weir-buffer-size.
func (c *dockerContainer) queueLimit(dir string) int64 {
	all := c.info.Options.BufferSize
	switch {
	case dir != c.dir:
		return all - liveShare(all)
	case c.info.Options.LiveFirst:
		return liveShare(all)
	}
	return all
}

// pace holds the backlog back.
func (q *dockerQueue) pace(o *deliver.Options) {
	if q.backlog {
		o.Pause = backlogPause
		o.ID += " backlog"
	}
}

// direct decides which queue new events go to. mu is held.
func (c *dockerContainer) direct(now time.Time) {
	if len(c.queues) < 2 || !c.info.Options.LiveFirst {
		return
	}
	live := c.queues[0]
	st := live.buf.Stats()
	var accepted, failed time.Time
	if live.del != nil {
		accepted, failed, _ = live.del.Health()
	}
	c.turn.look(now, &st, accepted, failed, c.d.o.turnAfter)
}
