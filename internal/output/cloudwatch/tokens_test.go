package cloudwatch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"weir/internal/output"
)

func strictService(t *testing.T) *service {
	s := newService(t)
	s.strict = true
	return s
}

func count(calls []string, op string) (n int) {
	for _, c := range calls {
		if c == op {
			n++
		}
	}
	return n
}

// On an endpoint that enforces tokens no request of a process is in conflict with another,
// whichever output and worker it comes from.
func TestTokensWithoutConflict(t *testing.T) {
	t.Parallel()
	s := strictService(t)
	shared := NewTokens()
	with := func(o *Options) { o.Tokens = shared }
	outs := []*Output{s.open(Params{AutoCreate: true}, with), s.open(Params{AutoCreate: true}, with)}
	var wg sync.WaitGroup
	const workers, puts = 6, 20
	for w := range workers {
		wg.Go(func() {
			for i := range puts {
				r := filled(t, outs[w%2], fmt.Sprintf("/app/g\x00s%d", (w+i)%3), fmt.Sprint("event ", w, i))
				if res := r.Send(t.Context()); res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	wg.Wait()
	if len(s.puts) != workers*puts {
		t.Errorf("%d puts", len(s.puts))
	}
	for _, o := range outs {
		if n := o.Stats().Conflicts; n != 0 {
			t.Errorf("%d conflicts", n)
		}
	}
	if n := count(s.take(), "DescribeLogStreams"); n != 0 {
		t.Errorf("%d questions", n)
	}
}

// A process that comes back to many streams meets one conflict at most.
func TestTokensAfterRestart(t *testing.T) {
	t.Parallel()
	s := strictService(t)
	for i := range 20 {
		s.stream("/app/g", fmt.Sprint("s", i)).token = 3 + i
	}
	o := s.open(Params{})
	var wg sync.WaitGroup
	for i := range 20 {
		r := filled(t, o, fmt.Sprintf("/app/g\x00s%d", i), "a")
		wg.Go(func() {
			if res := r.Send(t.Context()); res.Err != nil {
				t.Error(res.Err)
			}
		})
	}
	wg.Wait()
	if n := o.Stats().Conflicts; n > 1 || len(s.puts) != 20 {
		t.Errorf("%d conflicts, %d puts", n, len(s.puts))
	}
}

// Two processes write to one stream: every event arrives, and what happens on the way is
// flow control.
func TestTokensReplicas(t *testing.T) {
	t.Parallel()
	s := strictService(t)
	st := s.stream("/app/g", "s")
	var wg sync.WaitGroup
	for replica := range 3 {
		o := s.open(Params{})
		wg.Go(func() {
			for i := range 15 {
				r := filled(t, o, lane, fmt.Sprint(replica, "-", i))
				for {
					res := r.Send(t.Context())
					if res.Err == nil {
						break
					}
					if res.Err.Kind != output.Conflict {
						t.Error(res.Err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	got := texts(st)
	slices.Sort(got)
	if len(got) != 45 || len(slices.Compact(got)) != 45 {
		t.Errorf("%d events", len(got))
	}
}

// The answer to an accepted put is lost: the repeat carries the same token, the endpoint
// recognises it, and the events are there once.
func TestTokensLostAnswer(t *testing.T) {
	t.Parallel()
	s := strictService(t)
	st := s.stream("/app/g", "s")
	o := s.open(Params{})
	sendOK(t, filled(t, o, lane, "first"))
	lose := true
	s.script = func(w http.ResponseWriter, _ *http.Request, op string, body []byte) bool {
		if op != "PutLogEvents" || !lose {
			return false
		}
		lose = false
		s.put(nopWriter{http.Header{}}, body)
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
		return true
	}
	res := sendOK(t, filled(t, o, lane, "second"))
	if !res.Resent {
		t.Error("the result does not say that it may be a repeat")
	}
	sendOK(t, filled(t, o, lane, "third"))
	if d := cmp.Diff([]string{"first", "second", "third"}, texts(st)); d != "" {
		t.Error(d)
	}
}

type nopWriter struct{ h http.Header }

func (w nopWriter) Header() http.Header         { return w.h }
func (w nopWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w nopWriter) WriteHeader(int)             {}

// Amazon's own hosts get no tokens, and their requests do not wait for each other; should
// one of them say that tokens count, they do.
func TestTokensLenient(t *testing.T) {
	t.Parallel()
	s := newService(t)
	st := s.stream("/app/g", "s")
	o := s.open(Params{})
	o.lenient = true
	for range 2 {
		sendOK(t, filled(t, o, lane, "a"))
	}
	for _, p := range s.puts {
		if p.SequenceToken != nil {
			t.Errorf("token %q", *p.SequenceToken)
		}
	}
	if len(o.tokens.lanes) != 0 {
		t.Error("something is remembered")
	}
	s.mu.Lock()
	s.strict, st.token = true, 7
	s.mu.Unlock()
	r := filled(t, o, lane, "b")
	if res := r.Send(t.Context()); res.Err == nil || res.Err.Kind != output.Conflict {
		t.Fatalf("got %+v", res)
	}
	sendOK(t, r)
	sendOK(t, filled(t, o, lane, "c"))
	if n := o.Stats().Conflicts; n != 1 {
		t.Errorf("%d conflicts", n)
	}
}

func TestTokensBounded(t *testing.T) {
	t.Parallel()
	m := NewTokens()
	m.max = 10
	held, err := m.acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		l, err := m.acquire(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		m.release(l)
	}
	if len(m.lanes) > 10 || m.order.Len() != len(m.lanes) || m.lanes["held"] == nil || m.lanes["99"] == nil {
		t.Errorf("%d lanes", len(m.lanes))
	}
	m.release(held)
}

func TestTokensWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewTokens()
		first, err := m.acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := m.acquire(ctx, "k"); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; err == nil {
			t.Error("it got the place of another request")
		}
		m.release(first)
		if l, err := m.acquire(t.Context(), "k"); err != nil || l.users != 1 {
			t.Errorf("%v", err)
		}
	})
}

// A conflict is answered at most a few times by one Send.
func TestTokensEndlessConflict(t *testing.T) {
	t.Parallel()
	s := newService(t)
	n := 0
	s.script = func(w http.ResponseWriter, _ *http.Request, op string, _ []byte) bool {
		n++
		fail(w, 400, "InvalidSequenceTokenException", "no", "expectedSequenceToken", fmt.Sprint(n))
		return true
	}
	res := filled(t, s.open(Params{}), lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Conflict || n > 2+maxConflicts || !strings.Contains(res.Err.Error(), "InvalidSequenceToken") {
		t.Errorf("got %+v after %d", res.Err, n)
	}
}

func TestExpectedToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, text, want string }{
		{`{"expectedSequenceToken":"495"}`, "The next expected sequenceToken is: 496", "495"},
		{`{"expectedSequenceToken":"null"}`, "The next expected sequenceToken is: null", ""},
		{`{}`, "The given sequenceToken is invalid. The next expected sequenceToken is: 497", "497"},
		{`{}`, "The next batch can be sent with sequenceToken: null", ""},
		{`<html>`, "something: else entirely", ""},
		{``, "", ""},
	} {
		if got := expectedToken(&reply{body: []byte(c.body), text: c.text}); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.body, c.text, got, c.want)
		}
	}
}

// Whatever an endpoint answers, each entry ends at most once and in order.
func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(`{"nextSequenceToken":"x","rejectedLogEventsInfo":{"tooOldLogEventEndIndex":1,"tooNewLogEventStartIndex":2,"expiredLogEventEndIndex":5}}`))
	f.Add(200, []byte(`{"rejectedLogEventsInfo":{"tooOldLogEventEndIndex":-9223372036854775808,"tooNewLogEventStartIndex":9223372036854775807}}`))
	f.Add(400, []byte(`{"__type":"com.amazonaws.logs#InvalidSequenceTokenException","expectedSequenceToken":"1"}`))
	f.Add(502, []byte("<html>\xff"))
	o := &Output{log: slog.New(slog.DiscardHandler), encoding: *keyM()}
	o.tokenHost = NewTokens().host("h")
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := &request{o: o}
		r.Reset(lane)
		r.Add(encodeEntries([]entry{{2e9, "b"}, {1e9, "a"}, {1e9, ""}, {3e9, "c"}}), 4)
		r.encode(3, "")
		a := parseReply(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {string(body)}}}, body)
		if status/100 != 2 {
			if a.after < 0 || len(a.text) > 1<<20 {
				t.Fatalf("reply %+v", a)
			}
			_ = expectedToken(a)
			return
		}
		if r.accepted(a, 3, nil) != nil {
			return
		}
		last := -1
		for _, e := range r.body.settle(nil, r.reasons()) {
			if e.First <= last || e.Count < 1 || e.First+e.Count > 4 {
				t.Fatalf("ended %+v", e)
			}
			last = e.First + e.Count - 1
		}
	})
}

// A stream that was deleted while weir runs is made again, and its first put carries no token.
func TestTokensDeletedStream(t *testing.T) {
	t.Parallel()
	s := strictService(t)
	o := s.open(Params{AutoCreate: true})
	for i := range 3 {
		sendOK(t, filled(t, o, lane, fmt.Sprint("before ", i)))
	}
	s.mu.Lock()
	delete(s.groups["/app/g"].streams, "s")
	s.mu.Unlock()
	for i := range 3 {
		sendOK(t, filled(t, o, lane, fmt.Sprint("after ", i)))
	}
	if n := o.Stats().Conflicts; n != 0 {
		t.Errorf("%d conflicts", n)
	}
}
