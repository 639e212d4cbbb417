package cloudwatch

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/output"
)

// service is a CloudWatch Logs made for these tests from the API reference. It checks
// signatures and everything that validate knows.
type service struct {
	peers sync.Map // addresses that requests came from: one for each connection

	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	secret  string
	now     func() time.Time
	strict  bool                  // enforces sequence tokens, as before 2023
	groups  map[string]*testGroup //
	calls   []string              // operations, in order
	bodies  [][]byte              // of PutLogEvents, as sent
	puts    []*sentBody           // accepted
	headers []http.Header         // of all requests
	// script, if set, may answer in the service's place; it runs with mu held.
	script func(w http.ResponseWriter, r *http.Request, op string, body []byte) (answered bool)
	answer string // of an accepted put, instead of {"nextSequenceToken":…}
}

type testGroup struct {
	settings map[string]any
	days     int
	streams  map[string]*testStream
}

type testStream struct {
	token  int // of the next put; 0: none is expected
	last   string
	events []sentEvent
}

func newService(t *testing.T) *service {
	s := &service{t: t, secret: "SECRET", groups: map[string]*testGroup{}, now: time.Now}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.peers.Store(r.RemoteAddr, true)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	op := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "Logs_20140328.")
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	s.calls = append(s.calls, op)
	s.headers = append(s.headers, r.Header)
	if s.script != nil && s.script(w, r, op, raw) {
		return
	}
	if code, text := s.checkSignature(r, raw); code != "" {
		fail(w, 400, code, text)
		return
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err == nil {
			raw, err = io.ReadAll(z)
		}
		if err != nil {
			fail(w, 400, "SerializationException", err.Error())
			return
		}
	}
	if r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		fail(w, 404, "UnknownOperationException", "")
		return
	}
	switch op {
	case "PutLogEvents":
		s.put(w, raw)
	case "CreateLogStream":
		s.createStream(w, raw)
	case "CreateLogGroup", "PutRetentionPolicy":
		s.group(w, op, raw)
	case "DescribeLogStreams":
		s.describe(w, raw)
	default:
		fail(w, 404, "UnknownOperationException", op)
	}
}

func fail(w http.ResponseWriter, status int, code, text string, more ...any) {
	m := map[string]any{"__type": "com.amazonaws.logs#" + code, "message": text}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(m)
}

func (s *service) put(w http.ResponseWriter, raw []byte) {
	s.bodies = append(s.bodies, bytes.Clone(raw))
	b, err := validate(raw)
	if err != nil {
		fail(w, 400, "InvalidParameterException", err.Error())
		return
	}
	g := s.groups[b.Group]
	if g == nil {
		fail(w, 400, "ResourceNotFoundException", "The specified log group does not exist.")
		return
	}
	st := g.streams[b.Stream]
	if st == nil {
		fail(w, 400, "ResourceNotFoundException", "The specified log stream does not exist.")
		return
	}
	if s.strict {
		want, got := "", ""
		if st.token > 0 {
			want = fmt.Sprint("token", st.token)
		}
		if b.SequenceToken != nil {
			got = *b.SequenceToken
		}
		content, _ := json.Marshal(b.Events)
		switch {
		case got != want && string(content) == st.last:
			fail(w, 400, "DataAlreadyAcceptedException", "The given batch of log events has already been accepted.", "expectedSequenceToken", want)
			return
		case got != want:
			fail(w, 400, "InvalidSequenceTokenException", "The given sequenceToken is invalid. The next expected sequenceToken is: "+want, "expectedSequenceToken", cmp.Or(want, "null"))
			return
		}
		st.last = string(content)
	}
	st.token++
	st.events = append(st.events, b.Events...)
	s.puts = append(s.puts, b)
	w.Header().Set("X-Amzn-Requestid", "id")
	if s.answer != "" {
		io.WriteString(w, s.answer)
		return
	}
	fmt.Fprintf(w, `{"nextSequenceToken":"token%d"}`, st.token)
}

func (s *service) createStream(w http.ResponseWriter, raw []byte) {
	var in struct{ LogGroupName, LogStreamName string }
	if err := json.Unmarshal(raw, &in); err != nil {
		fail(w, 400, "SerializationException", err.Error())
		return
	}
	g := s.groups[in.LogGroupName]
	switch {
	case g == nil:
		fail(w, 400, "ResourceNotFoundException", "The specified log group does not exist.")
	case g.streams[in.LogStreamName] != nil:
		fail(w, 400, "ResourceAlreadyExistsException", "The specified log stream already exists")
	default:
		g.streams[in.LogStreamName] = &testStream{}
	}
}

func (s *service) group(w http.ResponseWriter, op string, raw []byte) {
	var in map[string]any
	if err := json.Unmarshal(raw, &in); err != nil {
		fail(w, 400, "SerializationException", err.Error())
		return
	}
	name := in["logGroupName"].(string)
	if op == "PutRetentionPolicy" {
		if s.groups[name] == nil {
			fail(w, 400, "ResourceNotFoundException", "The specified log group does not exist.")
			return
		}
		s.groups[name].days = int(in["retentionInDays"].(float64))
		return
	}
	if s.groups[name] != nil {
		fail(w, 400, "ResourceAlreadyExistsException", "The specified log group already exists")
		return
	}
	delete(in, "logGroupName")
	s.groups[name] = &testGroup{settings: in, streams: map[string]*testStream{}}
}

func (s *service) describe(w http.ResponseWriter, raw []byte) {
	var in struct{ LogGroupName, LogStreamNamePrefix string }
	if json.Unmarshal(raw, &in) != nil || s.groups[in.LogGroupName] == nil {
		fail(w, 400, "ResourceNotFoundException", "The specified log group does not exist.")
		return
	}
	g := s.groups[in.LogGroupName]
	list := []map[string]any{}
	for name, st := range g.streams {
		if strings.HasPrefix(name, in.LogStreamNamePrefix) {
			m := map[string]any{"logStreamName": name}
			if st.token > 0 {
				m["uploadSequenceToken"] = fmt.Sprint("token", st.token)
			}
			list = append(list, m)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"logStreams": list})
}

// checkSignature verifies a Signature Version 4 as its documentation describes it.
func (s *service) checkSignature(r *http.Request, body []byte) (code, text string) {
	auth := r.Header.Get("Authorization")
	var credential, signed, signature string
	for _, part := range strings.Split(strings.TrimPrefix(auth, "AWS4-HMAC-SHA256 "), ", ") {
		k, v, _ := strings.Cut(part, "=")
		switch k {
		case "Credential":
			credential = v
		case "SignedHeaders":
			signed = v
		case "Signature":
			signature = v
		}
	}
	scope := strings.Split(credential, "/")
	if len(scope) != 5 || scope[3] != "logs" {
		return "MissingAuthenticationTokenException", "Missing Authentication Token"
	}
	if token := r.Header.Get("X-Amz-Security-Token"); token == "expired" {
		return "ExpiredTokenException", "The security token included in the request is expired"
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return "IncompleteSignatureException", err.Error()
	}
	if d := s.now().Sub(at); d > 5*time.Minute || d < -5*time.Minute {
		return "InvalidSignatureException", "Signature expired: " + r.Header.Get("X-Amz-Date")
	}
	var headers strings.Builder
	names := strings.Split(signed, ";")
	for _, h := range names {
		v := r.Header.Get(h)
		switch h {
		case "host":
			v = r.Host
		case "content-length":
			v = fmt.Sprint(len(body))
		}
		fmt.Fprintf(&headers, "%s:%s\n", h, strings.TrimSpace(v))
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "x-amz-target") || r.Header.Get("Content-Encoding") != "" && !slices.Contains(names, "content-encoding") {
		return "InvalidSignatureException", "headers not signed: " + signed
	}
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	canonical := strings.Join([]string{r.Method, "/", "", headers.String(), signed, sum(body)}, "\n")
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), strings.Join(scope[1:], "/"), sum([]byte(canonical))}, "\n")
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	key := []byte("AWS4" + s.secret)
	for _, part := range scope[1:] {
		key = mac(key, part)
	}
	if hex.EncodeToString(mac(key, toSign)) != signature {
		return "InvalidSignatureException", "The request signature we calculated does not match the signature you provided."
	}
	return "", ""
}

// open makes an Output for the service. Its log goes to the test.
func (s *service) open(p Params, more ...func(*Options)) *Output {
	s.t.Helper()
	p.Region, p.Endpoint, p.SSLVerifyPeer = "eu-west-1", cmp.Or(p.Endpoint, s.server.URL), true
	if p.KeyID == "" {
		p.KeyID, p.SecKey = "AKID", s.secret
	}
	if p.GroupName+p.GroupNameKey == "" && !p.TagAsGroup {
		p.GroupName = "/app/g"
	}
	if p.StreamName+p.StreamNameKey == "" && !p.TagAsStream {
		p.StreamName = "s"
	}
	if p.MessageKeys == nil {
		p.MessageKeys = []string{"m"}
	}
	o := Options{Params: p, ID: "out", Log: slog.New(slog.NewTextHandler(testWriter{s.t}, nil))}
	for _, f := range more {
		f(&o)
	}
	out, err := New(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { out.Close() })
	return out
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// stream makes a group and a stream.
func (s *service) stream(group, stream string) *testStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[group] == nil {
		s.groups[group] = &testGroup{streams: map[string]*testStream{}}
	}
	st := &testStream{}
	s.groups[group].streams[stream] = st
	return st
}

func (s *service) take() (calls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls, s.calls = s.calls, nil
	return calls
}

// filled is a request for the lane with one event for each text.
func filled(t *testing.T, o *Output, lane string, texts ...string) output.Request {
	t.Helper()
	var in []entry
	for i, text := range texts {
		in = append(in, entry{t: 1_796_000_000e9 + 1e9*eventTime(i), text: text})
	}
	r := o.Request()
	r.Reset(lane)
	raw := encodeEntries(in)
	if n, size, _ := r.Add(raw, len(in)); n != len(in) || size != len(raw) {
		t.Fatalf("the request took %d of %d entries", n, len(in))
	}
	return r
}
