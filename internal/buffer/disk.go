package buffer

import (
	"context"

	"weir/internal/ledger"
	"weir/internal/vfs"
)

// moreDisk looks for room on a full disk before anything is given up: it asks the disk
// again if room was made since it was full, and then Options.MakeRoom. True: try again. mu is held at
// entry and return, and not between.
func (b *Buffer) moreDisk(ctx context.Context, a *ask) (again bool, err error) {
	need := b.flying + b.openSize() + b.reserved + a.need
	if b.freedAt != b.askedAt {
		b.wantBytes = max(b.wantBytes, min(need, b.o.Segment))
		b.wantSpare = true
		b.kickCommitter()
		return true, b.sleep(ctx, &b.roomWait, 0)
	}
	if b.o.MakeRoom == nil || !b.diskFull() {
		return false, nil
	}
	b.mu.Unlock()
	made := b.o.MakeRoom(b, need)
	b.mu.Lock()
	if made {
		b.freedAt++
	}
	return made || b.roomFor(a.need) == ledger.None, nil
}

// diskFull tells whether the disk is full, or at its floor, and does not just fail. mu is held.
func (b *Buffer) diskFull() bool {
	if b.fault != nil {
		return vfs.IsFull(b.fault)
	}
	return vfs.IsFull(b.noSpace)
}

// giveWay tells whether giving something up makes room.
func (b *Buffer) giveWay(reason ledger.Reason) bool {
	if reason == ledger.DiskFull {
		return b.diskFull()
	}
	return b.fault == nil || vfs.IsFull(b.fault)
}

// freed notes that files which took n bytes of disk are gone. mu is held.
func (b *Buffer) freed(n int64) {
	if n == 0 {
		return
	}
	b.freedAt++
	b.floor.add(n)
	if b.noSpace != nil {
		b.wantSpare = true
		b.kickCommitter()
	}
}
