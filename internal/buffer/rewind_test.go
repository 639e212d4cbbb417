package buffer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// TestRewindHandsOutWhatHasNotEnded settles entries at random, rewinds, and expects exactly
// the others, in order, and then what was appended behind them.
func TestRewindHandsOutWhatHasNotEnded(t *testing.T) {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(3, 4))
	var book ledger.Book
	b, err := Open(Options{FS: vfs.NewMem(0), Dir: "b", Book: &book, Log: slog.New(slog.DiscardHandler), Limit: 64 << 20, Durability: OS, Recent: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		seq Seq
		n   uint32
	}
	var want []place
	appendBatch := func(entries int) Seq {
		e := event.Batch{Tag: "a", Count: entries, First: 1e9, Last: 1e9}
		for range entries {
			e.Entries = event.AppendEntry(e.Entries, 1e9, []byte{0x81, 0xa1, 'k', 0xa1, 'v'})
		}
		seq, err := b.Append(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		return seq
	}
	for range 200 {
		n := 1 + rnd.IntN(200)
		seq := appendBatch(n)
		for i := range uint32(n) {
			want = append(want, place{seq, i})
		}
	}
	read := func(upTo Seq) (got []place) {
		for {
			k, err := b.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			last := Seq(0)
			for _, it := range k.Items() {
				last = it.Seq
				it.Live(func(live event.Batch, _ int, first uint32) {
					for i := range uint32(live.Count) {
						got = append(got, place{it.Seq, first + i})
					}
				})
			}
			k.Release()
			if last >= upTo {
				return got
			}
		}
	}
	read(150)
	var parts []Part
	want = slices.DeleteFunc(want, func(p place) bool {
		if p.seq > 150 || rnd.IntN(3) == 0 || p.seq == 150 && p.n == 0 {
			return false
		}
		parts = append(parts, Part{Seq: p.seq, Span: Span{p.n, 1}, Fate: ledger.Fate{Class: ledger.Delivered}})
		return true
	})
	rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if err := b.Settle(parts); err != nil {
		t.Fatal(err)
	}
	b.Rewind()
	got := read(200)
	if !slices.Equal(got, want) {
		t.Errorf("after Rewind %d entries came, want %d", len(got), len(want))
	}
	if st := b.Stats(); st.Balance != 0 || st.PendingEvents != uint64(len(want)) {
		t.Errorf("stats %+v, want %d pending", st, len(want))
	}
	_ = b.Close(ctx)
}
