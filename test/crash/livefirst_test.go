package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// TestKillLiveFirst kills with new events on their way to the backlog, while both queues
// drain, and once more after drain_order was changed back: nothing is lost, and nothing
// comes twice but what was in flight at a kill.
func TestKillLiveFirst(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, outage)
	conf := weirtest.Config{Buffer: impatient + "\n    drain_order live_first\n    drain_rate 20"}.String()
	w := weirtest.Start(t, e, conf)
	tr := startTraffic(t, w, 4, 50, 3500)
	backlog := func() (size int64) {
		names, _ := filepath.Glob(filepath.Join(w.Dir, "buffer", "backlog", "*.seg"))
		for _, n := range names {
			if st, err := os.Stat(n); err == nil {
				size += st.Size()
			}
		}
		return size
	}
	before := int64(0)
	for range 3 {
		weirtest.Eventually(t, "the backlog grows", func() (string, bool) { n := backlog(); return fmt.Sprint(n), n > before })
		pause(r, 200*time.Millisecond, 600*time.Millisecond)
		before = backlog()
		w.Kill()
		w.Start()
		w.Balanced()
	}
	// From now on the endpoint takes some time for each request, so that a kill meets one.
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.FaultDelay, Operations: []string{"PutLogEvents"}, Duration: emulator.Duration(30 * time.Millisecond)})
	for range 3 {
		pause(r, 100*time.Millisecond, 300*time.Millisecond)
		w.Kill()
		w.Start()
		w.Balanced()
	}
	w.SetConfig(strings.Replace(conf, "drain_order live_first\n    drain_rate 20", "drain_order oldest_first", 1))
	w.Kill()
	w.Start()
	pause(r, 100*time.Millisecond, 300*time.Millisecond)
	w.Kill()
	w.Start()
	weirtest.Faults(t, e)
	tr.end()
	w.Drained()
	repeats := 0
	for _, s := range tr.senders {
		to := weirtest.Target{Group: "g", Stream: s.Tag}
		got := weirtest.Arrivals(t, e, to)
		weirtest.SameSet(t, to, got.Order, s.IDs())
		for id, n := range got.Times {
			if n > 1 && !s.Resent(id) {
				repeats += n - 1
			}
		}
	}
	t.Logf("8 kills: %d events that weir sent twice", repeats)
	// In flight at a kill: at most 4 requests and those of the backlog.
	if repeats > 5*8*10_000 {
		t.Errorf("weir sent %d events twice, more than were in flight", repeats)
	}
	w.LogAtMost(9, 0)
}
