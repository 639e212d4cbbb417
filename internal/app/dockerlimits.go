package app

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// dockerLimits is what the spools of all containers share. Before the limit is reached the
// container that takes the most gives up its oldest events, and likewise when the disk is
// full, so that one that writes much does not cost the others theirs.
type dockerLimits struct {
	d              *Docker
	limit, minFree int64
	disk           int64 // what the spool may find at most
	share          *buffer.Share
	high           int64 // bytes at which somebody gives up something

	turn chan struct{} // holds a token while somebody relieves; guards vain
	vain time.Time     // when nobody had anything to give
}

func newDockerLimits(d *Docker) (*dockerLimits, error) {
	free, err := (vfs.OS{}).Free(d.o.Spool)
	if err != nil {
		return nil, fmt.Errorf("look at the spool's disk: %w", err)
	}
	l := &dockerLimits{d: d, limit: d.o.Limit, minFree: d.o.MinFree, disk: free, turn: make(chan struct{}, 1)}
	if free < 4<<30 { // a small disk, or one that is nearly full: perhaps of events that wait
		l.disk += bytesBelow(d.o.Spool)
	}
	if l.limit <= 0 {
		l.limit = min(4<<30, l.disk/2)
	}
	if l.minFree <= 0 {
		l.minFree = min(1<<30, l.disk/4)
	}
	l.share = buffer.NewShare(l.limit)
	l.high = l.limit - min(l.limit/8, 64<<20)
	return l, nil
}

// bytesBelow is what the files in a directory and below take.
func bytesBelow(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if st, err := e.Info(); err == nil {
				n += st.Size()
			}
		}
		return nil
	})
	return n
}

// pieces is how a queue of this limit is divided: the size of the pieces that it gives up, and how much
// delivery may claim, which cannot be given up. On a small disk both are small.
func (l *dockerLimits) pieces(limit int64) (segment, claim int64) {
	size := min(limit, max(l.disk-l.minFree, 0))
	return min(max(size/64, dockerLeast), dockerMost), min(max(size/8, 64<<10), dockerClaim)
}

// relieve makes room if the limit is near.
func (l *dockerLimits) relieve() {
	if l.share.Used() <= l.high {
		return
	}
	select {
	case l.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-l.turn }()
	for l.share.Used() > l.high && l.giveUp(ledger.BufferFull, 0) {
	}
}

const (
	// whileVain is how long others are not asked for room when they had nothing to give.
	whileVain = 200 * time.Millisecond
	// turnLimit is how long a queue waits while others are being relieved.
	turnLimit = time.Second
)

// makeRoom lets the largest queue give up its oldest segment because the disk has no room for
// another one, b, or for one that cannot even be opened, if b is nil. A queue never gives up
// anything for one that has half as much or more. It implements buffer.Options.MakeRoom.
func (l *dockerLimits) makeRoom(b *buffer.Buffer, need int64) bool {
	own := max(need, 64<<10)
	if b != nil {
		own += b.Stats().Bytes
	}
	late := time.NewTimer(turnLimit)
	defer late.Stop()
	select {
	case l.turn <- struct{}{}:
	case <-late.C:
		return false
	}
	defer func() { <-l.turn }()
	if time.Since(l.vain) < whileVain {
		return false
	}
	if l.giveUp(ledger.DiskFull, 2*own) {
		return true
	}
	l.vain = time.Now()
	l.d.wakeLargest(2 * own)
	return false
}

// giveUp lets the largest queue of more than so many bytes give up its oldest segment; false if
// none can.
func (l *dockerLimits) giveUp(reason ledger.Reason, above int64) bool {
	type sized struct {
		buf  *buffer.Buffer
		size int64
	}
	var all []sized
	for _, c := range l.d.list() {
		for _, q := range c.inUse() {
			if n := q.buf.Stats().Bytes; n > above {
				all = append(all, sized{q.buf, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.size, a.size) })
	for _, s := range all {
		if s.buf.GiveUp(reason) > 0 {
			return true
		}
	}
	return false
}
