package cloudwatch

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are plain figures for the status page.
type counters struct {
	conflicts, streams, groups, createThrottled atomic.Uint64
}

// Stats is a copy of an output's figures.
type Stats struct {
	Conflicts       uint64        // sequence token conflicts answered
	StreamsCreated  uint64        //
	GroupsCreated   uint64        //
	CreateThrottled uint64        // create calls that were throttled
	Skew            time.Duration // correction of the clock used for signatures
	Credentials     string        // where they came from
}

// Stats returns the current figures.
func (o *Output) Stats() Stats {
	return Stats{
		Conflicts: o.stats.conflicts.Load(), StreamsCreated: o.stats.streams.Load(), GroupsCreated: o.stats.groups.Load(),
		CreateThrottled: o.stats.createThrottled.Load(), Skew: o.session.Skew(), Credentials: o.session.Source(),
	}
}

// Metrics are an output's Prometheus metrics: what only this kind of output has. Requests,
// their latency and fill are counted for all outputs by delivery. It implements
// prometheus.Collector.
type Metrics struct {
	o    *Output
	desc []*prometheus.Desc
}

// Metrics returns the collector to register.
func (o *Output) Metrics() *Metrics { return o.metrics }

func newMetrics(o *Output) *Metrics {
	m := &Metrics{o: o}
	for _, d := range [][2]string{
		{"weir_cloudwatch_token_conflicts_total", "Sequence token conflicts, answered within the request."},
		{"weir_cloudwatch_streams_created_total", "Log streams created."},
		{"weir_cloudwatch_groups_created_total", "Log groups created."},
		{"weir_cloudwatch_creates_throttled_total", "Create requests that were throttled."},
		{"weir_cloudwatch_clock_skew_seconds", "Correction of the clock used for signatures; 0 when it is right."},
	} {
		m.desc = append(m.desc, prometheus.NewDesc(d[0], d[1], nil, prometheus.Labels{"output": o.id}))
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.desc {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.o.Stats()
	for i, v := range []uint64{s.Conflicts, s.StreamsCreated, s.GroupsCreated, s.CreateThrottled} {
		ch <- prometheus.MustNewConstMetric(m.desc[i], prometheus.CounterValue, float64(v))
	}
	ch <- prometheus.MustNewConstMetric(m.desc[4], prometheus.GaugeValue, s.Skew.Seconds())
}
