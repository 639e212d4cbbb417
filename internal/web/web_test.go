package web

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"weir/internal/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Source whose status a test changes.
type fake struct {
	mu sync.Mutex
	s  Status
}

func (f *fake) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.s
}

func (f *fake) change(do func(s *Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.s
	s.Inputs = append([]InputStatus(nil), s.Inputs...)
	s.Outputs = append([]OutputStatus(nil), s.Outputs...)
	do(&s)
	f.s = s
}

var epoch = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// busy is a status with something in every field.
func busy() Status {
	var sheet, parked ledger.Sheet
	sheet.Admitted, sheet.Delivered, sheet.Filtered, sheet.Moved = 1_000_000, 990_000, 500, 100
	sheet.Dropped[ledger.BufferFull], sheet.Dropped[ledger.Damaged], sheet.Rejected[ledger.TooOld] = 40, 3, 7
	parked.Admitted, parked.Delivered, parked.Dropped[ledger.RetryLimit] = 100, 10, 20
	latency := Histogram{Bounds: []float64{0.01, 0.1, 1}, Counts: []uint64{50, 90, 99, 100}, Sum: 6}
	return Status{
		Phase: Running, Config: "/etc/weir/weir.conf", Loaded: epoch.Add(-time.Hour), Unmatched: 3,
		Inputs: []InputStatus{
			{ID: "forward", Type: "forward", Address: "0.0.0.0:24224", Listening: true, Connections: 12, Events: 1_000_000, Bytes: 500 << 20, Refused: 2,
				Lost: 5, Malformed: 1, Acks: 9000, Repeats: 4, AckLatency: latency},
			{ID: "stdin", Type: "stdin", Listening: true},
		},
		Filters: []FilterStatus{{ID: "concat", Held: 12}},
		Outputs: []OutputStatus{
			{ID: "to-cloudwatch", Type: "cloudwatch_logs", Detail: "group /aws/app stream ${tag}", Sheet: sheet, BytesIn: 450 << 20,
				Buffer: BufferStatus{Kind: "file", Dir: "/var/lib/weir/a", Bytes: 30 << 20, Limit: 64 << 30, Segments: 3, PendingEvents: 9350,
					PendingBytes: 4 << 20, Oldest: epoch.Add(-3 * time.Second)},
				Parking: &ParkingStatus{Sheet: parked, Buffer: BufferStatus{Kind: "file", Bytes: 1 << 20, Limit: 256 << 20, Segments: 1, PendingEvents: 70, Oldest: epoch.Add(-time.Hour)}},
				Puts:    map[string]uint64{"accepted": 1200, "throttled": 17}, Retries: map[string]uint64{"throttled": 17},
				Latency: latency, Fill: Histogram{Bounds: []float64{0.5, 1}, Counts: []uint64{1, 2, 2}, Sum: 1.2}, BodyBytes: 400 << 20, BytesOut: 440 << 20,
				Resent: 1, InFlight: 4, Throttled: 17, RateLimit: 120, LaneCount: 2000, LanesParked: 1,
				Lanes: []LaneStatus{{Name: "/aws/app denied<b>", Events: 70, Bytes: 9000, Attempts: 12, LastError: "AccessDeniedException", Parked: true},
					{Name: "/aws/app web-0", Events: 9000, Bytes: 4 << 20, Delivered: 50_000, Attempts: 3, LastError: "throttled"}},
				LastSuccess: epoch.Add(-time.Second), LastError: "put 312 events: ThrottlingException <script>", LastErrorAt: epoch.Add(-20 * time.Second)},
			{ID: "null", Type: "null"},
		},
		Containers: []ContainerStatus{{ID: "0123456789ab", Name: "web<1>", Output: "cloudwatch_logs", Group: "g", Stream: "s", Sessions: 1, Frames: 90, LostPlaces: 1,
			Sheet: sheet, Buffer: BufferStatus{Kind: "file", Bytes: 1 << 20, Limit: 256 << 20, PendingEvents: 3, Oldest: epoch.Add(-time.Minute)}, Untold: 1,
			LastError: "timeout", LastErrorAt: epoch.Add(-time.Second), LastSuccess: epoch.Add(-time.Minute)}},
	}
}

func newHandler(t testing.TB, s Status) (*Handler, *fake, *time.Time) {
	t.Helper()
	now := epoch
	f := &fake{s: s}
	h := New(Options{Log: slog.New(slog.DiscardHandler), Source: f, Version: "1.2.3", Started: epoch.Add(-100 * time.Second), Now: func() time.Time { return now }})
	return h, f, &now
}

func get(t testing.TB, h http.Handler, path string) (int, string, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b), w.Header()
}

func TestHealth(t *testing.T) {
	h, f, _ := newHandler(t, busy())
	if code, body, _ := get(t, h, "/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if code, body, _ := get(t, h, "/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("readyz: %d %q", code, body)
	}
	f.change(func(s *Status) {
		s.Phase = Stopping
		s.Inputs[0].Listening, s.Inputs[0].Error = false, "address in use"
		s.Outputs[0].Fault = "disk full"
	})
	want := "weir is stopping\ninput forward does not take events: address in use\noutput to-cloudwatch cannot take events: disk full\n"
	if code, body, _ := get(t, h, "/readyz"); code != 503 || body != want {
		t.Errorf("readyz: %d %q, want 503 %q", code, body, want)
	}
	if code, _, _ := get(t, h, "/healthz"); code != 200 {
		t.Errorf("healthz: %d while not ready", code)
	}
}

func TestOnlyReads(t *testing.T) {
	h, _, _ := newHandler(t, busy())
	for _, path := range []string{"/", "/metrics", "/api/status", "/healthz", "/readyz"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
	if code, _, _ := get(t, h, "/nothing"); code != 404 {
		t.Errorf("unknown path: %d", code)
	}
}

func TestAPI(t *testing.T) {
	h, f, now := newHandler(t, busy())
	get(t, h, "/api/status") // the first sample
	*now = now.Add(10 * time.Second)
	f.change(func(s *Status) {
		s.Inputs[0].Events += 5000
		s.Outputs[0].Sheet.Admitted += 5000
		s.Outputs[0].Sheet.Delivered += 4000
		s.Outputs[0].BytesOut += 10 << 10
	})
	code, body, header := get(t, h, "/api/status")
	if code != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", code, header.Get("Content-Type"))
	}
	var r report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	o := r.Outputs[0]
	if o.ID != "to-cloudwatch" || o.Ledger.Admitted != 1_005_000 || o.Ledger.Dropped["buffer_full"] != 40 || o.Ledger.Rejected["too_old"] != 7 {
		t.Errorf("ledger: %+v", o.Ledger)
	}
	if len(o.Ledger.Dropped) != len(ledger.ReasonsOf(ledger.Dropped)) || len(o.Ledger.Rejected) != len(ledger.ReasonsOf(ledger.Rejected)) {
		t.Errorf("reasons are missing: %v %v", o.Ledger.Dropped, o.Ledger.Rejected)
	}
	if o.Rates.EventsIn != 500 || o.Rates.EventsOut != 400 || o.Rates.BytesOut != 1024 || r.Inputs[0].Rate != 500 {
		t.Errorf("rates: %+v, input %v", o.Rates, r.Inputs[0].Rate)
	}
	if o.Parking == nil || o.Parking.Ledger.Delivered != 10 || o.Parking.Buffer.OldestAge != 3610 {
		t.Errorf("parking: %+v", o.Parking)
	}
	if o.LastError == nil || !o.LastError.At.Equal(epoch.Add(-20*time.Second)) || len(o.Lanes) != 2 || o.Stalled != 11 {
		t.Errorf("last error %v, %d lanes, stalled %v", o.LastError, len(o.Lanes), o.Stalled)
	}
	if !r.Ready || r.Uptime != 110 || r.Unmatched != 3 || r.Version != "1.2.3" {
		t.Errorf("ready %v, uptime %v, unmatched %d", r.Ready, r.Uptime, r.Unmatched)
	}
	for _, field := range []string{`"not_ready": []`, `"findings": [`, `"last_success": null`, `"top_lanes": []`} {
		if !strings.Contains(body, field) {
			t.Errorf("the JSON has no %s", field)
		}
	}
}

func TestRatesBeginWithTheStart(t *testing.T) {
	h, _, _ := newHandler(t, busy())
	r := h.report()
	if got := r.Outputs[0].Rates.EventsIn; got != 10_000 { // a million in 100 seconds
		t.Errorf("%v events in a second", got)
	}
}

func TestRateOfACounterThatBeganAnew(t *testing.T) {
	if r := rate(5, 100, time.Second); r != 0 {
		t.Errorf("rate %v", r)
	}
}

func TestPage(t *testing.T) {
	h, f, now := newHandler(t, busy())
	for range 4 {
		get(t, h, "/")
		*now = now.Add(sampleEvery)
		f.change(func(s *Status) { s.Outputs[0].Sheet.Admitted += 1000 })
	}
	code, body, header := get(t, h, "/")
	if code != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", code, header.Get("Content-Type"))
	}
	for _, want := range []string{
		"to-cloudwatch", "1\u202f004\u202f000 admitted", "buffer_full 40", "parked: retry_limit 20", "AccessDeniedException", "/var/lib/weir/a",
		"ThrottlingException &lt;script&gt;", "denied&lt;b&gt;", "<polyline", "forward", "0.0.0.0:24224", "events had a tag for which there is no &lt;match&gt;",
		`<noscript><meta http-equiv="refresh"`, "throttled 17",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, not := range []string{"<script>", "http://", "https://", "NaN", "%!"} {
		if strings.Contains(body, not) {
			t.Errorf("the page has %q", not)
		}
	}
	if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("policy %q", csp)
	}
	for path, kind := range map[string]string{"/style.css": "text/css", "/page.js": "text/javascript"} {
		code, body, header := get(t, h, path)
		if code != 200 || !strings.HasPrefix(header.Get("Content-Type"), kind) || len(body) < 100 {
			t.Errorf("%s: %d %s, %d bytes", path, code, header.Get("Content-Type"), len(body))
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	h, _, _ := newHandler(t, Status{Phase: Running})
	code, body, _ := get(t, h, "/")
	if code != 200 || !strings.Contains(body, "All is well") {
		t.Errorf("%d %s", code, body)
	}
}

func TestFindings(t *testing.T) {
	calm := Status{Phase: Running, Inputs: []InputStatus{{ID: "in", Listening: true}}, Outputs: []OutputStatus{{ID: "out", Buffer: BufferStatus{Limit: 100}}}}
	for _, c := range []struct {
		name  string
		level string // of the first finding; "" for none
		text  string
		do    func(s *Status, o *OutputStatus)
	}{
		{"calm", "", "", func(*Status, *OutputStatus) {}},
		{"starting", "warning", "weir is starting", func(s *Status, _ *OutputStatus) { s.Phase = Starting }},
		{"input down", "error", "takes no events: no route", func(s *Status, _ *OutputStatus) { s.Inputs[0].Listening, s.Inputs[0].Error = false, "no route" }},
		{"unbalanced", "error", "5 events are unaccounted for", func(_ *Status, o *OutputStatus) { o.Balance = 5 }},
		{"parking unbalanced", "error", "-2 events are unaccounted for", func(_ *Status, o *OutputStatus) { o.Parking = &ParkingStatus{Balance: -2} }},
		{"fault", "error", "cannot store events: disk full", func(_ *Status, o *OutputStatus) { o.Fault = "disk full" }},
		{"nearly full", "warning", "80 % full", func(_ *Status, o *OutputStatus) { o.Buffer.Bytes = 80 }},
		{"stalled", "error", "Nothing was delivered for 2m 0s", func(_ *Status, o *OutputStatus) {
			o.Buffer.Oldest, o.LastError, o.LastErrorAt = epoch.Add(-2*time.Minute), "x", epoch
		}},
		{"waiting for company is no stall", "", "", func(_ *Status, o *OutputStatus) { o.Buffer.Oldest = epoch.Add(-time.Hour) }},
		{"an old error is no stall", "", "", func(_ *Status, o *OutputStatus) {
			o.Buffer.Oldest, o.LastError, o.LastErrorAt, o.LastSuccess = epoch.Add(-time.Hour), "x", epoch.Add(-2*time.Hour), epoch.Add(-90*time.Minute)
		}},
		{"paused", "warning", "the next attempt is in 5.0 s", func(_ *Status, o *OutputStatus) { o.PausedUntil = epoch.Add(5 * time.Second) }},
		{"failing lanes", "warning", "1 of 9 lanes fails", func(_ *Status, o *OutputStatus) { o.LaneCount, o.Lanes = 9, []LaneStatus{{Attempts: 1}, {}} }},
		{"parked lanes", "warning", "3 lanes have failed for long", func(_ *Status, o *OutputStatus) { o.LanesParked = 3 }},
		{"lost before", "warning", "7 events were lost since the start (too_old: 5)", func(_ *Status, o *OutputStatus) {
			o.Sheet.Rejected[ledger.TooOld], o.Sheet.Dropped[ledger.BufferFull] = 5, 2
		}},
		{"unmatched", "warning", "no <match>", func(s *Status, _ *OutputStatus) { s.Unmatched = 1 }},
		{"lost at the door", "warning", "could not keep them", func(s *Status, _ *OutputStatus) { s.Inputs[0].Lost = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{s: calm}
			f.change(func(s *Status) { c.do(s, &s.Outputs[0]) })
			s := f.Status()
			got := findingsOf(&s, sample{at: epoch.Add(-recently)}, epoch)
			if c.level == "" {
				if len(got) != 0 {
					t.Errorf("found %+v", got)
				}
				return
			}
			if len(got) == 0 || got[0].Level != c.level || !strings.Contains(got[0].Text, c.text) {
				t.Errorf("found %+v, want %s %q", got, c.level, c.text)
			}
		})
	}
}

func TestRecentLossesAreErrors(t *testing.T) {
	h, f, now := newHandler(t, busy())
	h.report()
	*now = now.Add(time.Minute)
	f.change(func(s *Status) {
		s.Outputs[0].Sheet.Dropped[ledger.BufferFull] += 12
		s.Outputs[0].Throttled++
	})
	first := h.report().Findings[0]
	if first.Level != "error" || !strings.Contains(first.Text, "12 events were lost in the last 1m 0s, 82 since the start; most often: buffer_full") || first.Hint == "" {
		t.Errorf("first finding: %+v", first)
	}
}

func TestRunTakesSamplesUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{s: busy()}
		h := New(Options{Log: slog.New(slog.DiscardHandler), Source: f})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			h.Run(ctx)
			close(ended)
		}()
		time.Sleep(3*samples*sampleEvery + time.Second)
		all := h.history.all()
		if len(all) != samples {
			t.Errorf("%d samples", len(all))
		}
		for i := 1; i < len(all); i++ {
			if d := all[i].at.Sub(all[i-1].at); d != sampleEvery {
				t.Fatalf("%v between samples %d and %d", d, i-1, i)
			}
		}
		if b := h.history.before(time.Now(), rateOver); time.Since(b.at) < rateOver || time.Since(b.at) >= rateOver+sampleEvery {
			t.Errorf("the sample to compare with is %v old", time.Since(b.at))
		}
		cancel()
		<-ended
	})
}

func TestExtraCollectors(t *testing.T) {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_extra_total", Help: "x"})
	c.Add(3)
	h := New(Options{Log: slog.New(slog.DiscardHandler), Source: &fake{s: busy()}, Collectors: func() []prometheus.Collector { return []prometheus.Collector{c} }})
	if code, body, _ := get(t, h, "/metrics"); code != 200 || !strings.Contains(body, "\nweir_extra_total 3\n") {
		t.Errorf("%d, no extra metric", code)
	}
}

func TestQuantile(t *testing.T) {
	h := Histogram{Bounds: []float64{1, 2, 4}, Counts: []uint64{10, 20, 20, 40}}
	for _, c := range []struct{ q, want float64 }{{0, 0}, {0.25, 1}, {0.125, 0.5}, {0.375, 1.5}, {0.5, 2}, {0.99, 4}} {
		if got := h.quantile(c.q, nil); got != c.want {
			t.Errorf("quantile %v = %v, want %v", c.q, got, c.want)
		}
	}
	before := Histogram{Bounds: h.Bounds, Counts: []uint64{10, 10, 10, 10}}
	if got := h.quantile(0.25, &before); got != 1.75 { // 30 values: 10 up to 2, 20 beyond 4
		t.Errorf("quantile of the rest = %v", got)
	}
	if got := (&Histogram{}).quantile(0.5, nil); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		count(0): "0", count(999): "999", count(1234567): "1\u202f234\u202f567", count(int64(-12345)): "−12\u202f345",
		size(0): "0 B", size(1023): "1023 B", size(1536): "1.5 KiB", size(int64(64 << 30)): "64 GiB",
		duration(0): "0 s", duration(350 * time.Millisecond): "350 ms", duration(12 * time.Second): "12 s",
		duration(250 * time.Second): "4m 10s", duration(185 * time.Minute): "3h 5m", duration(52 * time.Hour): "2d 4h",
		perSecond(0): "0", perSecond(0.25): "0.2", perSecond(12345.6): "12\u202f346",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
