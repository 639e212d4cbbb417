package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/input"
	"weir/internal/ledger"
)

// TestStoresThatStandIn has copies whose first stores are full: who gets the events.
func TestStoresThatStandIn(t *testing.T) {
	const full, room = true, false
	for _, c := range []struct {
		name  string
		full  [3]bool
		ends  [3]End
		taken string // events in each store, or "refused"
	}{
		{"the first takes", [3]bool{room, room, room}, [3]End{{Optional: true}, {Fallback: true}, {}}, "[1 0 1]"},
		{"the second stands in", [3]bool{full, room, room}, [3]End{{Optional: true}, {Fallback: true}, {}}, "[0 1 1]"},
		{"nobody can", [3]bool{full, full, room}, [3]End{{Optional: true}, {Fallback: true}, {}}, "refused"},
		{"nobody must", [3]bool{full, full, room}, [3]End{{Optional: true}, {Fallback: true, Optional: true}, {}}, "[0 0 1]"},
		{"one that must not refuse", [3]bool{full, room, room}, [3]End{{}, {Fallback: true}, {}}, "refused"},
		{"the third stands in", [3]bool{full, full, room}, [3]End{{Optional: true}, {Fallback: true, Optional: true}, {Fallback: true}}, "[0 0 1]"},
		{"the second is enough", [3]bool{full, room, room}, [3]End{{Optional: true}, {Fallback: true, Optional: true}, {Fallback: true}}, "[0 1 0]"},
		{"a store passed over is no success", [3]bool{room, room, room}, [3]End{{Optional: true}, {Fallback: true, Optional: true}, {Fallback: true}}, "[1 0 1]"},
	} {
		var stores [3]*store
		var before [3]uint64
		n := &Node{}
		for i, e := range c.ends {
			stores[i] = newStore(t, fmt.Sprint("zyx"[i:i+1]), 1<<20, buffer.Throw) // the order of names is not that of the file
			if c.full[i] {
				stores[i] = newStore(t, fmt.Sprint("zyx"[i:i+1]), 4<<10, buffer.Throw)
				for stores[i].fill() {
				}
			}
			before[i] = stores[i].Buffer.Stats().PendingEvents
			e.Next = &Node{Ends: []End{end(stores[i])}}
			n.Ends = append(n.Ends, e)
		}
		in := ingress(n)
		got := "refused"
		r, err := in.Emit(context.Background(), entries(1, 1))
		switch {
		case err == nil:
			if err := r.Wait(context.Background()); err != nil {
				t.Error(err)
			}
			got = fmt.Sprint([]uint64{stores[0].Buffer.Stats().PendingEvents - before[0], stores[1].Buffer.Stats().PendingEvents - before[1], stores[2].Buffer.Stats().PendingEvents - before[2]})
		case !errors.Is(err, input.ErrRefused):
			t.Errorf("%s: %v", c.name, err)
		}
		if got != c.taken {
			t.Errorf("%s: %s, want %s", c.name, got, c.taken)
		}
		for i, s := range stores {
			if st := s.Buffer.Stats(); st.Balance != 0 {
				t.Errorf("%s: the books of store %d are off by %d", c.name, i, st.Balance)
			}
			if got == "refused" && s.Book.Sheet().Admitted != before[i] {
				t.Errorf("%s: store %d has taken something", c.name, i)
			}
			// What was reserved was given back, or a store would stay full.
			if !c.full[i] && !s.fill() {
				t.Errorf("%s: store %d is full", c.name, i)
			}
		}
	}
}

// TestNothingStaysReservedForStores has a store stand in many times: what was reserved
// before it was asked is given back.
func TestNothingStaysReservedForStores(t *testing.T) {
	const limit = 32 << 10
	room := 0
	for s := newStore(t, "c", limit, buffer.Throw); s.fill(); {
		room++
		s.stored(t) // a frame for each batch, here and below: how many share one is a matter of luck
	}
	first, second, third := newStore(t, "a", 4<<10, buffer.Throw), newStore(t, "b", limit, buffer.Throw), newStore(t, "c", limit, buffer.Throw)
	for first.fill() {
	}
	in := ingress(&Node{Ends: []End{{Target: first.Target, Optional: true}, {Target: second.Target, Fallback: true}, end(third)}})
	for i := range room * 3 / 4 {
		if _, err := in.Emit(context.Background(), entries(1, 1)); err != nil {
			t.Fatalf("batch %d of %d: %v", i, room, err)
		}
		second.stored(t)
		third.stored(t)
	}
}

// TestStoresInStores has a copy with a store that stands in, within a store of another one:
// an error that is ignored inside is none outside.
func TestStoresInStores(t *testing.T) {
	for _, inner := range []bool{true, false} {
		full, other, last := newStore(t, "a", 4<<10, buffer.Throw), newStore(t, "b", 1<<20, buffer.Throw), newStore(t, "c", 1<<20, buffer.Throw)
		for full.fill() {
		}
		in := ingress(&Node{Ends: []End{
			{Optional: true, Next: &Node{Ends: []End{{Target: full.Target, Optional: inner}, {Target: other.Target, Fallback: true}}}},
			{Target: last.Target, Fallback: true},
		}})
		if _, err := in.Emit(context.Background(), entries(1, 1)); err != nil {
			t.Fatal(err)
		}
		if got := last.Book.Sheet().Admitted; (got == 0) != inner {
			t.Errorf("ignored inside %v: the outer store that stands in got %d", inner, got)
		}
	}
}

// stored waits until all that was appended is stored.
func (s *store) stored(t *testing.T) {
	t.Helper()
	if err := s.Buffer.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// fill appends a little. False: there is no room.
func (s *store) fill() bool {
	_, err := s.Buffer.Append(context.Background(), entries(1, 1))
	return err == nil
}

// TestFiltersOfAStoreThatStandsIn says that a store that is not asked does not filter.
func TestFiltersOfAStoreThatStandsIn(t *testing.T) {
	calls := 0
	one, two := newStore(t, "one", 1<<20, buffer.Throw), newStore(t, "two", 1<<20, buffer.Throw)
	in := ingress(&Node{Ends: []End{
		{Target: one.Target, Optional: true},
		{Fallback: true, Next: &Node{Filters: []filter.Filter{rule{drop: 2, calls: &calls}}, Ends: []End{end(two)}}},
	}})
	if _, err := in.Emit(context.Background(), entries(0, 10)); err != nil {
		t.Fatal(err)
	}
	if calls != 0 || two.Book.Sheet().Admitted != 0 || one.Book.Sheet().Admitted != 10 {
		t.Errorf("%d calls, books %+v", calls, two.Book.Sheet())
	}
	in.Lost(event.Batch{Tag: "app", Entries: entries(0, 3).Entries, Count: 3})
	if calls != 0 || one.Book.Sheet().Dropped[ledger.BufferFull] != 3 || two.Book.Sheet().Admitted != 0 {
		t.Errorf("%d calls, books %+v", calls, two.Book.Sheet())
	}
}
