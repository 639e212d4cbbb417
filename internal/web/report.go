package web

import (
	"time"

	"weir/internal/ledger"
)

// report is a Status worked out for readers: the JSON of /api/status, and what the page
// shows.
type report struct {
	Version   string         `json:"version"`
	Phase     string         `json:"phase"`
	Ready     bool           `json:"ready"`
	NotReady  []string       `json:"not_ready"`
	Time      time.Time      `json:"time"`
	Started   time.Time      `json:"started"`
	Uptime    float64        `json:"uptime_seconds"`
	Config    string         `json:"config_file"`
	Loaded    *time.Time     `json:"config_loaded"`
	Findings  []finding      `json:"findings"`
	Unmatched uint64         `json:"unmatched_events"`
	Inputs    []inputReport  `json:"inputs"`
	Filters   []filterReport `json:"filters,omitempty"`
	Outputs   []outputReport `json:"outputs"`

	Containers []containerReport `json:"containers,omitempty"`
}

type inputReport struct {
	ID          string       `json:"id"`
	Type        string       `json:"type"`
	Address     string       `json:"address"`
	Listening   bool         `json:"listening"`
	Error       string       `json:"error,omitempty"`
	Connections int64        `json:"connections"`
	Events      uint64       `json:"events"`
	Rate        float64      `json:"events_per_second"`
	Bytes       uint64       `json:"bytes"`
	Refused     uint64       `json:"refused_messages"`
	Lost        uint64       `json:"lost_events"`
	Malformed   uint64       `json:"malformed"`
	Acks        uint64       `json:"acks"`
	Repeats     uint64       `json:"repeats"`
	Ack         distribution `json:"ack_seconds"`
}

type filterReport struct {
	ID   string `json:"id"`
	Held int64  `json:"held_events"`
}

type outputReport struct {
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Detail      string            `json:"detail"`
	Fault       string            `json:"fault,omitempty"`
	Ledger      bookReport        `json:"ledger"`
	Buffer      bufferReport      `json:"buffer"`
	Parking     *parkingReport    `json:"parking,omitempty"`
	Rates       ratesReport       `json:"rates"`
	Stalled     float64           `json:"stalled_seconds"`
	Requests    map[string]uint64 `json:"requests"`
	Retries     map[string]uint64 `json:"retries"`
	Latency     distribution      `json:"request_seconds"`
	Fill        distribution      `json:"request_fill"`
	BodyBytes   uint64            `json:"request_body_bytes"`
	Resent      uint64            `json:"resent_requests"`
	InFlight    int               `json:"requests_in_flight"`
	Throttled   uint64            `json:"throttled_requests"`
	RateLimit   float64           `json:"request_rate_limit"`
	LaneCount   int               `json:"lanes"`
	LanesParked int               `json:"lanes_parked"`
	Lanes       []laneReport      `json:"top_lanes"`
	LastSuccess *time.Time        `json:"last_success"`
	LastError   *errorReport      `json:"last_error"`
	PausedUntil *time.Time        `json:"paused_until"`

	curves []curve // for the page
}

// bookReport is a ledger page. Reasons are all there, zeros too.
type bookReport struct {
	Admitted  uint64            `json:"admitted"`
	Delivered uint64            `json:"delivered"`
	Filtered  uint64            `json:"filtered"`
	Parked    uint64            `json:"parked"`
	Dropped   map[string]uint64 `json:"dropped"`
	Rejected  map[string]uint64 `json:"rejected"`
	Pending   int64             `json:"pending"`
	Balance   int64             `json:"balance"`
}

type bufferReport struct {
	Kind          string  `json:"kind"`
	Dir           string  `json:"dir,omitempty"`
	Bytes         int64   `json:"bytes"`
	Limit         int64   `json:"limit_bytes"`
	Segments      int     `json:"segments"`
	PendingEvents uint64  `json:"pending_events"`
	PendingBytes  uint64  `json:"pending_bytes"`
	OldestAge     float64 `json:"oldest_age_seconds"`
}

type parkingReport struct {
	Ledger bookReport   `json:"ledger"`
	Buffer bufferReport `json:"buffer"`
}

// ratesReport are averages over the last seconds, since the start at first.
type ratesReport struct {
	EventsIn  float64 `json:"events_in_per_second"`
	EventsOut float64 `json:"events_out_per_second"`
	BytesIn   float64 `json:"bytes_in_per_second"`
	BytesOut  float64 `json:"bytes_out_per_second"`
}

// distribution describes the values of the last minutes, or of all if there were none
// lately; Count and Mean are of all.
type distribution struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Mean  float64 `json:"mean"`
	Count uint64  `json:"count"`
}

type laneReport struct {
	Name      string `json:"name"`
	Events    int    `json:"events"`
	Bytes     int    `json:"bytes"`
	Delivered uint64 `json:"delivered"`
	Attempts  int    `json:"failed_attempts"`
	LastError string `json:"last_error,omitempty"`
	Parked    bool   `json:"parked"`
}

type errorReport struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// report works out the present status.
func (h *Handler) report() *report {
	s, now := h.status(), h.o.Now()
	r := &report{
		Version: h.o.Version, Phase: s.Phase.String(), NotReady: s.notReady(), Time: now, Started: h.o.Started,
		Uptime: now.Sub(h.o.Started).Seconds(), Config: s.Config, Loaded: stamp(s.Loaded), Unmatched: s.Unmatched,
		Inputs: []inputReport{}, Outputs: []outputReport{},
	}
	if r.NotReady == nil {
		r.NotReady = []string{}
	}
	r.Ready = len(r.NotReady) == 0
	short, long := h.since(now, rateOver), h.since(now, recently)
	for i := range s.Inputs {
		r.Inputs = append(r.Inputs, inputOf(&s.Inputs[i], short, now))
	}
	for i := range s.Filters {
		r.Filters = append(r.Filters, filterReport{s.Filters[i].ID, s.Filters[i].Held})
	}
	all := h.history.all()
	for i := range s.Outputs {
		o := outputOf(&s.Outputs[i], short, long, now)
		o.curves = curvesOf(o.ID, all)
		r.Outputs = append(r.Outputs, o)
	}
	for i := range s.Containers {
		r.Containers = append(r.Containers, containerOf(&s.Containers[i], now))
	}
	r.Findings = findingsOf(&s, long, now)
	return r
}

// since gives the sample to compare with; before there is one, the start, when all was 0.
func (h *Handler) since(now time.Time, age time.Duration) sample {
	s := h.history.before(now, age)
	if s.at.IsZero() || now.Sub(s.at) < time.Second {
		return sample{at: h.o.Started}
	}
	return s
}

func inputOf(in *InputStatus, short sample, now time.Time) inputReport {
	return inputReport{
		ID: in.ID, Type: in.Type, Address: in.Address, Listening: in.Listening, Error: in.Error, Connections: in.Connections,
		Events: in.Events, Rate: rate(in.Events, short.inputs[in.ID], now.Sub(short.at)), Bytes: in.Bytes, Refused: in.Refused,
		Lost: in.Lost, Malformed: in.Malformed, Acks: in.Acks, Repeats: in.Repeats, Ack: distributionOf(&in.AckLatency, nil),
	}
}

func outputOf(o *OutputStatus, short, long sample, now time.Time) outputReport {
	then, over := short.outputs[o.ID], now.Sub(short.at)
	lately := long.outputs[o.ID]
	r := outputReport{
		ID: o.ID, Type: o.Type, Detail: o.Detail, Fault: o.Fault,
		Ledger: bookOf(&o.Sheet, o.Balance), Buffer: bufferOf(&o.Buffer, now), Stalled: o.stalled(now).Seconds(),
		Rates: ratesReport{
			EventsIn: rate(o.Sheet.Admitted, then.in, over), EventsOut: rate(o.delivered(), then.out, over),
			BytesIn: rate(o.BytesIn, then.bytesIn, over), BytesOut: rate(o.BytesOut, then.bytes, over),
		},
		Requests: copied(o.Puts), Retries: copied(o.Retries),
		Latency: distributionOf(&o.Latency, &lately.latency), Fill: distributionOf(&o.Fill, &lately.fill),
		BodyBytes: o.BodyBytes, Resent: o.Resent, InFlight: o.InFlight, Throttled: o.Throttled, RateLimit: o.RateLimit,
		LaneCount: o.LaneCount, LanesParked: o.LanesParked, Lanes: make([]laneReport, 0, len(o.Lanes)),
		LastSuccess: stamp(o.LastSuccess), PausedUntil: stamp(o.PausedUntil),
	}
	if p := o.Parking; p != nil {
		r.Parking = &parkingReport{Ledger: bookOf(&p.Sheet, p.Balance), Buffer: bufferOf(&p.Buffer, now)}
	}
	if o.LastError != "" {
		r.LastError = &errorReport{Text: o.LastError, At: o.LastErrorAt}
	}
	for i := range o.Lanes {
		r.Lanes = append(r.Lanes, laneReport(o.Lanes[i]))
	}
	return r
}

func bookOf(s *ledger.Sheet, balance int64) bookReport {
	b := bookReport{Admitted: s.Admitted, Delivered: s.Delivered, Filtered: s.Filtered, Parked: s.Moved,
		Dropped: map[string]uint64{}, Rejected: map[string]uint64{}, Pending: s.Pending(), Balance: balance}
	for _, r := range ledger.ReasonsOf(ledger.Dropped) {
		b.Dropped[r.String()] = s.Dropped[r]
	}
	for _, r := range ledger.ReasonsOf(ledger.Rejected) {
		b.Rejected[r.String()] = s.Rejected[r]
	}
	return b
}

func bufferOf(b *BufferStatus, now time.Time) bufferReport {
	return bufferReport{Kind: b.Kind, Dir: b.Dir, Bytes: b.Bytes, Limit: b.Limit, Segments: b.Segments,
		PendingEvents: b.PendingEvents, PendingBytes: b.PendingBytes, OldestAge: b.age(now).Seconds()}
}

func distributionOf(h, before *Histogram) distribution {
	if before != nil && before.Count() == h.Count() {
		before = nil // nothing lately: better old figures than none
	}
	d := distribution{P50: h.quantile(0.5, before), P99: h.quantile(0.99, before), Count: h.Count()}
	if d.Count > 0 {
		d.Mean = h.Sum / float64(d.Count)
	}
	return d
}

func copied(m map[string]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
