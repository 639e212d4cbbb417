// Package web is weir's status server: a page for people, JSON for scripts, metrics for
// Prometheus, and the two health checks.
//
//	/            status page
//	/api/status  the same as JSON
//	/metrics     Prometheus text format
//	/healthz     200 while the process works
//	/readyz      200 while weir takes events, else 503 and why not, a reason a line
//
// It pulls what it shows from a Source and keeps nothing but a short history for rates and
// curves. It changes nothing: there are only reads.
package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Collector is prometheus.Collector, so that callers need not import it.
type Collector = prometheus.Collector

// Options configures a Handler. Log and Source are required.
type Options struct {
	Log     *slog.Logger
	Source  Source
	Version string
	// Collectors gives further metrics, such as those of plug-ins, at each scrape; may be nil.
	Collectors func() []Collector
	// Started is when weir was started; the zero time is now.
	Started time.Time
	Now     func() time.Time // nil is time.Now
}

// Handler serves the status of weir. It may be used from any goroutine.
type Handler struct {
	o       Options
	mux     *http.ServeMux
	history history
	page    page
}

// New makes a Handler.
func New(o Options) *Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Started.IsZero() {
		o.Started = o.Now()
	}
	h := &Handler{o: o, mux: http.NewServeMux(), page: newPage()}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		newCollector(h.status, &h.o, o.Started),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	h.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: errorLog{o.Log}}))
	h.mux.HandleFunc("GET /healthz", h.healthz)
	h.mux.HandleFunc("GET /readyz", h.readyz)
	h.mux.HandleFunc("GET /api/status", h.apiStatus)
	h.mux.HandleFunc("GET /{$}", h.servePage)
	h.mux.HandleFunc("GET /style.css", h.page.asset("style.css", "text/css; charset=utf-8"))
	h.mux.HandleFunc("GET /page.js", h.page.asset("page.js", "text/javascript; charset=utf-8"))
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.mux.ServeHTTP(w, r)
}

// Run takes samples for the curves of the page until ctx is done. Without it the page
// knows only what it saw while somebody looked.
func (h *Handler) Run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		h.status()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// status asks the source, and remembers a sample.
func (h *Handler) status() Status {
	s := h.o.Source.Status()
	h.history.add(&s, h.o.Now())
	return s
}

func (h *Handler) healthz(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") }

func (h *Handler) readyz(w http.ResponseWriter, _ *http.Request) {
	s := h.status()
	if why := s.notReady(); len(why) > 0 {
		plain(w, http.StatusServiceUnavailable, strings.Join(why, "\n")+"\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the client has gone; nobody to tell
}

// errorLog passes the errors of scrapes on.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	l.log.Error("some metrics could not be collected", "detail", strings.TrimSpace(fmt.Sprintln(v...)))
}
