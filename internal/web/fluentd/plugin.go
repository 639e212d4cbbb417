package fluentd

import (
	"math"
	"time"

	"weir/internal/web"
)

// Kind says what a plug-in is.
type Kind uint8

const (
	Input Kind = iota
	Filtering
	Output
	MultiOutput // copy and its like, which Fluentd counts as outputs without figures
)

// Plugin is one configured plug-in and how it is doing.
type Plugin struct {
	Kind     Kind
	ID, Type string
	Config   [][2]string // parameters as written, without secrets
	// Records and Bytes are what an input has emitted, or a filter passed on.
	Records, Bytes uint64
	Status         *web.OutputStatus // of an Output
	Buffered       bool              // an Output with a buffer in Fluentd too
	Every          time.Duration     // how often Fluentd would make a chunk of what comes: flush_interval or timekey
}

func (p *Plugin) category() string {
	switch p.Kind {
	case Input:
		return "input"
	case Filtering:
		return "filter"
	}
	return "output"
}

// failures are finished requests that were errors. A sequence token conflict is not: it is
// how writers of one stream take turns.
func failures(o *web.OutputStatus) uint64 {
	n := uint64(0)
	if o == nil {
		return 0
	}
	for outcome, count := range o.Puts {
		if outcome != "accepted" && outcome != "conflict" {
			n += count
		}
	}
	return n
}

// chunks is how Fluentd would have in chunks what waits.
type chunks struct{ staged, stagedBytes, queued, queuedBytes int64 }

// chunks maps what waits to Fluentd's stage and queue, on whose length alerts are built: what
// goes well is a staged chunk for each lane with events and a queued one for each request
// under way; what fails, or is parked, is queued, a chunk for each lane and interval.
func (p *Plugin) chunks(now time.Time) (c chunks) {
	o := p.Status
	b := &o.Buffer
	lanes, events, size := 0, uint64(0), uint64(0)
	for i := range o.Lanes {
		if l := &o.Lanes[i]; l.Attempts > 0 && !l.Parked {
			lanes, events, size = lanes+1, events+uint64(l.Events), size+uint64(l.Bytes)
		}
	}
	if !o.PausedUntil.IsZero() {
		lanes, events, size = o.LaneCount-o.LanesParked, b.PendingEvents, b.PendingBytes
	}
	size = min(size, b.PendingBytes)
	c.queued, c.queuedBytes = p.failing(b, now, lanes, events)+int64(o.InFlight), int64(size)
	if b.PendingEvents > events {
		c.staged = int64(max(o.LaneCount-o.LanesParked-lanes-o.InFlight, 1))
	}
	c.stagedBytes = int64(b.PendingBytes - size)
	if o.Parking != nil {
		lot := &o.Parking.Buffer
		c.queued += p.failing(lot, now, o.LanesParked, lot.PendingEvents)
		c.queuedBytes += int64(lot.PendingBytes)
	}
	return c
}

// failing is how many chunks Fluentd would have made of what waits in some lanes since the
// oldest event of b.
func (p *Plugin) failing(b *web.BufferStatus, now time.Time, lanes int, events uint64) int64 {
	if events == 0 {
		return 0
	}
	times := int64(1)
	if p.Every > 0 && !b.Oldest.IsZero() {
		times += max(int64(now.Sub(b.Oldest)/p.Every), 0)
	}
	return min(int64(max(lanes, 1))*times, int64(events))
}

// writes are finished requests but for token conflicts: Fluentd's attempts to flush a chunk.
func writes(o *web.OutputStatus) uint64 { return o.Puts["accepted"] + failures(o) }

// flushTime is how long requests took, in milliseconds.
func flushTime(o *web.OutputStatus) int64 { return int64(o.Latency.Sum * 1000) }

// freeRatio is how much of the buffer is free, in percent with one decimal.
func freeRatio(b *web.BufferStatus) float64 {
	if b.Limit <= 0 {
		return 100
	}
	return math.Round(max(1000*float64(b.Limit-b.Bytes)/float64(b.Limit), 0)) / 10
}
