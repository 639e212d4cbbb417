package fluentd

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
)

// Filter is <filter> @type prometheus, or what the output of that type counts: it counts
// events and passes them on. It implements filter.Filter.
type Filter struct{ counts []*count }

// count is one <metric>.
type count struct {
	family *family
	key    event.Path
	keyed  bool
	labels []label
	order  []int // label i of the family is labels[order[i]]
	record bool  // some label is read from the record

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
		if c := r.count(&p, &p.Metrics[i], sections[i], d); c != nil {
			f.counts = append(f.counts, c)
		}
	}
	if len(d.Errors) > before {
		return nil
	}
	return f
}

// count reads one <metric>; nil after an error, or if it can never count anything.
func (r *Registry) count(p *FilterParams, m *MetricParams, s *fluentconf.Section, d *config.Diagnostics) *count {
	before := len(d.Errors)
	c := &count{series: map[string]*series{}, labels: r.labelsOf(m.Type, d, p.Labels, m.Labels)}
	if m.Key != "" {
		path, err := event.ParsePath(m.Key)
		if err != nil {
			d.Error(s.Pos, "key "+strconv.Quote(m.Key)+": "+err.Error(), "write a field's name, or $.a.b")
		}
		c.key, c.keyed = path, true
	} else if m.Type != "counter" {
		d.Error(s.Pos, "a "+m.Type+" needs a field with its value", "add key, or make it a counter of events")
	}
	if !metricName.MatchString(m.Name) {
		d.Error(s.Pos, "metric "+strconv.Quote(m.Name)+": a name has letters, digits, underscores and colons only", "choose another name")
	}
	if m.Desc == "" {
		d.Error(s.Pos, "metric "+m.Name+" has an empty desc", "write what it counts")
	}
	f := &family{name: m.Name, kind: m.Type, help: m.Desc}
	for _, l := range c.labels {
		f.labels = append(f.labels, l.name)
		c.record = c.record || l.text.fields()
	}
	if m.Type == "histogram" {
		if err := f.readBuckets(m.Buckets); err != nil {
			d.Error(s.Pos, err.Error(), "write ascending numbers, separated by commas")
		}
	}
	sets := r.initial(m, c.labels, d, s.Pos)
	if len(d.Errors) > before {
		return nil
	}
	return r.join(c, f, sets, s.Pos, d)
}

// join registers the family of c, or finds that of its name.
func (r *Registry) join(c *count, f *family, sets []map[string]string, pos fluentconf.Pos, d *config.Diagnostics) *count {
	var err error
	if c.family, err = r.register(f); err != nil {
		d.Error(pos, err.Error(), "give it another name, or the same type and desc")
		return nil
	}
	at := map[string]int{}
	for i, l := range c.labels {
		at[l.name] = i
	}
	for _, name := range c.family.labels {
		i, ok := at[name]
		if !ok || len(at) != len(c.family.labels) {
			d.Warn(pos, "metric "+f.name+" is defined before with the labels "+strings.Join(c.family.labels, ", ")+": this one counts nothing, as in Fluentd", "give it another name, or the same labels")
			return nil
		}
		c.order = append(c.order, i)
	}
	if len(at) != len(c.family.labels) {
		d.Warn(pos, "metric "+f.name+" is defined before without labels: this one counts nothing, as in Fluentd", "give it another name, or no labels")
		return nil
	}
	for _, set := range sets {
		var values []string
		for _, name := range c.family.labels {
			values = append(values, set[name])
		}
		c.family.with(values, appendLabels(nil, c.family.labels, values))
	}
	return c
}

// labelsOf reads <labels> sections: later ones win, and several workers are told apart.
func (r *Registry) labelsOf(kind string, d *config.Diagnostics, outer, inner *fluentconf.Section) []label {
	var out []label
	set := func(l label) {
		for i := range out {
			if out[i].name == l.name {
				out[i] = l
				return
			}
		}
		out = append(out, l)
	}
	for i, s := range []*fluentconf.Section{outer, inner} {
		if s != nil {
			for _, prm := range s.Params {
				if wrong := checkLabel(prm.Key, kind); wrong != "" {
					d.Error(prm.Pos, "label "+prm.Key+": "+wrong, "choose another name")
					continue
				}
				text, err := parseLabel(prm.Value.Text, r.hostname)
				if err != nil {
					d.Error(prm.Value.Pos, "label "+prm.Key+": "+err.Error(), "write $.a.b")
					continue
				}
				set(label{prm.Key, text})
			}
		}
		if r.workers && i == 0 {
			set(label{"worker_id", template{{text: "0"}}})
		}
	}
	return out
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
	bound := make([]template, len(c.labels))
	for i := range c.labels {
		bound[i] = c.labels[i].text.bind(tag)
	}
	var in *series
	if !c.record && !c.keyed {
		in, _ = c.find(s, bound, nil) // once for the batch
	}
	sum := 0
	for b := src; len(b) > 0; n++ {
		e, size, err := event.Next(b)
		if err != nil {
			break
		}
		entry := b[:size]
		b = b[size:]
		v := 1.0
		if c.keyed {
			var ok bool
			if v, ok = c.value(s, tag, entry, bound, e.Record); !ok {
				continue
			}
		} else if !c.record {
			sum++
			continue
		}
		if c.record || in == nil {
			var through bool
			if in, through = c.find(s, bound, e.Record); through {
				c.fail(s, tag, entry, "a label's record accessor goes through a value that is no map")
				continue
			}
		}
		if in != nil {
			c.family.add(in, v)
		}
	}
	if sum > 0 && in != nil {
		c.family.add(in, float64(sum))
	}
	return n
}

// value reads the value of an event's field; false if there is none. What is no number goes
// to the label @ERROR too, as in Fluentd; a summary has counted it by then.
func (c *count) value(s *filter.Scratch, tag string, entry []byte, bound []template, record []byte) (float64, bool) {
	v, ok, through := c.key.Dig(record)
	if through {
		c.fail(s, tag, entry, "the record accessor goes through a value that is no map")
	}
	if !ok || len(v) == 0 || v[0] == 0xc0 || v[0] == 0xc2 && c.family.kind != "counter" {
		return 0, false
	}
	if numeric(v[0]) {
		s.Buf = event.AppendText(s.Buf[:0], v)
		f, err := strconv.ParseFloat(string(s.Buf), 64)
		if err == nil && (c.family.kind != "counter" || f >= 0) {
			return f, true
		}
	} else if c.family.kind == "summary" {
		if in, _ := c.find(s, bound, record); in != nil {
			in.mu.Lock()
			in.count++
			in.mu.Unlock()
		}
	}
	if c.family.kind == "counter" {
		c.fail(s, tag, entry, "increment must be a non-negative number")
	} else {
		c.fail(s, tag, entry, "value must be a number")
	}
	return 0, false
}

// fail tells of an event that could not be counted: the label @ERROR gets it too.
func (c *count) fail(s *filter.Scratch, tag string, entry []byte, what string) {
	if s.Errors != nil {
		s.Errors.FilterError(tag, entry, "failed to instrument metric "+c.family.name+": "+what+"; the event itself goes on")
	}
}

// numeric says whether a msgpack value is an integer or a float, by its first byte.
func numeric(c byte) bool { return c <= 0x7f || c >= 0xe0 || c >= 0xca && c <= 0xd3 }

// find gives the series for the labels of an event; nil beyond maxSeries. through says that
// a label has no value because its record accessor goes through something that is no map.
func (c *count) find(s *filter.Scratch, bound []template, record []byte) (in *series, through bool) {
	key := s.Buf[:0]
	for i := range bound {
		if key, through = bound[i].append(key, record); through {
			return nil, true
		}
		key = append(key, separator)
	}
	s.Buf = key
	c.mu.RLock()
	in = c.series[string(key)]
	c.mu.RUnlock()
	if in != nil {
		return in, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in = c.series[string(key)]; in != nil || len(c.series) >= maxSeries {
		return in, false
	}
	own := bytes.Split(key, []byte{separator}) // one more than labels
	names, texts, values := make([]string, len(c.labels)), make([]string, len(c.labels)), make([]string, 0, len(c.order))
	for i := range c.labels {
		names[i], texts[i] = c.labels[i].name, string(own[i])
	}
	for _, i := range c.order {
		values = append(values, texts[i])
	}
	if in = c.family.with(values, appendLabels(nil, names, texts)); in != nil {
		c.series[string(key)] = in
	}
	return in, false
}
