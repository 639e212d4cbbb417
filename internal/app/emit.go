package app

import (
	"context"
	"sync/atomic"
	"time"

	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/pipeline"
)

// emitter is what a source emits to for its whole life; a reload changes what is behind it.
type emitter struct {
	to atomic.Pointer[way]
}

// way is one configuration's way in for a source, and how many batches are on it just now.
type way struct {
	in    *pipeline.Ingress
	calls atomic.Int64
}

// set changes the way and returns the one before.
func (e *emitter) set(in *pipeline.Ingress) (before *way) { return e.to.Swap(&way{in: in}) }

// enter returns the way for one batch, which the caller leaves with calls.Add(-1).
func (e *emitter) enter() *way {
	for {
		w := e.to.Load()
		w.calls.Add(1)
		if e.to.Load() == w {
			return w
		}
		w.calls.Add(-1)
	}
}

// Emit implements input.Emitter.
func (e *emitter) Emit(ctx context.Context, b event.Batch) (input.Receipt, error) {
	w := e.enter()
	defer w.calls.Add(-1)
	return w.in.Emit(ctx, b)
}

// Lost implements input.Emitter.
func (e *emitter) Lost(b event.Batch) {
	w := e.enter()
	defer w.calls.Add(-1)
	w.in.Lost(b)
}

// wait returns when no batch is on a way that was replaced, or when ctx is done. It looks
// now and then: ways are replaced by a reload only.
func (w *way) wait(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for w.calls.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
