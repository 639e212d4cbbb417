package emulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the clock of most tests.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func fixedClock(t time.Time) func() time.Time { return func() time.Time { return t } }

func newServer(t testing.TB, opt Options) *Server {
	t.Helper()
	if opt.Clock == nil {
		opt.Clock = fixedClock(noon)
	}
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// reply is an answer, decoded.
type reply struct {
	Status int
	Header http.Header
	Body   map[string]any
}

func (r reply) Type() string { s, _ := r.Body["__type"].(string); return s }
func (r reply) Text() string { s, _ := r.Body["message"].(string); return s }

// sign gives a request the shape of a signed one.
func sign(r *http.Request, now time.Time) {
	r.Header.Set("X-Amz-Date", now.UTC().Format(sigTime))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/"+now.UTC().Format("20060102")+
		"/eu-west-1/logs/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
}

func request(s *Server, op, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "Logs_20140328."+op)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	sign(r, s.clock())
	return r
}

func serve(t testing.TB, s http.Handler, r *http.Request) reply {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	out := reply{Status: w.Code, Header: w.Header()}
	if b := bytes.TrimSpace(w.Body.Bytes()); len(b) > 0 && b[0] == '{' {
		if err := json.Unmarshal(b, &out.Body); err != nil {
			t.Fatalf("answer %s: %v", b, err)
		}
	}
	return out
}

// do sends a call; in is JSON text or anything that encodes to it.
func do(t testing.TB, s *Server, op string, in any) reply {
	t.Helper()
	body, ok := in.(string)
	if !ok {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = string(b)
	}
	return serve(t, s, request(s, op, body))
}

func mustOK(t testing.TB, s *Server, op string, in any) reply {
	t.Helper()
	r := do(t, s, op, in)
	if r.Status != http.StatusOK {
		t.Fatalf("%s: status %d, %s: %s", op, r.Status, r.Type(), r.Text())
	}
	return r
}

type obj = map[string]any

// prepare makes group g and stream s.
func prepare(t testing.TB, s *Server) {
	t.Helper()
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "g"})
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "s"})
}

func event(ts time.Time, message string) obj {
	return obj{"timestamp": ts.UnixMilli(), "message": message}
}

func put(t testing.TB, s *Server, events ...obj) reply {
	t.Helper()
	return do(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "logEvents": events})
}

func messages(s *Server) []string {
	var out []string
	s.Walk("g", "s", func(e Event) bool { out = append(out, e.Message); return true })
	return out
}

// start serves on a real connection, for what a recorder can't show.
func start(t testing.TB, s *Server) (url string, client *http.Client) {
	t.Helper()
	if err := s.Listen("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return s.URL(), &http.Client{Transport: tr}
}

// send posts a call over the wire.
func send(t testing.TB, s *Server, c *http.Client, url, op, body string) (reply, error) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "Logs_20140328."+op)
	sign(r, s.clock())
	resp, err := c.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	out := reply{Status: resp.StatusCode, Header: resp.Header}
	if err == nil && len(b) > 0 {
		err = json.Unmarshal(b, &out.Body)
	}
	return out, err
}
