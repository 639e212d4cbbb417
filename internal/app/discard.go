package app

import (
	"context"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// discard is a <secondary> @type null: what comes ends as filtered, as in a <match> of that
// type.
type discard struct{}

// Splitter implements output.Output.
func (discard) Splitter() output.Splitter { return discard{} }

// Split implements output.Splitter: there is no lane for anything.
func (discard) Split(b event.Batch, add func(lane []byte, r output.Run)) {
	add(nil, output.Run{Len: len(b.Entries), Count: b.Count, Fate: ledger.Fate{Class: ledger.Filtered}})
}

// Request implements output.Output.
func (discard) Request() output.Request { return discard{} }

// Scope implements output.Output.
func (discard) Scope() string { return "" }

// Close implements output.Output.
func (discard) Close() error { return nil }

// Reset implements output.Request.
func (discard) Reset(string) {}

// Add implements output.Request: it takes everything.
func (discard) Add(b []byte, limit int) (entries, size int, full bool) { return limit, len(b), false }

// Fill implements output.Request.
func (discard) Fill() float64 { return 0 }

// Send implements output.Request.
func (discard) Send(context.Context) output.Result { return output.Result{} }
