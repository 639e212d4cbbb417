package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/emulator"
	"weir/test/docker/engine"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// TestEndpointDown runs through what an operator does while the service is away: every
// command has to be as quick as always, and nothing may be lost.
func TestEndpointDown(t *testing.T) {
	together(t, emulator.Options{}, func(t *testing.T, r *rig) {
		lines := func(name string) container {
			return container{name: name, steps: []string{"lines:n=0,id=" + name + ",rate=200,to=both"}}
		}
		r.run(lines("before")) // runs through all of it
		live := lines("live")
		live.driver = []string{"weir-drain-order=live-first"}
		r.run(live) // does too
		weirtest.Eventually(t, "the first lines have come", func() (string, bool) {
			n := len(messages(r.emu, "before"))
			return fmt.Sprint(n), n > 0
		})
		for _, away := range []struct {
			name string
			shut func()
		}{{"refuses", r.gate.refuse}, {"is-silent", r.gate.swallow}} {
			away.shut()
			stream := func(s string) string { return away.name + "-" + s }
			n := func(s string) string { return r.name(stream(s)) }
			r.quick(append([]string{"run", "-d"}, r.args(lines(stream("stopped")))...)...)
			r.quick(append([]string{"run", "-d"}, r.args(lines(stream("killed")))...)...)
			r.quick(append([]string{"run", "-d"}, r.args(lines(stream("removed")))...)...)
			r.quick(append([]string{"create"}, r.args(container{name: stream("started"), steps: []string{`text:"hello\n"`}})...)...)
			r.quick("start", n("started"))
			r.quick("inspect", n("stopped"))
			r.quick("ps")
			weirtest.Eventually(t, "docker logs has lines", func() (string, bool) {
				s := r.quick("logs", n("killed"))
				return clip(s), strings.Contains(s, "line "+stream("killed")+" 20 ")
			})
			r.quick("stop", n("stopped"))
			r.quick("kill", n("killed"))
			r.quick("rm", "-f", n("removed"))
			r.quick("rm", n("killed"))
			r.quick("wait", n("started"))
			r.quick("start", n("started"))
			r.quick("wait", n("started"))
			r.quick("inspect", n("started"))
			r.quick("logs", n("started"))
		}
		r.quick("stop", r.name("before"))
		r.gate.open()
		r.quick("stop", r.name("live"))
		if a := ended(t, r.emu, "live", "live", 0, 2); a.lines != a.written || a.missing+a.twice+len(a.other) > 0 {
			t.Errorf("live: %s", a)
		}
		for _, name := range []string{"before", "refuses-stopped", "is-silent-stopped"} {
			whole(t, r.emu, name, name, 0, 2)
		}
		for _, name := range []string{"refuses-started", "is-silent-started"} {
			arrive(t, r.emu, name, "hello", "hello")
		}
		for _, name := range []string{"refuses-killed", "refuses-removed", "is-silent-killed", "is-silent-removed"} {
			var a *tally
			weirtest.Eventually(t, name+" has come", func() (string, bool) {
				a = count(r.emu, name, name, 0, 2)
				return a.String(), a.lines > 0
			})
			// What a container had written when it was killed nobody knows exactly: its last
			// lines may be missing on one output, but none in between, and none came twice.
			if a.twice+a.disorder+len(a.other) > 0 || a.missing > 1 {
				t.Errorf("%s: %s", name, a)
			}
		}
	})
}

// TestLongerThanTheSpool writes more than the spool holds. The notices have to account for
// every line that has not come.
func TestLongerThanTheSpool(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		const n, size = 60_000, 200
		work := func(name string, options ...string) container {
			return container{name: name, driver: append(options, "weir-buffer-size=4m"),
				steps: []string{fmt.Sprintf("lines:n=%d,id=%s,size=%d,burst=20,rate=30000", n, name, size), `text:"last\n"`}}
		}
		r.gate.refuse()
		all := []string{"text", "json", "newest", "untold"}
		r.run(work("text", "weir-loss-notice=text"))
		r.run(work("json", "weir-loss-notice=json"))
		r.run(work("newest", "weir-loss-notice=text", "weir-overflow=drop-newest"))
		r.run(work("untold"))
		r.wait(all...)
		r.kill() // what is lost must not be forgotten
		r.gate.open()
		for _, name := range all {
			r.accounted(name, n, size)
		}
		if m := messages(r.emu, "json"); !slices.ContainsFunc(m, func(s string) bool { return strings.HasPrefix(s, `{"weir":"loss"`) }) {
			t.Error("there is no notice in JSON")
		}
		r.settled()
	})
}

// accounted checks the stream of a writer that has written n lines, the end line and "last"
// while the spool overflowed.
func (r *rig) accounted(name string, n, size int) {
	r.t.Helper()
	var a *tally
	const more = 2 // the end line and "last" are events too
	weirtest.Within(r.t, 2*weirtest.Patience, name+" adds up", func() (string, bool) {
		a = count(r.emu, name, name, size, 1)
		if name == "untold" {
			return a.String(), slices.Contains(a.other, "last")
		}
		got := a.lines + len(a.other) + told(r.t, a.notices)
		if a.written >= 0 {
			got++
		}
		return a.String(), got >= n+more
	})
	r.t.Logf("%s: %s", name, a)
	got := a.lines + len(a.other)
	if a.written >= 0 {
		got++
	}
	if sum := got + told(r.t, a.notices); sum != n+more && name != "untold" {
		r.t.Errorf("%s: delivered and told are %d, written were %d", name, sum, n+more)
	}
	switch {
	case a.twice+a.disorder > 0:
		r.t.Errorf("%s: %s", name, a)
	case got == n+more:
		r.t.Errorf("%s: nothing was dropped, the test tests nothing", name)
	case name == "untold" && len(a.notices) > 0:
		r.t.Errorf("%s: there is a notice that nobody asked for", name)
	case name == "newest":
		// Small batches may still have found room when larger ones did not; but nothing that
		// was stored was given up.
		m := messages(r.emu, name)
		if i := slices.IndexFunc(m, func(s string) bool { _, ok := parseNotice(s); return ok }); i < n/6 || m[0] != written.Line(name, 0, size) {
			r.t.Errorf("%s: the first gap stands behind %d lines: %s", name, i, a)
		}
	case a.written < 0 || !slices.Contains(a.other, "last"):
		r.t.Errorf("%s: the newest lines were dropped: %s", name, a)
	}
	if name == "text" || name == "json" {
		r.placed(name, size)
	}
}

// placed checks that the lines between two notices have no gap: each gap has its notice, at
// its place, and it tells how many lines the gap has.
func (r *rig) placed(name string, size int) {
	r.t.Helper()
	next, missing := 0, 0
	for _, m := range messages(r.emu, name) {
		if n, ok := parseNotice(m); ok {
			missing += n.Events
			continue
		}
		i, ok := written.Number(m, name, size)
		if !ok {
			continue
		}
		if i != next+missing {
			r.t.Errorf("%s: line %d follows line %d and notices of %d", name, i, next-1, missing)
			return
		}
		next, missing = i+1, 0
	}
}

// TestNoticeSurvives restarts everything between the loss and the return of the service.
func TestNoticeSurvives(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		r.gate.refuse()
		const n, size = 40_000, 200
		r.run(container{name: "text", driver: []string{"weir-buffer-size=4m", "weir-loss-notice=text"},
			steps: []string{fmt.Sprintf("lines:n=%d,id=text,size=%d,burst=20", n, size), `text:"last\n"`}})
		r.wait("text")
		r.docker("rm", "text")
		r.kill()
		if err := r.e.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := r.e.Run(t.Context(), engine.Options{}); err != nil {
			t.Fatal(err)
		}
		r.gate.open()
		r.accounted("text", n, size)
	})
}
