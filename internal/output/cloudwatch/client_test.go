package cloudwatch

import (
	"context"
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
