package emulator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reopen closes nothing: it copies the directory as a kill would leave it.
func reopen(t *testing.T, dir string, opt Options) (*Server, string) {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	opt.Dir = copied
	return newServer(t, opt), copied
}

func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	s := newServer(t, Options{Dir: dir, StrictTokens: true})
	prepare(t, s)
	mustOK(t, s, "TagLogGroup", obj{"logGroupName": "g", "tags": obj{"k": "v"}})
	mustOK(t, s, "PutRetentionPolicy", obj{"logGroupName": "g", "retentionInDays": 30})
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "deleted"})
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "deleted", "logStreamName": "x"})
	mustOK(t, s, "PutLogEvents", obj{"logGroupName": "deleted", "logStreamName": "x", "logEvents": []obj{event(noon, "no")}})
	mustOK(t, s, "DeleteLogGroup", obj{"logGroupName": "deleted"})
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "deleted"})
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "deleted", "logStreamName": "x"})
	token := put(t, s, event(noon.Add(-time.Minute), "a"), event(noon, "b \x00 é")).Body["nextSequenceToken"]
	late := mustOK(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "sequenceToken": token, "logEvents": []obj{event(noon.Add(-time.Hour), "late")}}).Body["nextSequenceToken"]

	for _, clean := range []bool{false, true} {
		t.Run(fmt.Sprint("clean=", clean), func(t *testing.T) {
			if clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			r, _ := reopen(t, dir, Options{StrictTokens: true})
			if d := cmp.Diff(s.Groups(), r.Groups()); d != "" {
				t.Errorf("groups: %s", d)
			}
			if d := cmp.Diff(s.Streams("g"), r.Streams("g")); d != "" {
				t.Errorf("streams: %s", d)
			}
			if d := cmp.Diff(s.Events("g", "s"), r.Events("g", "s")); d != "" {
				t.Errorf("events: %s", d)
			}
			if n := len(r.Events("deleted", "x")); n != 0 {
				t.Errorf("%d events came back to a stream made again", n)
			}
			again := do(t, r, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "sequenceToken": token, "logEvents": []obj{event(noon.Add(-time.Hour), "late")}})
			if again.Type() != "DataAlreadyAcceptedException" || again.Body["expectedSequenceToken"] != late {
				t.Errorf("tokens after a restart: %v", again.Body)
			}
			mustOK(t, r, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "sequenceToken": late, "logEvents": []obj{event(noon, "next")}})
			last := r.Events("g", "s")
			if e := last[len(last)-1]; e.Message != "next" || e.Request != 4 {
				t.Errorf("after the restart: %+v", e)
			}
		})
	}
}

func TestTornTails(t *testing.T) {
	dir := t.TempDir()
	s := newServer(t, Options{Dir: dir})
	prepare(t, s)
	var sizes []int64 // of the file after each put
	file := "events-00000001.log"
	for i := range 5 {
		put(t, s, event(noon, strings.Repeat(fmt.Sprint(i), 20)))
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	whole, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Repeat("a", 20) // as long as the others, so that it would fit before a record behind a damaged one
	check := func(name string, content []byte, want int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			t.Fatal(err)
		}
		r, copied := reopen(t, dir, Options{})
		if n := len(messages(r)); n != want {
			t.Errorf("%s: %d events, want %d", name, n, want)
		}
		put(t, r, event(noon, after))
		again, _ := reopen(t, copied, Options{})
		if got := messages(again); len(got) != want+1 || got[want] != after {
			t.Errorf("%s: after the repair: %q", name, got)
		}
	}
	for cut := sizes[2]; cut <= sizes[4]; cut++ {
		want := 3
		if cut >= sizes[3] {
			want = 4
		}
		if cut == sizes[4] {
			want = 5
		}
		check(fmt.Sprint("cut at ", cut), whole[:cut], want)
	}
	for _, tt := range []struct {
		name string
		at   int64
		want int
	}{
		{"flipped bit in the last payload", sizes[4] - 1, 4},
		{"flipped bit in a length", sizes[2] + 1, 3},
		{"flipped bit in a checksum", sizes[3] + 5, 4},
		{"flipped bit in the payload before the last", sizes[3] - 1, 3},
	} {
		b := bytes.Clone(whole)
		b[tt.at] ^= 0x40
		check(tt.name, b, tt.want)
	}
	check("zeros behind the end", append(bytes.Clone(whole), make([]byte, 4096)...), 5)
	check("garbage behind the end", append(bytes.Clone(whole), "garbage garbage garbage"...), 5)
}

func TestTornMeta(t *testing.T) {
	dir := t.TempDir()
	s := newServer(t, Options{Dir: dir})
	prepare(t, s)
	put(t, s, event(noon, "of the lost stream"))
	whole, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metaFile), whole[:len(whole)-3], 0o644); err != nil {
		t.Fatal(err)
	}
	r, _ := reopen(t, dir, Options{})
	if len(r.Groups()) != 1 || len(r.Streams("g")) != 0 {
		t.Errorf("groups %v", r.Groups())
	}
	mustOK(t, r, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "s"})
	put(t, r, event(noon, "new"))
	again, _ := reopen(t, r.opt.Dir, Options{})
	if d := cmp.Diff([]string{"new"}, messages(again)); d != "" {
		t.Errorf("a new stream inherited events: %s", d)
	}
}

func TestTwoServersOnOneDirectory(t *testing.T) {
	dir := t.TempDir()
	newServer(t, Options{Dir: dir})
	if _, err := New(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another server uses this directory") {
		t.Errorf("got %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s := newServer(t, Options{MaxBytes: 1 << 20, Dir: dir})
		prepare(t, s)
		mustOK(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "t"})
		mustOK(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "t", "logEvents": []obj{event(noon, "the oldest of all")}})
		for i := range 40 {
			put(t, s, event(noon, fmt.Sprint(i, strings.Repeat("x", 100000))), event(noon, fmt.Sprint(i)))
			if i == 5 {
				mustOK(t, s, "GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s"}) // an index that evictions make void
			}
		}
		st := s.Stats()
		if st.RetainedBytes > 1<<20 || st.RetainedBytes < 1<<19 {
			t.Errorf("%d bytes retained", st.RetainedBytes)
		}
		got := messages(s)
		if got[len(got)-1] != "39" || len(s.Events("g", "t")) != 0 {
			t.Error("the oldest, not the newest, must go")
		}
		if st.EvictedEvents+int64(len(got)) != 81 || st.Events != 81 {
			t.Errorf("%d evicted + %d kept of %d", st.EvictedEvents, len(got), st.Events)
		}
		read := texts(mustOK(t, s, "GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "limit": 3}))
		if d := cmp.Diff(got[len(got)-3:], read); d != "" {
			t.Errorf("reading after an eviction: %s", d)
		}
		read = texts(mustOK(t, s, "GetLogEvents", obj{"logGroupName": "g", "logStreamName": "s", "limit": 1, "startFromHead": true}))
		if len(read) != 1 || read[0] != got[0] {
			t.Error("an evicted event can still be read")
		}
		if dir != "" {
			r, _ := reopen(t, dir, Options{MaxBytes: 1 << 20})
			if r.Stats().RetainedBytes > 1<<20 {
				t.Error("a restart ignored the bound")
			}
		}
	}
}

func TestSegmentsAreDeletedWithTheirEvents(t *testing.T) {
	dir := t.TempDir()
	s := newServer(t, Options{MaxBytes: 1 << 20, Dir: dir})
	prepare(t, s)
	for range 150 { // 150 MB: more than two segments of 64 MiB
		put(t, s, repeat(1, 1000000)...)
	}
	files, err := filepath.Glob(filepath.Join(dir, "events-*.log"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) == "events-00000001.log" {
		t.Errorf("files %v, %v", files, err)
	}
}

func TestDiscardCounts(t *testing.T) {
	s := newServer(t, Options{Discard: true})
	prepare(t, s)
	put(t, s, event(noon, "a"), event(noon, "b"))
	if st := s.Stats(); st.Events != 2 || st.Bytes != 54 || st.RetainedBytes != 0 || len(messages(s)) != 0 {
		t.Errorf("%+v", st)
	}
}

func FuzzReadRecords(f *testing.F) {
	dir := f.TempDir()
	s, err := New(Options{Dir: dir, Clock: fixedClock(noon)})
	if err != nil {
		f.Fatal(err)
	}
	prepare(f, s)
	do(f, s, "PutLogEvents", putA)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "events-00000001.log"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(bytes.Clone(b), b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		sound, err := readRecords(bytes.NewReader(b), castagnoli(), func(payload []byte) error {
			_, _, _, err := decodeChunk(payload)
			return err
		})
		if err != nil || sound > int64(len(b)) {
			t.Errorf("sound %d of %d, %v", sound, len(b), err)
		}
		// The checksum keeps the fuzzer out; try the payload alone, too.
		if c, _, _, err := decodeChunk(b); err == nil && len(c.ts) != len(c.ends) {
			t.Error("lengths differ")
		}
	})
}
