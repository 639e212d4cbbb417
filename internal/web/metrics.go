package web

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/ledger"
	"weir/internal/output"
)

// family describes one metric. docs/metrics.md lists them all; a test compares.
type family struct {
	name, kind string // kind: counter, gauge or histogram
	labels     []string
	help       string
}

// families lists all metrics of weir itself, in the order of the document. Labels have a
// bounded number of values: ids come from the configuration, reasons and kinds from fixed
// lists.
func families() []family {
	in, out := []string{"input"}, []string{"output"}
	book := []string{"output", "book"}
	reason := []string{"output", "book", "reason"}
	container, lostBy := []string{"container", "name"}, []string{"container", "name", "reason"}
	return []family{
		{"weir_build_info", "gauge", []string{"version", "goversion"}, "Always 1; the version is in the labels."},
		{"weir_ready", "gauge", nil, "1 if /readyz says so: all inputs take events and all outputs can store them."},
		{"weir_uptime_seconds", "gauge", nil, "Time since the start."},
		{"weir_config_loaded_timestamp_seconds", "gauge", nil, "When the configuration in force was read."},
		{"weir_unmatched_events_total", "counter", nil, "Events for whose tag there is no match section."},

		{"weir_input_info", "gauge", []string{"input", "type"}, "Always 1; the type of an input is in the labels."},
		{"weir_input_listening", "gauge", in, "1 if the input takes events."},
		{"weir_input_connections", "gauge", in, "Connections open now."},
		{"weir_input_events_total", "counter", in, "Events accepted."},
		{"weir_input_bytes_total", "counter", in, "Bytes read."},
		{"weir_input_refused_total", "counter", in, "Messages that a full buffer refused; the sender keeps them."},
		{"weir_input_lost_events_total", "counter", in, "Events of refused messages whose sender cannot keep them."},
		{"weir_input_malformed_total", "counter", in, "Messages or connections that were not understood."},
		{"weir_input_acks_total", "counter", in, "Acknowledgements sent."},
		{"weir_input_repeats_total", "counter", in, "Messages that a client sent twice and that were taken once."},
		{"weir_input_ack_seconds", "histogram", in, "Time from the arrival of a message to its acknowledgement."},

		{"weir_filter_held_events", "gauge", []string{"filter"}, "Events that a filter (concat, detect_exceptions) has taken and not passed on yet. They are in no book."},

		{"weir_output_info", "gauge", []string{"output", "type"}, "Always 1; the type of an output is in the labels."},
		{"weir_output_admitted_events_total", "counter", book, "Events given to the output; in the book of the parking lot those parked."},
		{"weir_output_admitted_bytes_total", "counter", out, "Bytes of events given to the output, before filters."},
		{"weir_output_delivered_events_total", "counter", book, "Events that the destination accepted."},
		{"weir_output_delivered_bytes_total", "counter", out, "Bytes of those events."},
		{"weir_output_filtered_events_total", "counter", book, "Events that the configuration sent no further."},
		{"weir_output_parked_events_total", "counter", out, "Events moved to the parking lot, in whose book they go on."},
		{"weir_output_dropped_events_total", "counter", reason, "Events that weir lost or gave up."},
		{"weir_output_rejected_events_total", "counter", reason, "Events that cannot be delivered: the service or its rules refuse them."},
		{"weir_output_pending_events", "gauge", book, "Events that wait or are under way."},
		{"weir_output_balance_events", "gauge", book, "Admitted less all that has ended less pending. Anything but 0 is a bug in weir."},
		{"weir_output_oldest_pending_age_seconds", "gauge", book, "Age, since its acceptance, of the oldest event that waits."},
		{"weir_output_stalled_seconds", "gauge", out, "Time without an accepted request while events wait."},
		{"weir_output_fault", "gauge", out, "1 if the output cannot store events."},

		{"weir_output_requests_total", "counter", []string{"output", "outcome"}, "Requests by outcome: accepted, or the kind of failure."},
		{"weir_output_request_seconds", "histogram", out, "Time from sending a request to its answer."},
		{"weir_output_request_fill_ratio", "histogram", out, "How full accepted requests were, from 0 to 1."},
		{"weir_output_request_body_bytes_total", "counter", out, "Bytes of request bodies sent."},
		{"weir_output_resent_requests_total", "counter", out, "Requests that may repeat an accepted one, whose answer was lost."},
		{"weir_output_retries_total", "counter", []string{"output", "kind"}, "Attempts after a failure, by its kind."},
		{"weir_output_requests_in_flight", "gauge", out, "Requests under way."},
		{"weir_output_throttled_total", "counter", out, "Requests that were answered with: too many."},
		{"weir_output_request_rate_limit", "gauge", out, "Requests a second that the throttle control allows; 0 if it does not limit."},
		{"weir_output_lanes", "gauge", out, "Streams or files in use."},
		{"weir_output_lanes_parked", "gauge", out, "Of them, those whose events wait in the parking lot."},

		{"weir_buffer_bytes", "gauge", book, "Size of the buffer."},
		{"weir_buffer_limit_bytes", "gauge", book, "Its limit, total_limit_size."},
		{"weir_buffer_segments", "gauge", book, "Segments in the buffer."},
		{"weir_buffer_pending_bytes", "gauge", book, "Bytes of events that wait, approximately."},

		{"weir_container_info", "gauge", []string{"container", "name", "output", "group", "stream"}, "Always 1; where the events of a container go is in the labels."},
		{"weir_container_sessions", "gauge", container, "Pipes of the container that are read."},
		{"weir_container_admitted_events_total", "counter", container, "Events of the container, since its spool was made."},
		{"weir_container_delivered_events_total", "counter", container, "Events that the service accepted."},
		{"weir_container_dropped_events_total", "counter", lostBy, "Events that were lost or given up. Reasons that have happened."},
		{"weir_container_rejected_events_total", "counter", lostBy, "Events that the service or its rules refuse. Reasons that have happened."},
		{"weir_container_pending_events", "gauge", container, "Events that wait or are under way."},
		{"weir_container_balance_events", "gauge", container, "Admitted less all that has ended less pending. Anything but 0 is a bug in weir."},
		{"weir_container_oldest_pending_age_seconds", "gauge", container, "Age, since its acceptance, of the oldest event that waits."},
		{"weir_container_spool_bytes", "gauge", container, "Size of the container's spool."},
		{"weir_container_spool_limit_bytes", "gauge", container, "Its limit, weir-buffer-size."},
		{"weir_container_untold_gaps", "gauge", container, "Losses of which the log stream is still to be told."},
		{"weir_container_notices_total", "counter", container, "Notices of losses that the log stream has taken, since the start."},
		{"weir_container_noticed_events_total", "counter", container, "Lost events of which they told."},
		{"weir_container_fault", "gauge", container, "1 if events of the container cannot be stored."},
	}
}

// collector turns a Status into metrics when it is scraped, so that counting costs nothing
// else. It implements prometheus.Collector.
type collector struct {
	status  func() Status
	now     func() time.Time
	version string
	started time.Time
	extra   func() []prometheus.Collector
	descs   map[string]desc
}

type desc struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func newCollector(status func() Status, o *Options, started time.Time) *collector {
	c := &collector{status: status, now: o.Now, version: o.Version, started: started, extra: o.Collectors, descs: map[string]desc{}}
	for _, f := range families() {
		d := desc{Desc: prometheus.NewDesc(f.name, f.help, f.labels, nil), kind: prometheus.GaugeValue}
		if f.kind == "counter" {
			d.kind = prometheus.CounterValue
		}
		c.descs[f.name] = d
	}
	return c
}

// Describe sends nothing: what there is depends on the configuration, which a reload
// changes. The registry then checks each scrape instead.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s, now := c.status(), c.now()
	w := writer{c: c, ch: ch, now: now}
	ready := len(s.notReady()) == 0
	w.set("weir_build_info", 1, c.version, runtime.Version())
	w.set("weir_ready", truth(ready))
	w.set("weir_uptime_seconds", now.Sub(c.started).Seconds())
	if !s.Loaded.IsZero() {
		w.set("weir_config_loaded_timestamp_seconds", float64(s.Loaded.UnixNano())/1e9)
	}
	w.set("weir_unmatched_events_total", float64(s.Unmatched))
	seen := map[string]bool{}
	for i := range s.Inputs {
		if in := &s.Inputs[i]; !seen["i"+in.ID] { // two of one name would fail the whole scrape
			seen["i"+in.ID] = true
			w.input(in)
		}
	}
	for i := range s.Filters {
		if f := &s.Filters[i]; !seen["f"+f.ID] {
			seen["f"+f.ID] = true
			w.set("weir_filter_held_events", float64(f.Held), f.ID)
		}
	}
	for i := range s.Outputs {
		if o := &s.Outputs[i]; !seen["o"+o.ID] {
			seen["o"+o.ID] = true
			w.output(o)
		}
	}
	for i := range s.Containers {
		if o := &s.Containers[i]; !seen["c"+o.ID] {
			seen["c"+o.ID] = true
			w.container(o)
		}
	}
	if c.extra != nil {
		for _, e := range c.extra() {
			e.Collect(ch)
		}
	}
}

// writer sends the metrics of one scrape.
type writer struct {
	c   *collector
	ch  chan<- prometheus.Metric
	now time.Time
}

func (w *writer) set(name string, value float64, labels ...string) {
	d := w.c.descs[name]
	w.ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, value, labels...)
}

func (w *writer) histogram(name string, h *Histogram, labels ...string) {
	if len(h.Counts) != len(h.Bounds)+1 {
		return
	}
	buckets := make(map[float64]uint64, len(h.Bounds))
	for i, b := range h.Bounds {
		buckets[b] = h.Counts[i]
	}
	w.ch <- prometheus.MustNewConstHistogram(w.c.descs[name].Desc, h.Count(), h.Sum, buckets, labels...)
}

func (w *writer) input(in *InputStatus) {
	w.set("weir_input_info", 1, in.ID, in.Type)
	w.set("weir_input_listening", truth(in.Listening), in.ID)
	w.set("weir_input_connections", float64(in.Connections), in.ID)
	w.set("weir_input_events_total", float64(in.Events), in.ID)
	w.set("weir_input_bytes_total", float64(in.Bytes), in.ID)
	w.set("weir_input_refused_total", float64(in.Refused), in.ID)
	w.set("weir_input_lost_events_total", float64(in.Lost), in.ID)
	w.set("weir_input_malformed_total", float64(in.Malformed), in.ID)
	w.set("weir_input_acks_total", float64(in.Acks), in.ID)
	w.set("weir_input_repeats_total", float64(in.Repeats), in.ID)
	w.histogram("weir_input_ack_seconds", &in.AckLatency, in.ID)
}

func (w *writer) output(o *OutputStatus) {
	w.set("weir_output_info", 1, o.ID, o.Type)
	w.book(o.ID, "main", &o.Sheet, o.Balance, &o.Buffer)
	if p := o.Parking; p != nil {
		w.book(o.ID, "parked", &p.Sheet, p.Balance, &p.Buffer)
	}
	w.set("weir_output_admitted_bytes_total", float64(o.BytesIn), o.ID)
	w.set("weir_output_delivered_bytes_total", float64(o.BytesOut), o.ID)
	w.set("weir_output_parked_events_total", float64(o.Sheet.Moved), o.ID)
	w.set("weir_output_stalled_seconds", o.stalled(w.now).Seconds(), o.ID)
	w.set("weir_output_fault", truth(o.Fault != ""), o.ID)

	w.set("weir_output_requests_total", float64(o.Puts["accepted"]), o.ID, "accepted")
	for _, k := range output.Kinds() {
		w.set("weir_output_requests_total", float64(o.Puts[k.String()]), o.ID, k.String())
		w.set("weir_output_retries_total", float64(o.Retries[k.String()]), o.ID, k.String())
	}
	w.histogram("weir_output_request_seconds", &o.Latency, o.ID)
	w.histogram("weir_output_request_fill_ratio", &o.Fill, o.ID)
	w.set("weir_output_request_body_bytes_total", float64(o.BodyBytes), o.ID)
	w.set("weir_output_resent_requests_total", float64(o.Resent), o.ID)
	w.set("weir_output_requests_in_flight", float64(o.InFlight), o.ID)
	w.set("weir_output_throttled_total", float64(o.Throttled), o.ID)
	w.set("weir_output_request_rate_limit", o.RateLimit, o.ID)
	w.set("weir_output_lanes", float64(o.LaneCount), o.ID)
	w.set("weir_output_lanes_parked", float64(o.LanesParked), o.ID)
}

// book sends what exists once for an output and once for its parking lot.
func (w *writer) book(id, book string, s *ledger.Sheet, balance int64, b *BufferStatus) {
	w.set("weir_output_admitted_events_total", float64(s.Admitted), id, book)
	w.set("weir_output_delivered_events_total", float64(s.Delivered), id, book)
	w.set("weir_output_filtered_events_total", float64(s.Filtered), id, book)
	for _, r := range ledger.ReasonsOf(ledger.Dropped) {
		w.set("weir_output_dropped_events_total", float64(s.Dropped[r]), id, book, r.String())
	}
	for _, r := range ledger.ReasonsOf(ledger.Rejected) {
		w.set("weir_output_rejected_events_total", float64(s.Rejected[r]), id, book, r.String())
	}
	w.set("weir_output_pending_events", float64(s.Pending()), id, book)
	w.set("weir_output_balance_events", float64(balance), id, book)
	w.set("weir_output_oldest_pending_age_seconds", b.age(w.now).Seconds(), id, book)
	w.set("weir_buffer_bytes", float64(b.Bytes), id, book)
	w.set("weir_buffer_limit_bytes", float64(b.Limit), id, book)
	w.set("weir_buffer_segments", float64(b.Segments), id, book)
	w.set("weir_buffer_pending_bytes", float64(b.PendingBytes), id, book)
}

// container sends what exists for each container there is. Reasons that have not happened
// are left out: there may be many containers.
func (w *writer) container(c *ContainerStatus) {
	w.set("weir_container_info", 1, c.ID, c.Name, c.Output, c.Group, c.Stream)
	set := func(name string, v float64) { w.set(name, v, c.ID, c.Name) }
	set("weir_container_sessions", float64(c.Sessions))
	set("weir_container_admitted_events_total", float64(c.Sheet.Admitted))
	set("weir_container_delivered_events_total", float64(c.Sheet.Delivered))
	for _, r := range ledger.ReasonsOf(ledger.Dropped) {
		if n := c.Sheet.Dropped[r]; n > 0 {
			w.set("weir_container_dropped_events_total", float64(n), c.ID, c.Name, r.String())
		}
	}
	for _, r := range ledger.ReasonsOf(ledger.Rejected) {
		if n := c.Sheet.Rejected[r]; n > 0 {
			w.set("weir_container_rejected_events_total", float64(n), c.ID, c.Name, r.String())
		}
	}
	set("weir_container_pending_events", float64(c.Sheet.Pending()))
	set("weir_container_balance_events", float64(c.Balance))
	set("weir_container_oldest_pending_age_seconds", c.Buffer.age(w.now).Seconds())
	set("weir_container_spool_bytes", float64(c.Buffer.Bytes))
	set("weir_container_spool_limit_bytes", float64(c.Buffer.Limit))
	set("weir_container_untold_gaps", float64(c.Untold))
	set("weir_container_notices_total", float64(c.Notices))
	set("weir_container_noticed_events_total", float64(c.Noticed))
	set("weir_container_fault", truth(c.Fault != ""))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
