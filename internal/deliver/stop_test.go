package deliver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/output"
)

func TestStopDoesNotWaitForDeniedLanes(t *testing.T) {
	for _, parked := range []bool{false, true} {
		t.Run(fmt.Sprint("parked ", parked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := newFake()
				out.answer = func(lane string, _ []uint32) output.Result {
					if lane == "bad" {
						return fails(output.Denied)
					}
					time.Sleep(time.Second)
					return output.Result{}
				}
				r := newRig(t, out, func(o *Options) {
					if parked {
						o.Retry.ParkAfter = 5 * time.Second
					}
				})
				for i := range 60 {
					r.append(batch("bad", uint32(i), 1))
					time.Sleep(time.Second)
				}
				r.append(batch("good", 0, 1))
				if err := r.buf.Seal(context.Background()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				start := time.Now()
				r.d.Stop(ctx, true)
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("stopping took %s because of a lane that is denied", took)
				}
				ascending(t, "good", out.got("good"), 0, 1)
				if err := r.d.consistent(); err != nil {
					t.Error(err)
				}
				_ = r.buf.Close(context.Background())
				if r.lot != nil {
					_ = r.lot.Close(context.Background())
				}
			})
		})
	}
}

func TestStopTriesLanesInBackOffAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var well atomic.Bool
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "a" && !well.Load() {
				return fails(output.Throttled)
			}
			return output.Result{}
		}
		r := newRig(t, out, nil)
		r.append(batch("a", 0, 1))
		r.append(batch("b", 0, 1))
		time.Sleep(125 * time.Second) // waits are 30 s by now
		well.Store(true)
		start := time.Now()
		r.stop(25 * time.Second)
		ascending(t, "a", out.got("a"), 0, 1)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

func TestCutOffAtTheEndOfTheGraceIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.answer = func(string, []uint32) output.Result {
			time.Sleep(10 * time.Second)
			return fails(output.Unavailable)
		}
		r := newRig(t, out, func(o *Options) { o.Retry.MaxTimes = 0 })
		r.append(batch("a", 0, 5))
		r.stop(2 * time.Second)
		if s := r.book.Sheet(); s.Pending() != 5 {
			t.Errorf("events of a request that was cut off were given up: %+v", s)
		}
	})
}
