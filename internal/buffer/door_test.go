package buffer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// TestKillRemembersWhatWasDropped: a batch that a full buffer dropped counts as taken for
// its sender, so a killed process must not forget it. Between the drops parts are settled,
// so that the journal is written by both.
func TestKillRemembersWhatWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Limit, o.Overflow = 64<<10, DropNewest
		b := mustOpen(t, o)
		if _, err := fill(t, b); !errors.Is(err, ErrDropped) {
			t.Fatal(err)
		}
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		size := b.journal.size
		for range 1000 {
			if _, err := b.Append(context.Background(), batchOf("t", 0, 2, 4000)); !errors.Is(err, ErrDropped) {
				t.Fatal(err)
			}
		}
		if grown := b.journal.size - size; grown > 1000 {
			t.Errorf("the journal has grown by %d bytes for one run of losses", grown)
		}
		settleNext(t, b)
		if err := b.Reserve(context.Background(), batchOf("t", 0, 2, 20_000)); !errors.Is(err, ErrDropped) {
			t.Fatal(err)
		}
		want := o.Book.Sheet()
		killed := fs.Kill()
		synctest.Wait()
		_ = b.Close(context.Background()) // its files are gone: only its goroutine matters

		o.FS, o.Book = killed, &ledger.Book{}
		b = mustOpen(t, o)
		if got := o.Book.Sheet(); got != want {
			t.Errorf("after a kill the book says\n%+v\nbefore it said\n%+v", got, want)
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestKillRemembersIDsOfLosses: who repeats, after a kill, what was booked as lost finds its id,
// that of a loss and those of batches that were dropped.
func TestKillRemembersIDsOfLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Limit, o.Overflow, o.Tell = 64<<10, DropNewest, true
		b := mustOpen(t, o)
		if _, err := fill(t, b); !errors.Is(err, ErrDropped) {
			t.Fatal(err)
		}
		var want []event.Chunk
		for i := range byte(40) {
			want = append(want, event.Chunk{i + 1})
		}
		for i, id := range want[:38] {
			if err := b.MissOnce(id, "t", ledger.WireLoss, lossAt(i, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond) // the gaps get into the journal
		}
		two := []event.Batch{batchOf("t", 0, 2, 20_000), batchOf("t", 2, 2, 20_000)}
		two[0].Chunk, two[1].Chunk = want[38], want[39]
		if err := b.Reserve(context.Background(), two...); !errors.Is(err, ErrDropped) {
			t.Fatal(err)
		}
		killed := fs.Kill()
		synctest.Wait()
		_ = b.Close(context.Background()) // its files are gone: only its goroutine matters

		o.FS, o.Book = killed, &ledger.Book{}
		b = mustOpen(t, o)
		if got := b.LostIDs(); !slices.Equal(got, want[len(want)-segment.MaxLostIDs:]) {
			t.Errorf("after a kill %v are known", got)
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestFullForLong: a buffer that stays at its limit, with room for a moment whenever
// something is dropped, is one line when that begins and one when it is over.
func TestFullForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		o := testOptions(t, vfstest.New(), "q")
		o.Limit, o.Segment, o.Overflow, o.Log = 256<<10, 32<<10, DropOldest, slog.New(slog.NewTextHandler(&logged, nil))
		b := mustOpen(t, o)
		for i := range 600 {
			if _, err := b.Append(context.Background(), batchOf("t", i, 2, 1000)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if s := logged.String(); strings.Count(s, "buffer is full") != 1 || strings.Contains(s, "room again") {
			t.Errorf("while it is full the log says\n%s", s)
		}
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		for b.Stats().PendingEvents > 0 {
			settleNext(t, b)
		}
		time.Sleep(2 * calmAfter)
		synctest.Wait()
		if s := logged.String(); strings.Count(s, "buffer is full") != 1 || strings.Count(s, "room again") != 1 {
			t.Errorf("at the end the log says\n%s", s)
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}
