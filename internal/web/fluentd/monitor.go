package fluentd

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/web"
)

// Monitor is what a prometheus_output_monitor, prometheus_monitor or prometheus_tail_monitor
// shows.
type Monitor struct {
	Type     string
	GaugeAll bool        // everything is a gauge
	Labels   [][2]string // of all series, in this order
}

// monitoring is a registered Monitor.
type monitoring struct {
	Monitor
	plugins func() []Plugin
}

// appendLabels appends the labels of a plug-in's series.
func (m *monitoring) appendLabels(dst []byte, p *Plugin) []byte {
	var names, values []string
	set := func(name, value string) {
		if i := slices.Index(names, name); i >= 0 {
			values[i] = value
			return
		}
		names, values = append(names, name), append(values, value)
	}
	for _, l := range m.Labels {
		set(l[0], l[1])
	}
	set("plugin_id", p.ID)
	if m.Type == "prometheus_monitor" {
		set("plugin_category", p.category())
	}
	set("type", p.Type)
	return appendLabels(dst, names, values)
}

// figure is one metric of Fluentd and where its value comes from.
type figure struct {
	name, help string
	counter    bool // when not everything is a gauge
	value      func(p *Plugin, now time.Time) (v float64, ok bool)
}

// buffer reads a figure of outputs with a buffer.
func buffer(f func(c chunks) int64) func(*Plugin, time.Time) (float64, bool) {
	return func(p *Plugin, now time.Time) (float64, bool) {
		if !p.Buffered || p.Status == nil {
			return 0, false
		}
		return float64(f(p.chunks(now))), true
	}
}

func space(p *Plugin, _ time.Time) (float64, bool) {
	if !p.Buffered || p.Status == nil {
		return 0, false
	}
	return freeRatio(&p.Status.Buffer), true
}

func totalBytes(c chunks) int64  { return c.stagedBytes + c.queuedBytes }
func queueLength(c chunks) int64 { return c.queued }

// output reads a figure of any output but copies and their like.
func output(f func(o *web.OutputStatus) float64) func(*Plugin, time.Time) (float64, bool) {
	return func(p *Plugin, _ time.Time) (float64, bool) {
		if p.Kind != Output || p.Status == nil {
			return 0, false
		}
		return f(p.Status), true
	}
}

// errorCount is what every output has.
func errorCount(p *Plugin, _ time.Time) (float64, bool) {
	return float64(failures(p.Status)), p.Kind == Output || p.Kind == MultiOutput
}

// window gives the start of the oldest (0) or newest (1) timekey window with waiting events.
func window(i int) func(*Plugin, time.Time) (float64, bool) {
	return func(p *Plugin, _ time.Time) (float64, bool) {
		if !p.Buffered || p.Status == nil {
			return 0, false
		}
		w := p.Status.Buffer.Windows[i]
		return float64(w.Unix()), !w.IsZero()
	}
}

// retryWait is how long the output waits after its last failure.
func retryWait(p *Plugin, now time.Time) (float64, bool) {
	o := p.Status
	if p.Kind != Output || o == nil || !o.PausedUntil.After(now) {
		return 0, p.Kind == Output
	}
	if o.LastErrorAt.IsZero() || o.LastErrorAt.After(o.PausedUntil) {
		return o.PausedUntil.Sub(now).Seconds(), true
	}
	return o.PausedUntil.Sub(o.LastErrorAt).Seconds(), true
}

// outputFigures are those of prometheus_output_monitor. What has no counterpart here is
// mapped to what it is used for on dashboards.
func outputFigures() []figure {
	const p = "fluentd_output_status_"
	return []figure{
		{p + "buffer_total_bytes", "Current total size of stage and queue buffers.", false, buffer(totalBytes)},
		{p + "buffer_stage_length", "Current length of stage buffers.", false, buffer(func(c chunks) int64 { return c.staged })},
		{p + "buffer_stage_byte_size", "Current total size of stage buffers.", false, buffer(func(c chunks) int64 { return c.stagedBytes })},
		{p + "buffer_queue_length", "Current length of queue buffers.", false, buffer(queueLength)},
		{p + "buffer_queue_byte_size", "Current total size of queue buffers.", false, buffer(func(c chunks) int64 { return c.queuedBytes })},
		{p + "buffer_available_space_ratio", "Ratio of available space in buffer.", false, space},
		{p + "buffer_newest_timekey", "Newest timekey in buffer.", false, window(1)},
		{p + "buffer_oldest_timekey", "Oldest timekey in buffer.", false, window(0)},
		{p + "retry_count", "Current retry counts.", true, errorCount},
		{p + "num_errors", "Current number of errors.", true, errorCount},
		{p + "emit_count", "Current emit counts.", true, output(func(o *web.OutputStatus) float64 { return float64(o.Emits) })},
		{p + "emit_records", "Current emit records.", true, output(func(o *web.OutputStatus) float64 { return float64(o.EventsIn) })},
		{p + "write_count", "Current write counts.", true, output(func(o *web.OutputStatus) float64 { return float64(writes(o)) })},
		{p + "rollback_count", "Current rollback counts.", false, output(func(o *web.OutputStatus) float64 { return float64(failures(o)) })},
		{p + "flush_time_count", "Total flush time.", true, output(func(o *web.OutputStatus) float64 { return float64(flushTime(o)) })},
		{p + "slow_flush_count", "Current slow flush counts.", true, output(func(o *web.OutputStatus) float64 { return float64(o.SlowFlushes) })},
		{p + "retry_wait", "Current retry wait", false, retryWait},
	}
}

// oldFigures are those of prometheus_monitor.
func oldFigures() []figure {
	return []figure{
		{"fluentd_status_buffer_newest_timekey", "Newest timekey in buffer.", false, window(1)},
		{"fluentd_status_buffer_oldest_timekey", "Oldest timekey in buffer.", false, window(0)},
		{"fluentd_status_buffer_queue_length", "Current buffer queue length.", false, buffer(queueLength)},
		{"fluentd_status_buffer_total_bytes", "Current total size of queued buffers.", false, buffer(totalBytes)},
		{"fluentd_status_retry_count", "Current retry counts.", false, errorCount},
	}
}

// tailFigures are those of prometheus_tail_monitor. There is no source that reads files, so
// that they have no series.
func tailFigures() []figure {
	const p = "fluentd_tail_file_"
	never := func(*Plugin, time.Time) (float64, bool) { return 0, false }
	return []figure{
		{p + "position", "Current position of file.", false, never},
		{p + "inode", "Current inode of file.", false, never},
		{p + "closed", "Number of files closed.", false, never},
		{p + "opened", "Number of files opened.", false, never},
		{p + "rotated", "Number of files rotated.", false, never},
		{p + "throttled", "Number of times files got throttled.", false, never},
	}
}

// Monitor adds a monitor; plugins is asked for every page. One that shows the same as
// another is not added again; one with other labels than the first of its type shows
// nothing, as in Fluentd.
func (r *Registry) Monitor(m Monitor, plugins func() []Plugin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, have := range r.monitors {
		if have.Type == m.Type && (slices.Equal(have.Labels, m.Labels) || !sameNames(have.Labels, m.Labels)) {
			return
		}
	}
	by := &monitoring{m, plugins}
	r.monitors = append(r.monitors, by)
	figures := outputFigures()
	switch m.Type {
	case "prometheus_monitor":
		figures = oldFigures()
	case "prometheus_tail_monitor":
		figures = tailFigures()
	}
	for _, fig := range figures {
		f := r.byName[fig.name]
		if f == nil {
			f = &family{name: fig.name, kind: "gauge", help: fig.help}
			if fig.counter && !m.GaugeAll {
				f.kind = "counter"
			}
			r.byName[fig.name] = f
			r.families = append(r.families, f)
		}
		f.figures = append(slices.Clip(f.figures), monitored{by, fig.value})
	}
}

func sameNames(a, b [][2]string) bool {
	names := func(labels [][2]string) (out []string) {
		for _, l := range labels {
			out = append(out, l[0])
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(names(a), names(b))
}

// MonitorOf reads a monitor's section.
func (r *Registry) MonitorOf(p *MonitorParams, typ string, d *config.Diagnostics) Monitor {
	m := Monitor{Type: typ, GaugeAll: p.GaugeAll || typ != "prometheus_output_monitor"}
	if p.Labels != nil {
		for _, prm := range p.Labels.Params {
			wrong := checkLabel(prm.Key, "gauge")
			switch {
			case isAccessor(prm.Value.Text):
				d.Error(prm.Value.Pos, "a monitor has no records: a record accessor means nothing here", "write a text, ${hostname} or ${worker_id}")
			case wrong != "":
				d.Error(prm.Pos, "label "+prm.Key+": "+wrong, "choose another name")
			case prm.Key == "plugin_id" || prm.Key == "type" || prm.Key == "plugin_category" && typ == "prometheus_monitor":
				d.Error(prm.Pos, fmt.Sprintf("%s gives its series the label %s itself", typ, prm.Key), "choose another name")
			default:
				m.Labels = append(m.Labels, [2]string{prm.Key, expandStatic(prm.Value.Text, r.hostname)})
			}
		}
	}
	if r.workers {
		m.Labels = slices.DeleteFunc(m.Labels, func(l [2]string) bool { return l[0] == "worker_id" })
		m.Labels = append(m.Labels, [2]string{"worker_id", "0"})
	}
	return m
}
