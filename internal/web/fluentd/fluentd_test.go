package fluentd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
	"weir/internal/input"
	"weir/internal/web"
)

func somePlugins() []Plugin {
	return []Plugin{
		{Kind: Input, ID: "in", Type: "forward", Records: 5},
		{Kind: Output, ID: "cw", Type: "cloudwatch_logs", Buffered: true, Config: [][2]string{{"region", "x"}}, Status: &web.OutputStatus{
			EventsIn: 100, Emits: 7, LaneCount: 3, InFlight: 1, SlowFlushes: 2,
			Puts: map[string]uint64{"accepted": 5, "conflict": 4, "throttled": 2, "unavailable": 1},
			Buffer: web.BufferStatus{Kind: "file", Bytes: 25, Limit: 100, PendingEvents: 10, PendingBytes: 20,
				Windows: [2]time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_700_000_400, 0)}}, Latency: web.Histogram{Sum: 1.5}}},
		{Kind: Output, ID: "null", Type: "null", Status: &web.OutputStatus{}},
	}
}

func section(t *testing.T, text string) *fluentconf.Section {
	t.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{Name: "t.conf", ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return root.Sections[0]
}

// TestOutputMonitor pins what values the figures have; names, labels and types are compared
// with recordings in internal/app. A token conflict is no error.
func TestOutputMonitor(t *testing.T) {
	r := NewRegistry("h", 1)
	r.Monitor(Monitor{Type: "prometheus_output_monitor", Labels: [][2]string{{"hostname", "h"}}}, somePlugins)
	page := string(r.Append(nil))
	for name, want := range map[string]string{
		"buffer_available_space_ratio": "75.0", "buffer_newest_timekey": "1700000400.0", "buffer_oldest_timekey": "1700000000.0",
		"buffer_queue_byte_size": "0.0", "buffer_queue_length": "1.0", "buffer_stage_byte_size": "20.0", "buffer_stage_length": "2.0",
		"buffer_total_bytes": "20.0", "emit_count": "7.0", "emit_records": "100.0", "flush_time_count": "1500.0", "num_errors": "3.0",
		"retry_count": "3.0", "retry_wait": "0.0", "rollback_count": "3.0", "slow_flush_count": "2.0", "write_count": "8.0",
	} {
		line := "fluentd_output_status_" + name + `{hostname="h",plugin_id="cw",type="cloudwatch_logs"} ` + want + "\n"
		if !strings.Contains(page, line) {
			t.Errorf("no %s in\n%s", line, page)
		}
	}
	if strings.Contains(page, `buffer_total_bytes{hostname="h",plugin_id="null"`) || !strings.Contains(page, `emit_count{hostname="h",plugin_id="null",type="null"} 0.0`) {
		t.Errorf("an output without a buffer has no figures of buffers, and the others:\n%s", page)
	}
}

// TestChunks wants what fails to be queued: alerts look at the length of the queue.
func TestChunks(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		o    web.OutputStatus
		want chunks
	}{
		"well": {web.OutputStatus{LaneCount: 3, InFlight: 1, Buffer: web.BufferStatus{PendingEvents: 10, PendingBytes: 20}},
			chunks{staged: 2, stagedBytes: 20, queued: 1}},
		"nothing waits": {web.OutputStatus{LaneCount: 3}, chunks{}},
		"all fails": {web.OutputStatus{LaneCount: 3, PausedUntil: now, Buffer: web.BufferStatus{PendingEvents: 100, PendingBytes: 20, Oldest: now.Add(-150 * time.Second)}},
			chunks{queued: 9, queuedBytes: 20}},
		"no more chunks than events": {web.OutputStatus{LaneCount: 3, PausedUntil: now, Buffer: web.BufferStatus{PendingEvents: 5, PendingBytes: 20, Oldest: now.Add(-150 * time.Second)}},
			chunks{queued: 5, queuedBytes: 20}},
		"one lane fails": {web.OutputStatus{LaneCount: 3, Lanes: []web.LaneStatus{{Attempts: 2, Events: 10, Bytes: 7}, {Events: 1}}, Buffer: web.BufferStatus{PendingEvents: 100, PendingBytes: 20, Oldest: now.Add(-70 * time.Second)}},
			chunks{staged: 2, stagedBytes: 13, queued: 2, queuedBytes: 7}},
		"parked": {web.OutputStatus{LaneCount: 3, LanesParked: 1, Parking: &web.ParkingStatus{Buffer: web.BufferStatus{PendingEvents: 9, PendingBytes: 4, Oldest: now.Add(-time.Hour)}}},
			chunks{queued: 9, queuedBytes: 4}},
	} {
		p := Plugin{Kind: Output, Status: &c.o, Every: time.Minute}
		if got := p.chunks(now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestRetryWait wants the length of the present wait, not what is left of it.
func TestRetryWait(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := Plugin{Kind: Output, Status: &web.OutputStatus{LastErrorAt: now.Add(-time.Second), PausedUntil: now.Add(3 * time.Second)}}
	if v, ok := retryWait(&p, now); !ok || v != 4 {
		t.Errorf("%v %v", v, ok)
	}
	if v, ok := retryWait(&p, now.Add(time.Minute)); !ok || v != 0 {
		t.Errorf("afterwards %v %v", v, ok)
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

type errorSink []string

func (e *errorSink) FilterError(tag string, _ []byte, message string) {
	*e = append(*e, tag+": "+message)
}

func (*errorSink) FilterPassed(string, string) {}

func TestFilterCountsAndPassesOn(t *testing.T) {
	r := NewRegistry("h1", 1)
	d := &config.Diagnostics{}
	f := r.NewFilter(section(t, filterText), d)
	if f == nil {
		t.Fatal(d.Errors[0])
	}
	src := batch(t, `{"http":{"size":7,"method":"GET"},"depth":3}`, `{"http":{"size":50,"method":"POST"},"depth":"4.5"}`, `{"http":{"size":500,"method":"GET"}}`)
	var sink errorSink
	s := filter.Scratch{Errors: &sink}
	out, kept, failed := f.Apply(&s, "app.web", src, nil)
	if &out[0] != &src[0] || len(out) != len(src) || kept != 3 || failed != 0 {
		t.Errorf("events were changed: kept %d failed %d", kept, failed)
	}
	f.Apply(&s, "app.db", batch(t, `{}`), nil)
	want := `# TYPE fluentd_input_status_num_records_total counter
# HELP fluentd_input_status_num_records_total The total number of incoming records
fluentd_input_status_num_records_total{tag="app.web",first="app",hostname="h1"} 3.0
fluentd_input_status_num_records_total{tag="app.db",first="app",hostname="h1"} 1.0
# TYPE size_bytes histogram
# HELP size_bytes sizes
size_bytes_bucket{method="GET",le="10"} 1.0
size_bytes_bucket{method="GET",le="100.0"} 1.0
size_bytes_bucket{method="GET",le="+Inf"} 2.0
size_bytes_sum{method="GET"} 507.0
size_bytes_count{method="GET"} 2.0
size_bytes_bucket{method="POST",le="10"} 0.0
size_bytes_bucket{method="POST",le="100.0"} 1.0
size_bytes_bucket{method="POST",le="+Inf"} 1.0
size_bytes_sum{method="POST"} 50.0
size_bytes_count{method="POST"} 1.0
# TYPE depth gauge
# HELP depth depth
depth 3.0
`
	if page := string(r.Append(nil)); page != want {
		t.Errorf("got\n%s", page)
	}
	if len(sink) != 1 || !strings.Contains(sink[0], "app.web: failed to instrument metric depth") {
		t.Errorf("a value that is no number is an error event too: %v", sink)
	}
	s.Errors = nil
	// What is allocated is for the batch, not for its events.
	large := batch(t, slices.Repeat([]string{`{"http":{"size":7,"method":"GET"},"depth":3}`}, 1000)...)
	if n := testing.AllocsPerRun(20, func() { f.Apply(&s, "app.web", large, nil) }); n > 12 {
		t.Errorf("%v allocations for a batch of 1000", n)
	}
}

func TestFilterMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"<filter **>\n<metric>\nname a\ntype gauge\ndesc d\n</metric>\n</filter>":                                                           "needs a field",
		"<filter **>\n<metric>\nname a\ntype histogram\nkey k\nbuckets 1,x\ndesc d\n</metric>\n</filter>":                                   "not a number",
		"<filter **>\n<metric>\nname a\ntype counter\ndesc d\n<labels>\nl $.\n</labels>\n</metric>\n</filter>":                              "label l",
		"<filter **>\n<metric>\nname b\ntype counter\ndesc d\n</metric>\n<metric>\nname b\ntype gauge\nkey k\ndesc d\n</metric>\n</filter>": "defined before",
	} {
		d := &config.Diagnostics{}
		f := NewRegistry("h", 1).NewFilter(section(t, text), d)
		if f != nil || len(d.Errors) == 0 || !strings.Contains(d.Errors[0].Error(), want) {
			t.Errorf("%q: %v", text, d.Errors)
		}
	}
}

func TestAgent(t *testing.T) {
	failing := somePlugins()
	failing[1].Status.PausedUntil, failing[1].Status.LastErrorAt = time.Unix(1_700_000_010, 0), time.Unix(1_700_000_000, 0)
	failing[1].Status.Lanes = []web.LaneStatus{{Attempts: 3}}
	a := NewAgent(&AgentParams{Bind: "[::1]", IncludeDebug: true}, Source{
		Plugins: func() []Plugin { return failing }, ByTag: func(string) string { return "cw" },
		About: func() About { return About{Version: "v", Config: "f.conf"} },
	}, slog.New(slog.DiscardHandler))
	if a.addr != "[::1]:0" {
		t.Errorf("address %s", a.addr)
	}
	get := func(path string) string {
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	var got struct {
		Plugins []map[string]any `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(get("/api/plugins.json?with_config=yes&with_retry=true&tag=x")), &got); err != nil || len(got.Plugins) != 1 {
		t.Fatalf("%v %v", got, err)
	}
	cw := got.Plugins[0]
	retry := cw["retry"].(map[string]any)
	if cw["emit_records"] != 100.0 || cw["retry_count"] != 3.0 || cw["buffer_total_queued_size"] != 20.0 || cw["config"].(map[string]any)["region"] != "x" ||
		retry["steps"] != 2.0 || !strings.HasPrefix(retry["start"].(string), "2023-11-1") {
		t.Errorf("%v", cw)
	}
	if text := get("/api/plugins?type=forward"); text != "plugin_id:in\tplugin_category:input\ttype:forward\toutput_plugin:false\tretry_count:\temit_records:5\temit_size:0\n" {
		t.Errorf("%q", text)
	}
	if text := get("/api/plugins.json?debug=1&id=null"); !strings.HasPrefix(text, "{\n  \"plugins\": [\n    {\n      \"plugin_id\": \"null\",") {
		t.Errorf("%s", text)
	}
}

// TestAgentEmits wants an event for each plug-in under the tag.
func TestAgentEmits(t *testing.T) {
	s := NewAgent(&AgentParams{Bind: "127.0.0.1", Tag: "mon", EmitInterval: time.Millisecond}, Source{Plugins: somePlugins}, slog.New(slog.DiscardHandler))
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var got event.Batch
	e := emitting(func(b event.Batch) {
		got = b
		cancel()
	})
	if err := s.Run(ctx, e); err != nil {
		t.Error(err)
	}
	n, _, _, _, err := event.Check(got.Entries)
	if err != nil || n != 3 || got.Count != 3 || got.Tag != "mon" {
		t.Errorf("%d events %v, count %d, tag %q", n, err, got.Count, got.Tag)
	}
	first, _, _ := event.Next(got.Entries)
	if text := string(event.AppendJSON(nil, first.Record, event.Yajl)); !strings.HasPrefix(text, `{"plugin_id":"in","plugin_category":"input","type":"forward","output_plugin":false,"retry_count":null,`) {
		t.Error(text)
	}
}

type emitting func(event.Batch)

func (f emitting) Emit(_ context.Context, b event.Batch) (input.Receipt, error) {
	f(b)
	return input.Receipt{}, nil
}

func (emitting) Lost(event.Batch) {}

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
		reg := NewRegistry("h", 1)
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
