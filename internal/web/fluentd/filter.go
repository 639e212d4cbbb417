package fluentd

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
)

// Filter is <filter> @type prometheus: it counts events and passes them on. It implements
// filter.Filter.
type Filter struct{ counts []*count }

// count is one <metric> of a filter.
type count struct {
	metric *metric
	key    event.Path
	keyed  bool
	labels []label
	record bool // some label is read from the record

	mu     sync.RWMutex       // guards series
	series map[string]*series // by label values, joined
}

// NewFilter builds a filter from its section. Mistakes are noted in d; the result is then nil.
func (r *Registry) NewFilter(s *fluentconf.Section, d *config.Diagnostics) *Filter {
	before := len(d.Errors)
	var p FilterParams
	config.Decode(s, &p, d)
	sections := s.All("metric")
	f := &Filter{}
	for i := range p.Metrics {
		m := &p.Metrics[i]
		c := &count{series: map[string]*series{}, labels: r.labelsOf(d, p.Labels, m.Labels)}
		if m.Key != "" {
			path, err := event.ParsePath(m.Key)
			if err != nil {
				d.Error(sections[i].Pos, fmt.Sprintf("key %q: %v", m.Key, err), "write a field's name, or $.a.b")
			}
			c.key, c.keyed = path, true
		} else if m.Type != "counter" {
			d.Error(sections[i].Pos, "a "+m.Type+" needs a field with its value", "add key, or make it a counter of events")
		}
		var names []string
		for _, l := range c.labels {
			names = append(names, l.name)
			c.record = c.record || l.record
		}
		if len(d.Errors) > before {
			continue
		}
		var err error
		if c.metric, err = r.metric(m, names); err != nil {
			d.Error(sections[i].Pos, err.Error(), "give it another name, or the same type and labels")
			continue
		}
		f.counts = append(f.counts, c)
		c.initialize(m, r.hostname)
	}
	if len(d.Errors) > before {
		return nil
	}
	return f
}

// initialize shows what is asked to be shown before the first event.
func (c *count) initialize(m *MetricParams, hostname string) {
	if !m.Initialized {
		return
	}
	if len(c.labels) == 0 {
		c.metric.with(nil)
	}
	for _, s := range m.InitLabels {
		values := prometheus.Labels{}
		for _, l := range c.labels {
			values[l.name] = ""
			if prm := s.Get(l.name); prm != nil {
				values[l.name] = expandStatic(prm.Value.Text, hostname)
			}
		}
		c.metric.with(values)
	}
}

// Apply implements filter.Filter. Where labels depend on the tag only there is one lookup
// for a batch, and without a key no event is looked at.
func (f *Filter) Apply(s *filter.Scratch, tag string, src, _ []byte) (out []byte, kept, failed int) {
	for _, c := range f.counts {
		kept = c.apply(s, tag, src)
	}
	if len(f.counts) == 0 {
		kept, _, _, _, _ = event.Check(src)
	}
	return src, kept, 0
}

func (c *count) apply(s *filter.Scratch, tag string, src []byte) (n int) {
	fixed := make([]string, len(c.labels)) // values that are the same for the whole batch
	for i := range c.labels {
		if l := &c.labels[i]; !l.record {
			fixed[i] = l.text.expand(tag)
		}
	}
	var in *series
	if !c.record {
		in = c.find(s, fixed, nil)
	}
	sum := 0
	for b := src; len(b) > 0; n++ {
		e, size, err := event.Next(b)
		if err != nil {
			break
		}
		b = b[size:]
		v := 1.0
		if c.keyed {
			var ok bool
			if v, ok = number(s, c.key, e.Record); !ok {
				continue
			}
		} else if !c.record {
			sum++
			continue
		}
		if c.record {
			in = c.find(s, fixed, e.Record)
		}
		if in != nil {
			in.add(v)
		}
	}
	if sum > 0 && in != nil {
		in.add(float64(sum))
	}
	return n
}

// find gives the series for the labels of an event; nil beyond maxSeries.
func (c *count) find(s *filter.Scratch, fixed []string, record []byte) *series {
	key := s.Buf[:0]
	for i := range c.labels {
		if l := &c.labels[i]; !l.record {
			key = append(key, fixed[i]...)
		} else if v, ok := l.path.Find(record); ok {
			key = event.AppendText(key, v)
		}
		key = append(key, 0)
	}
	s.Buf = key
	c.mu.RLock()
	in := c.series[string(key)]
	c.mu.RUnlock()
	if in != nil {
		return in
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in = c.series[string(key)]; in != nil || len(c.series) >= maxSeries {
		return in
	}
	values := prometheus.Labels{}
	for i := range c.labels {
		l := &c.labels[i]
		values[l.name] = fixed[i]
		if !l.record {
			continue
		}
		if v, ok := l.path.Find(record); ok {
			values[l.name] = string(event.AppendText(nil, v))
		}
	}
	made := c.metric.with(values)
	c.series[string(key)] = &made
	return &made
}

// number reads a field's value as a number; texts that hold one count, as in Ruby.
func number(s *filter.Scratch, p event.Path, record []byte) (float64, bool) {
	v, ok := p.Find(record)
	if !ok {
		return 0, false
	}
	s.Buf = event.AppendText(s.Buf[:0], v)
	f, err := strconv.ParseFloat(string(s.Buf), 64)
	return f, err == nil && !math.IsNaN(f)
}
