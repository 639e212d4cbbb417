package app

import "weir/internal/input/docker/awslogs"

// maxShared is of how many streams it is remembered that a line was written about them.
const maxShared = 256

// noteShared says once for a stream that several containers write to it at the same time: the
// service takes that, but the order of lines is kept within each container only.
func (d *Docker) noteShared(c *dockerContainer) {
	o := c.info.Options
	for _, other := range d.list() {
		stream := sharedStream(o, other.info.Options)
		if other == c || stream == "" || !other.running() {
			continue
		}
		key := o.Group + "\x00" + stream
		d.mu.Lock()
		known := d.shared[key]
		if !known {
			if len(d.shared) >= maxShared {
				clear(d.shared)
			}
			d.shared[key] = true
		}
		d.mu.Unlock()
		if !known {
			d.log.Warn("several containers write to one log stream: their lines are in order within each, not among them; a stream with {{.ID}} in its name, or none in the options, is of one container",
				"group", o.Group, "stream", stream, "container", c.name(), "other", other.name())
		}
		return
	}
}

// running says whether the container has sessions.
func (c *dockerContainer) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refs > 0
}

// sharedStream is a stream to which containers of both options write; "" if there is none.
func sharedStream(a, b *awslogs.Options) string {
	if a.Group != b.Group || a.Region != b.Region || a.Endpoint != b.Endpoint {
		return ""
	}
	for _, s := range []string{a.Stream, a.StderrStream} {
		if s != "" && (s == b.Stream || s == b.StderrStream) {
			return s
		}
	}
	return ""
}
