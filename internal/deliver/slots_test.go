package deliver

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs"
)

func TestSlotsBoundTheRequestsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit = 10
		out.answer = func(string, []uint32) output.Result {
			time.Sleep(100 * time.Millisecond)
			return output.Result{}
		}
		slots := NewSlots(3)
		rigs := make([]*rig, 20)
		for i := range rigs {
			rigs[i] = newRig(t, out, func(o *Options) { o.Slots, o.Workers = slots, 2 })
		}
		for i, r := range rigs {
			for n := range 20 {
				r.append(batch(fmt.Sprint("l", i), uint32(n)*10, 10))
			}
		}
		time.Sleep(4 * time.Second) // 3 s of work, of which each gets its share
		for i := range rigs {
			if n := len(out.got(fmt.Sprint("l", i))); n < 10 {
				t.Errorf("lane %d has had %d events", i, n)
			}
		}
		time.Sleep(20 * time.Second)
		for i, r := range rigs {
			ascending(t, fmt.Sprint(i), out.got(fmt.Sprint("l", i)), 0, 200)
			r.stop(time.Minute)
		}
		if out.most != 3 {
			t.Errorf("%d requests at once, want 3", out.most)
		}
		if slots.free != 3 || len(slots.waiting) != 0 {
			t.Errorf("%d free, %d waiting at the end", slots.free, len(slots.waiting))
		}
	})
}

// Who cannot send holds no slot: neither behind a shut gate nor in a lane's back-off.
func TestTroubleHoldsNoSlot(t *testing.T) {
	for _, kind := range []output.Kind{output.Unavailable, output.Denied, output.Credentials, output.Throttled} {
		synctest.Test(t, func(t *testing.T) {
			ill, well := newFake(), newFake()
			var heal atomic.Bool
			ill.limit = 10
			ill.answer = func(string, []uint32) output.Result {
				time.Sleep(10 * time.Millisecond)
				if heal.Load() {
					return output.Result{}
				}
				return fails(kind)
			}
			slots := NewSlots(1)
			a := newRig(t, ill, func(o *Options) { o.Slots = slots })
			b := newRig(t, well, func(o *Options) { o.Slots, o.Linger.Interval = slots, 0 })
			for i := range 20 {
				a.append(batch(fmt.Sprint("l", i%4), uint32(i/4)*10, 10))
			}
			time.Sleep(10 * time.Second)
			for i := range 100 {
				b.append(batch("b", uint32(i), 1))
				time.Sleep(100 * time.Millisecond)
				if n := len(well.got("b")); n < i-1 {
					t.Fatalf("%v: %d of %d events have arrived beside a fault", kind, n, i)
				}
			}
			heal.Store(true)
			time.Sleep(5 * time.Minute)
			for i := range 4 {
				ascending(t, fmt.Sprint(kind, i), ill.got(fmt.Sprint("l", i)), 0, 50)
			}
			synctest.Wait()
			if ill.sends > 200 {
				t.Errorf("%v: %d requests", kind, ill.sends)
			}
			a.stop(time.Minute)
			b.stop(time.Minute)
			if slots.free != 1 {
				t.Errorf("%d slots free at the end", slots.free)
			}
		})
	}
}

// Neither does who pauses after each request.
func TestPauseHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit = 10
		slots := NewSlots(1)
		a := newRig(t, out, func(o *Options) { o.Slots, o.Workers, o.Pause, o.Linger.Interval = slots, 1, time.Second, 0 })
		b := newRig(t, out, func(o *Options) { o.Slots, o.Linger.Interval = slots, 0 })
		for i := range 40 {
			a.append(batch(fmt.Sprint("l", i%2), uint32(i/2)*10, 10))
		}
		time.Sleep(500 * time.Millisecond)
		for i := range 100 {
			b.append(batch("b", uint32(i), 1))
			time.Sleep(10 * time.Millisecond)
			if n := len(out.got("b")); n != i+1 {
				t.Fatalf("%d of %d events have arrived beside a pause", n, i+1)
			}
		}
		if n := len(out.got("l0")) + len(out.got("l1")); n > 20 {
			t.Errorf("%d events in a second", n)
		}
		time.Sleep(45 * time.Second)
		ascending(t, "l0", out.got("l0"), 0, 200)
		ascending(t, "l1", out.got("l1"), 0, 200)
		a.stop(time.Minute)
		b.stop(time.Minute)
	})
}

func TestStopAndHaltDoNotWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "slow" {
				time.Sleep(time.Hour)
			}
			return output.Result{}
		}
		slots := NewSlots(1)
		slow := newRig(t, out, func(o *Options) { o.Slots = slots })
		slow.append(batch("slow", 0, 1))
		time.Sleep(2 * time.Second)
		a := newRig(t, out, func(o *Options) { o.Slots = slots })
		b := newRig(t, out, func(o *Options) { o.Slots = slots })
		a.append(batch("a", 0, 1))
		b.append(batch("b", 0, 1))
		time.Sleep(2 * time.Second)
		start := time.Now()
		a.d.Halt(context.Background())
		if d := time.Since(start); d > time.Second {
			t.Errorf("Halt took %v", d)
		}
		start = time.Now()
		b.stop(5 * time.Second)
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("Stop took %v", d)
		}
		idle := newRig(t, out, func(o *Options) { o.Slots = slots })
		start = time.Now()
		idle.stop(time.Minute)
		if d := time.Since(start); d > time.Second {
			t.Errorf("Stop with nothing to do took %v", d)
		}
		if len(out.got("a"))+len(out.got("b")) != 0 {
			t.Error("sent without a slot")
		}
		a.d = New(a.o) // only to be stopped like the others
		a.buf.Rewind()
		a.d.Start()
		time.Sleep(time.Hour)
		a.stop(time.Minute)
		slow.stop(2 * time.Hour)
		ascending(t, "a", out.got("a"), 0, 1)
	})
}

// A hundred and more Deliverers in a process must be cheap while they are idle.
func TestIdleDelivererIsSmall(t *testing.T) {
	const n = 200
	out, slots := newFake(), NewSlots(4)
	log := slog.New(slog.DiscardHandler)
	var bufs []*buffer.Buffer
	for range n {
		b, err := buffer.Open(buffer.Options{FS: vfs.NewMem(0), Dir: "b", Book: &ledger.Book{}, Log: log, Limit: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		bufs = append(bufs, b)
	}
	all := make([]*Deliverer, n)
	run := func() {
		var wg sync.WaitGroup
		for _, b := range bufs {
			wg.Go(func() {
				for i := range 50 {
					if _, err := b.Append(context.Background(), batch("a", uint32(i)*100, 100)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i, b := range bufs {
			if err := b.WaitDelivered(context.Background(), uint64(b.Stats().Stored)); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	before, routines := heapInUse(), runtime.NumGoroutine()
	for i, b := range bufs {
		all[i] = New(Options{ID: "out", Buffer: b, Output: out, Log: log, Retry: DefaultRetry, Slots: slots, Tell: true})
		all[i].Start()
	}
	fresh := heapInUse()
	if size := (fresh - before) / n; size > 16<<10 {
		t.Errorf("%d bytes of heap for each", size)
	} else {
		t.Logf("%d bytes of heap for each", size)
	}
	if k := (runtime.NumGoroutine() - routines) / n; k > 3 {
		t.Errorf("%d goroutines for each", k)
	}
	run()
	for _, d := range all {
		d.mu.Lock()
		for _, l := range d.lanes {
			if c := cap(l.pieces); c > keptByMany {
				t.Errorf("an idle lane keeps room for %d pieces", c)
			}
		}
		d.mu.Unlock()
	}
	for i, b := range bufs {
		_ = b.Seal(context.Background())
		all[i].Stop(context.Background(), false)
		_ = b.Close(context.Background())
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
