package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// outage is an endpoint that answers everything with 503.
var outage = emulator.FaultRule{Kind: emulator.Fault503}

// TestKillDuringOutage kills with a backlog on disk that grows from kill to kill.
func TestKillDuringOutage(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, outage)
	w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
	tr := startTraffic(t, w, 2, 50, 3500)
	before := int64(0)
	for range 4 {
		pause(r, 200*time.Millisecond, 600*time.Millisecond)
		w.Kill()
		w.Start()
		w.Balanced()
		now := w.Output("out").Ledger.Pending
		if now < before {
			t.Errorf("after a kill during an outage %d events wait, before it were %d", now, before)
		}
		before = now
	}
	if before == 0 {
		t.Error("there was no backlog")
	}
	weirtest.Faults(t, e)
	tr.end()
	w.Drained()
	got := tr.compare(e)
	t.Logf("4 kills: %s", got)
	if got.byWeir > 0 {
		t.Errorf("weir sent %d events twice, though nothing had been accepted", got.byWeir)
	}
	w.LogAtMost(5, 0) // one a process
}

// TestKillWhileItComesBack kills while a backlog is being delivered: requests are full then.
func TestKillWhileItComesBack(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, outage)
	w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
	tr := startTraffic(t, w, 4, 500, 100_000)
	weirtest.Eventually(t, "there is a backlog", func() (string, bool) {
		n := w.Output("out").Ledger.Pending
		return fmt.Sprint(n), n > 100_000
	})
	// From now on the endpoint takes some time for each request, so that a kill meets one.
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.FaultDelay, Operations: []string{"PutLogEvents"}, Duration: emulator.Duration(30 * time.Millisecond)})
	for range 4 {
		pause(r, 100*time.Millisecond, 300*time.Millisecond)
		w.Kill()
		w.Start()
		w.Balanced()
	}
	weirtest.Faults(t, e)
	tr.end()
	w.Drained()
	got := tr.compare(e)
	t.Logf("4 kills: %s", got)
	// In flight at a kill: at most 4 requests of at most 10 000 events.
	if got.byWeir > 4*4*10_000 {
		t.Errorf("weir sent %d events twice, more than were in flight", got.byWeir)
	}
	w.LogAtMost(5, 0)
}

// TestKillInRollover has segments so small that kills meet the change from one to the next.
func TestKillInRollover(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient + "\n    total_limit_size 512k\n    overflow_action block"}.String())
	tr := startTraffic(t, w, 2, 100, 20_000)
	for range 10 {
		pause(r, 60*time.Millisecond, 250*time.Millisecond)
		w.Kill()
		w.Start()
		w.Balanced()
	}
	tr.end()
	w.Drained()
	got := tr.compare(e)
	t.Logf("10 kills: %s", got)
	if got.sent < 20_000 {
		t.Errorf("only %d events: segments of 64 KiB were hardly ever full", got.sent)
	}
	if n := w.Output("out").Ledger.Lost(); n > 0 {
		t.Errorf("%d events booked as lost", n)
	}
	w.LogAtMost(0, 3*11) // a process may say a few times that its small buffer is full
}

// TestKillBeforeDelivery has a memory buffer and ack_after delivered: what is acknowledged
// is at the endpoint, without any disk.
func TestKillBeforeDelivery(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Memory: true, Flush: "0", Source: "ack_after delivered", Buffer: impatient}.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 50, Window: 4}
	for range 5 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.SendAll(t, 20)
		}()
		pause(r, 5*time.Millisecond, 60*time.Millisecond)
		// Everything acknowledged so far must have arrived before the kill, not after it.
		acked := s.Acked()
		w.Kill()
		if n := len(weirtest.Arrivals(t, e, weirtest.Target{Group: "g", Stream: "a"}).Order); n < acked*50 {
			t.Errorf("%d events are acknowledged, %d have arrived", acked*50, n)
		}
		w.Start()
		<-done
	}
	s.Close()
	w.Drained()
	weirtest.Compare(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
}

// TestKillWithParkedLane kills while a denied group's events are in the parking lot.
func TestKillWithParkedLane(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.FaultAccessDenied, Group: "g-bad"})
	w := weirtest.Start(t, e, weirtest.Config{Group: "g-${tag[0]}", Buffer: impatient + "\n    park_after 0.5"}.String())
	bad := &weirtest.Sender{Addr: w.Addr(), Tag: "bad.a", Mode: forwardclient.Packed, Events: 50, Window: 4}
	good := &weirtest.Sender{Addr: w.Addr(), Tag: "good.a", Mode: forwardclient.Packed, Events: 50, Window: 4}
	defer bad.Close()
	defer good.Close()
	bad.SendAll(t, 10)
	good.SendAll(t, 10)
	weirtest.Eventually(t, "the denied lane is parked", func() (string, bool) {
		o := w.Output("out")
		return o.Ledger.String(), o.Ledger.Parked == 500
	})
	w.Balanced()
	for range 2 {
		bad.SendAll(t, 5) // follow their lane into the lot
		w.Kill()
		w.Start()
		w.Balanced()
	}
	good.SendAll(t, 10)
	weirtest.Eventually(t, "the neighbour is delivered", func() (string, bool) {
		n := len(weirtest.Arrivals(t, e, weirtest.Target{Group: "g-good", Stream: "good.a"}).Order)
		return fmt.Sprint(n), n == 1000
	})
	weirtest.Faults(t, e)
	w.Drained()
	weirtest.Compare(t, e, weirtest.Target{Group: "g-bad", Stream: "bad.a"}, bad.IDs())
	weirtest.Compare(t, e, weirtest.Target{Group: "g-good", Stream: "good.a"}, good.IDs())
}

// TestStopDuringOutage stops in order while the endpoint is down: a file buffer keeps all
// and the stop is quick, a memory buffer tells what is lost.
func TestStopDuringOutage(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		e := weirtest.Endpoint(t, emulator.Options{})
		weirtest.Faults(t, e, outage)
		w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
		s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 50, Window: 4}
		defer s.Close()
		s.SendAll(t, 40)
		w.Stop(15 * time.Second)
		if n := len(w.Lines("WARN", "they wait in")); n != 1 {
			t.Errorf("%d lines say where the events wait, want 1", n)
		}
		weirtest.Faults(t, e)
		w.Start()
		w.Drained()
		weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
		w.Ends("out", 2000, nil)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		e := weirtest.Endpoint(t, emulator.Options{})
		weirtest.Faults(t, e, outage)
		w := weirtest.Start(t, e, weirtest.Config{Memory: true, System: "shutdown_grace 1s", Buffer: impatient}.String())
		s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 50, Window: 4}
		defer s.Close()
		s.SendAll(t, 40)
		w.Stop(15 * time.Second)
		var book struct {
			Admitted, Delivered, Dropped, Pending int
		}
		lines := w.Lines("INFO", `"msg":"books"`)
		if len(lines) != 1 {
			t.Fatalf("%d lines with the books, want 1", len(lines))
		}
		if err := json.Unmarshal([]byte(lines[0].Text), &book); err != nil {
			t.Fatal(err)
		}
		if book.Admitted != 2000 || book.Dropped != 2000 || book.Delivered != 0 || book.Pending != 0 {
			t.Errorf("books %+v, want all 2000 dropped", book)
		}
		if len(w.Lines("WARN", "they were in memory and are lost")) != 1 || len(w.Lines("", "everything was delivered")) != 0 {
			t.Error("the log does not tell of the loss")
		}
	})
}

// TestDamage flips bytes of a segment while weir is stopped: the frame that they are in is
// lost and booked, all others are delivered.
func TestDamage(t *testing.T) {
	for _, where := range []string{"payload", "header"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			e := weirtest.Endpoint(t, emulator.Options{})
			weirtest.Faults(t, e, outage)
			w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
			// A window of one: each message is a frame.
			s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 50, Window: 1}
			defer s.Close()
			s.SendAll(t, 40)
			w.Stop(15 * time.Second)
			damage(t, filepath.Join(w.Dir, "buffer"), 20*50+25, where)
			weirtest.Faults(t, e)
			w.Start()
			w.Drained()
			to := weirtest.Target{Group: "g", Stream: "a"}
			ids := s.IDs()
			rest := append(append([]uint64(nil), ids[:20*50]...), ids[21*50:]...)
			weirtest.Exactly(t, e, to, rest)
			w.Ends("out", len(rest), map[string]int{"damaged": 50})
			if len(w.Lines("WARN", "events are missing from the buffer"))+len(w.Lines("WARN", "damaged"))+len(w.Lines("ERROR", "damaged")) == 0 {
				t.Error("the log does not tell of the damage")
			}
			w.LogAtMost(2, 3)
			// And again: the damage is booked once.
			w.Stop(15 * time.Second)
			w.Start()
			w.Ends("out", len(rest), map[string]int{"damaged": 50})
			w.Balanced()
		})
	}
}

// damage flips bytes of the frame in which the message of an event stands.
func damage(t *testing.T, dir string, id uint64, where string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments in %s: %v", dir, err)
	}
	for _, name := range segments {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := index(b, fmt.Sprintf("id=%012d", id))
		if at < 0 {
			continue
		}
		if where == "header" { // it stands before the first event of the message
			at = index(b, fmt.Sprintf("id=%012d", id/50*50)) - 110
		}
		for i := range 8 {
			b[at+i] ^= byte(rand.IntN(255) + 1)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("event %d stands in none of %v", id, segments)
}

func index(b []byte, text string) int {
	for i := 0; i+len(text) <= len(b); i++ {
		if slices.Equal(b[i:i+len(text)], []byte(text)) {
			return i
		}
	}
	return -1
}
