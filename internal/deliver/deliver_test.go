package deliver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDeliversInOrderFromManyLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.byNumber = 7
		out.answer = func(string, []uint32) output.Result { time.Sleep(30 * time.Millisecond); return output.Result{} }
		r := newRig(t, out, nil)
		for i := range 50 {
			r.append(batch("tag", uint32(i*100), 100))
			time.Sleep(20 * time.Millisecond)
		}
		r.stop(time.Minute)
		for lane := range uint32(7) {
			got := out.got(fmt.Sprint(lane))
			for i, n := range got {
				if n != lane+7*uint32(i) {
					t.Fatalf("lane %d: event %d is number %d", lane, i, n)
				}
			}
		}
		if n := out.count(); n != 5000 {
			t.Errorf("%d events arrived, want 5000", n)
		}
		if out.lanemost != 1 {
			t.Errorf("%d requests of one lane were in flight at once", out.lanemost)
		}
		if out.most < 2 || out.most > 4 {
			t.Errorf("%d requests were in flight at once, want 2 to 4", out.most)
		}
		if s := r.book.Sheet(); s.Delivered != 5000 || s.Admitted != 5000 {
			t.Errorf("book: %+v", s)
		}
	})
}

func TestLingerFillsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit = 1000
		r := newRig(t, out, func(o *Options) { o.Linger.Events = 1000 })
		for i := range 25 { // 100 events each 10 ms: a request is full after 100 ms
			r.append(batch("a", uint32(i*100), 100))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := out.count(); n != 2000 {
			t.Errorf("%d events were sent while the rest lingers, want the 2000 that fill requests", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := out.count(); n != 2500 {
			t.Errorf("%d events were sent after the linger, want all 2500", n)
		}
		if !slices.Equal(out.sizes, []int{1000, 1000, 500}) {
			t.Errorf("request sizes %v", out.sizes)
		}
		r.append(batch("a", 2500, 1))
		synctest.Wait()
		r.d.Flush()
		synctest.Wait()
		if n := out.count(); n != 2501 {
			t.Errorf("Flush did not send what waits")
		}
		r.stop(time.Minute)
	})
}

func TestOutageKeepsOrderAndIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var mu sync.Mutex
		down := true
		out.answer = func(string, []uint32) output.Result {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return fails(output.Unavailable)
			}
			return output.Result{}
		}
		r := newRig(t, out, nil)
		for i := range 600 { // ten minutes
			r.append(batch("a", uint32(i*10), 10))
			r.append(batch("b", uint32(i*10), 10))
			time.Sleep(time.Second)
		}
		out.mu.Lock()
		tries := out.sends
		out.mu.Unlock()
		if tries > 60 {
			t.Errorf("%d requests during ten minutes of outage: no back-off", tries)
		}
		mu.Lock()
		down = false
		mu.Unlock()
		time.Sleep(time.Minute)
		r.stop(time.Minute)
		ascending(t, "a", out.got("a"), 0, 6000)
		ascending(t, "b", out.got("b"), 0, 6000)
		if n := strings.Count(r.logs(), "delivery fails"); n != 1 {
			t.Errorf("the outage is %d lines:\n%s", n, r.logs())
		}
		if n := strings.Count(r.logs(), "works again"); n != 1 {
			t.Errorf("its end is %d lines:\n%s", n, r.logs())
		}
	})
}

func TestDeniedLaneHoldsUpOnlyItself(t *testing.T) {
	for _, kind := range []output.Kind{output.Denied, output.NoTarget, output.Throttled, output.Unavailable} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := newFake()
				out.answer = func(lane string, _ []uint32) output.Result {
					time.Sleep(10 * time.Millisecond)
					if lane == "bad" {
						return fails(kind)
					}
					return output.Result{}
				}
				r := newRig(t, out, func(o *Options) { o.Workers = 1; o.Throttle = &Throttle{} })
				for i := range 60 {
					r.append(batch("bad", uint32(i), 1))
					for l := range 5 {
						r.append(batch(fmt.Sprint("good", l), uint32(i*10), 10))
					}
					time.Sleep(time.Second)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for l := range 5 {
					ascending(t, "good lane", out.got(fmt.Sprint("good", l)), 0, 600)
				}
				r.stop(10 * time.Second)
				if s := r.book.Sheet(); s.Delivered != 3000 || s.Pending() != 60 {
					t.Errorf("book: %+v", s)
				}
			})
		})
	}
}

func TestParkedLaneFreesTheBufferAndComesBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var mu sync.Mutex
		allowed := false
		out.answer = func(lane string, _ []uint32) output.Result {
			mu.Lock()
			defer mu.Unlock()
			if lane == "bad" && !allowed {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.ParkAfter = 30 * time.Second })
		n := uint32(0)
		add := func(seconds int) {
			for range seconds {
				r.append(batch("bad", n, 3))
				r.append(batch("good", n, 3))
				n += 3
				time.Sleep(time.Second)
			}
		}
		add(120)
		synctest.Wait()
		if st := r.buf.Stats(); st.PendingEvents > 12 {
			t.Errorf("%d events still wait in the main buffer after the lane was parked", st.PendingEvents)
		}
		if got := r.lot.Stats().PendingEvents; got < 300 {
			t.Errorf("%d events in the parking lot", got)
		}
		mu.Lock()
		allowed = true
		mu.Unlock()
		add(180)
		r.stop(time.Minute)
		ascending(t, "bad", out.got("bad"), 0, int(n))
		ascending(t, "good", out.got("good"), 0, int(n))
		main, lot := r.book.Sheet(), r.lotb.Sheet()
		if main.Delivered+lot.Delivered != uint64(2*n) || main.Moved != lot.Admitted {
			t.Errorf("main %+v\nlot %+v", main, lot)
		}
	})
}

func TestRefusedContentIsBisected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		poison := map[uint32]bool{0: true, 777: true, 778: true, 1999: true}
		out.answer = func(_ string, ns []uint32) output.Result {
			for _, n := range ns {
				if poison[n] {
					return fails(output.Refused)
				}
			}
			return output.Result{}
		}
		r := newRig(t, out, nil)
		for i := range 20 {
			r.append(batch("a", uint32(i*100), 100))
		}
		r.stop(time.Minute)
		want := []uint32{}
		for n := range uint32(2000) {
			if !poison[n] {
				want = append(want, n)
			}
		}
		if got := out.got("a"); !slices.Equal(got, want) {
			t.Errorf("%d events arrived, want the %d good ones in order", len(got), len(want))
		}
		s := r.book.Sheet()
		if s.Rejected[ledger.Refused] != 4 || s.Delivered != 1996 {
			t.Errorf("book: %+v", s)
		}
		if out.sends > 120 {
			t.Errorf("%d requests to find four events in two thousand", out.sends)
		}
	})
}

// TestRefusedForNoContent: where a lane's events are all refused it is not for their
// content. Some are given up before that is known; the others wait, and are delivered when
// it is over. Other lanes go on.
func TestRefusedForNoContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		ill := true
		out.answer = func(lane string, ns []uint32) output.Result {
			if ill && lane == "a" {
				return fails(output.Refused)
			}
			return output.Result{}
		}
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 3*mostRefused))
		r.append(batch("b", 0, 100))
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.book.Sheet(); s.Rejected[ledger.Refused] != mostRefused || s.Delivered != 100 || s.Pending() != 2*mostRefused {
			t.Errorf("book: %+v", s)
		}
		out.mu.Lock()
		ill = false
		out.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		ascending(t, "a", out.got("a"), mostRefused, 2*mostRefused)
		r.stop(time.Minute)
	})
}

func TestRetryLimitGivesUpOnlyTheFailingRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "bad" {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.MaxTimes = 2 })
		r.append(batch("bad", 0, 10))
		r.append(batch("good", 0, 10))
		time.Sleep(time.Minute)
		r.append(batch("good", 10, 10))
		r.stop(time.Minute)
		s := r.book.Sheet()
		if s.Dropped[ledger.RetryLimit] != 10 || s.Delivered != 20 {
			t.Errorf("book: %+v", s)
		}
		if out.sends != 3+2 {
			t.Errorf("%d requests, want one and two retries for the bad lane, two for the good one", out.sends)
		}
	})
}

// TestSameAgain: what may have been accepted is sent again as it was, whatever came in the way
// of the next attempt, and whatever has come meanwhile.
func TestSameAgain(t *testing.T) {
	for _, kind := range []output.Kind{output.Unavailable, output.Throttled, output.Credentials, output.Denied, output.NoTarget, output.Conflict} {
		synctest.Test(t, func(t *testing.T) {
			out := newFake()
			var counts []int
			begun := make(chan struct{})
			out.answer = func(_ string, ns []uint32) output.Result {
				switch counts = append(counts, len(ns)); {
				case len(counts) == 1:
					close(begun)
				case len(counts) > 3:
					return output.Result{}
				}
				res := fails(kind)
				res.Resent = true
				return res
			}
			r := newRig(t, out, nil)
			r.append(batch("a", 0, 10))
			<-begun
			r.append(batch("a", 10, 10))
			time.Sleep(time.Minute)
			r.stop(time.Minute)
			if len(counts) < 4 || !slices.Equal(counts[:4], []int{10, 10, 10, 10}) {
				t.Errorf("%s: requests of %v events, want the same 10 until they are accepted", kind, counts)
			}
			ascending(t, "a", out.got("a"), 0, 20)
		})
	}
}

func TestSecondaryTakesWhatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, second := newFake(), newFake()
		out.answer = func(string, []uint32) output.Result { return fails(output.Denied) }
		r := newRig(t, out, func(o *Options) { o.Retry.MaxTimes = 1; o.Secondary = second })
		r.append(batch("a", 0, 10))
		time.Sleep(time.Minute)
		r.stop(time.Minute)
		ascending(t, "secondary", second.got("a"), 0, 10)
		if s := r.book.Sheet(); s.Delivered != 10 {
			t.Errorf("book: %+v", s)
		}
		if log := r.logs(); !strings.Contains(log, `msg="events went to the <secondary>"`) || !strings.Contains(log, "lane=a events=10 ") {
			t.Errorf("the log does not say what went to the secondary:\n%s", log)
		}
	})
}

func TestPartialRejectionIsBookedPerEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(_ string, ns []uint32) output.Result {
			return output.Result{Ended: []output.Ended{
				{First: 0, Count: 3, Fate: ledger.TooOld.Fate()},
				{First: len(ns) - 2, Count: 2, Fate: ledger.TooNew.Fate()},
			}}
		}
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 2))
		r.append(batch("a", 2, 8))
		r.stop(time.Minute)
		s := r.book.Sheet()
		if s.Rejected[ledger.TooOld] != 3 || s.Rejected[ledger.TooNew] != 2 || s.Delivered != 5 {
			t.Errorf("book: %+v", s)
		}
		ascending(t, "a", out.got("a"), 3, 5)
	})
}

func TestDropAsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(string, []uint32) output.Result {
			res := fails(output.Drop)
			res.Err.Fate = ledger.ThrottleLimit.Fate()
			return res
		}
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 7))
		r.stop(time.Minute)
		if s := r.book.Sheet(); s.Dropped[ledger.ThrottleLimit] != 7 {
			t.Errorf("book: %+v", s)
		}
	})
}

func TestConflictIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		n := 0
		out.answer = func(string, []uint32) output.Result {
			if n++; n%3 != 0 {
				return fails(output.Conflict)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.MaxTimes = 0 })
		for i := range 20 {
			r.append(batch("a", uint32(i), 1))
			time.Sleep(2 * time.Second)
		}
		r.stop(time.Minute)
		ascending(t, "a", out.got("a"), 0, 20)
		if l := r.logs(); strings.Contains(l, "level=ERROR") || strings.Contains(l, "level=WARN") {
			t.Errorf("conflicts were logged:\n%s", l)
		}
	})
}

func TestStopLeavesTheRestInTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(string, []uint32) output.Result { return fails(output.Unavailable) }
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 100))
		time.Sleep(3 * time.Second)
		start := time.Now()
		r.stop(5 * time.Second)
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("stopping took %s, the grace was 5 s", took)
		}
		if s := r.book.Sheet(); s.Pending() != 100 {
			t.Errorf("book: %+v", s)
		}
	})
}

func TestStopGivesUpOnAFailingEndpointWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(string, []uint32) output.Result { return fails(output.Unavailable) }
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 100))
		time.Sleep(3 * time.Second)
		if err := r.buf.Seal(context.Background()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		start := time.Now()
		r.d.Stop(ctx, true)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
		_ = r.buf.Close(context.Background())
	})
}

func TestHaltAndContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit = 10
		out.answer = func(string, []uint32) output.Result { time.Sleep(100 * time.Millisecond); return output.Result{} }
		r := newRig(t, out, func(o *Options) { o.Workers = 2; o.Linger.Events = 10 })
		for i := range 100 {
			r.append(batch(fmt.Sprint("t", i%3), uint32(i/3*10), 10))
		}
		time.Sleep(350 * time.Millisecond)
		r.d.Halt(context.Background())
		before := out.count()
		if before == 0 || before == 1000 {
			t.Fatalf("%d events before the halt: nothing was tested", before)
		}
		r.buf.Rewind()
		o := r.d.o
		r.d = New(o)
		r.d.Start()
		r.stop(time.Minute)
		if n := out.count(); n != 1000 {
			t.Errorf("%d events arrived, want 1000", n)
		}
		for l := range 3 {
			got := out.got(fmt.Sprint("t", l))
			ascending(t, "lane", got, 0, len(got))
		}
	})
}

func TestAppendPartsCoversEveryEntryOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pieces []piece
		total := 0
		for i := range rapid.IntRange(1, 8).Draw(t, "pieces") {
			n := rapid.IntRange(1, 20).Draw(t, "n")
			first := rapid.IntRange(0, 5).Draw(t, "first")
			p := piece{}
			p.Seq, p.First, p.Count = buffer.Seq(i+1), uint32(first), uint32(n)
			pieces = append(pieces, p)
			total += n
		}
		fates := make([]ledger.Reason, total) // None: delivered
		var ended []output.Ended
		for at := 0; at < total; {
			n := rapid.IntRange(1, 10).Draw(t, "run")
			n = min(n, total-at)
			if rapid.Bool().Draw(t, "ended") {
				reason := rapid.SampledFrom([]ledger.Reason{ledger.TooOld, ledger.Empty}).Draw(t, "reason")
				ended = append(ended, output.Ended{First: at, Count: n, Fate: ledger.Fate{Class: ledger.Rejected, Reason: reason}})
				for i := range n {
					fates[at+i] = reason
				}
			}
			at += n
		}
		at := 0
		parts := appendParts(nil, pieces, ended)
		for _, p := range pieces {
			next := p.First
			for next < p.First+p.Count {
				if len(parts) == 0 {
					t.Fatalf("entry %d of batch %d is in no part", next, p.Seq)
				}
				q := parts[0]
				parts = parts[1:]
				if q.Seq != p.Seq || q.First != next || q.Count == 0 {
					t.Fatalf("part %+v, expected one of batch %d from entry %d", q, p.Seq, next)
				}
				for range q.Count {
					if fates[at] != q.Fate.Reason || (fates[at] == ledger.None) != (q.Fate.Class == ledger.Delivered) {
						t.Fatalf("entry %d has fate %+v, want %v", at, q.Fate, fates[at])
					}
					at++
				}
				next += q.Count
			}
		}
		if len(parts) > 0 {
			t.Fatalf("%d parts too many", len(parts))
		}
	})
}

func TestStopIsQuickWhenAllIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), func(o *Options) { o.Retry.ParkAfter = time.Minute })
		r.append(batch("a", 0, 100))
		time.Sleep(3 * time.Second)
		start := time.Now()
		r.stop(25 * time.Second)
		if took := time.Since(start); took > time.Second {
			t.Errorf("stopping took %s with nothing left to do", took)
		}
	})
}

func TestSlowRequestsAreCountedAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "slow" {
				time.Sleep(3 * time.Second)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.SlowFlush = 2 * time.Second })
		r.append(batch("slow", 0, 1))
		r.append(batch("quick", 0, 1))
		time.Sleep(10 * time.Second)
		if n := r.d.Stats().Slow; n != 1 {
			t.Errorf("%d slow requests, want 1", n)
		}
		if n := strings.Count(r.logs(), "a request took long"); n != 1 {
			t.Errorf("%d lines:\n%s", n, r.logs())
		}
		r.stop(time.Minute)
	})
}

func TestPauseAfterEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var mu sync.Mutex
		var at []time.Duration
		begin := time.Now()
		out.answer = func(string, []uint32) output.Result {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begin))
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Workers, o.Pause, o.Linger.Interval = 2, time.Second, 0 })
		for i := range 6 {
			r.append(batch(fmt.Sprint("t", i), 0, 1))
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		want := []time.Duration{0, 0, time.Second, time.Second, 2 * time.Second, 2 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("requests at %v, want %v", at, want)
		}
		mu.Unlock()
		for i := range 20 {
			r.append(batch(fmt.Sprint("t", i), 1, 1))
		}
		start := time.Now()
		r.stop(time.Minute)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("stopping took %s: it does not pause", took)
		}
	})
}

func TestSecondaryTakesOverAfterItsShareOfTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		retry  Retry
		within time.Duration
		not    time.Duration
	}{
		"timeout":   {Retry{Wait: time.Second, Base: 1, Max: time.Second, Timeout: 100 * time.Second, MaxTimes: -1, Secondary: 0.8}, 90 * time.Second, 70 * time.Second},
		"max times": {Retry{Wait: 10 * time.Second, Base: 1, Max: 10 * time.Second, Timeout: time.Hour, MaxTimes: 10, Secondary: 0.5}, 60 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, second := newFake(), newFake()
				out.answer = func(string, []uint32) output.Result { return fails(output.Throttled) }
				r := newRig(t, out, func(o *Options) { o.Retry, o.Secondary = c.retry, second })
				r.append(batch("a", 0, 10))
				time.Sleep(c.not)
				if n := second.count(); n != 0 {
					t.Errorf("the secondary has %d events too early", n)
				}
				time.Sleep(c.within - c.not)
				ascending(t, "secondary", second.got("a"), 0, 10)
				r.stop(time.Minute)
			})
		})
	}
}
