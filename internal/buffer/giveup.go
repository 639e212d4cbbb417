package buffer

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
)

// dropOldest gives up the oldest segment that the reader has not begun. It returns false
// if there is none. mu is held at entry and return, and not between.
func (b *Buffer) dropOldest(ctx context.Context, reason ledger.Reason) (bool, error) {
	if b.dropping {
		return true, b.sleep(ctx, &b.roomWait, 0)
	}
	i := b.droppable()
	if i < 0 {
		return false, nil
	}
	s := b.segments[i]
	if s == b.tail {
		if b.storing && b.fault != nil {
			return false, nil
		}
		if b.storing {
			return true, b.sleep(ctx, &b.roomWait, 0)
		}
		b.tail = nil
	}
	end := b.endOf(i)
	list := b.cutOut(s.start, end, reason)
	b.segments = append(b.segments[:i:i], b.segments[i+1:]...)
	for f := b.mem.unread; f != nil && f.hdr.Start.Seq < end.Seq; f = b.mem.unread {
		b.mem.remove(f)
	}
	b.dropping = true
	err := b.openFile(s)
	s.refs++
	size := s.size
	b.mu.Unlock()

	var ids []event.Chunk
	if err == nil {
		ids = b.countTags(s, size, end.Seq, list)
	}
	b.journalMu.Lock()
	for _, d := range list {
		b.finishDrop(d)
	}
	if len(ids) > 0 {
		b.record(b.journal.rec.Chunks(ids)) // a checkpoint may not know them yet
	}
	// Without the record a restart would find the segment missing and call it damage. It then
	// goes when there is a new journal.
	known := b.syncDrop()
	renew := b.journalGrown()
	b.journalMu.Unlock()

	b.mu.Lock()
	b.closeFile(s)
	b.unref(s)
	b.condemned = append(b.condemned, s)
	b.mu.Unlock()
	if known {
		b.removeCondemned(false)
	}
	b.mu.Lock()
	b.dropping = false
	b.wantClean = b.wantClean || renew // before anything else takes the room
	b.readWait.wakeAll()
	b.roomWait.wakeAll()
	b.kickCommitter() // a spare may be possible now
	return true, nil
}

// GiveUp gives up the oldest segment that the reader has not begun, whatever Options.Overflow
// says, and returns the length of its file: 0 if there is none, or if it is just being
// written.
func (b *Buffer) GiveUp(reason ledger.Reason) (freed int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.droppable()
	if i < 0 || b.finished || b.dropping || b.storing && b.segments[i] == b.tail {
		return 0
	}
	freed = b.segments[i].length
	if dropped, err := b.dropOldest(context.Background(), reason); err != nil || !dropped {
		return 0
	}
	return freed
}

// cutOut makes the drops for [start, end): one, or one on each side of every gap of lost
// events that stands between, and of every part that was given up before a restart. They are
// not ready yet. mu is held.
func (b *Buffer) cutOut(start, end segment.Pos, reason ledger.Reason) []*drop {
	var list []*drop
	cut := false
	add := func(to segment.Pos) {
		// Without events it is a hole that a forgotten gap has left.
		if start.Events < to.Events || start.Seq < to.Seq && to == end && list == nil && !cut {
			list = append(list, &drop{Drop: segment.Drop{Start: start, End: to, Reason: reason}})
		}
	}
	for _, d := range b.drops {
		if start.Seq < d.End.Seq && d.Start.Seq < end.Seq {
			add(d.Start)
			start, cut = d.End, true
		}
	}
	add(end)
	for _, d := range list {
		b.insertDrop(d)
	}
	return list
}

// finishDrop books d and writes that down. With Tell, or if it has to be in the door file, it
// joins the drop before it, if that is its neighbour: an overflow that lasts is one gap. journalMu is held.
func (b *Buffer) finishDrop(d *drop) {
	b.mu.Lock()
	d.Events = d.Ended() - b.endedIn(d.Start.Seq, d.End.Seq)
	b.bookDrop(d)
	b.full.dropped += d.Events
	d.ready = true
	d.number = b.number()
	t := b.neighbour(d)
	if t != nil {
		t.Join(&d.Drop)
		b.removeDrop(d)
	}
	b.mu.Unlock()
	switch {
	case t == nil && !b.record(b.journal.rec.Drop(&d.Drop, d.number)):
		b.owe(d.number, 0, &d.Drop)
	case t != nil && !b.record(b.journal.rec.Join(t.Start.Seq, &d.Drop, d.number)):
		b.owe(d.number, t.Start.Seq, &d.Drop)
	}
}

// neighbour returns the drop that d joins: of the same kind, right before it, and not passed by
// the reader; nil if there is none. mu is held.
func (b *Buffer) neighbour(d *drop) *drop {
	if !b.o.Tell && b.journal.bad == nil {
		return nil
	}
	for i := len(b.drops) - 1; i > 0; i-- {
		if b.drops[i] != d {
			continue
		}
		t := b.drops[i-1]
		if t.ready && !t.Told && t.Miss == d.Miss && t.Reason == d.Reason && t.End.Seq == d.Start.Seq {
			return t
		}
	}
	return nil
}

func (b *Buffer) removeDrop(d *drop) {
	if i := slices.Index(b.drops, d); i >= 0 {
		b.drops = slices.Delete(b.drops, i, i+1)
	}
}

// removeCondemned removes the files of segments that are not needed any more. What cannot
// be removed goes on counting as used, and is tried again with the next checkpoint.
//
// A file that is still open gives its blocks back when it is closed, which takes the kernel
// some 20 ms for 64 MiB. With aside, a goroutine does that while the committer goes on
// acknowledging: only the committer may ask for it. Where the disk is full it is not done,
// since the room is wanted at once.
func (b *Buffer) removeCondemned(aside bool) {
	b.mu.Lock()
	list := b.condemned
	b.condemned = nil
	aside = aside && !b.volatile && b.noSpace == nil && b.fault == nil
	b.mu.Unlock()
	if len(list) == 0 {
		b.mu.Lock()
		b.cleaned()
		b.mu.Unlock()
		return
	}
	var stay []*segmentFile
	var gone, room int64
	for _, s := range list {
		err := b.o.FS.Remove(s.name)
		if f := s.file; f != nil {
			s.file = nil
			if aside {
				b.freeing.Go(func() { _ = f.Close() })
			} else {
				_ = f.Close()
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			b.o.Log.Error("buffer cannot remove a segment that is not needed any more", "segment", s.name, "error", err)
			stay = append(stay, s)
			continue
		}
		gone += s.length
		room += max(s.length, s.alloc)
	}
	b.mu.Lock()
	b.used -= gone
	b.account()
	b.freed(room)
	b.condemned = append(b.condemned, stay...)
	b.dirty = b.dirty || len(stay) > 0
	b.roomWait.wakeAll()
	b.cleaned()
	b.mu.Unlock()
}

// cleaned notes that what condemnFinished has found is gone. mu is held.
func (b *Buffer) cleaned() {
	if b.cleaning {
		b.cleaning = false
		b.roomWait.wakeAll()
	}
}

// syncDrop makes the record of a drop durable before the segment is removed: after a power
// cut it would be taken for damage otherwise. It tells whether the
// record is there. journalMu is held.
func (b *Buffer) syncDrop() bool {
	j := &b.journal
	if b.volatile {
		return true
	}
	if j.file != nil && !j.unsure && b.o.Durability != OS {
		// Also if it is bad: it may have taken the first of several records.
		if err := j.file.Datasync(); err != nil {
			j.bad, j.unsure = err, true
			return false
		}
	}
	if len(j.owed) > 0 {
		return b.writeDoor() && b.syncDoor()
	}
	return j.file != nil && j.bad == nil
}

// droppable returns the index of the oldest segment that the reader has not begun, or -1.
func (b *Buffer) droppable() int {
	if len(b.condemned) > 0 {
		return -1
	}
	for i, s := range b.segments {
		if s.start.Seq >= b.reader.pos.Seq && s != b.reader.seg && s.size > 0 && s.refs == 0 && !s.guess && !b.booked(i) {
			return i
		}
	}
	return -1
}

// booked tells whether a part of segment i was found damaged before a restart and is to be
// passed again: it must not be booked twice.
func (b *Buffer) booked(i int) bool {
	end := b.stored.Seq
	if i+1 < len(b.segments) {
		end = b.segments[i+1].first
	}
	for _, d := range b.drops {
		// Segments that were dropped as a whole may follow; a drop that begins in the middle
		// of a segment is damage.
		if d.Reason == ledger.Damaged && d.Start.Seq < end && b.segments[i].first < d.End.Seq {
			return true
		}
	}
	return false
}

func (b *Buffer) insertDrop(d *drop) {
	i := len(b.drops)
	for i > 0 && b.drops[i-1].Start.Seq > d.Start.Seq {
		i--
	}
	b.drops = append(b.drops, nil)
	copy(b.drops[i+1:], b.drops[i:])
	b.drops[i] = d
}

// endedIn counts the events of batches [from, to) that had ended before the restart.
func (b *Buffer) endedIn(from, to uint64) (events uint64) {
	for seq, spans := range b.restored {
		if seq >= from && seq < to {
			for _, s := range spans {
				events += uint64(s.Count)
			}
		}
	}
	return events
}

// countTags reads a segment for how much of each tag is in it, for each of the drops that it
// becomes, and returns the ids of its last batches. mu is not held.
func (b *Buffer) countTags(s *segmentFile, size int64, limit uint64, drops []*drop) (ids []event.Chunk) {
	seq, list := s.start.Seq, drops
	for off := int64(0); off < size && len(list) > 0; {
		res := b.readFrame(s, off, size, seq, limit)
		if res.err != nil {
			break // there is no time to wait: whose events the rest are stays unknown
		}
		off = res.next
		if res.f == nil {
			seq = max(seq, res.end.Seq)
			continue
		}
		for len(list) > 1 && res.f.hdr.Start.Seq >= list[0].End.Seq {
			list = list[1:]
		}
		seq = res.f.hdr.End().Seq
		ids = list[0].count(res.f.payload(), ids)
		b.pool.release(res.f)
	}
	for _, d := range drops {
		d.Tags, d.sums = tagList(d.sums), nil
	}
	return ids
}

// count adds the batches of a payload to d's tags, and their ids to ids.
func (d *drop) count(payload []byte, ids []event.Chunk) []event.Chunk {
	if d.sums == nil {
		d.sums = map[string]*segment.TagLoss{}
	}
	for at := 0; at < len(payload); {
		t, next, err := segment.NextBatch(payload, at)
		if err != nil {
			break
		}
		addTag(d.sums, t.Tag, Loss{Events: uint64(t.Count), Bytes: uint64(t.Len), First: t.First, Last: t.Last})
		if !t.Chunk.IsZero() {
			ids = appendChunks(ids, segment.MaxChunks, t.Chunk)
		}
		at = next
	}
	return ids
}

// tagList lists sums by tag.
func tagList(sums map[string]*segment.TagLoss) []segment.TagLoss {
	list := make([]segment.TagLoss, 0, len(sums))
	for _, t := range sums {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(x, y segment.TagLoss) int { return strings.Compare(x.Tag, y.Tag) })
	return list
}

// addTag adds a loss to the sums of its tag.
func addTag[T string | []byte](sums map[string]*segment.TagLoss, tag T, l Loss) {
	sum := sums[string(tag)]
	if sum == nil {
		name := strings.Clone(string(tag))
		if len(sums) >= segment.MaxTags {
			name = ""
			sum = sums[name]
		}
		if sum == nil {
			sum = &segment.TagLoss{Tag: name}
			sums[name] = sum
		}
	}
	sum.Add(tagLoss("", l))
}

func tagLoss(tag string, l Loss) *segment.TagLoss {
	return &segment.TagLoss{Tag: tag, Events: l.Events, Bytes: l.Bytes, First: int64(l.First), Last: int64(l.Last)}
}
