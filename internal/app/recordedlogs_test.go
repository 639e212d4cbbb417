package app

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// recordedLogs is what a CloudWatch Logs endpoint was told: by Fluentd in a recording, by
// weir through the server. It has no limits and any time suits it.
type recordedLogs struct {
	mu      sync.Mutex
	setup   []string        // groups, their tags and retention, streams
	streams map[string]bool // group NUL stream
	groups  map[string]bool
	events  map[string][]string // by group NUL stream
}

type recordedCall struct {
	Op        string            `json:"op"`
	Group     string            `json:"log_group_name"`
	Stream    string            `json:"log_stream_name"`
	Tags      map[string]string `json:"tags"`
	Retention int               `json:"retention_in_days"`
	Events    []recordedEvent   `json:"log_events"`
}

type recordedEvent struct {
	Timestamp int64  `json:"timestamp"`
	Message   string `json:"message"`
}

func (l *recordedLogs) add(t *testing.T, call []byte) {
	t.Helper()
	var c recordedCall
	if err := json.Unmarshal(call, &c); err != nil {
		t.Fatal(err)
	}
	l.take(c)
}

// take notes a call; it is false for a put into a stream that does not exist.
func (l *recordedLogs) take(c recordedCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams == nil {
		l.streams, l.groups, l.events = map[string]bool{}, map[string]bool{}, map[string][]string{}
	}
	lane := c.Group + "\x00" + c.Stream
	switch c.Op {
	case "create_log_group":
		l.groups[c.Group] = true
		tags, _ := json.Marshal(c.Tags)
		if len(c.Tags) == 0 {
			tags = nil
		}
		l.setup = append(l.setup, fmt.Sprintf("group %s %s\n", c.Group, tags))
	case "put_retention_policy":
		l.setup = append(l.setup, fmt.Sprintf("group %s retention %d\n", c.Group, c.Retention))
	case "create_log_stream":
		if !l.groups[c.Group] {
			return false
		}
		l.streams[lane] = true
		l.setup = append(l.setup, fmt.Sprintf("stream %s %s\n", c.Group, c.Stream))
	case "put_log_events":
		if !l.streams[lane] {
			return false
		}
		for _, e := range c.Events {
			l.events[lane] = append(l.events[lane], fmt.Sprintf("%d %q", e.Timestamp, e.Message))
		}
	}
	return true
}

// String is all that it was told, the lanes sorted.
func (l *recordedLogs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.Clone(l.setup)
	slices.Sort(lines)
	var lanes []string
	for lane, events := range l.events {
		lanes = append(lanes, strings.Replace(lane, "\x00", " ", 1)+"\n  "+strings.Join(events, "\n  ")+"\n")
	}
	slices.Sort(lanes)
	return strings.Join(lines, "") + strings.Join(lanes, "")
}

// serve starts an endpoint; its address is returned.
func (l *recordedLogs) serve(t *testing.T) string {
	t.Helper()
	ops := map[string]string{"CreateLogGroup": "create_log_group", "CreateLogStream": "create_log_stream",
		"PutLogEvents": "put_log_events", "PutRetentionPolicy": "put_retention_policy"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			recordedCall
			LogGroupName    string
			LogStreamName   string
			RetentionInDays int
			LogEvents       []recordedEvent
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &c)
		}
		_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if err != nil || ops[name] == "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"InvalidParameterException","message":"%s"}`, name)
			return
		}
		c.recordedCall = recordedCall{Op: ops[name], Group: c.LogGroupName, Stream: c.LogStreamName, Tags: c.Tags, Retention: c.RetentionInDays, Events: c.LogEvents}
		if !l.take(c.recordedCall) {
			what := "log stream"
			if !l.groups[c.Group] {
				what = "log group"
			}
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"ResourceNotFoundException","message":"The specified %s does not exist."}`, what)
			return
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// compareRecordedObjects compares what is in S3: keys, headers that were recorded, contents.
func compareRecordedObjects(t *testing.T, want []recordedResult, objects *s3mem.Backend) {
	t.Helper()
	list, err := objects.ListBucket("bucket", nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, k := range list.Contents {
		o, err := objects.GetObject("bucket", k.Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = o.Contents
		if strings.HasSuffix(k.Key, ".gz") {
			if r, err = gzip.NewReader(r); err != nil {
				t.Fatal(err)
			}
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := "bucket/" + k.Key
		got[name] = string(data)
		for _, w := range want {
			for h, v := range w.Meta {
				if w.Object == name && o.Metadata[h] != v {
					t.Errorf("object %s: %s is %q, want %q", name, h, o.Metadata[h], v)
				}
			}
		}
	}
	for _, w := range want {
		if text := w.Text + valid(w.Base64); w.Object != "" && got[w.Object] != text {
			t.Errorf("object %s\n got %q\nwant %q", w.Object, got[w.Object], text)
		}
		delete(got, w.Object)
	}
	for name, text := range got {
		t.Errorf("object %s %q: Fluentd writes none", name, text)
	}
}

// TestStreamOfSeveralTags: one stream keeps the order of acceptance across tags, also where
// the tag is in the message, which makes it part of what a request depends on.
func TestStreamOfSeveralTags(t *testing.T) {
	for name, more := range map[string]string{
		"inject":     "<inject>\n  tag_key tag\n</inject>\n",
		"formatter":  "<format>\n  @type out_file\n  output_time false\n  delimiter SPACE\n</format>\n",
		"group tags": "log_group_aws_tags {\"from\":\"${tag}\"}\n<format>\n  @type out_file\n  output_time false\n  delimiter SPACE\n</format>\n<buffer tag>\n</buffer>\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := &recordedCase{env: map[string]string{}}
			c.conf = "<match **>\n@type cloudwatch_logs\nlog_group_name g\nlog_stream_name s\nauto_create_stream true\n" + more + "</match>\n"
			for i := range 20 {
				c.events += fmt.Sprintf("{\"tag\":\"%c\",\"record\":{\"n\":%d}}\n", 'a'+i%3, i)
				message := fmt.Sprintf(`{"n":%d,"tag":"%c"}`, i, 'a'+i%3)
				if name != "inject" {
					message = fmt.Sprintf("%c {\"n\":%d}\n", 'a'+i%3, i)
				}
				call, _ := json.Marshal(recordedCall{Op: "put_log_events", Group: "g", Stream: "s", Events: []recordedEvent{{Timestamp: 1700000000000, Message: message}}})
				c.want = append(c.want, recordedResult{Call: call})
			}
			group := recordedCall{Op: "create_log_group", Group: "g"}
			if name == "group tags" {
				group.Tags = map[string]string{"from": "a"}
			}
			g, _ := json.Marshal(group)
			s, _ := json.Marshal(recordedCall{Op: "create_log_stream", Group: "g", Stream: "s"})
			c.want = append([]recordedResult{{Call: g}, {Call: s}}, c.want...)
			c.run(t)
		})
	}
}
