package web

import (
	"sync"
	"time"
)

// How much history the page shows: samples and the time between them.
const (
	samples     = 180
	sampleEvery = 5 * time.Second
	rateOver    = 10 * time.Second // rates are averages over this long, or the next sample
	recently    = 5 * time.Minute  // what "lately" means on the page
)

// sample is what rates and curves are made of.
type sample struct {
	at      time.Time
	inputs  map[string]uint64 // events accepted
	outputs map[string]outputSample
}

type outputSample struct {
	in, out, lost  uint64 // events
	bytesIn, bytes uint64
	pending        uint64
	throttled      uint64
	latency, fill  Histogram
}

// history is a ring of samples. It may be used from any goroutine.
type history struct {
	mu   sync.Mutex // guards ring and next
	ring []sample   // oldest first once turned by next
	next int
}

// add takes a sample, unless there is a fresh one.
func (h *history) add(s *Status, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.last(); last != nil && now.Sub(last.at) < sampleEvery {
		return
	}
	sm := sample{at: now, inputs: make(map[string]uint64, len(s.Inputs)), outputs: make(map[string]outputSample, len(s.Outputs))}
	for i := range s.Inputs {
		sm.inputs[s.Inputs[i].ID] = s.Inputs[i].Events
	}
	for i := range s.Outputs {
		sm.outputs[s.Outputs[i].ID] = take(&s.Outputs[i])
	}
	if len(h.ring) < samples {
		h.ring = append(h.ring, sm)
		return
	}
	h.ring[h.next] = sm
	h.next = (h.next + 1) % samples
}

func take(o *OutputStatus) outputSample {
	return outputSample{in: o.Sheet.Admitted, out: o.delivered(), lost: o.lost(), bytesIn: o.BytesIn, bytes: o.BytesOut,
		pending: o.pending(), throttled: o.Throttled, latency: o.Latency, fill: o.Fill}
}

// at gives the ith sample, the oldest being 0.
func (h *history) at(i int) *sample { return &h.ring[(h.next+i)%len(h.ring)] }

func (h *history) last() *sample {
	if len(h.ring) == 0 {
		return nil
	}
	return h.at(len(h.ring) - 1)
}

// before gives the newest sample at least this much older than now, else the oldest; the
// zero sample if there is none.
func (h *history) before(now time.Time, age time.Duration) sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.ring) - 1; i >= 0; i-- {
		if s := h.at(i); now.Sub(s.at) >= age || i == 0 {
			return *s
		}
	}
	return sample{}
}

// all copies the samples, oldest first.
func (h *history) all() []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]sample, len(h.ring))
	for i := range out {
		out[i] = *h.at(i)
	}
	return out
}

// rate is the growth of a counter per second; 0 if it has begun anew.
func rate(now, then uint64, over time.Duration) float64 {
	if now < then || over <= 0 {
		return 0
	}
	return float64(now-then) / over.Seconds()
}
