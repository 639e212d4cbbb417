package buffer

import (
	"context"
)

// waiter is a goroutine that waits for a Seq, or for anything (Seq 0).
type waiter struct {
	ch  chan struct{} // holds one token
	seq uint64
}

// waiters is a set of waiting goroutines; guarded by Buffer.mu.
type waiters struct{ list []*waiter }

// wake wakes everybody who waits for a Seq below limit.
func (q *waiters) wake(limit uint64) {
	keep := q.list[:0]
	for _, w := range q.list {
		if w.seq < limit {
			w.ch <- struct{}{}
		} else {
			keep = append(keep, w)
		}
	}
	clear(q.list[len(keep):])
	q.list = keep
}

func (q *waiters) wakeAll() { q.wake(1<<64 - 1) }

func (q *waiters) remove(w *waiter) bool {
	for i, x := range q.list {
		if x == w {
			last := len(q.list) - 1
			q.list[i] = q.list[last]
			q.list[last] = nil
			q.list = q.list[:last]
			return true
		}
	}
	return false
}

// sleep waits in q until woken for seq or until ctx ends. mu is held at entry and at
// return, and not between. Waiters are recycled: a call allocates nothing.
func (b *Buffer) sleep(ctx context.Context, q *waiters, seq uint64) error {
	w, _ := b.idle.Get().(*waiter)
	if w == nil {
		w = &waiter{ch: make(chan struct{}, 1)}
	}
	w.seq = seq
	q.list = append(q.list, w)
	b.mu.Unlock()
	var err error
	select {
	case <-w.ch:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	if err != nil && !q.remove(w) {
		<-w.ch // woken at the same moment
	}
	b.idle.Put(w)
	return err
}

// WaitStored blocks until everything up to seq is stored as durably as configured. It
// fails with ctx's cause, or with ErrClosed if that will not happen any more. While the
// disk fails it keeps waiting, since writing is retried: end ctx to give up.
func (b *Buffer) WaitStored(ctx context.Context, seq uint64) error {
	if b.storedSeq.Load() >= seq {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.stored.Seq <= seq {
		if b.ended {
			return ErrClosed
		}
		if err := b.sleep(ctx, &b.storedWait, seq); err != nil {
			return err
		}
	}
	return nil
}

// WaitDelivered blocks until everything up to seq has ended in the ledger. It fails with
// ctx's cause, or with ErrClosed once the buffer is closed.
func (b *Buffer) WaitDelivered(ctx context.Context, seq uint64) error {
	if b.markSeq.Load() >= seq {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.mark.Seq <= seq {
		if b.ended {
			return ErrClosed
		}
		if err := b.sleep(ctx, &b.markWait, seq); err != nil {
			return err
		}
	}
	return nil
}
