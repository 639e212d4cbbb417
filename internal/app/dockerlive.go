package app

import (
	"path/filepath"
	"time"

	"weir/internal/deliver"
)

// With weir-drain-order live-first a container has two queues. Events go to the live one
// while they leave it. When they do not, new ones go to the backlog, so that what stands in
// front of the live queue stays small; when it works again new events are sent at once, and
// the backlog beside them: in order, and no faster than a few requests a second.
const (
	backlogName  = "backlog"              // directory of the second queue within a container's
	backlogPause = 250 * time.Millisecond // after each of its requests
	turnAfter    = 5 * time.Second        // without a delivery until new events go to the backlog
)

func (c *dockerContainer) queueDirs() []string {
	dirs := []string{c.dir}
	if c.info.Options.LiveFirst || onDisk(c.backlogDir()) { // it may have been live-first before
		dirs = append(dirs, c.backlogDir())
	}
	return dirs
}

func (c *dockerContainer) backlogDir() string { return filepath.Join(c.dir, backlogName) }

// queueLimit divides weir-buffer-size.
func (c *dockerContainer) queueLimit(dir string) int64 {
	all := c.info.Options.BufferSize
	switch {
	case dir != c.dir:
		return all - all/8
	case c.info.Options.LiveFirst:
		return all / 8
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
	failing := false
	if st.PendingEvents > 0 {
		since := st.Oldest
		if live.del != nil {
			if ok := live.del.Stats().LastSuccess; ok.After(since) {
				since = ok
			}
		}
		failing = now.Sub(since) >= c.d.o.turnAfter+c.info.Options.FlushInterval
	}
	switch waiting := int64(st.PendingBytes); {
	case !c.turned && (failing || waiting > st.Limit/2):
		c.turned = true
	case c.turned && !failing && waiting <= st.Limit/4:
		c.turned = false
	}
}
