// Package compat runs configurations from the field, byte for byte as they are, and compares
// what comes out with what Fluentd made of the same events.
package compat

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"weir/internal/emulator"
	"weir/internal/event"
	"weir/test/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

// input is a line of pod-logs.events.jsonl.
type input struct {
	Tag    string          `json:"tag"`
	DT     int64           `json:"dt"`
	NS     int64           `json:"ns"`
	Record json.RawMessage `json:"record"`
}

// arrival is an event where it arrived: a stream and a time, or the key of an object.
type arrival struct {
	where  string
	offset int64 // milliseconds after the base; 0 for objects
	text   string
}

func lines[T any](t *testing.T, name string) (out []T) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

var rawString = regexp.MustCompile(`\{"\$str": "([^"]*)"\}`)

// record makes msgpack of a record; {"$str": base64} is a string of those bytes.
func record(t *testing.T, text []byte) []byte {
	t.Helper()
	type raw struct{ stand, bytes []byte }
	var raws []raw
	text = rawString.ReplaceAllFunc(text, func(m []byte) []byte {
		b, err := base64.StdEncoding.DecodeString(string(rawString.FindSubmatch(m)[1]))
		if err != nil {
			t.Fatal(err)
		}
		// A text of the same length stands for it until the msgpack is made.
		stand := bytes.Repeat([]byte{byte('A' + len(raws))}, len(b))
		raws = append(raws, raw{stand, b})
		return fmt.Appendf(nil, "%q", stand)
	})
	rec, _, err := event.AppendFromJSON(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range raws {
		rec = bytes.Replace(rec, r.stand, r.bytes, 1)
	}
	return rec
}

// send sends the events in order, each as a message that is acknowledged. Tag kube.g has
// integer times, as in the recording.
func send(t *testing.T, addr string, base time.Time, events []input) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, e := range events {
		at := base.Add(time.Duration(e.DT)*time.Second + time.Duration(e.NS))
		rec := record(t, e.Record)
		entry := event.AppendEntry(nil, event.FromTime(at), rec)
		if e.Tag == "kube.g" {
			entry = append(binary.BigEndian.AppendUint32([]byte{0x92, 0xce}, uint32(at.Unix())), rec...)
		}
		m := event.AppendStr([]byte{0x93}, e.Tag)
		m = event.AppendBin(m, entry)
		m = event.AppendStr(append(m, 0x81), "chunk")
		m = event.AppendStr(m, fmt.Sprintf("id-%04d", i))
		if _, err := c.Write(m); err != nil {
			t.Fatal(err)
		}
		ack := make([]byte, 1+4+1+7)
		if _, err := io.ReadFull(c, ack); err != nil {
			t.Fatalf("event %d was not acknowledged: %v", i, err)
		}
	}
}

// TestPodLogs runs pod-logs.conf and replays the recorded events: CloudWatch and S3 get what
// Fluentd sent there, but for the differences that are meant: times are rounded down, and
// S3's lines are valid UTF-8.
func TestPodLogs(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict tokens %v", strict), func(t *testing.T) { podLogs(t, strict) })
	}
}

func podLogs(t *testing.T, strict bool) {
	logs := weirtest.Endpoint(t, emulator.Options{StrictTokens: strict})
	backend := s3mem.New()
	if err := backend.CreateBucket("foobar"); err != nil {
		t.Fatal(err)
	}
	s3 := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer s3.Close()
	config, err := os.ReadFile("testdata/pod-logs.conf")
	if err != nil {
		t.Fatal(err)
	}
	w := weirtest.New(t, logs, string(config))
	w.Env = append(w.Env, "AWS_ENDPOINT_URL_S3="+s3.URL, "ENVIRONMENT=stage", "TZ=UTC")
	w.Start()
	base := time.Now().Add(-time.Minute).Truncate(time.Second)
	events := lines[input](t, "testdata/pod-logs.events.jsonl")
	send(t, "127.0.0.1:24284", base, events)
	w.Drained()
	w.Stop(weirtest.Patience)
	w.LogAtMost(0, 3) // buffers in memory, twice; the events that have no kubernetes key
	compareLogs(t, logs, base)
	compareObjects(t, backend, base)
	for outcome, n := range logs.Stats().Requests["PutLogEvents"] {
		if strings.Contains(outcome, "Token") {
			t.Errorf("%d requests ended as %s", n, outcome)
		}
	}
}

// TestPodLogsTwoReplicas runs two replicas with four flush threads each against one endpoint
// that enforces sequence tokens, which is what the file's owners could not do: every event
// arrives once, in order for each sender and stream, without an error anywhere.
func TestPodLogsTwoReplicas(t *testing.T) {
	logs := weirtest.Endpoint(t, emulator.Options{StrictTokens: true})
	backend := s3mem.New()
	if err := backend.CreateBucket("foobar"); err != nil {
		t.Fatal(err)
	}
	s3 := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer s3.Close()
	config, err := os.ReadFile("testdata/pod-logs.conf")
	if err != nil {
		t.Fatal(err)
	}
	// Both run on one host here, so they need a port each, and flush more often to meet.
	text := strings.ReplaceAll(strings.ReplaceAll(string(config), "port 24284", "port $PORT"), "flush_interval 5s", "flush_interval 0.1")
	text += "<source>\n  @type prometheus\n  port $METRICS\n</source>\n<source>\n  @type prometheus_output_monitor\n</source>\n"
	var replicas []*weirtest.Weir
	var metrics []int
	for range 2 {
		port := weirtest.Port(t)
		w := weirtest.New(t, logs, strings.ReplaceAll(text, "$METRICS", fmt.Sprint(port)))
		w.Env = append(w.Env, "AWS_ENDPOINT_URL_S3="+s3.URL, "ENVIRONMENT=stage", "TZ=UTC")
		w.Start()
		replicas, metrics = append(replicas, w), append(metrics, port)
	}
	base := time.Now().Add(-time.Minute).Truncate(time.Second)
	const each, pods = 400, 3
	var wg sync.WaitGroup
	for r, w := range replicas {
		wg.Go(func() {
			var events []input
			for i := range each {
				text := fmt.Sprintf(`{"log":"%d %d","kubernetes":{"namespace_name":"shop","pod_name":"web-%d"}}`, r, i, i%pods)
				events = append(events, input{Tag: "kube.x", DT: int64(i / 100), Record: json.RawMessage(text)})
			}
			send(t, w.Addr(), base, events)
		})
	}
	wg.Wait()
	for i, w := range replicas {
		w.Drained()
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics[i]))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		found := regexp.MustCompile(`(?m)^fluentd_output_status_num_errors\{.*\} (\S+)$`).FindAllSubmatch(body, -1)
		if len(found) != 5 { // two rewrite_tag_filter, copy and its two stores
			t.Errorf("metrics of replica %d:\n%s", i, body)
		}
		for _, m := range found {
			if string(m[1]) != "0.0" {
				t.Errorf("replica %d: %s", i, m[0])
			}
		}
		w.Stop(weirtest.Patience)
		w.LogAtMost(0, 2)
	}
	seen := map[string]int{}
	for _, g := range logs.Groups() {
		for _, s := range logs.Streams(g.Name) {
			last := map[int]int{0: -1, 1: -1}
			for _, e := range logs.Events(g.Name, s.Name) {
				var m struct{ Log string }
				var r, i int
				if err := json.Unmarshal([]byte(e.Message), &m); err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Sscanf(m.Log, "%d %d", &r, &i); err != nil {
					t.Fatal(err)
				}
				seen[m.Log]++
				if i <= last[r] {
					t.Errorf("stream %s: event %d of sender %d behind its %d", s.Name, i, r, last[r])
				}
				last[r] = i
			}
		}
	}
	if len(seen) != 2*each {
		t.Errorf("%d events arrived, want %d", len(seen), 2*each)
	}
	for e, n := range seen {
		if n != 1 {
			t.Errorf("event %q arrived %d times", e, n)
		}
	}
	list, err := backend.ListBucket("foobar", nil, gofakes3.ListBucketPage{})
	if err != nil || len(list.Contents) < 2*pods {
		t.Errorf("%d objects (%v)", len(list.Contents), err)
	}
}

func compareLogs(t *testing.T, logs *emulator.Server, base time.Time) {
	t.Helper()
	type line struct {
		Group  string `json:"group"`
		Stream string `json:"stream_after_hour"`
		Offset int64  `json:"offset_ms"`
		Text   string `json:"message"`
	}
	var want, got []arrival
	for _, l := range lines[line](t, "testdata/pod-logs.cloudwatch.jsonl") {
		if strings.Contains(l.Text, `"unicode: `) {
			l.Offset = 1999 // 1 s and 999 999 999 ns: Fluentd's double makes 2000 of it
		}
		hour := base.Add(time.Duration(l.Offset) * time.Millisecond).UTC().Format("2006-01-02-15-")
		want = append(want, arrival{l.Group + " " + hour + l.Stream, l.Offset, l.Text})
	}
	for _, g := range logs.Groups() {
		for _, s := range logs.Streams(g.Name) {
			for _, e := range logs.Events(g.Name, s.Name) {
				got = append(got, arrival{g.Name + " " + s.Name, e.Timestamp - base.UnixMilli(), e.Message})
			}
		}
	}
	same(t, "CloudWatch", got, want)
}

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	inHour = regexp.MustCompile(`/\d\d_0_`)
	onDay  = regexp.MustCompile(`/\d{4}-\d\d-\d\d/`)
)

func compareObjects(t *testing.T, backend *s3mem.Backend, base time.Time) {
	t.Helper()
	type line struct {
		Key, Line string
		Base64    []byte `json:"line_base64"` // instead of Line, where that is not UTF-8
	}
	var want, got []arrival
	for _, l := range lines[line](t, "../../internal/output/s3/testdata/pod-logs.s3.jsonl") {
		// What is not UTF-8 is replaced as Ruby's scrub does it, and as CloudWatch gets it.
		text := event.AppendText(nil, event.AppendStr(nil, l.Line+string(l.Base64)))
		want = append(want, arrival{where: l.Key, text: string(text)})
	}
	list, err := backend.ListBucket("foobar", nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Contents {
		o, err := backend.GetObject("foobar", c.Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(o.Contents)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		key := onDay.ReplaceAllString(inHour.ReplaceAllString(uuid.ReplaceAllString("foobar/"+c.Key, "UUID"), "/HOUR_0_"), "/DATE/")
		for l := range strings.Lines(string(data)) {
			got = append(got, arrival{where: key, text: strings.TrimSuffix(l, "\n")})
		}
	}
	same(t, "S3", got, want)
}

// same compares what arrived, in order within each place. The recording has several
// objects of one key's form side by side: those are compared as sets.
func same(t *testing.T, what string, got, want []arrival) {
	t.Helper()
	sort := func(a []arrival) {
		slices.SortStableFunc(a, func(x, y arrival) int {
			return cmp.Or(cmp.Compare(x.where, y.where), cmp.Compare(x.offset, y.offset))
		})
	}
	if what == "S3" {
		sort = func(a []arrival) {
			slices.SortStableFunc(a, func(x, y arrival) int { return cmp.Or(cmp.Compare(x.where, y.where), cmp.Compare(x.text, y.text)) })
		}
	}
	sort(got)
	sort(want)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("%s: missing %+v", what, want[i])
		case i >= len(want):
			t.Errorf("%s: too much %+v", what, got[i])
		case got[i] != want[i]:
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, got[i], want[i])
		}
	}
}
