package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func script(t testing.TB, text string) *FaultScript {
	t.Helper()
	fs, err := ParseFaults(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestParseFaultsIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"rules":[{"kind":"throttle"}]} x`:                             "text after the script",
		`{"rules":[{"kind":"throtle"}]}`:                                `rule 1 (throtle): unknown kind "throtle"; one of throttle`,
		`{"rules":[{"kind":"throttle","probabilty":1}]}`:                `unknown field "probabilty"`,
		"{\"rules\":[\n{\"kind\":\"throttle\",\n\"count\":\"3\"}]}":     "line 3",
		`{"rules":[{"kind":"throttle","probability":1.5}]}`:             "not between 0 and 1",
		`{"rules":[{"kind":"throttle","count":-1}]}`:                    "negative",
		`{"rules":[{"kind":"throttle","operations":["putLogEvents"]}]}`: `unknown operation "putLogEvents"`,
		`{"rules":[{"kind":"throttle","group":"[a"}]}`:                  "glob",
		`{"rules":[{"kind":"throttle","duration":"1s"}]}`:               "duration has no meaning for kind throttle",
		`{"rules":[{"name":"x","kind":"delay"}]}`:                       "rule 1 (x): delay needs a duration",
		`{"rules":[{"kind":"delay","duration":5}]}`:                     "a duration is a string",
		`{"rules":[{"kind":"reject","as":"lost"}]}`:                     `as "lost"; one of too_old`,
		`{"rules":[{"kind":"reject"}]}`:                                 `as ""; one of too_old`,
		`{"rules":[{"kind":"reset_body","stream":"a"}]}`:                "before the body is read",
		`{"rules":[{"kind":"clock_skew"}]}`:                             "needs a skew",
		`{"rules":[{"kind":"slow_read"}]}`:                              "needs bytes_per_second",
		`{"rules":[{"kind":"lost_answer","then":"sing"}]}`:              `then "sing"`,
		`{"rules":[{"kind":"throttle","share":0.5}]}`:                   "share has no meaning",
		`{"rules":[{"kind":"reject","as":"too_old","share":2}]}`:        "share 2",
		`{"rules":[{"kind":"hang","duration":"5 parsecs"}]}`:            `write it as "250ms"`,
		`{`: "unexpected EOF",
		`{"rules":[{"kind":"throttle","from":"-1s"}],"seed":1}`:              "negative",
		`{"rules":[{"kind":"not_found","as":"planet"}]}`:                     `as "planet"`,
		`{"rules":[{"kind":"slow_answer","bytes_per_second":9,"then":"x"}]}`: "then has no meaning",
	} {
		_, err := ParseFaults(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant …%s…", text, err, want)
		}
	}
}

func TestForgedErrors(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		status int
		typ    string
		text   string
	}{
		{`"kind":"throttle"`, 400, "ThrottlingException", "Rate exceeded"},
		{`"kind":"500"`, 500, "InternalFailure", ""},
		{`"kind":"503"`, 503, "ServiceUnavailableException", "The service cannot complete the request."},
		{`"kind":"access_denied"`, 400, "AccessDeniedException", "User: arn:aws:iam::000000000000:user/weir is not authorized to perform: logs:PutLogEvents on resource: arn:aws:logs:eu-west-1:000000000000:log-group:g because no identity-based policy allows the logs:PutLogEvents action"},
		{`"kind":"expired_token"`, 400, "ExpiredTokenException", "The security token included in the request is expired"},
		{`"kind":"unrecognized"`, 400, "UnrecognizedClientException", "The security token included in the request is invalid."},
		{`"kind":"not_found"`, 400, "ResourceNotFoundException", "The specified log stream does not exist."},
		{`"kind":"not_found","as":"group"`, 400, "ResourceNotFoundException", "The specified log group does not exist."},
		{`"kind":"aborted"`, 400, "OperationAbortedException", "A conflicting operation is currently in progress against this resource. Please try again."},
		{`"kind":"limit"`, 400, "LimitExceededException", "Resource limit exceeded."},
		{`"kind":"invalid","message":"because"`, 400, "InvalidParameterException", "because"},
	} {
		s := newServer(t, Options{})
		prepare(t, s)
		if err := s.SetFaults(script(t, `{"rules":[{`+tt.rule+`,"count":1}]}`)); err != nil {
			t.Fatal(err)
		}
		r := put(t, s, event(noon, "a"))
		if r.Status != tt.status || r.Type() != tt.typ || tt.text != "" && r.Text() != tt.text {
			t.Errorf("%s: got %d %s: %s", tt.rule, r.Status, r.Type(), r.Text())
		}
		if n := len(messages(s)); n != 0 {
			t.Errorf("%s: the batch was kept", tt.rule)
		}
		if r := put(t, s, event(noon, "a")); r.Status != 200 {
			t.Errorf("%s: struck more than once", tt.rule)
		}
		kind := s.Faults()[0].Kind
		if n := s.Stats().Requests["PutLogEvents"]["fault:"+kind]; n != 1 {
			t.Errorf("%s: counted %d times", tt.rule, n)
		}
	}
}

func TestWhenRulesStrike(t *testing.T) {
	now := noon
	s := newServer(t, Options{Clock: func() time.Time { return now }})
	prepare(t, s)
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "a/b"})
	run := func(rules string, n int) string {
		t.Helper()
		if err := s.SetFaults(script(t, `{"seed":7,"rules":[`+rules+`]}`)); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for range n {
			switch r := put(t, s, event(now, "x")); r.Status {
			case 200:
				out.WriteByte('.')
			case 503:
				out.WriteByte('3')
			default:
				out.WriteByte('x')
			}
		}
		return out.String()
	}
	for _, tt := range []struct{ rules, want string }{
		{`{"kind":"throttle","after":2,"count":3}`, "..xxx..."},
		{`{"kind":"throttle","operations":["CreateLogStream"]}`, "........"},
		{`{"kind":"throttle","group":"g","stream":"s"}`, "xxxxxxxx"},
		{`{"kind":"throttle","group":"h*"}`, "........"},
		{`{"kind":"throttle","count":1},{"kind":"503","count":2}`, "x33....."},
		{`{"kind":"throttle","from":"1s"}`, "........"},
	} {
		if got := run(tt.rules, 8); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rules, got, tt.want)
		}
	}
	first := run(`{"kind":"throttle","probability":0.5}`, 200)
	if second := run(`{"kind":"throttle","probability":0.5}`, 200); first != second {
		t.Error("the same seed gave another sequence")
	}
	if n := strings.Count(first, "x"); n < 70 || n > 130 {
		t.Errorf("%d of 200 at probability 0.5", n)
	}
	run(`{"kind":"throttle","from":"1s","for":"2s"}`, 0)
	for i, want := range []int{200, 400, 400, 200} {
		if r := put(t, s, event(now, "x")); r.Status != want {
			t.Errorf("second %d: status %d, want %d", i, r.Status, want)
		}
		now = now.Add(time.Second)
	}
	run(`{"kind":"throttle","stream":"a/*"}`, 0)
	if r := do(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "a/b", "logEvents": []obj{event(now, "x")}}); r.Status != 400 {
		t.Error("* must match a slash")
	}
	if err := s.SetFaults(nil); err != nil || len(s.Faults()) != 0 {
		t.Error("nil must end all faults")
	}
}

func TestRejectFault(t *testing.T) {
	for rule, want := range map[string]struct {
		info obj
		kept []string
	}{
		`"as":"too_old","share":0.5`:  {obj{"tooOldLogEventEndIndex": 2.0}, []string{"2", "3"}},
		`"as":"expired","share":0.25`: {obj{"expiredLogEventEndIndex": 1.0}, []string{"1", "2", "3"}},
		`"as":"too_new","share":0.6`:  {obj{"tooNewLogEventStartIndex": 1.0}, []string{"0"}},
		`"as":"too_new"`:              {obj{"tooNewLogEventStartIndex": 0.0}, nil},
	} {
		s := newServer(t, Options{Faults: script(t, `{"rules":[{"kind":"reject",`+rule+`}]}`)})
		prepare(t, s)
		var events []obj
		for i := range 4 {
			events = append(events, event(noon, fmt.Sprint(i)))
		}
		r := put(t, s, events...)
		if d := cmp.Diff(any(want.info), r.Body["rejectedLogEventsInfo"]); d != "" {
			t.Errorf("%s: %s", rule, d)
		}
		if d := cmp.Diff(want.kept, messages(s)); d != "" {
			t.Errorf("%s: %s", rule, d)
		}
	}
}

func TestClockSkewFault(t *testing.T) {
	s := newServer(t, Options{Faults: script(t, `{"rules":[{"kind":"clock_skew","skew":"20m"}]}`)})
	prepareSkewed := func(at time.Time) reply {
		r := request(s, "DescribeLogGroups", "{}")
		sign(r, at)
		return serve(t, s, r)
	}
	r := prepareSkewed(noon)
	want := "Signature expired: 20261130T120000Z is now earlier than 20261130T121500Z (20261130T122000Z - 5 min.)"
	if r.Type() != "InvalidSignatureException" || r.Text() != want {
		t.Errorf("%s: %s", r.Type(), r.Text())
	}
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	// A client that corrects its clock by the Date header gets through.
	if r := prepareSkewed(date); r.Status != 200 {
		t.Errorf("%s: %s", r.Type(), r.Text())
	}
}

const putA = `{"logGroupName":"g","logStreamName":"s","logEvents":[{"timestamp":1796040000000,"message":"a"}]}`

func TestBrokenConnections(t *testing.T) {
	for _, tt := range []struct {
		rule string
		kept int
	}{
		{`"kind":"reset"`, 0},
		{`"kind":"reset_body"`, 0},
		{`"kind":"hang","duration":"1ms"`, 0},
		{`"kind":"lost_answer"`, 1},
		{`"kind":"lost_answer","then":"hang","duration":"1ms"`, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := newServer(t, Options{})
			prepare(t, s)
			url, client := start(t, s)
			if err := s.SetFaults(script(t, `{"rules":[{`+tt.rule+`,"count":1}]}`)); err != nil {
				t.Fatal(err)
			}
			_, err := send(t, s, client, url, "PutLogEvents", putA)
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("got %v, want a reset connection", err)
			}
			if n := len(messages(s)); n != tt.kept {
				t.Errorf("%d events kept, want %d", n, tt.kept)
			}
			if r, err := send(t, s, client, url, "PutLogEvents", putA); err != nil || r.Status != 200 {
				t.Errorf("the next request: %v %v", r, err)
			}
		})
	}
}

func TestLostAnswerAs500(t *testing.T) {
	s := newServer(t, Options{Faults: script(t, `{"rules":[{"kind":"lost_answer","then":"500","operations":["PutLogEvents"]}]}`)})
	prepare(t, s)
	if r := put(t, s, event(noon, "a")); r.Status != 500 || len(messages(s)) != 1 {
		t.Errorf("status %d, %d events", r.Status, len(messages(s)))
	}
}

func TestHangEndsWithTheClientAndWithTheServer(t *testing.T) {
	s := newServer(t, Options{Faults: script(t, `{"rules":[{"kind":"hang","operations":["PutLogEvents"]}]}`)})
	prepare(t, s)
	url, client := start(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(putA))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "Logs_20140328.PutLogEvents")
	sign(r, noon)
	if _, err := client.Do(r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	for s.Stats().Requests["PutLogEvents"]["fault:hang"] == 0 {
		runtime.Gosched() // until the server has noticed that the client is gone
	}
	done := make(chan error, 1)
	go func() {
		_, err := send(t, s, client, url, "PutLogEvents", putA)
		done <- err
	}()
	for s.Faults()[0].Struck < 2 {
		runtime.Gosched() // until the second request hangs
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("a hanging request got an answer from a closing server")
	}
}

func TestDelayAndSlowFaultsTakeTheirTime(t *testing.T) {
	for rule, want := range map[string]time.Duration{
		`"kind":"delay","duration":"3s"`:             3 * time.Second,
		`"kind":"slow_read","bytes_per_second":10`:   time.Duration(len(putA)) * time.Second / 10,
		`"kind":"slow_answer","bytes_per_second":10`: time.Duration(len(`{"nextSequenceToken":""}`)+56) * time.Second / 10,
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Options{Clock: time.Now})
				prepare(t, s)
				if err := s.SetFaults(script(t, `{"rules":[{`+rule+`}]}`)); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				body := strings.Replace(putA, "1796040000000", fmt.Sprint(began.UnixMilli()), 1)
				want := want + time.Duration(len(body)-len(putA))*time.Second/10
				if strings.Contains(rule, "delay") || strings.Contains(rule, "answer") {
					want -= time.Duration(len(body)-len(putA)) * time.Second / 10
				}
				if r := do(t, s, "PutLogEvents", body); r.Status != 200 {
					t.Fatal(r)
				}
				if took := time.Since(began); took != want {
					t.Errorf("took %v, want %v", took, want)
				}
			})
		})
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	url, client := start(t, s)
	call := func(method, contentType, body string) (int, string) {
		r, err := http.NewRequest(method, url+"/_weir/faults", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	good := `{"rules":[{"name":"storm","kind":"throttle"}]}`
	if code, text := call("POST", "application/json", good); code != 200 || !strings.Contains(text, `"storm"`) {
		t.Errorf("%d %s", code, text)
	}
	if r := put(t, s, event(noon, "a")); r.Type() != "ThrottlingException" {
		t.Errorf("not in force: %v", r)
	}
	if _, text := call("GET", "", ""); !strings.Contains(text, `"struck": 1`) {
		t.Error(text)
	}
	if code, _ := call("POST", "text/plain", good); code != 415 {
		t.Errorf("a foreign page could set faults: %d", code)
	}
	if code, text := call("POST", "application/json", `{"rules":[{"kind":"x"}]}`); code != 400 || !strings.Contains(text, "unknown kind") {
		t.Errorf("%d %s", code, text)
	}
	if len(s.Faults()) != 1 {
		t.Error("a bad script must leave the old one in force")
	}
	if code, _ := call("DELETE", "", ""); code != 200 || len(s.Faults()) != 0 {
		t.Error("not ended")
	}
	if code, _ := call("PATCH", "", ""); code != 405 {
		t.Errorf("PATCH: %d", code)
	}
}
