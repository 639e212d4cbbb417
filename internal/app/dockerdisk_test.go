package app

import (
	"testing"

	"weir/internal/buffer"
	"weir/internal/emulator"
	"weir/internal/ledger"
)

func (d *dockerTest) dropped(id string) (n uint64) {
	d.mu.Lock()
	c := d.containers[id]
	d.mu.Unlock()
	for _, q := range c.inUse() {
		n += q.book.Sheet().Dropped[ledger.DiskFull]
	}
	return n
}

// TestFullDiskIsSharedFairly: on a disk below its floor the container that has stored most makes
// room for one that has little, also for one that comes only now; each keeps its newest.
func TestFullDiskIsSharedFairly(t *testing.T) {
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}); err != nil {
		t.Fatal(err)
	}
	url := s.URL()
	d := openDocker(t, DockerOptions{Spool: t.TempDir()})
	loud, quiet := testContainer(url, 1, nil), testContainer(url, 2, nil)
	big := d.spool(t, loud)
	for i := range 200 {
		put(t, big, lineBatch(loud, "loud", i*100, 100, 1000))
	}
	d.limits.minFree = 1 << 60 // others have taken all
	late := d.spool(t, quiet)
	for i := range 30 {
		put(t, late, lineBatch(quiet, "quiet", i*10, 10, 1000))
	}
	if n := d.dropped(quiet.ID); n != 0 {
		t.Errorf("the quiet one has lost %d", n)
	}
	if d.dropped(loud.ID) == 0 {
		t.Error("nobody has given anything up")
	}
	big.Release()
	late.Release()
}

// TestSmallDisk: where the disk is small, so is what a queue gives up at once, and what delivery claims.
func TestSmallDisk(t *testing.T) {
	for _, c := range []struct{ disk, floor, limit, segment, claim int64 }{
		{1 << 40, 1 << 30, 256 << 20, 4 << 20, 4 << 20},
		{1 << 40, 1 << 30, 4 << 20, 1 << 20, 512 << 10},
		{12 << 20, 3 << 20, 256 << 20, 1 << 20, 9 << 17},
		{1 << 20, 2 << 20, 256 << 20, 1 << 20, 64 << 10},
	} {
		l := dockerLimits{disk: c.disk, minFree: c.floor, share: buffer.NewShare(1)}
		if segment, claim := l.pieces(c.limit); segment != c.segment || claim != c.claim {
			t.Errorf("%+v: %d, %d", c, segment, claim)
		}
	}
}
