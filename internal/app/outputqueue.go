package app

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"weir/internal/buffer"
	"weir/internal/config"
	"weir/internal/deliver"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// outputQueue is a buffer of an output with its parking lot and its delivery. An output
// has one; with drain_order live_first it has two, see livefirst.go.
type outputQueue struct {
	dir     string // of the buffer; "" for memory
	book    *ledger.Book
	lotBook *ledger.Book // of the parking lot
	buf     *buffer.Buffer
	lot     *buffer.Buffer // nil: there is none
	del     *deliver.Deliverer
}

func newQueue(dir string) outputQueue {
	return outputQueue{dir: dir, book: &ledger.Book{}, lotBook: &ledger.Book{}}
}

// defaultMinFree is what file buffers leave free on a disk that is not small.
const defaultMinFree = 256 << 20

// room is the size of the file system in which the file buffer in dir is to be, and its
// free-space floor. A volume that is small as a whole, as those of containers are, would be
// below the usual floor from the beginning. dir may not exist yet.
func room(b *config.Buffer, dir string) (capacity, floor int64) {
	floor = defaultMinFree
	for at := dir; ; at = filepath.Dir(at) {
		var err error
		if capacity, err = (vfs.OS{}).Capacity(at); err == nil {
			floor = min(floor, capacity/4)
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if b.MinFree != nil {
		floor = int64(*b.MinFree)
	}
	return capacity, floor
}

// open opens the buffer and the parking lot; limit is the buffer's.
func (q *outputQueue) open(a *App, plan *outputPlan, limit int64, tell bool) (err error) {
	b := &plan.buffer
	o := buffer.Options{
		FS: vfs.OS{}, Dir: q.dir, Book: q.book, Log: a.o.Log.With("output", plan.id), Limit: limit,
		Overflow: overflow(b.Overflow), Durability: durability(b), SyncEvery: b.SyncInterval,
		Tell: tell, Beside: Beside,
	}
	if q.dir != "" {
		o.Capacity, o.MinFree = room(b, q.dir)
	}
	if b.Compress != "text" {
		o.Compress = b.Compress
	}
	lot := int64(fileLot)
	if q.dir == "" {
		o.FS, o.Dir = vfs.NewMem(0), "buffer"
		lot = memoryLot
	}
	if b.ParkingLimit != nil {
		lot = int64(*b.ParkingLimit)
	}
	if plan.liveFirst() {
		lot /= 2 // two queues
	}
	if q.buf, err = buffer.Open(o); err != nil {
		return err
	}
	if lot <= 0 && q.dir != "" && IsBuffer(q.lotDir()) {
		lot = 1 // what an earlier configuration has parked is delivered, and nothing more fits
	}
	if lot <= 0 {
		return nil
	}
	o.Dir, o.Beside = q.lotDir(), nil
	if q.dir == "" {
		o.FS = vfs.NewMem(0)
	}
	o.Book, o.Limit, o.Overflow = q.lotBook, lot, buffer.Throw
	if q.lot, err = buffer.Open(o); err != nil {
		_ = q.buf.Close(context.Background())
		return fmt.Errorf("parking lot: %w", err)
	}
	return nil
}

// lotDir is where the parking lot of a file buffer is.
func (q *outputQueue) lotDir() string { return path.Join(q.dir, ParkedDir) }

// total is the sum of both books; what was parked counts where it ends.
func (q *outputQueue) total() ledger.Sheet {
	sum := q.book.Sheet()
	lot := q.lotBook.Sheet()
	lot.Admitted = 0 // admitted once already
	sum.Merge(lot)
	sum.Moved = 0
	return sum
}

// deliverer makes the delivery of a queue.
func (r *runningOutput) deliverer(a *App, q *outputQueue) *deliver.Deliverer {
	o, b := r.plan, &r.plan.buffer
	opt := deliver.Options{
		ID: o.id, Buffer: q.buf, Output: r.out, Log: a.o.Log, Retry: o.retry(), Linger: o.linger(),
		Workers: max(o.workers, b.Threads, 1), PerLane: b.PerStream, Throttle: a.throttle(r.out.Scope()),
		ReadAhead: int(min(q.buf.Stats().Limit/4, 1<<30)), Circular: overflow(b.Overflow) == buffer.DropOldest, Tell: r.tells,
		SlowFlush: o.slow, Pause: o.pause(), Parking: q.lot, Secondary: r.secondary,
	}
	switch {
	case q == r.backlog:
		opt.ID += " backlog"
		if o.liveFirst() {
			opt.Workers = min(opt.Workers, max(b.DrainRate/4, 1))
			opt.Pause = max(opt.Pause, time.Duration(opt.Workers)*time.Second/time.Duration(b.DrainRate))
		}
	case o.liveFirst():
		opt.Circular = false // what it has no room for goes to the backlog
	}
	return deliver.New(opt)
}

// finish delivers what waits until ctx is done; nothing is appended any more.
func (r *runningOutput) finish(ctx context.Context, q *outputQueue) {
	if err := q.buf.Seal(ctx); err != nil {
		r.log.Error("the last events could not be stored", "output", r.plan.id, "error", err)
	}
	// A file buffer keeps what an unreachable endpoint does not take; memory does not, so
	// there every second of the grace counts.
	q.del.Stop(ctx, q.dir != "")
}

// close closes the buffers, the delivery of which has ended, and says how many events are
// left, and how many could not be stored. What is in memory is dropped. When ctx is done a
// disk that cannot be written is not waited for.
func (q *outputQueue) close(ctx context.Context) (left, unstored uint64) {
	for _, b := range []*buffer.Buffer{q.buf, q.lot} {
		if b == nil {
			continue
		}
		left += b.Stats().PendingEvents
		if q.dir == "" {
			b.DropRest(ledger.Shutdown)
		}
	}
	q.shut(ctx)
	if q.dir != "" {
		unstored = min(left, q.buf.Stats().Unstored)
	}
	return left - unstored, unstored
}

// discard closes the buffers before anything is appended.
func (q *outputQueue) discard() { q.shut(context.Background()) }

func (q *outputQueue) shut(ctx context.Context) {
	_ = q.buf.Close(ctx) // logged by the buffer: nobody can do more about it here
	if q.lot != nil {
		_ = q.lot.Close(ctx)
	}
}

// halt ends the delivery without flushing, for another one that takes over the buffers.
func (q *outputQueue) halt(ctx context.Context) { q.del.Halt(ctx) }

// rewind makes the buffers begin again with what has not ended.
func (q *outputQueue) rewind() {
	q.buf.Rewind()
	if q.lot != nil {
		q.lot.Rewind()
	}
}
