package fluentd

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/input"
	"weir/internal/servertls"
)

// Server is a source that serves figures: @type prometheus and @type monitor_agent. It
// implements input.Input.
type Server struct {
	addr     string
	handler  http.Handler
	log      *slog.Logger
	tls      *servertls.Params // nil: plain
	hostname string
	listener net.Listener
	agent    *agent // of monitor_agent with a tag: it emits its figures
}

var _ input.Input = (*Server)(nil)

// routes serves pages by their path, with or without a slash behind it. Other paths and
// methods get missing, as in Fluentd; HEAD is GET here.
type routes struct {
	pages   map[string]http.HandlerFunc
	missing http.HandlerFunc
}

// ServeHTTP implements http.Handler.
func (m *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := m.pages[strings.TrimSuffix(r.URL.EscapedPath(), "/")]
	if page == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		page = m.missing
	}
	page(w, r)
}

// NewPrometheus makes the server of @type prometheus. registry gives the metrics of the
// configuration in force, hostname is for a certificate made at start.
func NewPrometheus(p *PrometheusParams, hostname string, registry func() *Registry, log *slog.Logger) *Server {
	page := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		text := registry().Append(nil)
		if p.Encoding != "gzip" || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			_, _ = w.Write(text) // the client went away
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(text)
		_ = z.Close()
	}
	h := &routes{
		pages: map[string]http.HandlerFunc{strings.TrimSuffix(p.Path, "/"): page, strings.TrimSuffix(p.AggregatedPath, "/"): page},
		missing: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "404 Not Found\n")
		},
	}
	return &Server{addr: address(p.Bind, p.Port), handler: h, log: log, tls: p.tls(), hostname: hostname}
}

// address joins host and port; the host may stand in brackets.
func address(bind string, port int) string {
	return net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(bind, "["), "]"), strconv.Itoa(port))
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

// Run serves until ctx is done, and emits figures if it is asked to.
func (s *Server) Run(ctx context.Context, e input.Emitter) error {
	srv := &http.Server{ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		if s.agent != nil && s.agent.p.Tag != "" {
			s.agent.emit(ctx, e)
		}
	}()
	err := srv.Serve(s.listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve status requests: %w", err)
	}
	<-emitted
	return nil
}
