package s3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/output"
)

// TestReservedIndexIsLookedAt: on a service without conditions a second thread gets the next
// index without having looked at it; it may be in use.
func TestReservedIndexIsLookedAt(t *testing.T) {
	s := newService(t, "logs")
	s.deaf = true
	for _, i := range []int{0, 1, 2, 4} {
		if _, err := s.backend.PutObject("logs", numbered(i)[0], nil, strings.NewReader("old"), 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	o := open(t, indexed+"s3_endpoint "+s.url, nil)
	b := batchOf("a", one("new"))
	if n := o.indexes.reserve(fill(t, o, b).key, 3); n != 3 { // the first thread is about to put 3
		t.Fatal(n)
	}
	send(t, o, b)
	if got, _ := s.object("logs", numbered(4)[0]); string(got) != "old" {
		t.Error("an object was replaced")
	}
	if got := s.lines("logs", numbered(5)[0]); jsonField(t, got[0], "m") != "new" {
		t.Errorf("%q", got)
	}
}

func TestEndedPayloadIsNotRead(t *testing.T) {
	s := newSpool("")
	_, _ = s.Write([]byte("abc"))
	p := s.reader(0, 3)
	one := make([]byte, 1)
	if n, err := p.Read(one); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	p.end()
	if _, err := p.Read(one); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := p.Seek(0, io.SeekStart); !errors.Is(err, os.ErrClosed) {
		t.Errorf("seek: %v", err)
	}
}

// TestSpoolIsWhatWasWritten: whatever is written in whatever pieces is read back, and its
// sums are right.
func TestSpoolIsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := newSpool(dir)
		defer s.reset()
		var want bytes.Buffer
		for range rapid.IntRange(0, 6).Draw(t, "writes") {
			n := rapid.SampledFrom([]int{0, 1, 1000, 64 << 10, inMemory - 1, inMemory, inMemory + 1}).Draw(t, "size")
			p := bytes.Repeat([]byte{byte(rapid.IntRange(0, 255).Draw(t, "byte"))}, n)
			want.Write(p)
			if m, err := s.Write(p); m != n || err != nil {
				t.Fatal(m, err)
			}
		}
		s.finish()
		got, err := io.ReadAll(s.reader(0, s.size))
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%d bytes of %d, %v", len(got), want.Len(), err)
		}
		if (s.file != nil) != (want.Len() > inMemory) {
			t.Errorf("file %v for %d bytes", s.file != nil, want.Len())
		}
		fresh := newSpool(dir)
		defer fresh.reset()
		_, _ = fresh.Write(want.Bytes())
		fresh.finish()
		if fresh.etag() != s.etag() {
			t.Errorf("%s and %s", fresh.etag(), s.etag())
		}
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestDiskFails(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, "store_as text\n"+indexed+"s3_endpoint "+s.url, nil)
	o.limit = 20 << 20
	r := big(t, o, 3<<20)
	if r.spool.file == nil {
		t.Fatal("3 MiB are in memory")
	}
	_ = r.spool.file.Close() // writes to it fail from now on
	full := false
	for i := 0; !full; i++ {
		if _, _, full = r.Add(one(strings.Repeat("x", 60_000)), 1); i > 10 {
			t.Fatal("it goes on after the disk failed")
		}
	}
	r.spool.file = nil
	res := r.Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Unavailable || res.Err.Hint == "" || len(s.keys("logs")) > 0 {
		t.Errorf("%+v, objects %q", res, s.keys("logs"))
	}
	send(t, o, batchOf("a", one("next"))) // the next request is well
}

func TestClockIsCorrected(t *testing.T) {
	s := newService(t, "logs")
	refused := 0
	ahead := 40 * time.Minute
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		now := time.Now().Add(ahead)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		at, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if now.Sub(at) < 15*time.Minute {
			return false
		}
		refused++
		apiError(w, 403, "RequestTimeTooSkewed")
		return true
	}
	o := open(t, "s3_object_key_format %{uuid_flush}\n"+indexed+"s3_endpoint "+s.url, nil)
	b := batchOf("a", one("x"))
	res := fill(t, o, b).Send(t.Context())
	if res.Err != nil {
		if res.Err.Kind != output.Credentials {
			t.Errorf("%+v", res.Err)
		}
		res = fill(t, o, b).Send(t.Context())
	}
	if res.Err != nil || refused > 2 {
		t.Errorf("%+v after %d refusals", res.Err, refused)
	}
}

func TestBucketCannotBeMade(t *testing.T) {
	for code, want := range map[string]output.Kind{
		"AccessDenied": output.NoTarget, "BucketAlreadyExists": output.NoTarget, "OperationAborted": output.Conflict, "InternalError": output.Unavailable,
	} {
		s := newService(t, "")
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Trim(r.URL.Path, "/") != "logs" || r.Method != http.MethodPut {
				return false
			}
			apiError(w, map[string]int{"AccessDenied": 403, "InternalError": 500, "BucketAlreadyExists": 409, "OperationAborted": 409}[code], code)
			return true
		}
		o := open(t, indexed+"s3_endpoint "+s.url, nil)
		res := fill(t, o, batchOf("a", one("1"))).Send(t.Context())
		if res.Err == nil || res.Err.Kind != want {
			t.Errorf("%s: %+v, want %v", code, res.Err, want)
		}
	}
}

func TestLateEventsAreSaid(t *testing.T) {
	s := newService(t, "logs")
	var log bytes.Buffer
	o := open(t, "warn_for_delay 1h\n"+indexed+"s3_endpoint "+s.url, &log)
	now := noon.Add(30 * time.Minute)
	o.now = func() time.Time { return now }
	o.key.timed = false
	send(t, o, batchOf("a", one("x")))
	if log.Len() > 0 && strings.Contains(log.String(), "late") {
		t.Errorf("%s", log.String())
	}
	now = noon.Add(2 * time.Hour)
	for range 3 {
		send(t, o, batchOf("a", one("x")))
	}
	if n := strings.Count(log.String(), "late="); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	var x indexes
	for i := range maxSeries + 10 {
		x.put(fmt.Sprint(i), 7)
	}
	if len(x.m) != maxSeries {
		t.Errorf("%d series", len(x.m))
	}
	if n, known := x.take(fmt.Sprint(maxSeries + 9)); n != 8 || !known {
		t.Error("the newest was forgotten")
	}
	if n, known := x.take("0"); n != 0 || known {
		t.Error("the oldest was kept")
	}
	o := open(t, indexed, nil)
	unsure := fill(t, o, batchOf("a", one("unsure")))
	_ = unsure.finish()
	o.attempts.keep(unsure, &attempt{unsure: true})
	for i := range maxAttempts + 10 {
		r := fill(t, o, batchOf("a", one(fmt.Sprint(i))))
		_ = r.finish()
		o.attempts.keep(r, &attempt{})
	}
	if len(o.attempts.m) > maxAttempts {
		t.Errorf("%d attempts", len(o.attempts.m))
	}
	if _, again := o.attempts.take(unsure); !again {
		t.Error("an object that may be there was forgotten before those that are not")
	}
}

// TestIndexesModel: whatever threads do with a series, no index is given to two that have
// not given it back.
func TestIndexesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x indexes
		held := map[int]bool{}
		hold := func(n int) {
			if held[n] {
				t.Fatalf("%d is held twice", n)
			}
			held[n] = true
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				n, _ := x.take("s")
				hold(n)
			case 1:
				hold(x.reserve("s", rapid.IntRange(0, 30).Draw(t, "from")))
			case 2:
				var all []int
				for n := range held {
					all = append(all, n)
				}
				if len(all) == 0 {
					continue
				}
				slices.Sort(all)
				n := rapid.SampledFrom(all).Draw(t, "back")
				x.giveBack("s", n)
				if next := x.m["s"].next; next <= n { // it may be given out again
					delete(held, n)
				}
			case 3:
				x.put("s", rapid.IntRange(0, 30).Draw(t, "there"))
			}
		}
	})
}

func TestScopeTellsBuckets(t *testing.T) {
	a, b := open(t, "s3_bucket aaa", nil), open(t, "s3_bucket bbb", nil)
	if a.Scope() == b.Scope() || a.Scope() != open(t, "s3_bucket aaa", nil).Scope() || strings.Contains(a.Scope(), "secret") {
		t.Errorf("%q, %q", a.Scope(), b.Scope())
	}
	if a.RequestBytes() != 8<<20 {
		t.Errorf("%d bytes in a request", a.RequestBytes())
	}
}
