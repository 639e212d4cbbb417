package e2e

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// impatient makes retries follow each other quickly, so that a test is short.
const impatient = "flush_thread_count 4\n    retry_wait 0.05\n    retry_max_interval 0.4\n    retry_forever true"

const (
	put    = "PutLogEvents"
	create = "CreateLogStream"
)

func seconds(s float64) emulator.Duration {
	return emulator.Duration(s * float64(time.Second))
}

// faultCase is trouble at the endpoint under load: nothing is lost, nothing is repeated
// unless that cannot be avoided, the order holds, the books balance, the log is calm.
type faultCase struct {
	name  string
	rules []emulator.FaultRule
	match string // more lines of <match>
	// strikes is how often the rules must have struck for the test to mean anything.
	strikes int64
	// errors and warns bound the log lines of the whole run.
	errors, warns int
	// lostAnswers says that each strike may repeat one request.
	lostAnswers bool
	// warm has the streams made before the faults begin.
	warm bool
	// exact says that as many requests as lost their answer are counted as sent again.
	exact bool
}

// lostNowAndThen loses the answers of three requests that lie so far apart that no request
// loses two.
func lostNowAndThen(then string) []emulator.FaultRule {
	var rules []emulator.FaultRule
	for i := range 3 {
		rules = append(rules, emulator.FaultRule{Kind: emulator.FaultLostAnswer, Then: then, Operations: []string{put}, After: int64(4 + 12*i), Count: 1})
	}
	return rules
}

func TestFaults(t *testing.T) {
	all := []faultCase{
		{name: "throttle storm", strikes: 4, errors: 1, warns: 2,
			rules: []emulator.FaultRule{{Kind: emulator.FaultThrottle, Probability: 0.8, Operations: []string{put}, For: seconds(2)}}},
		{name: "500", strikes: 4, errors: 1,
			rules: []emulator.FaultRule{{Kind: emulator.Fault500, Probability: 0.6, For: seconds(2)}}},
		{name: "503 outage", strikes: 4, errors: 1,
			rules: []emulator.FaultRule{{Kind: emulator.Fault503, For: seconds(2)}}},
		{name: "reset", strikes: 4, errors: 1,
			rules: []emulator.FaultRule{{Kind: emulator.FaultReset, Probability: 0.6, For: seconds(2)}}},
		{name: "reset in the body", strikes: 3, errors: 1,
			rules: []emulator.FaultRule{{Kind: emulator.FaultResetBody, Probability: 0.5, For: seconds(2)}}},
		{name: "hang", strikes: 3, errors: 1, match: "request_timeout 0.5",
			rules: []emulator.FaultRule{{Kind: emulator.FaultHang, Operations: []string{put}, Count: 5}}},
		{name: "slow answers", strikes: 10, errors: 0,
			rules: []emulator.FaultRule{{Kind: emulator.FaultDelay, Operations: []string{put}, Duration: seconds(0.2)}}},
		{name: "answer lost", strikes: 3, errors: 1, lostAnswers: true, warm: true, exact: true, rules: lostNowAndThen("reset")},
		{name: "answer lost in a time-out", strikes: 3, errors: 1, lostAnswers: true, warm: true, exact: true, match: "request_timeout 0.5",
			rules: lostNowAndThen("hang")},
		{name: "answer lost behind a 500", strikes: 3, errors: 1, lostAnswers: true, warm: true, exact: true, rules: lostNowAndThen("500")},
		{name: "answers lost in a row", strikes: 6, errors: 1, lostAnswers: true, warm: true,
			rules: []emulator.FaultRule{{Kind: emulator.FaultLostAnswer, Operations: []string{put}, After: 4, Count: 6}}},
		{name: "expired credentials", strikes: 2, errors: 1,
			rules: []emulator.FaultRule{{Kind: emulator.FaultExpiredToken, From: seconds(0.3), For: seconds(2)}}},
		{name: "unknown credentials", strikes: 2, errors: 1,
			rules: []emulator.FaultRule{{Kind: emulator.FaultUnrecognized, From: seconds(0.3), For: seconds(2)}}},
		{name: "clock ahead", strikes: 1, errors: 1, warns: 1,
			rules: []emulator.FaultRule{{Kind: emulator.FaultClockSkew, Skew: seconds(20 * 60), For: seconds(2)}}},
		{name: "clock behind", strikes: 1, errors: 1, warns: 1,
			rules: []emulator.FaultRule{{Kind: emulator.FaultClockSkew, Skew: seconds(0) - seconds(20*60), For: seconds(2)}}},
		{name: "creation in progress", strikes: 3, errors: 0,
			rules: []emulator.FaultRule{{Kind: emulator.FaultAborted, Operations: []string{create, "CreateLogGroup"}, Count: 3}}},
		{name: "everything at once", strikes: 10, errors: 4, warns: 2, lostAnswers: true, warm: true, match: "request_timeout 1",
			rules: []emulator.FaultRule{
				{Kind: emulator.FaultThrottle, Probability: 0.2, For: seconds(3)},
				{Kind: emulator.Fault500, Probability: 0.1, For: seconds(3)},
				{Kind: emulator.FaultReset, Probability: 0.1, For: seconds(3)},
				{Kind: emulator.FaultLostAnswer, Operations: []string{put}, Probability: 0.1, For: seconds(3)},
				{Kind: emulator.FaultExpiredToken, Probability: 0.1, For: seconds(3)},
				{Kind: emulator.FaultHang, Operations: []string{put}, Count: 1},
			}},
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func (c *faultCase) run(t *testing.T) {
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Match: c.match, Buffer: impatient}.String())
	l := newLoad(w, "app", 4, 20)
	defer l.close()
	if c.warm {
		l.sendAll(t, 1)
		w.Drained()
	}
	weirtest.Faults(t, e, c.rules...) // not before: their time would pass while weir starts
	// Load goes on for as long as the fault has work to do.
	for end := time.Now().Add(weirtest.Patience); ; {
		l.sendAll(t, 10)
		if weirtest.Struck(e) >= c.strikes || time.Now().After(end) {
			break
		}
	}
	if n := weirtest.Struck(e); n < c.strikes {
		t.Fatalf("the fault struck %d times, want %d: the test says nothing", n, c.strikes)
	}
	w.Drained()
	if c.lostAnswers {
		c.repeats(t, e, w, l)
	} else {
		l.exactly(t, e, "g")
	}
	w.Ends("out", l.events(), nil)
	w.LogAtMost(c.errors, c.warns)
	if c.errors > 0 && len(w.Lines("ERROR", "")) > 0 && len(w.Lines("INFO", "works again")) == 0 {
		t.Error("the log says that delivery failed, but not that it works again")
	}
	w.Stop(15 * time.Second)
}

// repeats checks that only requests whose answer was lost came twice, each as it was.
func (c *faultCase) repeats(t *testing.T, e *emulator.Server, w *weirtest.Weir, l load) {
	t.Helper()
	lost := int64(0)
	for _, f := range e.Faults() {
		if f.Kind == emulator.FaultLostAnswer {
			lost += f.Struck
		}
	}
	twice := map[int64]bool{} // requests with events that had come before
	events := 0
	for _, s := range l {
		to := weirtest.Target{Group: "g", Stream: s.Tag}
		events += weirtest.Compare(t, e, to, s.IDs())
		seen := map[string]bool{}
		fresh := map[int64]bool{}
		for _, ev := range e.Events(to.Group, to.Stream) {
			if seen[ev.Message] {
				twice[ev.Request] = true
			} else {
				fresh[ev.Request] = true
			}
			seen[ev.Message] = true
		}
		for r := range twice {
			if fresh[r] {
				t.Errorf("stream %s: request %d repeats events beside new ones", to, r)
			}
		}
	}
	if int64(len(twice)) > lost || (lost > 0 && events == 0) {
		t.Errorf("%d requests came again with %d events; %d answers were lost", len(twice), events, lost)
	}
	switch n := w.Output("out").Resent; {
	case n == 0:
		t.Error("resent_requests is 0")
	case c.exact && (int64(n) != lost || int64(len(twice)) != lost):
		t.Errorf("%d answers were lost, %d requests came twice, resent_requests is %d: want the same number", lost, len(twice), n)
	}
}

// TestDenied denies one log group: its neighbours are not held up.
func TestDenied(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.FaultAccessDenied, Group: "g-bad"})
	w := weirtest.Start(t, e, weirtest.Config{Group: "g-${tag[0]}", Buffer: impatient}.String())
	good, bad := newLoad(w, "good", 3, 20), newLoad(w, "bad", 2, 20)
	defer good.close()
	defer bad.close()
	bad.sendAll(t, 5)
	for range 5 {
		good.sendAll(t, 5)
		weirtest.Within(t, 5*time.Second, "the good streams are delivered beside the denied ones", func() (string, bool) {
			n := w.Output("out").Ledger.Delivered
			return fmt.Sprint(n), n == uint64(good.events())
		})
	}
	good.exactly(t, e, "g-good")
	w.Balanced()
	weirtest.Faults(t, e)
	w.Drained()
	bad.exactly(t, e, "g-bad")
	w.Ends("out", good.events()+bad.events(), nil)
	w.LogAtMost(2, 0)
	if len(w.Lines("ERROR", "g-bad")) == 0 || len(w.Lines("INFO", "works again")) == 0 {
		t.Error("the log does not tell of the denied group and of its end")
	}
}

// TestRejected takes answers 200 that refuse some of the events: each is booked by its
// reason, its neighbours are delivered.
func TestRejected(t *testing.T) {
	for as, reason := range map[string]string{"too_old": "too_old", "too_new": "too_new", "expired": "expired"} {
		t.Run(as, func(t *testing.T) {
			t.Parallel()
			e := weirtest.Endpoint(t, emulator.Options{})
			weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.FaultReject, As: as, Share: 0.3, Operations: []string{put}, Count: 6})
			w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
			l := newLoad(w, "app", 3, 20)
			defer l.close()
			for range 4 {
				l.sendAll(t, 5)
				w.Drained()
			}
			st := e.Stats()
			rejected := int(st.RejectedTooOld + st.RejectedTooNew + st.RejectedExpired)
			if rejected == 0 {
				t.Fatal("the endpoint rejected nothing")
			}
			arrived := 0
			for _, s := range l {
				to := weirtest.Target{Group: "g", Stream: s.Tag}
				a := weirtest.Arrivals(t, e, to)
				arrived += len(a.Order)
				weirtest.InOrder(t, to, a.Order, s.IDs())
				if a.Repeats > 0 {
					t.Errorf("stream %s: %d repeats", to, a.Repeats)
				}
			}
			if arrived+rejected != l.events() {
				t.Errorf("sent %d, arrived %d, rejected %d: that does not add up", l.events(), arrived, rejected)
			}
			w.Ends("out", arrived, map[string]int{reason: rejected})
			w.LogAtMost(0, 3)
		})
	}
}

// TestDeleted deletes a stream and a group while weir writes to them: both are made again.
func TestDeleted(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Match: "retention_in_days 3", Buffer: impatient}.String())
	l := newLoad(w, "app", 3, 20)
	defer l.close()
	l.sendAll(t, 10)
	w.Drained()
	l.exactly(t, e, "g")
	before := len(l[0].IDs())

	weirtest.Call(t, e, "DeleteLogStream", map[string]any{"logGroupName": "g", "logStreamName": l[0].Tag})
	l.sendAll(t, 10)
	w.Drained()
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: l[0].Tag}, l[0].IDs()[before:])
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: l[1].Tag}, l[1].IDs())

	weirtest.Call(t, e, "DeleteLogGroup", map[string]any{"logGroupName": "g"})
	before = len(l[0].IDs())
	l.sendAll(t, 10)
	w.Drained()
	for _, s := range l {
		weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: s.Tag}, s.IDs()[before:])
	}
	weirtest.Eventually(t, "the new group has its retention", func() (string, bool) {
		g := e.Groups()
		return fmt.Sprint(g), len(g) == 1 && g[0].RetentionDays == 3
	})
	w.Ends("out", l.events(), nil)
	w.LogAtMost(0, 0)
}

// TestMissingTarget has auto_create_stream false: events wait until somebody makes the
// stream, and one line says so.
func TestMissingTarget(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.New(t, e, weirtest.Config{Match: "auto_create_stream false", Buffer: impatient}.String())
	w.SetConfig(removeLine(weirtest.Config{Buffer: impatient}.String(), "auto_create_stream true"))
	w.Start()
	l := newLoad(w, "app", 2, 20)
	defer l.close()
	l.sendAll(t, 5)
	weirtest.Eventually(t, "the log tells of the missing target", func() (string, bool) {
		n := len(w.Lines("ERROR", "app."))
		return fmt.Sprint(n), n > 0
	})
	if n := w.Output("out").Ledger.Pending; n != int64(l.events()) {
		t.Errorf("%d events wait, want all %d", n, l.events())
	}
	if len(e.Groups()) != 0 {
		t.Error("a group was made, though auto_create_stream is off")
	}
	weirtest.Call(t, e, "CreateLogGroup", map[string]any{"logGroupName": "g"})
	for _, s := range l {
		weirtest.Call(t, e, "CreateLogStream", map[string]any{"logGroupName": "g", "logStreamName": s.Tag})
	}
	w.Drained()
	l.exactly(t, e, "g")
	w.Ends("out", l.events(), nil)
	w.LogAtMost(2, 0)
}

// TestManyNewStreams makes 200 streams while the endpoint throttles their creation.
func TestManyNewStreams(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.FaultThrottle, Operations: []string{create}, Probability: 0.7, For: seconds(3)})
	w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
	l := newLoad(w, "pod", 200, 5)
	for _, s := range l {
		s.SendAll(t, 2)
		s.Close()
	}
	w.Drained()
	l.exactly(t, e, "g")
	if got := len(e.Streams("g")); got != 200 {
		t.Errorf("%d streams, want 200", got)
	}
	if weirtest.Struck(e) < 20 {
		t.Errorf("creation was throttled only %d times", weirtest.Struck(e))
	}
	w.Ends("out", l.events(), nil)
	w.LogAtMost(1, 1)
}

// TestStrictTokens writes to an endpoint that enforces sequence tokens: with four threads
// in one process there is no conflict, with two processes there is no error.
func TestStrictTokens(t *testing.T) {
	conflicts := func(e *emulator.Server) int64 {
		puts := e.Stats().Requests[put]
		return puts["InvalidSequenceTokenException"] + puts["DataAlreadyAcceptedException"]
	}
	t.Run("one process", func(t *testing.T) {
		t.Parallel()
		e := weirtest.Endpoint(t, emulator.Options{StrictTokens: true})
		w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient, Flush: "0"}.String())
		l := newLoad(w, "app", 8, 10)
		defer l.close()
		l.sendAll(t, 60)
		w.Drained()
		l.exactly(t, e, "g")
		w.Ends("out", l.events(), nil)
		if n := conflicts(e); n != 0 {
			t.Errorf("%d token conflicts at the endpoint, want none: %v", n, e.Stats().Requests)
		}
		if n := e.Stats().Requests[put]["ok"]; n < 16 {
			t.Errorf("only %d requests: nothing could conflict", n)
		}
		w.LogAtMost(0, 0)
	})
	t.Run("two replicas", func(t *testing.T) {
		t.Parallel()
		e := weirtest.Endpoint(t, emulator.Options{StrictTokens: true})
		var replicas []*weirtest.Weir
		var all []load
		for i := range 2 {
			w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient, Flush: "0"}.String())
			l := newLoad(w, "app", 3, 10)
			for _, s := range l {
				s.First += uint64(i) * 5_000_000
			}
			defer l.close()
			replicas, all = append(replicas, w), append(all, l)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			all[0].sendAll(t, 60)
		}()
		all[1].sendAll(t, 60)
		<-done
		for _, w := range replicas {
			w.Drained()
			w.LogAtMost(0, 0)
			if n := w.Output("out").Ledger.Lost(); n > 0 {
				t.Errorf("%d events lost", n)
			}
		}
		if conflicts(e) == 0 {
			t.Error("the replicas never met: the test says nothing")
		}
		for i, s := range all[0] {
			to := weirtest.Target{Group: "g", Stream: s.Tag}
			a := weirtest.Arrivals(t, e, to)
			other := all[1][i].IDs()
			weirtest.InOrder(t, to, a.Order, s.IDs())
			weirtest.InOrder(t, to, a.Order, other)
			weirtest.SameSet(t, to, a.Order, append(s.IDs(), other...))
			if a.Repeats > 0 {
				t.Errorf("stream %s: %d repeats", to, a.Repeats)
			}
		}
	})
}
