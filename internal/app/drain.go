package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// samePlace says whether two paths name the same place, one of them perhaps relative.
func samePlace(a, b string) bool {
	x, err := filepath.Abs(a)
	y, berr := filepath.Abs(b)
	return err == nil && berr == nil && x == y
}

// Drain delivers what waits in a buffer directory through one output of a plan, without
// any source, and returns how many events are left. If the directory is that output's own
// buffer, its delivery simply runs until it is empty; another directory, of an output that
// is configured no more, is moved over batch by batch. The output is found by the
// directory, or by its id. weir must not be running on either buffer.
func Drain(ctx context.Context, plan *Plan, o Options, dir, id string) (left uint64, err error) {
	dir = filepath.Clean(dir)
	var through *outputPlan
	for _, out := range plan.Outputs {
		own := out.dir != "" && (samePlace(out.dir, dir) || samePlace(out.backlogDir(), dir))
		if own && id == "" || id != "" && out.id == id {
			through = out
		}
	}
	switch {
	case through == nil && id != "":
		return 0, fmt.Errorf("the configuration has no output with the id %q", id)
	case through == nil:
		return 0, fmt.Errorf("no output of the configuration has the buffer %s: name the output to send through by its id", dir)
	case through.null:
		return 0, fmt.Errorf("output %s delivers nothing", through.id)
	}
	if through.dir != "" && (samePlace(through.dir, dir) || samePlace(through.backlogDir(), dir)) {
		dir = through.dir // the backlog is delivered from there too
	}
	through.buffer.Overflow = "block"
	through.buffer.DrainOrder = "oldest_first" // nothing new comes
	a, err := New(plan, o)
	if err != nil {
		return 0, err
	}
	r, err := a.newOutput(through, nil)
	if err != nil {
		return 0, err
	}
	r.start()
	if through.dir != dir {
		left, err = moveOrphan(ctx, dir, r.buf, o)
	}
	r.stop(ctx)
	return left + r.left, err
}

// moveOrphan moves what waits in an orphaned directory. What is parked there stays: it is kept by
// destinations as its own output names them, and not by tags. left is how many events that is.
func moveOrphan(ctx context.Context, dir string, to *buffer.Buffer, o Options) (left uint64, err error) {
	for _, d := range Buffers(dir) {
		if filepath.Base(d) != ParkedDir {
			if err := moveAll(ctx, d, to, o); err != nil {
				return left, err
			}
			continue
		}
		info, err := buffer.Inspect(vfs.OS{}, d, false)
		if err != nil {
			return left, fmt.Errorf("look at the parked events: %w", err)
		}
		if info.Pending > 0 {
			left += info.Pending
			o.Log.Warn("events of parked streams stay; only the output that parked them knows their destinations", "dir", d, "events", info.Pending,
				"hint", "drain the directory with the configuration that it is from, or write them out: weir buffer drain "+d)
		}
	}
	return left, nil
}

// moveAll moves every event of an orphaned buffer to another one. A batch is settled in
// the old one when it is stored in the new one: after a crash it may be in both.
func moveAll(ctx context.Context, dir string, to *buffer.Buffer, o Options) error {
	book := &ledger.Book{}
	from, err := buffer.Open(buffer.Options{FS: vfs.OS{}, Dir: dir, Book: book, Log: o.Log, Limit: 1 << 40, Beside: Beside})
	if err != nil {
		return fmt.Errorf("open the buffer to drain: %w", err)
	}
	defer func() { _ = from.Close(context.WithoutCancel(ctx)) }()
	if err := from.Seal(ctx); err != nil {
		return err
	}
	return EachPending(ctx, from, func(tag string, b event.Batch) error {
		b.Tag = tag
		seq, err := to.Append(ctx, b)
		if err != nil {
			return fmt.Errorf("move events to the output's buffer: %w", err)
		}
		return to.WaitStored(ctx, uint64(seq))
	}, ledger.Fate{Class: ledger.Moved})
}

// EachPending calls fn with everything in a sealed buffer that has not ended, in order, and
// settles it with fate when fn returns nil. An error of fn ends it.
func EachPending(ctx context.Context, b *buffer.Buffer, fn func(tag string, b event.Batch) error, fate ledger.Fate) error {
	for {
		run, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the buffer: %w", err)
		}
		items := run.Items()
		for i := range items {
			it := &items[i]
			var parts []buffer.Part
			it.Live(func(live event.Batch, _ int, first uint32) {
				if err == nil {
					err = fn(it.Batch.Tag, live)
				}
				if err == nil {
					parts = append(parts, buffer.Part{Seq: it.Seq, Span: buffer.Span{First: first, Count: uint32(live.Count)}, Fate: fate})
				}
			})
			err = errors.Join(err, b.Settle(parts))
			if err != nil {
				run.Release()
				return err
			}
		}
		run.Release()
	}
}
