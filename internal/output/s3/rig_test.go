package s3

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/formatter"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// call is a request that the service saw.
type call struct{ method, key, query string }

// service is an S3 in the process, with faults.
type service struct {
	t       testing.TB
	url     string
	backend *s3mem.Backend
	real    http.Handler

	mu     sync.Mutex
	calls  []call
	header []http.Header
	// fault may answer instead of the service; nil or false: it does not. after runs when
	// the service has answered to rec, which is then sent unless it returns false.
	fault func(w http.ResponseWriter, r *http.Request) bool
	after func(w http.ResponseWriter, r *http.Request) bool
	// deaf makes the service ignore If-None-Match.
	deaf bool
}

func newService(t testing.TB, bucket string) *service {
	t.Helper()
	for _, k := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		if v, ok := os.LookupEnv(k); ok {
			_ = os.Unsetenv(k)
			t.Cleanup(func() { _ = os.Setenv(k, v) })
		}
	}
	s := &service{t: t, backend: s3mem.New()}
	if bucket != "" {
		if err := s.backend.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
	}
	s.real = gofakes3.New(s.backend, gofakes3.WithLogger(gofakes3.DiscardLog()), gofakes3.WithTimeSkewLimit(0)).Server()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.calls = append(s.calls, call{r.Method, key, r.URL.RawQuery})
	s.header = append(s.header, r.Header.Clone())
	fault, after := s.fault, s.after
	if s.deaf {
		r.Header.Del("If-None-Match")
	}
	s.mu.Unlock()
	if fault != nil {
		body, _ := io.ReadAll(r.Body) // an answer while the body is on its way would reset the connection
		r.Body = io.NopCloser(bytes.NewReader(body))
		if fault(w, r) {
			return
		}
	}
	if after == nil {
		s.real.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	s.real.ServeHTTP(rec, r)
	if !after(w, r) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// set changes the faults.
func (s *service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// count counts calls of a method since the last reset.
func (s *service) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c.method == method {
			n++
		}
	}
	return n
}

func (s *service) forget() { s.set(func() { s.calls, s.header = nil, nil }) }

// keys lists the keys of a bucket.
func (s *service) keys(bucket string) []string {
	s.t.Helper()
	list, err := s.backend.ListBucket(bucket, nil, gofakes3.ListBucketPage{})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, c := range list.Contents {
		out = append(out, c.Key)
	}
	sort.Strings(out)
	return out
}

// putOrder lists the keys of a bucket in the order in which they were put.
func (s *service) putOrder(bucket string) []string {
	there := map[string]bool{}
	for _, k := range s.keys(bucket) {
		there[k] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.calls {
		if c.method == http.MethodPut && there[c.key] {
			out = append(out, c.key)
			delete(there, c.key)
		}
	}
	return out
}

// object reads an object.
func (s *service) object(bucket, key string) (body []byte, meta map[string]string) {
	s.t.Helper()
	o, err := s.backend.GetObject(bucket, key, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer o.Contents.Close()
	body, err = io.ReadAll(o.Contents)
	if err != nil {
		s.t.Fatal(err)
	}
	return body, o.Metadata
}

// lines reads the lines of a gzip object.
func (s *service) lines(bucket, key string) []string {
	s.t.Helper()
	body, _ := s.object(bucket, key)
	return gunzip(s.t, body)
}

func gunzip(t testing.TB, body []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// section parses the inside of a <match>.
func section(t testing.TB, text string) *fluentconf.Section {
	t.Helper()
	root, errs, _ := fluentconf.Parse(fluentconf.Source{Name: "fluent.conf", ReadFile: func(string) ([]byte, error) {
		return []byte("<match **>\n@type s3\n" + text + "\n</match>\n"), nil
	}})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return root.All("match")[0]
}

// read decodes and checks a section.
func read(t testing.TB, text string) (Options, *config.Diagnostics) {
	t.Helper()
	s := section(t, text)
	d := &config.Diagnostics{}
	var p Params
	config.Decode(s, &p, d)
	b := config.ParseBuffer(s, config.BufferDefaults{Keys: []string{"time"}, Timekey: 24 * time.Hour}, d)
	names := placeholder.Options{Location: time.UTC}
	if b.ByTag {
		names.ChunkKeys = append(names.ChunkKeys, "tag")
	}
	if b.ByTime {
		names.ChunkKeys = append(names.ChunkKeys, "time")
		names.Timekey = b.Timekey
	}
	names.ChunkKeys = append(names.ChunkKeys, b.Keys...)
	p.Check(s, names, d)
	f, usesTag := formatter.New(s, cmp.Or(p.Format, formatter.FlatFormat(s)), p.Inject, "out_file", formatter.Env{}, d)
	return Options{Params: p, Names: names, Formatter: f, FormatterUsesTag: usesTag, Limit: int(b.ChunkLimit)}, d
}

const keys = "aws_key_id AKID\naws_sec_key secret\n"

// open makes an output of a section that must be right. out gets its log.
func open(t testing.TB, text string, out io.Writer) *Output {
	t.Helper()
	opt, d := read(t, keys+text)
	for _, e := range d.Errors {
		t.Fatal(e)
	}
	if out == nil {
		out = io.Discard
	}
	opt.Log = slog.New(slog.NewTextHandler(out, nil))
	o, err := New(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// entry is an event.
func entry(at time.Time, fields ...string) []byte {
	r := event.AppendMapHeader(nil, len(fields)/2)
	for _, f := range fields {
		r = event.AppendStr(r, f)
	}
	return event.AppendEntry(nil, event.FromTime(at), r)
}

func batchOf(tag string, entries ...[]byte) event.Batch {
	b := event.Batch{Tag: tag, Entries: bytes.Join(entries, nil)}
	b.Count, b.First, b.Last, _, _ = event.Check(b.Entries)
	return b
}

// laneOf is the lane of a batch that has one.
func laneOf(t testing.TB, o *Output, b event.Batch) string {
	t.Helper()
	lane := ""
	o.Splitter().Split(b, func(l []byte, r output.Run) {
		if l == nil {
			t.Fatalf("the batch has no lane: %+v", r.Fate)
		}
		lane = string(l)
	})
	return lane
}

// fill makes a request of a batch.
func fill(t testing.TB, o *Output, b event.Batch) *request {
	t.Helper()
	r := o.Request().(*request)
	r.Reset(laneOf(t, o, b))
	r.SetTag(b.Tag)
	if n, _, _ := r.Add(b.Entries, b.Count); n != b.Count {
		t.Fatalf("took %d of %d", n, b.Count)
	}
	return r
}

func send(t testing.TB, o *Output, b event.Batch) {
	t.Helper()
	r := fill(t, o, b)
	if res := r.Send(t.Context()); res.Err != nil {
		t.Fatal(res.Err)
	}
	r.Reset("")
}

// apiError answers with an error of S3.
func apiError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>for the test</Message></Error>", code)
}

var noon = time.Date(2026, 11, 30, 12, 34, 56, 0, time.UTC)

func jsonField(t testing.TB, line, field string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return fmt.Sprint(m[field])
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
