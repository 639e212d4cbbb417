// Package fluentd shows weir's state in the forms in which Fluentd's plug-ins show theirs,
// so that dashboards and alerts go on working: the metrics of fluent-plugin-prometheus and
// the JSON of monitor_agent, with the same names, labels and types.
package fluentd

import (
	"weir/internal/config"
	"weir/internal/fluentconf"
)

// PrometheusParams are the parameters of <source> @type prometheus.
type PrometheusParams struct {
	config.Plugin
	Bind           string              `conf:"bind" default:"127.0.0.1" doc:"address to listen on"`
	Port           int                 `conf:"port" default:"24231" doc:"port to listen on"`
	Path           string              `conf:"metrics_path" default:"/metrics" doc:"path of the metrics"`
	AggregatedPath string              `conf:"aggregated_metrics_path" default:"/aggregated_metrics" doc:"path of the metrics of all workers; weir is one process, so they are the same"`
	Encoding       string              `conf:"content_encoding" enum:"identity|gzip" default:"identity" doc:"gzip compresses for clients that ask for it"`
	IgnoreErrors   *float64            `conf:"ignore_error_log_interval" doc:"accepted for compatibility, without effect"`
	Transport      *fluentconf.Section `section:"transport" doc:"TLS is not supported here: put a proxy in front"`
	SSL            *fluentconf.Section `section:"ssl" doc:"likewise"`
}

// MonitorParams are the parameters of <source> @type prometheus_output_monitor and
// prometheus_monitor.
type MonitorParams struct {
	config.Plugin
	Interval float64             `conf:"interval" default:"5" doc:"accepted for compatibility: figures are taken when they are read"`
	GaugeAll bool                `conf:"gauge_all" default:"true" doc:"false makes counters of what only grows"`
	Labels   *fluentconf.Section `section:"labels" doc:"labels of all series"`
}

// AgentParams are the parameters of <source> @type monitor_agent.
type AgentParams struct {
	config.Plugin
	Bind          string  `conf:"bind" default:"0.0.0.0" doc:"address to listen on"`
	Port          int     `conf:"port" default:"24220" doc:"port to listen on"`
	Tag           string  `conf:"tag" doc:"accepted for compatibility: figures are not emitted as events"`
	EmitInterval  float64 `conf:"emit_interval" default:"60" doc:"accepted for compatibility, without effect"`
	IncludeConfig bool    `conf:"include_config" default:"false" doc:"show the parameters of plug-ins, without secrets"`
	IncludeRetry  bool    `conf:"include_retry" default:"false" doc:"show what is being retried"`
	IncludeDebug  bool    `conf:"include_debug_info" default:"false" doc:"accepted for compatibility, without effect"`
}

// FilterParams are the parameters of <filter> and <match> @type prometheus.
type FilterParams struct {
	config.Plugin
	Metrics []MetricParams      `section:"metric"`
	Labels  *fluentconf.Section `section:"labels" doc:"labels of all metrics of this section"`
}

// MetricParams is one <metric>.
type MetricParams struct {
	Name        string                `conf:"name" required:"true" doc:"name of the metric"`
	Type        string                `conf:"type" required:"true" enum:"counter|gauge|summary|histogram" doc:"kind of the metric"`
	Desc        string                `conf:"desc" required:"true" doc:"its help text"`
	Key         string                `conf:"key" doc:"field with the value, as a record accessor; a counter without it counts events"`
	Buckets     string                `conf:"buckets" doc:"upper bounds of a histogram, separated by commas"`
	Initialized bool                  `conf:"initialized" default:"false" doc:"show the metric before its first event"`
	InitLabels  []*fluentconf.Section `section:"initlabels" doc:"label values to show before the first event"`
	Labels      *fluentconf.Section   `section:"labels" doc:"labels of this metric"`
}
