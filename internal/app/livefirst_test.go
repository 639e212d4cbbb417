package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/buffer"
	"weir/internal/emulator"
	"weir/internal/event"
)

// TestTurn tells what is an outage and what is not. Times are in seconds; 0 is never.
func TestTurn(t *testing.T) {
	at := func(s float64) time.Time {
		if s == 0 {
			return time.Time{}
		}
		return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
	}
	type look struct {
		now, oldest, accepted, failed float64
		bytes                         uint64
		away                          bool
	}
	for name, looks := range map[string][]look{
		"nothing waits": {{now: 100, accepted: 10, failed: 20}},
		"an outage": {
			{now: 10, oldest: 9, accepted: 8, failed: 9.5}, {now: 14, oldest: 9, accepted: 8, failed: 13}, {now: 14.5, oldest: 9, accepted: 8, failed: 14, away: true},
			{now: 40, oldest: 9, accepted: 8, failed: 39, away: true}, {now: 41, oldest: 9, accepted: 40, failed: 39},
		},
		"from the start":      {{now: 10, oldest: 1, failed: 9}, {now: 15, oldest: 1, failed: 12, away: true}},
		"answered slowly":     {{now: 60, oldest: 1, accepted: 0.5}, {now: 600, oldest: 1, accepted: 0.5}},
		"left by an outage":   {{now: 600, oldest: -3600}},
		"an old failure":      {{now: 600, oldest: 599, failed: 20}},
		"some are accepted":   {{now: 10, oldest: 1, failed: 9}, {now: 16, oldest: 1, accepted: 12, failed: 15}, {now: 19, oldest: 1, accepted: 12, failed: 18}, {now: 20, oldest: 1, accepted: 19.5, failed: 19}},
		"given up":            {{now: 10, oldest: 1, failed: 9}, {now: 15, oldest: 1, failed: 14, away: true}, {now: 16, failed: 15}},
		"too much":            {{now: 10, oldest: 9, accepted: 9.5, bytes: 501, away: true}, {now: 11, oldest: 9, accepted: 10, bytes: 251, away: true}, {now: 12, oldest: 9, accepted: 11, bytes: 250}},
		"much, and an outage": {{now: 10, oldest: 9, failed: 9.5, bytes: 600, away: true}, {now: 20, oldest: 9, failed: 19, bytes: 100, away: true}, {now: 21, oldest: 19, accepted: 20, failed: 19, bytes: 100}},
	} {
		var d turn
		for i, l := range looks {
			st := buffer.Stats{Limit: 1000, PendingBytes: l.bytes, Oldest: at(l.oldest)}
			if l.oldest != 0 {
				st.PendingEvents = 1
			}
			d.look(at(l.now), &st, at(l.accepted), at(l.failed), 5*time.Second)
			if d.away != l.away {
				t.Errorf("%s: look %d: away %v", name, i, d.away)
			}
		}
	}
}

// liveMatch is cloudMatch with live_first; dir "" is a memory buffer.
func liveMatch(url, dir, more string) string {
	conf := strings.Replace(cloudMatch(url, dir, ""), "flush_interval 0.1s", "flush_interval 0.1s\nretry_wait 0.05s\nretry_max_interval 0.2s\n"+more, 1)
	if dir == "" {
		conf = strings.Replace(conf, "@type file\n    path \n    durability os\n    min_free_space 0\n", "@type memory\n", 1)
	}
	return conf
}

const liveFirst = "drain_order live_first\ndrain_rate 4"

// startLive is start with an outage noticed quickly.
func startLive(t *testing.T, text string) *running {
	t.Helper()
	r := &running{t: t, log: &logs{}, out: &logs{}}
	a, err := New(r.load(text), Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), HTTP: "127.0.0.1:0", turnAfter: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r.App = a
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stop(10 * time.Second)
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// turned waits until new events of the only output go to the backlog, or no longer do.
func (r *running) turned(t *testing.T, want bool) {
	t.Helper()
	eventually(t, fmt.Sprint("turned: ", want), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.gen.order[0].target.Backlog.Load().Turned.Load() == want
	})
}

func down(t *testing.T, s *emulator.Server, is bool) {
	t.Helper()
	script := &emulator.FaultScript{}
	if is {
		script.Rules = []emulator.FaultRule{{Kind: emulator.Fault503}}
	}
	if err := s.SetFaults(script); err != nil {
		t.Fatal(err)
	}
}

// balanced checks the books of the only output, which must have admitted n.
func (r *running) balanced(t *testing.T, n uint64) {
	t.Helper()
	o := r.Status().Outputs[0]
	if o.Balance != 0 || o.Parking.Balance != 0 || o.Sheet.Admitted != n {
		t.Errorf("%d events admitted, want %d; balance %d, %d", o.Sheet.Admitted, n, o.Balance, o.Parking.Balance)
	}
	if got := uint64(max(o.Sheet.Pending(), 0)); got < o.Buffer.PendingEvents {
		t.Errorf("%d events are pending in the books, %d in the buffers", got, o.Buffer.PendingEvents)
	}
}

// arrived says in which order the events of a stream came whose messages are "PREFIX n",
// each prefix counted by itself; last gives where the last one of a prefix stands.
func arrived(t *testing.T, s *emulator.Server, stream string) (count, first, last map[string]int) {
	t.Helper()
	count, first, last = map[string]int{}, map[string]int{}, map[string]int{}
	for i, e := range s.Events("group", stream) {
		var prefix string
		var n int
		if _, err := fmt.Sscanf(e.Message, "%s %d", &prefix, &n); err != nil {
			t.Fatal(err)
		}
		if n != count[prefix] {
			t.Fatalf("%s: event %d is %s %d, want %d", stream, i, prefix, n, count[prefix])
		}
		if n == 0 {
			first[prefix] = i
		}
		count[prefix]++
		last[prefix] = i
	}
	return count, first, last
}

// TestLiveFirst: after an outage new events arrive at once, and the backlog of several
// streams beside them, in order and slowly.
func TestLiveFirst(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"file", "memory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := cloud(t)
			down(t, s, true)
			dir := ""
			if kind == "file" {
				dir = filepath.Join(t.TempDir(), "buf")
			}
			r := startLive(t, forwardIn+liveMatch(s.URL(), dir, liveFirst))
			const streams = 8
			mustSend(t, r.addr(0), "app0", "first", 0, 5)
			r.turned(t, true)
			for i := range streams {
				for n := range 4 {
					mustSend(t, r.addr(0), fmt.Sprint("app", i), "backlog", n*10, 10)
				}
			}
			r.balanced(t, 5+streams*40)
			r.status(t)
			down(t, s, false)
			r.turned(t, false)
			sent := time.Now()
			for i := range streams {
				mustSend(t, r.addr(0), fmt.Sprint("app", i), "live", 0, 10)
			}
			r.balanced(t, 5+streams*50)
			all := func(prefix string, want int) func() bool {
				return func() bool {
					n := 0
					for i := range streams {
						count, _, _ := arrived(t, s, fmt.Sprint("app", i))
						n += count[prefix]
					}
					return n == want
				}
			}
			eventually(t, "live events", all("live", streams*10))
			live := time.Since(sent)
			eventually(t, "the backlog", all("backlog", streams*40))
			backlog := time.Since(sent)
			// Eight streams at four requests a second take one and a half seconds or more.
			if live > backlog || backlog < 1200*time.Millisecond {
				t.Errorf("live events took %v, the backlog %v", live, backlog)
			}
			r.settled(t)
			r.balanced(t, 5+streams*50)
			if sum := r.Totals(); sum.Delivered != 5+streams*50 {
				t.Errorf("%+v", sum)
			}
		})
	}
}

// TestLiveFirstSwitchedOff: what is in a backlog is delivered when drain_order changes, by a
// restart and by a reload, and what is sent before a reload changes to live_first.
func TestLiveFirstSwitchedOff(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"restart", "reload"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := cloud(t)
			down(t, s, true)
			dir := filepath.Join(t.TempDir(), "buf")
			conf := func(order string) string { return forwardIn + liveMatch(s.URL(), dir, order) }
			r := startLive(t, conf("drain_order oldest_first"))
			mustSend(t, r.addr(0), "app", "before", 0, 10)
			change := func(order string) {
				t.Helper()
				if how == "reload" {
					if err := r.Reload(r.load(conf(order))); err != nil {
						t.Fatal(err)
					}
					return
				}
				r.stop(10 * time.Second)
				r = startLive(t, conf(order))
			}
			if _, err := os.Stat(filepath.Join(dir, "backlog")); err == nil {
				t.Error("there is a backlog without live_first")
			}
			change(liveFirst)
			r.turned(t, true)
			mustSend(t, r.addr(0), "app", "backlog", 0, 50)
			change("drain_order oldest_first")
			mustSend(t, r.addr(0), "app", "after", 0, 10)
			r.balanced(t, 70)
			down(t, s, false)
			r.settled(t)
			r.balanced(t, 70)
			r.stop(10 * time.Second)
			if count, _, _ := arrived(t, s, "app"); count["before"] != 10 || count["backlog"] != 50 || count["after"] != 10 {
				t.Errorf("arrived: %v", count)
			}
		})
	}
}

// TestLiveFirstStops: a stop during an outage says all that is left, and a drain of the
// directory delivers all of it.
func TestLiveFirstStops(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	down(t, s, true)
	at := event.FromTime(time.Now())
	dir := filepath.Join(t.TempDir(), "buf")
	conf := forwardIn + liveMatch(s.URL(), dir, liveFirst)
	r := startLive(t, conf)
	mustSendAt(t, r.addr(0), "app", "live", 0, 7, at)
	r.turned(t, true)
	mustSendAt(t, r.addr(0), "app", "backlog", 0, 11, at)
	r.stop(10 * time.Second)
	if !strings.Contains(r.log.String(), `msg="events were not delivered" output=cw events=18`) {
		t.Error("the log does not say what is left")
	}
	// What its sender repeats is known, in whichever of the buffers it is.
	r = startLive(t, conf)
	mustSendAt(t, r.addr(0), "app", "live", 0, 7, at)
	mustSendAt(t, r.addr(0), "app", "backlog", 0, 11, at)
	r.balanced(t, 18)
	r.stop(10 * time.Second)
	down(t, s, false)
	left, err := Drain(context.Background(), r.load(conf), Options{Log: quiet(t)}, filepath.Join(dir, "backlog"), "")
	if count, _, _ := arrived(t, s, "app"); err != nil || left != 0 || count["live"] != 7 || count["backlog"] != 11 {
		t.Errorf("%d left, %v, arrived %v", left, err, count)
	}
}

// TestLiveFirstOrphan: a directory that no output uses any more is reported with its
// backlog, and drained with it.
func TestLiveFirstOrphan(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	down(t, s, true)
	root := t.TempDir()
	dir := filepath.Join(root, "old")
	r := startLive(t, forwardIn+liveMatch(s.URL(), dir, liveFirst))
	mustSend(t, r.addr(0), "app", "live", 0, 7)
	r.turned(t, true)
	mustSend(t, r.addr(0), "app", "backlog", 0, 11)
	r.stop(10 * time.Second)
	down(t, s, false)
	conf := forwardIn + liveMatch(s.URL(), filepath.Join(root, "new"), liveFirst)
	r = startLive(t, conf)
	if log := r.log.String(); !strings.Contains(log, "dir="+dir+" events=18") || strings.Contains(log, "not a file of the buffer") {
		t.Error("the orphan is not reported")
	}
	r.stop(10 * time.Second)
	left, err := Drain(context.Background(), r.load(conf), Options{Log: quiet(t)}, dir, "cw")
	if count, _, _ := arrived(t, s, "app"); err != nil || left != 0 || count["live"] != 7 || count["backlog"] != 11 {
		t.Errorf("%d left, %v, arrived %v", left, err, count)
	}
}

// TestLiveFirstTellsLosses: what a full backlog gives up is told, and only there.
func TestLiveFirstTellsLosses(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	down(t, s, true)
	conf := liveMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), liveFirst+"\ntotal_limit_size 512k\noverflow_action drop_oldest_chunk")
	r := startLive(t, forwardIn+strings.Replace(conf, "message_keys message", "message_keys message\nloss_notice json", 1))
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	const n = 40_000
	for i := 0; i < n; i += 50 {
		if err := sn.send("app", "n", i, 50); err != nil {
			t.Fatal(err)
		}
	}
	r.balanced(t, n)
	down(t, s, false)
	r.settled(t)
	r.balanced(t, n)
	told, full, got := loss(t, s, "app")
	if told == 0 || told != full || told+len(got) != n {
		t.Errorf("%d arrived, %d are told missing, books %+v", len(got), told, r.Totals())
	}
	seen := map[int]bool{}
	for _, i := range got {
		seen[i] = true
	}
	if !seen[0] || !seen[n-1] || len(seen) != len(got) {
		t.Errorf("the first is there: %v, the last: %v, %d of %d are different", seen[0], seen[n-1], len(seen), len(got))
	}
}

// TestLiveFirstRefuses: with the default policy both buffers fill up before a sender keeps
// its data.
func TestLiveFirstRefuses(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	down(t, s, true)
	r := startLive(t, forwardIn+liveMatch(s.URL(), "", liveFirst+"\ntotal_limit_size 256k"))
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	n := uint64(0)
	for ; ; n += 50 {
		if err := sn.send("app", "n", int(n), 50); err != nil {
			break
		}
	}
	if b := r.Status().Outputs[0].Buffer; b.Limit != 256<<10 || b.Bytes < b.Limit*3/4 || b.Bytes > b.Limit {
		t.Errorf("%d of %d bytes are in use", b.Bytes, b.Limit)
	}
	r.balanced(t, n)
	down(t, s, false)
	r.settled(t)
	if sum := r.Totals(); sum.Delivered != n {
		t.Errorf("sent %d, %+v", n, sum)
	}
}

// TestLiveFirstParks: a denied stream is parked from both queues and comes back.
func TestLiveFirstParks(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	down(t, s, true)
	conf := strings.Replace(liveMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), liveFirst+"\npark_after 0.5s"), "log_group_name group", "log_group_name group-${tag}", 1)
	r := startLive(t, forwardIn+conf)
	mustSend(t, r.addr(0), "bad", "live", 0, 10)
	r.turned(t, true)
	mustSend(t, r.addr(0), "bad", "backlog", 0, 10)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.FaultAccessDenied, Group: "group-bad"}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are parked", func() bool { return r.Status().Outputs[0].Parking.Buffer.PendingEvents == 20 })
	r.turned(t, false)
	mustSend(t, r.addr(0), "good", "live", 0, 10)
	eventually(t, "the other stream", func() bool { return len(s.Events("group-good", "good")) == 10 })
	r.balanced(t, 30)
	down(t, s, false)
	eventually(t, "all arrived", func() bool { return len(s.Events("group-bad", "bad")) == 20 })
	r.settled(t)
	r.balanced(t, 30)
}

// TestLiveFirstReloadUndone: a reload to live_first that fails leaves nothing behind.
func TestLiveFirstReloadUndone(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	root := t.TempDir()
	blocked := filepath.Join(root, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "buf")
	r := startLive(t, forwardIn+liveMatch(s.URL(), dir, ""))
	bad := "<match never>\n@type stdout\n<buffer>\n@type file\npath " + blocked + "/x\n</buffer>\n</match>\n"
	for i := range 2 {
		if err := r.Reload(r.load(forwardIn + liveMatch(s.URL(), dir, liveFirst) + bad)); err == nil || !strings.Contains(err.Error(), blocked) {
			t.Fatalf("the reload: %v", err)
		}
		mustSend(t, r.addr(0), "app", "n", i*10, 10)
	}
	if err := r.Reload(r.load(forwardIn + liveMatch(s.URL(), dir, liveFirst))); err != nil {
		t.Fatal(err)
	}
	if b := r.gen.order[0].target.Backlog.Load(); b == nil || !b.Open.Load() {
		t.Error("there is no backlog")
	}
	mustSend(t, r.addr(0), "app", "n", 20, 10)
	r.settled(t)
	checkSequence(t, s, "app", "n", 30)
}

// TestSamePlace: commands that name a buffer may name it as it is seen from where they run.
func TestSamePlace(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		a, b string
		same bool
	}{{filepath.Join(dir, "x"), "x", true}, {"./x/", filepath.Join(dir, "x"), true}, {dir, ".", true}, {"x", "y", false}, {dir, "/", false}} {
		if samePlace(c.a, c.b) != c.same {
			t.Errorf("%q and %q", c.a, c.b)
		}
	}
}
