// Package fluentd shows weir's state in the forms in which Fluentd's plug-ins show theirs,
// so that dashboards and alerts go on working: the metrics of fluent-plugin-prometheus and
// the JSON of monitor_agent, with the same names, labels and types.
package fluentd

import (
	"time"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/servertls"
)

// PrometheusParams are the parameters of <source> @type prometheus.
type PrometheusParams struct {
	config.Plugin
	Bind           string        `conf:"bind" default:"127.0.0.1" doc:"address to listen on"`
	Port           int           `conf:"port" default:"24231" doc:"port to listen on"`
	Path           string        `conf:"metrics_path" default:"/metrics" doc:"path of the metrics"`
	AggregatedPath string        `conf:"aggregated_metrics_path" default:"/aggregated_metrics" doc:"path of the metrics of all workers; weir is one process, so they are the same"`
	Encoding       string        `conf:"content_encoding" enum:"identity|gzip" default:"identity" doc:"gzip compresses for clients that ask for it"`
	IgnoreErrors   time.Duration `conf:"ignore_error_log_interval" default:"3600" doc:"accepted for compatibility, without effect"`
	Transport      *Transport    `section:"transport"`
	SSL            *SSL          `section:"ssl"`
}

// Transport is `<transport tls>`.
type Transport struct {
	Kind string `arg:"true" enum:"tcp|tls" default:"tcp"`
	servertls.Params
}

// SSL is the old form of it.
type SSL struct {
	Enable   bool   `conf:"enable" default:"false" doc:"speak TLS"`
	CertPath string `conf:"certificate_path" doc:"PEM file with the certificate; without it one is made at start"`
	KeyPath  string `conf:"private_key_path" doc:"PEM file with the key of certificate_path"`
	CAPath   string `conf:"ca_path" doc:"accepted for compatibility: clients are not asked for certificates"`
}

// Check notes what is wrong with the parameters as a whole. s is the section they come
// from.
func (p *PrometheusParams) Check(s *fluentconf.Section, d *config.Diagnostics) {
	if all := s.All("transport"); p.Transport != nil && p.Transport.Kind == "tls" && len(all) > 0 {
		p.Transport.Params.Check(all[0], d)
	}
	if p.SSL != nil && p.SSL.CertPath != "" && p.SSL.KeyPath == "" {
		d.Error(s.Pos, "<ssl> has certificate_path without private_key_path", "write the file with the key")
	}
}

// tls gives the TLS parameters, nil for none.
func (p *PrometheusParams) tls() *servertls.Params {
	switch {
	case p.Transport != nil && p.Transport.Kind == "tls":
		return &p.Transport.Params
	case p.SSL != nil && p.SSL.Enable:
		t := servertls.Defaults()
		t.CertPath, t.PrivateKeyPath, t.Insecure = p.SSL.CertPath, p.SSL.KeyPath, p.SSL.CertPath == ""
		return &t
	}
	return nil
}

// MonitorParams are the parameters of <source> @type prometheus_output_monitor and
// prometheus_monitor.
type MonitorParams struct {
	config.Plugin
	Interval time.Duration       `conf:"interval" default:"5" doc:"accepted for compatibility: figures are taken when they are read"`
	GaugeAll bool                `conf:"gauge_all" default:"true" doc:"false makes counters of what only grows"`
	Labels   *fluentconf.Section `section:"labels" doc:"labels of all series"`
}

// AgentParams are the parameters of <source> @type monitor_agent.
type AgentParams struct {
	config.Plugin
	Bind          string        `conf:"bind" default:"0.0.0.0" doc:"address to listen on"`
	Port          int           `conf:"port" default:"24220" doc:"port to listen on"`
	Tag           string        `conf:"tag" doc:"tag under which the figures are emitted as events, one for each plug-in"`
	EmitInterval  time.Duration `conf:"emit_interval" default:"60" doc:"how often they are"`
	IncludeConfig bool          `conf:"include_config" default:"false" doc:"show the parameters of plug-ins, without secrets"`
	IncludeRetry  bool          `conf:"include_retry" default:"false" doc:"show what is being retried"`
	IncludeDebug  bool          `conf:"include_debug_info" default:"false" doc:"the query parameter debug makes the JSON easy to read; the objects of Ruby that Fluentd then shows do not exist here"`
}

// FilterParams are the parameters of <filter> and <match> @type prometheus, whose events end there.
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
	Buckets     *string               `conf:"buckets" doc:"upper bounds of a histogram, separated by commas"`
	Initialized bool                  `conf:"initialized" default:"false" doc:"show the metric before its first event"`
	InitLabels  []*fluentconf.Section `section:"initlabels" doc:"label values to show before the first event"`
	Labels      *fluentconf.Section   `section:"labels" doc:"labels of this metric"`
}
