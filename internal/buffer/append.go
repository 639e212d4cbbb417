package buffer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
)

// cost is the most that a batch can add to the segment files: it may get a frame of its own.
func cost(t *event.Batch) int64 {
	return int64(segment.HeaderSize + segment.BatchSize(t))
}

// ask is what a reservation is for: one or more batches, which are all taken or none.
type ask struct {
	need   int64 // most that they can add to the segment files
	size   int64 // what they take in memory
	events int
	bytes  int  // of entries
	never  bool // one of them is larger than a batch may be
	policy Overflow
	full   func() // called before it waits for room; may be nil

	batches []event.Batch // borrowed
}

func (b *Buffer) ask(ts []event.Batch) (a ask, err error) {
	a.policy, a.batches = b.o.Overflow, ts
	for i := range ts {
		t := &ts[i]
		if t.Count <= 0 {
			continue
		}
		if len(t.Tag) > segment.MaxTag {
			return a, fmt.Errorf("append to buffer %s: a tag of %d bytes, the limit is %d", b.o.Dir, len(t.Tag), segment.MaxTag)
		}
		a.need += cost(t)
		a.size += int64(segment.BatchSize(t))
		a.events += t.Count
		a.bytes += len(t.Entries)
		a.never = a.never || len(t.Entries) > maxBatch
	}
	return a, nil
}

// Reserve makes room for the batches, for all or for none, so that Commit of each of them
// cannot fail. A full buffer acts by Options.Overflow: Throw fails with an error that wraps
// input.ErrRefused, and nothing is booked; Block waits for room or ctx; DropOldest gives up
// stored batches; DropNewest books the batches as dropped and returns ErrDropped. DropOldest
// does so too where there is nothing old to give up, and both where nothing can be written.
//
// Reserve also waits a moment while as much as may be kept in memory waits for the disk:
// whoever holds a reservation here must not ask for another before it has committed.
// Every batch for which Reserve returned nil needs one Commit or Unreserve.
func (b *Buffer) Reserve(ctx context.Context, ts ...event.Batch) error {
	a, err := b.ask(ts)
	if err != nil || a.events == 0 {
		return err
	}
	b.mu.Lock()
	err = b.reserve(ctx, &a)
	b.mu.Unlock()
	if errors.Is(err, ErrDropped) {
		b.recordDoor()
	}
	return err
}

// TryReserve is Reserve for somebody who has another place for the batches: without room it
// fails with an error that wraps input.ErrRefused, whatever Options.Overflow says, and
// that is no fault of the buffer.
func (b *Buffer) TryReserve(ctx context.Context, ts ...event.Batch) error {
	a, err := b.ask(ts)
	if err != nil || a.events == 0 {
		return err
	}
	a.policy = try
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(ctx, &a)
}

// Commit appends t, for which Reserve succeeded: one copy into memory. It books t as
// admitted and returns its Seq. A batch without events gets the Seq of its predecessor.
func (b *Buffer) Commit(t event.Batch) Seq {
	b.mu.Lock()
	seq := b.commit(&t)
	b.mu.Unlock()
	b.kickCommitter()
	return seq
}

// Unreserve gives reservations back.
func (b *Buffer) Unreserve(ts ...event.Batch) {
	a, err := b.ask(ts)
	if err != nil || a.events == 0 {
		return
	}
	b.mu.Lock()
	b.reserved -= a.need
	b.waitingBytes -= a.size
	b.account()
	b.roomWait.wakeAll()
	b.mu.Unlock()
}

// Append is Reserve and Commit of one batch.
func (b *Buffer) Append(ctx context.Context, t event.Batch) (Seq, error) {
	one := [1]event.Batch{t}
	a, err := b.ask(one[:])
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	if t.Count > 0 {
		if err := b.reserve(ctx, &a); err != nil {
			b.mu.Unlock()
			if errors.Is(err, ErrDropped) {
				b.recordDoor()
			}
			return 0, err
		}
	}
	seq := b.commit(&t)
	b.mu.Unlock()
	b.kickCommitter()
	return seq, nil
}

// AppendWaiting is Append for somebody who can wait: without room it blocks, whatever
// Options.Overflow says, and nothing is given up for it. full, if not nil, is called each time before
// it waits, with the buffer locked: it must neither block nor call the buffer.
func (b *Buffer) AppendWaiting(ctx context.Context, t event.Batch, full func()) (Seq, error) {
	one := [1]event.Batch{t}
	a, err := b.ask(one[:])
	if err != nil {
		return 0, err
	}
	a.policy, a.full = Block, full
	b.mu.Lock()
	if t.Count > 0 {
		if err := b.reserve(ctx, &a); err != nil {
			b.mu.Unlock()
			return 0, err
		}
	}
	seq := b.commit(&t)
	b.mu.Unlock()
	b.kickCommitter()
	return seq, nil
}

// reserve is Reserve with mu held.
func (b *Buffer) reserve(ctx context.Context, a *ask) error {
	if a.need > b.limit || a.never {
		return b.tooBig(a)
	}
	for {
		if b.sealed {
			return fmt.Errorf("append to buffer %s: %w", b.o.Dir, ErrClosed)
		}
		reason := b.roomFor(a.need)
		if reason == ledger.None {
			if (b.waitingBytes == 0 || b.waitingBytes+a.size <= b.maxOpen) && !b.tooEarly(a.need) {
				if !b.claim(a.need) {
					continue // another buffer took the room
				}
				b.waitingBytes += a.size
				return nil
			}
			if err := b.sleep(ctx, &b.roomWait, 0); err != nil {
				return err
			}
			continue
		}
		if err := b.overflow(ctx, a, reason); err != nil {
			return err
		}
	}
}

// roomFor tells why need bytes do not fit, None if they do.
func (b *Buffer) roomFor(need int64) ledger.Reason {
	waiting := b.flying + b.openSize() + b.reserved + need
	switch {
	case b.used+waiting > b.limit:
		return ledger.BufferFull
	case b.o.Share != nil && !b.o.Share.fits(b.used+waiting-b.shared):
		return ledger.BufferFull
	case b.fault != nil:
		return ledger.DiskFull
	case b.noSpace != nil && waiting > b.diskRoom():
		return ledger.DiskFull
	}
	return ledger.None
}

// tooEarly tells that need bytes would go beyond what is reserved on disk, so that a full
// disk would be found out when it is too late to refuse them: the committer has to reserve
// more first. A batch that is larger than a segment has to take the risk.
func (b *Buffer) tooEarly(need int64) bool {
	waiting := b.flying + b.openSize() + b.reserved + need
	room, known := int64(0), false
	if b.tail != nil && b.tail.alloc > 0 {
		room, known = b.tailRoom(), true
	}
	if b.spare != nil && b.spare.alloc > 0 {
		room, known = max(room, b.spare.alloc), true
	}
	fresh := b.o.Lean && b.tail == nil && b.spare == nil
	if !known && !fresh || waiting <= room || need > b.o.Segment && waiting == need {
		return false
	}
	b.wantBytes = max(b.wantBytes, min(waiting, b.o.Segment))
	if (b.spare == nil || b.o.Lean) && !b.wantSpare {
		b.wantSpare = true
		b.kickCommitter()
	}
	return true
}

// openSize is what the frames that the committer has not taken will take in a file.
func (b *Buffer) openSize() int64 {
	if b.open.empty() {
		return b.lineBytes
	}
	return b.lineBytes + int64(len(b.open.buf))
}

// unstored tells whether a frame has still to be stored.
func (b *Buffer) unstored() bool { return b.storing || !b.open.empty() || len(b.line) > 0 }

// overflow acts by the policy. nil means: try again.
func (b *Buffer) overflow(ctx context.Context, a *ask, reason ledger.Reason) error {
	if a.policy == try {
		b.squeeze()
		return b.refusals[reason]
	}
	b.noteFull(reason)
	b.squeeze()
	if reason == ledger.DiskFull && a.policy != Throw {
		if again, err := b.moreDisk(ctx, a); again || err != nil {
			return err
		}
	}
	switch a.policy {
	case Throw:
		b.full.refused += uint64(a.events)
		return b.refusals[reason]
	case Block:
		if a.full != nil {
			a.full()
		}
		if b.o.Share != nil && b.o.Share.wait(b) && b.roomFor(a.need) == ledger.None {
			return nil
		}
		return b.sleep(ctx, &b.roomWait, 0)
	case DropOldest:
		if b.giveWay(reason) {
			switch dropped, err := b.dropOldest(ctx, reason); {
			case err != nil:
				return err
			case dropped:
				return nil
			case b.cleaning:
				return b.sleep(ctx, &b.roomWait, 0)
			case b.fault == nil && b.unstored():
				// What is in memory will be a segment in a moment.
				b.kickCommitter()
				return b.sleep(ctx, &b.roomWait, 0)
			}
		}
	}
	return b.lose(a, reason)
}

// tooBig is for batches that can never fit.
func (b *Buffer) tooBig(a *ask) error {
	if a.policy == try {
		return b.refusals[ledger.BufferFull]
	}
	b.noteFull(ledger.BufferFull)
	if a.policy == Throw || a.policy == Block {
		return fmt.Errorf("append to buffer %s: a batch of %d bytes never fits; raise total_limit_size (now %d): %w",
			b.o.Dir, a.bytes, b.limit, input.ErrRefused)
	}
	return b.lose(a, ledger.BufferFull)
}

// commit is Commit with mu held.
func (b *Buffer) commit(t *event.Batch) Seq {
	if t.Count <= 0 {
		return Seq(b.next.Seq - 1)
	}
	size := segment.BatchSize(t)
	if len(b.openGaps) > 0 {
		b.endGaps()
	}
	b.pool.grow(b.open, size)
	if b.open.empty() {
		b.open.hdr.Start = b.next
		b.open.hdr.Accepted = time.Now().UnixNano()
	}
	b.open.add(t)
	if !t.Chunk.IsZero() {
		b.open.note(t.Chunk)
	}
	b.reserved -= cost(t)
	b.next.Seq++
	b.next.Events += uint64(t.Count)
	b.next.Bytes += uint64(len(t.Entries))
	b.own.Admitted += uint64(t.Count)
	b.o.Book.Admit(t.Count)
	b.dirty = true
	b.account()
	return Seq(b.next.Seq - 1)
}

// kickCommitter wakes the committer. It never blocks.
func (b *Buffer) kickCommitter() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// squeeze asks the committer to free what it can, if there is anything: a checkpoint costs
// an fdatasync, and a full buffer is asked for room again and again.
func (b *Buffer) squeeze() {
	if !b.tight && len(b.segments) > 0 && b.segmentEnd(0) <= b.mark.Seq {
		b.tight = true
		b.kickCommitter()
	}
}

// Flush commits what is in memory now and waits until it is stored.
func (b *Buffer) Flush(ctx context.Context) error {
	b.mu.Lock()
	last := b.next.Seq - 1
	b.gapsDue = true
	b.mu.Unlock()
	b.kickCommitter()
	return b.WaitStored(ctx, last)
}

// SetLimit changes total_limit_size. What is stored beyond a smaller limit stays; the
// policy acts until it is below.
func (b *Buffer) SetLimit(limit int64) {
	b.mu.Lock()
	b.limit = max(limit, 1)
	b.ceiling = max(b.ceiling, b.limit)
	b.roomWait.wakeAll()
	b.mu.Unlock()
}
