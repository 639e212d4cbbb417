package emulator

import (
	"sync"
	"time"
)

// quotaRates returns the default request rates per second and account as the
// quota table gives them (2026, most Regions).
func quotaRates() map[string]float64 {
	return map[string]float64{
		"PutLogEvents":          5000,
		"CreateLogStream":       50,
		"CreateLogGroup":        10,
		"DescribeLogGroups":     10,
		"DescribeLogStreams":    25,
		"PutRetentionPolicy":    5,
		"DeleteRetentionPolicy": 5,
		"TagResource":           5,
		"UntagResource":         5,
		"ListTagsForResource":   5,
		"TagLogGroup":           5,
		"UntagLogGroup":         5,
		"ListTagsLogGroup":      5,
		"DeleteLogStream":       15,
		"DeleteLogGroup":        10,
		"GetLogEvents":          25,
		"FilterLogEvents":       10,
	}
}

// streamRate is the quota per stream that fell with sequence tokens.
const streamRate = 5

// quotas are token buckets: one per operation, and with strict tokens one per
// stream. A bucket holds one second's worth.
type quotas struct {
	perStream bool

	mu      sync.Mutex
	ops     map[string]*bucket
	streams map[[2]string]*bucket
}

type bucket struct {
	rate, tokens float64
	last         time.Time
}

func newQuotas(perStream bool) *quotas {
	q := &quotas{perStream: perStream, ops: make(map[string]*bucket), streams: make(map[[2]string]*bucket)}
	for op, rate := range quotaRates() {
		q.ops[op] = &bucket{rate: rate, tokens: rate}
	}
	return q
}

// take uses up one request, if there is one.
func (b *bucket) take(now time.Time) bool {
	if !b.last.IsZero() {
		b.tokens = min(b.rate, b.tokens+b.rate*max(0, now.Sub(b.last).Seconds()))
	}
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// check counts a request against its quotas. Without quotas all pass.
func (q *quotas) check(c *call) *apiError {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.ops[c.op]; b != nil && !b.take(c.now) {
		return errThrottled()
	}
	if !q.perStream || c.op != "PutLogEvents" {
		return nil
	}
	key := [2]string{c.group, c.stream}
	b := q.streams[key]
	if b == nil {
		q.sweep(c.now)
		b = &bucket{rate: streamRate, tokens: streamRate}
		q.streams[key] = b
	}
	if !b.take(c.now) {
		return errThrottled()
	}
	return nil
}

// sweep forgets buckets that are full again, so that names which clients make
// up don't fill the memory.
func (q *quotas) sweep(now time.Time) {
	if len(q.streams) < 100000 {
		return
	}
	for k, b := range q.streams {
		if now.Sub(b.last) > time.Second {
			delete(q.streams, k)
		}
	}
}
