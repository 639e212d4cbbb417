package deliver

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// Retry is the policy for failed requests, from the retry_* parameters of <buffer>. It
// holds for each lane by itself: Fluentd keeps one retry state per output, so that one bad
// chunk there delays and finally discards all.
type Retry struct {
	Wait      time.Duration // retry_wait: the first wait
	Base      float64       // retry_exponential_backoff_base; 1 is retry_type periodic
	Max       time.Duration // retry_max_interval: the cap of a wait
	Jitter    bool          // retry_randomize
	Timeout   time.Duration // retry_timeout, counted from the first failure
	MaxTimes  int           // retry_max_times: retries after the first failure; < 0 for no limit
	Forever   bool          // retry_forever: ignore Timeout and MaxTimes
	Secondary float64       // retry_secondary_threshold: share of the time after which <secondary> is used; 0: all of it
	ParkAfter time.Duration // how long one lane may fail before it is parked; 0 never
}

var errRetryLimit = errors.New("retry limit reached")

// DefaultRetry is what holds where a file is silent: Fluentd's values, with a cap on the
// wait (Fluentd has none and can sleep for a day and a half).
var DefaultRetry = Retry{
	Wait: time.Second, Base: 2, Max: 30 * time.Second, Jitter: true,
	Timeout: 72 * time.Hour, MaxTimes: -1, ParkAfter: 5 * time.Minute,
}

// wait is how long to wait after the nth failure in a row, n from 1. With jitter it is
// spread over the whole interval, so that lanes and replicas do not come back together.
func (r Retry) wait(n int) time.Duration {
	w := float64(r.Wait) * math.Pow(r.Base, float64(min(n, 64)-1))
	if r.Max > 0 {
		w = min(w, float64(r.Max))
	}
	w = min(w, float64(24*time.Hour))
	if r.Jitter {
		w *= 0.1 + 0.9*rand.Float64()
	}
	return max(time.Duration(w), 10*time.Millisecond)
}

// exhausted says whether a lane that has failed n times since first is given up.
func (r Retry) exhausted(n int, failing time.Duration) bool {
	if r.Forever {
		return false
	}
	if r.MaxTimes >= 0 && n > r.MaxTimes {
		return true
	}
	return r.Timeout > 0 && failing >= r.Timeout
}

// forSecondary says whether a lane has failed for so long that its <secondary> takes over,
// if it has one: after a share of Timeout, or of what MaxTimes waits make.
func (r Retry) forSecondary(failing time.Duration) bool {
	if r.Forever || r.Secondary <= 0 {
		return false
	}
	limit := r.Timeout
	if r.MaxTimes >= 0 {
		r.Jitter = false
		sum := time.Duration(0)
		for n := 1; n <= r.MaxTimes && (limit <= 0 || sum < limit); n++ {
			sum += r.wait(n)
		}
		if limit <= 0 || sum < limit {
			limit = sum
		}
	}
	return limit > 0 && failing >= time.Duration(float64(limit)*r.Secondary)
}

// exhaustedTwice is the same for what a <secondary> does not take either: it has as long
// again.
func (r Retry) exhaustedTwice(n int, failing time.Duration) bool {
	if r.MaxTimes >= 0 && n > 2*r.MaxTimes+1 {
		return true
	}
	return r.Timeout > 0 && failing >= 2*r.Timeout
}
