package fluentd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/internal/input"
	"weir/internal/servertls"
	"weir/internal/web"
)

// Server is a source that serves figures instead of taking events: @type prometheus and
// @type monitor_agent. It implements input.Input.
type Server struct {
	addr     string
	handler  http.Handler
	log      *slog.Logger
	tls      *servertls.Params // nil: plain
	hostname string
	listener net.Listener
}

var _ input.Input = (*Server)(nil)

// NewPrometheus makes the server of @type prometheus. registry gives the metrics of the
// configuration in force, hostname is for a certificate made at start.
func NewPrometheus(p *PrometheusParams, hostname string, registry func() *Registry, log *slog.Logger) *Server {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(registry().reg, promhttp.HandlerOpts{DisableCompression: p.Encoding != "gzip"}).ServeHTTP(w, r)
	})
	mux := http.NewServeMux()
	mux.Handle(p.Path, h)
	if p.AggregatedPath != p.Path {
		mux.Handle(p.AggregatedPath, h)
	}
	return &Server{addr: net.JoinHostPort(p.Bind, strconv.Itoa(p.Port)), handler: mux, log: log, tls: p.tls(), hostname: hostname}
}

// Open binds the port and reads the certificate.
func (s *Server) Open() error {
	var set *tls.Config
	if s.tls != nil {
		var err error
		if set, err = s.tls.Config(s.hostname); err != nil {
			return fmt.Errorf("set up TLS for status requests: %w", err)
		}
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("listen for status requests: %w", err)
	}
	if set != nil {
		l = tls.NewListener(l, set)
	}
	s.listener = l
	return nil
}

// Addr is the address that Open bound.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close gives the port back when Run was never called.
func (s *Server) Close() { _ = s.listener.Close() }

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context, _ input.Emitter) error {
	srv := &http.Server{ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve status requests: %w", err)
	}
	return nil
}

// Plugin is what monitor_agent shows of one plug-in's configuration.
type Plugin struct {
	ID, Category, Type string
	Output             bool
	Config             map[string]string // without secrets
}

// NewAgent makes the server of @type monitor_agent. plugins lists what is configured now.
func NewAgent(p *AgentParams, source web.Source, plugins func() []Plugin, log *slog.Logger) *Server {
	a := &agent{p: p, source: source, plugins: plugins, started: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/plugins.json", a.pluginsJSON)
	mux.HandleFunc("GET /api/plugins", a.pluginsText)
	mux.HandleFunc("GET /api/config.json", a.configJSON)
	mux.HandleFunc("GET /api/config", a.configJSON)
	return &Server{addr: net.JoinHostPort(p.Bind, strconv.Itoa(p.Port)), handler: mux, log: log}
}

type agent struct {
	p       *AgentParams
	source  web.Source
	plugins func() []Plugin
	started time.Time
}

// list gives the plug-ins that a request asks for: by @id, type or tag of a source.
func (a *agent) list(r *http.Request) []map[string]any {
	q := r.URL.Query()
	status := a.source.Status()
	byID := map[string]*web.OutputStatus{}
	for i := range status.Outputs {
		byID[status.Outputs[i].ID] = &status.Outputs[i]
	}
	flag := func(name string, or bool) bool {
		if v := q.Get(name); v != "" {
			return v != "no" && v != "false"
		}
		return or
	}
	out := []map[string]any{}
	for _, p := range a.plugins() {
		if id := q.Get("@id"); id != "" && id != p.ID {
			continue
		}
		if t := q.Get("type"); t != "" && t != p.Type {
			continue
		}
		m := map[string]any{"plugin_id": p.ID, "plugin_category": p.Category, "type": p.Type, "output_plugin": p.Output}
		if flag("with_config", a.p.IncludeConfig) {
			m["config"] = p.Config
		}
		m["retry_count"] = nil
		if o := byID[p.ID]; o != nil && p.Output {
			describe(m, o)
			if flag("with_retry", a.p.IncludeRetry) {
				m["retry"] = retryOf(o)
			}
		}
		out = append(out, m)
	}
	return out
}

func describe(m map[string]any, o *web.OutputStatus) {
	m["retry_count"] = failures(o)
	m["emit_records"] = o.Sheet.Admitted
	m["emit_count"] = o.Emits
	m["emit_size"] = o.BytesIn
	m["write_count"] = float64(o.Puts["accepted"]) + failures(o)
	m["write_secondary_count"] = 0
	m["rollback_count"] = failures(o)
	m["slow_flush_count"] = o.SlowFlushes
	m["flush_time_count"] = int64(o.Latency.Sum * 1000)
	m["drop_oldest_chunk_count"] = 0
	if o.Buffer.Kind == "" {
		return
	}
	m["buffer_queue_length"] = o.InFlight
	m["buffer_timekeys"] = []int64{}
	m["buffer_total_queued_size"] = o.Buffer.PendingBytes
	m["buffer_stage_length"] = waiting(o)
	m["buffer_stage_byte_size"] = o.Buffer.PendingBytes
	m["buffer_queue_byte_size"] = 0
	ratio := 100.0
	if o.Buffer.Limit > 0 {
		ratio = float64(int(max(100*float64(o.Buffer.Limit-o.Buffer.Bytes)/float64(o.Buffer.Limit), 0)*10)) / 10
	}
	m["buffer_available_buffer_space_ratios"] = ratio
}

func retryOf(o *web.OutputStatus) map[string]any {
	if o.PausedUntil.IsZero() {
		return map[string]any{}
	}
	return map[string]any{"start": o.LastErrorAt, "steps": failures(o), "next_time": o.PausedUntil}
}

func (a *agent) pluginsJSON(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, map[string]any{"plugins": a.list(r)})
}

// pluginsText is the LTSV form.
func (a *agent) pluginsText(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, m := range a.list(r) {
		fmt.Fprintf(w, "plugin_id:%v\tplugin_category:%v\ttype:%v\toutput_plugin:%v\tbuffer_queue_length:%s\tbuffer_total_queued_size:%s\tretry_count:%s\n",
			m["plugin_id"], m["plugin_category"], m["type"], m["output_plugin"], textOf(m["buffer_queue_length"]), textOf(m["buffer_total_queued_size"]), textOf(m["retry_count"]))
	}
}

func textOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func (a *agent) configJSON(w http.ResponseWriter, _ *http.Request) {
	s := a.source.Status()
	writeJSON(w, map[string]any{"config_path": s.Config, "pid_file": nil, "plugin_dirs": []string{}, "log_path": nil})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client went away
}
