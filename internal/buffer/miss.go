package buffer

import (
	"fmt"
	"slices"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
)

// maxGaps bounds how many gaps the reader has before it. Beyond, what is lost at the tail
// joins the last gap of the same reason, which stands earlier than it should.
const maxGaps = 256

// maxMisses is likewise how many of them may wait to be written down: so many fit the door file.
const maxMisses = 32

// Miss books events of a tag that were lost before they could be appended, and leaves a Gap
// behind everything appended so far and before everything that follows. It takes a Seq of
// its own, or joins the gap that stands there already. A killed process keeps it when Miss has
// returned.
func (b *Buffer) Miss(tag string, reason ledger.Reason, l Loss) error {
	return b.MissOnce(event.Chunk{}, tag, reason, l)
}

// MissOnce is Miss of a loss with an id, which LostIDs has after a restart.
func (b *Buffer) MissOnce(id event.Chunk, tag string, reason ledger.Reason, l Loss) error {
	b.mu.Lock()
	if b.sealed {
		b.mu.Unlock()
		return fmt.Errorf("note a loss in buffer %s: %w", b.o.Dir, ErrClosed)
	}
	if l.Events > 0 || l.Bytes > 0 {
		b.miss(tag, reason, l)
		b.lostID(id)
	}
	b.mu.Unlock()
	b.recordDoor()
	return nil
}

// lose books batches that do not fit: as a gap if gaps are told. mu is held.
func (b *Buffer) lose(a *ask, reason ledger.Reason) error {
	b.full.dropped += uint64(a.events)
	b.dirty = true
	b.losses++
	for i := range a.batches {
		b.lostID(a.batches[i].Chunk)
	}
	if !b.o.Tell {
		b.o.Book.AdmitEnded(ledger.Fate{Class: ledger.Dropped, Reason: reason}, a.events)
		return ErrDropped
	}
	for i := range a.batches {
		if t := &a.batches[i]; t.Count > 0 {
			b.miss(t.Tag, reason, lossOf(t))
		}
	}
	return ErrDropped
}

func lossOf(t *event.Batch) Loss {
	return Loss{Events: uint64(t.Count), Bytes: uint64(len(t.Entries)), First: t.First, Last: t.Last}
}

// miss adds a loss to the gap at the tail. It is written down by the committer, once a
// second or before the next batch. mu is held.
func (b *Buffer) miss(tag string, reason ledger.Reason, l Loss) {
	fate := ledger.Fate{Class: ledger.Dropped, Reason: reason}
	b.o.Book.AdmitEnded(fate, int(l.Events))
	b.unsaid.Admitted += l.Events
	b.unsaid.Add(fate, l.Events)
	d := b.tailGap(reason)
	var last *drop
	if d == nil {
		last = b.lastGap(reason)
		if last != nil && !last.ready {
			d, last = last, nil // it can still take more
		} else if i := slices.IndexFunc(b.misses, func(m *drop) bool { return m.into == last }); last != nil && i >= 0 {
			d, last = b.misses[i], nil
		}
	}
	if d == nil {
		d = &drop{Drop: segment.Drop{Reason: reason, Miss: true}, sums: map[string]*segment.TagLoss{}, into: last}
		b.place(d)
		b.kickCommitter() // it begins to count the second
	}
	d.Events += l.Events
	d.all.Add(tagLoss("", l))
	addTag(d.sums, tag, l)
	b.dirty = true
	b.losses++
}

// tailGap returns the gap of this reason behind which nothing was appended yet.
func (b *Buffer) tailGap(reason ledger.Reason) *drop {
	for _, d := range b.openGaps {
		if d.Reason == reason {
			return d
		}
	}
	return nil
}

// lastGap returns the gap that a new one has to join because there are too many.
func (b *Buffer) lastGap(reason ledger.Reason) *drop {
	if len(b.drops) < maxGaps && len(b.misses) < maxMisses {
		return nil
	}
	for _, d := range slices.Backward(b.drops) {
		if d.Miss && !d.Told && d.Reason == reason {
			return d
		}
	}
	return nil
}

// place gives d its number and, unless it joins another one, its Seq.
func (b *Buffer) place(d *drop) {
	d.number = b.number()
	b.misses = append(b.misses, d)
	b.openGaps = append(b.openGaps, d)
	d.Start = b.next
	if d.into == nil {
		b.next.Seq++
		b.drops = append(b.drops, d)
	}
	d.End = b.next
}

// endGaps makes room in the numbering for a batch behind the gaps at the tail: a frame holds
// no hole. mu is held.
func (b *Buffer) endGaps() {
	b.openGaps = b.openGaps[:0]
	if b.open.empty() || b.open.hdr.End().Seq == b.next.Seq {
		return
	}
	b.line = append(b.line, b.open)
	b.lineBytes += int64(len(b.open.buf))
	b.open = b.newFrame(smallest)
}

// recordMisses writes down the gaps that stand before seq and not behind what has still to be
// stored. Only the committer calls it.
func (b *Buffer) recordMisses(seq uint64) {
	b.journalMu.Lock()
	defer b.journalMu.Unlock()
	wrote := false
	for {
		b.mu.Lock()
		// What joins another gap has no place that something must be stored before.
		i := slices.IndexFunc(b.misses, func(d *drop) bool {
			return d.into != nil || d.Start.Seq < seq && d.Start.Seq <= b.stored.Seq
		})
		if i < 0 {
			b.mu.Unlock()
			break
		}
		d := b.misses[i]
		b.misses = slices.Delete(b.misses, i, i+1)
		b.openGaps = slices.DeleteFunc(b.openGaps, func(x *drop) bool { return x == d })
		target, ok := b.publish(d)
		door := b.recordedDoor()
		b.mu.Unlock()
		if !ok {
			continue // it waits at the tail now
		}
		wrote = true
		if b.record(b.journal.rec.Miss(target, &d.Drop, &door, d.number)) {
			b.journal.door = door
		} else {
			b.owe(d.number, target, &d.Drop)
		}
	}
	b.writeDoor() // a gap may have another place now
	if !wrote {
		return
	}
	if b.o.Durability == Sync {
		_ = b.syncDrop() // before a frame that follows; a failure is kept in journal.bad
	}
	b.mu.Lock()
	b.storedSeq.Store(b.stored.Seq - 1)
	b.storedWait.wake(b.stored.Seq)
	b.readWait.wakeAll()
	b.mu.Unlock()
}

// publish makes d known to the reader, as a gap of its own or as a part of the one that begins at
// target. False: the gap that it was to join has been passed, so it takes a place of its
// own. mu is held.
func (b *Buffer) publish(d *drop) (target uint64, ok bool) {
	if d.into != nil && !slices.Contains(b.drops, d.into) {
		d.into = b.lastGap(d.Reason)
		if d.into == nil || !d.into.ready {
			d.into = nil
			b.place(d)
			b.losses++
			return 0, false
		}
	}
	d.Tags, d.sums = tagList(d.sums), nil
	b.unsaid = minus(b.unsaid, bookedAs(d.Reason, d.Events))
	d.ready = true
	t := d.into
	if t == nil {
		t = b.neighbour(d)
	}
	if d.End.Seq > b.stored.Seq {
		b.stored = d.End
	}
	if t == nil {
		return 0, true
	}
	b.removeDrop(d)
	t.Join(&d.Drop)
	return t.Start.Seq, true
}

// toTell tells whether somebody has to be told of d before it has ended.
func (b *Buffer) toTell(d *drop) bool {
	return b.o.Tell && !d.Told && (d.Events > 0 || d.Miss)
}

// holdBack tells that d is not given to the reader yet: it stands at the very tail, behind a gap
// that waits to be told. What is lost meanwhile joins it.
func (b *Buffer) holdBack(d *drop) bool {
	if !b.toTell(d) || d.End.Seq != b.next.Seq || b.sealed {
		return false
	}
	last := b.window.back()
	return last != nil && last.untold && last.end.Seq == d.Start.Seq
}

// countUntold counts the gaps that wait to be told. mu is held.
func (b *Buffer) countUntold() int {
	if !b.o.Tell {
		return 0
	}
	n := b.untold
	for _, d := range b.drops {
		if !d.ready || b.toTell(d) {
			n++
		}
	}
	return n
}
