package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/internal/event"
	"weir/internal/input/docker/awslogs"
	"weir/internal/ledger"
)

// told is what a stream says about itself: the numbers of its lines, and what its notices
// add up to.
type told struct {
	lines   []int
	missing int
	reasons map[string]int
}

// tell reads a stream of lines "n 0", "n 1" … and JSON notices. Lines must ascend, and a
// notice must stand where lines are missing.
func tell(t *testing.T, s *emulator.Server, stream string) told {
	t.Helper()
	got := told{reasons: map[string]int{}}
	next, gap := 0, 0
	for _, e := range s.Events("group", stream) {
		if strings.HasPrefix(e.Message, "{") {
			var n struct {
				Weir    string         `json:"weir"`
				Events  int            `json:"dropped_events"`
				Reasons map[string]int `json:"reasons"`
			}
			if err := json.Unmarshal([]byte(e.Message), &n); err != nil || n.Weir != "loss" {
				t.Fatalf("%q: %v", e.Message, err)
			}
			got.missing += n.Events
			gap += n.Events
			for k, v := range n.Reasons {
				got.reasons[k] += v
			}
			continue
		}
		var i int
		if _, err := fmt.Sscanf(e.Message, "n %d", &i); err != nil {
			t.Fatalf("%q: %v", e.Message, err)
		}
		if i != next+gap {
			t.Errorf("line %d follows line %d and a notice of %d", i, next-1, gap)
		}
		next, gap = i+1, 0
		got.lines = append(got.lines, i)
	}
	return got
}

// TestDockerOverflow: a spool that is too small for an outage gives up its oldest events, or
// the newest, and the stream says exactly how many, once, also when the plugin was started
// anew meanwhile.
func TestDockerOverflow(t *testing.T) {
	t.Parallel()
	for name, newest := range map[string]bool{"oldest": false, "newest": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cloud(t)
			if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
				t.Fatal(err)
			}
			o := DockerOptions{Spool: t.TempDir()}
			d := openDocker(t, o)
			c := testContainer(s.URL(), 1, func(o *awslogs.Options) { o.BufferSize, o.DropNewest, o.LossNotice = 2<<20, newest, "json" })
			const batches, per = 60, 50
			sp := d.spool(t, c)
			for i := range batches {
				if i == batches/2 {
					sp.Release()
					d.Stop(context.Background())
					d = openDocker(t, o)
					sp = d.spool(t, c)
				}
				put(t, sp, lineBatch(c, "n", i*per, per, 2000))
			}
			lost := func() int {
				sum := d.Totals()
				return int(sum.Dropped[ledger.BufferFull])
			}
			if lost() == 0 {
				t.Fatal("nothing was dropped: the test shows nothing")
			}
			sp.Release()
			if err := s.SetFaults(nil); err != nil {
				t.Fatal(err)
			}
			eventually(t, "everything arrives or is told, and the spool is removed", func() bool { return len(d.list()) == 0 })
			got := tell(t, s, "s1")
			if got.missing != lost() || got.missing+len(got.lines) != batches*per {
				t.Errorf("%d lines and %d told as missing of %d written; dropped %d (%v)", len(got.lines), got.missing, batches*per, lost(), got.reasons)
			}
			if got.missing != got.reasons[ledger.BufferFull.String()] {
				t.Error(got.reasons)
			}
			// What delivery had begun with stays, so the first line may be there in both cases.
			first, last := got.lines[0], got.lines[len(got.lines)-1]
			if newest && first != 0 || newest == (last == batches*per-1) {
				t.Errorf("the lines there are go from %d to %d", first, last)
			}
		})
	}
}

// TestDockerMiss: a loss before the spool is told at its place.
func TestDockerMiss(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	d := openDocker(t, DockerOptions{Spool: t.TempDir()})
	c := testContainer(s.URL(), 1, func(o *awslogs.Options) { o.LossNotice = "json" })
	sp := d.spool(t, c)
	now := event.FromTime(time.Now())
	put(t, sp, lineBatch(c, "n", 0, 10, 0))
	sp.Miss(event.Chunk{}, "group\x00s1", ledger.WireLoss, 5, 500, now, now)
	put(t, sp, lineBatch(c, "n", 15, 10, 0))
	sp.Miss(event.Chunk{}, "group\x00s1", ledger.WireLoss, 2, 20, now, now)
	sp.Release()
	eventually(t, "everything arrives or is told, and the spool is removed", func() bool { return len(d.list()) == 0 })
	got := tell(t, s, "s1")
	if len(got.lines) != 20 || got.missing != 7 || got.reasons["wire_loss"] != 7 {
		t.Errorf("%+v", got)
	}
}

// TestDockerOneThatWritesMuch: at the limit of all spools the largest gives up, and the
// others lose nothing.
func TestDockerOneThatWritesMuch(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
		t.Fatal(err)
	}
	d := openDocker(t, DockerOptions{Spool: t.TempDir(), Limit: 24 << 20})
	much := testContainer(s.URL(), 0, func(o *awslogs.Options) { o.LossNotice = "json" })
	big := d.spool(t, much)
	const few = 8
	for i := range 60 {
		put(t, big, lineBatch(much, "n", i*100, 100, 8000))
		if i%10 == 0 {
			for k := range few {
				c := testContainer(s.URL(), 1+k, nil)
				sp := d.spool(t, c)
				put(t, sp, lineBatch(c, "n", i, 10, 0))
				sp.Release()
			}
		}
	}
	// Now it is full of the one's events, which writes no more, and the others want room.
	for k := range few {
		c := testContainer(s.URL(), 1+k, nil)
		sp := d.spool(t, c)
		for i := range 10 {
			put(t, sp, lineBatch(c, "n", 60+i*100, 100, 1000))
		}
		sp.Release()
	}
	if used := d.limits.share.Used(); used > 24<<20 {
		t.Errorf("%d bytes used", used)
	}
	big.Release()
	if err := s.SetFaults(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything arrives or is told", func() bool { return len(d.list()) == 0 })
	for k := range few {
		if got := tell(t, s, fmt.Sprint("s", 1+k)); len(got.lines) != 1060 {
			t.Errorf("stream s%d has %d lines", 1+k, len(got.lines))
		}
	}
	got := tell(t, s, "s0")
	if got.missing == 0 || got.missing+len(got.lines) != 6000 {
		t.Errorf("%d lines, %d missing of 6000", len(got.lines), got.missing)
	}
}

// TestDockerSpoolCannotBeOpened: events that come while a container's directory cannot be
// made are booked, and told when it can.
func TestDockerSpoolCannotBeOpened(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	dir := t.TempDir()
	d := openDocker(t, DockerOptions{Spool: dir})
	c := testContainer(s.URL(), 1, func(o *awslogs.Options) { o.LossNotice = "json" })
	inTheWay := filepath.Join(dir, dockerContainers, c.ID)
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sp := d.spool(t, c)
	put(t, sp, lineBatch(c, "n", 0, 10, 0))
	put(t, sp, lineBatch(c, "n", 10, 10, 0))
	if st := d.Status; st().Containers[0].Fault == "" || len(st().Outputs) != 0 {
		t.Errorf("%+v", st().Containers)
	}
	if sum := d.Totals(); sum.Dropped[ledger.DiskFull] != 20 || sum.Pending() != 0 {
		t.Errorf("%+v", sum)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	sp.Release()
	eventually(t, "the loss is told and the spool removed", func() bool { return len(d.list()) == 0 })
	if got := tell(t, s, "s1"); len(got.lines) != 0 || got.missing != 20 || got.reasons["disk_full"] != 20 {
		t.Errorf("%+v", got)
	}
	if n := strings.Count(d.log.String(), "cannot be opened"); n != 1 {
		t.Errorf("%d lines about it", n)
	}
}
