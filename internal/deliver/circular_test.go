package deliver

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs"
)

// burst appends n events, ten to a batch, while the reader reads.
func (r *rig) burst(tag string, n int) {
	for i := 0; i < n; i += 10 {
		r.append(batch(tag, uint32(i), 10))
		if i%500 == 0 {
			synctest.Wait()
		}
	}
}

// A circular buffer keeps the newest through an outage, although everything came before the
// outage was noticed.
func TestCircularBufferKeepsTheNewest(t *testing.T) {
	for _, tell := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			out := newFake()
			var up atomic.Bool
			out.answer = func(string, []uint32) output.Result {
				if !up.Load() {
					return fails(output.Unavailable)
				}
				return output.Result{}
			}
			out.bufLimit = 256 << 10
			r := newRig(t, out, func(o *Options) { o.Circular, o.Tell, o.Linger.Interval = true, tell, 5*time.Second })
			const n = 50_000 // 950 kB, in no time
			r.burst("a", n)
			time.Sleep(time.Minute)
			up.Store(true)
			time.Sleep(5 * time.Minute)
			got := out.got("a")
			s := r.book.Sheet()
			dropped := s.Dropped[ledger.BufferFull]
			if uint64(len(got))+dropped != n || s.Delivered != uint64(len(got)) || dropped == 0 {
				t.Fatalf("%d of %d arrived, %d dropped, book %+v", len(got), n, dropped, s)
			}
			// What had been claimed comes first, then the newest without a gap.
			gaps := 0
			for i := 1; i < len(got); i++ {
				if got[i] != got[i-1]+1 {
					gaps++
				}
			}
			if got[len(got)-1] != n-1 || gaps != 1 || got[0] != 0 {
				t.Errorf("first %d, last %d, %d gaps", got[0], got[len(got)-1], gaps)
			}
			claimed := 0
			for i := 1; got[i] == got[i-1]+1; i++ {
				claimed++
			}
			if claimed*19 > 256<<10/8+64<<10 {
				t.Errorf("%d events had been claimed", claimed)
			}
			if told := out.sum("a"); tell && told != dropped {
				t.Errorf("told of %d, dropped %d", told, dropped)
			}
			if tell && (len(out.heard("a")) != 1 || out.heard("a")[0].at != claimed+1) {
				t.Errorf("notices %+v, want one behind %d events", out.heard("a"), claimed+1)
			}
			r.stop(time.Minute)
		})
	}
}

// The share of a large buffer does not slow it down: nothing is hastened.
func TestCircularBufferOfUsualSizeIsNotHastened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.bufLimit = 64 << 20
		r := newRig(t, out, func(o *Options) { o.Circular, o.Linger.Interval = true, 5*time.Second })
		r.burst("a", 50_000)
		time.Sleep(time.Minute)
		ascending(t, "a", out.got("a"), 0, 50_000)
		synctest.Wait()
		if out.sends != 5 {
			t.Errorf("%d requests, want 5 full ones", out.sends)
		}
		r.stop(time.Minute)
	})
}

// A small buffer that is not circular is read as before.
func TestOnlyCircularBuffersAreShared(t *testing.T) {
	book := &ledger.Book{}
	buf, err := buffer.Open(buffer.Options{FS: vfs.NewMem(0), Dir: "b", Book: book, Log: slog.New(slog.DiscardHandler), Limit: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = buf.Close(context.Background()) }()
	for circular, want := range map[bool]int{true: 32 << 10, false: int(^uint(0) >> 1)} {
		d := New(Options{Buffer: buf, Output: newFake(), Log: slog.New(slog.DiscardHandler), Circular: circular})
		if d.claim != want {
			t.Errorf("circular %v: claims %d bytes, want %d", circular, d.claim, want)
		}
		d.cancel()
	}
}

// A lane that fails for long does not take the share of the others.
func TestCircularBufferBesideABadLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.bufLimit = 1 << 20
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "bad" {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Circular, o.Retry.ParkAfter = true, 3*time.Minute })
		r.burst("bad", 10_000) // 190 kB: more than may be claimed
		for i := range 60 {
			r.append(batch("good", uint32(i)*10, 10))
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		ascending(t, "good", out.got("good"), 0, 600)
		if st := r.d.Stats(); st.LanesParked != 1 {
			t.Errorf("%d lanes parked", st.LanesParked)
		}
		if err := r.d.consistent(); err != nil {
			t.Error(err)
		}
		r.stop(time.Minute)
	})
}

// What several lanes of a buffer have lost is told to each of them.
func TestEachLaneIsToldItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var up atomic.Bool
		out.answer = func(string, []uint32) output.Result {
			if !up.Load() {
				return fails(output.Unavailable)
			}
			return output.Result{}
		}
		out.bufLimit = 256 << 10
		r := newRig(t, out, func(o *Options) { o.Circular, o.Tell = true, true })
		lanes := []string{"a", "b", "c"}
		for i := range 3000 {
			r.append(batch(lanes[i*i%3], uint32(i)*10, 10))
			if i%50 == 0 {
				synctest.Wait()
			}
		}
		time.Sleep(time.Minute)
		up.Store(true)
		time.Sleep(5 * time.Minute)
		all := uint64(0)
		for i, lane := range lanes {
			want := []uint64{10_000, 20_000, 0}[i]
			got := uint64(len(out.got(lane)))
			if told := out.sum(lane); got+told != want || want > 0 && told == 0 {
				t.Errorf("lane %s: %d arrived, %d are told missing, of %d", lane, got, told, want)
			}
			all += got
		}
		if s := r.book.Sheet(); s.Delivered != all || s.Dropped[ledger.BufferFull] != 30_000-all {
			t.Errorf("%d arrived, books %+v", all, s)
		}
		r.stop(time.Minute)
	})
}
