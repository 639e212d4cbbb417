package forward

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIDSet compares a set with a map. Small numbers make probes meet and wrap around.
func TestIDSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, want := &idSet{}, map[chunkID]bool{}
		draw := rapid.Custom(func(t *rapid.T) chunkID {
			home := rapid.SampledFrom([]uint64{0, 1, minSlots - 2, minSlots - 1, 2*minSlots - 1, 1<<63 - 1}).Draw(t, "home")
			return chunkID{home, 1 | rapid.Uint64Range(0, 400).Draw(t, "rest")}
		})
		for range rapid.IntRange(0, 600).Draw(t, "steps") {
			id := draw.Draw(t, "id")
			switch rapid.IntRange(0, 100).Draw(t, "what") {
			case 0:
				s.reset()
				clear(want)
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
				if s.has(id) != want[id] {
					t.Fatalf("has(%x) = %v", id, s.has(id))
				}
			default:
				s.add(id)
				want[id] = true
			}
			if s.n != len(want) {
				t.Fatalf("n = %d, want %d", s.n, len(want))
			}
		}
		for id := range want {
			if !s.has(id) {
				t.Fatalf("%x is missing", id)
			}
		}
	})
}

// TestRecentRemembers checks the promise of recentLimit: that many ids are remembered, and
// not more than twice as many.
func TestRecentRemembers(t *testing.T) {
	r := NewRecent()
	id := func(i int) chunkID { return chunkID{uint64(i) * 0x9e3779b97f4a7c15, uint64(i)<<1 | 1} }
	const n = 5*recentLimit + 7
	for i := range n {
		if v := r.begin(id(i)); v != fresh {
			t.Fatalf("chunk %d: verdict %d", i, v)
		}
		r.settle([]chunkID{id(i)}, true)
	}
	for i := n - recentLimit; i < n; i++ {
		if v := r.begin(id(i)); v != acked {
			t.Fatalf("chunk %d of %d is forgotten: verdict %d", i, n, v)
		}
	}
	if v := r.begin(id(n - 2*recentLimit - 1)); v != fresh {
		t.Fatalf("chunk %d of %d is still remembered: verdict %d", n-2*recentLimit-1, n, v)
	}
	if got := len(r.cur.slots) + len(r.old.slots); got > 4*recentLimit {
		t.Fatalf("%d slots", got)
	}
}

func BenchmarkRecent(b *testing.B) {
	r := NewRecent()
	x := uint64(1)
	ids := make([]chunkID, 1)
	b.ReportAllocs()
	for b.Loop() {
		x = x*6364136223846793005 + 1442695040888963407
		ids[0] = chunkID{x ^ x>>29, x | 1}
		if r.begin(ids[0]) == fresh {
			r.settle(ids, true)
		}
	}
}
