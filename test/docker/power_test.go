package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/test/docker/engine"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// spoolDir makes the directory of a plugin's spool, as the engine sees it, before the plugin
// is started. For a managed plugin it is what holds the pipes too.
func (r *rig) spoolDir() string {
	r.t.Helper()
	dir := r.spool
	if r.kind == managed {
		r.docker("plugin", "create", r.driver, plugin)
		dir = filepath.Join(r.e.Dir, "data", "plugins", r.docker("plugin", "inspect", "-f", "{{.Id}}", r.driver), "propagated-mount")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

// TestPowerCut has the spool on a disk that is cut off in the middle of writing, together
// with the end of everything: what had not been synced is lost, of files and of the file
// system itself.
func TestPowerCut(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		disk, err := engine.NewDisk(t.Context(), t.TempDir(), 256<<20)
		if err != nil {
			t.Skip("no disk can be made here: ", err)
		}
		t.Cleanup(disk.Close)
		// A managed plugin is on the disk as a whole: the engine unmounts what is mounted in
		// one when it starts.
		var dir string
		mount := func(e *engine.Engine) error {
			dir = filepath.Join(e.Dir, map[kind]string{managed: "data/plugins", v1: "spool"}[k])
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(e.Dir, "data"), 0o700); err != nil {
				return err
			}
			return disk.Mount(t.Context(), e, dir)
		}
		on := engine.Options{Before: mount}
		r := newRig(t, k, rigOptions{engine: on, env: append([]string{"WEIR_MIN_FREE=1m"}, credentials...)})
		if _, err := r.e.Exec(t.Context(), "sync", "-f", dir); err != nil { // the plugin's program
			t.Fatal(err)
		}
		open := newGate(t, r.emu.Addr())
		rounds := 1
		if full {
			rounds = 5
		}
		for i := range rounds {
			p := powerCut{rig: r, on: on, disk: disk, dir: dir, open: open, round: i}
			p.before()
			p.cut()
			p.after()
		}
		r.settled()
	})
}

// powerCut is one of them.
type powerCut struct {
	*rig
	on    engine.Options
	disk  *engine.Disk
	dir   string
	open  *gate // of "live"; the other one is shut before the cut
	round int
	top   int // line of "running" that must not be lost
}

// id makes a name of this round.
func (p *powerCut) id(s string) string { return fmt.Sprintf("%s%d", s, p.round) }

const (
	cutLines  = 40_000 // of 200 bytes, to a spool of 4 MiB
	shortWork = 1000   // lines
)

// before brings containers into every state: all delivered, gone with a loss behind it, with
// a multi-line event, writing, and writing while it is delivered.
func (p *powerCut) before() {
	p.t.Helper()
	p.do(container{name: p.id("sent"), steps: []string{fmt.Sprintf("lines:n=%d,id=%s", shortWork, p.id("sent"))}})
	whole(p.t, p.emu, p.id("sent"), p.id("sent"), 0, 1)
	p.gate.refuse()
	p.run(container{name: p.id("full"), driver: []string{"weir-buffer-size=4m", "weir-loss-notice=text"},
		steps: []string{fmt.Sprintf("lines:n=%d,id=%s,size=200,burst=20", cutLines, p.id("full"))}})
	p.run(container{name: p.id("ended"), steps: []string{fmt.Sprintf("lines:n=%d,id=%s", shortWork, p.id("ended"))}})
	p.wait(p.id("full"), p.id("ended"))
	p.docker("rm", p.id("full"))
	p.run(container{name: p.id("traces"), driver: []string{`awslogs-multiline-pattern=^\d{4}-`}, steps: []string{"trace:n=9,id=x", "hold"}})
	p.run(container{name: p.id("running"), driver: []string{"weir-loss-notice=json"}, steps: []string{"lines:n=0,id=" + p.id("running") + ",rate=500"}})
	p.run(container{name: p.id("live"), driver: []string{"awslogs-endpoint=" + p.open.url()}, steps: []string{"lines:n=0,id=" + p.id("live") + ",rate=500"}})
	p.flowing(p.id("live"))
	weirtest.Eventually(p.t, "docker logs has lines", func() (string, bool) {
		s := p.docker("logs", "--tail", "1", p.id("running"))
		var ok bool
		p.top, ok = written.Number(s, p.id("running"), 0)
		return clip(s), ok && p.top > 500
	})
	p.synced()
}

// synced waits until what has been written must have been synced: that begins after a second,
// and takes as long as it takes this machine.
func (p *powerCut) synced() {
	p.t.Helper()
	begin := time.Now()
	f, err := os.Create(filepath.Join(p.e.Dir, "probe")) // not on the disk that is cut off
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(3*time.Second + 10*time.Since(begin)) // there is nothing to poll: who syncs here does weir's work
}

// cut switches the host off and on.
func (p *powerCut) cut() {
	p.t.Helper()
	if err := p.disk.Cut(p.e, p.dir); err != nil {
		p.t.Fatal(err)
	}
	if err := p.e.Crash(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.e.Run(p.t.Context(), p.on); err != nil {
		p.t.Fatal(err)
	}
	if p.kind == v1 {
		p.startV1()
	}
	p.flowingAgain()
	p.gate.open()
}

// after wants what had been synced.
func (p *powerCut) after() {
	p.t.Helper()
	t := p.t
	whole(t, p.emu, p.id("ended"), p.id("ended"), 0, 1)
	if a := p.sum(p.id("full"), cutLines+1, 200); a.missing == 0 || len(a.notices) == 0 {
		t.Errorf("full: %s", a)
	}
	whole(t, p.emu, p.id("sent"), p.id("sent"), 0, 1) // not once more
	var want []string
	for i := range 9 {
		want = append(want, written.Trace("x", i)+"\n")
	}
	arrive(t, p.emu, p.id("traces"), want...)
	var a *tally
	weirtest.Eventually(t, "what was synced has come", func() (string, bool) {
		a = count(p.emu, p.id("running"), p.id("running"), 0, 1)
		return a.String(), a.lines > p.top
	})
	p.settled()
	a = count(p.emu, p.id("running"), p.id("running"), 0, 1)
	t.Logf("running: line %d was written seconds before; %s", p.top, a)
	if a.missing+a.twice+a.disorder+len(a.other) > 0 {
		t.Errorf("running: %s", a)
	}
	live := *p.rig
	live.gate = p.open
	live.settled()
	a = count(p.emu, p.id("live"), p.id("live"), 0, 1)
	t.Logf("live: %s", a)
	// What the service had taken may come again as far as that was not synced.
	if a.missing+a.disorder+len(a.other) > 0 || a.twice > 10_000 {
		t.Errorf("live: %s", a)
	}
}

// TestDiskFull has the spool on a file system that is full long before the writers end: it
// meets the floor of free space, or there is no floor and writes fail.
func TestDiskFull(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		floors := map[string]string{"floor": "3m", "no-space-left": "1"}
		if !full {
			delete(floors, map[kind]string{managed: "floor", v1: "no-space-left"}[k])
		}
		for name, floor := range floors {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, k, rigOptions{late: true, env: append([]string{"WEIR_MIN_FREE=" + floor, "WEIR_SPOOL_LIMIT=1g"}, credentials...)})
				dir := r.spoolDir()
				if _, err := r.e.Exec(t.Context(), "mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", dir); err != nil {
					t.Skip("no tmpfs can be mounted: ", err)
				}
				r.startPlugin()
				diskFull(t, r)
				out, _ := r.e.Exec(t.Context(), "df", dir)
				t.Logf("at the end: %s", out)
			})
		}
	})
}

func diskFull(t *testing.T, r *rig) {
	r.gate.refuse()
	const n, size = 100_000, 200
	for _, name := range []string{"aa", "bb"} {
		r.run(container{name: name, driver: []string{"weir-loss-notice=json"},
			steps: []string{fmt.Sprintf("lines:n=%d,id=%s,size=%d,burst=20,rate=40000", n, name, size), `text:"last\n"`}})
	}
	r.quick("inspect", "aa")
	r.wait("aa", "bb")
	r.quick("rm", "aa")
	// A new container starts although there is no room.
	r.quick(append([]string{"run", "-d"}, r.args(container{name: "late", steps: []string{`text:"hello\n"`}})...)...)
	r.quick("wait", "late")
	r.kill()
	r.gate.open()
	for _, name := range []string{"aa", "bb"} {
		a := r.sum(name, n+2, size)
		if a.lines == 0 {
			t.Errorf("%s: nothing was kept", name)
		}
		if a.slowest > blocked {
			t.Errorf("%s was held up for %s", name, a.slowest)
		}
	}
}
