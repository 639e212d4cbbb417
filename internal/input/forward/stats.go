package forward

import (
	"sync/atomic"
	"time"
)

// LatencyBounds are the upper bounds of the buckets of Stats.AckLatency; the last bucket
// has none.
func LatencyBounds() []time.Duration {
	return append([]time.Duration(nil), latencyBounds[:]...)
}

var latencyBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
}

// Stats are the counters of an Input since its start.
type Stats struct {
	Open        int64  // connections open now
	Connections uint64 // connections accepted
	Handshakes  uint64 // of them, those that failed to authenticate or in TLS
	Messages    uint64 // forward messages received
	Events      uint64 // events in them that were accepted
	Bytes       uint64 // bytes read from connections, after TLS
	Acks        uint64 // acknowledgements written
	Repeats     uint64 // messages acknowledged again without a second copy
	Refused     uint64 // messages not accepted: full buffer, or weir was stopping
	Lost        uint64 // events of refused messages that came without a chunk id
	Invalid     uint64 // events dropped because they are not [time, record], and broken messages
	TooLarge    uint64 // messages dropped because of chunk_size_limit
	Malformed   uint64 // connections closed because their bytes are not forward protocol

	// AckLatency counts messages by the time from their arrival to their acknowledgement.
	AckLatency    [len(latencyBounds) + 1]uint64
	AckLatencySum time.Duration
}

// counters are Stats in the making. They are added to per batch, never per event.
type counters struct {
	open                                                       atomic.Int64
	connections, handshakes, messages, events, bytes           atomic.Uint64
	acks, repeats, refused, lost, invalid, tooLarge, malformed atomic.Uint64
	latency                                                    [len(latencyBounds) + 1]atomic.Uint64
	latencySum                                                 atomic.Int64
}

// answered books n acknowledgements that took d.
func (c *counters) answered(n int, d time.Duration) {
	c.acks.Add(uint64(n))
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	c.latency[i].Add(uint64(n))
	c.latencySum.Add(int64(d) * int64(n))
}

func (c *counters) stats() Stats {
	s := Stats{
		Open: c.open.Load(), Connections: c.connections.Load(), Handshakes: c.handshakes.Load(),
		Messages: c.messages.Load(), Events: c.events.Load(), Bytes: c.bytes.Load(),
		Acks: c.acks.Load(), Repeats: c.repeats.Load(), Refused: c.refused.Load(), Lost: c.lost.Load(),
		Invalid: c.invalid.Load(), TooLarge: c.tooLarge.Load(), Malformed: c.malformed.Load(),
		AckLatencySum: time.Duration(c.latencySum.Load()),
	}
	for i := range c.latency {
		s.AckLatency[i] = c.latency[i].Load()
	}
	return s
}
