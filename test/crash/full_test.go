package crash

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// full is a buffer so small that an outage fills it at once.
const full = impatient + "\n    total_limit_size 256k\n    overflow_action "

// TestOverflowKeepsAtTheSender: with throw_exception and block a sender with
// acknowledgements keeps what does not fit, and nothing is lost.
func TestOverflowKeepsAtTheSender(t *testing.T) {
	for _, action := range []string{"throw_exception", "block"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			e := weirtest.Endpoint(t, emulator.Options{})
			weirtest.Faults(t, e, outage)
			w := weirtest.Start(t, e, weirtest.Config{Buffer: full + action}.String())
			s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 50, Window: 4}
			done := s.Background(t, 200)
			atTheLimit(t, w, s, done)
			if action == "throw_exception" {
				weirtest.Eventually(t, "messages are refused", func() (string, bool) {
					n := w.Input().Refused
					return fmt.Sprint(n), n > 0
				})
			}
			weirtest.Faults(t, e)
			<-done
			w.Drained()
			weirtest.Compare(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
			w.Ends("out", int(w.Output("out").Ledger.Admitted), nil)
			w.LogAtMost(1, 10) // the first refusals of a minute, and what is full between them
		})
	}
}

// atTheLimit waits until the buffer is full, the sender still has messages, and checks the
// size on disk.
func atTheLimit(t *testing.T, w *weirtest.Weir, s *weirtest.Sender, done <-chan struct{}) {
	t.Helper()
	last, since := -1, time.Now()
	weirtest.Eventually(t, "the buffer takes no more", func() (string, bool) {
		if n := s.Acked(); n != last {
			last, since = n, time.Now()
		}
		return fmt.Sprint(last, " acknowledged"), last > 0 && time.Since(since) > 700*time.Millisecond
	})
	select {
	case <-done:
		t.Fatal("everything fitted into the buffer: the test says nothing")
	default:
	}
	w.Balanced()
	if b := w.Output("out").Buffer; b.Bytes > b.Limit {
		t.Errorf("the buffer has %d bytes, its limit is %d", b.Bytes, b.Limit)
	}
	if n := diskUse(t, filepath.Join(w.Dir, "buffer"), ".seg"); n > 256<<10 {
		t.Errorf("segments take %d bytes of disk, the limit is %d", n, 256<<10)
	}
}

// diskUse adds up the sizes of files.
func diskUse(t *testing.T, dir, ext string) int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for _, e := range entries {
		if i, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ext { // else it was deleted meanwhile
			n += i.Size()
		}
	}
	return n
}

// TestOverflowDrops: with drop_oldest_chunk and drop_newest everything is acknowledged, and
// what is missing at the endpoint is exactly what the book says, also after a kill.
func TestOverflowDrops(t *testing.T) {
	for _, c := range []struct {
		action, limit    string
		messages, events int
	}{
		{"drop_newest", "256k", 200, 50},
		{"drop_oldest_chunk", "256k", 200, 50},
		{"drop_oldest_chunk", "32m", 600, 1000},
	} {
		t.Run(c.action+" "+c.limit, func(t *testing.T) {
			t.Parallel()
			e := weirtest.Endpoint(t, emulator.Options{})
			weirtest.Faults(t, e, outage)
			w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient + "\n    total_limit_size " + c.limit + "\n    overflow_action " + c.action}.String())
			s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: c.events, Window: 4}
			defer s.Close()
			s.SendAll(t, 1)
			// From here on what waits stays unread, so that it can be dropped as the oldest.
			weirtest.Eventually(t, "the outage has been noticed", func() (string, bool) {
				n := len(w.Lines("ERROR", "delivery fails"))
				return fmt.Sprint(n), n > 0
			})
			s.SendAll(t, c.messages-1)
			w.Balanced()
			during := w.Output("out").Ledger
			if during.Dropped["buffer_full"] == 0 || during.Admitted != uint64(c.messages*c.events) {
				t.Fatalf("everything fitted into the buffer, or not everything is booked: %s", during)
			}
			w.Kill() // the book survives
			w.Start()
			w.Balanced()
			if b := w.Output("out").Ledger; b.Dropped["buffer_full"] != during.Dropped["buffer_full"] || b.Admitted != during.Admitted {
				t.Errorf("after a kill the book says %s, before it said %s", b, during)
			}
			weirtest.Faults(t, e)
			w.Drained()
			to := weirtest.Target{Group: "g", Stream: "a"}
			a := weirtest.Arrivals(t, e, to)
			ids := s.IDs()
			weirtest.InOrder(t, to, a.Order, ids)
			if a.Repeats > 0 {
				t.Errorf("%d repeats", a.Repeats)
			}
			w.Ends("out", len(a.Order), map[string]int{"buffer_full": len(ids) - len(a.Order)})
			first, last := a.Times[ids[0]], a.Times[ids[len(ids)-1]]
			if c.action == "drop_newest" && (first == 0 || last != 0) {
				t.Errorf("drop_newest: first event arrived %d times, last %d: want 1 and 0", first, last)
			}
			if c.action == "drop_oldest_chunk" && last == 0 {
				t.Error("drop_oldest_chunk dropped the newest event")
			}
			w.LogAtMost(3, 8)
		})
	}
}

// TestOverflowWithoutAcks: a sender that cannot keep its data loses what a full buffer
// refuses, and the book says how much.
func TestOverflowWithoutAcks(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, outage)
	w := weirtest.Start(t, e, weirtest.Config{Buffer: full + "throw_exception"}.String())
	const events = 50
	to := weirtest.Target{Group: "g", Stream: "a"}
	sent := uint64(0)
	var c *forwardclient.Client
	// Weir closes the connection when it has refused something. Such a sender does not see
	// it before it has written more, and then goes on with what comes next.
	weirtest.Eventually(t, "events of a sender without acknowledgements are lost", func() (string, bool) {
		if c == nil {
			var err error
			if c, err = forwardclient.Dial(t.Context(), forwardclient.Options{Addr: w.Addr()}); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			p := forwardclient.Encoding{Mode: forwardclient.Packed, Tag: "a", Events: events, Record: weirtest.Record, First: sent}.Encode()
			sent += events
			if c.Send(p, 0) != nil {
				_ = c.Close()
				c = nil
				break
			}
		}
		n := w.Input().Lost
		return fmt.Sprint(n), n > 10*events
	})
	if c != nil {
		_ = c.Close()
	}
	w.Balanced()
	weirtest.Faults(t, e)
	w.Drained()
	weirtest.Eventually(t, "all connections have ended", func() (string, bool) {
		n := w.Input().Connections
		return fmt.Sprint(n), n == 0
	})
	w.Drained()
	a := weirtest.Arrivals(t, e, to)
	weirtest.InOrder(t, to, a.Order, weirtest.IDs(0, int(sent)))
	admitted, lost := w.Output("out").Ledger.Admitted, w.Input().Lost
	if admitted > sent || admitted != uint64(len(a.Order))+lost {
		t.Errorf("sent %d, admitted %d, arrived %d, lost %d: that does not add up", sent, admitted, len(a.Order), lost)
	}
	w.Ends("out", len(a.Order), map[string]int{"buffer_full": int(lost)})
	w.LogAtMost(1, 10)
}

// TestDiskFull has the buffer on a file system of 8 MiB, of which the usual floor leaves
// 2 MiB.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, floor := range []string{"min_free_space 0", "min_free_space 2m", ""} {
		t.Run("floor "+floor, func(t *testing.T) {
			dir := smallDisk(t, "8m")
			e := weirtest.Endpoint(t, emulator.Options{})
			weirtest.Faults(t, e, outage)
			config := strings.Replace(weirtest.Config{Buffer: impatient + "\n    " + floor + "\n    total_limit_size 16m\n    overflow_action throw_exception"}.String(),
				"$DIR/buffer", dir+"/buffer", 1)
			w := weirtest.Start(t, e, config)
			s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 500, Window: 4}
			done := s.Background(t, 300) // about 12 MB
			weirtest.Eventually(t, "messages are refused", func() (string, bool) {
				n := w.Input().Refused
				return fmt.Sprint(n, " refused, ", s.Acked(), " acknowledged"), n > 3
			})
			w.Balanced()
			var st syscall.Statfs_t
			if err := syscall.Statfs(dir, &st); err != nil {
				t.Fatal(err)
			}
			if free := int64(st.Bavail) * st.Bsize; floor != "min_free_space 0" && free < 2<<20 {
				t.Errorf("%d bytes are free, below the floor of 2 MiB", free)
			}
			w.Kill() // with a full disk
			w.Launch()
			weirtest.Eventually(t, "weir tells that it can store nothing", func() (string, bool) {
				code, body := w.Get("/readyz")
				return fmt.Sprint(code, " ", body), code == http.StatusServiceUnavailable && strings.Contains(body, "space")
			})
			w.Balanced()
			weirtest.Faults(t, e)
			<-done
			w.Drained()
			weirtest.Compare(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
			if b := w.Output("out").Ledger; b.Lost() > 0 {
				t.Errorf("events are booked as lost: %s", b)
			}
			weirtest.Eventually(t, "weir is ready, now that there is room", func() (string, bool) {
				code, body := w.Get("/readyz")
				return fmt.Sprint(code, " ", body), code == http.StatusOK
			})
			w.LogAtMost(4, 20) // of two processes
		})
	}
}

// TestManyBuffersOnASmallDisk: what buffers reserve ahead does not keep others from a small
// file system.
func TestManyBuffersOnASmallDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "100m")
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, outage)
	var more strings.Builder
	for i := range 10 {
		fmt.Fprintf(&more, "<match b%d>\n@type cloudwatch_logs\n@id b%d\nlog_group_name g\nlog_stream_name ${tag}\nauto_create_stream true\nmessage_keys log\n"+
			"<buffer tag>\n@type file\npath %s/b%d\nflush_interval 0.1\n%s\n</buffer>\n</match>\n", i, i, dir, i, impatient)
	}
	w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient, More: more.String()}.String())
	for i := range 10 {
		s := &weirtest.Sender{Addr: w.Addr(), Tag: fmt.Sprint("b", i), Mode: forwardclient.Packed, Events: 500, Window: 1}
		s.SendAll(t, 5)
		s.Close()
	}
	weirtest.Faults(t, e)
	for i := range 10 {
		id := fmt.Sprint("b", i)
		weirtest.Eventually(t, "output "+id+" has delivered", func() (string, bool) {
			n := w.Output(id).Ledger.Delivered
			return fmt.Sprint(n), n == 2500
		})
	}
	if n := w.Input().Refused; n > 0 {
		t.Errorf("%d messages were refused, for %d events", n, 25000)
	}
}

// smallDisk mounts a file system of a size. Where that is not allowed the test says so and
// is left out: a limit by total_limit_size is tested elsewhere.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := weirtest.Dir(t)
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "weir-test", dir).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || err != nil {
		t.Skipf("left out: a real full disk; mounting a small file system needs root (%v: %s)", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
	return dir
}
