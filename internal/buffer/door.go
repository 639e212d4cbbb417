package buffer

import (
	"fmt"
	"path"
	"slices"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

const doorName = "door"

// doorFile holds what was lost and is not in the journal, in place: it can be written when
// nothing else can, since its space was taken before. Guarded by Buffer.journalMu.
type doorFile struct {
	made   bool     // it is there
	file   vfs.File // nil while not open
	write  uint64   // number of the last write
	last   int      // slot of the last write
	synced int      // slot that a power cut leaves alone; -1: none
	stale  bool     // something was written since the last sync
	losses uint64   // Buffer.losses when it was written
	fault  bool     // it could not be written, and the log says so
	next   segment.Door
	buf    []byte
}

// recordDoor writes down what was given up at the door before the sender is told that it
// was taken: a killed process must not forget a loss.
func (b *Buffer) recordDoor() {
	if b.volatile {
		return
	}
	b.journalMu.Lock()
	b.writeDoor()
	b.journalMu.Unlock()
}

// writeDoor writes what was lost and is not in the journal, if that has changed, and tells
// whether it is there. journalMu is held.
func (b *Buffer) writeDoor() bool {
	f := &b.journal.doorFile
	if b.volatile {
		return true
	}
	b.mu.Lock()
	losses := b.losses
	if losses == f.losses || !f.made || b.finished {
		b.mu.Unlock()
		return f.made
	}
	b.doorNow(&f.next)
	b.mu.Unlock()
	f.next.Write = f.write + 1
	slot, whole := segment.AppendDoor(f.buf[:0], &f.next)
	f.buf = slot
	at := (f.last + 1) % segment.DoorSlots
	if at == f.synced {
		at = (at + 1) % segment.DoorSlots
	}
	err := b.openDoor()
	if err == nil {
		_, err = f.file.WriteAt(slot, int64(at)*segment.DoorSlot)
	}
	if err == nil && !whole {
		err = fmt.Errorf("%d gaps do not fit", len(f.next.Gaps))
	}
	if err != nil {
		if !f.fault {
			b.o.Log.Error("buffer cannot write down what it loses; a kill may make it forget some", "dir", b.o.Dir, "error", err)
		}
		f.fault = true
		return false
	}
	f.write, f.last, f.losses, f.stale, f.fault = f.next.Write, at, losses, true, false
	return true
}

// doorNow lists in d what the journal does not have. journalMu and mu are held.
func (b *Buffer) doorNow(d *segment.Door) {
	j := &b.journal
	d.Log, d.Gen = b.id, j.gen
	d.Sheet = b.recordedDoor()
	d.IDs = append(d.IDs[:0], b.lostIDs...)
	d.Gaps = append(d.Gaps[:0], j.owed...)
	for _, m := range b.misses {
		g := segment.DoorGap{Number: m.number, Drop: m.Drop}
		if m.into != nil {
			g.Target = m.into.Start.Seq
		}
		if len(m.sums) > maxDoorTags {
			g.Tags = []segment.TagLoss{m.all}
		} else {
			g.Tags = tagList(m.sums)
		}
		d.Gaps = append(d.Gaps, g)
	}
}

// maxDoorTags is how many tags of a gap the door file tells apart, at most.
const maxDoorTags = 64

// recordedDoor is the sheet of door without what is owed: the journal's records tell of
// that no more than of it. journalMu and mu are held.
func (b *Buffer) recordedDoor() ledger.Sheet {
	s := b.door()
	for i := range b.journal.owed {
		if g := &b.journal.owed[i]; g.Miss {
			s = minus(s, bookedAs(g.Reason, g.Events))
		}
	}
	return s
}

// bookedAs is the sheet of n events that ended as dropped at the door.
func bookedAs(reason ledger.Reason, n uint64) (s ledger.Sheet) {
	s.Admitted = n
	s.Add(ledger.Fate{Class: ledger.Dropped, Reason: reason}, n)
	return s
}

// owe notes a drop that the journal could not take: it has to be in the door file until
// there is another journal. journalMu is held, mu is not.
func (b *Buffer) owe(number, target uint64, d *segment.Drop) {
	j := &b.journal
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses++
	if k := len(j.owed); k > j.firm {
		// An overflow that lasts is one entry.
		l := &j.owed[k-1]
		same := l.Miss == d.Miss && l.Reason == d.Reason && !l.Told && l.End.Seq == d.Start.Seq
		if same && target != 0 && (l.Target == target || l.Start.Seq == target) {
			l.Join(d)
			return
		}
	}
	g := segment.DoorGap{Number: number, Target: target, Drop: *d}
	g.Tags = slices.Clone(d.Tags) // a Drop's are added to in place
	j.owed = append(j.owed, g)
	if j.firm == 0 {
		j.firm = 1 // its record may be there, although writing it has failed
	}
}

// number gives the next gap or drop its number in the door file. mu is held.
func (b *Buffer) number() uint64 {
	b.numbers++
	return b.numbers - 1
}

// openNumbers lists the numbers of gaps that are not written down, and if asked for of those
// that only the door file has. journalMu and mu are held.
func (b *Buffer) openNumbers(owed bool) (list []uint64) {
	for _, d := range b.misses {
		list = append(list, d.number)
	}
	for i := range b.journal.owed {
		if g := &b.journal.owed[i]; owed && g.Miss {
			list = append(list, g.Number)
		}
	}
	return list
}

// toldOwed notes that a gap which the journal does not have was told; false if it has it. journalMu
// and mu are held.
func (b *Buffer) toldOwed(seq uint64) (owed bool) {
	for i := range b.journal.owed {
		if g := &b.journal.owed[i]; g.Start.Seq == seq || g.Target == seq {
			g.Told, owed = true, true
			b.losses++
		}
	}
	return owed
}

// lostID remembers that what has an id was lost. mu is held.
func (b *Buffer) lostID(id event.Chunk) {
	if id.IsZero() {
		return
	}
	if len(b.lostIDs) == segment.MaxLostIDs {
		b.lostIDs = b.lostIDs[:copy(b.lostIDs, b.lostIDs[1:])]
	}
	b.lostIDs = append(b.lostIDs, id)
}

// LostIDs lists the ids of what was booked as lost on the way here shortly before this start, oldest
// first: of losses, see MissOnce, and of batches that were dropped. Who was killed and repeats
// one of them need not book it again.
func (b *Buffer) LostIDs() []event.Chunk { return b.lostBefore }

func (b *Buffer) openDoor() (err error) {
	f := &b.journal.doorFile
	if f.file == nil {
		f.file, err = b.o.FS.Open(path.Join(b.o.Dir, doorName))
	}
	return err
}

// syncDoor makes the door file durable.  journalMu is held.
func (b *Buffer) syncDoor() bool {
	f := &b.journal.doorFile
	if !f.stale || b.o.Durability == OS {
		return true
	}
	err := b.openDoor()
	if err == nil {
		err = f.file.Datasync()
	}
	if err != nil {
		return false
	}
	f.synced, f.stale = f.last, false
	return true
}

// makeDoor makes the door file if there is none, and gives it its space. Only Open and the
// committer call it.
func (b *Buffer) makeDoor() {
	f := &b.journal.doorFile
	if f.made || b.volatile { // nobody else changes it
		return
	}
	b.journalMu.Lock()
	defer b.journalMu.Unlock()
	const size = segment.DoorSlots * segment.DoorSlot
	name := path.Join(b.o.Dir, doorName)
	if file, err := b.o.FS.Open(name); err == nil {
		n, err := file.Size()
		_ = file.Close()
		f.made = err == nil && n >= size
		if f.made {
			return
		}
	}
	file, err := b.create(name)
	if err != nil {
		return
	}
	f.synced = -1
	// Zeros, since space that is only reserved may have to be allocated once more.
	_, err = file.WriteAt(make([]byte, size), 0)
	if cerr := file.Close(); err != nil || cerr != nil {
		_ = b.o.FS.Remove(name)
		return
	}
	f.made = true
}

// restDoor syncs the door file while it has what the journal does not, and closes it.
func (b *Buffer) restDoor() {
	b.makeDoor()
	b.journalMu.Lock()
	defer b.journalMu.Unlock()
	f := &b.journal.doorFile
	b.writeDoor()
	if len(b.journal.owed) > 0 {
		b.syncDoor()
	}
	if b.o.Lean && f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
