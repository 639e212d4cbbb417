package buffer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/event"
)

func TestLiveGivesEveryEntryThatHasNotEndedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "entries")
		it := Item{Batch: event.Batch{Tag: "a", Count: n}}
		var offs []int
		for i := range n {
			offs = append(offs, len(it.Batch.Entries))
			it.Batch.Entries = event.AppendEntry(it.Batch.Entries, event.Time(i)*1e9, []byte{0x80})
		}
		offs = append(offs, len(it.Batch.Entries))
		var want []uint32
		for i := uint32(0); i < uint32(n); {
			run := min(rapid.Uint32Range(1, 6).Draw(t, "run"), uint32(n)-i)
			if rapid.Bool().Draw(t, "ended") {
				it.Ended = append(it.Ended, Span{First: i, Count: run})
			} else {
				for j := range run {
					want = append(want, i+j)
				}
			}
			i += run
		}
		var got []uint32
		it.Live(func(b event.Batch, off int, first uint32) {
			if off != offs[first] || len(b.Entries) != offs[first+uint32(b.Count)]-off {
				t.Fatalf("stretch from entry %d lies at %d+%d", first, off, len(b.Entries))
			}
			if b.First != event.Time(first)*1e9 && len(it.Ended) > 0 || len(it.Ended) > 0 && b.Last != event.Time(first+uint32(b.Count)-1)*1e9 {
				t.Fatalf("stretch from entry %d has times %d to %d", first, b.First, b.Last)
			}
			for i := range b.Count {
				got = append(got, first+uint32(i))
			}
		})
		if !slices.Equal(got, want) {
			t.Fatalf("got entries %v, want %v", got, want)
		}
	})
}
