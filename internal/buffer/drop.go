package buffer

import (
	"fmt"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
)

// drop is a run of batches that was given up, or a gap of events that never came into the
// buffer. Guarded by Buffer.mu.
type drop struct {
	segment.Drop
	ready  bool                        // its counts are known and written down
	number uint64                      // in the door file
	all    segment.TagLoss             // of all sums
	sums   map[string]*segment.TagLoss // becomes Tags when it is ready
	into   *drop                       // it has no Seq, but is to join this one
}

// gap tells of d from the Seq first on.
func (d *drop) gap(first uint64) *Gap {
	g := &Gap{
		First:  Seq(first),
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

// nextDrop returns the drop at the reader, if there is one. mu is held.
func (b *Buffer) nextDrop() *drop {
	if len(b.drops) > 0 && b.drops[0].Start.Seq <= b.reader.pos.Seq {
		return b.drops[0]
	}
	return nil
}

// passDrop moves the reader over the first drop. It returns nil if that was told before, or tells
// of nothing.
// mu is held.
func (b *Buffer) passDrop(d *drop) *Gap {
	b.drops[0] = nil
	b.drops = b.drops[1:]
	b.ahead -= d.Ended()
	h := b.window.take()
	*h = held{start: b.reader.pos, end: d.End, starts: h.starts[:0], done: h.done[:0], drop: d, untold: b.toTell(d)}
	if h.untold {
		b.untold++
	}
	b.window.push(h)
	b.reader.pos = d.End
	b.passed()
	if d.Told || b.o.Tell && !h.untold {
		return nil
	}
	return d.gap(h.start.Seq)
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
	ended := b.endedIn(start.Seq, end.Seq)
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
	b.record(b.journal.rec.Drop(&d.Drop, 0))
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

// bookDrop books d's events. All that it covers counts as ended ahead of the reader, also
// what had ended before. mu is held.
func (b *Buffer) bookDrop(d *drop) {
	fate := ledger.Fate{Class: ledger.Dropped, Reason: d.Reason}
	b.own.Add(fate, d.Events)
	b.o.Book.End(fate, int(d.Events))
	b.ahead += d.Ended() - b.forget(d.Start.Seq, d.End.Seq)
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
