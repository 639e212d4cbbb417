package docker

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// messages are the events of a stream in order of acceptance.
func messages(e *emulator.Server, stream string) []string { return messagesOf(e, group, stream) }

func messagesOf(e *emulator.Server, group, stream string) []string {
	var out []string
	e.Walk(group, stream, func(ev emulator.Event) bool {
		out = append(out, ev.Message)
		return true
	})
	return out
}

func clip(s string) string {
	if len(s) > 120 {
		return fmt.Sprintf("%q… (%d bytes)", s[:120], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// arrive waits until a stream has as many events as wanted and compares them.
func arrive(t testing.TB, e *emulator.Server, stream string, want ...string) {
	t.Helper()
	weirtest.Eventually(t, fmt.Sprintf("stream %s has %d events", stream, len(want)), func() (string, bool) {
		n := len(messages(e, stream))
		return fmt.Sprint(n), n >= len(want)
	})
	got := messages(e, stream)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("stream %s: event %d was not expected: %s", stream, i, clip(got[i]))
		case got[i] != want[i]:
			t.Errorf("stream %s: event %d is %s, want %s", stream, i, clip(got[i]), clip(want[i]))
		default:
			continue
		}
		return
	}
}

// tally is what has arrived of the numbered lines of a writer.
type tally struct {
	lines    int // different ones
	twice    int // lines beyond the first of their number
	disorder int // lines that came behind a later one of the same output
	missing  int // of those below the number of the last line, or of all when the end has come
	gaps     []string
	notices  []notice
	other    []string      // neither lines nor notices
	written  int           // as the last line says; -1 before it has come
	slowest  time.Duration // of the writer's writes
}

func (a *tally) String() string {
	s := fmt.Sprintf("%d lines of %d, %d missing %v, %d twice, %d out of order, slowest write %s", a.lines, a.written, a.missing, a.gaps, a.twice, a.disorder, a.slowest)
	for _, n := range a.notices {
		s += fmt.Sprintf("; notice %d (%d bytes) %v", n.Events, n.Bytes, n.Reasons)
	}
	if len(a.other) > 0 {
		s += fmt.Sprintf("; %d others, first %s", len(a.other), clip(a.other[0]))
	}
	return s
}

// count reads a stream in which the writer id wrote lines of a size. outputs is 2 when odd
// lines went to the other output: between the outputs an engine keeps no order.
func count(e *emulator.Server, stream, id string, size, outputs int) *tally {
	a := &tally{written: -1}
	last := make([]int, outputs)
	for i := range last {
		last[i] = -1
	}
	seen := map[int]int{}
	top := -1
	for _, m := range messages(e, stream) {
		m = strings.TrimSuffix(m, "\n")
		i, ok := written.Number(m, id, size)
		if !ok {
			if n, slowest, ok := written.ParseEnd(m, id); ok {
				a.written, a.slowest = n, slowest
			} else if n, ok := parseNotice(m); ok {
				a.notices = append(a.notices, n)
			} else {
				a.other = append(a.other, m)
			}
			continue
		}
		if seen[i]++; seen[i] > 1 {
			a.twice++
			continue
		}
		if i < last[i%outputs] {
			a.disorder++
		}
		last[i%outputs] = max(last[i%outputs], i)
		top = max(top, i)
	}
	a.lines = len(seen)
	if a.written >= 0 {
		top = a.written - 1
	}
	for i := 0; i <= top; i++ {
		if seen[i] > 0 {
			continue
		}
		from := i
		for ; i <= top && seen[i] == 0; i++ {
			a.missing++
		}
		if len(a.gaps) < 5 {
			a.gaps = append(a.gaps, fmt.Sprintf("%d-%d", from, i-1))
		}
	}
	return a
}

// whole waits for the last line of a writer and wants every line once and in order.
func whole(t testing.TB, e *emulator.Server, stream, id string, size, outputs int) *tally {
	t.Helper()
	a := ended(t, e, stream, id, size, outputs)
	if a.lines != a.written || a.missing+a.twice+a.disorder+len(a.notices)+len(a.other) > 0 {
		t.Errorf("stream %s: %s", stream, a)
	}
	return a
}

// ended waits for the last line of a writer, and then for what another output may have.
func ended(t testing.TB, e *emulator.Server, stream, id string, size, outputs int) *tally {
	t.Helper()
	var a *tally
	weirtest.Within(t, 2*weirtest.Patience, "the last line of stream "+stream+" has come", func() (string, bool) {
		a = count(e, stream, id, size, outputs)
		if a.written < 0 {
			time.Sleep(100 * time.Millisecond) // to read a long stream again and again is work
		}
		return a.String(), a.written >= 0
	})
	if outputs > 1 && a.lines < a.written {
		weirtest.Eventually(t, "the other output has come", func() (string, bool) {
			a = count(e, stream, id, size, outputs)
			return a.String(), a.lines == a.written
		})
	}
	return a
}

// notice is a loss notice.
type notice struct {
	Events  int            `json:"dropped_events"`
	Bytes   int            `json:"dropped_bytes"`
	First   time.Time      `json:"first"`
	Last    time.Time      `json:"last"`
	Reasons map[string]int `json:"reasons"`
	Weir    string         `json:"weir"`
}

var noticeText = regexp.MustCompile(`^weir: (\d+) events? \(([^)]*)\) missing (?:between (\S+) and (\S+)|at (\S+)): (.*)$`)

// parseNotice reads a notice in its JSON or its text form. Bytes of the text form are not
// read, since they are rounded there.
func parseNotice(m string) (n notice, ok bool) {
	if strings.HasPrefix(m, `{"weir":`) {
		return n, json.Unmarshal([]byte(m), &n) == nil && n.Weir == "loss"
	}
	f := noticeText.FindStringSubmatch(m)
	if f == nil {
		return n, false
	}
	n.Events, _ = strconv.Atoi(f[1])
	first, last := f[3], f[4]
	if first == "" {
		first, last = f[5], f[5]
	}
	var err1, err2 error
	n.First, err1 = time.Parse(time.RFC3339Nano, first)
	n.Last, err2 = time.Parse(time.RFC3339Nano, last)
	n.Reasons = map[string]int{}
	for _, part := range strings.Split(f[6], ", ") {
		at := strings.LastIndexByte(part, ' ')
		k, err := strconv.Atoi(part[at+1:])
		if at < 0 || err != nil {
			return n, false
		}
		n.Reasons[part[:at]] = k
	}
	return n, err1 == nil && err2 == nil
}

// told sums notices and checks that each adds up by itself.
func told(t testing.TB, notices []notice) (events int) {
	t.Helper()
	for _, n := range notices {
		sum := 0
		for _, k := range n.Reasons {
			sum += k
		}
		if sum != n.Events {
			t.Errorf("notice %+v: its reasons add up to %d", n, sum)
		}
		if n.Last.Before(n.First) {
			t.Errorf("notice %+v ends before it begins", n)
		}
		events += n.Events
	}
	return events
}

// traces checks a stream that has rounds of n events of several lines.
func (r *rig) traces(stream string, rounds, n int) {
	r.t.Helper()
	var want []string
	for range rounds {
		for i := range n {
			want = append(want, written.Trace("x", i)+"\n")
		}
	}
	arrive(r.t, r.emu, stream, want...)
}

// settled waits until nothing is pending in the plugin, and checks its books.
func (r *rig) settled() {
	r.t.Helper()
	weirtest.Eventually(r.t, "the books are settled", func() (string, bool) {
		text, err := r.get("/api/status")
		if err != nil {
			return err.Error(), false
		}
		var s weirtest.Status
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			r.t.Fatalf("/api/status: %v: %s", err, text)
		}
		done, seen := true, ""
		for _, o := range s.Outputs {
			if !strings.Contains(o.ID, r.gate.url()) {
				continue // of another test
			}
			b := o.Ledger
			seen += b.String() + "; "
			if b.Balance != 0 || b.Delivered+b.Filtered+b.Parked+b.Lost()+uint64(b.Pending) != b.Admitted {
				r.t.Errorf("output %s: the book does not add up: %s", o.ID, b)
			}
			done = done && b.Pending == 0
		}
		return seen, done
	})
}

// sum waits until what was delivered of a stream and what its notices tell are all.
func (r *rig) sum(name string, all, size int) *tally {
	r.t.Helper()
	var a *tally
	sum := func() int {
		a = count(r.emu, name, name, size, 1)
		s := a.lines + len(a.other) + told(r.t, a.notices)
		if a.written >= 0 {
			s++
		}
		return s
	}
	weirtest.Within(r.t, 2*weirtest.Patience, name+" adds up", func() (string, bool) { return fmt.Sprint(sum(), " ", a), sum() >= all })
	time.Sleep(200 * time.Millisecond) // nothing more may come
	if s := sum(); s != all || a.twice+a.disorder > 0 {
		r.t.Errorf("%s: delivered and told are %d, written were %d: %s", name, s, all, a)
	}
	r.t.Logf("%s: %s", name, a)
	return a
}
