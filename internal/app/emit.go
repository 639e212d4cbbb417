package app

import (
	"context"
	"sync/atomic"

	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/pipeline"
)

// emitter is what a source emits to for its whole life; a reload changes what is behind it.
type emitter struct {
	to atomic.Pointer[pipeline.Ingress]
}

func (e *emitter) set(in *pipeline.Ingress) { e.to.Store(in) }

// Emit implements input.Emitter.
func (e *emitter) Emit(ctx context.Context, b event.Batch) (input.Receipt, error) {
	return e.to.Load().Emit(ctx, b)
}

// Lost implements input.Emitter.
func (e *emitter) Lost(b event.Batch) { e.to.Load().Lost(b) }
