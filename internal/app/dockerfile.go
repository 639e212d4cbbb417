package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/input/docker"
)

// containerFileName is the file beside a container's events that says where they go, so
// that a later process can deliver them.
const containerFileName = "container.json"

// containerFileVersion changes when an older weir would misread the file.
const containerFileVersion = 1

type containerFile struct {
	Version int `json:"version"`
	docker.Container
}

// writeContainerFile puts the file in place as a whole. A file of the same content stays.
func writeContainerFile(dir string, c *docker.Container) error {
	b, err := json.MarshalIndent(containerFile{containerFileVersion, *c}, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", containerFileName, err)
	}
	name := filepath.Join(dir, containerFileName)
	if old, err := os.ReadFile(name); err == nil && string(old) == string(b) {
		return nil
	}
	f, err := os.OpenFile(name+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

func readContainerFile(dir string) (*docker.Container, error) {
	b, err := os.ReadFile(filepath.Join(dir, containerFileName))
	if err != nil {
		return nil, err
	}
	var f containerFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", containerFileName, err)
	}
	switch {
	case f.Version != containerFileVersion:
		return nil, fmt.Errorf("%s has version %d, this weir knows %d", containerFileName, f.Version, containerFileVersion)
	case f.ID != filepath.Base(dir) || f.Options == nil:
		return nil, fmt.Errorf("%s is not about this container", containerFileName)
	}
	return &f.Container, nil
}

// goneExt marks a directory that is being removed.
const goneExt = ".gone"

// removeSpool removes a container's directory so that a kill in between leaves no
// directory of which something is missing.
func removeSpool(dir string) error {
	gone := dir + goneExt
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(dir, gone); err != nil && !errors.Is(err, os.ErrNotExist) { // somebody was faster
		return err
	}
	return os.RemoveAll(gone)
}

// restore finds the containers that an earlier process left, and returns those that are to be
// opened; the others sleep. What cannot be read is reported and left alone.
func (d *Docker) restore() (left []*dockerContainer) {
	top := filepath.Join(d.o.Spool, dockerContainers)
	entries, err := os.ReadDir(top)
	if err != nil {
		d.o.Log.Error("the spool cannot be listed; what an earlier process left is not delivered", "dir", top, "error", err)
		return nil
	}
	for _, e := range entries {
		dir := filepath.Join(top, e.Name())
		if id, ok := strings.CutSuffix(e.Name(), goneExt); ok && spoolName(id) {
			if err := os.RemoveAll(dir); err != nil {
				d.o.Log.Error("a directory of the spool that is not needed any more cannot be removed", "dir", dir, "error", err)
			}
			continue
		}
		info, err := readContainerFile(dir)
		if err != nil || !e.IsDir() || !spoolName(e.Name()) {
			d.strange(dir, err)
			continue
		}
		c := newDockerContainer(d, info)
		c.stored = true
		if len(left) < d.o.awake {
			left = append(left, c)
		} else {
			c.slept.bytes = filesIn(c.queueDirs()...)
			c.doze()
		}
		d.mu.Lock()
		d.containers[info.ID] = c
		d.mu.Unlock()
	}
	return left
}

// resume opens the first spools that an earlier process left, a few at a time, while Docker,
// which waits some seconds only for a plugin to start, is answered already.
func (d *Docker) resume(ctx context.Context, left []*dockerContainer) {
	next := make(chan *dockerContainer)
	for range 4 {
		d.opening.Go(func() {
			for c := range next {
				c.open(time.Minute) // after a failure it is tried again
			}
		})
	}
	defer close(next)
	for _, c := range left {
		select {
		case next <- c:
		case <-ctx.Done():
			return
		}
	}
}

// strange reports a directory that weir does not understand, once a start. If its
// container starts again it is used again.
func (d *Docker) strange(dir string, err error) {
	_ = os.Remove(filepath.Join(dir, containerFileName+".tmp"))
	if os.Remove(dir) == nil {
		return // there was nothing else in it yet when the process was killed
	}
	d.o.Log.Warn("the spool holds something that is not a container's; it is left alone", "dir", dir, "error", err,
		"hint", "weir buffer dump DIR shows the events in it; remove it when they are not needed")
}
