package buffer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
)

// drop is a run of batches that was given up and that the reader has not passed.
type drop struct {
	segment.Drop
	ready bool // its counts are known
}

func (d *drop) gap() *Gap {
	g := &Gap{
		First:  Seq(d.Start.Seq),
		Last:   Seq(d.End.Seq - 1),
		Events: d.Events,
		Reason: d.Reason,
		Tags:   make(map[string]Loss, len(d.Tags)),
	}
	for _, t := range d.Tags {
		g.Tags[t.Tag] = Loss{Events: t.Events, Bytes: t.Bytes, First: event.Time(t.First), Last: event.Time(t.Last)}
	}
	return g
}

// maxDropTags bounds how many tags of a dropped run are told apart; the rest is told
// together under the empty tag.
const maxDropTags = 4096

// nextDrop returns the drop at the reader, if there is one. mu is held.
func (b *Buffer) nextDrop() *drop {
	if len(b.drops) > 0 && b.drops[0].Start.Seq <= b.reader.pos.Seq {
		return b.drops[0]
	}
	return nil
}

// passDrop moves the reader over the first drop. mu is held.
func (b *Buffer) passDrop(d *drop) *Gap {
	b.drops[0] = nil
	b.drops = b.drops[1:]
	b.ahead -= d.Events
	b.ahead -= b.forget(d.Start.Seq, d.End.Seq)
	h := b.window.take()
	*h = held{start: b.reader.pos, end: d.End, starts: h.starts[:0], done: h.done[:0], drop: d}
	b.window.push(h)
	b.reader.pos = d.End
	b.passed()
	return d.gap()
}

// forget takes batches [from, to) out of restored and returns how many of their events had
// ended.
func (b *Buffer) forget(from, to uint64) (events uint64) {
	for seq, spans := range b.restored {
		if seq >= from && seq < to {
			for _, s := range spans {
				events += uint64(s.Count)
			}
			delete(b.restored, seq)
		}
	}
	return events
}

// damagedBytes is where damage lies in a file.
type damagedBytes struct {
	s        *segmentFile
	off, len int64
}

// passDamage books what lies between the reader and end, and has not ended, as damaged and
// moves the reader there. mu is held at entry and return, and not between.
func (b *Buffer) passDamage(end segment.Pos, at damagedBytes) *Gap {
	b.mu.Unlock()
	b.journalMu.Lock()
	b.mu.Lock()
	start := b.reader.pos
	if len(b.drops) > 0 && b.drops[0].Start.Seq < end.Seq {
		end = b.drops[0].Start // what follows was given up and booked before
	}
	ended := b.forget(start.Seq, end.Seq)
	b.ahead -= ended
	d := &drop{ready: true, Drop: segment.Drop{Start: start, End: end, Reason: ledger.Damaged}}
	if end.Events >= start.Events+ended {
		d.Events = end.Events - start.Events - ended
	}
	b.bookDrop(d)
	b.drops = append([]*drop{d}, b.drops...)
	gap := b.passDrop(d)
	if d.Events == 0 {
		// All of it had ended, and its segment was removed.
		b.journalMu.Unlock()
		return nil
	}
	b.mu.Unlock()
	b.record(b.journal.rec.Drop(&d.Drop))
	b.journalMu.Unlock()
	name := "-"
	if at.s != nil {
		name = at.s.name
		b.keepAside(at)
	}
	b.o.Log.Error("buffer found damaged data; what can be read goes on", "dir", b.o.Dir, "segment", name, "offset", at.off,
		"bytes", at.len, "batches", end.Seq-start.Seq, "events", d.Events)
	b.mu.Lock()
	return gap
}

// bookDrop books d's events. They count as ended ahead of the reader. mu is held.
func (b *Buffer) bookDrop(d *drop) {
	fate := ledger.Fate{Class: ledger.Dropped, Reason: d.Reason}
	b.own.Add(fate, d.Events)
	b.o.Book.End(fate, int(d.Events))
	b.ahead += d.Events
	b.dirty = true
}

// Damaged pieces are kept for whoever wants to look at them, within these bounds.
const (
	maxAside     = 16
	maxAsideSize = 16 << 20
	damagedExt   = ".damaged"
)

// keepAside copies damaged bytes to a file of their own. The reader still holds s by its
// position, so the file is there. mu is not held.
func (b *Buffer) keepAside(at damagedBytes) {
	if b.volatile || at.len == 0 {
		return
	}
	b.mu.Lock()
	err := b.openFile(at.s)
	if err == nil {
		at.s.refs++
	}
	n := b.aside
	b.aside++
	b.mu.Unlock()
	if err != nil {
		return
	}
	defer func() {
		b.mu.Lock()
		b.unref(at.s)
		b.mu.Unlock()
	}()
	if n >= maxAside {
		return
	}
	name := fmt.Sprintf("%s-%d%s", at.s.name, at.off, damagedExt)
	if err := b.copyAside(name, at); err != nil {
		b.o.Log.Warn("buffer cannot keep damaged data aside", "file", name, "error", err)
	}
}

func (b *Buffer) copyAside(name string, at damagedBytes) (err error) {
	buf := make([]byte, min(at.len, maxAsideSize))
	n, rerr := at.s.file.ReadAt(buf, at.off)
	if n == 0 {
		return rerr
	}
	f, err := b.o.FS.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	_, err = f.WriteAt(buf[:n], 0)
	return err
}

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
	d := &drop{Drop: segment.Drop{Start: s.start, End: end, Reason: reason}}
	b.segments = append(b.segments[:i:i], b.segments[i+1:]...)
	b.insertDrop(d)
	for f := b.mem.unread; f != nil && f.hdr.Start.Seq < end.Seq; f = b.mem.unread {
		b.mem.remove(f)
	}
	b.dropping = true
	err := b.openFile(s)
	s.refs++
	size := s.size
	b.mu.Unlock()

	if err == nil {
		d.Tags = b.countTags(s, size, end.Seq)
	}
	b.journalMu.Lock()
	b.mu.Lock()
	d.Events = end.Events - d.Start.Events - b.endedIn(d.Start.Seq, end.Seq)
	d.ready = true
	b.bookDrop(d)
	b.full.dropped += d.Events
	b.mu.Unlock()
	b.record(b.journal.rec.Drop(&d.Drop))
	// Without the record a restart would find the segment missing and call it damage. It then
	// goes when there is a new journal.
	known := b.syncDrop()
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
		return
	}
	var stay []*segmentFile
	var gone int64
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
	}
	b.mu.Lock()
	b.used -= gone
	b.condemned = append(b.condemned, stay...)
	b.dirty = b.dirty || len(stay) > 0
	b.roomWait.wakeAll()
	b.mu.Unlock()
}

// syncDrop makes the record of a drop durable before the segment is removed: after a power
// cut it would be taken for damage otherwise. It tells whether the
// record is there. journalMu is held.
func (b *Buffer) syncDrop() bool {
	j := &b.journal
	if b.volatile {
		return true
	}
	if j.bad == nil && j.file != nil && b.o.Durability != OS {
		j.bad = j.file.Datasync()
	}
	return j.bad == nil && j.file != nil
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

// countTags reads a segment for how much of each tag is in it. mu is not held.
func (b *Buffer) countTags(s *segmentFile, size int64, limit uint64) []segment.TagLoss {
	sums := map[string]*segment.TagLoss{}
	seq := s.start.Seq
	for off := int64(0); off < size; {
		res := b.readFrame(s, off, size, seq, limit)
		off = res.next
		if res.f == nil {
			seq = max(seq, res.end.Seq)
			continue
		}
		seq = res.f.hdr.End().Seq
		payload := res.f.payload()
		for at := 0; at < len(payload); {
			t, next, err := segment.NextBatch(payload, at)
			if err != nil {
				break
			}
			addTag(sums, &t)
			at = next
		}
		b.pool.release(res.f)
	}
	list := make([]segment.TagLoss, 0, len(sums))
	for _, t := range sums {
		list = append(list, *t)
	}
	return list
}

func addTag(sums map[string]*segment.TagLoss, t *segment.Batch) {
	l := sums[string(t.Tag)]
	if l == nil {
		tag := string(t.Tag)
		if len(sums) >= maxDropTags {
			tag = ""
			l = sums[tag]
		}
		if l == nil {
			l = &segment.TagLoss{Tag: tag, First: int64(t.First), Last: int64(t.Last)}
			sums[tag] = l
		}
	}
	l.Events += uint64(t.Count)
	l.Bytes += uint64(t.Len)
	l.First = min(l.First, int64(t.First))
	l.Last = max(l.Last, int64(t.Last))
}
