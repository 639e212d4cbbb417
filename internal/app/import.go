package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/fluentbuffer"
	"weir/internal/output/s3"
)

// ImportedDir is the directory within that of a buffer where Fluentd's chunks are from the
// moment they are stored in weir's buffer until they are delivered. Before their own name
// stands the Seq up to which they are, 16 hex digits and a dash; or keptPrefix, if they
// are to stay.
const ImportedDir = "fluentd-imported"

// keptPrefix marks a chunk that is not removed: a part of it could not be read.
const keptPrefix = "kept-"

// importFirst is how long the sources wait at start for what Fluentd left, so that order is
// kept. What is not stored by then goes on beside them.
const importFirst = 20 * time.Second

// Imported says what became of the chunks that Fluentd left.
type Imported struct {
	Chunks  int    // taken over
	Events  uint64 // in them
	Damaged int    // of those chunks: a part could not be read, the file is kept
	Left    int    // chunks that stay where they are, each with a log line
}

// Beside tells the names in a buffer's directory that are no files of the buffer, but known.
func Beside(name string) bool {
	worker, ok := strings.CutPrefix(name, "worker")
	return besideQueue(name) || name == ParkedDir || name == ImportedDir || fluentbuffer.IsFile(name) || s3.IsNote(name) || ok && strings.Trim(worker, "0123456789") == ""
}

// importer takes chunks of Fluentd into a buffer, and removes them when they are delivered.
type importer struct {
	buf     *buffer.Buffer
	dir     string // ImportedDir of the output
	log     *slog.Logger
	full    func() // called, perhaps often, when the buffer has no room; may be nil
	sum     Imported
	waiting []waitingChunk
}

// waitingChunk is a file in ImportedDir.
type waitingChunk struct {
	path string
	seq  buffer.Seq
}

func newImporter(r *runningOutput, log *slog.Logger) *importer {
	return &importer{buf: r.buf, dir: filepath.Join(r.plan.dir, ImportedDir), log: log.With("output", r.plan.id)}
}

// earlier finds what earlier runs have taken over and not removed yet.
func (im *importer) earlier() error {
	entries, err := os.ReadDir(im.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for chunks that were taken over from Fluentd: %w", err)
	}
	stored := im.buf.Stats().Stored
	for _, e := range entries {
		number, _, ok := strings.Cut(e.Name(), "-")
		seq, err := strconv.ParseUint(number, 16, 64)
		if !ok || len(number) != 16 || err != nil {
			continue
		}
		if buffer.Seq(seq) > stored {
			im.log.Warn("a chunk of Fluentd was taken into a buffer that is no more; it is kept", "file", filepath.Join(im.dir, e.Name()),
				"to do", "if its events are missing, move it back under its own name, and start weir again")
			continue
		}
		im.waiting = append(im.waiting, waitingChunk{filepath.Join(im.dir, e.Name()), buffer.Seq(seq)})
	}
	return nil
}

// take stores every chunk of a listing in the buffer, in order, and moves its files to
// ImportedDir. What cannot be taken over stays where it is, with a log line. The error is
// ctx's, or the buffer's.
func (im *importer) take(ctx context.Context, l fluentbuffer.Listing) error {
	for _, b := range l.Broken {
		im.broken(b)
	}
	for i := range l.Chunks {
		c := &l.Chunks[i]
		seq, res, err := im.store(ctx, c)
		if ctx.Err() != nil || errors.Is(err, buffer.ErrClosed) {
			return err
		}
		if err == nil && res.Events == 0 {
			err = cmp.Or(res.Rest, fluentbuffer.ErrEvent)
		}
		if err == nil {
			err = c.Unchanged()
		}
		if err != nil {
			im.leave(c.Path, err)
			continue
		}
		if err := im.move(c, seq, res); err != nil {
			return err
		}
	}
	return nil
}

// store puts the events of a chunk into the buffer and waits until they are stored; seq is
// the last of them. Of a chunk that was cut short by a kill, what the buffer knows is not
// stored again.
func (im *importer) store(ctx context.Context, c *fluentbuffer.Chunk) (seq buffer.Seq, res fluentbuffer.Result, err error) {
	seq = im.buf.Stats().Stored // in case all of it is there
	n := 0
	res, err = c.Read(func(b event.Batch) error {
		n++
		sum := sha256.Sum256(fmt.Appendf(nil, "fluentd chunk %s %d", c.ID, n))
		copy(b.Chunk[:], sum[:])
		if im.buf.Known(b.Chunk) {
			return nil
		}
		var err error
		if seq, err = im.buf.AppendWaiting(ctx, b, im.full); err != nil {
			return fmt.Errorf("take over a chunk of Fluentd: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, res, err
	}
	return seq, res, im.buf.WaitStored(ctx, uint64(seq))
}

// move brings the files of a stored chunk to ImportedDir: the data first, without which the
// metadata mean nothing.
func (im *importer) move(c *fluentbuffer.Chunk, seq buffer.Seq, res fluentbuffer.Result) error {
	if err := os.MkdirAll(im.dir, 0o755); err != nil {
		return fmt.Errorf("make the place for chunks that were taken over from Fluentd: %w", err)
	}
	prefix := fmt.Sprintf("%016x-", uint64(seq))
	if !res.Whole() {
		prefix = keptPrefix
		im.sum.Damaged++
	}
	base := filepath.Base(c.Path)
	files := [][2]string{{c.Path, base}}
	if c.Meta != "" {
		files = append(files, [2]string{c.Meta, base + ".meta"})
	}
	for _, f := range files {
		to := filepath.Join(im.dir, prefix+f[1])
		if err := moveFile(f[0], to); err != nil {
			return fmt.Errorf("move a chunk of Fluentd whose events are stored (move it away, or they are sent again after the next start): %w", err)
		}
		if prefix != keptPrefix {
			im.waiting = append(im.waiting, waitingChunk{to, seq})
		}
	}
	if !res.Whole() {
		im.log.Warn("a part of a chunk of Fluentd could not be read: the events before it are taken over, the file is kept",
			"file", filepath.Join(im.dir, prefix+base), "events", res.Events, "skipped", res.Bad, "error", res.Rest)
	}
	im.sum.Chunks++
	im.sum.Events += res.Events
	return nil
}

// broken reports a file, unless it is the metadata of a chunk that was moved before a kill.
func (im *importer) broken(b fluentbuffer.Broken) {
	if errors.Is(b.Err, fluentbuffer.ErrNoData) {
		base := filepath.Base(b.Path)
		for _, w := range im.waiting {
			if strings.HasSuffix(w.path, "-"+strings.TrimSuffix(base, ".meta")) {
				to := w.path + ".meta"
				if moveFile(b.Path, to) == nil {
					im.waiting = append(im.waiting, waitingChunk{to, w.seq})
					return
				}
			}
		}
	}
	im.leave(b.Path, b.Err)
}

// leave reports a chunk that stays where it is.
func (im *importer) leave(path string, err error) {
	im.sum.Left++
	todo := "look whether anything in it is worth saving, then remove it"
	if errors.Is(err, fluentbuffer.ErrText) {
		todo = "let Fluentd deliver it, or send the text by other means, then remove it"
	}
	im.log.Warn("a chunk left by Fluentd is not taken over and stays where it is", "file", path, "error", err, "to do", todo)
}

// finish removes chunks as they are delivered, until all are, or ctx or the buffer ends.
func (im *importer) finish(ctx context.Context) {
	slices.SortStableFunc(im.waiting, func(a, b waitingChunk) int { return cmp.Compare(a.seq, b.seq) })
	for _, w := range im.waiting {
		if err := im.buf.WaitDelivered(ctx, uint64(w.seq)); err != nil {
			return // they are found again at the next start
		}
		if err := os.Remove(w.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			im.log.Warn("a chunk of Fluentd was delivered and cannot be removed; remove it by hand", "file", w.path, "error", err)
		}
	}
	_ = os.Remove(im.dir) // unless something is kept there
}

// report says what was taken over, if there was anything.
func (im *importer) report() {
	if s := &im.sum; *s != (Imported{}) {
		im.log.Info("chunks left by Fluentd were taken into the buffer", "chunks", s.Chunks, "events", s.Events, "damaged", s.Damaged, "left where they are", s.Left)
	}
}

// leftByFluentd lists what Fluentd has left of the buffer of an output.
func (o *outputPlan) leftByFluentd(root string) (all fluentbuffer.Listing, err error) {
	paths := []string{o.buffer.Path}
	if o.buffer.Path == "" {
		// With several workers each had a directory of its own.
		paths, _ = filepath.Glob(filepath.Join(escape(root), "worker*", escape(filepath.Base(filepath.Dir(o.dir))), "buffer"))
	}
	for _, p := range paths {
		l, err := fluentbuffer.List(p)
		if err != nil {
			return all, err
		}
		all.Add(l)
	}
	return all, nil
}

// importLeft takes over what Fluentd left of every file buffer. It returns when that is
// stored, or when it waits for room, or after importFirst; then the rest goes on.
func (a *App) importLeft(g *generation) {
	deadline := time.NewTimer(importFirst)
	defer deadline.Stop()
	var begun []chan struct{}
	for _, r := range g.order {
		if r.buf == nil || r.plan.dir == "" {
			continue
		}
		im := newImporter(r, a.o.Log)
		l, err := r.plan.leftByFluentd(g.plan.System.RootDir)
		if err = errors.Join(err, im.earlier()); err != nil {
			a.o.Log.Error("chunks that Fluentd may have left are not taken over", "output", r.plan.id, "error", err)
			continue
		}
		if len(l.Chunks)+len(l.Broken)+len(im.waiting) == 0 {
			continue
		}
		ready := make(chan struct{})
		begun = append(begun, ready)
		once := sync.OnceFunc(func() { close(ready) })
		var waited atomic.Bool
		im.full = func() { waited.Store(true); once() }
		a.importing.Go(func() {
			defer once()
			err := im.take(a.ctx, l)
			im.report()
			if waited.Load() {
				im.log.Warn("the buffer had no room for all that Fluentd left, and the sources were started meanwhile: order was not kept between the two")
			}
			if err != nil && a.ctx.Err() == nil {
				im.log.Error("chunks left by Fluentd could not all be taken over; the rest stays until the next start", "error", err)
			}
			once()
			im.finish(context.Background()) // ends with the buffer
		})
	}
	for _, ready := range begun {
		select {
		case <-ready:
		case <-deadline.C:
			a.o.Log.Warn("taking over what Fluentd left goes on beside the sources: order is not kept between the two")
			return
		case <-a.ctx.Done():
			return
		}
	}
}

// moveFile renames a file; to another file system it is copied.
func moveFile(from, to string) error {
	err := os.Rename(from, to)
	if err == nil || !crossesDevices(err) {
		return err
	}
	if err := copyFile(from, to); err != nil {
		_ = os.Remove(to)
		return err
	}
	return os.Remove(from)
}
