package buffer

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// TestAppendWaiting never gives anything up, whatever the policy: it waits for room, and
// tells so.
func TestAppendWaiting(t *testing.T) {
	for name, policy := range map[string]Overflow{"throw": Throw, "block": Block, "drop oldest": DropOldest, "drop newest": DropNewest} {
		t.Run(name, func(t *testing.T) {
			book := &ledger.Book{}
			b, err := Open(Options{FS: vfs.NewMem(0), Dir: "b", Book: book, Log: slog.New(slog.DiscardHandler), Limit: 64 << 10, Overflow: policy})
			if err != nil {
				t.Fatal(err)
			}
			record := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "m"), make([]byte, 8<<10))
			one := event.Batch{Tag: "t", Entries: event.AppendEntry(nil, 1, record), Count: 1, First: 1, Last: 1}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stored := uint64(0)
			for {
				seq, err := b.AppendWaiting(ctx, one, cancel)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("append: %v", err)
					}
					break
				}
				stored++
				if err := b.WaitStored(t.Context(), uint64(seq)); err != nil {
					t.Fatal(err)
				}
			}
			if s := book.Sheet(); stored < 4 || s.Admitted != stored || s.Pending() != int64(stored) {
				t.Errorf("%d stored, book %+v", stored, s)
			}
			one.Entries = event.AppendEntry(nil, 1, event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "m"), make([]byte, 128<<10)))
			if _, err := b.AppendWaiting(t.Context(), one, nil); !errors.Is(err, input.ErrRefused) {
				t.Errorf("a batch that never fits: %v", err)
			}
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
