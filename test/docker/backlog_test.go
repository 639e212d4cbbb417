package docker

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// clock is a clock of a service that can be stopped at a time of its own.
type clock struct{ at atomic.Pointer[time.Time] }

func (c *clock) now() time.Time {
	if at := c.at.Load(); at != nil {
		return *at
	}
	return time.Now()
}

func (c *clock) stop(at time.Time) { c.at.Store(&at) }

// TestOldSpool has a spool that the service sees again after two weeks: it takes nothing
// that is older than that, and a stream that wants to know is told. The engine's clock goes
// as ever, it is the service that is ahead. Here old and young events share a request, so the notice comes with the next one.
func TestOldSpool(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		service := &clock{}
		r := lent.rig(t, k, emulator.Options{Clock: service.now})
		r.run(container{name: "before", steps: []string{`text:"hello\n"`}})
		arrive(t, r.emu, "before", "hello")
		r.gate.refuse()
		const old, young = 600, 400 // and a last line each
		forms := map[string][]string{"text": {"weir-loss-notice=text"}, "json": {"weir-loss-notice=json"}, "untold": nil}
		for name, options := range forms {
			r.run(container{name: name, driver: options, steps: []string{fmt.Sprintf("lines:n=%d,id=old", old), "await", fmt.Sprintf("lines:n=%d,id=%s", young, name)}})
		}
		// Of this one nothing can be delivered but the notice.
		r.run(container{name: "gone", driver: []string{"weir-loss-notice=text"}, steps: []string{fmt.Sprintf("lines:n=%d,id=old", old)}})
		for name := range forms {
			r.logged(name, "end old")
		}
		r.wait("gone")
		between := time.Now()
		for name := range forms {
			r.docker("kill", "-s", "USR1", r.name(name))
			r.wait(name)
		}
		service.stop(between.Add(14 * 24 * time.Hour))
		r.gate.open()
		for name := range forms {
			if name == "untold" {
				whole(t, r.emu, name, name, 0, 1)
				continue
			}
			var a *tally
			weirtest.Eventually(t, "lines and notice of "+name+" have come", func() (string, bool) {
				a = count(r.emu, name, name, 0, 1)
				return a.String(), a.written >= 0 && told(t, a.notices) > old
			})
			if a.lines != young || a.missing+a.twice+a.disorder+len(a.other) > 0 || told(t, a.notices) != old+1 {
				t.Errorf("%s: %s", name, a)
			}
		}
		weirtest.Eventually(t, "the notice of the container of which nothing is left has come", func() (string, bool) {
			a := count(r.emu, "gone", "old", 0, 1)
			return a.String(), a.lines == 0 && told(t, a.notices) == old+1
		})
		r.settled()
		r.rejected("too_old", old+1)
	})
}

// logged waits until `docker logs` of a container shows a text.
func (r *rig) logged(name, text string) {
	r.t.Helper()
	weirtest.Eventually(r.t, "docker logs has "+text, func() (string, bool) {
		s := r.docker("logs", "--tail", "10", r.name(name))
		return clip(s), strings.Contains(s, text)
	})
}

// rejected checks what the status says that the service has refused of the events of a test
// whose streams are not told. Its containers may be gone: then they are in the sum of their
// output.
func (r *rig) rejected(reason string, n uint64) {
	r.t.Helper()
	text, err := r.get("/api/status")
	if err != nil {
		r.t.Fatal(err)
	}
	var s weirtest.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		r.t.Fatal(err)
	}
	sum := map[string]uint64{}
	for _, o := range s.Outputs {
		if strings.Contains(o.ID, r.gate.url()) && !strings.Contains(o.ID, "notice=") {
			for reason, n := range o.Ledger.Rejected {
				if n > 0 {
					sum[reason] += n
				}
			}
		}
	}
	if len(sum) != 1 || sum[reason] != n {
		r.t.Errorf("the status says that the service has refused %v, want %d %s", sum, n, reason)
	}
}

// TestOldDates has lines that bring their own dates, from three days and from three weeks:
// more than one request may span, and older than the service takes.
func TestOldDates(t *testing.T) {
	together(t, emulator.Options{}, func(t *testing.T, r *rig) {
		const n = 2000
		const day = 24 * time.Hour
		r.gate.refuse()
		now := time.Now().Truncate(time.Second)
		dated := func(name string, ago time.Duration, options ...string) {
			step := ago / n
			r.run(container{name: name, driver: append(options, "awslogs-datetime-format=%Y-%m-%d %H:%M:%S", "awslogs-datetime-as-event-time=true"),
				steps: []string{fmt.Sprintf("dated:n=%d,id=%s,from=%d,step=%d", n, name, now.Add(-ago).Unix(), step/time.Second)}})
		}
		dated("days", 3*day)
		dated("weeks", 20*day, "weir-loss-notice=json")
		dated("untold", 20*day)
		r.wait("days", "weeks", "untold")
		r.gate.open()
		first := map[string]int{"days": 0, "weeks": n * 6 / 20, "untold": n * 6 / 20} // of those that are young enough
		for name, from := range first {
			var got []string
			var notices []notice
			weirtest.Within(t, 2*weirtest.Patience, "the last line of "+name+" has come", func() (string, bool) {
				got, notices = nil, nil
				for _, m := range messages(r.emu, name) {
					if notice, ok := parseNotice(m); ok {
						notices = append(notices, notice)
					} else {
						got = append(got, m)
					}
				}
				done := len(got) > 0 && strings.Contains(got[len(got)-1], fmt.Sprintf(" %s %d ", name, n-1))
				return fmt.Sprint(len(got), notices), done && (name != "weeks" || len(got)+told(t, notices) == n)
			})
			for _, notice := range notices {
				if name != "weeks" || notice.Events != notice.Reasons["too_old"] || notice.Last.After(now.Add(-14*day).Add(weirtest.Patience*10)) {
					t.Errorf("%s: notice %+v", name, notice)
				}
			}
			// The lines are so far apart that it does not matter how long this has taken.
			if len(got) < n-from-1 || len(got) > n-from {
				t.Errorf("%s: %d lines have come, of which %d were young enough", name, len(got), n-from)
			}
			for i, m := range got {
				_, line, _ := strings.Cut(strings.TrimSuffix(m, "\n"), " line ")
				if want := written.Line(name, n-len(got)+i, 0); "line "+line != want {
					t.Errorf("%s: event %d is %s, want %s", name, i, clip(m), clip(want))
					break
				}
			}
		}
		r.settled()
	})
}
