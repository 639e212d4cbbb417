package app

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/buffer"
	"weir/internal/deliver"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// dockerQueue is a buffer of a container and its delivery.
type dockerQueue struct {
	c       *dockerContainer
	backlog bool // see dockerlive.go
	book    *ledger.Book
	buf     *buffer.Buffer
	del     *deliver.Deliverer // nil until the output is there
}

const (
	// A full spool gives up its oldest events in pieces of this size: a 64th of the limit
	// within these bounds.
	dockerLeast, dockerMost = 1 << 20, 4 << 20
	// dockerClaim is the most that delivery claims: a few requests. A full spool, or a full
	// disk, cannot give that up.
	dockerClaim = 4 << 20
	// dockerRecent is what is kept in memory of a container's events. What was pushed out is
	// in the kernel's cache.
	dockerRecent = 32 << 10
	// dockerRepeats is how many blocks are remembered from before a restart.
	dockerRepeats = 256
)

func openDockerQueue(c *dockerContainer, dir string) (*dockerQueue, error) {
	q := &dockerQueue{c: c, backlog: dir != c.dir, book: &ledger.Book{}}
	limit := c.queueLimit(dir)
	segment, _ := c.d.limits.pieces(limit)
	o := buffer.Options{
		FS: vfs.OS{}, Dir: dir, Book: q.book, Log: c.log, Limit: limit, MinFree: c.d.limits.minFree, Overflow: buffer.DropOldest,
		Durability: buffer.Interval, Segment: segment, Recent: dockerRecent, Beside: besideQueue,
		Tell: c.info.Options.LossNotice != "", Share: c.d.limits.share, Repeats: dockerRepeats, Lean: true,
		MakeRoom: c.d.limits.makeRoom,
	}
	if c.info.Options.DropNewest {
		o.Overflow = buffer.DropNewest
	}
	var err error
	if q.buf, err = buffer.Open(o); err != nil {
		return nil, err
	}
	return q, nil
}

// besideQueue knows what else there is in the directory of a queue.
func besideQueue(name string) bool {
	return name == containerFileName || name == containerFileName+".tmp" || name == BacklogDir
}

// deliver begins to send. The container's mu is held.
func (q *dockerQueue) deliver(out *dockerOutput) {
	if q.del != nil {
		return
	}
	_, claim := q.c.d.limits.pieces(q.buf.Stats().Limit)
	o := deliver.Options{
		ID: q.c.name(), Buffer: q.buf, Output: out.out, Log: q.c.log, Retry: dockerRetry(), Slots: out.slots, Throttle: out.throttle,
		Linger: deliver.Linger{Interval: q.c.info.Options.FlushInterval}, ReadAhead: int(claim),
		Tell: q.c.info.Options.LossNotice != "", Circular: true,
	}
	q.pace(&o)
	q.del = deliver.New(o)
	q.del.Start()
}

// put stores batches, all of one read.
func (q *dockerQueue) put(ctx context.Context, batches []event.Batch) error {
	room, cancel := context.WithTimeout(ctx, roomLimit)
	err := q.buf.Reserve(room, batches...)
	cancel()
	switch {
	case errors.Is(err, buffer.ErrDropped):
		return nil // booked
	case err != nil:
		for i := range batches {
			q.miss(batches[i].Chunk, batches[i].Tag, ledger.DiskFull, lossOf(&batches[i]))
		}
		return fmt.Errorf("the disk does not answer, %d batches are dropped: %w", len(batches), err)
	}
	var last buffer.Seq
	for i := range batches {
		last = q.buf.Commit(batches[i])
	}
	q.c.d.limits.relieve()
	ctx, cancel = context.WithTimeout(ctx, storedLimit)
	defer cancel()
	return q.buf.WaitStored(ctx, uint64(last))
}

// miss books events that were lost on the way here.
func (q *dockerQueue) miss(id event.Chunk, tag string, reason ledger.Reason, l buffer.Loss) {
	if err := q.buf.MissOnce(id, tag, reason, l); err != nil { // it is closed: then the container is gone
		q.c.log.Error("a loss of events cannot be noted", "events", l.Events, "reason", reason.String(), "error", err)
	}
}

// idle says that all has ended, and everything there is to tell was told.
func (q *dockerQueue) idle() bool {
	st := q.buf.Stats()
	return st.PendingEvents == 0 && st.Untold == 0
}

// flush sends what waits for company.
func (q *dockerQueue) flush() {
	if q.del != nil {
		q.del.Flush()
	}
}

// halt ends the delivery; what is under way is answered until ctx is done.
func (q *dockerQueue) halt(ctx context.Context) {
	if q.del != nil {
		q.del.Halt(ctx)
	}
}

// stop delivers what waits until ctx is done, or until there is nothing but failures.
func (q *dockerQueue) stop(ctx context.Context) {
	if err := q.buf.Seal(ctx); err != nil {
		q.c.log.Error("the last events of a container could not be stored", "error", err)
	}
	if q.del != nil {
		q.del.Stop(ctx, true)
	}
}

// close closes the buffer; what has not ended stays on disk.
func (q *dockerQueue) close() { q.end(q.buf.Close) }

// discard closes the buffer before its directory is removed.
func (q *dockerQueue) discard() { q.end(q.buf.Discard) }

func (q *dockerQueue) end(how func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), storedLimit)
	defer cancel()
	if err := how(ctx); err != nil {
		q.c.log.Error("the spool of a container could not be closed in good order", "dir", q.c.dir, "error", err)
	}
}

// dockerRetry never gives up: events leave by age or by overflow.
func dockerRetry() deliver.Retry {
	r := deliver.DefaultRetry
	r.Forever, r.ParkAfter, r.Max = true, 0, dockerRetryMax
	return r
}
