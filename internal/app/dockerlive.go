package app

import (
	"path/filepath"
	"time"

	"weir/internal/deliver"
)

// backlogName is the directory, within a container's, of the second queue of
// weir-drain-order live-first.
const backlogName = "backlog"

func (c *dockerContainer) queueDirs() []string {
	dirs := []string{c.dir}
	if c.info.Options.LiveFirst {
		dirs = append(dirs, filepath.Join(c.dir, backlogName))
	}
	return dirs
}

func (c *dockerContainer) queueLimit(dir string) int64 { return c.info.Options.BufferSize }

func (q *dockerQueue) pace(o *deliver.Options) {}

func (c *dockerContainer) direct(now time.Time) {}
