package deliver

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/output"
)

// TestNudge: a delivery that waits for its endpoint tries at once when somebody has seen it
// answer, and only then.
func TestNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		var well atomic.Bool
		out.answer = func(string, []uint32) output.Result {
			if !well.Load() {
				return fails(output.Unavailable)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) {
			o.Retry = Retry{Wait: time.Hour, Base: 1, Forever: true}
		})
		r.stored("a", 0, 10)
		time.Sleep(time.Minute)
		synctest.Wait()
		accepted, failed, waiting := r.d.Health()
		if !accepted.IsZero() || failed.IsZero() || !waiting {
			t.Errorf("during the outage: %v %v %v", accepted, failed, waiting)
		}
		sends := out.sends
		r.d.Nudge()
		synctest.Wait()
		if out.sends != sends+1 {
			t.Errorf("%d requests after a nudge, want one", out.sends-sends)
		}
		well.Store(true)
		r.d.Nudge()
		synctest.Wait()
		if n := len(out.got("a")); n != 10 {
			t.Errorf("%d events arrived after the second nudge", n)
		}
		r.d.Nudge()
		if accepted, _, waiting := r.d.Health(); accepted.IsZero() || waiting {
			t.Errorf("afterwards: %v %v", accepted, waiting)
		}
		r.stop(time.Minute)
	})
}
