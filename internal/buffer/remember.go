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

// kept is what journal and checkpoint remember.
type kept struct {
	state  segment.State
	found  bool   // there was anything
	damage string // what was wrong with it
	write  uint64
	chunks []event.Chunk // of the batches stored last, as the checkpoint knows them
	given  []event.Chunk // of batches that were given up since
	whole  bool          // all of it came from the journal of generation state.Gen
	good   int64         // length of the journal

	numbers uint64 // given, as far as the checkpoint knows

	door segment.Door      // the door file
	lost []segment.DoorGap // of it: gaps that the state does not have
	owed []segment.DoorGap // what the state has from it alone
}

// loadKept reads journal and checkpoint. The journal has everything; the checkpoint stands
// in where the journal lost what it once had.
func loadKept(fs vfs.FS, dir string, f *files) (k kept, err error) {
	var check segment.Checkpoint
	haveCheck := false
	if f.check {
		b, err := readAll(fs, path.Join(dir, checkpointName))
		if err != nil {
			return k, err
		}
		c, worn, err := segment.ReadCheckpoint(b)
		if err != nil || worn {
			k.damage = "checkpoint"
		}
		check, haveCheck = c, err == nil
		k.write, k.chunks, k.numbers = c.Write, c.Chunks, c.Numbers
	}
	if f.door {
		b, err := readAll(fs, path.Join(dir, doorName))
		if err != nil {
			return k, err
		}
		k.door, _ = segment.ReadDoor(b)
	}
	for i := len(f.journals) - 1; i >= 0 && !k.found; i-- {
		b, err := readAll(fs, path.Join(dir, journalName(f.journals[i])))
		if err != nil {
			return k, err
		}
		s, good, err := segment.Replay(b)
		if err != nil || s.Gen != f.journals[i] {
			continue // one that was being begun, or damage: then the checkpoint has more
		}
		k.state, k.found, k.whole, k.good = s, true, true, int64(good)
		k.given = s.Chunks
		if haveCheck && (check.Gen > s.Gen || check.Gen == s.Gen && check.Journal > int64(good)) {
			k.damage, k.whole = "settle journal", false
			if check.Gen > s.Gen {
				s = segment.State{} // it may speak of a time that was forgotten since
				k.takeDoor(&s, &check.State)
			} else {
				k.takeDoor(&s, &s)
			}
			check.BookDoor(&k.door)
			k.state = merge(check.State, &s)
		} else {
			if haveCheck && check.Gen == s.Gen {
				k.state.Advance(check.Mark) // the reader passed what had ended before
			}
			k.takeDoor(&k.state, &k.state)
			k.state.BookDoor(&k.door)
		}
	}
	if !k.found && haveCheck {
		k.damage = "settle journal"
		var s segment.State
		k.takeDoor(&s, &check.State)
		check.BookDoor(&k.door)
		k.state, k.found = merge(check.State, &s), true
	}
	if haveCheck && check.Stored.Seq > k.state.Stored.Seq {
		k.state.Stored = check.Stored
	}
	return k, nil
}

// takeDoor adds to s the runs that were given up of which only the door file knows, and lists
// what is left of it. has tells what is known without it.
func (k *kept) takeDoor(s, has *segment.State) {
	for _, g := range has.Unrecorded(&k.door) {
		switch {
		case g.Miss:
			k.lost = append(k.lost, g)
			continue
		case g.End.Seq > has.Mark.Seq && s.Place(&g) == nil:
			s.Drops = append(s.Drops, g.Drop)
		}
		g.Tags = slices.Clone(g.Tags) // a Drop's are added to in place
		k.owed = append(k.owed, g)
	}
}

// merge takes the checkpoint's state with the details that the journal still has. What
// ended behind the mark without details will be handed out and booked again: it is taken
// out of the sheet.
func merge(c segment.State, j *segment.State) segment.State {
	known := uint64(0)
	for _, d := range j.Drops {
		if d.End.Seq > c.Mark.Seq {
			c.Drops = append(c.Drops, d)
			known += d.Ended()
		}
	}
	for _, p := range j.Parts {
		if p.Seq >= c.Mark.Seq && !covered(c.Drops, p.Seq) {
			c.Parts = append(c.Parts, p)
			known += uint64(p.Count)
		}
	}
	if c.Above > known {
		unbook(&c.Sheet, c.Above-known)
	}
	c.Above = known
	return c
}

// covered tells whether the batch seq was given up: then it has ended as a whole.
func covered(drops []segment.Drop, seq uint64) bool {
	return slices.ContainsFunc(drops, func(d segment.Drop) bool { return d.Start.Seq <= seq && seq < d.End.Seq })
}

// unbook takes n events out of the fates of s.
func unbook(s *ledger.Sheet, n uint64) {
	take := func(v *uint64) {
		k := min(*v, n)
		*v -= k
		n -= k
	}
	take(&s.Delivered)
	take(&s.Filtered)
	take(&s.Moved)
	for i := len(s.Dropped) - 1; i >= 0; i-- { // runs that were given up, which are known, come last
		take(&s.Rejected[i])
		take(&s.Dropped[i])
	}
}

// readAll reads a small file.
func readAll(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > 256<<20 {
		return nil, fmt.Errorf("%s has %d bytes: it cannot be the buffer's", name, size)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}
