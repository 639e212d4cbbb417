package web

import (
	"time"

	"weir/internal/ledger"
)

// Source tells how weir is doing. Status is called for every scrape, page and sample, from
// any goroutine; it must be cheap and must not block on the network or a disk.
type Source interface {
	Status() Status
}

// Phase says where in its life the process is.
type Phase uint8

const (
	Starting Phase = iota
	Running
	Stopping
)

// String gives the phase in lower case.
func (p Phase) String() string { return [...]string{"starting", "running", "stopping"}[p] }

// Status is how all of weir stands at one moment. The receiver does not change it.
type Status struct {
	Phase   Phase
	Config  string    // file name of the configuration; may be empty
	Loaded  time.Time // when it was last read
	Inputs  []InputStatus
	Outputs []OutputStatus
	// Filters are those that hold events back.
	Filters []FilterStatus
	// Unmatched are events for whose tag there is no <match>.
	Unmatched uint64
	// Containers are what the Docker logging driver serves; nil elsewhere.
	Containers []ContainerStatus
}

// InputStatus is one source. ID is unique among the inputs.
type InputStatus struct {
	ID, Type    string
	Address     string // what it listens on or reads; may be empty
	Listening   bool   // it takes events, or has ended in an orderly way
	Error       string // why it does not; empty when well
	Connections int64  // open now
	Events      uint64 // accepted
	Bytes       uint64 // read
	Refused     uint64 // messages that a full buffer refused: the sender keeps them
	Lost        uint64 // events of refused messages whose sender cannot keep them
	Malformed   uint64 // messages or connections that were not understood
	Acks        uint64 // acknowledgements sent
	Repeats     uint64 // messages sent twice by the client and taken once
	AckLatency  Histogram
}

// FilterStatus is a filter that holds events. ID is unique among the filters.
type FilterStatus struct {
	ID   string
	Held int64 // events taken and not passed on yet; they are in no book
}

// OutputStatus is one destination. ID is unique among the outputs.
type OutputStatus struct {
	ID, Type string
	Detail   string // for people: the group and stream, the path
	// Fault says why the output cannot take events: its buffer cannot be written. An
	// endpoint that fails is no fault, since events wait for it.
	Fault string

	Sheet   ledger.Sheet
	Balance int64 // admitted - ended - pending: anything but 0 is a bug
	// EventsIn and BytesIn came to the output since the start, behind filters.
	EventsIn, BytesIn uint64
	Emits             uint64 // batches given to the output
	Buffer            BufferStatus
	Parking           *ParkingStatus // nil without a parking lot

	Puts      map[string]uint64 // finished requests: "accepted", and failures by output.Kind
	Retries   map[string]uint64 // by output.Kind
	Latency   Histogram         // of requests, in seconds
	Fill      Histogram         // of accepted requests, from 0 to 1
	BodyBytes uint64            // of request bodies
	BytesOut  uint64            // of delivered entries
	Resent    uint64            // requests that may repeat an accepted one
	InFlight  int               // requests
	// SlowFlushes are requests that took longer than slow_flush_log_threshold.
	SlowFlushes uint64
	Throttled   uint64  // requests that were answered with "too many requests"
	RateLimit   float64 // requests a second that the throttle control allows; 0: no limit

	LaneCount   int
	LanesParked int
	Lanes       []LaneStatus // some: those in trouble or with most waiting first

	LastSuccess time.Time // of a request; zero if none yet
	LastError   string
	LastErrorAt time.Time
	PausedUntil time.Time // no request is sent before; zero when well
}

// BufferStatus is the buffer of an output.
type BufferStatus struct {
	Kind          string // "memory" or "file"; "" for outputs without one
	Dir           string
	Bytes, Limit  int64
	Segments      int
	PendingEvents uint64
	PendingBytes  uint64
	Oldest        time.Time // when the oldest waiting batch was accepted; zero if none
	// Windows are the starts of the oldest and the newest timekey window of which events may
	// wait, by when they were accepted; zero without a chunk key time, or if none wait.
	Windows [2]time.Time
}

// ParkingStatus is where lanes that have failed for long wait.
type ParkingStatus struct {
	Sheet   ledger.Sheet
	Balance int64
	Buffer  BufferStatus
}

// LaneStatus is one lane: a stream, a file. Name is printable.
type LaneStatus struct {
	Name      string
	Events    int // waiting or in flight
	Bytes     int
	Delivered uint64
	Attempts  int // failed in a row
	LastError string
	Parked    bool
}

// Histogram is a snapshot of a distribution. Counts[i] is how many values were at most
// Bounds[i]; one more element is how many there were in all. An empty Histogram has nil
// Counts.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// Count is how many values there were.
func (h *Histogram) Count() uint64 {
	if len(h.Counts) == 0 {
		return 0
	}
	return h.Counts[len(h.Counts)-1]
}

// quantile estimates a quantile, q from 0 to 1, of the values since before, by
// interpolation within buckets; 0 if there are none. Values beyond the last bound count as
// that bound.
func (h *Histogram) quantile(q float64, before *Histogram) float64 {
	if len(h.Counts) == 0 || len(h.Counts) != len(h.Bounds)+1 {
		return 0
	}
	since := func(i int) float64 {
		n := h.Counts[i]
		if before != nil && len(before.Counts) == len(h.Counts) && before.Counts[i] <= n {
			n -= before.Counts[i]
		}
		return float64(n)
	}
	total := since(len(h.Counts) - 1)
	if total == 0 {
		return 0
	}
	rank, below, lower := q*total, 0.0, 0.0
	for i, bound := range h.Bounds {
		if n := since(i); n >= rank {
			if n == below {
				return bound
			}
			return lower + (bound-lower)*(rank-below)/(n-below)
		} else {
			below = n
		}
		lower = bound
	}
	return lower
}

// stalled is how long events have waited without a success: 0 when nothing waits.
func (o *OutputStatus) stalled(now time.Time) time.Duration {
	if o.Buffer.Oldest.IsZero() {
		return 0
	}
	since := o.Buffer.Oldest
	if o.LastSuccess.After(since) {
		since = o.LastSuccess
	}
	return max(0, now.Sub(since))
}

func (b *BufferStatus) age(now time.Time) time.Duration {
	if b.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(b.Oldest))
}

func total(counts []uint64) uint64 {
	n := uint64(0)
	for _, c := range counts {
		n += c
	}
	return n
}

// lost is how many events of an output ended as dropped or rejected, parked ones included.
func (o *OutputStatus) lost() uint64 {
	n := total(o.Sheet.Dropped[:]) + total(o.Sheet.Rejected[:])
	if o.Parking != nil {
		n += total(o.Parking.Sheet.Dropped[:]) + total(o.Parking.Sheet.Rejected[:])
	}
	return n
}

// delivered includes what was delivered from the parking lot.
func (o *OutputStatus) delivered() uint64 {
	n := o.Sheet.Delivered
	if o.Parking != nil {
		n += o.Parking.Sheet.Delivered
	}
	return n
}

// pending includes what waits in the parking lot.
func (o *OutputStatus) pending() uint64 {
	n := max(0, o.Sheet.Pending())
	if o.Parking != nil {
		n += max(0, o.Parking.Sheet.Pending())
	}
	return uint64(n)
}

// notReady says why weir is not ready, line by line; empty when it is.
func (s *Status) notReady() []string {
	var why []string
	if s.Phase != Running {
		why = append(why, "weir is "+s.Phase.String())
	}
	for i := range s.Inputs {
		if in := &s.Inputs[i]; !in.Listening {
			line := "input " + in.ID + " does not take events"
			if in.Error != "" {
				line += ": " + in.Error
			}
			why = append(why, line)
		}
	}
	for i := range s.Outputs {
		if o := &s.Outputs[i]; o.Fault != "" {
			why = append(why, "output "+o.ID+" cannot take events: "+o.Fault)
		}
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Fault != "" {
			why = append(why, "container "+c.Name+" cannot store events: "+c.Fault)
		}
	}
	return why
}
