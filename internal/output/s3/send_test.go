package s3

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/internal/event"
	"weir/internal/output"
)

const indexed = "s3_bucket logs\npath x/\n<format>\n@type json\n</format>\n<buffer tag,time>\ntimekey 1h\n</buffer>\n"

func numbered(n ...int) []string {
	var out []string
	for _, i := range n {
		out = append(out, fmt.Sprintf("x/2026113012_%d.gz", i))
	}
	return out
}

func one(text string) []byte { return entry(noon, "m", text) }

func TestIndexesWithoutAsking(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, indexed+"s3_endpoint "+s.url, nil)
	for i := range 3 {
		send(t, o, batchOf("a", one(fmt.Sprint(i))))
	}
	if got, want := s.keys("logs"), numbered(0, 1, 2); !slices.Equal(got, want) {
		t.Fatalf("keys %q, want %q", got, want)
	}
	for i, k := range numbered(0, 1, 2) {
		if got := s.lines("logs", k); len(got) != 1 || jsonField(t, got[0], "m") != fmt.Sprint(i) {
			t.Errorf("%s holds %q", k, got)
		}
	}
	// Once the service has shown that it knows conditions there are puts only.
	if n := s.count(http.MethodHead); n != 1 {
		t.Errorf("%d questions for three objects", n)
	}
	if n := s.count(http.MethodPut); n != 4 {
		t.Errorf("%d puts for three objects and a proof", n)
	}
}

func TestFindsTheEndOfAnOldSeriesQuickly(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		s := newService(t, "logs")
		s.deaf = deaf
		const old = 700
		for i := range old {
			if _, err := s.backend.PutObject("logs", numbered(i)[0], nil, strings.NewReader("old"), 3, nil); err != nil {
				t.Fatal(err)
			}
		}
		o := open(t, indexed+"s3_endpoint "+s.url, nil)
		send(t, o, batchOf("a", one("new")))
		send(t, o, batchOf("a", one("newer")))
		if got := s.lines("logs", numbered(old)[0]); jsonField(t, got[0], "m") != "new" {
			t.Errorf("%q", got)
		}
		if got := s.lines("logs", numbered(old + 1)[0]); jsonField(t, got[0], "m") != "newer" {
			t.Errorf("%q", got)
		}
		if n := s.count(http.MethodHead); n > 25 {
			t.Errorf("deaf=%v: %d questions to find the end of %d objects", deaf, n, old)
		}
		for i := range old {
			if b, _ := s.object("logs", numbered(i)[0]); string(b) != "old" {
				t.Fatalf("object %d was replaced", i)
			}
		}
	}
}

func TestWritersRaceWithoutOverwriting(t *testing.T) {
	s := newService(t, "logs")
	const writers, each = 4, 12
	var outs []*Output
	for range writers { // replicas: they share nothing
		outs = append(outs, open(t, indexed+"s3_endpoint "+s.url, nil))
	}
	var wg sync.WaitGroup
	for w, o := range outs {
		for thread := range 2 {
			wg.Go(func() {
				for i := range each / 2 {
					b := batchOf("a", one(fmt.Sprintf("%d.%d.%d", w, thread, i)))
					r := fill(t, o, b)
					for {
						res := r.Send(t.Context())
						if res.Err == nil {
							break
						}
						if res.Err.Kind != output.Conflict {
							t.Error(res.Err)
							break
						}
					}
				}
			})
		}
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, k := range s.keys("logs") {
		for _, l := range s.lines("logs", k) {
			m := jsonField(t, l, "m")
			if seen[m] {
				t.Errorf("%s arrived twice", m)
			}
			seen[m] = true
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d events of %d arrived: objects were overwritten", len(seen), writers*each)
	}
}

// loseAnswer makes the service lose its answer to the next put of an object.
func loseAnswer(s *service, match func(*http.Request) bool) {
	lost := false
	s.set(func() {
		s.after = func(_ http.ResponseWriter, r *http.Request) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if lost || !match(r) {
				return true
			}
			lost = true
			return false
		}
	})
}

func isPut(r *http.Request) bool { return r.Method == http.MethodPut }

func TestRetryAfterALostAnswer(t *testing.T) {
	for name, conf := range map[string]string{
		"index":    indexed,
		"hex":      "s3_object_key_format %{hex_random}_%{index}\n" + indexed,
		"hex only": "s3_object_key_format %{hex_random}\ncheck_object false\n" + indexed,
		"uuid":     "s3_object_key_format %{uuid_flush}\n" + indexed,
		"chunk":    "s3_object_key_format ${chunk_id}\n" + indexed,
		"hms":      "check_object false\n" + indexed,
	} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " deaf=", deaf), func(t *testing.T) {
				s := newService(t, "logs")
				s.deaf = deaf
				o := open(t, conf+"s3_endpoint "+s.url, nil)
				send(t, o, batchOf("a", one("before")))
				if name == "hms" {
					o.now = func() time.Time { return time.Now().Add(2 * time.Second) } // another key than before
				}
				loseAnswer(s, isPut)
				b := batchOf("a", one("it"), one("and more"))
				res := fill(t, o, b).Send(t.Context())
				if res.Err == nil || res.Err.Kind != output.Unavailable || !res.Resent {
					t.Fatalf("the answer was lost, and the result is %+v", res)
				}
				// Delivery fills another request with the same events.
				if res = fill(t, o, b).Send(t.Context()); res.Err != nil || !res.Resent {
					t.Fatalf("the retry: %+v", res)
				}
				if got := s.keys("logs"); len(got) != 2 {
					t.Errorf("objects %q, want two", got)
				}
				if name == "hms" {
					return // one more would be of the same second
				}
				send(t, o, b) // the same again on purpose is another object
				if got := s.keys("logs"); len(got) != 3 {
					t.Errorf("objects %q, want three", got)
				}
			})
		}
	}
}

// TestNextObjectAfterALostAnswer: whatever a lane has by then, its next object ends where the one
// ended that may be there already; and what ends there otherwise limits nothing any more.
func TestNextObjectAfterALostAnswer(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, indexed+"s3_endpoint "+s.url, nil)
	fails := func(b event.Batch) {
		t.Helper()
		loseAnswer(s, isPut)
		if res := fill(t, o, b).Send(t.Context()); res.Err == nil {
			t.Fatal("the answer was not lost")
		}
	}
	more := func(b event.Batch, want int) {
		t.Helper()
		r := o.Request().(*request)
		r.Reset(laneOf(t, o, b))
		r.SetTag(b.Tag)
		if n, _, full := r.Add(b.Entries, b.Count); n != want || full != (n < b.Count) {
			t.Errorf("took %d of %d, full: %v; want %d", n, b.Count, full, want)
		}
		if res := r.Send(t.Context()); res.Err != nil {
			t.Error(res.Err)
		}
	}
	fails(batchOf("a", one("1"), one("2")))
	more(batchOf("a", one("1"), one("2"), one("3"), one("4")), 2)
	if got := s.keys("logs"); len(got) != 1 {
		t.Errorf("objects %q, want one", got)
	}
	more(batchOf("a", one("3"), one("4"), one("5")), 3)
	fails(batchOf("a", one("6"), one("7")))
	more(batchOf("a", one("other"), one("7"), one("8")), 2)
	more(batchOf("a", one("8"), one("9"), one("10")), 3)
}

// TestLostAnswerAndAnotherWriter: the key is taken, but by another object.
func TestLostAnswerAndAnotherWriter(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, indexed+"s3_endpoint "+s.url, nil)
	send(t, o, batchOf("a", one("before")))
	fail := true
	s.set(func() {
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !fail || !isPut(r) {
				return false
			}
			fail = false
			apiError(w, 500, "InternalError")
			return true
		}
	})
	b := batchOf("a", one("mine"))
	size := fill(t, o, b)
	_ = size.finish()
	theirs := bytes.Repeat([]byte{'x'}, int(size.spool.size)) // as long as ours
	if res := fill(t, o, b).Send(t.Context()); res.Err == nil {
		t.Fatal("it did not fail")
	}
	if _, err := s.backend.PutObject("logs", numbered(1)[0], nil, bytes.NewReader(theirs), int64(len(theirs)), nil); err != nil {
		t.Fatal(err)
	}
	send(t, o, b)
	if got, _ := s.object("logs", numbered(1)[0]); !bytes.Equal(got, theirs) {
		t.Error("the other writer's object was replaced")
	}
	if got := s.lines("logs", numbered(2)[0]); jsonField(t, got[0], "m") != "mine" {
		t.Errorf("%q", got)
	}
}

func TestUniqueKeysNeedNoQuestions(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, "s3_object_key_format %{index}_%{uuid_flush}\n"+indexed+"s3_endpoint "+s.url, nil)
	for range 3 {
		send(t, o, batchOf("a", one("x")))
	}
	if h, p := s.count(http.MethodHead), s.count(http.MethodPut); h != 0 || p != 3 {
		t.Errorf("%d questions and %d puts for 3 objects", h, p)
	}
	for _, h := range s.header {
		if h.Get("If-None-Match") != "" {
			t.Error("a put with a condition")
		}
	}
	for _, k := range s.keys("logs") {
		if !strings.HasPrefix(k, "0_") {
			t.Errorf("key %q", k)
		}
	}
}

func TestStores(t *testing.T) {
	want := "{\"m\":\"one\"}\n{\"m\":\"two\"}\n"
	for store, unpack := range map[string]func([]byte) string{
		"gzip": func(b []byte) string { return strings.Join(gunzip(t, b), "\n") + "\n" },
		"text": func(b []byte) string { return string(b) },
		"json": func(b []byte) string { return string(b) },
		"zstd": func(b []byte) string {
			z, err := zstd.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			out, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		},
	} {
		s := newService(t, "logs")
		o := open(t, "store_as "+store+"\n"+indexed+"s3_endpoint "+s.url, nil)
		send(t, o, batchOf("a", one("one"), one("two")))
		send(t, o, batchOf("a", one("one"), one("two")))
		for _, k := range s.keys("logs") {
			body, meta := s.object("logs", k)
			if got := unpack(body); got != want {
				t.Errorf("%s: %q", k, got)
			}
			if m := meta["Content-Type"]; m != o.store.mime {
				t.Errorf("%s has type %q", k, m)
			}
			if !strings.HasSuffix(k, "."+o.store.ext) {
				t.Errorf("%s: key %q", store, k)
			}
		}
	}
}

func TestOutFileIsTheDefaultAndTagsMix(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, "s3_bucket logs\ns3_endpoint "+s.url+"\n<buffer time>\ntimekey 1h\n</buffer>", nil)
	if !o.UsesTags() {
		t.Fatal("out_file writes the tag")
	}
	a, b := batchOf("a", one("1")), batchOf("b", one("2"))
	if laneOf(t, o, a) != laneOf(t, o, b) {
		t.Fatal("tags that are no chunk key have objects of their own")
	}
	r := fill(t, o, a)
	r.SetTag("b")
	r.Add(b.Entries, 1)
	if res := r.Send(t.Context()); res.Err != nil {
		t.Fatal(res.Err)
	}
	got := s.lines("logs", "2026113012_0.gz")
	want := []string{"2026-11-30T12:34:56+00:00\ta\t{\"m\":\"1\"}", "2026-11-30T12:34:56+00:00\tb\t{\"m\":\"2\"}"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOverwriteSemantics(t *testing.T) {
	for _, c := range []struct {
		conf string
		kind output.Kind
		last string
	}{
		{"s3_object_key_format same", output.Denied, "1"},
		{"s3_object_key_format same\noverwrite true", 0, "2"},
		{"s3_object_key_format same\ncheck_object false", 0, "2"},
	} {
		s := newService(t, "logs")
		o := open(t, "store_as text\n"+c.conf+"\n"+indexed+"s3_endpoint "+s.url, nil)
		send(t, o, batchOf("a", one("1")))
		res := fill(t, o, batchOf("a", one("2"))).Send(t.Context())
		if (res.Err != nil) != (c.kind != 0) || res.Err != nil && res.Err.Kind != c.kind {
			t.Errorf("%q: %+v", c.conf, res.Err)
		}
		if got, _ := s.object("logs", "same"); string(got) != "{\"m\":\""+c.last+"\"}\n" {
			t.Errorf("%q: %q", c.conf, got)
		}
	}
}

func TestSameSecondIsAConflict(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, "check_object false\n"+indexed+"s3_endpoint "+s.url, nil)
	at := noon
	o.now = func() time.Time { return at }
	send(t, o, batchOf("a", one("1")))
	b := batchOf("a", one("2"))
	if res := fill(t, o, b).Send(t.Context()); res.Err == nil || res.Err.Kind != output.Conflict {
		t.Fatalf("%+v", res)
	}
	at = at.Add(time.Second)
	send(t, o, b)
	if got, want := s.keys("logs"), []string{"x//2026113012_123456.gz", "x//2026113012_123457.gz"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if s.count(http.MethodHead) > 0 {
		t.Error("check_object false asks")
	}
}

func TestShortHexCollisionsTakeAnother(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, "s3_object_key_format %{hex_random}\nhex_random_length 1\ncheck_object false\n"+indexed+"s3_endpoint "+s.url, nil)
	for i := range 12 { // of 16 possible keys
		r := fill(t, o, batchOf("a", one(fmt.Sprint(i))))
		for res := r.Send(t.Context()); res.Err != nil; res = r.Send(t.Context()) {
			if res.Err.Kind != output.Conflict {
				t.Fatal(res.Err)
			}
		}
	}
	if n := len(s.keys("logs")); n != 12 {
		t.Errorf("%d objects of 12", n)
	}
}

func TestMetadata(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, `s3_metadata {"tag":"${tag} %{index}","plain":"x","odd":"é"}`+"\n"+indexed+"s3_endpoint "+s.url, nil)
	send(t, o, batchOf("a", one("1")))
	send(t, o, batchOf("a", one("2")))
	_, meta := s.object("logs", numbered(1)[0])
	if meta["X-Amz-Meta-Tag"] != "a 1" || meta["X-Amz-Meta-Plain"] != "x" || meta["X-Amz-Meta-Odd"] != "=?utf-8?b?w6k=?=" {
		t.Errorf("%q", meta)
	}
}

func TestBucketIsMade(t *testing.T) {
	s := newService(t, "")
	o := open(t, indexed+"s3_endpoint "+s.url, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if res := fill(t, o, batchOf("a", one(fmt.Sprint(i)))).Send(t.Context()); res.Err != nil {
				t.Error(res.Err)
			}
		})
	}
	wg.Wait()
	if n := len(s.keys("logs")); n != 4 {
		t.Errorf("%d objects of 4", n)
	}
	// Somebody removes it: it is made again, not within the same moment.
	if err := s.backend.ForceDeleteBucket("logs"); err != nil {
		t.Fatal(err)
	}
	if res := fill(t, o, batchOf("a", one("5"))).Send(t.Context()); res.Err == nil || res.Err.Kind != output.NoTarget {
		t.Errorf("%+v", res)
	}
	o.now = func() time.Time { return time.Now().Add(time.Minute) }
	send(t, o, batchOf("a", one("5")))
}

func TestBucketIsNotMade(t *testing.T) {
	s := newService(t, "")
	for _, conf := range []string{"auto_create_bucket false\n", "check_bucket false\n"} {
		o := open(t, conf+indexed+"s3_endpoint "+s.url, nil)
		res := fill(t, o, batchOf("a", one("1"))).Send(t.Context())
		if res.Err == nil || res.Err.Kind != output.NoTarget || res.Err.Hint == "" {
			t.Errorf("%s: %+v", conf, res.Err)
		}
	}
	if ok, _ := s.backend.BucketExists("logs"); ok {
		t.Error("the bucket was made")
	}
}

func TestMultipart(t *testing.T) {
	for _, memory := range []bool{false, true} { // memory: there is no place for a file
		s := newService(t, "logs")
		var log bytes.Buffer
		o := open(t, "store_as text\n"+indexed+"s3_endpoint "+s.url, &log)
		if memory {
			o.spoolDir = "/does/not/exist"
		}
		o.limit = 40 << 20
		send(t, o, batchOf("a", one("first")))
		line := strings.Repeat("0123456789abcdef", 4096)
		r := o.Request().(*request)
		r.Reset(laneOf(t, o, batchOf("a", one("x"))))
		n, full := 0, false
		for ; !full; n++ {
			_, _, full = r.Add(one(fmt.Sprint(n, line)), 1)
		}
		s.forget()
		res := r.Send(t.Context())
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		body, _ := s.object("logs", "x/2026113012_1.txt")
		if int64(len(body)) != r.spool.size || bytes.Count(body, []byte("\n")) != n {
			t.Errorf("%d bytes and %d lines of %d and %d", len(body), bytes.Count(body, []byte("\n")), r.spool.size, n)
		}
		if want := 40 << 20; !memory && (len(body) < want || s.count(http.MethodPut) != 3) {
			t.Errorf("%d bytes in %d parts", len(body), s.count(http.MethodPut))
		}
		if memory && (len(body) < withoutDisk || len(body) > withoutDisk+(1<<20) || strings.Count(log.String(), "spool_path") < 1) {
			t.Errorf("%d bytes without a disk; log %q", len(body), log.String())
		}
		if r.spool.file != nil {
			r.Reset("")
		}
	}
}

func TestMultipartIsAbortedAndRetried(t *testing.T) {
	s := newService(t, "logs")
	o := open(t, "store_as text\n"+indexed+"s3_endpoint "+s.url, nil)
	o.limit = 20 << 20
	send(t, o, batchOf("a", one("first")))
	r := big(t, o, 18<<20)
	defer r.Reset("")
	fail := true
	s.set(func() {
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !fail || r.URL.Query().Get("partNumber") != "2" {
				return false
			}
			fail = false
			apiError(w, 503, "SlowDown")
			return true
		}
	})
	if res := r.Send(t.Context()); res.Err == nil || res.Err.Kind != output.Throttled {
		t.Fatalf("%+v", res.Err)
	}
	if n := s.count(http.MethodDelete); n != 1 {
		t.Errorf("%d uploads aborted", n)
	}
	// The answer to the completion gets lost: the object is there once nevertheless.
	loseAnswer(s, func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") })
	if res := r.Send(t.Context()); res.Err == nil || !res.Resent {
		t.Fatalf("%+v", res)
	}
	again := big(t, o, 18<<20)
	defer again.Reset("")
	if res := again.Send(t.Context()); res.Err != nil {
		t.Fatal(res.Err)
	}
	if got, want := s.keys("logs"), []string{"x/2026113012_0.txt", "x/2026113012_1.txt"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// big makes a request of so many bytes.
func big(t *testing.T, o *Output, size int) *request {
	t.Helper()
	line := strings.Repeat("0123456789abcdef", 4096)
	r := o.Request().(*request)
	r.Reset(laneOf(t, o, batchOf("a", one("x"))))
	for n := 0; r.plain < int64(size); n++ {
		r.Add(one(fmt.Sprint(n, line)), 1)
	}
	return r
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   output.Kind
	}{
		{503, "SlowDown", output.Throttled}, {503, "ServiceUnavailable", output.Unavailable}, {500, "InternalError", output.Unavailable},
		{403, "AccessDenied", output.Denied}, {403, "InvalidAccessKeyId", output.Credentials}, {403, "SignatureDoesNotMatch", output.Credentials},
		{400, "ExpiredToken", output.Credentials}, {403, "RequestTimeTooSkewed", output.Credentials}, {409, "ConditionalRequestConflict", output.Conflict},
		{301, "PermanentRedirect", output.Denied}, {400, "AuthorizationHeaderMalformed", output.Denied}, {400, "KMS.DisabledException", output.Denied},
		{400, "MalformedXML", output.Denied}, {400, "BadDigest", output.Unavailable}, {429, "", output.Throttled}, {502, "", output.Unavailable}, {400, "RequestTimeout", output.Unavailable},
		{400, "InvalidParameter", output.Denied}, {413, "", output.Denied}, {404, "NoSuchAccessPoint", output.Denied},
	} {
		s := newService(t, "logs")
		s.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			apiError(w, c.status, c.code)
			return true
		}
		o := open(t, "s3_object_key_format %{uuid_flush}\n"+indexed+"s3_endpoint "+s.url, nil)
		res := fill(t, o, batchOf("a", one("1"))).Send(t.Context())
		if res.Err == nil || res.Err.Kind != c.want || res.Err.After != 7*time.Second {
			t.Errorf("%d %s: %+v, want %v", c.status, c.code, res.Err, c.want)
		}
	}
}

func TestNoConditionsIsFoundOutAndSaid(t *testing.T) {
	for name, fault := range map[string]func(s *service){
		"ignores": func(s *service) { s.deaf = true },
		"refuses": func(s *service) {
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("If-None-Match") == "" {
					return false
				}
				apiError(w, 501, "NotImplemented")
				return true
			}
		},
	} {
		s := newService(t, "logs")
		fault(s)
		var log bytes.Buffer
		o := open(t, indexed+"s3_endpoint "+s.url, &log)
		for i := range 3 {
			send(t, o, batchOf("a", one(fmt.Sprint(i))))
		}
		if got, want := s.keys("logs"), numbered(0, 1, 2); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		if o.support.Load() != unsupported || strings.Count(log.String(), "If-None-Match") != 1 {
			t.Errorf("%s: support %d, log %q", name, o.support.Load(), log.String())
		}
		if n := s.count(http.MethodHead); n != 3 {
			t.Errorf("%s: %d questions for 3 objects", name, n)
		}
	}
}

func TestNoPermissionToLook(t *testing.T) {
	s := newService(t, "logs")
	for i := range 3 {
		if _, err := s.backend.PutObject("logs", numbered(i)[0], nil, strings.NewReader("old"), 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	o := open(t, indexed+"s3_endpoint "+s.url, nil)
	o.support.Store(supported) // as for Amazon's
	send(t, o, batchOf("a", one("new")))
	if got, want := s.keys("logs"), numbered(0, 1, 2, 3); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestNothingListens(t *testing.T) {
	o := open(t, indexed+"s3_endpoint http://127.0.0.1:1", nil)
	res := fill(t, o, batchOf("a", one("1"))).Send(t.Context())
	if res.Err == nil || res.Err.Kind != output.Unavailable || res.Resent || res.Err.Hint == "" {
		t.Errorf("%+v", res)
	}
}

func TestLifecycleRulesAreSetOnce(t *testing.T) {
	s := newService(t, "logs")
	puts := 0
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("lifecycle") {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "<Days>30</Days>") || !strings.Contains(string(body), "<Prefix>x/</Prefix>") {
			t.Errorf("%s", body)
		}
		if puts++; puts == 1 {
			apiError(w, 503, "SlowDown")
		}
		return true
	}
	o := open(t, "<bucket_lifecycle_rule>\nid old\nprefix x/\nexpiration_days 30\n</bucket_lifecycle_rule>\n"+indexed+"s3_endpoint "+s.url, nil)
	now := time.Now()
	o.now = func() time.Time { return now }
	for range 3 {
		send(t, o, batchOf("a", one("1")))
		now = now.Add(lifecyclePause)
	}
	if puts != 2 {
		t.Errorf("%d attempts, want one that failed and one that did not", puts)
	}
}
