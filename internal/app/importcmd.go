package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"weir/internal/event"
	"weir/internal/fluentbuffer"
)

// Import takes the chunks that Fluentd left at path, a directory or a pattern with one *,
// into the file buffer of an output of the plan and delivers them, without any source. The
// output is found by its id, or by its path. It returns how many events of that buffer are
// left. weir must not be running on the buffer, nor Fluentd on the chunks.
func Import(ctx context.Context, plan *Plan, o Options, path, id string) (done Imported, left uint64, err error) {
	through, err := importThrough(plan, path, id)
	if err != nil {
		return done, 0, err
	}
	l, err := listLeft(path)
	if err != nil {
		return done, 0, err
	}
	a, err := New(plan, o)
	if err != nil {
		return done, 0, err
	}
	through.buffer.DrainOrder = "oldest_first" // nothing new comes
	r, err := a.newOutput(through, nil)
	if err != nil {
		return done, 0, err
	}
	r.start()
	im := newImporter(r, o.Log)
	if err = im.earlier(); err == nil {
		err = im.take(ctx, l)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		im.finish(context.WithoutCancel(ctx)) // ends with the buffer
	}()
	r.stop(ctx)
	<-ended
	return im.sum, r.left, err
}

// importThrough finds the output to import through.
func importThrough(plan *Plan, path, id string) (*outputPlan, error) {
	path = filepath.Clean(path)
	var through *outputPlan
	for _, out := range plan.Outputs {
		own := out.dir != "" && (samePlace(out.dir, path) || samePlace(out.buffer.Path, path))
		if own && id == "" || id != "" && out.id == id {
			through = out
		}
	}
	switch {
	case through == nil && id != "":
		return nil, fmt.Errorf("the configuration has no output with the id %q", id)
	case through == nil:
		return nil, fmt.Errorf("no output of the configuration has a buffer at %s: name the output to send through by its id", path)
	case through.null:
		return nil, fmt.Errorf("output %s delivers nothing", through.id)
	case through.dir == "":
		return nil, fmt.Errorf("output %s keeps its events in memory: give it a file buffer for the import", through.id)
	}
	return through, nil
}

// ImportTo gives fn the events that Fluentd left at path, in order, and moves each chunk to
// ImportedDir beside it when fn has taken all of it. Nothing is removed.
func ImportTo(ctx context.Context, path string, log *slog.Logger, fn func(tag string, b event.Batch) error) (Imported, error) {
	im := &importer{log: log}
	l, err := listLeft(path)
	if err != nil {
		return im.sum, err
	}
	for _, b := range l.Broken {
		im.leave(b.Path, b.Err)
	}
	for i := range l.Chunks {
		c := &l.Chunks[i]
		if err := ctx.Err(); err != nil {
			return im.sum, err
		}
		var failed error
		res, err := c.Read(func(b event.Batch) error {
			failed = fn(b.Tag, b)
			return failed
		})
		if failed != nil {
			return im.sum, failed
		}
		if err == nil && res.Events == 0 {
			err = res.Rest
		}
		if err != nil {
			im.leave(c.Path, err)
			continue
		}
		im.dir = filepath.Join(filepath.Dir(c.Path), ImportedDir)
		if err := im.keep(c, res); err != nil {
			return im.sum, err
		}
	}
	return im.sum, nil
}

// keep moves a chunk that fn has taken.
func (im *importer) keep(c *fluentbuffer.Chunk, res fluentbuffer.Result) error {
	if err := os.MkdirAll(im.dir, 0o755); err != nil {
		return fmt.Errorf("make the place for chunks that were taken over from Fluentd: %w", err)
	}
	if !res.Whole() {
		im.sum.Damaged++
		im.log.Warn("a part of a chunk of Fluentd could not be read", "file", c.Path, "events", res.Events, "skipped", res.Bad, "error", res.Rest)
	}
	base := filepath.Join(im.dir, keptPrefix+filepath.Base(c.Path))
	err := moveFile(c.Path, base)
	if err == nil && c.Meta != "" {
		err = moveFile(c.Meta, base+".meta")
	}
	if err != nil {
		return fmt.Errorf("move a chunk of Fluentd that was taken over: %w", err)
	}
	im.sum.Chunks++
	im.sum.Events += res.Events
	return nil
}

// listLeft lists the chunks at a path; a path without anything is a mistake.
func listLeft(path string) (fluentbuffer.Listing, error) {
	list := fluentbuffer.ListAll
	if strings.Contains(filepath.Base(path), "*") {
		list = fluentbuffer.List
	} else if _, err := os.Stat(path); err != nil {
		return fluentbuffer.Listing{}, fmt.Errorf("look for chunks of Fluentd: %w", err)
	}
	return list(path)
}

func crossesDevices(err error) bool { return errors.Is(err, syscall.EXDEV) }

// copyFile copies a file durably under a name that it only gets when it is whole.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part := to + ".part"
	out, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
