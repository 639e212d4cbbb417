package deliver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs/vfstest"
)

// stored appends a batch as a frame of its own.
func (r *rig) stored(tag string, first uint32, count int) {
	r.t.Helper()
	seq, err := r.buf.Append(context.Background(), batch(tag, first, count))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.buf.WaitStored(context.Background(), uint64(seq)); err != nil {
		r.t.Fatal(err)
	}
}

func TestDamagedPieceLosesOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, fs := newFake(), vfstest.New()
		var open atomic.Bool
		out.answer = func(string, []uint32) output.Result {
			if !open.Load() {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRigOn(t, fs, 1, out, nil)
		for i := range 6 {
			r.stored("a", uint32(i*10), 10)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// Damage the third frame: the number 25 is in it and nowhere else.
		for _, f := range must(fs.List("b")) {
			b := fs.Contents("b/" + f)
			if i := strings.Index(string(b), "\x81\xa1n\xce\x00\x00\x00\x19"); i >= 0 {
				b = slices.Clone(b)
				b[i+7] ^= 0x40
				fs.Damage("b/"+f, b)
			}
		}
		open.Store(true)
		time.Sleep(time.Minute)
		r.stop(time.Minute)
		got := out.got("a")
		want := []uint32{}
		for n := range uint32(60) {
			if n/10 != 2 {
				want = append(want, n)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("arrived %v", got)
		}
		if s := r.book.Sheet(); s.Dropped[ledger.Damaged] != 10 || s.Delivered != 50 {
			t.Errorf("book: %+v", s)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestEventsThatCannotBeReadJustNowWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, fs := newFake(), vfstest.New()
		out.byNumber = 8 // pieces of one entry, which are read one by one from a large frame
		var open atomic.Bool
		out.answer = func(string, []uint32) output.Result {
			if !open.Load() {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRigOn(t, fs, 1, out, nil)
		r.stored("a", 0, 8000)
		r.stored("a", 8000, 8000)
		time.Sleep(time.Minute)
		synctest.Wait()
		fs.Inject(vfstest.Fault{Op: vfstest.Read, Times: 100, Err: syscall.EMFILE})
		open.Store(true)
		time.Sleep(10 * time.Minute)
		r.stop(time.Minute)
		if s := r.book.Sheet(); s.Delivered != 16_000 {
			t.Errorf("events were given up because no descriptor was free: %+v", s)
		}
		if !strings.Contains(r.logs(), "cannot be read just now") {
			t.Error("no read has failed: nothing was tested")
		}
	})
}

func TestRequestsOfOneLaneSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit = 10
		out.answer = func(string, []uint32) output.Result { time.Sleep(time.Second); return output.Result{} }
		r := newRig(t, out, func(o *Options) { o.PerLane = 3; o.Linger.Events = 10 })
		r.append(batch("a", 0, 120)) // all at once: nothing comes later to wake anybody
		start := time.Now()
		r.stop(time.Minute)
		if out.lanemost != 3 {
			t.Errorf("%d requests of the lane were in flight at once, want 3", out.lanemost)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("12 requests of one second each, three at a time, took %s", took)
		}
	})
}

func TestThousandBadLanesAndOneWorker(t *testing.T) {
	for _, kind := range []output.Kind{output.Denied, output.Throttled} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := newFake()
				var slowest atomic.Int64
				sent := map[uint32]time.Time{}
				var mu sync.Mutex
				out.answer = func(lane string, ns []uint32) output.Result {
					time.Sleep(time.Millisecond)
					if lane != "good" {
						return fails(kind)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, n := range ns {
						slowest.Store(max(slowest.Load(), int64(time.Since(sent[n]))))
					}
					return output.Result{}
				}
				r := newRig(t, out, func(o *Options) { o.Workers = 1 })
				for i := range 300 {
					for j := range 10 {
						r.append(batch(fmt.Sprint("bad", (i*10+j)%1000), uint32(i), 1))
					}
					mu.Lock()
					sent[uint32(i)] = time.Now()
					mu.Unlock()
					r.append(batch("good", uint32(i), 1))
					time.Sleep(time.Second)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				ascending(t, "good", out.got("good"), 0, 300)
				if s := time.Duration(slowest.Load()); s > 4*time.Second {
					t.Errorf("an event of the good lane waited for %s, the linger is 1 s", s)
				}
				r.stop(time.Second)
			})
		})
	}
}

func TestOneUnreachableLaneDoesNotDelayQuietOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "bad" {
				return fails(output.Unavailable)
			}
			return output.Result{}
		}
		r := newRig(t, out, nil)
		n := uint32(0)
		for range 10 {
			for range 300 {
				r.append(batch("bad", n, 1))
				n++
				time.Sleep(time.Second)
			}
			r.append(batch("quiet", n, 1))
			before := out.count()
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if out.count() != before+1 {
				t.Fatalf("the quiet lane waits for the bad one")
			}
		}
		r.stop(time.Second)
	})
}

func TestOutageOfManyWorkersBeginsWithAShortWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		start := time.Now()
		out.answer = func(string, []uint32) output.Result {
			time.Sleep(100 * time.Millisecond)
			if time.Since(start) < 1500*time.Millisecond {
				return fails(output.Unavailable)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Workers = 32 })
		for l := range 64 {
			r.append(batch(fmt.Sprint(l), 0, 1))
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := out.count(); n != 64 {
			t.Errorf("4 seconds after a blip %d of 64 events have arrived", n)
		}
		r.stop(time.Minute)
	})
}

func TestFullLotDoesNotHoldALaneThatIsWellAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.lotLimit = 32 << 10
		var well atomic.Bool
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "hog" || lane == "late" && !well.Load() {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.ParkAfter = 20 * time.Second })
		for i := range 40 {
			r.append(batch("hog", uint32(i*100), 100))
			time.Sleep(time.Second)
		}
		r.append(batch("late", 0, 100))
		time.Sleep(2 * time.Minute)
		well.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		ascending(t, "late", out.got("late"), 0, 100)
		if err := r.d.consistent(); err != nil {
			t.Error(err)
		}
		r.stop(time.Second)
	})
}

func TestStartWithALotWhoseEndIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "bad" {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.ParkAfter = 10 * time.Second })
		lot := func(lane string, n uint32) buffer.Seq {
			return must(r.lot.Append(context.Background(), batch(lane, n, 5)))
		}
		r.d.Halt(context.Background())
		lot("bad", 0)
		lot("other", 0)
		r.lot.Rewind()
		r.d = New(r.d.o)
		r.d.Start()
		time.Sleep(time.Minute) // "other" leaves the lot, "bad" does not
		r.d.Halt(context.Background())
		r.buf.Rewind()
		r.lot.Rewind()
		r.d = New(r.d.o)
		start := time.Now()
		r.d.Start() // must not wait for what is not there
		if took := time.Since(start); took > time.Second {
			t.Errorf("the start took %s", took)
		}
		r.append(batch("bad", 5, 5))
		time.Sleep(10 * time.Second)
		out.mu.Lock()
		out.answer = nil
		out.mu.Unlock()
		time.Sleep(5 * time.Minute)
		r.stop(time.Minute)
		ascending(t, "bad", out.got("bad"), 0, 10)
		ascending(t, "other", out.got("other"), 0, 5)
	})
}

func TestSecondaryThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, second := newFake(), newFake()
		out.answer = func(string, []uint32) output.Result { return fails(output.Denied) }
		tries := 0
		second.answer = func(string, []uint32) output.Result {
			if tries++; tries == 1 {
				return fails(output.Unavailable)
			}
			return output.Result{Ended: []output.Ended{{First: 2, Count: 1, Fate: ledger.TooOld.Fate()}}}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.MaxTimes = 1; o.Secondary = second })
		r.append(batch("a", 0, 10))
		time.Sleep(time.Minute)
		r.stop(time.Minute)
		if s := r.book.Sheet(); s.Delivered != 9 || s.Rejected[ledger.TooOld] != 1 {
			t.Errorf("book: %+v", s)
		}
	})
}

func TestSecondaryThatNeverWorksEndsInADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, second := newFake(), newFake()
		second.limit = 4
		out.answer = func(string, []uint32) output.Result { return fails(output.Denied) }
		second.answer = func(_ string, ns []uint32) output.Result {
			if ns[0] > 0 {
				return fails(output.Unavailable)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.MaxTimes = 1; o.Secondary = second })
		r.append(batch("a", 0, 10))
		time.Sleep(time.Minute)
		r.stop(time.Minute)
		ascending(t, "secondary", second.got("a"), 0, 4)
		if s := r.book.Sheet(); s.Delivered != 4 || s.Dropped[ledger.RetryLimit] != 6 {
			t.Errorf("book: %+v", s)
		}
	})
}

func TestSecondaryKnowsTheTagOfParkedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, second := newFake(), newFake()
		out.byNumber = 1 // one lane whatever the tag
		out.answer = func(string, []uint32) output.Result { return fails(output.Denied) }
		r := newRig(t, out, func(o *Options) {
			o.Retry.ParkAfter, o.Retry.Timeout, o.Secondary = 5*time.Second, 2*time.Minute, second
		})
		r.append(batch("app.one", 0, 10))
		r.append(batch("app.two", 10, 10))
		time.Sleep(time.Minute)
		if s := r.book.Sheet(); s.Moved != 20 {
			t.Errorf("nothing was parked: %+v", s)
		}
		time.Sleep(10 * time.Minute)
		r.stop(time.Minute)
		ascending(t, "app.one", second.got("app.one"), 0, 10)
		ascending(t, "app.two", second.got("app.two"), 10, 10)
	})
}

func TestRequestsClosedForTheirSpanDoNotShrinkTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.spanned = true
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 200))
		time.Sleep(time.Minute)
		out.mu.Lock()
		out.spanned, out.sizes = false, nil
		out.mu.Unlock()
		for i := range 50 {
			r.append(batch("a", uint32(200+i*20), 20))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(out.sizes) != 1 {
			t.Errorf("requests of %v events, want one of 1000", out.sizes)
		}
		r.stop(time.Minute)
	})
}

func TestThrottleFollowsWhatTheServiceTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &Throttle{}
		const quota = 50 // requests a second
		var second time.Time
		used, ok, refused := 0, 0, 0
		for start, i := time.Now(), 0; time.Since(start) < 5*time.Minute; i++ {
			if w := th.Wait(time.Now()); w > 0 {
				time.Sleep(w)
				continue
			}
			if time.Since(second) >= time.Second {
				second, used = time.Now(), 0
			}
			if used++; used > quota {
				refused++
				th.Throttled(time.Now(), fmt.Sprint(i), false)
			} else {
				ok++
				th.OK(time.Now())
			}
			time.Sleep(time.Millisecond)
		}
		if ok < 300*quota/2 {
			t.Errorf("%d requests passed, the quota allows %d", ok, 300*quota)
		}
		if refused > ok/10 {
			t.Errorf("%d refused and %d accepted: the rate does not follow", refused, ok)
		}
	})
}
