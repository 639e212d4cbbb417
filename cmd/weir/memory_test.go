package main

import (
	"testing"

	"weir/internal/ledger"
)

// books is what has been admitted so far.
type books uint64

func (b *books) Totals() ledger.Sheet { return ledger.Sheet{Admitted: uint64(*b)} }

// TestQuiet: memory is given back once, at the first look that finds no new events.
func TestQuiet(t *testing.T) {
	var b books
	q := newQuiet(&b)
	q.tick.Stop()
	for i, step := range []struct {
		come   books
		shrunk bool
	}{{0, true}, {5, false}, {5, false}, {0, true}, {0, true}, {1, false}, {0, true}} {
		b += step.come
		q.look()
		if q.shrunk != step.shrunk {
			t.Errorf("step %d: memory was given back: %v, want %v", i, q.shrunk, step.shrunk)
		}
	}
}
