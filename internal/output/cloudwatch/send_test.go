package cloudwatch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

type eventTime = event.Time

const lane = "/app/g\x00s"

func sendOK(t *testing.T, r output.Request) output.Result {
	t.Helper()
	res := r.Send(t.Context())
	if res.Err != nil {
		t.Fatalf("send: %v", res.Err)
	}
	return res
}

func texts(st *testStream) (out []string) {
	for _, e := range st.events {
		out = append(out, *e.Message)
	}
	return out
}

func TestSend(t *testing.T) {
	t.Parallel()
	s := newService(t)
	st := s.stream("/app/g", "s")
	o := s.open(Params{LogFormat: "json/emf", EntityKeyAttributes: map[string]string{"Type": "Service", "Name": `we"b`}})
	res := sendOK(t, filled(t, o, lane, "one", "", "two"))
	if d := cmp.Diff([]output.Ended{{First: 1, Count: 1, Fate: ledger.Empty.Fate()}}, res.Ended); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"one", "two"}, texts(st)); d != "" {
		t.Error(d)
	}
	if res.Bytes != len(s.bodies[0]) || res.Resent {
		t.Errorf("result %+v", res)
	}
	if got := s.headers[0].Get("X-Amzn-Logs-Format"); got != "json/emf" {
		t.Errorf("format header %q", got)
	}
	if got := string(s.puts[0].Entity); got != `{"keyAttributes":{"Name":"we\"b","Type":"Service"}}` {
		t.Errorf("entity %s", got)
	}
	if d := cmp.Diff([]string{"PutLogEvents"}, s.take()); d != "" {
		t.Errorf("one put and nothing else: %s", d)
	}
}

// A request with nothing to send does not go anywhere.
func TestSendNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o := s.open(Params{})
	res := sendOK(t, filled(t, o, lane, "", ""))
	if len(res.Ended) != 1 || res.Ended[0].Count != 2 || len(s.take()) != 0 {
		t.Errorf("result %+v", res)
	}
}

func TestSendGzip(t *testing.T) {
	t.Parallel()
	s := newService(t)
	st := s.stream("/app/g", "s")
	o := s.open(Params{Compression: "gzip"})
	long := strings.Repeat("all the same ", 1000)
	res := sendOK(t, filled(t, o, lane, long, "x"))
	if d := cmp.Diff([]string{long, "x"}, texts(st)); d != "" {
		t.Error(d)
	}
	if res.Bytes > 1000 || s.headers[0].Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes, encoding %q", res.Bytes, s.headers[0].Get("Content-Encoding"))
	}
	s.mu.Lock()
	s.headers = nil
	s.mu.Unlock()
	sendOK(t, filled(t, o, lane, "y")) // not smaller: plain
	if got := s.headers[0].Get("Content-Encoding"); got != "" {
		t.Errorf("encoding %q for a body that does not shrink", got)
	}
}

func TestSendPieces(t *testing.T) {
	t.Parallel()
	s := newService(t)
	st := s.stream("/app/g", "s")
	o := s.open(Params{})
	big := strings.Repeat("0123456789", 250_000)
	r := filled(t, o, lane, big)
	puts := 0
	s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
		if puts++; puts == 2 {
			fail(w, 503, "ServiceUnavailableException", "later")
			return true
		}
		return false
	}
	if res := r.Send(t.Context()); res.Err == nil || res.Err.Kind != output.Unavailable {
		t.Fatalf("send gave %+v", res)
	}
	sendOK(t, r) // goes on where it stopped
	if strings.Join(texts(st), "") != big || len(st.events) != 3 {
		t.Errorf("%d events", len(st.events))
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	s.answer = `{"nextSequenceToken":"x","rejectedLogEventsInfo":{"tooOldLogEventEndIndex":1,"tooNewLogEventStartIndex":3,"expiredLogEventEndIndex":2}}`
	o := s.open(Params{LogRejected: true})
	res := sendOK(t, filled(t, o, lane, "old", "expired", "", "good", "new", "newer"))
	want := []output.Ended{
		{First: 0, Count: 1, Fate: ledger.TooOld.Fate()}, {First: 1, Count: 1, Fate: ledger.Expired.Fate()},
		{First: 2, Count: 1, Fate: ledger.Empty.Fate()}, {First: 4, Count: 2, Fate: ledger.TooNew.Fate()},
	}
	if d := cmp.Diff(want, res.Ended); d != "" {
		t.Error(d)
	}
}

// Every error of the reference, and what it means.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		code, text string
		want       output.Kind
		hint       string
	}{
		{400, "ThrottlingException", "Rate exceeded", output.Throttled, ""},
		{400, "InvalidParameterException", "Upload too large", output.Refused, ""},
		{400, "SerializationException", "", output.Refused, ""},
		{413, "", "", output.Refused, ""},
		{500, "InternalFailure", "", output.Unavailable, ""},
		{503, "ServiceUnavailableException", "", output.Unavailable, ""},
		{502, "", "<html>", output.Unavailable, ""},
		{404, "", "<html>not here</html>", output.Unavailable, "check endpoint"},
		{400, "SomethingNew", "", output.Unavailable, ""},
		{400, "UnrecognizedClientException", "", output.Credentials, "credentials come from"},
		{400, "AccessDeniedException", "", output.Denied, "allow logs:PutLogEvents"},
		{400, "ResourceNotFoundException", "", output.NoTarget, "auto_create_stream true"},
		{400, "OperationAbortedException", "", output.Conflict, ""},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
				w.Header().Set("Retry-After", "7")
				if c.code == "" {
					w.WriteHeader(c.status)
					io.WriteString(w, c.text)
					return true
				}
				fail(w, c.status, c.code, c.text)
				return true
			}
			o := s.open(Params{})
			res := filled(t, o, lane, "a", "b").Send(t.Context())
			if res.Err == nil || res.Err.Kind != c.want || !strings.Contains(res.Err.Hint, c.hint) {
				t.Fatalf("got %+v", res.Err)
			}
			if want := `put 2 events to group "/app/g" stream "s"`; res.Err.Op != want || res.Err.After != 7*time.Second || res.Ended != nil {
				t.Errorf("op %q, after %v, ended %v", res.Err.Op, res.Err.After, res.Ended)
			}
		})
	}
}

// A status of 200 that does not come from the service is no delivery.
func TestForeignSuccess(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
		io.WriteString(w, "<html>please log in</html>")
		return true
	}
	if res := filled(t, s.open(Params{}), lane, "a").Send(t.Context()); res.Err == nil || res.Err.Kind != output.Unavailable {
		t.Fatalf("got %+v", res)
	}
}

func TestThrottleLimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	throttle := true
	s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
		if throttle {
			fail(w, 400, "ThrottlingException", "Rate exceeded")
		}
		return throttle
	}
	kinds := func(p Params, n int) (out []output.Kind) {
		o := s.open(p)
		for range n { // delivery builds each attempt anew
			out = append(out, filled(t, o, lane, "a").Send(t.Context()).Err.Kind)
		}
		return out
	}
	limit := func(n int) Params { return Params{RetryLimit: &n} }
	th, dr := output.Throttled, output.Drop
	if d := cmp.Diff([]output.Kind{th, th, dr, th, th, dr}, kinds(limit(1), 6)); d != "" {
		t.Errorf("limit 1: %s", d)
	}
	if d := cmp.Diff([]output.Kind{dr, dr}, kinds(limit(0), 2)); d != "" {
		t.Errorf("limit 0: %s", d)
	}
	off := limit(0)
	off.DisableRetryLimit = true
	if d := cmp.Diff([]output.Kind{th, th, th}, kinds(off, 3)); d != "" {
		t.Errorf("limit disabled: %s", d)
	}
	if d := cmp.Diff([]output.Kind{th, th, th}, kinds(Params{}, 3)); d != "" {
		t.Errorf("no limit: %s", d)
	}
	wait := 2 * time.Second
	o := s.open(Params{RetryWait: &wait})
	for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		after := filled(t, o, lane, "a").Send(t.Context()).Err.After
		if want *= time.Second; after < want*7/8 || after > want*9/8 {
			t.Errorf("wait %d is %v, want about %v", i, after, want)
		}
	}
	s.mu.Lock()
	throttle = false
	s.mu.Unlock()
	sendOK(t, filled(t, o, lane, "a"))
	if n := o.throttled.on.Load(); n != 0 {
		t.Errorf("%d lanes are still counted after a success", n)
	}
}

// The answer is lost after the service accepted the request: the result says that a repeat
// is possible.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	o := s.open(Params{})
	s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
		return true
	}
	r := filled(t, o, lane, "a")
	res := r.Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Unavailable || !res.Resent {
		t.Fatalf("got %+v", res)
	}
	s.mu.Lock()
	s.script = nil
	s.mu.Unlock()
	if res := sendOK(t, r); !res.Resent {
		t.Error("the second attempt does not say that it may be a repeat")
	}
}

// A request on a connection that the service has closed is repeated at once.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	o := s.open(Params{})
	sendOK(t, filled(t, o, lane, "a"))
	closed := 0
	s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
		if closed++; closed > 1 {
			return false
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
		return true
	}
	sendOK(t, filled(t, o, lane, "b"))
	if d := cmp.Diff([]string{"PutLogEvents", "PutLogEvents", "PutLogEvents"}, s.take()); d != "" {
		t.Error(d)
	}
}

func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there now
	o := s.open(Params{}, func(o *Options) { o.Params.Endpoint = "http://" + l.Addr().String() })
	res := filled(t, o, lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Unavailable || res.Resent || !strings.Contains(res.Err.Hint, "nothing listens") {
		t.Errorf("got %+v", res)
	}
	o = s.open(Params{}, func(o *Options) { o.Params.RequestDeadline = 50 * time.Millisecond })
	s.script = func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		<-r.Context().Done() // hang until the client gives up
		return true
	}
	if res = filled(t, o, lane, "a").Send(t.Context()); res.Err == nil || res.Err.Kind != output.Unavailable || !res.Resent {
		t.Errorf("got %+v", res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res = filled(t, o, lane, "a").Send(ctx); res.Err == nil || res.Err.Kind != output.Unavailable {
		t.Errorf("got %+v", res)
	}
}

// The clock is wrong by an hour: the request is signed again by the service's clock, and
// from then on at the first attempt.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	o := s.open(Params{}, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
	sendOK(t, filled(t, o, lane, "a"))
	sendOK(t, filled(t, o, lane, "b"))
	if n := len(s.take()); n != 3 {
		t.Errorf("%d requests instead of 3", n)
	}
	if skew := o.Stats().Skew.Round(time.Minute); skew != time.Hour {
		t.Errorf("skew %v", skew)
	}
}

// What is wrong with a signature other than the clock is not tried again and again.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o := s.open(Params{})
	s.mu.Lock()
	s.secret = "another"
	s.mu.Unlock()
	res := filled(t, o, lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Credentials || len(s.take()) != 1 {
		t.Errorf("got %+v", res.Err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.stream("/app/g", "s")
	o := s.open(Params{})
	sendOK(t, filled(t, o, lane, "a"))
	if problems, err := testutil.CollectAndLint(o.Metrics()); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if n := testutil.CollectAndCount(o.Metrics()); n != 5 {
		t.Errorf("%d metrics, want 5", n)
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
