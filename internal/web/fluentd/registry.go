package fluentd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/event"
)

// Registry holds the metrics that one configuration defines: those of its monitors and of
// its prometheus filters and outputs. As in Fluentd a name means one metric, wherever it is
// defined, and its first definition fixes its type and labels.
type Registry struct {
	hostname string
	workers  bool // there are several, so that Fluentd labels its metrics with their number

	mu       sync.Mutex // guards what follows
	families []*family
	byName   map[string]*family
	monitors []*monitoring
}

// NewRegistry makes an empty Registry. hostname is what ${hostname} stands for, workers what
// <system> says.
func NewRegistry(hostname string, workers int) *Registry {
	return &Registry{hostname: hostname, workers: workers > 1, byName: map[string]*family{}}
}

// family is one metric: a name with its series.
type family struct {
	name, kind, help string
	labels           []string // in the order in which they are printed
	bounds           []float64
	le               []string     // the bounds as text
	figures          []monitored  // of a monitor's metric: computed when it is read
	mu               sync.RWMutex // guards series and order
	series           map[string]*series
	order            []*series
}

// monitored is what one monitor shows under a name.
type monitored struct {
	by    *monitoring
	value func(p *Plugin, now time.Time) (v float64, ok bool)
}

// series is one metric with label values.
type series struct {
	labels  string     // as printed, without braces
	mu      sync.Mutex // guards what follows
	value   float64    // of a counter or gauge; the sum of others
	count   float64
	buckets []float64 // how many values fell into each, the last one is without a bound
}

// maxSeries bounds the label combinations of one metric: a label that takes any value an
// event may carry must not fill the memory.
const maxSeries = 10_000

// separator stands behind each label value in the key of a series: no text has it.
const separator = 0xff

// with finds or makes the series for label values in the order of f.labels; nil beyond
// maxSeries. A new one is printed with text.
func (f *family) with(values []string, text []byte) *series {
	key := strings.Join(values, string([]byte{separator}))
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.series[key]
	if s != nil || len(f.series) >= maxSeries {
		return s
	}
	s = &series{labels: string(text)}
	if f.kind == "histogram" {
		s.buckets = make([]float64, len(f.bounds)+1)
	}
	f.series[key] = s
	f.order = append(f.order, s)
	return s
}

// add takes one value, which a counter's caller knows not to be negative.
func (f *family) add(s *series, v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.kind {
	case "gauge":
		s.value = v
		return
	case "histogram":
		i := 0
		for i < len(f.bounds) && !(f.bounds[i] >= v) {
			i++
		}
		s.buckets[i]++
	}
	s.value += v
	s.count++
}

// register adds a family. One of that name that is there already stays, and is returned
// with an error if it is not the same kind of thing.
func (r *Registry) register(f *family) (*family, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have := r.byName[f.name]; have != nil {
		if have.kind != f.kind {
			return have, fmt.Errorf("metric %s is defined before as a %s", f.name, have.kind)
		}
		if have.help != f.help {
			return have, fmt.Errorf("metric %s is defined before with another desc, %q", f.name, have.help)
		}
		return have, nil
	}
	f.series = map[string]*series{}
	r.byName[f.name] = f
	r.families = append(r.families, f)
	if len(f.labels) == 0 && f.figures == nil {
		f.with(nil, nil) // shown from the start
	}
	return f, nil
}

// Append appends the page as Fluentd's plug-in prints it: metrics in the order of their
// definition, the type before the help, labels in the order in which they are written,
// numbers as Ruby prints floats.
func (r *Registry) Append(dst []byte) []byte {
	r.mu.Lock()
	families, monitors := slices.Clone(r.families), slices.Clone(r.monitors)
	r.mu.Unlock()
	// Each monitor asks once for a page, and without a lock: who answers may be defining one.
	plugins := map[*monitoring][]Plugin{}
	for _, m := range monitors {
		plugins[m] = m.plugins()
	}
	now := time.Now()
	for _, f := range families {
		dst = fmt.Appendf(dst, "# TYPE %s %s\n# HELP %s ", f.name, f.kind, f.name)
		dst = append(appendEscaped(dst, f.help, false), '\n')
		f.mu.RLock()
		for _, s := range f.order {
			dst = f.appendSeries(dst, s)
		}
		f.mu.RUnlock()
		r.mu.Lock()
		figures := f.figures
		r.mu.Unlock()
		for _, fig := range figures {
			all := plugins[fig.by]
			for i := range all {
				if v, ok := fig.value(&all[i], now); ok {
					dst = appendLine(dst, f.name, "", string(fig.by.appendLabels(nil, &all[i])), "", v)
				}
			}
		}
	}
	return dst
}

func (f *family) appendSeries(dst []byte, s *series) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.kind {
	case "summary":
		dst = appendLine(dst, f.name, "_sum", s.labels, "", s.value)
		return appendLine(dst, f.name, "_count", s.labels, "", s.count)
	case "histogram":
		sum := 0.0
		for i, n := range s.buckets {
			le := "+Inf"
			if i < len(f.le) {
				le = f.le[i]
			}
			sum += n
			dst = appendLine(dst, f.name, "_bucket", s.labels, le, sum)
		}
		dst = appendLine(dst, f.name, "_sum", s.labels, "", s.value)
		return appendLine(dst, f.name, "_count", s.labels, "", sum)
	}
	return appendLine(dst, f.name, "", s.labels, "", s.value)
}

// appendLine appends one sample; le is the bound of a bucket, "" for none.
func appendLine(dst []byte, name, suffix, labels, le string, v float64) []byte {
	dst = append(append(dst, name...), suffix...)
	if labels != "" || le != "" {
		dst = append(append(dst, '{'), labels...)
		if le != "" {
			if labels != "" {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, `le="`...), le...), '"')
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ' ')
	return append(appendFloat(dst, v), '\n')
}

// appendFloat prints a float as Ruby does.
func appendFloat(dst []byte, v float64) []byte {
	return event.AppendInspect(dst, event.AppendFloat(nil, v))
}

// appendLabels appends name="value" pairs.
func appendLabels(dst []byte, names, values []string) []byte {
	for i, n := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, n...), `="`...)
		dst = append(appendEscaped(dst, values[i], true), '"')
	}
	return dst
}

// appendEscaped appends a text as the exposition format wants it.
func appendEscaped(dst []byte, s string, quotes bool) []byte {
	for _, c := range []byte(strings.ToValidUTF8(s, "\uFFFD")) {
		switch {
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\\' || c == '"' && quotes:
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

var (
	metricName = regexp.MustCompile(`\A[a-zA-Z_:][a-zA-Z0-9_:]*\z`)
	labelName  = regexp.MustCompile(`\A[a-zA-Z_][a-zA-Z0-9_]*\z`)
)

// checkLabel says what is wrong with the name of a label of a metric of some kind; "" for
// nothing.
func checkLabel(name, kind string) string {
	switch {
	case strings.HasPrefix(name, "__"):
		return "names that begin with __ are reserved"
	case !labelName.MatchString(name):
		return "a label's name has letters, digits and underscores only"
	case name == "pid" || name == "le" && kind == "histogram" || name == "quantile" && kind == "summary":
		return "that name is reserved"
	}
	return ""
}
