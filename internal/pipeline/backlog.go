package pipeline

import (
	"context"
	"errors"
	"sync/atomic"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/input"
)

// Backlog is the second buffer of a target with drain_order live_first. Who delivers from
// the two decides when new events go here; a batch that the first one has no room for does
// so at any time.
type Backlog struct {
	Buffer *buffer.Buffer
	Open   atomic.Bool // it takes new events; if not, what it has is delivered and that is all
	Turned atomic.Bool // all new events come here
}

// reserve makes room in the buffer where new events go, and says which one that is: what
// belongs to the reservation has to go to the same one. A target has room reserved in one
// of its buffers only, so that the order of targets is one of buffers too.
func (t *Target) reserve(ctx context.Context, bs []event.Batch) (*buffer.Buffer, error) {
	k := t.Backlog.Load()
	if k == nil || !k.Open.Load() {
		return t.Buffer, t.Buffer.Reserve(ctx, bs...)
	}
	if !k.Turned.Load() {
		err := t.Buffer.TryReserve(ctx, bs...)
		if !errors.Is(err, input.ErrRefused) {
			return t.Buffer, err
		}
		k.Turned.Store(true) // those that follow stay behind it
	}
	return k.Buffer, k.Buffer.Reserve(ctx, bs...)
}

// Known says whether the target stored a message before a restart.
func (t *Target) Known(c event.Chunk) bool {
	if t.Buffer == nil {
		return false
	}
	if t.Buffer.Known(c) {
		return true
	}
	k := t.Backlog.Load()
	return k != nil && k.Buffer.Known(c)
}
