package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/input"
)

// withBacklog gives a store a second one; both keep what their limits allow.
func withBacklog(t *testing.T, limit, backlog int64, overflow buffer.Overflow) (s, k *store, b *Backlog) {
	t.Helper()
	s, k = newStore(t, "s", limit, overflow), newStore(t, "k", backlog, overflow)
	b = &Backlog{Buffer: k.Buffer}
	b.Open.Store(true)
	s.Backlog.Store(b)
	return s, k, b
}

func TestBacklogTakesWhatItShould(t *testing.T) {
	s, k, b := withBacklog(t, 1<<20, 1<<20, buffer.Throw)
	in := ingress(&Node{Ends: []End{{Target: s.Target}, {Target: s.Target}}})
	emit := func(n int) {
		t.Helper()
		if _, err := in.Emit(context.Background(), entries(n, 1)); err != nil {
			t.Fatal(err)
		}
	}
	emit(1)
	b.Turned.Store(true)
	emit(2)
	b.Open.Store(false) // switched off: Turned has no effect then
	emit(3)
	b.Open.Store(true)
	b.Turned.Store(false)
	emit(4)
	if got := s.content(); !slices.Equal(got, []int{1, 1, 3, 3, 4, 4}) {
		t.Errorf("the first buffer has %v", got)
	}
	if got := k.content(); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("the backlog has %v", got)
	}
}

// TestBacklogTakesWhatDoesNotFit has a first buffer that is soon full: nothing is refused,
// dropped or waited for before the backlog is full too, and then its policy acts.
func TestBacklogTakesWhatDoesNotFit(t *testing.T) {
	for _, policy := range []buffer.Overflow{buffer.Throw, buffer.Block, buffer.DropOldest, buffer.DropNewest} {
		s, k, b := withBacklog(t, 4<<10, 64<<10, policy)
		other := newStore(t, "z", 1<<20, buffer.Throw)
		in := ingress(&Node{Ends: []End{{Target: s.Target}, {Target: other.Target}}})
		n := 0
		for ; !b.Turned.Load(); n++ {
			if _, err := in.Emit(context.Background(), entries(n%100, 1)); err != nil {
				t.Fatalf("policy %d: batch %d: %v", policy, n, err)
			}
		}
		live, back := s.Buffer.Stats(), k.Buffer.Stats()
		if live.PendingEvents == 0 || back.PendingEvents != 1 || live.PendingEvents+1 != uint64(n) {
			t.Errorf("policy %d: of %d events %d are in the first buffer and %d in the backlog", policy, n, live.PendingEvents, back.PendingEvents)
		}
		if sheet := s.Book.Sheet(); sheet.Admitted != live.PendingEvents || live.Balance != 0 || back.Balance != 0 {
			t.Errorf("policy %d: books %+v", policy, sheet)
		}
	}
}

// TestBacklogGivesBack has a target behind that refuses: what was reserved in the backlog is
// given back there.
func TestBacklogGivesBack(t *testing.T) {
	s, k, b := withBacklog(t, 1<<20, 1<<20, buffer.Throw)
	full := newStore(t, "z", 1, buffer.Throw)
	in := ingress(&Node{Ends: []End{{Target: s.Target}, {Target: full.Target}}})
	for _, turned := range []bool{false, true} {
		b.Turned.Store(turned)
		if _, err := in.Emit(context.Background(), entries(1, 1)); !errors.Is(err, input.ErrRefused) {
			t.Fatalf("%v", err)
		}
	}
	for name, st := range map[string]*store{"first buffer": s, "backlog": k} {
		if n := st.Buffer.Stats().Bytes; n != 0 {
			t.Errorf("%d bytes are reserved in the %s", n, name)
		}
	}
}

// TestOneBufferCostsNothing: without a backlog an Emit allocates as much as before.
func TestOneBufferCostsNothing(t *testing.T) {
	s := newStore(t, "s", 1<<30, buffer.Throw)
	bs := []event.Batch{entries(1, 1)}
	ctx := context.Background()
	if n := testing.AllocsPerRun(200, func() {
		buf, err := s.reserve(ctx, bs)
		if err != nil {
			t.Fatal(err)
		}
		buf.Unreserve(bs...)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
