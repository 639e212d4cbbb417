package deliver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

// rejects is an accepted request of which some entries are rejected.
func rejects(first, count int) output.Result {
	return output.Result{Ended: []output.Ended{{First: first, Count: count, Fate: ledger.TooOld.Fate()}}}
}

// heard are the notices of a lane.
func (f *fake) heard(lane string) []told {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]told(nil), f.notices[lane]...)
}

// sum is how many events the notices of a lane tell of.
func (f *fake) sum(lane string) (n uint64) {
	for _, t := range f.heard(lane) {
		reasons := uint64(0)
		for _, r := range t.Reasons {
			reasons += r.Events
		}
		if reasons != t.Events {
			panic(fmt.Sprintf("notice %+v: the reasons do not add up", t))
		}
		n += t.Events
	}
	return n
}

func telling(o *Options) { o.Tell = true }

func lost(n uint64) buffer.Loss {
	return buffer.Loss{Events: n, Bytes: 10 * n, First: 1e18 + 1, Last: 1e18 + 2}
}

func TestRejectedEventsAreToldAndThenSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(_ string, ns []uint32) output.Result {
			if len(ns) > 0 && ns[0] == 0 {
				return rejects(2, 3)
			}
			return output.Result{}
		}
		r := newRig(t, out, telling)
		b := batch("a", 0, 10)
		r.append(b)
		time.Sleep(1500 * time.Millisecond)
		if s := r.book.Sheet(); s.Rejected[ledger.TooOld] != 0 || s.Delivered != 7 || len(out.heard("a")) != 0 {
			t.Errorf("before the notice: %+v", s)
		}
		time.Sleep(time.Second) // alone, after the linger
		got := out.heard("a")
		want := output.Notice{Events: 3, Bytes: uint64(len(b.Entries)) / 10 * 3, First: 1e18, Last: 1e18, Behind: 1e18, Reasons: []output.ReasonCount{{Reason: ledger.TooOld, Events: 3}}}
		if len(got) != 1 || fmt.Sprint(got[0].Notice) != fmt.Sprint(want) || got[0].at != 7 {
			t.Errorf("notices %+v, want %+v behind 7 events", got, want)
		}
		if s := r.book.Sheet(); s.Rejected[ledger.TooOld] != 3 || r.buf.Stats().PendingEvents != 0 {
			t.Errorf("after it: %+v", s)
		}
		if st := r.d.Stats(); st.Notices != 1 || st.Noticed != 3 {
			t.Errorf("stats %+v", st)
		}
		r.stop(time.Minute)
	})
}

func TestNoticeGoesWithTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(_ string, ns []uint32) output.Result {
			if ns[0] < 20 {
				return rejects(0, 2)
			}
			return output.Result{}
		}
		r := newRig(t, out, telling)
		r.append(batch("a", 0, 10))
		time.Sleep(1100 * time.Millisecond)
		r.append(batch("a", 10, 10)) // of which two are rejected as well
		time.Sleep(1100 * time.Millisecond)
		r.append(batch("a", 20, 10))
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := out.heard("a"); len(got) != 2 || got[0].at != 8 || got[1].at != 16 || out.sends != 3 {
			t.Errorf("notices %+v in %d requests", got, out.sends)
		}
		r.stop(time.Minute)
	})
}

// TestOneGapOfManyRequests has a backlog of which the service takes nothing in one request
// after the other, nor a notice that stands among these events. That is one gap.
func TestOneGapOfManyRequests(t *testing.T) {
	for name, c := range map[string]struct {
		young int // events behind
		sends int
	}{"young events behind": {50, 11}, "nothing behind": {0, 11}} {
		synctest.Test(t, func(t *testing.T) {
			out := newFake()
			out.limit = 100
			out.answer = func(_ string, ns []uint32) output.Result {
				if len(ns) > 0 && ns[0] < 1000 {
					return rejects(0, len(ns))
				}
				return output.Result{}
			}
			young := false
			out.takes = func(lane string, _ output.Notice, events int) bool {
				// Alone it has the time of the clock.
				young = young || len(out.accepted[lane]) > 0
				return young || events == 0 || c.young > 0 && out.sends > 10
			}
			r := newRig(t, out, telling)
			for i := range uint32(10) {
				r.append(batch("a", i*100, 100))
			}
			if c.young > 0 {
				r.append(batch("a", 1000, c.young))
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			got := out.heard("a")
			if len(got) != 1 || got[0].Events != 1000 || got[0].at != 0 || out.sends != c.sends || len(out.got("a")) != c.young {
				t.Errorf("%s: %d requests, notices %+v", name, out.sends, got)
			}
			if s := r.book.Sheet(); s.Rejected[ledger.TooOld] != 1000 || r.buf.Stats().PendingEvents != 0 {
				t.Errorf("%s: %+v", name, s)
			}
			r.stop(time.Minute)
		})
	}
}

// TestHurriedGap has the same where everything is due at once and the reader brings little at
// a time, as of a container that has ended: the notice waits for what the reader brings.
func TestHurriedGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit, out.slow = 100, time.Millisecond
		out.answer = func(_ string, ns []uint32) output.Result { return rejects(0, len(ns)) }
		out.takes = func(_ string, _ output.Notice, events int) bool { return events == 0 }
		r := newRig(t, out, func(o *Options) { o.Tell, o.ReadAhead = true, 1000 })
		for i := range uint32(20) {
			r.append(batch("a", i*100, 100)) // one by one, so that each is read by itself
			time.Sleep(300 * time.Microsecond)
			r.d.Flush()
		}
		for range 100 {
			time.Sleep(300 * time.Microsecond)
			r.d.Flush()
		}
		time.Sleep(2 * time.Second)
		if got := out.heard("a"); len(got) != 1 || got[0].Events != 2000 {
			t.Errorf("notices %+v", got)
		}
		r.stop(time.Minute)
	})
}

// TestGapThatDoesNotEnd has events that the service refuses for ever: the stream is told now and
// then.
func TestGapThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(_ string, ns []uint32) output.Result { return rejects(0, len(ns)) }
		out.takes = func(_ string, _ output.Notice, events int) bool { return events == 0 }
		out.limit = 10
		r := newRig(t, out, func(o *Options) { o.Tell, o.Linger.Events = true, 10 })
		for i := range uint32(300) {
			r.append(batch("a", i*10, 10)) // a full request
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := len(out.heard("a")); n < 4 || n > 7 || out.sum("a") != 3000 {
			t.Errorf("%d notices of %d events in 150 seconds", n, out.sum("a"))
		}
		r.stop(time.Minute)
	})
}

func TestGapIsToldAtItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		r := newRig(t, out, telling)
		r.append(batch("a", 0, 5))
		for range 2 { // side by side: one notice
			if err := r.buf.Miss("a", ledger.BufferFull, lost(4)); err != nil {
				t.Fatal(err)
			}
		}
		_ = r.buf.Miss("a", ledger.WireLoss, lost(1))
		r.append(batch("a", 5, 5))
		_ = r.buf.Miss("a", ledger.BufferFull, lost(2))
		_ = r.buf.Miss("b", ledger.WireLoss, lost(7)) // a lane with nothing else
		_ = r.buf.Miss("unknown", ledger.WireLoss, lost(9))
		time.Sleep(5 * time.Second)
		a := out.heard("a")
		if len(a) != 2 || a[0].at != 5 || a[0].Events != 9 || len(a[0].Reasons) != 2 || a[0].Bytes != 90 || a[1].at != 10 || a[1].Events != 2 {
			t.Errorf("notices of a: %+v", a)
		}
		if b := out.heard("b"); len(b) != 1 || b[0].Events != 7 {
			t.Errorf("notices of b: %+v", b)
		}
		ascending(t, "a", out.got("a"), 0, 10)
		if st := r.buf.Stats(); st.Untold != 0 {
			t.Errorf("%d gaps untold", st.Untold)
		}
		r.stop(time.Minute)
	})
}

func TestRefusedNoticeIsSummedWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		refused := 0
		out.takes = func(_ string, _ output.Notice, _ int) bool { refused++; return refused > 4 }
		r := newRig(t, out, telling)
		_ = r.buf.Miss("a", ledger.BufferFull, lost(4))
		r.append(batch("a", 0, 5))
		time.Sleep(3 * time.Second) // with the events, then alone
		synctest.Wait()
		if refused != 2 || len(out.got("a")) != 5 {
			t.Errorf("refused %d times, %d events", refused, len(out.got("a")))
		}
		_ = r.buf.Miss("a", ledger.BufferFull, lost(3))
		r.append(batch("a", 5, 5))
		time.Sleep(3 * time.Second)
		ascending(t, "a", out.got("a"), 0, 10)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := out.heard("a"); len(got) != 1 || got[0].Events != 7 || refused != 5 {
			t.Errorf("notices %+v after %d attempts", got, refused)
		}
		r.stop(time.Minute)
	})
}

// A service that never takes a notice holds up neither the events nor a stop, nor the
// buffer.
func TestNoticeThatIsNeverTaken(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			out := newFake()
			out.takes = func(string, output.Notice, int) bool { return false }
			if refuse {
				out.answer = func(_ string, ns []uint32) output.Result {
					if len(ns) == 0 {
						return fails(output.Refused)
					}
					return output.Result{}
				}
			}
			r := newRig(t, out, telling)
			for i := range 20 {
				_ = r.buf.Miss("a", ledger.BufferFull, lost(4))
				r.append(batch("a", uint32(5*i), 5))
				time.Sleep(5 * time.Second)
			}
			synctest.Wait()
			ascending(t, "a", out.got("a"), 0, 100)
			if out.sends > 100 {
				t.Errorf("%d requests", out.sends)
			}
			start := time.Now()
			r.stop(time.Minute)
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("stop took %v", d)
			}
		})
	}
}

// again is another delivery from the same buffer, as after a crash before anything more
// was settled.
func (r *rig) again() {
	r.t.Helper()
	r.d.Halt(context.Background())
	r.buf.Rewind()
	r.d = New(r.o)
	r.d.Start()
}

func TestNoticeIsWrittenOnceAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var sends atomic.Int32
		var up atomic.Bool
		out.answer = func(_ string, ns []uint32) output.Result {
			switch {
			case sends.Add(1) > 1 && !up.Load():
				return fails(output.Unavailable)
			case len(ns) > 0 && ns[0] == 0:
				return rejects(0, 3)
			}
			return output.Result{}
		}
		r := newRig(t, out, telling)
		r.append(batch("a", 0, 5))
		time.Sleep(1500 * time.Millisecond)
		_ = r.buf.Miss("a", ledger.WireLoss, lost(4))
		for range 3 {
			time.Sleep(time.Minute)
			r.again()
		}
		if n := len(out.heard("a")); n != 0 || out.got("a") == nil {
			t.Errorf("%d notices while nothing is taken", n)
		}
		up.Store(true)
		time.Sleep(time.Minute)
		r.again()
		time.Sleep(time.Minute)
		if n := out.sum("a"); n != 7 {
			t.Errorf("the notices %+v tell of %d events, 7 were lost", out.heard("a"), n)
		}
		if got := out.got("a"); len(got) != 2 {
			t.Errorf("arrived %v", got)
		}
		r.stop(time.Minute)
	})
}

func TestStopSendsNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(_ string, ns []uint32) output.Result {
			if len(ns) > 0 {
				return rejects(0, 1)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Tell, o.Linger.Interval = true, time.Hour })
		r.append(batch("a", 0, 5))
		_ = r.buf.Miss("b", ledger.BufferFull, lost(4))
		r.stop(time.Minute)
		if out.sum("a") != 1 || out.sum("b") != 4 {
			t.Errorf("notices %+v", out.notices)
		}
	})
}

func TestGivenUpEventsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var well atomic.Bool
		out.answer = func(string, []uint32) output.Result {
			if well.Load() {
				return output.Result{}
			}
			return fails(output.Denied)
		}
		r := newRig(t, out, func(o *Options) { o.Tell, o.Retry.MaxTimes = true, 2 })
		r.append(batch("a", 0, 10))
		time.Sleep(time.Minute)
		r.append(batch("a", 10, 10))
		time.Sleep(time.Hour)
		if s := r.book.Sheet(); s.Dropped[ledger.RetryLimit] != 0 || s.Pending() != 20 {
			t.Errorf("before they are told: %+v", s)
		}
		well.Store(true)
		time.Sleep(time.Hour)
		if s := r.book.Sheet(); s.Dropped[ledger.RetryLimit] != 20 || out.sum("a") != 20 {
			t.Errorf("told of %d: %+v", out.sum("a"), s)
		}
		r.stop(time.Minute)
	})
}

// What waits for its notice does not fill the buffer.
func TestGivenUpEventsDoNotFillTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var well atomic.Bool
		out.bufLimit = 256 << 10
		out.answer = func(string, []uint32) output.Result {
			if well.Load() {
				return output.Result{}
			}
			return fails(output.Denied)
		}
		r := newRig(t, out, func(o *Options) { o.Tell, o.Retry.MaxTimes = true, 1 })
		for i := range 40 {
			r.append(batch("a", uint32(i)*1000, 1000)) // 19 kB each
			time.Sleep(10 * time.Minute)
		}
		well.Store(true)
		time.Sleep(time.Hour)
		if s := r.book.Sheet(); s.Dropped[ledger.RetryLimit] != 40_000 || out.sum("a") != 40_000 {
			t.Errorf("told of %d: %+v", out.sum("a"), s)
		}
		r.stop(time.Minute)
	})
}

func TestParkedLanesNoticeDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var well atomic.Bool
		out.answer = func(lane string, _ []uint32) output.Result {
			if well.Load() || lane == "b" {
				return output.Result{}
			}
			return fails(output.Denied)
		}
		r := newRig(t, out, func(o *Options) { o.Tell, o.Retry.ParkAfter = true, 10*time.Second })
		r.append(batch("a", 0, 10))
		time.Sleep(time.Minute)
		_ = r.buf.Miss("a", ledger.BufferFull, lost(4))
		r.append(batch("a", 10, 10))
		r.append(batch("b", 0, 10))
		time.Sleep(time.Minute)
		if st := r.d.Stats(); st.LanesParked != 1 || len(out.got("b")) != 10 {
			t.Errorf("stats %+v", st)
		}
		if err := r.d.consistent(); err != nil {
			t.Error(err)
		}
		well.Store(true)
		time.Sleep(10 * time.Minute)
		ascending(t, "a", out.got("a"), 0, 20)
		if got := out.heard("a"); len(got) != 1 || got[0].Events != 4 || got[0].at != 20 {
			t.Errorf("notices %+v", got)
		}
		r.stop(time.Minute)
	})
}
