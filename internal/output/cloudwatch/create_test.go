package cloudwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

func TestMissingTarget(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o := s.open(Params{DropMissingTarget: true})
	res := filled(t, o, lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Drop || res.Err.Fate != ledger.NoTarget.Fate() {
		t.Fatalf("got %+v", res.Err)
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	s := newService(t)
	days := 14
	o := s.open(Params{AutoCreate: true, KMSKeyID: "key", GroupClass: "INFREQUENT_ACCESS", RetentionDays: &days, Tags: map[string]string{"team": "a", "stage": "b"}})
	sendOK(t, filled(t, o, lane, "a"))
	o.retention.close() // waits for the goroutine, which may be in its call
	got := s.take()
	want := []string{"PutLogEvents", "CreateLogStream", "CreateLogGroup", "CreateLogStream", "PutLogEvents"}
	if d := cmp.Diff(want, slices.DeleteFunc(got, func(s string) bool { return s == "PutRetentionPolicy" })); d != "" {
		t.Error(d)
	}
	settings := map[string]any{"kmsKeyId": "key", "logGroupClass": "INFREQUENT_ACCESS", "tags": map[string]any{"team": "a", "stage": "b"}}
	if d := cmp.Diff(settings, s.groups["/app/g"].settings); d != "" {
		t.Error(d)
	}
	// Only the stream is missing: only it is made.
	sendOK(t, filled(t, o, "/app/g\x00other", "a"))
	if d := cmp.Diff([]string{"PutLogEvents", "CreateLogStream", "PutLogEvents"}, s.take()); d != "" {
		t.Error(d)
	}
	if st := o.Stats(); st.StreamsCreated != 2 || st.GroupsCreated != 1 {
		t.Errorf("stats %+v", st)
	}
}

// A group that was deleted while weir runs is made again.
func TestDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o := s.open(Params{AutoCreate: true})
	sendOK(t, filled(t, o, lane, "a"))
	s.mu.Lock()
	delete(s.groups, "/app/g")
	s.mu.Unlock()
	sendOK(t, filled(t, o, lane, "b"))
	if d := cmp.Diff([]string{"b"}, texts(s.groups["/app/g"].streams["s"])); d != "" {
		t.Error(d)
	}
}

// Many requests that miss one group create it once.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o := s.open(Params{AutoCreate: true})
	var wg sync.WaitGroup
	for i := range 8 {
		r := filled(t, o, fmt.Sprintf("/app/g\x00s%d", i%2), "a")
		wg.Go(func() {
			if res := r.Send(t.Context()); res.Err != nil {
				t.Error(res.Err)
			}
		})
	}
	wg.Wait()
	if o.Stats().GroupsCreated != 1 || len(s.puts) != 8 {
		t.Errorf("%+v, %d puts", o.Stats(), len(s.puts))
	}
}

func TestCreateFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op, code string
		want     output.Kind
		hint     string
	}{
		{"CreateLogStream", "AccessDeniedException", output.Denied, "logs:CreateLogStream"},
		{"CreateLogGroup", "AccessDeniedException", output.Denied, "logs:CreateLogGroup"},
		{"CreateLogGroup", "LimitExceededException", output.Denied, "quota"},
		{"CreateLogGroup", "OperationAbortedException", output.Conflict, ""},
		{"CreateLogStream", "ThrottlingException", output.Conflict, ""}, // must not slow down the puts of others
		{"CreateLogStream", "ServiceUnavailableException", output.Unavailable, ""},
	} {
		t.Run(c.op+c.code, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.script = func(w http.ResponseWriter, _ *http.Request, op string, _ []byte) bool {
				if op == c.op {
					fail(w, 400, c.code, "no")
				}
				return op == c.op
			}
			res := filled(t, s.open(Params{AutoCreate: true}), lane, "a").Send(t.Context())
			if res.Err == nil || res.Err.Kind != c.want || !strings.Contains(res.Err.Hint, c.hint) {
				t.Errorf("got %+v", res.Err)
			}
		})
	}
}

// A stream that is made but not visible yet is flow control, not a loop.
func TestCreatedButNotThere(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.script = func(w http.ResponseWriter, _ *http.Request, op string, _ []byte) bool {
		if op == "PutLogEvents" {
			fail(w, 400, "ResourceNotFoundException", "The specified log stream does not exist.")
		}
		return op == "PutLogEvents"
	}
	res := filled(t, s.open(Params{AutoCreate: true}), lane, "a").Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Conflict || res.Err.After == 0 {
		t.Errorf("got %+v", res.Err)
	}
}

func TestGroupSettingsFromRecord(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := Params{AutoCreate: true, TagsKey: "$.meta.tags", RemoveTagsKey: true, RetentionKey: "days", RemoveRetentionKey: true, MessageKeys: []string{}}
	o := s.open(p)
	record := event.AppendMapHeader(nil, 3)
	record = event.AppendStr(event.AppendStr(record, "m"), "x")
	record = event.AppendStr(event.AppendStr(record, "days"), "30")
	record = event.AppendMapHeader(event.AppendStr(record, "meta"), 1)
	record = event.AppendMapHeader(event.AppendStr(record, "tags"), 2)
	record = event.AppendStr(event.AppendStr(record, "team"), "a")
	record = event.AppendInt(event.AppendStr(record, "n"), 5)
	r := o.Request()
	r.Reset(lane)
	r.Add(event.AppendEntry(nil, event.Unix(1_796_000_000, 0), record), 1)
	sendOK(t, r)
	deadline := time.After(time.Minute)
	for done := false; !done; {
		s.mu.Lock()
		done = s.groups["/app/g"].days == 30
		s.mu.Unlock()
		select {
		case <-deadline:
			t.Fatal("no retention was set")
		case <-time.After(time.Millisecond):
		}
	}
	if d := cmp.Diff(map[string]any{"tags": map[string]any{"team": "a", "n": "5"}}, s.groups["/app/g"].settings); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{`{"m":"x","meta":{}}`}, texts(s.groups["/app/g"].streams["s"])); d != "" {
		t.Error(d)
	}
}

// Tags with placeholders are expanded for each group.
func TestTagTemplates(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o := s.open(Params{AutoCreate: true, TagAsGroup: true, Tags: map[string]string{"from_${tag[0]}": "${tag} ${m}"}})
	for _, tag := range []string{"a.x", "b.y"} {
		sp := o.Splitter()
		raw := encodeEntries([]entry{{event.Unix(1_796_000_000, 0), "msg"}})
		sp.Split(event.Batch{Tag: tag, Entries: raw, Count: 1}, func(lane []byte, run output.Run) {
			r := o.Request()
			r.Reset(string(lane))
			r.(output.TagTaker).SetTag(tag)
			r.Add(raw, 1)
			sendOK(t, r)
		})
	}
	for group, want := range map[string]map[string]any{"a.x": {"from_a": "a.x msg"}, "b.y": {"from_b": "b.y msg"}} {
		if d := cmp.Diff(map[string]any{"tags": want}, s.groups[group].settings); d != "" {
			t.Error(d)
		}
	}
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

// One does the work, the others wait for it and learn how it ended.
func TestSingleFlight(t *testing.T) {
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
