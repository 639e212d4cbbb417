package emulator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func names(r reply, list, member string) []string {
	out := []string{}
	items, _ := r.Body[list].([]any)
	for _, it := range items {
		out = append(out, it.(obj)[member].(string))
	}
	return out
}

func TestGroupsAndStreams(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	tags51 := obj{}
	for i := range 51 {
		tags51[fmt.Sprint("k", i)] = "v"
	}
	for _, tt := range []struct {
		op   string
		in   obj
		typ  string
		text string
	}{
		{"CreateLogGroup", obj{"logGroupName": "g"}, "ResourceAlreadyExistsException", "The specified log group already exists"},
		{"CreateLogStream", obj{"logGroupName": "g", "logStreamName": "s"}, "ResourceAlreadyExistsException", "The specified log stream already exists"},
		{"CreateLogStream", obj{"logGroupName": "h", "logStreamName": "s"}, "ResourceNotFoundException", "The specified log group does not exist."},
		{"CreateLogGroup", obj{"logGroupName": "aws/lambda"}, "InvalidParameterException", "Log groups starting with AWS/ are reserved for AWS."},
		{"CreateLogGroup", obj{"logGroupName": ""}, "InvalidParameterException", "1 validation error detected: Value '' at 'logGroupName' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"CreateLogGroup", obj{}, "InvalidParameterException", "1 validation error detected: Value null at 'logGroupName' failed to satisfy constraint: Member must not be null"},
		{"CreateLogGroup", obj{"logGroupName": "x", "logGroupClass": "CHEAP"}, "InvalidParameterException", "1 validation error detected: Value 'CHEAP' at 'logGroupClass' failed to satisfy constraint: Member must satisfy enum value set: [STANDARD, INFREQUENT_ACCESS, DELIVERY]"},
		{"CreateLogGroup", obj{"logGroupName": "x", "tags": tags51}, "InvalidParameterException", ""},
		{"CreateLogGroup", obj{"logGroupName": 5}, "SerializationException", "NUMBER_VALUE can not be converted to a String"},
		{"DeleteLogGroup", obj{"logGroupName": "h"}, "ResourceNotFoundException", "The specified log group does not exist."},
		{"DeleteLogStream", obj{"logGroupName": "g", "logStreamName": "t"}, "ResourceNotFoundException", "The specified log stream does not exist."},
		{"DescribeLogStreams", obj{"logGroupName": "h"}, "ResourceNotFoundException", "The specified log group does not exist."},
		{"DescribeLogStreams", obj{"logGroupName": "g", "orderBy": "LastEventTime", "logStreamNamePrefix": "s"}, "InvalidParameterException", "Cannot order by LastEventTime with a logStreamNamePrefix."},
		{"DescribeLogStreams", obj{"logGroupName": "g", "limit": 51}, "InvalidParameterException", ""},
		{"DescribeLogGroups", obj{"logGroupNamePrefix": "a", "logGroupNamePattern": "a"}, "InvalidParameterException", ""},
		{"DescribeLogGroups", obj{"nextToken": "*"}, "InvalidParameterException", "The specified nextToken is invalid."},
		{"PutRetentionPolicy", obj{"logGroupName": "h", "retentionInDays": 1}, "ResourceNotFoundException", ""},
		{"DeleteRetentionPolicy", obj{"logGroupName": "h"}, "ResourceNotFoundException", ""},
	} {
		r := do(t, s, tt.op, tt.in)
		if r.Status != 400 || r.Type() != tt.typ || tt.text != "" && r.Text() != tt.text {
			t.Errorf("%s %v: got %d %s: %s", tt.op, tt.in, r.Status, r.Type(), r.Text())
		}
	}
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "/aws/lambda/x"}) // only "aws/" is reserved
	put(t, s, event(noon, "gone"))
	mustOK(t, s, "DeleteLogStream", obj{"logGroupName": "g", "logStreamName": "s"})
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "s"})
	if n := len(messages(s)); n != 0 {
		t.Errorf("a stream made again has %d old events", n)
	}
	if got := s.Stats().RetainedBytes; got != 0 {
		t.Errorf("%d bytes are still held for deleted events", got)
	}
}

func TestRetentionValues(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	valid := map[int]bool{}
	for _, d := range []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653} {
		valid[d] = true
	}
	for d := -1; d < 3700; d++ {
		if ok := do(t, s, "PutRetentionPolicy", obj{"logGroupName": "g", "retentionInDays": d}).Status == 200; ok != valid[d] {
			t.Errorf("%d days: accepted %v", d, ok)
		}
	}
	if got := s.Groups()[0].RetentionDays; got != 3653 {
		t.Errorf("retention %d", got)
	}
	mustOK(t, s, "DeleteRetentionPolicy", obj{"logGroupName": "g"})
	g := mustOK(t, s, "DescribeLogGroups", obj{}).Body["logGroups"].([]any)[0].(obj)
	if _, there := g["retentionInDays"]; there {
		t.Error("a group that never expires must have no retentionInDays")
	}
}

func TestDescribePages(t *testing.T) {
	s := newServer(t, Options{})
	want := []string{}
	for i := range 120 {
		name := fmt.Sprintf("app/%03d", i)
		want = append(want, name)
		mustOK(t, s, "CreateLogGroup", obj{"logGroupName": name})
		do(t, s, "CreateLogStream", obj{"logGroupName": "app/000", "logStreamName": name})
	}
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "zzz", "logGroupClass": "INFREQUENT_ACCESS"})
	collect := func(op, list, member string, in obj) (got []string, pages int) {
		for {
			r := mustOK(t, s, op, in)
			got = append(got, names(r, list, member)...)
			pages++
			if r.Body["nextToken"] == nil {
				return got, pages
			}
			in["nextToken"] = r.Body["nextToken"]
		}
	}
	for _, limit := range []any{nil, 1, 40, 50} {
		got, pages := collect("DescribeLogGroups", "logGroups", "logGroupName", obj{"logGroupNamePrefix": "app", "limit": limit})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("groups, limit %v: %s", limit, d)
		}
		if limit == nil && pages != 3 {
			t.Errorf("%d pages by default", pages)
		}
		got, _ = collect("DescribeLogStreams", "logStreams", "logStreamName", obj{"logGroupName": "app/000", "limit": limit})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("streams, limit %v: %s", limit, d)
		}
		got, _ = collect("DescribeLogStreams", "logStreams", "logStreamName", obj{"logGroupName": "app/000", "limit": limit, "orderBy": "LastEventTime", "descending": true})
		if len(got) != 120 || got[0] != "app/119" || got[119] != "app/000" {
			t.Errorf("streams by time: %d, %v", len(got), got)
		}
	}
	got, _ := collect("DescribeLogGroups", "logGroups", "logGroupName", obj{"logGroupNamePattern": "p/11"})
	if len(got) != 10 {
		t.Errorf("by pattern: %v", got)
	}
	got, _ = collect("DescribeLogGroups", "logGroups", "logGroupName", obj{"logGroupClass": "INFREQUENT_ACCESS"})
	if d := cmp.Diff([]string{"zzz"}, got); d != "" {
		t.Error(d)
	}
}

func TestDescribeLogStreamsFields(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	one := func() obj {
		return mustOK(t, s, "DescribeLogStreams", obj{"logGroupIdentifier": "g"}).Body["logStreams"].([]any)[0].(obj)
	}
	want := obj{"logStreamName": "s", "creationTime": float64(noon.UnixMilli()), "storedBytes": 0.0,
		"arn": "arn:aws:logs:eu-west-1:000000000000:log-group:g:log-stream:s"}
	if d := cmp.Diff(want, one()); d != "" {
		t.Errorf("without events: %s", d)
	}
	put(t, s, event(noon.Add(-time.Minute), "a"), event(noon.Add(time.Minute), "b"))
	got := one()
	delete(got, "uploadSequenceToken")
	want["firstEventTimestamp"] = float64(noon.Add(-time.Minute).UnixMilli())
	want["lastEventTimestamp"] = float64(noon.Add(time.Minute).UnixMilli())
	want["lastIngestionTime"] = float64(noon.UnixMilli())
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("with events: %s", d)
	}
	g := mustOK(t, s, "DescribeLogGroups", obj{}).Body["logGroups"].([]any)[0].(obj)
	if g["storedBytes"] != 54.0 || g["arn"] != "arn:aws:logs:eu-west-1:000000000000:log-group:g:*" || g["logGroupArn"] != "arn:aws:logs:eu-west-1:000000000000:log-group:g" {
		t.Errorf("group: %v", g)
	}
}

func TestTags(t *testing.T) {
	s := newServer(t, Options{})
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "g", "tags": obj{"a": "1"}})
	arn := "arn:aws:logs:eu-west-1:000000000000:log-group:g"
	list := func() any { return mustOK(t, s, "ListTagsForResource", obj{"resourceArn": arn}).Body["tags"] }
	mustOK(t, s, "TagResource", obj{"resourceArn": arn + ":*", "tags": obj{"b": "2", "a": "3"}})
	mustOK(t, s, "TagLogGroup", obj{"logGroupName": "g", "tags": obj{"c": ""}})
	if d := cmp.Diff(any(obj{"a": "3", "b": "2", "c": ""}), list()); d != "" {
		t.Error(d)
	}
	mustOK(t, s, "UntagResource", obj{"resourceArn": arn, "tagKeys": []string{"b", "nothing"}})
	mustOK(t, s, "UntagLogGroup", obj{"logGroupName": "g", "tags": []string{"c"}})
	if d := cmp.Diff(any(obj{"a": "3"}), mustOK(t, s, "ListTagsLogGroup", obj{"logGroupName": "g"}).Body["tags"]); d != "" {
		t.Error(d)
	}
	tags := obj{}
	for i := range 49 {
		tags[fmt.Sprint("k", i)] = "v"
	}
	mustOK(t, s, "TagResource", obj{"resourceArn": arn, "tags": tags}) // makes 50
	r := do(t, s, "TagResource", obj{"resourceArn": arn, "tags": obj{"one too many": "v"}})
	if r.Type() != "TooManyTagsException" || r.Body["resourceName"] != arn {
		t.Errorf("51 tags: %v", r.Body)
	}
	if n := len(list().(obj)); n != 50 {
		t.Errorf("%d tags", n)
	}
	for _, bad := range []obj{{"": "v"}, {strings.Repeat("k", 129): "v"}, {"k": strings.Repeat("v", 257)}, {"k!": "v"}, {"aws:k": "v"}, {}} {
		if r := do(t, s, "TagResource", obj{"resourceArn": arn, "tags": bad}); r.Type() != "InvalidParameterException" {
			t.Errorf("%v: %d %s", bad, r.Status, r.Type())
		}
	}
	if r := do(t, s, "ListTagsForResource", obj{"resourceArn": "arn:aws:logs:eu-west-1:0:log-group:h"}); r.Type() != "ResourceNotFoundException" {
		t.Error(r)
	}
}

func TestDeletionProtection(t *testing.T) {
	s := newServer(t, Options{})
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "g", "deletionProtectionEnabled": true})
	if r := do(t, s, "DeleteLogGroup", obj{"logGroupName": "g"}); r.Type() != "ValidationException" {
		t.Error(r)
	}
}

func TestGroupLimit(t *testing.T) {
	lim := DefaultLimits()
	lim.Groups = 2
	s := newServer(t, Options{Limits: &lim})
	for i := range 2 {
		mustOK(t, s, "CreateLogGroup", obj{"logGroupName": fmt.Sprint("g", i)})
	}
	if r := do(t, s, "CreateLogGroup", obj{"logGroupName": "h"}); r.Type() != "LimitExceededException" || r.Text() != "Resource limit exceeded." {
		t.Error(r)
	}
}

func TestQuotas(t *testing.T) {
	now := noon
	s := newServer(t, Options{Quotas: true, StrictTokens: true, Clock: func() time.Time { return now }})
	count := func(op string, in obj) (passed int) {
		for passed < 10000 {
			r := do(t, s, op, in)
			if r.Type() == "ThrottlingException" {
				if r.Text() != "Rate exceeded" || r.Status != 400 {
					t.Errorf("%d %s", r.Status, r.Text())
				}
				return passed
			}
			passed++
		}
		return passed
	}
	for op, want := range map[string]int{"CreateLogGroup": 10, "CreateLogStream": 50, "DescribeLogStreams": 25, "DescribeLogGroups": 10, "PutRetentionPolicy": 5, "TagResource": 5, "GetLogEvents": 25, "FilterLogEvents": 10} {
		if got := count(op, obj{"logGroupName": "g"}); got != want {
			t.Errorf("%s: %d passed, want %d", op, got, want)
		}
	}
	in := obj{"logGroupName": "g", "logStreamName": "s"}
	if got := count("PutLogEvents", in); got != 5 {
		t.Errorf("puts to a stream: %d passed, want 5", got)
	}
	now = now.Add(400 * time.Millisecond)
	if got := count("PutLogEvents", in); got != 2 {
		t.Errorf("after 0.4 s: %d passed, want 2", got)
	}
}
