package fluentd

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
)

// initial gives the label values that a metric shows before its first event.
func (r *Registry) initial(m *MetricParams, labels []label, d *config.Diagnostics, pos fluentconf.Pos) (sets []map[string]string) {
	if !m.Initialized {
		return nil
	}
	fixed := map[string]string{} // labels that have no value of their own in <initlabels>
	open := map[string]bool{}    // those that must have one
	for _, l := range labels {
		p := l.text[0]
		switch {
		case l.text.static():
			fixed[l.name] = p.text
		case p.kind == literal:
			fixed[l.name] = l.text.source()
		default:
			open[l.name] = true
		}
	}
	for _, s := range m.InitLabels {
		set := map[string]string{}
		for _, prm := range s.Params {
			text := prm.Value.Text
			switch {
			case isAccessor(text) || strings.HasPrefix(text, "${"):
				d.Error(prm.Value.Pos, fmt.Sprintf("<initlabels> of metric %s: %s is not known before there is an event", m.Name, text), "write the value itself")
			case !open[prm.Key]:
				d.Error(prm.Pos, fmt.Sprintf("<initlabels> of metric %s: %s is no label whose value comes from events", m.Name, prm.Key), "name labels with a record accessor or a placeholder")
			}
			set[prm.Key] = text
		}
		for name, text := range fixed {
			set[name] = text
		}
		sets = append(sets, set)
	}
	for name := range open {
		known := len(sets) > 0
		for _, set := range sets {
			_, ok := set[name]
			known = known && ok
		}
		if !known {
			d.Error(pos, fmt.Sprintf("metric %s is to be shown before its first event, but an <initlabels> does not say what %s is then", m.Name, name), "add "+name+" to each <initlabels>")
		}
	}
	if len(sets) == 0 {
		sets = append(sets, fixed)
	}
	return sets
}

// source is a template as it was written.
func (t template) source() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
	}
	return b.String()
}

var floatBound = regexp.MustCompile(`\A\d+.\d+\z`)

// readBuckets reads the bounds of a histogram. As in Fluentd a bound of three digits is a
// float and one of two is not, which shows in the label le.
func (f *family) readBuckets(written *string) error {
	text := "0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10"
	if written != nil {
		text = *written
	}
	if text == "" {
		return nil // one bucket takes all
	}
	for _, word := range strings.Split(text, ",") {
		word = strings.TrimSpace(word)
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return fmt.Errorf("bucket %q is not a number", word)
		}
		le := ""
		if floatBound.MatchString(word) {
			le = string(event.AppendText(nil, event.AppendFloat(nil, v)))
		} else {
			whole := int64(v) // what Ruby's to_i makes of it
			v, le = float64(whole), strconv.FormatInt(whole, 10)
		}
		if n := len(f.bounds); n > 0 && v <= f.bounds[n-1] {
			if v < f.bounds[n-1] {
				return fmt.Errorf("buckets have to ascend, %q does not", text)
			}
			continue
		}
		f.bounds, f.le = append(f.bounds, v), append(f.le, le)
	}
	return nil
}
