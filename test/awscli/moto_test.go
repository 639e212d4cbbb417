package awscli

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/emulator"
)

// step is one call that both implementations get.
type step struct {
	op string
	in obj
	// differs says why the answers are not compared, for known differences;
	// docs/emulator.md lists them. Both still have to agree on success,
	// unless status is set.
	differs string
	// status, when set, is that of the endpoint; moto does not get the call,
	// since it would accept and keep what the service refuses.
	status int
}

func steps(now int64) []step {
	g, gs := obj{"logGroupName": "g"}, obj{"logGroupName": "g", "logStreamName": "s"}
	put := func(stream string, events ...any) obj {
		var list []obj
		for i := 0; i < len(events); i += 2 {
			list = append(list, obj{"timestamp": now + int64(events[i].(int)), "message": events[i+1]})
		}
		return obj{"logGroupName": "g", "logStreamName": stream, "logEvents": list}
	}
	arn := "arn:aws:logs:eu-west-1:123456789012:log-group:g"
	const (
		noStreamText = "moto says that the group does not exist when the stream does not"
		lax          = "moto does not check this"
	)
	return []step{
		{op: "DescribeLogGroups", in: obj{}},
		{op: "CreateLogStream", in: gs},
		{op: "CreateLogGroup", in: obj{"logGroupName": "g", "tags": obj{"k": "v"}}},
		{op: "CreateLogGroup", in: g},
		{op: "CreateLogGroup", in: obj{"logGroupName": "no spaces"}, differs: lax, status: 400},
		{op: "CreateLogGroup", in: obj{"logGroupName": strings.Repeat("x", 513)}, differs: "moto words constraints differently"},
		{op: "CreateLogGroup", in: obj{"logGroupName": "aws/reserved"}, differs: lax, status: 400},
		{op: "PutLogEvents", in: put("s", 0, "a")},
		{op: "CreateLogStream", in: gs},
		{op: "CreateLogStream", in: gs, differs: "moto says that the group already exists"},
		{op: "DescribeLogStreams", in: g},
		{op: "GetLogEvents", in: gs},
		{op: "PutLogEvents", in: put("s", -3000, "first a", -2000, "second b", -1000, "third a b")},
		{op: "CreateLogStream", in: obj{"logGroupName": "g", "logStreamName": "t"}},
		{op: "PutLogEvents", in: put("t", -2500, "between")},
		{op: "PutLogEvents", in: put("t", -15*24*3600*1000, "too old", 0, "now"), differs: "moto gives tooOldLogEventEndIndex inclusively"},
		{op: "PutLogEvents", in: put("t", 0, "now", 3*3600*1000, "too new")},
		{op: "PutLogEvents", in: put("t", 0, "b", -1, "a"), differs: lax, status: 400},
		{op: "PutLogEvents", in: put("t"), differs: lax, status: 400},
		{op: "PutLogEvents", in: put("t", 0, strings.Repeat("x", 1048551)), differs: "moto still has the limit of 256 KB", status: 400},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "s", "startFromHead": true}},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "s", "limit": 2}},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "s", "limit": 2, "startFromHead": true}},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "s", "startTime": now - 2000, "endTime": now - 1001}},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "s", "endTime": now - 1000}, differs: "moto takes endTime as inclusive"},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "none"}, differs: noStreamText},
		{op: "GetLogEvents", in: obj{"logGroupName": "none", "logStreamName": "s"}},
		{op: "GetLogEvents", in: obj{"logGroupName": "g", "logStreamName": "s", "nextToken": "nonsense"}},
		{op: "FilterLogEvents", in: obj{"logGroupName": "g", "logStreamNames": []string{"s"}, "interleaved": true}},
		{op: "FilterLogEvents", in: obj{"logGroupName": "g", "logStreamNames": []string{"s"}, "filterPattern": "a b", "interleaved": true}},
		{op: "FilterLogEvents", in: obj{"logGroupName": "g", "logStreamNames": []string{"s"}, "filterPattern": `"second b"`, "interleaved": true}},
		{op: "FilterLogEvents", in: obj{"logGroupName": "g", "filterPattern": "e", "startTime": now - 2500, "endTime": now - 1000, "interleaved": true}},
		{op: "FilterLogEvents", in: obj{"logGroupName": "none"}},
		{op: "PutRetentionPolicy", in: obj{"logGroupName": "g", "retentionInDays": 7}},
		{op: "PutRetentionPolicy", in: obj{"logGroupName": "none", "retentionInDays": 7}},
		{op: "PutRetentionPolicy", in: obj{"logGroupName": "g", "retentionInDays": 8}, differs: lax, status: 400},
		{op: "DescribeLogGroups", in: obj{"logGroupNamePrefix": "g"}},
		{op: "DescribeLogStreams", in: obj{"logGroupName": "g", "orderBy": "LogStreamName"}},
		{op: "DescribeLogStreams", in: obj{"logGroupName": "g", "orderBy": "LastEventTime", "descending": true}},
		{op: "DescribeLogStreams", in: obj{"logGroupName": "g", "orderBy": "LastEventTime", "logStreamNamePrefix": "s"}, differs: "texts differ"},
		{op: "DescribeLogStreams", in: obj{"logGroupName": "none"}},
		{op: "DeleteRetentionPolicy", in: g},
		{op: "TagResource", in: obj{"resourceArn": arn, "tags": obj{"a": "b"}}},
		{op: "ListTagsForResource", in: obj{"resourceArn": arn}},
		{op: "UntagResource", in: obj{"resourceArn": arn, "tagKeys": []string{"k"}}},
		{op: "ListTagsLogGroup", in: g},
		{op: "TagLogGroup", in: obj{"logGroupName": "g", "tags": obj{"c": "d"}}},
		{op: "UntagLogGroup", in: obj{"logGroupName": "g", "tags": []string{"a"}}},
		{op: "ListTagsLogGroup", in: g},
		{op: "DeleteLogStream", in: gs},
		{op: "DeleteLogStream", in: gs, differs: noStreamText},
		{op: "DeleteLogGroup", in: g},
		{op: "DeleteLogGroup", in: g},
	}
}

// volatile members differ from run to run, or are known to differ between the two.
func volatile() map[string]string {
	return map[string]string{
		"creationTime": "clock", "ingestionTime": "clock", "lastIngestionTime": "clock", "eventId": "opaque",
		"nextForwardToken": "opaque", "nextBackwardToken": "opaque", "nextToken": "opaque", "nextSequenceToken": "opaque",
		"uploadSequenceToken": "opaque", "storedBytes": "moto counts messages per stream, the service 26 bytes more and per group",
		"logGroupClass": "moto leaves it out", "deletionProtectionEnabled": "moto leaves it out",
		"searchedLogStreams": "always empty since 2020",
	}
}

// normal strips volatile members and brings error texts to one form.
func normal(v any, drop map[string]string) any {
	switch t := v.(type) {
	case obj:
		out := obj{}
		for k, e := range t {
			if k == "Message" {
				k = "message"
			}
			if _, skip := drop[k]; !skip {
				out[k] = normal(e, drop)
			}
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i := range t {
			out[i] = normal(t[i], drop)
		}
		return out
	}
	return v
}

func call(t *testing.T, url string, st step, now time.Time) (int, obj) {
	t.Helper()
	b, err := json.Marshal(st.in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Logs_20140328."+st.op)
	r.Header.Set("X-Amz-Date", now.UTC().Format("20060102T150405Z"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/"+now.UTC().Format("20060102")+"/eu-west-1/logs/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", st.op, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	v := obj{}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%s: status %d: %s", st.op, resp.StatusCode, body)
		}
	}
	return resp.StatusCode, v
}

func TestAgainstMoto(t *testing.T) {
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Log("left out: moto_server is not on the PATH, so the endpoint was not compared with it")
		return
	}
	moto := startMoto(t, path)
	s := serve(t, emulator.Options{Account: "123456789012"})
	now := time.Now()
	drop := volatile()
	for i, st := range steps(now.UnixMilli()) {
		ours, mine := call(t, s.URL(), st, now)
		if st.status != 0 {
			if ours != st.status {
				t.Errorf("step %d %s: status %d, want %d (%s)", i, st.op, ours, st.status, st.differs)
			}
			continue
		}
		theirs, other := call(t, moto, st, now)
		if ours != theirs {
			t.Errorf("step %d %s %v: status %d, moto %d: %v / %v", i, st.op, st.in, ours, theirs, mine, other)
			continue
		}
		if ours >= 400 && mine["__type"] != other["__type"] {
			t.Errorf("step %d %s: %v, moto %v", i, st.op, mine, other)
		}
		if st.differs != "" {
			continue
		}
		if d := cmp.Diff(normal(other, drop), normal(mine, drop)); d != "" {
			t.Errorf("step %d %s %v (-moto +endpoint):\n%s", i, st.op, st.in, d)
		}
	}
}

// startMoto runs moto_server on a free port until the test ends.
func startMoto(t *testing.T, path string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "-H", "127.0.0.1", "-p", port)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("moto_server ended: %v\n%s", err, log.String())
		case <-deadline:
			t.Fatal("moto_server did not come up within a minute")
		case <-tick.C:
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				_ = conn.Close() // it was only a question
				return "http://127.0.0.1:" + port
			}
		}
	}
}
