package app

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// dockerLimits is what the spools of all containers share. Before the limit is reached the
// container that takes the most gives up its oldest events, so that one that writes much
// does not cost the others theirs.
type dockerLimits struct {
	d              *Docker
	limit, minFree int64
	share          *buffer.Share
	high           int64 // bytes at which somebody gives up something

	mu sync.Mutex // one at a time relieves
}

func newDockerLimits(d *Docker) (*dockerLimits, error) {
	free, err := (vfs.OS{}).Free(d.o.Spool)
	if err != nil {
		return nil, fmt.Errorf("look at the spool's disk: %w", err)
	}
	l := &dockerLimits{d: d, limit: d.o.Limit, minFree: d.o.MinFree}
	if l.limit <= 0 {
		l.limit = min(4<<30, free/2)
	}
	if l.minFree <= 0 {
		l.minFree = max(min(1<<30, free/4), 64<<20)
	}
	l.share = buffer.NewShare(l.limit)
	l.high = l.limit - min(l.limit/8, 64<<20)
	return l, nil
}

// relieve makes room if the limit is near.
func (l *dockerLimits) relieve() {
	if l.share.Used() <= l.high || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	for l.share.Used() > l.high && l.giveUp() {
	}
}

// giveUp lets the largest queue give up its oldest segment; false if none can.
func (l *dockerLimits) giveUp() bool {
	type sized struct {
		buf  *buffer.Buffer
		size int64
	}
	var all []sized
	for _, c := range l.d.list() {
		for _, q := range c.inUse() {
			all = append(all, sized{q.buf, q.buf.Stats().Bytes})
		}
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.size, a.size) })
	for _, s := range all {
		if s.buf.GiveUp(ledger.BufferFull) > 0 {
			return true
		}
	}
	return false
}
