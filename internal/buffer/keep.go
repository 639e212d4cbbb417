package buffer

import (
	"errors"
	"fmt"
	"math"
	"path"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

const (
	checkpointName = "checkpoint"
	journalPrefix  = "settle-"
	tmpExt         = ".tmp"

	// journalSlack is how much a journal may grow beyond four times its snapshot before it
	// is begun anew; so much is reserved on disk, so that parts can be settled (which makes
	// room) while the disk is full.
	journalSlack = 1 << 20
	leanSlack    = 40 << 10 // likewise, of a lean buffer
)

func (b *Buffer) slack() int64 {
	if b.o.Lean {
		return leanSlack
	}
	return journalSlack
}

func journalName(gen uint64) string { return fmt.Sprintf("%s%016x", journalPrefix, gen) }

// journal is the settle journal that is written to, and the checkpoint. Guarded by
// Buffer.journalMu; file and checkpoint are replaced by the committer only.
type journal struct {
	rec    segment.Builder
	file   vfs.File // nil: none yet
	name   string
	gen    uint64 // of the journal that has everything up to some time
	top    uint64 // highest generation of any file
	size   int64
	head   int64         // length of the snapshot
	bad    error         // why the file does not have everything; it is then begun anew
	unsure bool          // a sync of it has failed
	renew  bool          // it is to be begun anew
	late   bool          // that failed, and the log says so
	door   ledger.Sheet  // as last recorded
	write  uint64        // number of the last checkpoint
	check  vfs.File      // the checkpoint; nil: to be made
	slot   [2]segmentPad // written alternately

	doorFile doorFile
	owed     []segment.DoorGap // drops that the file should have and does not
	firm     int               // so many of them stay as they are
}

type segmentPad = [segment.SlotSize]byte

// record appends a record to the journal with a plain write, and tells whether it is there.
// journalMu is held.
func (b *Buffer) record(rec []byte) bool {
	j := &b.journal
	if b.volatile {
		return true
	}
	if j.bad != nil || j.file == nil {
		return false
	}
	if _, err := j.file.WriteAt(rec, j.size); err != nil {
		j.bad = err
		b.o.Log.Error("buffer cannot write its settle journal; what is delivered now is repeated after a crash",
			"journal", j.name, "error", err)
		return false
	}
	j.size += int64(len(rec))
	return true
}

// state is what a checkpoint remembers. journalMu and mu are held.
func (b *Buffer) state() segment.State {
	return segment.State{
		Log:    b.id,
		Gen:    b.journal.gen,
		Mark:   b.mark,
		Next:   b.next,
		Stored: b.stored,
		Above:  b.next.Events - b.mark.Events - b.pending(),
		Sheet:  b.own,
		Door:   b.recordedDoor(),

		Numbers: b.numbers,
		Open:    b.openNumbers(true),
	}
}

// door is what was booked beside the log, without the gaps that are not written down yet:
// a gap and its events are remembered together or not at all. mu is held.
func (b *Buffer) door() ledger.Sheet { return minus(minus(b.o.Book.Sheet(), b.own), b.unsaid) }

// minus is what a has beyond c.
func minus(a, c ledger.Sheet) ledger.Sheet {
	a.Admitted -= c.Admitted
	a.Delivered -= c.Delivered
	a.Filtered -= c.Filtered
	a.Moved -= c.Moved
	for i := range a.Dropped {
		a.Dropped[i] -= c.Dropped[i]
		a.Rejected[i] -= c.Rejected[i]
	}
	return a
}

// details adds to s what has ended behind the mark. mu is held.
func (b *Buffer) details(s *segment.State) {
	var spans []Span
	for _, h := range b.window.list[b.window.head:] {
		if h.drop != nil {
			if h.end.Events >= h.start.Events {
				s.Drops = append(s.Drops, h.drop.Drop)
			}
			continue
		}
		for i := 0; i+1 < len(h.starts); i++ {
			seq := h.start.Seq + uint64(i)
			if seq < b.mark.Seq {
				continue
			}
			spans = h.spans(spans[:0], uint64(h.starts[i]), uint64(h.starts[i+1]))
			for _, p := range spans {
				s.Parts = append(s.Parts, segment.Part{Seq: seq, First: p.First, Count: p.Count})
			}
		}
	}
	for seq, spans := range b.restored {
		for _, p := range spans {
			s.Parts = append(s.Parts, segment.Part{Seq: seq, First: p.First, Count: p.Count})
		}
	}
	for _, d := range b.drops {
		if d.ready {
			s.Drops = append(s.Drops, d.Drop)
		}
	}
}

// persist writes a checkpoint if anything changed, and then removes segments that it
// covers. Only the committer calls it.
func (b *Buffer) persist() {
	b.mu.Lock()
	if b.volatile {
		mark := b.mark.Seq
		b.dirty = false
		b.mu.Unlock()
		b.condemnFinished(mark)
		b.removeCondemned(true)
		return
	}
	if !b.dirty {
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	state, covered, err := b.syncJournal()
	if err != nil {
		b.o.Log.Error("buffer cannot sync its settle journal; it begins another one", "dir", b.o.Dir, "error", err)
		covered = math.MaxInt64
	}
	if err := b.writeCheckpoint(state, covered); err != nil {
		b.o.Log.Error("buffer cannot write its checkpoint; finished segments stay until it can", "dir", b.o.Dir, "error", err)
		b.mu.Lock()
		b.dirty = true
		b.mu.Unlock()
		return
	}
	if covered == math.MaxInt64 {
		// Given-up segments wait for a journal that tells of them; those before the mark need
		// none.
		b.mu.Lock()
		waiting := b.condemned
		b.condemned = nil
		b.mu.Unlock()
		b.condemnFinished(state.Mark.Seq)
		b.removeCondemned(true)
		b.mu.Lock()
		b.condemned = append(b.condemned, waiting...)
		b.mu.Unlock()
		return
	}
	b.condemnFinished(state.Mark.Seq)
	b.removeCondemned(true)
}

// syncJournal makes the journal durable and returns the state that it then leads to, and
// its length; MaxInt64 if the journal does not have everything.
func (b *Buffer) syncJournal() (segment.State, int64, error) {
	j := &b.journal
	b.journalMu.Lock()
	b.mu.Lock()
	state := b.state()
	b.dirty = false
	again := b.journalGrown()
	full := state
	if again {
		full.Door, full.Open = b.door(), b.openNumbers(false)
		b.details(&full)
		full.Chunks = b.chunks
	}
	b.mu.Unlock()
	if again {
		err := b.beginJournal(&full)
		switch {
		case err == nil:
			state.Gen, state.Door, state.Open = j.gen, full.Door, full.Open
			j.door = state.Door
			defer b.journalMu.Unlock()
			return state, j.size, nil // it is durable already
		case j.file == nil || j.bad != nil:
			j.bad = err
			b.journalMu.Unlock()
			return state, math.MaxInt64, nil
		case !vfs.IsFull(err) && !j.late:
			b.o.Log.Error("buffer cannot begin another settle journal; it goes on with the old one", "dir", b.o.Dir, "error", err)
			j.late = true
		}
		// The old one goes on: on a full disk it has some room left.
	}
	if state.Door != j.door && b.record(j.rec.Door(&state.Door)) {
		j.door = state.Door
	}
	covered, file := j.size, j.file
	if j.bad != nil {
		covered = math.MaxInt64
	}
	b.journalMu.Unlock()
	err := file.Datasync()
	if err != nil {
		b.journalMu.Lock()
		j.bad, j.unsure = err, true
		b.journalMu.Unlock()
	}
	return state, covered, err
}

// journalGrown tells whether the journal is to be begun anew. journalMu is held.
func (b *Buffer) journalGrown() bool {
	j := &b.journal
	return j.file == nil || j.bad != nil || j.renew || j.size > 4*j.head+b.slack() || len(j.owed) > 0
}

// beginJournal writes a new journal that begins with s and removes the old one. journalMu
// is held.
func (b *Buffer) beginJournal(s *segment.State) error {
	j := &b.journal
	j.top++
	s.Gen = j.top
	name := path.Join(b.o.Dir, journalName(s.Gen))
	f, err := b.create(name)
	if err != nil {
		return fmt.Errorf("begin settle journal: %w", err)
	}
	rec := j.rec.Snapshot(s)
	if err := b.fillJournal(f, rec); err != nil {
		return errors.Join(fmt.Errorf("begin settle journal %s: %w", name, err), f.Close(), b.o.FS.Remove(name))
	}
	if j.file != nil {
		_ = j.file.Close()
		if err := b.o.FS.Remove(j.name); err != nil {
			b.o.Log.Warn("buffer cannot remove its old settle journal", "journal", j.name, "error", err)
		}
	}
	j.file, j.name, j.gen, j.bad = f, name, s.Gen, nil
	j.size, j.head = int64(len(rec)), int64(len(rec))
	j.owed, j.firm, j.unsure, j.renew, j.late = nil, 0, false, false, false
	return nil
}

// adopt goes on with a journal of the time before, when there is no room for a new one.
// journalMu is held.
func (b *Buffer) adopt(gen uint64, good int64) error {
	name := path.Join(b.o.Dir, journalName(gen))
	f, err := b.o.FS.Open(name)
	if err != nil {
		return fmt.Errorf("go on with settle journal: %w", err)
	}
	size, err := f.Size()
	if err == nil && size > good {
		// Not cut off: what is reserved behind it would go too.
		_, err = f.WriteAt(make([]byte, size-good), good)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("go on with settle journal %s: %w", name, err), f.Close())
	}
	j := &b.journal
	j.file, j.name, j.gen, j.bad = f, name, gen, nil
	j.size, j.head = good, good
	return nil
}

// adoptCheckpoint goes on with the checkpoint file of the time before, when there is no
// room for a new one.
func (b *Buffer) adoptCheckpoint() error {
	f, err := b.o.FS.Open(path.Join(b.o.Dir, checkpointName))
	if err != nil {
		return fmt.Errorf("go on with checkpoint: %w", err)
	}
	b.journal.check = f
	return nil
}

func (b *Buffer) fillJournal(f vfs.File, rec []byte) error {
	// A fifth more, for a time in which no new journal can be begun.
	if err := f.Allocate(5*int64(len(rec)) + b.slack() + b.slack()/5); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := f.WriteAt(rec, 0); err != nil {
		return err
	}
	if err := f.Datasync(); err != nil {
		return err
	}
	return b.o.FS.SyncDir(b.o.Dir)
}

// writeCheckpoint writes the slot that was not written last. Only the committer calls it.
func (b *Buffer) writeCheckpoint(s segment.State, covered int64) error {
	j := &b.journal
	c := segment.Checkpoint{State: s, Write: j.write + 1, Journal: covered}
	c.Chunks = b.chunks
	slot := segment.AppendSlot(j.slot[c.Write%2][:0], &c) // fills the slot's own memory
	if j.check == nil {
		if err := b.makeCheckpoint(); err != nil {
			return err
		}
	} else {
		_, err := j.check.WriteAt(slot, int64(c.Write%2)*segment.SlotSize)
		if err == nil {
			err = j.check.Datasync()
		}
		if err != nil {
			_ = j.check.Close()
			j.check = nil // its state on disk is unknown: write another one
			return err
		}
	}
	j.write = c.Write
	return nil
}

// makeCheckpoint writes both slots, as they are in memory, to a new file and puts it in
// place.
func (b *Buffer) makeCheckpoint() error {
	j := &b.journal
	name := path.Join(b.o.Dir, checkpointName)
	f, err := b.create(name + tmpExt)
	if err != nil {
		return fmt.Errorf("make checkpoint: %w", err)
	}
	for i := range j.slot {
		if err == nil {
			_, err = f.WriteAt(j.slot[i][:], int64(i)*segment.SlotSize)
		}
	}
	if err == nil {
		err = f.Datasync()
	}
	if err == nil {
		err = b.o.FS.Rename(name+tmpExt, name)
	}
	if err == nil {
		err = b.o.FS.SyncDir(b.o.Dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make checkpoint: %w", err), f.Close())
	}
	j.check = f
	return nil
}

// calmAfter is how long everything must have fitted before a time of fullness counts as
// over: at the limit each piece that leaves makes room for the next one only, and with
// drop_oldest_chunk that goes on for as long as the trouble lasts.
const calmAfter = 2 * time.Second

// report writes the log lines about states that began or ended. Only the committer calls it.
func (b *Buffer) report() {
	b.mu.Lock()
	full := b.full
	var began, over bool
	var mended time.Time
	if !full.since.IsZero() {
		began = !full.logged
		b.full.logged = true
		over = b.roomFor(b.limit/16) == ledger.None && time.Since(full.last) >= calmAfter
		if over {
			b.full = fullState{}
		}
	}
	if b.fault == nil && !b.faultSince.IsZero() {
		mended, b.faultSince = b.faultSince, time.Time{}
	}
	why := b.noSpace
	b.mu.Unlock()
	if began {
		b.o.Log.Warn("buffer is full", "dir", b.o.Dir, "reason", full.reason.String(), "limit", b.o.Limit, "disk", why)
	}
	if over {
		b.o.Log.Info("buffer has room again", "dir", b.o.Dir, "reason", full.reason.String(),
			"duration", time.Since(full.since).Round(time.Millisecond), "events_refused", full.refused, "events_dropped", full.dropped)
	}
	if !mended.IsZero() {
		b.o.Log.Info("buffer can write again", "dir", b.o.Dir, "duration", time.Since(mended).Round(time.Millisecond))
	}
}
