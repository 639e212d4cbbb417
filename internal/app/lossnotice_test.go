package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/internal/ledger"
)

// loss reads the notices of a stream: how many events they tell of, and which of them were
// lost because the buffer was full; got is the number of each other event, in order.
func loss(t *testing.T, s *emulator.Server, stream string) (told, full int, got []int) {
	t.Helper()
	for _, e := range s.Events("group", stream) {
		if strings.HasPrefix(e.Message, `{"weir":"loss"`) {
			var n struct {
				Events  int            `json:"dropped_events"`
				Bytes   int            `json:"dropped_bytes"`
				First   time.Time      `json:"first"`
				Last    time.Time      `json:"last"`
				Reasons map[string]int `json:"reasons"`
			}
			if err := json.Unmarshal([]byte(e.Message), &n); err != nil || n.Bytes == 0 || n.First.IsZero() || n.Last.Before(n.First) {
				t.Errorf("notice %s: %v", e.Message, err)
			}
			told += n.Events
			full += n.Reasons["buffer_full"]
			continue
		}
		var n int
		if _, err := fmt.Sscanf(e.Message, "n %d", &n); err != nil {
			t.Fatalf("event %q", e.Message)
		}
		got = append(got, n)
	}
	return told, full, got
}

func (r *running) settled(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for sum := r.Totals(); sum.Pending() != 0; sum = r.Totals() {
		if time.Now().After(deadline) {
			t.Fatalf("%d events are pending for long", sum.Pending())
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A small circular buffer meets an outage with everything at once: the newest arrive, and
// the stream says how many are missing.
func TestLossNoticeAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
		t.Fatal(err)
	}
	conf := cloudMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), "loss_notice json")
	conf = strings.Replace(conf, "flush_interval 0.1s", "flush_interval 1s\ntotal_limit_size 256k\noverflow_action drop_oldest_chunk\nretry_wait 0.1s\nretry_max_interval 0.2s", 1)
	r := start(t, forwardIn+conf)
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	const n = 20_000
	for i := 0; i < n; i += 50 {
		if err := sn.send("app", "n", i, 50); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(1500 * time.Millisecond)
	if err := s.SetFaults(&emulator.FaultScript{}); err != nil {
		t.Fatal(err)
	}
	r.settled(t)
	r.stop(10 * time.Second)
	told, full, got := loss(t, s, "app")
	sum := r.Totals()
	if told == 0 || told != full || told+len(got) != n || int(sum.Dropped[ledger.BufferFull]) != told {
		t.Errorf("%d arrived, %d are told missing, books %+v", len(got), told, sum)
	}
	if len(got) == 0 || got[len(got)-1] != n-1 {
		t.Errorf("the newest is not there: %d events", len(got))
	}
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			t.Fatalf("event %d arrived behind %d", got[i], got[i-1])
		}
	}
}

// What the service rejects is told as well, in the text form too; without the parameter
// nothing is.
func TestLossNoticeOfRejectedEvents(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"", "loss_notice text"} {
		s := cloud(t)
		if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{
			Kind: emulator.FaultReject, Operations: []string{"PutLogEvents"}, As: "too_old", Share: 0.5, After: 1, Count: 1, // the first one finds no group
		}}}); err != nil {
			t.Fatal(err)
		}
		r := start(t, forwardIn+cloudMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), form))
		sn, err := dial(r.addr(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := sn.send("app", "n", 0, 10); err != nil {
			t.Fatal(err)
		}
		_ = sn.c.Close()
		r.settled(t)
		r.stop(10 * time.Second)
		events := s.Events("group", "app")
		lost := int(r.Totals().Rejected[ledger.TooOld])
		notices := 0
		for _, e := range events {
			if strings.HasPrefix(e.Message, "weir: ") {
				notices++
				if !strings.HasPrefix(e.Message, fmt.Sprintf("weir: %d events (", lost)) || !strings.HasSuffix(e.Message, fmt.Sprintf(": too old %d", lost)) {
					t.Errorf("notice %q of %d lost events", e.Message, lost)
				}
			}
		}
		if want := len(strings.Fields(form)) / 2; notices != want || len(events) != 10-lost+want || lost == 0 {
			t.Errorf("%q: %d events, %d notices, %d lost", form, len(events), notices, lost)
		}
	}
}
