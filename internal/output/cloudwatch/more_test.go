package cloudwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/awsx"
	"weir/internal/output"
)

// lines counts log lines by their message.
type lines struct {
	mu sync.Mutex
	n  map[string]int
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = map[string]int{}
	}
	l.n[r.Message]++
	return nil
}

// A retention that cannot be set is logged once and tried again, ever more seldom.
func TestRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		log := &lines{}
		r := newRetention(slog.New(log), func(_ context.Context, group string, days int) *output.Error {
			at = append(at, time.Since(begin))
			switch {
			case group == "bad":
				return &output.Error{Kind: output.Refused, Op: "set", Err: errors.New("no")}
			case len(at) < 5:
				return &output.Error{Kind: output.Denied, Op: "set", Err: errors.New("not allowed")}
			}
			return nil
		})
		r.ask("g", 7)
		time.Sleep(time.Hour)
		synctest.Wait()
		s := time.Second
		if d := cmp.Diff([]time.Duration{0, 5 * s, 15 * s, 35 * s, 75 * s}, at); d != "" {
			t.Error(d)
		}
		r.ask("bad", 8)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(at) != 6 {
			t.Errorf("%d attempts", len(at))
		}
		if d := cmp.Diff(map[string]int{"retention not set yet": 1, "retention set after all": 1, "retention not set": 1}, log.n); d != "" {
			t.Error(d)
		}
		if len(r.pending) != 0 {
			t.Errorf("pending: %v", r.pending)
		}
		r.close()
	})
}

// While calls are denied, a group that is created brings its own call and not one for each
// that waits.
func TestRetentionDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, denied := 0, true
		r := newRetention(slog.New(&lines{}), func(context.Context, string, int) *output.Error {
			if calls++; denied {
				return &output.Error{Kind: output.Denied, Op: "set", Err: errors.New("not allowed")}
			}
			return nil
		})
		for i := range 100 {
			r.ask(fmt.Sprint("g", i), 7)
			time.Sleep(10 * time.Millisecond)
		}
		if calls != 100 {
			t.Errorf("%d calls for 100 groups", calls)
		}
		denied = false
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls != 200 || len(r.pending) != 0 {
			t.Errorf("%d calls, %d groups wait", calls, len(r.pending))
		}
		r.close()
	})
}

// Another replica makes the group or the stream between our two calls.
func TestCreateRaces(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"CreateLogGroup", "CreateLogStream"} {
		s := newService(t)
		s.script = func(w http.ResponseWriter, _ *http.Request, got string, _ []byte) bool {
			if got != op {
				return false
			}
			s.groups["/app/g"] = &testGroup{streams: map[string]*testStream{"s": {}}}
			fail(w, 400, "ResourceAlreadyExistsException", "exists")
			return true
		}
		days := 3
		o := s.open(Params{AutoCreate: true, RetentionDays: &days})
		sendOK(t, filled(t, o, lane, "a"))
		o.retention.close()
		if n := count(s.take(), "PutRetentionPolicy"); n != 0 {
			t.Errorf("%s: the retention of somebody else's group is changed", op)
		}
	}
}

// A key or class that the service does not take must not cost an event.
func TestCreateRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.script = func(w http.ResponseWriter, _ *http.Request, op string, _ []byte) bool {
		if op == "CreateLogGroup" {
			fail(w, 400, "InvalidParameterException", "the key is disabled")
		}
		return op == "CreateLogGroup"
	}
	res := filled(t, s.open(Params{AutoCreate: true, KMSKeyID: "k"}), lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Denied || !strings.Contains(res.Err.Hint, "kms_key_id") {
		t.Errorf("got %+v", res.Err)
	}
}

// Credentials expire while weir runs, and somebody has put new ones into the shared file.
func TestExpiredToken(t *testing.T) {
	clearAWS(t)
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	put := func(token string) {
		text := "[default]\naws_access_key_id = AKID\naws_secret_access_key = SECRET\naws_session_token = " + token + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("expired")
	s := newService(t)
	s.stream("/app/g", "s")
	o, err := New(t.Context(), Options{ID: "out", Log: slog.New(testWriterHandler(t)), Params: Params{
		Params: awsx.Params{Region: "r", Endpoint: s.server.URL}, GroupName: "/app/g", StreamName: "s", MessageKeys: []string{"m"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	r := filled(t, o, lane, "a")
	res := r.Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Credentials || !strings.Contains(res.Err.Error(), "ExpiredToken") {
		t.Fatalf("got %+v", res.Err)
	}
	put("fresh")
	sendOK(t, r) // found at the next request or after one more refusal, in the same Send
}

func testWriterHandler(t *testing.T) slog.Handler { return slog.NewTextHandler(testWriter{t}, nil) }

func TestNoCredentialsError(t *testing.T) {
	clearAWS(t)
	s := newService(t)
	o, err := New(t.Context(), Options{ID: "out", Log: slog.New(slog.DiscardHandler), Params: Params{
		Params: awsx.Params{Region: "r", Endpoint: s.server.URL}, GroupName: "/app/g", StreamName: "s", MessageKeys: []string{"m"},
	}})
	if err != nil {
		t.Fatalf("missing credentials stop the start: %v", err)
	}
	defer o.Close()
	res := filled(t, o, lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Credentials || !strings.Contains(res.Err.Error(), "tried the environment") {
		t.Fatalf("got %+v", res.Err)
	}
}

// http_proxy is used for the service, by an endpoint that only the proxy can reach.
func TestThroughProxy(t *testing.T) {
	clearAWS(t)
	s := newService(t)
	s.stream("/app/g", "s")
	var hosts []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.URL.Host)
		s.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	o := s.open(Params{Params: awsx.Params{Endpoint: "http://logs.invalid", HTTPProxy: proxy.URL}})
	sendOK(t, filled(t, o, lane, "a"))
	if d := cmp.Diff([]string{"logs.invalid"}, hosts); d != "" {
		t.Error(d)
	}
}

// Delivery builds a request anew after a failure: pieces that were accepted do not go out
// again, and another event of the lane does.
func TestPiecesRebuilt(t *testing.T) {
	t.Parallel()
	s := newService(t)
	st := s.stream("/app/g", "s")
	o := s.open(Params{})
	big := strings.Repeat("0123456789", 250_000)
	puts := 0
	s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
		if puts++; puts == 2 || puts == 3 {
			fail(w, 400, "ThrottlingException", "Rate exceeded")
			return true
		}
		return false
	}
	for range 2 {
		if res := filled(t, o, lane, big).Send(t.Context()); res.Err == nil || res.Err.Kind != output.Throttled {
			t.Fatalf("got %+v", res)
		}
	}
	sendOK(t, filled(t, o, lane, big))
	if strings.Join(texts(st), "") != big || len(st.events) != 3 {
		t.Errorf("%d events", len(st.events))
	}
	sendOK(t, filled(t, o, lane, big)) // the same once more is another event
	if len(st.events) != 6 {
		t.Errorf("%d events", len(st.events))
	}
}

// A body's memory may be used again only when nobody reads it any more.
func TestPayload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &payload{b: []byte("x")}
		one, two := p.reader(), p.reader()
		over := false
		go func() { p.open.Wait(); over = true }()
		one.Close()
		one.Close() // net/http may close twice
		synctest.Wait()
		if over {
			t.Error("one of two readers is still open")
		}
		two.Close()
		synctest.Wait()
		if !over {
			t.Error("nobody reads, and yet the wait goes on")
		}
	})
}

// A service that takes a connection and never reads does not hold up a Send whose context
// ends.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make(chan net.Conn, 10)
	go func() { // accepts, and never reads
		for {
			c, err := l.Accept()
			if err != nil {
				close(conns)
				return
			}
			conns <- c
		}
	}()
	s := newService(t)
	o := s.open(Params{Params: awsx.Params{Endpoint: "http://" + l.Addr().String()}})
	for range 3 {
		r := filled(t, o, lane, strings.Repeat("x", 1<<20-26))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if res := r.Send(ctx); res.Err == nil || res.Err.Kind != output.Unavailable {
			t.Errorf("got %+v", res)
		}
		cancel()
	}
	l.Close()
	for c := range conns {
		c.Close()
	}
}

// One connection serves one request after the other.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	o := s.open(Params{})
	for i := range 10 {
		sendOK(t, filled(t, o, lane, fmt.Sprint(i)))
	}
	news := 0
	s.peers.Range(func(any, any) bool { news++; return true })
	if news != 1 {
		t.Errorf("%d connections for 10 requests", news)
	}
}

// BenchmarkSend is the whole way: encode, sign, POST to a server of this process that
// reads and answers, over TLS.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Amzn-Requestid", "id")
		_, _ = io.WriteString(w, `{"nextSequenceToken":"x"}`)
	}))
	defer server.Close()
	for _, zip := range []string{"none", "gzip"} {
		b.Run(zip, func(b *testing.B) {
			o, err := New(b.Context(), Options{ID: "out", Log: slog.New(slog.DiscardHandler), Params: Params{
				Params:    awsx.Params{Region: "r", Endpoint: server.URL, KeyID: "a", SecKey: "b"},
				GroupName: "/infra/logs/eks", StreamName: "s", Compression: zip,
			}})
			if err != nil {
				b.Fatal(err)
			}
			defer o.Close()
			o.lenient = true
			in := kubernetesBatch(2000)
			r := o.Request()
			b.ReportAllocs()
			start := cpuSeconds(b)
			for b.Loop() {
				r.Reset("/infra/logs/eks\x00s")
				if n, _, _ := r.Add(in, 2000); n != 2000 {
					b.Fatalf("took %d", n)
				}
				if res := r.Send(b.Context()); res.Err != nil {
					b.Fatal(res.Err)
				}
			}
			b.ReportMetric(float64(b.N*2000)/(cpuSeconds(b)-start), "events/cpu-s") // with the server's share
		})
	}
}

// One does the work, the others wait for it and learn how it ended.
func TestFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f singleFlight
		var mu sync.Mutex
		worked, ended := 0, 0
		failure := &output.Error{Kind: output.Denied, Op: "make", Err: errors.New("no")}
		for range 5 {
			go func() {
				err := f.do(t.Context(), "name", func() *output.Error {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					worked++
					return failure
				})
				mu.Lock()
				defer mu.Unlock()
				ended++
				if err != failure {
					t.Errorf("got %v", err)
				}
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		if err := f.do(ctx, "name", func() *output.Error { t.Error("it works too"); return nil }); err == nil || err.Kind != output.Unavailable {
			t.Errorf("after its context ended: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if worked != 1 || ended != 5 || len(f.calls) != 0 {
			t.Errorf("%d worked, %d ended, %d are left", worked, ended, len(f.calls))
		}
	})
}
