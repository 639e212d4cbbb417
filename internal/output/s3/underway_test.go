package s3

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// after makes the output of a process that comes after one that was killed.
func after(t *testing.T, s *service, conf, dir string) *Output {
	t.Helper()
	o := open(t, conf+"s3_endpoint "+s.url, nil)
	o.underway.load(dir)
	return o
}

func notes(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestKilledBetweenPutAndSettled: the events of an object that was accepted are sent again by
// the next process, with others behind them. The object is made again under its own key.
func TestKilledBetweenPutAndSettled(t *testing.T) {
	for name, conf := range map[string]string{
		"index": indexed,
		"hex":   "s3_object_key_format %{hex_random}\n" + indexed,
		"uuid":  "s3_object_key_format %{uuid_flush}\n" + indexed,
		"hms":   "check_object false\n" + indexed,
	} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " deaf=", deaf), func(t *testing.T) {
				dir, s := t.TempDir(), newService(t, "logs")
				s.deaf = deaf
				first := after(t, s, conf, dir)
				b := batchOf("a", one("it"), one("and more"))
				if res := fill(t, first, b).Send(t.Context()); res.Err != nil {
					t.Fatal(res.Err)
				}
				before, _ := s.object("logs", s.keys("logs")[0])

				o := after(t, s, conf, dir)
				o.now = func() time.Time { return time.Now().Add(2 * time.Second) } // other names by time
				r := o.Request().(*request)
				r.Reset(laneOf(t, o, b))
				r.SetTag("a")
				more := batchOf("a", one("it"), one("and more"), one("new"))
				if n, _, full := r.Add(more.Entries, more.Count); n != 2 || !full {
					t.Fatalf("took %d, full %v; want the two of the object", n, full)
				}
				if res := r.Send(t.Context()); res.Err != nil || !res.Resent {
					t.Fatalf("%+v", res)
				}
				r.Settled()
				if got := s.keys("logs"); len(got) != 1 {
					t.Errorf("objects %q, want one", got)
				}
				if now, _ := s.object("logs", s.keys("logs")[0]); string(now) != string(before) {
					t.Error("the object is another one")
				}
				if n := notes(t, dir); n != 0 {
					t.Errorf("%d notes are left", n)
				}
				send(t, o, batchOf("a", one("it"), one("and more"))) // what comes later is another object, even if it is the same
				if got := s.keys("logs"); len(got) != 2 {
					t.Errorf("objects %q, want two", got)
				}
			})
		}
	}
}

// TestNotesOfOtherObjects: a note that does not fit what comes, or cannot be read, counts for
// nothing.
func TestNotesOfOtherObjects(t *testing.T) {
	dir, s := t.TempDir(), newService(t, "logs")
	first := after(t, s, indexed, dir)
	if res := fill(t, first, batchOf("a", one("it"))).Send(t.Context()); res.Err != nil {
		t.Fatal(res.Err)
	}
	if err := os.WriteFile(filepath.Join(dir, "s3-put-x.json"), []byte(`{"lane":"`), 0o600); err != nil {
		t.Fatal(err)
	}
	o := after(t, s, indexed, dir)
	send(t, o, batchOf("b", one("it"))) // another lane
	send(t, o, batchOf("a", one("other")))
	if n := notes(t, dir); n != 2 { // of those two, which the test has not settled
		t.Errorf("%d notes", n)
	}
	var all strings.Builder
	for _, k := range s.keys("logs") {
		for _, l := range s.lines("logs", k) {
			all.WriteString(jsonField(t, l, "m") + " ")
		}
	}
	if all.String() != "it it other " {
		t.Errorf("%q", all.String())
	}
}
