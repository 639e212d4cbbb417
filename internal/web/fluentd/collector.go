package fluentd

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/web"
)

// Monitor is what one prometheus_output_monitor or prometheus_monitor shows.
type Monitor struct {
	Old      bool              // prometheus_monitor: the names before fluentd_output_status_…
	GaugeAll bool              // everything is a gauge
	Labels   map[string]string // of all series
}

// figure is one metric of Fluentd and where its value comes from.
type figure struct {
	name, help string
	counter    bool // when not everything is a gauge
	value      func(o *web.OutputStatus, now time.Time) (v float64, ok bool)
}

func always(f func(o *web.OutputStatus) float64) func(*web.OutputStatus, time.Time) (float64, bool) {
	return func(o *web.OutputStatus, _ time.Time) (float64, bool) { return f(o), true }
}

// failures are finished requests that were errors. A sequence token conflict is not: it is
// how writers of one stream take turns.
func failures(o *web.OutputStatus) float64 {
	n := uint64(0)
	for outcome, count := range o.Puts {
		if outcome != "accepted" && outcome != "conflict" {
			n += count
		}
	}
	return float64(n)
}

// waiting are lanes with events, and their bytes: Fluentd's staged chunks.
func waiting(o *web.OutputStatus) float64 {
	if o.Buffer.PendingEvents == 0 {
		return 0
	}
	return float64(max(o.LaneCount-o.InFlight, 1))
}

// window gives the start of the oldest (0) or newest (1) timekey window with waiting events.
func window(i int) func(*web.OutputStatus, time.Time) (float64, bool) {
	return func(o *web.OutputStatus, _ time.Time) (float64, bool) {
		w := o.Buffer.Windows[i]
		return float64(w.Unix()), !w.IsZero()
	}
}

func retryWait(o *web.OutputStatus, now time.Time) (float64, bool) {
	if o.PausedUntil.After(now) {
		return o.PausedUntil.Sub(now).Seconds(), true
	}
	return 0, true
}

// outputFigures are those of prometheus_output_monitor. What has no counterpart here is
// mapped to what it is used for on dashboards: chunks in the stage are lanes that wait,
// chunks in the queue are requests in flight.
func outputFigures() []figure {
	const p = "fluentd_output_status_"
	return []figure{
		{p + "buffer_total_bytes", "Current total size of stage and queue buffers.", false, always(func(o *web.OutputStatus) float64 { return float64(o.Buffer.PendingBytes) })},
		{p + "buffer_stage_length", "Current length of stage buffers.", false, always(waiting)},
		{p + "buffer_stage_byte_size", "Current total size of stage buffers.", false, always(func(o *web.OutputStatus) float64 { return float64(o.Buffer.PendingBytes) })},
		{p + "buffer_queue_length", "Current length of queue buffers.", false, always(func(o *web.OutputStatus) float64 { return float64(o.InFlight) })},
		{p + "buffer_queue_byte_size", "Current total size of queue buffers.", false, always(func(*web.OutputStatus) float64 { return 0 })},
		{p + "buffer_available_space_ratio", "Ratio of available space in buffer.", false, always(func(o *web.OutputStatus) float64 {
			if o.Buffer.Limit <= 0 {
				return 100
			}
			ratio := 100 * float64(o.Buffer.Limit-o.Buffer.Bytes) / float64(o.Buffer.Limit)
			return float64(int(max(ratio, 0)*10)) / 10
		})},
		{p + "buffer_newest_timekey", "Newest timekey in buffer.", false, window(1)},
		{p + "buffer_oldest_timekey", "Oldest timekey in buffer.", false, window(0)},
		{p + "retry_count", "Current retry counts.", true, always(failures)},
		{p + "num_errors", "Current number of errors.", true, always(failures)},
		{p + "emit_count", "Current emit counts.", true, always(func(o *web.OutputStatus) float64 { return float64(o.Emits) })},
		{p + "emit_records", "Current emit records.", true, always(func(o *web.OutputStatus) float64 { return float64(o.Sheet.Admitted) })},
		{p + "write_count", "Current write counts.", true, always(func(o *web.OutputStatus) float64 { return float64(o.Puts["accepted"]) + failures(o) })},
		{p + "rollback_count", "Current rollback counts.", false, always(failures)},
		{p + "flush_time_count", "Total flush time in milliseconds.", true, always(func(o *web.OutputStatus) float64 { return float64(int64(o.Latency.Sum * 1000)) })},
		{p + "slow_flush_count", "Current slow flush counts.", true, always(func(o *web.OutputStatus) float64 { return float64(o.SlowFlushes) })},
		{p + "retry_wait", "Current retry wait.", false, retryWait},
	}
}

// oldFigures are those of prometheus_monitor.
func oldFigures() []figure {
	return []figure{
		{"fluentd_status_buffer_queue_length", "Current buffer queue length.", false, always(func(o *web.OutputStatus) float64 { return float64(o.InFlight) })},
		{"fluentd_status_buffer_total_bytes", "Current total size of queued buffers.", false, always(func(o *web.OutputStatus) float64 { return float64(o.Buffer.PendingBytes) })},
		{"fluentd_status_buffer_newest_timekey", "Newest timekey in buffer.", false, window(1)},
		{"fluentd_status_buffer_oldest_timekey", "Oldest timekey in buffer.", false, window(0)},
		{"fluentd_status_retry_count", "Current retry counts.", false, always(failures)},
	}
}

// Collector gives the metrics of a Monitor. It implements prometheus.Collector.
type Collector struct {
	source  web.Source
	m       Monitor
	figures []figure
	descs   []*prometheus.Desc
	now     func() time.Time
}

// NewCollector makes a Collector over source.
func NewCollector(source web.Source, m Monitor) *Collector {
	c := &Collector{source: source, m: m, figures: outputFigures(), now: time.Now}
	variable := []string{"plugin_id", "type"}
	if m.Old {
		c.figures, variable = oldFigures(), []string{"plugin_id", "plugin_category", "type"}
	}
	for _, f := range c.figures {
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, variable, m.Labels))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.source.Status()
	now := c.now()
	for i := range s.Outputs {
		o := &s.Outputs[i]
		if o.Buffer.Kind == "" {
			continue // Fluentd shows buffered outputs only
		}
		labels := []string{o.ID, o.Type}
		if c.m.Old {
			labels = []string{o.ID, "output", o.Type}
		}
		for j, f := range c.figures {
			v, ok := f.value(o, now)
			if !ok {
				continue
			}
			kind := prometheus.GaugeValue
			if f.counter && !c.m.GaugeAll {
				kind = prometheus.CounterValue
			}
			ch <- prometheus.MustNewConstMetric(c.descs[j], kind, v, labels...)
		}
	}
}

// expandStatic fills in the placeholders that a monitor's labels may have.
func expandStatic(text, hostname string) string {
	return strings.NewReplacer("${hostname}", hostname, "${worker_id}", "0").Replace(text)
}
