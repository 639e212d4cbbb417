package emulator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// repeat makes n events of the same time and size.
func repeat(n, size int) []obj {
	out := make([]obj, n)
	for i := range out {
		out[i] = event(noon, strings.Repeat("x", size))
	}
	return out
}

// The numbers here are the documented ones, written out: the tests must not
// take them from the code.
func TestPutLogEventsRules(t *testing.T) {
	const (
		day = 24 * time.Hour
		ms  = time.Millisecond
	)
	name512 := strings.Repeat("n", 512)
	tests := []struct {
		name   string
		events []obj
		group  string
		stream string
		want   string // "" is success, else the text of an InvalidParameterException
	}{
		{name: "one", events: []obj{event(noon, "a")}},
		{name: "no events", events: []obj{}, want: "1 validation error detected: Value '[]' at 'logEvents' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{name: "empty message", events: []obj{event(noon, "")}, want: "1 validation error detected: Value '' at 'logEvents.1.member.message' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{name: "two empty messages", events: []obj{event(noon, ""), event(noon, "a"), event(noon, "")}, want: "2 validation errors detected: Value '' at 'logEvents.1.member.message' failed to satisfy constraint: Member must have length greater than or equal to 1; Value '' at 'logEvents.3.member.message' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{name: "no message", events: []obj{{"timestamp": noon.UnixMilli()}}, want: "1 validation error detected: Value null at 'logEvents.1.member.message' failed to satisfy constraint: Member must not be null"},
		{name: "no timestamp", events: []obj{{"message": "a"}}, want: "1 validation error detected: Value null at 'logEvents.1.member.timestamp' failed to satisfy constraint: Member must not be null"},
		{name: "negative timestamp", events: []obj{{"message": "a", "timestamp": -1}}, want: "1 validation error detected: Value '-1' at 'logEvents.1.member.timestamp' failed to satisfy constraint: Member must have value greater than or equal to 0"},
		{name: "10000 events", events: repeat(10000, 1)},
		{name: "10001 events", events: repeat(10001, 1), want: "1 validation error detected: Value at 'logEvents' failed to satisfy constraint: Member must have length less than or equal to 10000"},
		{name: "event at its limit", events: repeat(1, 1048550)},
		{name: "event over its limit", events: repeat(1, 1048551), want: "Log event too large: 1048577 bytes exceeds limit of 1048576"},
		{name: "batch at its limit", events: append(repeat(1023, 998), repeat(1, 1048576-1023*1024-26)...)},
		{name: "batch over its limit", events: append(repeat(1023, 998), repeat(1, 1048576-1023*1024-26+1)...), want: "Upload too large: 1048577 bytes exceeds limit of 1048576"},
		{name: "bytes are counted, not characters", events: []obj{event(noon, strings.Repeat("é", 524276))}, want: "Log event too large: 1048578 bytes exceeds limit of 1048576"},
		{name: "ties", events: []obj{event(noon, "a"), event(noon, "b")}},
		{name: "out of order", events: []obj{event(noon, "a"), event(noon.Add(-ms), "b")}, want: "Log events in a single PutLogEvents request must be in chronological order."},
		{name: "span of a day", events: []obj{event(noon.Add(-day), "a"), event(noon, "b")}},
		{name: "span over a day", events: []obj{event(noon.Add(-day-ms), "a"), event(noon, "b")}, want: "The batch of log events in a single PutLogEvents request cannot span more than 24 hours."},
		{name: "span counts valid events only", events: []obj{event(noon.Add(-20*day), "old"), event(noon, "b"), event(noon.Add(3*time.Hour), "new")}},
		{name: "group of 512", group: name512, events: []obj{event(noon, "a")}},
		{name: "group of 513", group: name512 + "n", events: []obj{event(noon, "a")}, want: "1 validation error detected: Value '" + name512 + "n' at 'logGroupName' failed to satisfy constraint: Member must have length less than or equal to 512"},
		{name: "group with a space", group: "a b", events: []obj{event(noon, "a")}, want: `1 validation error detected: Value 'a b' at 'logGroupName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\.\-_/#A-Za-z0-9]+`},
		{name: "stream of 512", stream: name512, events: []obj{event(noon, "a")}},
		{name: "stream with a colon", stream: "a:b", events: []obj{event(noon, "a")}, want: `1 validation error detected: Value 'a:b' at 'logStreamName' failed to satisfy constraint: Member must satisfy regular expression pattern: [^:*]*`},
		{name: "stream with a star", stream: "a*", events: []obj{event(noon, "a")}, want: `1 validation error detected: Value 'a*' at 'logStreamName' failed to satisfy constraint: Member must satisfy regular expression pattern: [^:*]*`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, Options{})
			group, stream := "g", "s"
			if tt.group != "" {
				group = tt.group
			}
			if tt.stream != "" {
				stream = tt.stream
			}
			if tt.want == "" {
				mustOK(t, s, "CreateLogGroup", obj{"logGroupName": group})
				mustOK(t, s, "CreateLogStream", obj{"logGroupName": group, "logStreamName": stream})
			} else {
				prepare(t, s)
			}
			r := do(t, s, "PutLogEvents", obj{"logGroupName": group, "logStreamName": stream, "logEvents": tt.events})
			if tt.want == "" {
				if r.Status != 200 {
					t.Fatalf("refused: %s: %s", r.Type(), r.Text())
				}
				return
			}
			if r.Status != 400 || r.Type() != "InvalidParameterException" || r.Text() != tt.want {
				t.Errorf("got %d %s: %s\nwant InvalidParameterException: %s", r.Status, r.Type(), r.Text(), tt.want)
			}
			if n := len(s.Events("g", "s")); n > 0 {
				t.Errorf("%d events of a refused batch were kept", n)
			}
		})
	}
}

func TestPutLogEventsNamesWhatIsMissing(t *testing.T) {
	s := newServer(t, Options{})
	in := obj{"logGroupName": "g", "logStreamName": "s", "logEvents": []obj{event(noon, "a")}}
	for _, step := range []struct{ want, create string }{
		{"The specified log group does not exist.", "CreateLogGroup"},
		{"The specified log stream does not exist.", "CreateLogStream"},
	} {
		if r := do(t, s, "PutLogEvents", in); r.Status != 400 || r.Type() != "ResourceNotFoundException" || r.Text() != step.want {
			t.Errorf("got %d %s: %s, want %s", r.Status, r.Type(), r.Text(), step.want)
		}
		mustOK(t, s, step.create, obj{"logGroupName": "g", "logStreamName": "s"})
	}
	mustOK(t, s, "PutLogEvents", in)
}

func TestRejectedLogEventsInfo(t *testing.T) {
	const (
		day = 24 * time.Hour
		ms  = time.Millisecond
	)
	at := func(offsets ...time.Duration) (out []obj) {
		for i, o := range offsets {
			out = append(out, event(noon.Add(o), fmt.Sprint(i)))
		}
		return out
	}
	tests := []struct {
		name      string
		retention int
		events    []obj
		want      obj
		kept      []string
	}{
		{"all valid", 0, at(-day, 0), nil, []string{"0", "1"}},
		{"exactly 14 days", 0, at(-14 * day), nil, []string{"0"}},
		{"a millisecond over 14 days", 0, at(-14*day - ms), obj{"tooOldLogEventEndIndex": 1.0}, nil},
		{"end index is exclusive", 0, at(-14*day-2*ms, -14*day-ms, -14*day, -14*day+ms), obj{"tooOldLogEventEndIndex": 2.0}, []string{"2", "3"}},
		{"exactly 2 hours ahead", 0, at(2 * time.Hour), nil, []string{"0"}},
		{"a millisecond over 2 hours", 0, at(2*time.Hour + ms), obj{"tooNewLogEventStartIndex": 0.0}, nil},
		{"start index is inclusive", 0, at(0, 2*time.Hour, 2*time.Hour+ms, 5*time.Hour), obj{"tooNewLogEventStartIndex": 2.0}, []string{"0", "1"}},
		{"both ends", 0, at(-15*day, 0, 3*time.Hour), obj{"tooOldLogEventEndIndex": 1.0, "tooNewLogEventStartIndex": 2.0}, []string{"1"}},
		{"exactly the retention", 3, at(-3 * day), nil, []string{"0"}},
		{"over the retention", 3, at(-3*day-ms, -3*day), obj{"expiredLogEventEndIndex": 1.0}, []string{"1"}},
		{"too old and expired overlap", 3, at(-15*day, -4*day, 0), obj{"tooOldLogEventEndIndex": 1.0, "expiredLogEventEndIndex": 2.0}, []string{"2"}},
		{"a long retention does not extend the window", 365, at(-15*day, 0), obj{"tooOldLogEventEndIndex": 1.0}, []string{"1"}},
		{"too old and too new, none valid", 0, at(-15*day, 3*time.Hour), obj{"tooOldLogEventEndIndex": 1.0, "tooNewLogEventStartIndex": 1.0}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, Options{})
			prepare(t, s)
			if tt.retention > 0 {
				mustOK(t, s, "PutRetentionPolicy", obj{"logGroupName": "g", "retentionInDays": tt.retention})
			}
			r := put(t, s, tt.events...)
			if r.Status != 200 {
				t.Fatalf("refused: %s: %s", r.Type(), r.Text())
			}
			info, _ := r.Body["rejectedLogEventsInfo"].(obj)
			if d := cmp.Diff(tt.want, info); d != "" {
				t.Errorf("rejectedLogEventsInfo (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.kept, messages(s)); d != "" {
				t.Errorf("kept (-want +got):\n%s", d)
			}
			st := s.Stats()
			if rejected := st.RejectedTooOld + st.RejectedTooNew + st.RejectedExpired; int(st.Events+rejected) != len(tt.events) {
				t.Errorf("statistics: %d accepted and %d rejected of %d", st.Events, rejected, len(tt.events))
			}
			if want := int64(27 * len(tt.kept)); st.Bytes != want {
				t.Errorf("statistics: %d bytes accepted, want %d", st.Bytes, want)
			}
		})
	}
}

func TestStrictTokens(t *testing.T) {
	s := newServer(t, Options{StrictTokens: true})
	prepare(t, s)
	send := func(token any, text string, at time.Time) reply {
		t.Helper()
		in := obj{"logGroupName": "g", "logStreamName": "s", "logEvents": []obj{event(at, text)}}
		if token != nil {
			in["sequenceToken"] = token
		}
		return do(t, s, "PutLogEvents", in)
	}
	expect := func(r reply, typ, token string) {
		t.Helper()
		if r.Type() != typ || token != "" && r.Body["expectedSequenceToken"] != token {
			t.Errorf("got %v, want %s with token %s", r.Body, typ, token)
		}
	}
	r := send("49", "early", noon)
	expect(r, "InvalidSequenceTokenException", "")
	if want := "The given sequenceToken is invalid. The next expected sequenceToken is: null"; r.Text() != want {
		t.Errorf("text %q", r.Text())
	}
	first := send(nil, "a", noon).Body["nextSequenceToken"].(string)
	expect(send(nil, "a", noon), "DataAlreadyAcceptedException", first)
	expect(send(nil, "a", noon.Add(time.Second)), "DataAlreadyAcceptedException", first) // timestamps don't count
	r = send(nil, "b", noon)
	expect(r, "InvalidSequenceTokenException", first)
	if want := "The given sequenceToken is invalid. The next expected sequenceToken is: " + first; r.Text() != want {
		t.Errorf("text %q", r.Text())
	}
	second := send(first, "b", noon).Body["nextSequenceToken"].(string)
	if first == second {
		t.Error("the token did not change")
	}
	r = send(first, "b", noon)
	expect(r, "DataAlreadyAcceptedException", second)
	if want := "The given batch of log events has already been accepted. The next batch can be sent with sequenceToken: " + second; r.Text() != want {
		t.Errorf("text %q", r.Text())
	}
	expect(send(first, "c", noon), "InvalidSequenceTokenException", second)
	expect(send("49", "b", noon), "InvalidSequenceTokenException", second) // the messages alone are no repetition
	d := mustOK(t, s, "DescribeLogStreams", obj{"logGroupName": "g"})
	if got := d.Body["logStreams"].([]any)[0].(obj)["uploadSequenceToken"]; got != second {
		t.Errorf("uploadSequenceToken %v, want %s", got, second)
	}
	if d := cmp.Diff([]string{"a", "b"}, messages(s)); d != "" {
		t.Error(d)
	}
}

func TestTokensAreIgnoredToday(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	for _, token := range []string{"nonsense", "1"} {
		mustOK(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "sequenceToken": token, "logEvents": []obj{event(noon, "same")}})
	}
	if n := len(messages(s)); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestBodies(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	body := `{"logGroupName":"g","logStreamName":"s","logEvents":[{"timestamp":1796040000000,"message":"zip"}]}`
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write([]byte(body))
	_ = zw.Close()
	var bomb bytes.Buffer
	zw = gzip.NewWriter(&bomb)
	_, _ = zw.Write(bytes.Repeat([]byte(" "), 9<<20))
	_ = zw.Close()
	tests := []struct {
		name, encoding, body string
		status               int
		typ                  string
	}{
		{"gzip", "gzip", zipped.String(), 200, ""},
		{"damaged gzip", "gzip", zipped.String()[:zipped.Len()-9], 400, "SerializationException"},
		{"no gzip", "gzip", body, 400, "SerializationException"},
		{"gzip bomb", "gzip", bomb.String(), 413, "RequestEntityTooLargeException"},
		{"too long", "", strings.Repeat(" ", 8<<20+1), 413, "RequestEntityTooLargeException"},
		{"unknown encoding", "br", body, 415, "UnsupportedMediaTypeException"},
		{"empty", "", "", 400, "SerializationException"},
		{"no JSON", "", "{", 400, "SerializationException"},
		{"number as a message", "", strings.Replace(body, `"zip"`, `7`, 1), 400, "SerializationException"},
		{"string as a timestamp", "", strings.Replace(body, `1796040000000`, `"1"`, 1), 400, "SerializationException"},
		{"fraction as a timestamp", "", strings.Replace(body, `1796040000000`, `1.5`, 1), 400, "SerializationException"},
		{"invalid UTF-8", "", strings.Replace(body, `zip`, "z\xffp", 1), 400, "SerializationException"},
		{"null list", "", `{"logGroupName":"g","logStreamName":"s","logEvents":null}`, 400, "InvalidParameterException"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(s, "PutLogEvents", tt.body)
			r.Header.Set("Content-Encoding", tt.encoding)
			got := serve(t, s, r)
			if got.Status != tt.status || got.Type() != tt.typ {
				t.Errorf("got %d %s: %s, want %d %s", got.Status, got.Type(), got.Text(), tt.status, tt.typ)
			}
		})
	}
	if d := cmp.Diff([]string{"zip"}, messages(s)); d != "" {
		t.Error(d)
	}
}

func TestEntity(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	for entity, want := range map[string]string{
		`null`: "",
		`{"keyAttributes":{"Type":"Service","Name":"a","Environment":"p"},"attributes":{"k":"v"}}`: "",
		`{"keyAttributes":{"Type":"Nonsense","Name":"a"}}`:                                         "InvalidTypeValue",
		`{"keyAttributes":{"Type":"Service","Colour":"a"}}`:                                        "InvalidKeyAttributes",
		`{"keyAttributes":{"Name":"a","Environment":"p"}}`:                                         "MissingRequiredFields",
		`{"keyAttributes":{"Type":"Service","Name":"a"},"attributes":{"k":""}}`:                    "InvalidAttributes",
	} {
		r := mustOK(t, s, "PutLogEvents", `{"logGroupName":"g","logStreamName":"s","entity":`+entity+`,"logEvents":[{"timestamp":1796040000000,"message":"m"}]}`)
		info, _ := r.Body["rejectedEntityInfo"].(obj)
		got, _ := info["errorType"].(string)
		if got != want {
			t.Errorf("%s: %q, want %q", entity, got, want)
		}
	}
	if n := len(messages(s)); n != 6 {
		t.Errorf("%d events; a rejected entity must not reject events", n)
	}
}

func TestUnknownOperation(t *testing.T) {
	s := newServer(t, Options{})
	for _, target := range []string{"", "Logs_20140328.StartQuery", "Logs_20140328.", "DynamoDB_20120810.PutItem"} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("X-Amz-Target", target)
		if got := serve(t, s, r); got.Status != 400 || got.Type() != "UnknownOperationException" {
			t.Errorf("%q: %d %s", target, got.Status, got.Type())
		}
	}
}

func TestAnswerHeaders(t *testing.T) {
	s := newServer(t, Options{})
	r := do(t, s, "DescribeLogGroups", obj{})
	if r.Header.Get("Content-Type") != "application/x-amz-json-1.1" || len(r.Header.Get("X-Amzn-Requestid")) != 36 {
		t.Errorf("headers: %v", r.Header)
	}
	other := do(t, s, "DescribeLogGroups", obj{})
	if r.Header.Get("X-Amzn-Requestid") == other.Header.Get("X-Amzn-Requestid") {
		t.Error("two requests with one id")
	}
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{256, 450} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := newServer(b, Options{Clock: time.Now})
			prepare(b, s)
			message := kubernetesMessage(size)
			n := 1048576 / (len(message) + 26)
			events := make([]obj, n)
			for i := range events {
				events[i] = event(time.Now(), message)
			}
			body, _ := json.Marshal(obj{"logGroupName": "g", "logStreamName": "s", "logEvents": events})
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
				r.Header.Set("X-Amz-Target", "Logs_20140328.PutLogEvents")
				sign(r, time.Now())
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkPutOverTCP includes a client and the HTTP server.
func BenchmarkPutOverTCP(b *testing.B) {
	for name, opt := range map[string]Options{"memory": {}, "files": {Dir: b.TempDir()}, "discard": {Discard: true}} {
		b.Run(name, func(b *testing.B) {
			opt.Clock = time.Now
			s := newServer(b, opt)
			prepare(b, s)
			url, client := start(b, s)
			message := kubernetesMessage(450)
			n := 1048576 / (len(message) + 26)
			events := make([]obj, n)
			for i := range events {
				events[i] = event(time.Now(), message)
			}
			body, err := json.Marshal(obj{"logGroupName": "g", "logStreamName": "s", "logEvents": events})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if r, err := send(b, s, client, url, "PutLogEvents", string(body)); err != nil || r.Status != 200 {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// kubernetesMessage is a record as JSON, so its quotes need escaping on the wire.
func kubernetesMessage(size int) string {
	s := `{"log":"GET /api/v1/orders 200 12ms","stream":"stdout","kubernetes":{"pod_name":"checkout-6d5c7","namespace_name":"prod","labels":{"app":"checkout","tier":"backend"},"host":"ip-10-0-3-17"},"pad":"`
	if len(s) < size-2 {
		s += strings.Repeat("p", size-2-len(s))
	}
	return s + `"}`
}
