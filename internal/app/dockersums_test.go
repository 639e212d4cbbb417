package app

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"

	"weir/internal/deliver"
	"weir/internal/ledger"
)

// TestDockerSumsNeverFall: a container that leaves is in the sums all the time. A counter
// that falls looks like a restart to whoever reads it.
func TestDockerSumsNeverFall(t *testing.T) {
	d := NewDocker(DockerOptions{Spool: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	d.limits = &dockerLimits{}
	o := &dockerOutput{throttle: &deliver.Throttle{}}
	d.outputs.all[serviceKey{}] = o
	c := newDockerContainer(d, testContainer("http://localhost", 1, nil))
	c.out = o
	const n = 100
	c.book.AdmitEnded(ledger.Fate{Class: ledger.Delivered}, 1)
	var reads atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			d.mu.Lock()
			d.containers[c.info.ID] = c
			d.mu.Unlock()
			for seen := reads.Load(); reads.Load() < seen+2; {
				runtime.Gosched() // a sum with the container has been read
			}
			c.mu.Lock()
			d.leave(c)
			c.mu.Unlock()
		}
	}()
	var total, delivered uint64
	for running := true; running; reads.Add(1) {
		select {
		case <-done:
			running = false // one last look
		default:
		}
		sum, out := d.Totals().Delivered, d.Status().Outputs[0].Sheet.Delivered
		if sum < total || out < delivered {
			t.Errorf("delivered: Totals gives %d after %d, Status %d after %d", sum, total, out, delivered)
		}
		total, delivered = sum, out
	}
	if total != n || delivered != n {
		t.Errorf("delivered: Totals gives %d, Status %d, want %d", total, delivered, n)
	}
}
