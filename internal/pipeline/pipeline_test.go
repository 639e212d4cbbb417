package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entries makes count entries with the records {"n": first}, {"n": first+1}, … below 128.
func entries(first, count int) event.Batch {
	b := event.Batch{Tag: "app", Count: count, First: event.Time(first) * 1e9, Last: event.Time(first+count-1) * 1e9}
	for i := range count {
		b.Entries = event.AppendEntry(b.Entries, event.Time(first+i)*1e9, []byte{0x81, 0xa1, 'n', byte(first + i)})
	}
	return b
}

func numbers(t *testing.T, b []byte) (out []int) {
	t.Helper()
	for len(b) > 0 {
		e, n, err := event.Next(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, int(e.Record[3]))
		b = b[n:]
	}
	return out
}

// rule is a filter: it drops events whose number is divisible by drop, fails those
// divisible by fail, and adds add to the others. All zero: unchanged.
type rule struct {
	drop, fail, add int
	calls           *int
}

func (f rule) Apply(_ *filter.Scratch, _ string, src, dst []byte) (out []byte, kept, failed int) {
	if f.calls != nil {
		*f.calls++
	}
	changed := f.drop != 0 || f.fail != 0 || f.add != 0
	for b := src; len(b) > 0; {
		e, n, err := event.Next(b)
		if err != nil {
			panic(err)
		}
		b = b[n:]
		num := int(e.Record[3])
		switch {
		case f.drop > 0 && num%f.drop == 0:
		case f.fail > 0 && num%f.fail == 0:
			failed++
		default:
			kept++
			dst = event.AppendEntry(dst, e.Time, []byte{0x81, 0xa1, 'n', byte(num + f.add)})
		}
	}
	if !changed {
		return src, kept, 0
	}
	return dst, kept, failed
}

// store is a target with a memory buffer.
type store struct {
	*Target
	t *testing.T
}

func newStore(t *testing.T, id string, limit int64, overflow buffer.Overflow) *store {
	t.Helper()
	s := &store{&Target{ID: id, Book: &ledger.Book{}, In: &Counter{}}, t}
	var err error
	s.Buffer, err = buffer.Open(buffer.Options{FS: vfs.NewMem(0), Dir: "b", Book: s.Book, Log: quiet(), Limit: limit, Overflow: overflow, Durability: buffer.OS})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Buffer.Close(context.Background()) })
	return s
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// content reads everything that the store has taken.
func (s *store) content() (all []int) {
	s.t.Helper()
	ctx := context.Background()
	if err := s.Buffer.Seal(ctx); err != nil {
		s.t.Fatal(err)
	}
	for {
		run, err := s.Buffer.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for _, it := range run.Items() {
			all = append(all, numbers(s.t, it.Batch.Entries)...)
			if _, first, last, _, err := event.Check(it.Batch.Entries); err != nil || first != it.Batch.First || last != it.Batch.Last {
				s.t.Errorf("batch says %d to %d, entries say %d to %d (%v)", it.Batch.First, it.Batch.Last, first, last, err)
			}
		}
		run.Release()
	}
}

func ingress(n *Node) *Ingress {
	return New(Options{Routes: NewRoutes(func(string) *Node { return n }), Log: quiet()})
}

func end(s *store) End { return End{Target: s.Target} }

func TestCopyTakesAllOrNone(t *testing.T) {
	one, two := newStore(t, "one", 1<<20, buffer.Throw), newStore(t, "two", 8<<10, buffer.Throw)
	in := ingress(&Node{Ends: []End{end(one), end(two)}})
	taken := 0
	for i := range 2000 {
		r, err := in.Emit(context.Background(), entries(i%100, 10))
		if err == nil {
			if err := r.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			taken += 10
			continue
		}
		if !errors.Is(err, input.ErrRefused) || !strings.Contains(err.Error(), "two") {
			t.Fatalf("error %v", err)
		}
	}
	if taken == 0 || taken == 20_000 {
		t.Fatalf("%d events were taken: nothing was tested", taken)
	}
	if a, b := one.Book.Sheet().Admitted, two.Book.Sheet().Admitted; a != uint64(taken) || b != uint64(taken) {
		t.Errorf("the stores have %d and %d, acknowledged are %d", a, b, taken)
	}
	// What was reserved in the first store was given back.
	if got := len(one.content()); got != taken {
		t.Errorf("%d events in the first store", got)
	}
	if st := one.Buffer.Stats(); st.Balance != 0 || st.PendingEvents != uint64(taken) {
		t.Errorf("%+v", st)
	}
}

func TestStoreWithIgnoreErrorIsLeftOut(t *testing.T) {
	one, two := newStore(t, "b", 1<<20, buffer.Throw), newStore(t, "a", 8<<10, buffer.Throw)
	in := ingress(&Node{Ends: []End{end(one), {Target: two.Target, Optional: true}}})
	for i := range 2000 {
		if _, err := in.Emit(context.Background(), entries(i%100, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if s := one.Book.Sheet(); s.Admitted != 20_000 || s.Ended() != 0 {
		t.Errorf("first store: %+v", s)
	}
	s := two.Book.Sheet()
	if s.Admitted != 20_000 || s.Dropped[ledger.BufferFull] == 0 {
		t.Errorf("optional store: %+v", s)
	}
	if st := two.Buffer.Stats(); st.Balance != 0 {
		t.Errorf("books are off by %d", st.Balance)
	}
}

func TestFiltersOnTheWay(t *testing.T) {
	// All go through A; then one store gets them as they are, another through B, and a
	// third through two filters of which the first removes everything odd.
	shared := 0
	plain, plus, none := newStore(t, "plain", 1<<20, buffer.Throw), newStore(t, "plus", 1<<20, buffer.Throw), newStore(t, "none", 1<<20, buffer.Throw)
	null := &Target{ID: "null", Book: &ledger.Book{}, In: &Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
	n := &Node{
		Filters: []filter.Filter{rule{drop: 5, calls: &shared}, rule{}, rule{fail: 7}},
		Ends: []End{
			end(plain),
			{Next: &Node{Filters: []filter.Filter{rule{add: 20}, rule{add: 20}, rule{add: 20}}, Ends: []End{end(plus)}}},
			{Next: &Node{Filters: []filter.Filter{rule{drop: 1}, rule{add: 1}}, Ends: []End{end(none)}}},
			{Target: null},
		},
	}
	in := ingress(n)
	r, err := in.Emit(context.Background(), entries(1, 30))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if shared != 1 {
		t.Errorf("filters before the copy ran %d times", shared)
	}
	want, added := []int{}, []int{}
	for i := 1; i <= 30; i++ {
		if i%5 != 0 && i%7 != 0 {
			want = append(want, i)
			added = append(added, i+60)
		}
	}
	if got := plain.content(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("plain: %v", got)
	}
	if got := plus.content(); fmt.Sprint(got) != fmt.Sprint(added) {
		t.Errorf("plus: %v", got)
	}
	if got := none.content(); len(got) > 0 {
		t.Errorf("none: %v", got)
	}
	const filtered, failed = 6, 4 // 5, 10 … 30; 7, 14, 21, 28
	for _, c := range []struct {
		s       *Target
		more    uint64 // filtered besides
		pending int64
	}{{plain.Target, 0, 20}, {plus.Target, 0, 20}, {none.Target, 20, 0}, {null, 20, 0}} {
		s := c.s.Book.Sheet()
		if s.Admitted != 30 || s.Filtered != filtered+c.more || s.Dropped[ledger.FilterFailed] != failed || s.Pending() != c.pending {
			t.Errorf("%s: %+v", c.s.ID, s)
		}
	}
}

// twice makes two events of one whose number is even.
type twice struct{}

func (twice) Apply(s *filter.Scratch, _ string, src, dst []byte) (out []byte, kept, failed int) {
	for b := src; len(b) > 0; {
		e, n, err := event.Next(b)
		if err != nil {
			panic(err)
		}
		if dst, kept = append(dst, b[:n]...), kept+1; e.Record[3]%2 == 0 {
			dst, kept, s.Made = append(dst, b[:n]...), kept+1, s.Made+1
		}
		b = b[n:]
	}
	return dst, kept, 0
}

// A filter that makes several events of one does not hide what another takes out.
func TestEventsMadeOnTheWay(t *testing.T) {
	s := newStore(t, "s", 1<<20, buffer.Throw)
	in := ingress(&Node{Filters: []filter.Filter{rule{drop: 5}, twice{}, rule{fail: 7}}, Ends: []End{end(s)}})
	for range 2 {
		if _, err := in.Emit(context.Background(), entries(1, 30)); err != nil {
			t.Fatal(err)
		}
	}
	// 30 come in; 6 are filtered; 12 of the others become two; 7, 14, 14, 21, 28, 28 fail.
	if b := s.Book.Sheet(); b.Admitted != 84 || b.Filtered != 12 || b.Dropped[ledger.FilterFailed] != 12 || b.Pending() != 60 {
		t.Errorf("%+v", b)
	}
}

func TestAllFilteredIsTakenAndWaitsForNothing(t *testing.T) {
	s := newStore(t, "s", 1<<20, buffer.Throw)
	in := ingress(&Node{Filters: []filter.Filter{rule{drop: 1}}, Ends: []End{end(s)}})
	r, err := in.Emit(context.Background(), entries(1, 10))
	if err != nil || r.Wait(context.Background()) != nil {
		t.Fatal(err)
	}
	if b := s.Book.Sheet(); b.Admitted != 10 || b.Filtered != 10 {
		t.Errorf("%+v", b)
	}
}

func TestUnmatchedIsBookedAndSaidNowAndThen(t *testing.T) {
	var log bytes.Buffer
	book, count := &ledger.Book{}, &Counter{}
	in := New(Options{Routes: NewRoutes(func(string) *Node { return nil }), Log: slog.New(slog.NewTextHandler(&log, nil)), Unmatched: book, In: count})
	for range 1000 {
		if r, err := in.Emit(context.Background(), entries(1, 3)); err != nil || r.Wait(context.Background()) != nil {
			t.Fatal(err)
		}
	}
	if s := book.Sheet(); s.Dropped[ledger.Unmatched] != 3000 || s.Pending() != 0 {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log.String(), "\n"); n != 10 {
		t.Errorf("%d log lines for 1000 batches", n)
	}
	if count.Events.Load() != 3000 {
		t.Errorf("the source counts %d events", count.Events.Load())
	}
}

func TestLostIsBookedLikeWhatWasEmitted(t *testing.T) {
	s := newStore(t, "s", 1<<20, buffer.Throw)
	null := &Target{ID: "null", Book: &ledger.Book{}, In: &Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
	in := ingress(&Node{Filters: []filter.Filter{rule{drop: 2, fail: 5}}, Ends: []End{end(s), {Target: null}}})
	in.Lost(entries(1, 10))
	b := s.Book.Sheet()
	if b.Admitted != 10 || b.Filtered != 5 || b.Dropped[ledger.FilterFailed] != 1 || b.Dropped[ledger.BufferFull] != 4 {
		t.Errorf("store: %+v", b)
	}
	if b := null.Book.Sheet(); b.Admitted != 10 || b.Filtered != 9 || b.Pending() != 0 {
		t.Errorf("null: %+v", b)
	}
}

func TestCacheIsBoundedAndKeepsItsOwnTags(t *testing.T) {
	asked := map[string]int{}
	s := newStore(t, "s", 64<<20, buffer.Throw)
	n := &Node{Ends: []End{end(s)}}
	in := New(Options{Routes: NewRoutes(func(tag string) *Node { asked[strings.Clone(tag)]++; return n }), Log: quiet()})
	b := entries(1, 1)
	for i := range 3 * tagsKnown {
		b.Tag = fmt.Sprint("tag", i)
		for range 2 {
			if _, err := in.Emit(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		if len(in.o.Routes.known) > tagsKnown {
			t.Fatalf("%d routes in the cache", len(in.o.Routes.known))
		}
	}
	for tag, times := range asked {
		if times != 1 {
			t.Fatalf("tag %s was resolved %d times", tag, times)
		}
	}
}

func TestTwoRoutesOfACopyMeetInOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "s", 64<<20, buffer.Throw)
		in := ingress(&Node{Ends: []End{end(s), {Next: &Node{Filters: []filter.Filter{rule{add: 50}}, Ends: []End{end(s)}}}}})
		big := entries(1, 1)
		one := big.Entries
		for range 300_000 { // more than a buffer lets wait before they are committed
			big.Entries = append(big.Entries, one...)
			big.Count++
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := in.Emit(ctx, big)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if b := s.Book.Sheet(); b.Admitted != 2*uint64(big.Count) {
			t.Errorf("%+v", b)
		}
		_ = s.Buffer.Close(context.Background())
	})
}

func TestCopiesInDifferentOrderDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newStore(t, "a", 64<<20, buffer.Block), newStore(t, "b", 64<<20, buffer.Block)
		ab, ba := ingress(&Node{Ends: []End{end(a), end(b)}}), ingress(&Node{Ends: []End{end(b), end(a)}})
		big := entries(1, 1)
		one := big.Entries
		for range 200_000 {
			big.Entries = append(big.Entries, one...)
			big.Count++
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 4 {
			for _, in := range []*Ingress{ab, ba} {
				wg.Go(func() {
					if _, err := in.Emit(ctx, big); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		_ = a.Buffer.Close(context.Background())
		_ = b.Buffer.Close(context.Background())
	})
}

func TestEmitIsSafeForConcurrentUse(t *testing.T) {
	s := newStore(t, "s", 64<<20, buffer.Throw)
	null := &Target{ID: "null", Book: &ledger.Book{}, In: &Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
	in := ingress(&Node{Filters: []filter.Filter{rule{drop: 3}, rule{add: 1}}, Ends: []End{end(s), {Target: null}}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				b := entries(1+i%50, 9)
				b.Tag = fmt.Sprint("t", g, i%3)
				if _, err := in.Emit(context.Background(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.content()); n != 8*500*6 {
		t.Errorf("%d events, want %d", n, 8*500*6)
	}
}

func TestEmitDoesNotAllocate(t *testing.T) {
	null := &Target{ID: "null", Book: &ledger.Book{}, In: &Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
	for name, n := range map[string]*Node{
		"plain":   {Ends: []End{{Target: null}}},
		"filters": {Filters: []filter.Filter{rule{drop: 3}, rule{add: 1}}, Ends: []End{{Target: null}}},
		"copy":    {Ends: []End{{Target: null}, {Next: &Node{Filters: []filter.Filter{rule{add: 1}}, Ends: []End{{Target: null}}}}}},
	} {
		in := ingress(n)
		b := entries(1, 50)
		emit := func() {
			if _, err := in.Emit(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		emit()
		least := testing.AllocsPerRun(1, emit)
		for range 200 { // the collector, and the race detector, empty the pool at times
			least = min(least, testing.AllocsPerRun(1, emit))
		}
		if least > 0 {
			t.Errorf("%s: %.0f allocations for each Emit", name, least)
		}
	}
}

func BenchmarkEmit(b *testing.B) {
	null := &Target{ID: "null", Book: &ledger.Book{}, In: &Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
	in := ingress(&Node{Ends: []End{{Target: null}}})
	batch := entries(1, 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = in.Emit(context.Background(), batch)
		}
	})
}
