package buffer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"syscall"

	"weir/internal/buffer/segment"
)

// errNoSpace is what a full disk says, for our own reasons to behave like one.
var errNoSpace error = syscall.ENOSPC

// recoverSegments opens the segment files and sets stored, the end of the numbering.
func (b *Buffer) recoverSegments(firsts []uint64, k *kept) error {
	for _, first := range firsts {
		s := &segmentFile{first: first, name: path.Join(b.o.Dir, segmentName(first))}
		if err := b.openFile(s); err != nil {
			return err
		}
		size, err := s.file.Size()
		if err != nil {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
		s.size, s.length = size, size
		b.segments = append(b.segments, s)
		b.used += size
	}
	var err error
	if b.id == 0 {
		if b.id, err = b.findID(); err != nil {
			return err
		}
	}
	end, err := b.recoverTail()
	if err != nil {
		return err
	}
	if err := b.noteEarlier(k.state.Drops); err != nil {
		return err
	}
	if n := len(b.segments); n > 0 {
		b.segments[n-1].end = end
		if err := b.rewrite(b.segments[n-1], k.state.Stored.Seq); err != nil {
			b.o.Log.Error("buffer cannot make the end of its last segment durable", "segment", b.segments[n-1].name, "error", err)
		}
	}
	for i := range b.segments {
		if err := b.findStart(i, k); err != nil {
			return err
		}
	}
	if !k.found {
		// Nothing is remembered: what is in the files has not ended.
		k.state.Mark = segment.Pos{Seq: 1}
		if len(b.segments) > 0 {
			k.state.Mark = b.segments[0].start
			k.damage = "checkpoint and settle journal are missing"
		}
		k.state.Next = k.state.Mark
		k.state.Sheet.Admitted = 0
		k.state.Log = b.id
	}
	b.stored = k.state.Mark
	for _, p := range []segment.Pos{end, k.state.Stored} {
		// Stored without being there is damage, which the reader will find and book.
		if p.Seq > b.stored.Seq {
			b.stored = p
		}
	}
	for _, d := range k.state.Drops {
		if d.End.Seq > b.stored.Seq {
			b.stored = d.End
		}
	}
	b.stored = behindParts(b.stored, k.state.Parts)
	b.placeLost(k)
	b.closeUnread()
	return nil
}

// placeLost gives the gaps of which only the door file knows their places. What stood
// before a gap may never have been stored: then it stands at the end.
func (b *Buffer) placeLost(k *kept) {
	for _, g := range k.lost {
		t := k.state.Place(&g)
		switch {
		case t != nil:
			if t.End.Seq > b.stored.Seq {
				b.stored = t.End
			}
		case g.Told || g.Start.Seq < k.state.Mark.Seq: // the reader has passed it
		case g.Start.Seq == g.End.Seq || g.End.Seq > b.stored.Seq || !b.hole(&g, &k.state):
			g.Start, g.End = b.stored, b.stored
			g.End.Seq++
			b.stored = g.End
			fallthrough
		default:
			k.state.Drops = append(k.state.Drops, g.Drop)
		}
		g.Tags = slices.Clone(g.Tags) // a Drop's are added to in place
		k.owed = append(k.owed, g)
	}
}

// hole tells whether the numbering has a place for g where nothing else was: the door file may
// not have been written when g got another one.
func (b *Buffer) hole(g *segment.DoorGap, state *segment.State) bool {
	before, after := state.Mark, segment.Pos{Seq: math.MaxUint64}
	taken := false
	see := func(start, end segment.Pos) {
		switch {
		case end.Seq <= g.Start.Seq && end.Seq >= before.Seq:
			before = end
		case start.Seq >= g.End.Seq && start.Seq < after.Seq:
			after = start
		case start.Seq < g.End.Seq && g.Start.Seq < end.Seq:
			taken = true
		}
	}
	for _, d := range state.Drops {
		see(d.Start, d.End)
	}
	for i, s := range b.segments {
		if i+1 < len(b.segments) && b.segments[i+1].first <= g.Start.Seq {
			continue
		}
		for off := int64(0); off < s.size && !taken; {
			h, err := segment.ReadHeader(s.file, off, s.size, b.id)
			if err != nil {
				break
			}
			see(h.Start, h.End())
			off += h.Size()
		}
		if after.Seq <= s.first {
			break
		}
	}
	return !taken && before.Events == g.Start.Events && (after.Seq == math.MaxUint64 || after.Events == g.End.Events)
}

// endedBefore counts the events of parts of batches before seq: so many lie between the
// mark and seq at least.
func endedBefore(seq uint64, parts []segment.Part) (events uint64) {
	for _, x := range parts {
		if x.Seq < seq {
			events += uint64(x.Count)
		}
	}
	return events
}

// behindParts moves end behind batches that were settled and are not in the files: without
// fdatasync a power cut can lose what was delivered already. Their Seqs must not be given
// again, or new batches would count as settled.
func behindParts(end segment.Pos, parts []segment.Part) segment.Pos {
	p := end
	for _, x := range parts {
		if x.Seq >= end.Seq {
			p.Seq = max(p.Seq, x.Seq+1)
			p.Events += uint64(x.Count)
		}
	}
	return p
}

// removeDropped removes segments that were given up but came back, because the power was
// cut before their removal was durable.
func (b *Buffer) removeDropped() error {
	var keep []*segmentFile
	for i, s := range b.segments {
		if b.givenUp(s.first, b.segmentEnd(i)) {
			if err := b.o.FS.Remove(s.name); err != nil {
				return fmt.Errorf("remove a segment that was given up: %w", err)
			}
			b.used -= s.length
			continue
		}
		keep = append(keep, s)
	}
	b.segments = keep
	return nil
}

// givenUp tells whether drops cover all of [seq, end). Damage may take a part of a segment, and
// of a segment given up in several pieces not all may be remembered.
func (b *Buffer) givenUp(seq, end uint64) bool {
	for _, d := range b.drops {
		if !d.Miss && d.Start.Seq <= seq && seq < d.End.Seq {
			for _, d := range b.drops {
				if d.Start.Seq <= seq && seq < d.End.Seq {
					seq = d.End.Seq
				}
			}
			return seq >= end
		}
	}
	return false
}

// closeUnread leaves files closed until they are read.
func (b *Buffer) closeUnread() {
	for _, s := range b.segments {
		_ = s.file.Close()
		s.file = nil
	}
}

// findID takes the log's identity from the first frame of any segment, if the checkpoint
// does not tell it.
func (b *Buffer) findID() (uint64, error) {
	for _, s := range b.segments {
		h, err := segment.ReadHeader(s.file, 0, s.size, 0)
		switch {
		case err == nil || errors.Is(err, segment.ErrShort):
			return h.Log, nil
		case !Lasting(err):
			return 0, fmt.Errorf("read %s: %w", s.name, err)
		}
	}
	return newID(), nil
}

// recoverTail reads the last segment, cuts off what lies behind its last good frame, and
// returns the numbering at its end. Bytes behind it are what a crash in the middle of a
// write leaves: nobody was told that they are stored, so they are no damage.
func (b *Buffer) recoverTail() (end segment.Pos, err error) {
	for len(b.segments) > 0 {
		s := b.segments[len(b.segments)-1]
		good, end, err := b.scan(s, s.size, true)
		if err != nil {
			return end, err
		}
		if good < s.size {
			if err := b.cut(s, good); err != nil {
				return end, err
			}
		}
		if good > 0 {
			return end, nil
		}
		// Nothing in it: it was being begun.
		if err := s.file.Close(); err != nil {
			return end, err
		}
		if err := b.o.FS.Remove(s.name); err != nil {
			return end, err
		}
		b.used -= s.length
		b.segments = b.segments[:len(b.segments)-1]
	}
	return segment.Pos{}, nil
}

// rewrite writes the frames from Seq from on once more and syncs them. They can be read,
// but perhaps only from the page cache: if a sync failed before the restart, the kernel
// took them for written, and would not write them with the next sync either.
func (b *Buffer) rewrite(s *segmentFile, from uint64) error {
	if b.volatile || b.o.Durability == OS {
		return nil
	}
	off := int64(0)
	for off < s.size {
		h, err := segment.ReadHeader(s.file, off, s.size, b.id)
		if err != nil || h.End().Seq > from {
			break
		}
		off += h.Size()
	}
	buf := make([]byte, max(0, min(s.size-off, 1<<20)))
	for off < s.size {
		p := buf[:min(int64(len(buf)), s.size-off)]
		if n, err := s.file.ReadAt(p, off); n < len(p) {
			return err
		}
		if _, err := s.file.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	// Without anything to write this still makes the length durable, so that what was cut off
	// stays away.
	if err := s.file.Datasync(); err != nil {
		return err
	}
	return b.o.FS.SyncDir(b.o.Dir)
}

// scan walks s, skipping what is no frame, and returns where its last good frame ends.
// With payloads they are verified too.
func (b *Buffer) scan(s *segmentFile, size int64, payloads bool) (good int64, end segment.Pos, err error) {
	f := b.pool.get(smallest)
	defer func() { b.pool.release(f) }()
	for off := int64(0); off < size; {
		h, err := segment.ReadHeader(s.file, off, size, b.id)
		if errors.Is(err, segment.ErrVersion) || err != nil && !Lasting(err) {
			return 0, end, fmt.Errorf("read %s at %d: %w", s.name, off, err) // else a good frame might be cut off
		}
		if err != nil {
			at, found, ok, err := segment.FindHeader(s.file, off+1, size, b.id, end.Seq)
			if err != nil {
				return 0, end, fmt.Errorf("read %s: %w", s.name, err)
			}
			if !ok {
				break
			}
			off, h = at, found
		}
		if payloads {
			b.pool.release(f)
			f = b.pool.get(segment.HeaderSize + int(max(h.Raw, h.Stored)))
			if err := b.load(f, s, off, &h); err != nil && !Lasting(err) {
				return 0, end, fmt.Errorf("read %s at %d: %w", s.name, off, err) // likewise
			} else if err != nil {
				off += h.Size()
				continue
			}
			b.repeats.note(f.buf[segment.HeaderSize:segment.HeaderSize+int(h.Raw)], b.o.Repeats)
		}
		off += h.Size()
		good, end = off, h.End()
	}
	return good, end, nil
}

// cut shortens s to its good frames, and keeps the rest aside.
func (b *Buffer) cut(s *segmentFile, good int64) error {
	b.o.Log.Info("buffer cuts off the unfinished end of its last segment", "segment", s.name, "offset", good, "bytes", s.size-good)
	b.keepAside(damagedBytes{s, good, s.size - good})
	if err := b.openFile(s); err != nil {
		return err
	}
	if err := s.file.Truncate(good); err != nil {
		return fmt.Errorf("cut %s: %w", s.name, err)
	}
	if err := s.file.Datasync(); err != nil {
		return fmt.Errorf("cut %s: %w", s.name, err)
	}
	b.used -= s.length - good
	s.size, s.length = good, good
	return nil
}

// findStart sets the numbering before segment i: from its first frame or, if that is
// damaged, from the end of its predecessor.
func (b *Buffer) findStart(i int, k *kept) error {
	s := b.segments[i]
	h, err := segment.ReadHeader(s.file, 0, s.size, b.id)
	if err != nil && !errors.Is(err, segment.ErrShort) && !errors.Is(err, segment.ErrHeader) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	if (err == nil || errors.Is(err, segment.ErrShort)) && h.Start.Seq == s.first {
		s.start, s.accepted = h.Start, h.Accepted
		return nil
	}
	// What is missing is counted by the reader, from one good frame to the next, and belongs
	// to this segment: it begins where the last thing known before it ends.
	s.start, s.guess = segment.Pos{Seq: s.first}, true
	known := []segment.Pos{}
	if k.found {
		known = append(known, k.state.Mark, segment.Pos{Seq: s.first, Events: k.state.Mark.Events + endedBefore(s.first, k.state.Parts)})
	} else if _, h, ok, err := segment.FindHeader(s.file, 0, s.size, b.id, s.first); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	} else if ok && i == 0 {
		known = append(known, segment.Pos{Seq: s.first, Events: h.Start.Events, Bytes: h.Start.Bytes})
	}
	if i > 0 {
		p := b.segments[i-1]
		_, end, err := b.scan(p, p.size, false)
		if err != nil {
			return err
		}
		known = append(known, p.start, end)
	}
	for _, d := range k.state.Drops {
		known = append(known, d.End)
	}
	for _, p := range known {
		if p.Seq <= s.first && p.Events >= s.start.Events {
			s.start.Events, s.start.Bytes = p.Events, p.Bytes
		}
	}
	return nil
}
