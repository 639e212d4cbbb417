package fluentd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
	"weir/internal/ledger"
	"weir/internal/web"
)

type source web.Status

func (s source) Status() web.Status { return web.Status(s) }

func someStatus() source {
	return source{Config: "f.conf", Outputs: []web.OutputStatus{
		{ID: "cw", Type: "cloudwatch_logs", Sheet: ledger.Sheet{Admitted: 100, Delivered: 90}, Emits: 7, LaneCount: 3, InFlight: 1, SlowFlushes: 2,
			Puts: map[string]uint64{"accepted": 5, "conflict": 4, "throttled": 2, "unavailable": 1},
			Buffer: web.BufferStatus{Kind: "file", Bytes: 25, Limit: 100, PendingEvents: 10, PendingBytes: 20,
				Windows: [2]time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_700_000_400, 0)}}, Latency: web.Histogram{Sum: 1.5}},
		{ID: "null", Type: "null"},
	}}
}

func section(t *testing.T, text string) *fluentconf.Section {
	t.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{Name: "t.conf", ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return root.Sections[0]
}

// TestOutputMonitor pins names, labels and types: dashboards depend on them. A token
// conflict is no error.
func TestOutputMonitor(t *testing.T) {
	c := NewCollector(someStatus(), Monitor{GaugeAll: false, Labels: map[string]string{"hostname": "h"}})
	want := ""
	for _, m := range []struct{ name, help, kind, value string }{
		{"buffer_available_space_ratio", "Ratio of available space in buffer.", "gauge", "75"},
		{"buffer_newest_timekey", "Newest timekey in buffer.", "gauge", "1.7000004e+09"},
		{"buffer_oldest_timekey", "Oldest timekey in buffer.", "gauge", "1.7e+09"},
		{"buffer_queue_byte_size", "Current total size of queue buffers.", "gauge", "0"},
		{"buffer_queue_length", "Current length of queue buffers.", "gauge", "1"},
		{"buffer_stage_byte_size", "Current total size of stage buffers.", "gauge", "20"},
		{"buffer_stage_length", "Current length of stage buffers.", "gauge", "2"},
		{"buffer_total_bytes", "Current total size of stage and queue buffers.", "gauge", "20"},
		{"emit_count", "Current emit counts.", "counter", "7"},
		{"emit_records", "Current emit records.", "counter", "100"},
		{"flush_time_count", "Total flush time in milliseconds.", "counter", "1500"},
		{"num_errors", "Current number of errors.", "counter", "3"},
		{"retry_count", "Current retry counts.", "counter", "3"},
		{"retry_wait", "Current retry wait.", "gauge", "0"},
		{"rollback_count", "Current rollback counts.", "gauge", "3"},
		{"slow_flush_count", "Current slow flush counts.", "counter", "2"},
		{"write_count", "Current write counts.", "counter", "8"},
	} {
		n := "fluentd_output_status_" + m.name
		want += "# HELP " + n + " " + m.help + "\n# TYPE " + n + " " + m.kind + "\n" + n + `{hostname="h",plugin_id="cw",type="cloudwatch_logs"} ` + m.value + "\n"
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestOldMonitorAndGauges(t *testing.T) {
	c := NewCollector(someStatus(), Monitor{Old: true, GaugeAll: true})
	want := `# HELP fluentd_status_retry_count Current retry counts.
# TYPE fluentd_status_retry_count gauge
fluentd_status_retry_count{plugin_category="output",plugin_id="cw",type="cloudwatch_logs"} 3
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "fluentd_status_retry_count"); err != nil {
		t.Error(err)
	}
}

func batch(t *testing.T, records ...string) (out []byte) {
	t.Helper()
	for _, r := range records {
		rec, _, err := event.AppendFromJSON(nil, []byte(r))
		if err != nil {
			t.Fatal(err)
		}
		out = event.AppendEntry(out, 1e9, rec)
	}
	return out
}

const filterText = `<filter **>
  @type prometheus
  <metric>
    name fluentd_input_status_num_records_total
    type counter
    desc The total number of incoming records
    <labels>
      tag ${tag}
      first ${tag_parts[0]}
      hostname ${hostname}
    </labels>
  </metric>
  <metric>
    name size_bytes
    type histogram
    desc sizes
    key $.http.size
    buckets 10, 100
    <labels>
      method $.http.method
    </labels>
  </metric>
  <metric>
    name depth
    type gauge
    desc depth
    key depth
  </metric>
</filter>
`

func TestFilterCountsAndPassesOn(t *testing.T) {
	r := NewRegistry("h1")
	d := &config.Diagnostics{}
	f := r.NewFilter(section(t, filterText), d)
	if f == nil {
		t.Fatal(d.Errors[0])
	}
	src := batch(t, `{"http":{"size":7,"method":"GET"},"depth":3}`, `{"http":{"size":"50","method":"POST"},"depth":"4.5"}`, `{"http":{"size":500,"method":"GET"}}`)
	var s filter.Scratch
	out, kept, failed := f.Apply(&s, "app.web", src, nil)
	if &out[0] != &src[0] || len(out) != len(src) || kept != 3 || failed != 0 {
		t.Errorf("events were changed: kept %d failed %d", kept, failed)
	}
	f.Apply(&s, "app.db", batch(t, `{}`), nil)
	want := `# HELP depth depth
# TYPE depth gauge
depth 4.5
# HELP fluentd_input_status_num_records_total The total number of incoming records
# TYPE fluentd_input_status_num_records_total counter
fluentd_input_status_num_records_total{first="app",hostname="h1",tag="app.db"} 1
fluentd_input_status_num_records_total{first="app",hostname="h1",tag="app.web"} 3
# HELP size_bytes sizes
# TYPE size_bytes histogram
size_bytes_bucket{method="GET",le="10"} 1
size_bytes_bucket{method="GET",le="100"} 1
size_bytes_bucket{method="GET",le="+Inf"} 2
size_bytes_sum{method="GET"} 507
size_bytes_count{method="GET"} 2
size_bytes_bucket{method="POST",le="10"} 0
size_bytes_bucket{method="POST",le="100"} 1
size_bytes_bucket{method="POST",le="+Inf"} 1
size_bytes_sum{method="POST"} 50
size_bytes_count{method="POST"} 1
`
	if err := testutil.GatherAndCompare(r.reg, strings.NewReader(want), "depth", "fluentd_input_status_num_records_total", "size_bytes"); err != nil {
		t.Error(err)
	}
	// What is allocated is for the batch, not for its events.
	large := batch(t, slices.Repeat([]string{`{"http":{"size":7,"method":"GET"},"depth":3}`}, 1000)...)
	if n := testing.AllocsPerRun(20, func() { f.Apply(&s, "app.web", large, nil) }); n > 12 {
		t.Errorf("%v allocations for a batch of 1000", n)
	}
}

func TestFilterMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"<filter **>\n<metric>\nname a\ntype gauge\ndesc d\n</metric>\n</filter>":                                                                                "needs a field",
		"<filter **>\n<metric>\nname a\ntype histogram\nkey k\nbuckets 1,x\ndesc d\n</metric>\n</filter>":                                                        "not a number",
		"<filter **>\n<metric>\nname a\ntype counter\ndesc d\n<labels>\nl $.\n</labels>\n</metric>\n</filter>":                                                   "label l",
		"<filter **>\n<metric>\nname b\ntype counter\ndesc d\n</metric>\n<metric>\nname b\ntype counter\ndesc d\n<labels>\nx y\n</labels>\n</metric>\n</filter>": "defined before",
	} {
		d := &config.Diagnostics{}
		f := NewRegistry("h").NewFilter(section(t, text), d)
		if f != nil || len(d.Errors) == 0 || !strings.Contains(d.Errors[0].Error(), want) {
			t.Errorf("%q: %v", text, d.Errors)
		}
	}
}

func TestAgent(t *testing.T) {
	s := NewAgent(&AgentParams{Bind: "127.0.0.1"}, someStatus(), func() []Plugin {
		return []Plugin{{ID: "in", Category: "input", Type: "forward"}, {ID: "cw", Category: "output", Type: "cloudwatch_logs", Output: true, Config: map[string]string{"region": "x"}}}
	}, slog.New(slog.DiscardHandler))
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, nil) }()
	get := func(path string) string {
		resp, err := http.Get("http://" + s.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	var got struct {
		Plugins []map[string]any `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(get("/api/plugins.json?with_config=yes")), &got); err != nil || len(got.Plugins) != 2 {
		t.Fatalf("%v %v", got, err)
	}
	cw := got.Plugins[1]
	if cw["emit_records"] != 100.0 || cw["retry_count"] != 3.0 || cw["buffer_total_queued_size"] != 20.0 || cw["config"].(map[string]any)["region"] != "x" {
		t.Errorf("%v", cw)
	}
	if text := get("/api/plugins?type=forward"); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "plugin_id:in\t") {
		t.Errorf("%q", text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestPrometheusOverTLS scrapes a page that has made its own certificate, in both ways of
// writing that.
func TestPrometheusOverTLS(t *testing.T) {
	for _, text := range []string{
		"<source>\n  @type prometheus\n  port 0\n  <transport tls>\n    insecure true\n  </transport>\n</source>\n",
		"<source>\n  @type prometheus\n  port 0\n  <ssl>\n    enable true\n  </ssl>\n</source>\n",
	} {
		var p PrometheusParams
		var d config.Diagnostics
		s := section(t, text)
		config.Decode(s, &p, &d)
		p.Check(s, &d)
		if len(d.Errors) > 0 {
			t.Fatal(d.Errors[0])
		}
		reg := NewRegistry("h")
		srv := NewPrometheus(&p, "host.test", func() *Registry { return reg }, slog.New(slog.DiscardHandler))
		if err := srv.Open(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- srv.Run(ctx, nil) }()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := client.Get("https://" + srv.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.TLS.PeerCertificates[0].Subject.CommonName != "host.test" {
			t.Errorf("%s: status %d, certificate of %q", text, resp.StatusCode, resp.TLS.PeerCertificates[0].Subject.CommonName)
		}
		client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
