package emulator

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Several writers to each of several streams, with readers, statistics and
// evictions in between: each accepted event is there once, in the order in
// which its writer sent it, and all views agree.
func TestConcurrentUse(t *testing.T) {
	for name, opt := range map[string]Options{"memory": {}, "files": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, opt)
			mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "g"})
			const streams, writers, puts = 4, 3, 60
			var wg sync.WaitGroup
			for w := range streams * writers {
				wg.Go(func() {
					stream := fmt.Sprint("s", w%streams)
					do(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": stream})
					for i := range puts {
						r := do(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": stream, "logEvents": []obj{
							event(noon.Add(time.Duration(i)*time.Millisecond), fmt.Sprintf("%d %d a", w, i)),
							event(noon.Add(time.Duration(i)*time.Millisecond), fmt.Sprintf("%d %d b", w, i)),
						}})
						if r.Status != 200 {
							t.Errorf("%v", r.Body)
						}
					}
				})
			}
			for range 2 {
				wg.Go(func() {
					for range 30 {
						do(t, s, "FilterLogEvents", obj{"logGroupName": "g", "filterPattern": "1"})
						do(t, s, "GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s0"})
						do(t, s, "DescribeLogStreams", obj{"logGroupName": "g", "orderBy": "LastEventTime"})
						do(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "brief"})
						do(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "brief", "logEvents": []obj{event(noon, "x")}})
						do(t, s, "DeleteLogStream", obj{"logGroupName": "g", "logStreamName": "brief"})
						s.Groups()
						s.Stats()
					}
				})
			}
			wg.Wait()
			requests := map[int64]string{}
			total := 0
			for _, st := range s.Streams("g") {
				next := map[int]int{}
				lastRequest := int64(0)
				for _, e := range s.Events("g", st.Name) {
					if st.Name == "brief" {
						continue
					}
					var w, i int
					var half string
					if _, err := fmt.Sscan(e.Message, &w, &i, &half); err != nil {
						t.Fatal(err)
					}
					want := fmt.Sprintf("%d %d %s", w, next[w]/2, string("ab"[next[w]%2]))
					if e.Message != want {
						t.Fatalf("stream %s: got %q, want %q", st.Name, e.Message, want)
					}
					next[w]++
					total++
					if e.Request < lastRequest {
						t.Fatal("request numbers are not in order of acceptance")
					}
					lastRequest = e.Request
					if owner, seen := requests[e.Request]; seen && owner != st.Name {
						t.Fatalf("request %d in two streams", e.Request)
					}
					requests[e.Request] = st.Name
				}
			}
			if want := streams * writers * puts * 2; total != want {
				t.Errorf("%d events, want %d", total, want)
			}
			ids := map[any]bool{}
			in := obj{"logGroupName": "g", "logStreamNamePrefix": "s", "limit": 100}
			for {
				r := mustOK(t, s, "FilterLogEvents", in)
				for _, e := range r.Body["events"].([]any) {
					ids[e.(obj)["eventId"]] = true
				}
				if in["nextToken"] = r.Body["nextToken"]; in["nextToken"] == nil {
					break
				}
			}
			if len(ids) != total {
				t.Errorf("reading page by page found %d events of %d", len(ids), total)
			}
		})
	}
}

func TestTLSAndIdleConnections(t *testing.T) {
	cert, pem, err := SelfSigned("weir.test")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{})
	prepare(t, s)
	if err := s.Listen("127.0.0.1:0", cert); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen("127.0.0.1:0", nil); err == nil {
		t.Error("a second Listen must fail")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	if !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Error(s.URL())
	}
	if r, err := send(t, s, client, s.URL(), "PutLogEvents", putA); err != nil || r.Status != 200 {
		t.Fatal(r, err)
	}
	if err := s.SetFaults(script(t, `{"rules":[{"kind":"lost_answer"}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, s, client, s.URL(), "PutLogEvents", putA); err == nil {
		t.Error("the reset did not reach through TLS")
	}
	if n := len(messages(s)); n < 2 {
		t.Errorf("%d events", n)
	}
}
