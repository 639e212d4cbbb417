// Package inputtest holds what tests of inputs share: an emitter that records, and a suite
// that every input.Input must pass.
package inputtest

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"testing"

	"weir/internal/event"
	"weir/internal/input"
)

// Recorder is an input.Emitter for tests. It copies what it is given, and checks the
// contract on the way: batches are well formed, their counts and times are right, and
// nobody changes a batch while Emit has it. It may be used from any goroutine.
type Recorder struct {
	tb   testing.TB
	seed maphash.Seed

	mu      sync.Mutex // guards what follows
	changed chan struct{}
	batches []event.Batch
	lost    []event.Batch
	refuse  func(b event.Batch) error
	hold    chan struct{} // Emit waits until it is closed; nil: does not wait
	store   *Store
	closed  bool // nothing may be emitted any more
	inside  int
}

// NewRecorder returns a Recorder whose receipts are safe at once.
func NewRecorder(tb testing.TB) *Recorder {
	return &Recorder{tb: tb, seed: maphash.MakeSeed(), changed: make(chan struct{})}
}

// Emit records a copy of b.
func (r *Recorder) Emit(ctx context.Context, b event.Batch) (input.Receipt, error) {
	before := r.sum(b)
	r.check(b)
	r.mu.Lock()
	if r.closed {
		r.tb.Errorf("Emit was called after Run returned: %q", b.Tag)
	}
	r.inside++
	hold := r.hold
	r.wake()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.inside--
		r.wake()
		r.mu.Unlock()
	}()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return input.Receipt{}, ctx.Err()
		}
	}
	if r.sum(b) != before {
		r.tb.Errorf("the batch %q changed during Emit", b.Tag)
	}
	r.mu.Lock()
	refuse, store := r.refuse, r.store
	r.mu.Unlock()
	if refuse != nil {
		if err := refuse(b); err != nil {
			return input.Receipt{}, err
		}
	}
	var receipt input.Receipt
	r.mu.Lock()
	defer r.mu.Unlock()
	if store != nil {
		receipt.Add(input.Place{Store: store, Seq: store.next()})
	}
	r.batches = append(r.batches, clone(b))
	r.wake()
	return receipt, nil
}

// Lost records a copy of b.
func (r *Recorder) Lost(b event.Batch) {
	r.check(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, clone(b))
	r.wake()
}

func clone(b event.Batch) event.Batch {
	b.Entries = bytes.Clone(b.Entries)
	return b
}

func (r *Recorder) sum(b event.Batch) uint64 { return maphash.Bytes(r.seed, b.Entries) }

func (r *Recorder) check(b event.Batch) {
	count, first, last, _, err := event.Check(b.Entries)
	switch {
	case err != nil:
		r.tb.Errorf("batch %q does not pass event.Check: %v", b.Tag, err)
	case count != b.Count || first != b.First || last != b.Last:
		r.tb.Errorf("batch %q says %d events from %d to %d, its entries say %d from %d to %d", b.Tag, b.Count, b.First, b.Last, count, first, last)
	case count == 0:
		r.tb.Errorf("batch %q is empty", b.Tag)
	}
}

// wake tells waiters that something changed. r.mu is held.
func (r *Recorder) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Refuse makes Emit fail with what f returns; nil ends that.
func (r *Recorder) Refuse(f func(b event.Batch) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = f
}

// RefuseAll makes Emit refuse everything as a full buffer does.
func (r *Recorder) RefuseAll() {
	r.Refuse(func(event.Batch) error { return fmt.Errorf("append to test: %w", input.ErrRefused) })
}

// Hold makes Emit block until release is called.
func (r *Recorder) Hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hold := make(chan struct{})
	r.hold = hold
	return sync.OnceFunc(func() {
		r.mu.Lock()
		r.hold = nil
		r.mu.Unlock()
		close(hold)
	})
}

// Use makes receipts wait for s.
func (r *Recorder) Use(s *Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store = s
}

// Close makes any further Emit an error of the test.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Batches returns what was emitted so far.
func (r *Recorder) Batches() []event.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches)
}

// Events returns the events emitted so far as text, in order; see Text.
func (r *Recorder) Events() []string { return texts(r.Batches()) }

// LostEvents returns the events given to Lost as text, in order; see Text.
func (r *Recorder) LostEvents() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return texts(r.lost)
}

func texts(batches []event.Batch) (out []string) {
	for _, b := range batches {
		out = append(out, Text(b)...)
	}
	return out
}

// Text prints each event of a batch as `tag seconds.nanoseconds {record as JSON}`.
func Text(b event.Batch) (out []string) {
	for rest := b.Entries; len(rest) > 0; {
		e, n, err := event.Next(rest)
		if err != nil {
			return append(out, "damaged: "+err.Error())
		}
		sec := e.Time.Seconds()
		out = append(out, fmt.Sprintf("%s %d.%09d %s", b.Tag, sec, int64(e.Time)-sec*1e9, event.AppendJSON(nil, e.Record, event.Yajl)))
		rest = rest[n:]
	}
	return out
}

// Wait blocks until cond holds. It looks at cond whenever something was recorded.
func (r *Recorder) Wait(cond func() bool) {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if cond() {
			return
		}
		<-changed
	}
}

// WaitEvents blocks until n events have been emitted.
func (r *Recorder) WaitEvents(n int) []string {
	r.Wait(func() bool { return r.count() >= n })
	return r.Events()
}

func (r *Recorder) count() (n int) {
	for _, b := range r.Batches() {
		n += b.Count
	}
	return n
}

// WaitInside blocks until n calls of Emit are in progress.
func (r *Recorder) WaitInside(n int) {
	r.Wait(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.inside == n
	})
}

// Store is an input.Store whose progress the test decides.
type Store struct {
	mu      sync.Mutex // guards what follows
	changed chan struct{}
	last    uint64 // given out
	safe    uint64 // stored and delivered
	err     error
}

// NewStore returns a Store in which nothing is safe yet.
func NewStore() *Store { return &Store{changed: make(chan struct{})} }

func (s *Store) next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// Safe makes everything up to seq safe.
func (s *Store) Safe(seq uint64) { s.change(func() { s.safe = seq }) }

// Fail makes all waiting end with err.
func (s *Store) Fail(err error) { s.change(func() { s.err = err }) }

func (s *Store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// WaitStored implements input.Store.
func (s *Store) WaitStored(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		safe, err, changed := s.safe, s.err, s.changed
		s.mu.Unlock()
		switch {
		case seq <= safe:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitDelivered implements input.Store.
func (s *Store) WaitDelivered(ctx context.Context, seq uint64) error { return s.WaitStored(ctx, seq) }

var _ input.Store = (*Store)(nil)
var _ input.Emitter = (*Recorder)(nil)
