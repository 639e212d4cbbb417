package s3

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"weir/internal/event"
)

// TestPodLogsLines: the lines that Fluentd wrote to S3 in the recorded case come out of
// their own records byte for byte, in the objects of their tags. The one difference is
// meant: a line that was not valid UTF-8 is.
func TestPodLogsLines(t *testing.T) {
	f, err := os.Open("testdata/pod-logs.s3.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := open(t, `s3_bucket foobar
s3_object_key_format "stage/eks-pod-logs/%Y-%m-%d/${tag}/%H_%{index}_%{uuid_flush}.%{file_extension}"
<format>
@type json
</format>
<buffer tag,time>
timekey 1h
</buffer>`, nil)
	n := 0
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for ; scan.Scan(); n++ {
		var c struct {
			Key, Line string
			Base64    []byte `json:"line_base64"`
		}
		if err := json.Unmarshal(scan.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		want := c.Line
		if c.Base64 != nil {
			want = strings.ToValidUTF8(string(c.Base64), "\uFFFD")
		}
		record, _, err := event.AppendFromJSON(nil, []byte(want))
		if err != nil {
			t.Fatalf("%.100s: %v", want, err)
		}
		tag := strings.Split(c.Key, "/")[4]
		b := batchOf(tag, event.AppendEntry(nil, event.FromTime(noon), record))
		r := fill(t, o, b)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if got := gunzip(t, r.spool.mem); len(got) != 1 || got[0] != want {
			t.Errorf("%s:\n%.300s\nwant\n%.300s", c.Key, got, want)
		}
		v := newFresh()
		key := strings.NewReplacer("2026-11-30", "DATE", "/12_", "/HOUR_", uuidText(v.uuid), "UUID").Replace("foobar/" + o.key.expand(r.key, &v))
		if key != c.Key {
			t.Errorf("key %q, want %q", key, c.Key)
		}
	}
	if n < 15 || scan.Err() != nil {
		t.Errorf("%d lines: %v", n, scan.Err())
	}
}
