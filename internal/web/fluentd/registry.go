package fluentd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// Registry holds the metrics that one configuration defines: those of its monitors and of
// its prometheus filters. As in Fluentd a name means one metric, wherever it is defined, and
// its first definition fixes its type and labels.
type Registry struct {
	reg      *prometheus.Registry
	hostname string
	vecs     map[string]*metric
}

// NewRegistry makes an empty Registry. hostname is what ${hostname} stands for.
func NewRegistry(hostname string) *Registry {
	return &Registry{reg: prometheus.NewRegistry(), hostname: hostname, vecs: map[string]*metric{}}
}

// Monitor adds a monitor of outputs.
func (r *Registry) Monitor(c *Collector) error {
	err := r.reg.Register(c)
	var again prometheus.AlreadyRegisteredError
	if errors.As(err, &again) {
		return nil // two monitors with the same labels show the same
	}
	return err
}

// MonitorOf reads the labels of a monitor's section.
func (r *Registry) MonitorOf(p *MonitorParams, old bool, d *config.Diagnostics) Monitor {
	m := Monitor{Old: old, GaugeAll: p.GaugeAll, Labels: map[string]string{}}
	if p.Labels == nil {
		return m
	}
	for _, prm := range p.Labels.Params {
		if strings.HasPrefix(prm.Value.Text, "$.") || strings.HasPrefix(prm.Value.Text, "$[") {
			d.Error(prm.Value.Pos, "a monitor has no records: a record accessor means nothing here", "write a text, ${hostname} or ${worker_id}")
			continue
		}
		m.Labels[prm.Key] = expandStatic(prm.Value.Text, r.hostname)
	}
	return m
}

// maxSeries bounds the label combinations of one metric: a label that takes any value an
// event may carry must not fill the memory.
const maxSeries = 10_000

// metric is one metric of prometheus filters.
type metric struct {
	kind      string
	labels    []string
	counter   *prometheus.CounterVec
	gauge     *prometheus.GaugeVec
	summary   *prometheus.SummaryVec
	histogram *prometheus.HistogramVec
}

func (r *Registry) metric(p *MetricParams, labels []string) (*metric, error) {
	slices.Sort(labels)
	if m := r.vecs[p.Name]; m != nil {
		if m.kind != p.Type || !slices.Equal(m.labels, labels) {
			return nil, fmt.Errorf("metric %s is defined before as a %s with the labels %v", p.Name, m.kind, m.labels)
		}
		return m, nil
	}
	m := &metric{kind: p.Type, labels: labels}
	var c prometheus.Collector
	switch p.Type {
	case "counter":
		m.counter = prometheus.NewCounterVec(prometheus.CounterOpts{Name: p.Name, Help: p.Desc}, labels)
		c = m.counter
	case "gauge":
		m.gauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: p.Name, Help: p.Desc}, labels)
		c = m.gauge
	case "summary":
		m.summary = prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: p.Name, Help: p.Desc}, labels)
		c = m.summary
	case "histogram":
		buckets, err := bucketsOf(p.Buckets)
		if err != nil {
			return nil, err
		}
		m.histogram = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: p.Name, Help: p.Desc, Buckets: buckets}, labels)
		c = m.histogram
	}
	if err := r.reg.Register(c); err != nil {
		return nil, fmt.Errorf("metric %s: %w", p.Name, err)
	}
	r.vecs[p.Name] = m
	return m, nil
}

func bucketsOf(text string) ([]float64, error) {
	if text == "" {
		return prometheus.DefBuckets, nil
	}
	var out []float64
	for _, f := range strings.Split(text, ",") {
		var v float64
		if _, err := fmt.Sscanf(strings.TrimSpace(f), "%g", &v); err != nil {
			return nil, fmt.Errorf("bucket %q is not a number", strings.TrimSpace(f))
		}
		if len(out) > 0 && v <= out[len(out)-1] {
			return nil, fmt.Errorf("buckets have to ascend, %q does not", text)
		}
		out = append(out, v)
	}
	return out, nil
}

// series is one metric with label values, ready to be added to.
type series struct {
	counter  prometheus.Counter
	gauge    prometheus.Gauge
	observer prometheus.Observer
}

func (m *metric) with(values prometheus.Labels) series {
	switch m.kind {
	case "counter":
		return series{counter: m.counter.With(values)}
	case "gauge":
		return series{gauge: m.gauge.With(values)}
	case "summary":
		return series{observer: m.summary.With(values)}
	}
	return series{observer: m.histogram.With(values)}
}

// add takes one value; a counter cannot go down, so a negative value is left out.
func (s *series) add(v float64) {
	switch {
	case s.counter != nil:
		if v >= 0 {
			s.counter.Add(v)
		}
	case s.gauge != nil:
		s.gauge.Set(v)
	default:
		s.observer.Observe(v)
	}
}

// label is one label of a filter's metric and where its value comes from.
type label struct {
	name string
	path event.Path // of the record, if record
	text template   // else
	// record says that the value differs from event to event.
	record bool
}

func (r *Registry) labelsOf(d *config.Diagnostics, sections ...*fluentconf.Section) []label {
	var out []label
	for _, s := range sections {
		if s == nil {
			continue
		}
		for _, prm := range s.Params {
			l := label{name: prm.Key}
			text := prm.Value.Text
			if inside, ok := strings.CutPrefix(text, "${"); ok && strings.HasSuffix(inside, "}") && !reserved(strings.TrimSuffix(inside, "}")) {
				text = strings.TrimSuffix(inside, "}") // ${key}: a field of the record
				l.record = true
			}
			if strings.HasPrefix(text, "$") || l.record {
				p, err := event.ParsePath(text)
				if err != nil && l.record || err != nil && !strings.HasPrefix(text, "${") {
					d.Error(prm.Value.Pos, fmt.Sprintf("label %s: %v", prm.Key, err), "write $.a.b")
					continue
				}
				if err == nil && !strings.HasPrefix(text, "${") {
					l.path, l.record = p, true
					out = append(out, l)
					continue
				}
			}
			l.text = parseTemplate(prm.Value.Text, r.hostname)
			out = append(out, l)
		}
	}
	return out
}
