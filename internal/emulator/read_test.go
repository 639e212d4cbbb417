package emulator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// texts returns the messages of an answer.
func texts(r reply) []string {
	out := []string{}
	events, _ := r.Body["events"].([]any)
	for _, e := range events {
		out = append(out, e.(obj)["message"].(string))
	}
	return out
}

// seven puts messages 0 to 6 a second apart, ending at noon.
func seven(t *testing.T, s *Server) {
	t.Helper()
	prepare(t, s)
	for i := range 7 {
		if r := put(t, s, event(noon.Add(time.Duration(i-6)*time.Second), fmt.Sprint(i))); r.Status != 200 {
			t.Fatal(r)
		}
	}
}

func TestGetLogEventsForward(t *testing.T) {
	s := newServer(t, Options{})
	seven(t, s)
	in := obj{"logGroupName": "g", "logStreamName": "s", "startFromHead": true, "limit": 3}
	var got [][]string
	for range 10 {
		r := mustOK(t, s, "GetLogEvents", in)
		got = append(got, texts(r))
		next := r.Body["nextForwardToken"]
		if next == in["nextToken"] {
			break
		}
		in["nextToken"] = next
	}
	want := [][]string{{"0", "1", "2"}, {"3", "4", "5"}, {"6"}, {}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// From the end, the backward token leads back without a gap.
	end := mustOK(t, s, "GetLogEvents", in).Body["nextBackwardToken"]
	back := mustOK(t, s, "GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "limit": 3, "nextToken": end})
	if d := cmp.Diff([]string{"4", "5", "6"}, texts(back)); d != "" {
		t.Errorf("turning round: %s", d)
	}
	// A late reader goes on with the token of the end.
	put(t, s, event(noon.Add(time.Second), "7"))
	if d := cmp.Diff([]string{"7"}, texts(mustOK(t, s, "GetLogEvents", in))); d != "" {
		t.Errorf("after the end: %s", d)
	}
}

func TestGetLogEventsBackward(t *testing.T) {
	s := newServer(t, Options{})
	seven(t, s)
	in := obj{"logGroupIdentifier": "arn:aws:logs:eu-west-1:000000000000:log-group:g:*", "logStreamName": "s", "limit": 3}
	var got [][]string
	var last reply
	for range 10 {
		last = mustOK(t, s, "GetLogEvents", in)
		got = append(got, texts(last))
		next := last.Body["nextBackwardToken"]
		if next == in["nextToken"] {
			break
		}
		in["nextToken"] = next
	}
	want := [][]string{{"4", "5", "6"}, {"1", "2", "3"}, {"0"}, {}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// At the head, the forward token leads back without a gap.
	in["nextToken"] = last.Body["nextForwardToken"]
	if d := cmp.Diff([]string{"0", "1", "2"}, texts(mustOK(t, s, "GetLogEvents", in))); d != "" {
		t.Errorf("turning round: %s", d)
	}
}

func TestGetLogEventsTimes(t *testing.T) {
	s := newServer(t, Options{})
	seven(t, s)
	at := func(i int) int64 { return noon.Add(time.Duration(i-6) * time.Second).UnixMilli() }
	for _, tt := range []struct {
		start, end any
		want       []string
	}{
		{at(2), at(4), []string{"2", "3"}}, // start inclusive, end exclusive
		{nil, at(1), []string{"0"}},
		{at(6), nil, []string{"6"}},
		{at(6) + 1, nil, []string{}},
		{at(3), at(3), []string{}},
	} {
		in := obj{"logGroupName": "g", "logStreamName": "s", "startTime": tt.start, "endTime": tt.end}
		r := mustOK(t, s, "GetLogEvents", in)
		if d := cmp.Diff(tt.want, texts(r)); d != "" {
			t.Errorf("[%v, %v): %s", tt.start, tt.end, d)
		}
		if r.Body["nextForwardToken"] == nil || r.Body["nextBackwardToken"] == nil {
			t.Error("the tokens are never null")
		}
	}
	r := do(t, s, "GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "startTime": 5, "endTime": 4})
	if r.Type() != "InvalidParameterException" {
		t.Errorf("end before start: %v", r)
	}
	// A range without events yields a token that later finds new ones in it.
	in := obj{"logGroupName": "g", "logStreamName": "s", "startTime": at(7), "startFromHead": true}
	in["nextToken"] = mustOK(t, s, "GetLogEvents", in).Body["nextForwardToken"]
	put(t, s, event(noon.Add(time.Second), "7"))
	if d := cmp.Diff([]string{"7"}, texts(mustOK(t, s, "GetLogEvents", in))); d != "" {
		t.Error(d)
	}
}

func TestReadRefusals(t *testing.T) {
	s := newServer(t, Options{})
	seven(t, s)
	for _, tt := range []struct {
		op   string
		in   obj
		typ  string
		text string
	}{
		{"GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "limit": 0}, "InvalidParameterException", "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "limit": 10001}, "InvalidParameterException", "1 validation error detected: Value '10001' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 10000"},
		{"GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "nextToken": "f/1"}, "InvalidParameterException", "The specified nextToken is invalid."},
		{"GetLogEvents", obj{"logGroupName": "g", "logGroupIdentifier": "g", "logStreamName": "s"}, "InvalidParameterException", "LogGroup name and LogGroup ARN are mutually exclusive parameters."},
		{"GetLogEvents", obj{"logStreamName": "s"}, "InvalidParameterException", "Either LogGroup name or LogGroup ARN must be specified."},
		{"GetLogEvents", obj{"logGroupName": "g", "logStreamName": "t"}, "ResourceNotFoundException", "The specified log stream does not exist."},
		{"GetLogEvents", obj{"logGroupName": "h", "logStreamName": "s"}, "ResourceNotFoundException", "The specified log group does not exist."},
		{"FilterLogEvents", obj{"logGroupName": "h"}, "ResourceNotFoundException", "The specified log group does not exist."},
		{"FilterLogEvents", obj{"logGroupName": "g", "logStreamNames": []string{"s"}, "logStreamNamePrefix": "s"}, "InvalidParameterException", "LogStreamNames and LogStreamNamePrefix are mutually exclusive parameters."},
		{"FilterLogEvents", obj{"logGroupName": "g", "filterPattern": "[a]"}, "InvalidParameterException", ""},
		{"FilterLogEvents", obj{"logGroupName": "g", "nextToken": "x"}, "InvalidParameterException", "The specified nextToken is invalid."},
	} {
		r := do(t, s, tt.op, tt.in)
		if r.Status != 400 || r.Type() != tt.typ || tt.text != "" && r.Text() != tt.text {
			t.Errorf("%s %v: got %d %s: %s", tt.op, tt.in, r.Status, r.Type(), r.Text())
		}
	}
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	for i := range 3 {
		e := repeat(1, 500000)
		e[0]["timestamp"] = noon.Add(time.Duration(i)).UnixMilli()
		put(t, s, e...)
	}
	for _, op := range []string{"GetLogEvents", "FilterLogEvents"} {
		in := obj{"logGroupName": "g"}
		if op == "GetLogEvents" {
			in["logStreamName"] = "s"
		}
		if n := len(texts(mustOK(t, s, op, in))); n != 2 {
			t.Errorf("%s: %d events of 500 000 bytes on a page of 1 MiB, want 2", op, n)
		}
	}
}

func TestOrderOfTiesAndLateEvents(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	put(t, s, event(noon, "a1"), event(noon, "a2"), event(noon.Add(2*time.Second), "c"))
	in := obj{"logGroupName": "g", "logStreamName": "s", "startFromHead": true}
	mustOK(t, s, "GetLogEvents", in) // builds the index, so that what follows comes late
	put(t, s, event(noon, "a3"), event(noon.Add(time.Second), "b"))
	put(t, s, event(noon.Add(2*time.Second), "d"))
	if d := cmp.Diff([]string{"a1", "a2", "a3", "b", "c", "d"}, texts(mustOK(t, s, "GetLogEvents", in))); d != "" {
		t.Errorf("by timestamp: %s", d)
	}
	if d := cmp.Diff([]string{"a1", "a2", "c", "a3", "b", "d"}, messages(s)); d != "" {
		t.Errorf("by acceptance: %s", d)
	}
	var reqs []int64
	for _, e := range s.Events("g", "s") {
		reqs = append(reqs, e.Request*10+int64(e.Index))
	}
	if d := cmp.Diff([]int64{10, 11, 12, 20, 21, 30}, reqs); d != "" {
		t.Errorf("requests and indexes: %s", d)
	}
}

// A reader keeps a slice of the index without a lock: late events must not
// change it under the reader.
func TestIndexIsNotChangedUnderAReader(t *testing.T) {
	s := newServer(t, Options{})
	seven(t, s)
	st := s.groups["g"].streams["s"]
	before := st.sorted()
	kept := slices.Clone(before)
	put(t, s, event(noon.Add(-time.Hour), "late"))
	if after := st.sorted(); len(after) != 8 || string(after[0].c.message(0)) != "late" {
		t.Error("the late event is not first")
	}
	if !slices.Equal(before, kept) {
		t.Error("the reader's slice was changed")
	}
}

func TestPutToAStreamThatWasJustDeleted(t *testing.T) {
	s := newServer(t, Options{})
	seven(t, s)
	st := s.groups["g"].streams["s"]
	mustOK(t, s, "DeleteLogGroup", obj{"logGroupName": "g"})
	c := &call{now: noon}
	if err := scanPut([]byte(putA), &c.put); err != nil {
		t.Fatal(err)
	}
	if _, err := s.accept(c, st, window{n: 1, high: 1}); err == nil || err.Message != "The specified log stream does not exist." {
		t.Errorf("got %v", err)
	}
	if n := s.Stats().RetainedBytes; n != 0 {
		t.Errorf("%d bytes are held for a deleted stream", n)
	}
}

func TestFilterLogEventsInterleavesAndPages(t *testing.T) {
	s := newServer(t, Options{})
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "g"})
	for i := range 9 {
		stream := fmt.Sprint("s", i%3)
		do(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": stream})
		mustOK(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": stream, "logEvents": []obj{event(noon.Add(time.Duration(i)*time.Second), fmt.Sprint("m", i))}})
	}
	in := obj{"logGroupName": "g", "limit": 4, "interleaved": true}
	var got []string
	ids := map[any]bool{}
	for range 10 {
		r := mustOK(t, s, "FilterLogEvents", in)
		got = append(got, texts(r)...)
		for _, e := range r.Body["events"].([]any) {
			ids[e.(obj)["eventId"]] = true
		}
		if r.Body["nextToken"] == nil {
			break
		}
		in["nextToken"] = r.Body["nextToken"]
	}
	if d := cmp.Diff([]string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"}, got); d != "" {
		t.Error(d)
	}
	if len(ids) != 9 {
		t.Errorf("%d different event ids", len(ids))
	}
	ms := noon.UnixMilli()
	for _, tt := range []struct {
		in   obj
		want []string
	}{
		{obj{"logStreamNames": []string{"s1"}}, []string{"m1", "m4", "m7"}},
		{obj{"logStreamNamePrefix": "s2"}, []string{"m2", "m5", "m8"}},
		{obj{"logStreamNamePrefix": "none"}, []string{}},
		{obj{"startTime": ms + 2000, "endTime": ms + 4000}, []string{"m2", "m3", "m4"}}, // both inclusive
		{obj{"filterPattern": "?m1 ?m3"}, []string{"m1", "m3"}},
	} {
		tt.in["logGroupName"] = "g"
		if d := cmp.Diff(tt.want, texts(mustOK(t, s, "FilterLogEvents", tt.in))); d != "" {
			t.Errorf("%v: %s", tt.in, d)
		}
	}
}
