// Package input is the contract between the sources and the rest of weir.
package input

import (
	"context"
	"errors"

	"weir/internal/event"
)

// Input is a running source of events. App starts and stops it; it stops accepting when
// ctx ends, waits for what it has accepted to be answered, and then returns.
type Input interface {
	// Open binds what the input needs (sockets, files), so that a mistake stops weir before
	// anything flows. It does not accept events yet.
	Open() error
	// Run accepts events until ctx is done. It returns when all of the input's goroutines
	// have ended; nil after an orderly stop.
	Run(ctx context.Context, e Emitter) error
}

// Emitter takes batches from an input. It may be used from any goroutine.
type Emitter interface {
	// Emit routes, filters and appends a batch to the buffers of all its targets, or to
	// none of them. The batch is borrowed until Emit returns. Emit may block while a buffer
	// is full and its overflow_action is block, or for a moment while memory is short; ctx
	// ends that.
	//
	// On an error nothing was taken: ErrRefused means that a full buffer with
	// overflow_action throw_exception wants the sender to keep its data. The caller then
	// either makes the sender keep the data (no ack, close the connection) or calls Lost.
	Emit(ctx context.Context, b event.Batch) (Receipt, error)

	// Lost books events that a sender without acknowledgements cannot be asked to keep
	// after Emit refused them.
	Lost(b event.Batch)
}

// ErrRefused is returned, wrapped, by Emit when a buffer is full.
var ErrRefused = errors.New("buffer is full")

// Store is where a batch went: a buffer that can tell how far it is.
type Store interface {
	// WaitStored blocks until everything up to seq is stored as durably as configured.
	WaitStored(ctx context.Context, seq uint64) error
	// WaitDelivered blocks until everything up to seq has ended in the ledger.
	WaitDelivered(ctx context.Context, seq uint64) error
}

// Receipt is what Emit gives for a batch: positions to wait for. It is a small value;
// it holds no reference to the batch.
type Receipt struct {
	one       Place
	more      []Place
	Delivered bool // wait for delivery instead of storage (ack_after delivered)
}

// Place is a position in a Store.
type Place struct {
	Store Store
	Seq   uint64
}

// Add notes one more place that the batch went to.
func (r *Receipt) Add(p Place) {
	if r.one.Store == nil {
		r.one = p
		return
	}
	r.more = append(r.more, p)
}

// Wait blocks until the batch is safe in every place, or ctx ends, or a store fails.
// Only then may an acknowledgement be sent.
func (r Receipt) Wait(ctx context.Context) error {
	if r.one.Store == nil {
		return nil // nowhere to go: filtered, or <match> @type null
	}
	if err := r.wait(ctx, r.one); err != nil {
		return err
	}
	for _, p := range r.more {
		if err := r.wait(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (r Receipt) wait(ctx context.Context, p Place) error {
	if r.Delivered {
		return p.Store.WaitDelivered(ctx, p.Seq)
	}
	return p.Store.WaitStored(ctx, p.Seq)
}
