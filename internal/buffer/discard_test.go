package buffer

import (
	"context"
	"testing"

	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// TestDiscard: closing a buffer of which nothing is needed costs no sync, and who finds its files
// because the process was killed before they were removed delivers nothing again.
func TestDiscard(t *testing.T) {
	ctx := context.Background()
	fs := vfstest.New()
	o := testOptions(t, fs, "/b")
	o.Lean, o.Durability, o.SyncEvery = true, Interval, 1<<62
	b := mustOpen(t, o)
	seq, err := b.Append(ctx, batchOf("tag", 1, 5, 20))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.WaitStored(ctx, uint64(seq)); err != nil {
		t.Fatal(err)
	}
	k, err := b.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	k.Release()
	if err := b.Settle([]Part{{Seq: seq, Span: Span{0, 5}, Fate: ledger.Fate{Class: ledger.Delivered}}}); err != nil {
		t.Fatal(err)
	}
	before := fs.Syncs()
	if err := b.Discard(ctx); err != nil {
		t.Fatal(err)
	}
	if n := fs.Syncs() - before; n != 0 {
		t.Errorf("%d syncs for nothing", n)
	}
	o.FS, o.Book = fs.Kill(), &ledger.Book{}
	b = mustOpen(t, o)
	if s := b.Stats(); s.PendingEvents != 0 || o.Book.Sheet().Delivered != 5 {
		t.Errorf("%+v, %+v", s, o.Book.Sheet())
	}
	mustBalance(t, b)
	if err := b.Close(ctx); err != nil {
		t.Fatal(err)
	}
}
