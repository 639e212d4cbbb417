package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer"
	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
	"weir/internal/input"
	"weir/internal/ledger"
)

// holder builds the filter of a section with this content.
func holder(t testing.TB, text string) filter.Holder {
	t.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{Name: "t", ReadFile: func(string) ([]byte, error) { return []byte("<filter **>\n" + text + "\n</filter>\n"), nil }})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	d := &config.Diagnostics{}
	h, _ := filter.NewHolder(root.Sections[0], filter.Env{}, d)
	if h == nil {
		t.Fatal(d.Errors[0])
	}
	return h
}

// lines makes a batch of events {"m": line}, a second apart from second at.
func lines(at int, text ...string) event.Batch {
	b := event.Batch{Tag: "app", Count: len(text), First: event.Unix(int64(at), 0), Last: event.Unix(int64(at+len(text)-1), 0)}
	for i, l := range text {
		rec := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "m"), l)
		b.Entries = event.AppendEntry(b.Entries, event.Unix(int64(at+i), 0), rec)
	}
	return b
}

// texts reads everything that is in a buffer.
func texts(t testing.TB, b *buffer.Buffer) (all []string) {
	t.Helper()
	ctx := context.Background()
	if err := b.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	for {
		run, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range run.Items() {
			for rest := it.Batch.Entries; len(rest) > 0; {
				e, n, err := event.Next(rest)
				if err != nil {
					t.Fatal(err)
				}
				v, _ := event.FindKey(e.Record, "m")
				all = append(all, string(event.AppendText(nil, v)))
				rest = rest[n:]
			}
		}
		run.Release()
	}
}

// held is a hold in front of a store, with the way in.
type held struct {
	*Ingress
	holds *Holds
	hold  *Hold
	door  *Door
}

// holdBefore makes a hold whose events go on to n.
func holdBefore(t testing.TB, o HoldOptions, n *Node) *held {
	t.Helper()
	if o.ID == "" {
		o.ID = "concat"
	}
	o.Log = quiet()
	h := &held{hold: NewHold(o), holds: NewHolds()}
	h.door = &Door{Hold: h.hold, Next: n}
	h.holds.Add(h.hold)
	h.Ingress = ingress(&Node{Ends: []End{{Hold: h.door}}})
	return h
}

const byStart = "@type concat\nkey m\nmultiline_start_regexp /^S/\nflush_interval 60s"

// safe says whether a receipt would let an acknowledgement go now.
func safe(r input.Receipt) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return r.Wait(ctx) == nil
}

func mustEmit(t testing.TB, in input.Emitter, b event.Batch) input.Receipt {
	t.Helper()
	r, err := in.Emit(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWhoHoldsAnEventHoldsItsAck sends the lines of two events in three batches.
// stop ends the holds, which must have nothing left then.
func (h *held) stop(t *testing.T, ctx context.Context) {
	t.Helper()
	h.holds.Stop(ctx)
	h.holds.Each(func(id string, n int64) {
		if n != 0 {
			t.Errorf("filter %s holds %d events after its end", id, n)
		}
	})
}

func TestWhoHoldsAnEventHoldsItsAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 1<<20, buffer.Throw)
		h := holdBefore(t, HoldOptions{Holder: holder(t, byStart)}, &Node{Ends: []End{end(s)}})
		h.holds.Start()
		one := mustEmit(t, h, lines(1, "x", "S1"))
		two := mustEmit(t, h, lines(3, "a", "b"))
		synctest.Wait()
		if safe(one) || safe(two) {
			t.Fatal("what is held is acknowledged")
		}
		three := mustEmit(t, h, lines(5, "S2"))
		synctest.Wait()
		if !safe(one) || !safe(two) || safe(three) {
			t.Fatalf("acknowledged %v %v %v", safe(one), safe(two), safe(three))
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if safe(three) {
			t.Fatal("too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !safe(three) {
			t.Fatal("what is late is not passed on")
		}
		h.stop(t, context.Background())
		if got := fmt.Sprintf("%q", texts(t, s.Buffer)); got != `["x" "S1\na\nb" "S2"]` {
			t.Errorf("stored %s", got)
		}
		if sh := s.Book.Sheet(); sh.Admitted != 5 || sh.Filtered != 2 {
			t.Errorf("books %+v", sh)
		}
	})
}

// TestLateEventsGoWhereTheyShould has a label for them, @ERROR, or neither.
func TestLateEventsGoWhereTheyShould(t *testing.T) {
	for _, c := range []struct{ late, errors, want string }{
		{"label", "yes", `out [] late ["S1\na"] error []`},
		{"", "yes", `out [] late [] error ["S1\na"]`},
		{"", "", `out ["S1\na"] late [] error []`},
		{"nowhere", "", `out [] late [] error []`},
	} {
		synctest.Test(t, func(t *testing.T) {
			out, late, wrong := newStore(t, "out", 1<<20, buffer.Throw), newStore(t, "late", 1<<20, buffer.Throw), newStore(t, "error", 1<<20, buffer.Throw)
			nowhere := lost(&ledger.Book{}, ledger.Unmatched.Fate())
			o := HoldOptions{Holder: holder(t, byStart), LateIsError: true, Nowhere: nowhere}
			if c.errors != "" {
				o.Errors = NewRoutes(func(string) *Node { return &Node{Ends: []End{end(wrong)}} })
			}
			if c.late != "" {
				o.Late = func(tag string) *Node {
					if c.late == "nowhere" || tag != "app" {
						return nil
					}
					return &Node{Ends: []End{end(late)}}
				}
			}
			h := holdBefore(t, o, &Node{Ends: []End{end(out)}})
			h.holds.Start()
			r := mustEmit(t, h, lines(1, "S1", "a"))
			time.Sleep(70 * time.Second)
			synctest.Wait()
			if !safe(r) {
				t.Error("not acknowledged")
			}
			h.stop(t, context.Background())
			sum := uint64(0)
			for _, s := range []*Target{out.Target, late.Target, wrong.Target, nowhere} {
				sh := s.Book.Sheet()
				sum += sh.Dropped[ledger.Unmatched]
			}
			if want := uint64(0); c.late == "nowhere" != (sum != want) {
				t.Errorf("%d events without a match", sum)
			}
			if got := fmt.Sprintf("out %q late %q error %q", texts(t, out.Buffer), texts(t, late.Buffer), texts(t, wrong.Buffer)); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
		})
	}
}

// TestWhatIsRefusedIsKept has a store that is full: the hold keeps what comes out and
// refuses more, and goes on in order when there is room.
func TestWhatIsRefusedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 64<<10, buffer.Throw)
		h := holdBefore(t, HoldOptions{Holder: holder(t, "@type concat\nkey m\nn_lines 2"), Limit: 64 << 10}, &Node{Ends: []End{end(s)}})
		h.holds.Start()
		var receipts []input.Receipt
		var want []string
		refused := false
		for i := 0; i < 400 && !refused; i++ {
			a, b := fmt.Sprintf("%04d", i)+strings.Repeat("a", 500), strings.Repeat("b", 500)
			r, err := h.Emit(context.Background(), lines(1, a, b))
			switch {
			case errors.Is(err, input.ErrRefused):
				refused = true
			case err != nil:
				t.Fatal(err)
			default:
				receipts = append(receipts, r)
				want = append(want, a+"\n"+b)
			}
			synctest.Wait()
		}
		if !refused {
			t.Fatal("nothing was refused")
		}
		if safe(receipts[len(receipts)-1]) {
			t.Error("what is refused is acknowledged")
		}
		// Deliver what is stored, until all has come through.
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan []string)
		go func() {
			var all []string
			defer func() { got <- all }()
			for {
				run, err := s.Buffer.Next(ctx)
				if err != nil {
					return
				}
				for _, it := range run.Items() {
					e, _, _ := event.Next(it.Batch.Entries)
					v, _ := event.FindKey(e.Record, "m")
					all = append(all, string(event.AppendText(nil, v)))
					s.Buffer.Settle([]buffer.Part{{Seq: it.Seq, Span: buffer.Span{Count: uint32(it.Batch.Count)}, Fate: ledger.Fate{Class: ledger.Delivered}}})
				}
				run.Release()
			}
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if all := <-got; !slices.Equal(all, want) {
			t.Errorf("%d events came through, want %d", len(all), len(want))
		}
		for i, r := range receipts {
			if !safe(r) {
				t.Errorf("batch %d is not acknowledged", i)
			}
		}
		mustEmit(t, h, lines(1, "c", "d"))
		h.stop(t, context.Background())
		if st := s.Buffer.Stats(); st.Balance != 0 {
			t.Errorf("books are off by %d", st.Balance)
		}
	})
}

// TestStopBooksWhatCannotBePassedOn ends a hold whose store stays full.
func TestStopBooksWhatCannotBePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 16<<10, buffer.Block)
		h := holdBefore(t, HoldOptions{Holder: holder(t, "@type concat\nkey m\nn_lines 2")}, &Node{Ends: []End{end(s)}})
		h.holds.Start()
		var receipts []input.Receipt
		for range 20 {
			receipts = append(receipts, mustEmit(t, h, lines(1, strings.Repeat("a", 1000), "b")))
		}
		receipts = append(receipts, mustEmit(t, h, lines(1, "half")))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		h.stop(t, ctx)
		acked := 0
		for _, r := range receipts {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			if r.Wait(ctx) == nil {
				acked++
			} else if ctx.Err() != nil {
				t.Error("a receipt never ends")
			}
			cancel()
		}
		sh := s.Book.Sheet()
		if sh.Admitted != 41 || sh.Dropped[ledger.Shutdown] == 0 || sh.Filtered != 20 || s.Buffer.Stats().Balance != 0 {
			t.Errorf("books %+v", sh)
		}
		if stored := len(texts(t, s.Buffer)); stored != acked || acked == 0 || acked == len(receipts) {
			t.Errorf("%d stored, %d acknowledged", stored, acked)
		}
		if _, err := h.Emit(context.Background(), lines(1, "after")); !errors.Is(err, input.ErrRefused) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestAHoldIsPartOfAllOrNone has a full store beside a hold: neither gets anything.
func TestAHoldIsPartOfAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, full := newStore(t, "out", 1<<20, buffer.Throw), newStore(t, "full", 8<<10, buffer.Throw)
		h := holdBefore(t, HoldOptions{Holder: holder(t, byStart)}, &Node{Ends: []End{end(s)}})
		h.Ingress = ingress(&Node{Ends: []End{{Hold: h.door}, end(full), {Hold: h.door}}})
		h.holds.Start()
		taken := 0
		for i := range 100 {
			if _, err := h.Emit(context.Background(), lines(i, "S", strings.Repeat("x", 500))); err == nil {
				taken++
			}
		}
		if taken == 0 || taken == 100 {
			t.Fatalf("%d batches were taken", taken)
		}
		h.Lost(lines(1, "S", "lost"))
		h.stop(t, context.Background())
		for _, sh := range h.hold.shards {
			if sh.queued != 0 {
				t.Errorf("%d bytes stay reserved", sh.queued)
			}
		}
		if got := s.Book.Sheet(); got.Admitted != uint64(4*taken+4) || got.Dropped[ledger.BufferFull] != 4 {
			t.Errorf("%d batches were taken, books %+v", taken, got)
		}
		if got := full.Book.Sheet(); got.Admitted != uint64(2*taken+2) {
			t.Errorf("%d batches were taken, books %+v", taken, got)
		}
	})
}

// TestHoldsInARow puts one hold behind another.
func TestHoldsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 1<<20, buffer.Throw)
		second := NewHold(HoldOptions{ID: "second", Log: quiet(), Holder: holder(t, "@type concat\nkey m\nn_lines 2\nseparator +\nflush_interval 5s")})
		h := holdBefore(t, HoldOptions{Holder: holder(t, "@type concat\nkey m\nn_lines 2\nseparator -\nflush_interval 5s")},
			&Node{Filters: []filter.Filter{rule2{}}, Ends: []End{{Hold: &Door{Hold: second, Next: &Node{Ends: []End{end(s)}}}}}})
		h.holds.Add(second)
		h.holds.Start()
		r := mustEmit(t, h, lines(1, "a", "b", "c"))
		synctest.Wait()
		if safe(r) {
			t.Fatal("acknowledged")
		}
		q := mustEmit(t, h, lines(4, "d", "e"))
		synctest.Wait()
		if !safe(r) || safe(q) {
			t.Fatal(safe(r), safe(q))
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if !safe(q) {
			t.Fatal("not acknowledged")
		}
		h.stop(t, context.Background())
		if got := fmt.Sprintf("%q", texts(t, s.Buffer)); got != `["a-b+c-d" "e"]` {
			t.Errorf("stored %s", got)
		}
	})
}

// rule2 is a filter that changes nothing.
type rule2 struct{}

func (rule2) Apply(_ *filter.Scratch, _ string, src, _ []byte) ([]byte, int, int) {
	n, _, _, _, _ := event.Check(src)
	return src, n, 0
}

// TestFlushAndHurry passes on before the time.
func TestFlushAndHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 1<<20, buffer.Throw)
		h := holdBefore(t, HoldOptions{Holder: holder(t, byStart)}, &Node{Ends: []End{end(s)}})
		early := mustEmit(t, h, lines(1, "S0"))
		if h.holds.Flush(); safe(early) {
			t.Error("it works before it is started")
		}
		h.holds.Start()
		synctest.Wait()
		h.holds.Flush()
		synctest.Wait()
		if !safe(early) {
			t.Error("Flush leaves something")
		}
		h.holds.Hurry()
		r := mustEmit(t, h, lines(2, "S1"))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if !safe(r) {
			t.Error("Hurry leaves something")
		}
		h.stop(t, context.Background())
	})
}

// TestLateEventsPassTheirHold has a label for late events that leads back to the hold.
func TestLateEventsPassTheirHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 1<<20, buffer.Throw)
		var h *held
		o := HoldOptions{Holder: holder(t, byStart), Late: func(string) *Node { return &Node{Ends: []End{{Hold: h.door}}} }}
		h = holdBefore(t, o, &Node{Ends: []End{end(s)}})
		h.holds.Start()
		r := mustEmit(t, h, lines(1, "S1", "a"))
		time.Sleep(62 * time.Second)
		synctest.Wait()
		if !safe(r) {
			t.Error("it goes round")
		}
		h.stop(t, context.Background())
		if got := fmt.Sprintf("%q", texts(t, s.Buffer)); got != `["S1\na"]` {
			t.Errorf("stored %s", got)
		}
	})
}

// TestFullHoldPassesGroupsOn keeps more streams than fit.
func TestFullHoldPassesGroupsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, "out", 64<<20, buffer.Throw)
		h := holdBefore(t, HoldOptions{Holder: holder(t, byStart), Limit: 1 << 20}, &Node{Ends: []End{end(s)}})
		h.holds.Start()
		for i := range 2000 {
			b := lines(1, "S"+strings.Repeat("x", 2000))
			b.Tag = fmt.Sprint("t", i)
			mustEmit(t, h, b)
			synctest.Wait()
		}
		total := 0
		for _, sh := range h.hold.shards {
			total += sh.keep.bytes
		}
		if total > 1<<20 {
			t.Errorf("%d bytes are kept", total)
		}
		h.stop(t, context.Background())
		if n := len(texts(t, s.Buffer)); n != 2000 {
			t.Errorf("%d events", n)
		}
	})
}

// TestWhoGivesUpWaitsNoLonger: senders that wait for room in a hold and go away leave nothing.
func TestWhoGivesUpWaitsNoLonger(t *testing.T) {
	s := NewHold(HoldOptions{ID: "h", Log: quiet()}).shards[0]
	if err := s.reserve(context.Background(), int(s.limit)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 3 {
		if err := s.reserve(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if len(s.room) != 0 {
		t.Errorf("%d wait", len(s.room))
	}
}
