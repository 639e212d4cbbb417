package cloudwatch

import (
	"sync"
	"sync/atomic"
)

// throttles counts, for each lane, the throttled attempts since something was accepted.
// It is used only where put_log_events_retry_limit or _wait is set: delivery builds a
// request anew after each failure, so the request itself cannot count.
type throttles struct {
	on atomic.Int64 // lanes counted: keeps the usual case free of the lock
	mu sync.Mutex   // guards n
	n  map[string]int
}

// maxThrottles bounds the lanes counted; beyond it counting begins anew, which only means
// that events are kept for longer.
const maxThrottles = 1 << 16

func (t *throttles) add(lane string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil || len(t.n) >= maxThrottles {
		t.n = map[string]int{}
	}
	t.n[lane]++
	t.on.Store(int64(len(t.n)))
	return t.n[lane]
}

func (t *throttles) forget(lane string) {
	if t.on.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.n, lane)
	t.on.Store(int64(len(t.n)))
}
