package deliver

import (
	"sync"
	"time"
)

// Throttle paces requests to everything that shares a quota: one account, region and
// operation. It lets all pass until the service says no; then it halves the rate that was
// really reached and adds to it slowly while all is well. When the service has not said no for
// ten minutes the limit is forgotten. Slower requests are fuller requests: what waits meanwhile
// goes into the next one.
type Throttle struct {
	mu       sync.Mutex
	rate     float64 // requests a second; 0: unlimited
	next     time.Time
	window   time.Time // start of the second in which count was counted
	count    float64
	observed float64   // requests in the last full second
	cut      time.Time // of the last decrease
	lastLane string    // that was throttled last
	lastAt   time.Time
	hits     uint64
}

// hold is how long one lane's refusals are taken for that lane's own limit.
const hold = 5 * time.Second

// Wait says how long to wait before the next request may start; 0 means that it may, and
// that it has been counted.
func (t *Throttle) Wait(now time.Time) time.Duration {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rate > 0 {
		if d := t.next.Sub(now); d > 0 {
			return d
		}
		if t.next.Before(now.Add(-time.Second)) {
			t.next = now.Add(-time.Second) // at most a second's worth of burst
		}
		t.next = t.next.Add(time.Duration(float64(time.Second) / t.rate))
	}
	if now.Sub(t.window) >= time.Second {
		t.observed, t.count, t.window = t.count, 0, now
	}
	t.count++
	return 0
}

// OK notes a request that was not throttled: after a quiet second the rate grows.
func (t *Throttle) OK(now time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rate == 0 || now.Sub(t.cut) < time.Second {
		return
	}
	// Five per cent a second, whatever the number of requests in that second.
	t.rate += max(0.05*t.rate, 0.5) / t.rate
	if t.rate > 10_000 || now.Sub(t.cut) > 10*time.Minute {
		t.rate = 0
	}
}

// Throttled notes a refusal. A single lane that is refused again and again while others
// pass has met a limit of its own and must not slow its neighbours; a second lane within a
// few seconds means that the whole scope is meant. only says that there is one lane anyway.
func (t *Throttle) Throttled(now time.Time, lane string, only bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hits++
	other := t.lastLane != "" && t.lastLane != lane && now.Sub(t.lastAt) < hold
	t.lastLane, t.lastAt = lane, now
	if !other && !only || now.Sub(t.cut) < 500*time.Millisecond {
		return
	}
	rate := t.rate
	if rate == 0 {
		rate = max(t.observed, t.count, 2)
	}
	t.rate = max(rate/2, 0.5)
	t.cut, t.next = now, now.Add(time.Duration(float64(time.Second)/t.rate))
}

// Rate is the present limit in requests a second, 0 for none, and how often the service
// has said no.
func (t *Throttle) Rate() (float64, uint64) {
	if t == nil {
		return 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rate, t.hits
}
