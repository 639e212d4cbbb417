package cloudwatch

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/awsx"
	"weir/internal/output"
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

// Metrics are an output's Prometheus metrics. It implements prometheus.Collector.
type Metrics struct {
	o        *Output
	puts     []prometheus.Counter // by outcome: accepted, then output.Kinds
	latency  prometheus.Histogram
	fill     prometheus.Histogram
	describe []*prometheus.Desc
}

// Metrics returns the collector to register.
func (o *Output) Metrics() *Metrics { return o.metrics }

func newMetrics(o *Output) *Metrics {
	labels := prometheus.Labels{"output": o.id}
	m := &Metrics{o: o}
	counter := func(outcome string) {
		m.puts = append(m.puts, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_cloudwatch_puts_total", Help: "PutLogEvents requests by outcome.",
			ConstLabels: prometheus.Labels{"output": o.id, "outcome": outcome},
		}))
	}
	counter("accepted")
	for _, k := range output.Kinds() {
		counter(k.String())
	}
	m.latency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "weir_cloudwatch_put_seconds", Help: "Time from sending a PutLogEvents request to its answer.", ConstLabels: labels,
		Buckets: []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60},
	})
	m.fill = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "weir_cloudwatch_batch_fill", Help: "How full requests were, from 0 to 1.", ConstLabels: labels,
		Buckets: []float64{.001, .01, .05, .1, .25, .5, .75, .9, .99, 1},
	})
	for _, d := range [][2]string{
		{"weir_cloudwatch_token_conflicts_total", "Sequence token conflicts, answered within the request."},
		{"weir_cloudwatch_streams_created_total", "Log streams created."},
		{"weir_cloudwatch_groups_created_total", "Log groups created."},
		{"weir_cloudwatch_creates_throttled_total", "Create requests that were throttled."},
		{"weir_cloudwatch_clock_skew_seconds", "Correction of the clock used for signatures; 0 when it is right."},
	} {
		m.describe = append(m.describe, prometheus.NewDesc(d[0], d[1], nil, labels))
	}
	return m
}

// put counts one attempt.
func (m *Metrics) put(err error, a *reply, took time.Duration, fill float64) {
	m.latency.Observe(took.Seconds())
	m.fill.Observe(fill)
	var f *failure
	switch {
	case errors.As(err, &f):
		m.puts[1+int(f.kind)].Inc()
	case err != nil:
		m.puts[1+int(output.Unavailable)].Inc()
	case a.status/100 == 2:
		m.puts[0].Inc()
	default:
		m.puts[1+int(awsx.Classify(a.status, a.code))].Inc()
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.puts {
		ch <- c
	}
	ch <- m.latency
	ch <- m.fill
	s := m.o.Stats()
	for i, v := range []float64{float64(s.Conflicts), float64(s.StreamsCreated), float64(s.GroupsCreated), float64(s.CreateThrottled)} {
		ch <- prometheus.MustNewConstMetric(m.describe[i], prometheus.CounterValue, v)
	}
	ch <- prometheus.MustNewConstMetric(m.describe[4], prometheus.GaugeValue, s.Skew.Seconds())
}
