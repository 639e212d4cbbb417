package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

func lossAt(n int, events uint64) Loss {
	return Loss{Events: events, Bytes: 10 * events, First: event.Unix(int64(n), 0), Last: event.Unix(int64(n+1), 0)}
}

func mustMiss(tb testing.TB, b *Buffer, tag string, reason ledger.Reason, l Loss) {
	tb.Helper()
	if err := b.Miss(tag, reason, l); err != nil {
		tb.Fatal(err)
	}
	mustBalance(tb, b)
}

// readAllRuns reads what there is: a Seq for each batch, a Gap for each gap.
func readAllRuns(tb testing.TB, b *Buffer) (got []any) {
	tb.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		k, err := b.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			tb.Fatal(err)
		}
		if k.Gap != nil {
			got = append(got, *k.Gap)
		}
		for _, it := range k.Items() {
			got = append(got, it.Seq)
		}
		k.Release()
	}
}

func mustBe(tb testing.TB, got []any, want ...any) {
	tb.Helper()
	if !reflect.DeepEqual(got, want) {
		tb.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func wireGap(first, last Seq, tags map[string]Loss) Gap {
	g := Gap{First: first, Last: last, Reason: ledger.WireLoss, Tags: tags}
	for _, l := range tags {
		g.Events += l.Events
	}
	return g
}

// TestMissStandsAtItsPlace: a gap comes behind what was appended before and before what follows,
// calls in a row are one gap, and it waits until it is told: through a rewind, a kill
// and a new start.
func TestMissStandsAtItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Tell = true
		b := mustOpen(t, o)
		appendN(t, b, 0, 2, 10)
		mustMiss(t, b, "a", ledger.WireLoss, lossAt(5, 3))
		mustMiss(t, b, "b", ledger.WireLoss, lossAt(7, 4))
		mustMiss(t, b, "a", ledger.WireLoss, lossAt(9, 5))
		appendN(t, b, 2, 2, 10)
		if err := b.WaitStored(context.Background(), 5); err != nil {
			t.Fatal(err)
		}
		gap := wireGap(3, 3, map[string]Loss{"a": {Events: 8, Bytes: 80, First: event.Unix(5, 0), Last: event.Unix(10, 0)}, "b": lossAt(7, 4)})
		all := []any{Seq(1), Seq(2), gap, Seq(4), Seq(5)}
		mustBe(t, readAllRuns(t, b), all...)
		b.Rewind()
		mustBe(t, readAllRuns(t, b), all...)

		fs = fs.Kill() // a second has not passed
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		mustBe(t, readAllRuns(t, b), all...)
		var parts []Part
		for _, seq := range []Seq{1, 2, 4, 5} {
			parts = append(parts, Part{Seq: seq, Span: Span{0, 2}, Fate: delivered})
		}
		if err := b.Settle(parts); err != nil {
			t.Fatal(err)
		}
		if s := b.Stats(); s.Mark != 2 || s.Untold != 1 || s.PendingEvents != 0 {
			t.Fatalf("%+v", s)
		}
		b.Rewind()
		mustBe(t, readAllRuns(t, b), gap)
		mustClose(t, b)
		o.Book = &ledger.Book{}
		b = mustOpen(t, o)
		mustBe(t, readAllRuns(t, b), gap)
		if err := b.Settle(nil, 3); err != nil {
			t.Fatal(err)
		}
		if err := b.Settle(nil, 3); !errors.Is(err, ErrGone) {
			t.Fatal("told twice:", err)
		}
		if s := b.Stats(); s.Mark != 5 || s.Untold != 0 {
			t.Fatalf("%+v", s)
		}
		if got := o.Book.Sheet(); got.Dropped[ledger.WireLoss] != 12 || got.Admitted != 20 || got.Delivered != 8 {
			t.Fatalf("%+v", got)
		}
		fs = fs.Kill()
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		mustBe(t, readAllRuns(t, b))
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestMissAlone: without a batch behind it a gap survives a kill after a second; and only
// one at a time is handed out, whatever comes meanwhile.
func TestMissAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Tell = true
		b := mustOpen(t, o)
		mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 1))
		mustBe(t, readAllRuns(t, b)) // not written down yet
		time.Sleep(1100 * time.Millisecond)
		first := wireGap(1, 1, map[string]Loss{"a": lossAt(0, 1)})
		mustBe(t, readAllRuns(t, b), first)
		for range 1000 { // an hour, and more, of losses while nothing can be delivered
			mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 1))
			time.Sleep(5 * time.Second)
			mustBe(t, readAllRuns(t, b))
		}
		if s := b.Stats(); s.Untold != 2 {
			t.Fatalf("%+v", s)
		}
		if err := b.Settle(nil, 1); err != nil {
			t.Fatal(err)
		}
		second := wireGap(2, 1001, map[string]Loss{"a": {Events: 1000, Bytes: 10000, First: event.Unix(0, 0), Last: event.Unix(1, 0)}})
		mustBe(t, readAllRuns(t, b), second)
		fs = fs.Kill()
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		mustBe(t, readAllRuns(t, b), second)
		if err := b.Settle(nil, 2); err != nil {
			t.Fatal(err)
		}
		mustClose(t, b)
		if err := b.Miss("a", ledger.WireLoss, lossAt(0, 1)); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// TestManyGapsAreBounded: with a batch between any two, there are not more than so many; what
// is beyond joins the last one, and no event is forgotten.
func TestManyGapsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Tell = true
		b := mustOpen(t, o)
		const n = 3 * maxGaps
		for i := range n {
			mustMiss(t, b, "a", ledger.WireLoss, lossAt(i, 2))
			appendN(t, b, i, 1, 0)
		}
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := b.Stats(); s.Untold > maxGaps {
			t.Fatalf("%+v", s)
		}
		for range 2 {
			var events uint64
			batches := 0
			for _, x := range readAllRuns(t, b) {
				if g, ok := x.(Gap); ok {
					events += g.Events
				} else {
					batches++
				}
			}
			if events != 2*n || batches != n {
				t.Fatalf("%d events lost, %d batches", events, batches)
			}
			fs = fs.Kill()
			abort(b)
			o.FS, o.Book = fs, &ledger.Book{}
			b = mustOpen(t, o)
			mustBalance(t, b)
		}
		mustClose(t, b)
	})
}

// TestDropNewestTells: what a full buffer refuses is a gap too, one record a second or with
// the next batch that fits; without Tell it is only booked.
func TestDropNewestTells(t *testing.T) {
	for _, tell := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := testOptions(t, vfstest.New(), "q")
			o.Limit, o.Overflow, o.Tell = 32<<10, DropNewest, tell
			b := mustOpen(t, o)
			n, err := fill(t, b)
			if !errors.Is(err, ErrDropped) {
				t.Fatal(err)
			}
			for i := range 100 {
				if err := b.Reserve(context.Background(), batchOf("a", i, 1, 5000), batchOf("b", i, 2, 5000)); !errors.Is(err, ErrDropped) {
					t.Fatal(err)
				}
			}
			size := func() int64 {
				b.journalMu.Lock()
				defer b.journalMu.Unlock()
				return b.journal.size
			}
			before := size()
			time.Sleep(time.Second)
			synctest.Wait()
			if grown := size() - before; grown > 500 {
				t.Fatalf("the journal grew by %d", grown)
			}
			for b.Stats().PendingEvents > 0 {
				settleNext(t, b)
			}
			got := readAllRuns(t, b)
			if !tell {
				mustBe(t, got)
			} else if g := got[0].(Gap); len(got) != 1 || g.Events != 302 || g.Tags["a"].Events != 100 || g.Tags["b"].Events != 200 || g.Tags["t"].Events != 2 || g.First != Seq(n+1) {
				t.Fatalf("%+v", got)
			}
			mustBalance(t, b)
			mustClose(t, b)
		})
	}
}

// TestOverflowIsOneGap: with Tell, segments given up one after the other are one gap, except where
// another one stands between.
func TestOverflowIsOneGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Limit, o.Overflow, o.Tell, o.Segment = 64<<10, DropOldest, true, 4<<10
		b := mustOpen(t, o)
		appendN(t, b, 0, 100, 100)
		mustMiss(t, b, "t", ledger.WireLoss, lossAt(0, 7))
		appendN(t, b, 100, 1000, 100)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		check := func() (gaps []Seq) {
			var lost, left uint64
			for _, x := range readAllRuns(t, b) {
				if g, ok := x.(Gap); ok {
					gaps = append(gaps, g.First)
					lost += g.Events
				} else {
					left += 2
				}
			}
			if len(gaps) != 3 || lost+left != 2207 {
				t.Fatalf("gaps %v, %d events lost, %d left", gaps, lost, left)
			}
			return gaps
		}
		check()
		mustBalance(t, b)
		fs = fs.Kill()
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		if err := b.Settle(nil, check()...); err != nil {
			t.Fatal(err)
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestGiveUp: the host takes the oldest segment, whatever the policy, until there is none.
func TestGiveUp(t *testing.T) {
	for _, p := range []Overflow{Throw, Block, DropOldest, DropNewest} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			o := testOptions(t, vfstest.New(), "q")
			o.Overflow, o.Segment = p, 8<<10
			b := mustOpen(t, o)
			appendN(t, b, 0, 100, 400)
			if err := b.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			used, freed := b.Stats().Bytes, int64(0)
			for {
				n := b.GiveUp(ledger.DiskFull)
				if n == 0 {
					break
				}
				freed += n
				if s := b.Stats(); s.Bytes != used-freed || s.Balance != 0 {
					t.Fatalf("%+v, freed %d of %d", s, freed, used)
				}
			}
			if got := o.Book.Sheet().Dropped[ledger.DiskFull]; got != 200 || freed != used {
				t.Fatalf("dropped %d, freed %d of %d", got, freed, used)
			}
			mustClose(t, b)
			if b.GiveUp(ledger.DiskFull) != 0 {
				t.Fatal("a closed buffer gave something up")
			}
		})
	}
}

// TestShare: buffers with a limit together act by their own policies at it, and one that waits
// goes on when another gives room back.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, share := vfstest.New(), NewShare(64<<10)
		open := func(dir string, p Overflow) *Buffer {
			o := testOptions(t, fs, dir)
			o.Share, o.Overflow, o.Segment = share, p, 4<<10
			return mustOpen(t, o)
		}
		first, second := open("a", DropNewest), open("b", Block)
		n, err := fill(t, first)
		if !errors.Is(err, ErrDropped) || share.Used() > 64<<10 || share.Used() < 60<<10 {
			t.Fatal(n, err, share.Used())
		}
		done := make(chan error)
		go func() {
			_, err := second.Append(context.Background(), batchOf("t", 0, 2, 3000))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatal("it did not wait", err)
		default:
		}
		for share.Used() > 50<<10 {
			if first.GiveUp(ledger.BufferFull) == 0 {
				t.Fatal("nothing to give up")
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		third := open("c", DropOldest)
		for i := range 200 {
			if _, err := third.Append(context.Background(), batchOf("t", i, 2, 400)); err != nil {
				t.Fatal(i, err)
			}
			if share.Used() > 64<<10 {
				t.Fatal(share.Used())
			}
		}
		mustClose(t, first)
		mustClose(t, second)
		mustClose(t, third)
		if share.Used() != 0 {
			t.Fatal(share.Used())
		}
		share.Hold(70 << 10) // left behind, more than fits
		fourth := open("e", DropNewest)
		if _, err := fourth.Append(context.Background(), batchOf("t", 0, 1, 0)); !errors.Is(err, ErrDropped) {
			t.Fatal(err)
		}
		share.Hold(-70 << 10)
		appendN(t, fourth, 0, 1, 0)
		mustClose(t, fourth)
	})
}

// TestToldBeforeTheMark: a gap that was told while a batch before it still waits is not given
// again after a kill, also when the journal has been begun anew.
func TestToldBeforeTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Tell = true
		b := mustOpen(t, o)
		appendN(t, b, 0, 1, 10)
		mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 2))
		appendN(t, b, 1, 1, 10)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		mustBe(t, readAllRuns(t, b), Seq(1), wireGap(2, 2, map[string]Loss{"a": lossAt(0, 2)}), Seq(3))
		if err := b.Settle(nil, 2); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			fs = fs.Kill()
			abort(b)
			o.FS, o.Book = fs, &ledger.Book{}
			b = mustOpen(t, o)
			mustBe(t, readAllRuns(t, b), Seq(1), Seq(3))
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestGivenUpInParts: a segment with a gap between its frames is given up in two parts. If a
// kill leaves the record of one only, the other part is still there; but the door file
// stands in for the journal.
func TestGivenUpInParts(t *testing.T) {
	for _, door := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { givenUpInParts(t, door) })
	}
}

func givenUpInParts(t *testing.T, door bool) {
	fs := vfstest.New()
	o := testOptions(t, fs, "q")
	o.Tell = true
	b := mustOpen(t, o)
	appendN(t, b, 0, 2, 10)
	mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 2))
	appendN(t, b, 2, 2, 10)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	fs.Inject(vfstest.Fault{Op: vfstest.Write, Name: journalPrefix, After: 1, Times: 1, Err: syscall.EIO})
	if !door {
		fs.Inject(vfstest.Fault{Op: vfstest.Write, Name: doorName, Err: syscall.EIO})
	}
	if b.GiveUp(ledger.BufferFull) == 0 {
		t.Fatal("nothing to give up")
	}
	fs = fs.Kill()
	abort(b)
	o.FS, o.Book = fs, &ledger.Book{}
	b = mustOpen(t, o)
	mustBalance(t, b)
	got := readAllRuns(t, b)
	if door { // the last one waits at the tail until the one before it is told
		if err := b.Settle(nil, 3); err != nil {
			t.Fatal(err)
		}
		got = append(got, readAllRuns(t, b)...)
	}
	switch {
	case door && len(got) == 3 && got[0].(Gap).Last == 2 && got[1].(Gap).First == 3 && got[2].(Gap).First == 4 && got[2].(Gap).Events == 4:
	case !door && len(got) == 4 && got[0].(Gap).Last == 2 && got[1].(Gap).First == 3 && got[2] == Seq(4) && got[3] == Seq(5):
	default:
		t.Fatalf("door %v: %+v", door, got)
	}
	mustBalance(t, b)
	mustClose(t, b)
}
