package buffer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"weir/internal/buffer/segment"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// Open takes the directory for this process, recovers what is in it, and starts the
// committer. It fails with vfs.ErrLocked, wrapped, if somebody else has it. The sheet of
// the time before goes into o.Book.
func Open(o Options) (*Buffer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	comp, err := segment.NewCompressor(o.Compress)
	if err != nil {
		return nil, fmt.Errorf("open buffer %s: %w", o.Dir, err)
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("open buffer: %w", err)
	}
	lock, err := o.FS.Lock(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open buffer: %w", err)
	}
	b := &Buffer{
		o:        o,
		volatile: vfs.Volatile(o.FS),
		lock:     lock,
		comp:     comp,
		limit:    o.Limit,
		ceiling:  o.Limit,
		maxOpen:  min(maxOpen, o.Segment),
		kick:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		restored: map[uint64][]Span{},
		floor:    &floor{},
		pool:     &pool{},
	}
	if o.Share != nil {
		b.floor, b.pool = &o.Share.floor, &o.Share.pool
	}
	for r := range b.refusals {
		b.refusals[r] = refusal(o.Dir, ledger.Reason(r))
	}
	b.mem = memory{pool: b.pool, limit: o.Recent}
	b.open = b.newFrame(smallest)
	if err := b.recover(); err != nil {
		b.closeFiles()
		return nil, errors.Join(fmt.Errorf("open buffer %s: %w", o.Dir, err), lock.Close())
	}
	if !o.Lean {
		b.prepareSpare()
	}
	b.account()
	go b.run()
	return b, nil
}

// files is what a buffer's directory holds.
type files struct {
	segments []uint64 // first Seqs, ascending
	journals []uint64 // generations, ascending
	check    bool
	door     bool
	spare    bool
	tmp      bool
	aside    int
	unknown  []string
}

func listFiles(fs vfs.FS, dir string) (f files, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return f, err
	}
	for _, name := range names {
		hex, isSegment := strings.CutSuffix(name, segmentExt)
		gen, isJournal := strings.CutPrefix(name, journalPrefix)
		switch {
		case isSegment && len(hex) == 16 && isHex(hex):
			n, _ := strconv.ParseUint(hex, 16, 64)
			f.segments = append(f.segments, n)
		case isJournal && len(gen) == 16 && isHex(gen):
			n, _ := strconv.ParseUint(gen, 16, 64)
			f.journals = append(f.journals, n)
		case name == checkpointName:
			f.check = true
		case name == checkpointName+tmpExt:
			f.tmp = true
		case name == doorName:
			f.door = true
		case name == spareName:
			f.spare = true
		case name == vfs.LockName:
		case strings.HasSuffix(name, damagedExt):
			f.aside++
		default:
			f.unknown = append(f.unknown, name)
		}
	}
	slices.Sort(f.segments)
	slices.Sort(f.journals)
	return f, nil
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// recover brings back what the directory holds.
func (b *Buffer) recover() error {
	f, err := listFiles(b.o.FS, b.o.Dir)
	if err != nil {
		return err
	}
	if b.o.Beside != nil {
		f.unknown = slices.DeleteFunc(f.unknown, b.o.Beside)
	}
	if len(f.unknown) > 0 {
		b.o.Log.Warn("buffer directory holds files that are not the buffer's; they are left alone", "dir", b.o.Dir, "files", f.unknown)
	}
	b.aside = f.aside
	// Leftovers that never held anything.
	for name, is := range map[string]bool{spareName: f.spare, checkpointName + tmpExt: f.tmp} {
		if is {
			if err := b.o.FS.Remove(path.Join(b.o.Dir, name)); err != nil {
				return err
			}
		}
	}
	kept, err := loadKept(b.o.FS, b.o.Dir, &f)
	if err != nil {
		return err
	}
	if kept.damage != "" {
		b.o.Log.Error("buffer found damage in what it remembers", "dir", b.o.Dir, "what", kept.damage)
	}
	b.id = kept.state.Log
	if err := b.recoverSegments(f.segments, &kept); err != nil {
		return err
	}
	b.restore(&kept)
	b.rememberChunks(&kept)
	if err := b.removeDropped(); err != nil {
		return err
	}
	// A state that did not come whole from the journal is written anew before anything else.
	for _, gen := range f.journals {
		b.journal.top = max(b.journal.top, gen)
	}
	if b.volatile {
		return nil
	}
	var adopted error
	if kept.whole {
		// If there is no room for a new one, this one goes on: it has everything.
		adopted = b.adopt(kept.state.Gen, kept.good)
	}
	b.dirty, b.journal.renew = true, true
	b.makeDoor()
	b.persist()
	if b.journal.file == nil && adopted != nil {
		return adopted
	}
	if b.journal.check == nil && f.check {
		if err := b.adoptCheckpoint(); err != nil {
			return err
		}
	}
	for _, gen := range f.journals {
		if b.journal.bad == nil && gen != b.journal.gen {
			if err := b.o.FS.Remove(path.Join(b.o.Dir, journalName(gen))); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if len(b.journal.owed) > 0 {
		b.recordDoor() // they may have other places now
	}
	return nil
}

// restore sets the numbering and the books. The segments are known.
func (b *Buffer) restore(k *kept) {
	s := &k.state
	b.reader.pos, b.mark = s.Mark, s.Mark
	b.markSeq.Store(b.mark.Seq - 1)
	b.storedSeq.Store(b.stored.Seq - 1)
	b.next = b.stored
	for _, p := range s.Parts {
		if covered(s.Drops, p.Seq) {
			continue
		}
		b.restored[p.Seq] = append(b.restored[p.Seq], Span{First: p.First, Count: p.Count})
		b.ahead += uint64(p.Count)
	}
	for _, d := range s.Drops {
		b.drops = append(b.drops, &drop{Drop: d, ready: true})
		b.ahead += d.Ended()
	}
	slices.SortFunc(b.drops, func(x, y *drop) int { return int(int64(x.Start.Seq - y.Start.Seq)) })
	b.own = s.Sheet
	b.own.Admitted += b.stored.Events - s.Next.Events // may be less: what was never stored is not ours
	if diff := int64(b.own.Admitted-b.own.Ended()) - int64(b.pending()); diff != 0 && (k.damage != "" || !k.found) {
		// The fates of these are not remembered. They are left out of the book rather than
		// guessed.
		b.o.Log.Warn("buffer has lost the record of how some events ended", "dir", b.o.Dir, "events", diff)
		b.own.Admitted -= uint64(diff)
	}
	b.o.Book.Restore(b.own)
	b.o.Book.Restore(s.Door)
	b.journal.write, b.journal.gen, b.journal.top = k.write, s.Gen, s.Gen
	b.restoreDoor(k)
}

// restoreDoor goes on with the door file.
func (b *Buffer) restoreDoor(k *kept) {
	j := &b.journal
	b.numbers = max(k.state.Numbers, k.numbers, 1)
	for i := range k.door.Gaps {
		b.numbers = max(b.numbers, k.door.Gaps[i].Number+1)
	}
	j.owed, j.firm = k.owed, len(k.owed)
	b.losses = uint64(len(k.owed))
	b.lostIDs, b.lostBefore = slices.Clone(k.door.IDs), slices.Clone(k.door.IDs)
	j.doorFile.write, j.doorFile.last = k.door.Write, k.door.Slot
	j.doorFile.synced = k.door.Slot // as far as it is
	if k.door.Write == 0 {
		j.doorFile.synced = -1
	}
}

func newID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// Seal ends acceptance, stores what was accepted, and lets Next end with io.EOF once all of
// it was read; Settle goes on. It fails with ctx's cause if the disk does not take the rest
// in time, and may be called again.
func (b *Buffer) Seal(ctx context.Context) error {
	b.mu.Lock()
	b.sealed, b.gapsDue = true, true
	b.roomWait.wakeAll()
	b.readWait.wakeAll()
	last := b.next.Seq - 1
	b.mu.Unlock()
	b.kickCommitter()
	if err := b.WaitStored(ctx, last); err != nil {
		return fmt.Errorf("store the last %d events of buffer %s: %w", b.Stats().Unstored, b.o.Dir, err)
	}
	return nil
}

// DropRest books everything that has not ended as dropped for reason, for a memory buffer
// before Close. It returns how many events that were. Next gives io.EOF afterwards, and
// Settle and View fail.
func (b *Buffer) DropRest(reason ledger.Reason) uint64 {
	b.journalMu.Lock()
	defer b.journalMu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return 0
	}
	b.sealed, b.finished = true, true
	n := b.pending()
	fate := ledger.Fate{Class: ledger.Dropped, Reason: reason}
	b.own.Add(fate, n)
	b.o.Book.End(fate, int(n))
	b.drops, b.restored, b.ahead = nil, nil, 0
	b.misses, b.openGaps, b.unsaid, b.untold = nil, nil, ledger.Sheet{}, 0
	for b.window.front() != nil {
		if h := b.window.front(); h.mem != nil {
			b.mem.remove(h.mem)
		}
		b.window.pop()
	}
	b.reader.pos = b.next
	b.passed()
	b.readWait.wakeAll()
	b.roomWait.wakeAll()
	b.journal.bad = errRestart // the next journal begins with all of this
	b.dirty = true
	return n
}

var errRestart = errors.New("everything was dropped")

// errFloor counts as a full disk.
var errFloor = fmt.Errorf("free-space floor: %w", errNoSpace)

// Close ends acceptance, stores what was accepted, writes a checkpoint and gives the
// directory back. What has not ended stays in the files. If ctx ends before everything is
// stored, Close gives up on the rest, which was never acknowledged, and says so.
func (b *Buffer) Close(ctx context.Context) error {
	err := b.Seal(ctx)
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	b.mu.Lock()
	b.stopping = true
	b.giveUp = b.giveUp || err != nil
	b.mu.Unlock()
	b.kickCommitter()
	<-b.done
	b.journalMu.Lock()
	b.mu.Lock()
	b.finished = true
	b.readWait.wakeAll()
	b.markWait.wakeAll()
	lock := b.lock
	b.lock = nil
	b.mu.Unlock()
	b.journalMu.Unlock()
	if lock == nil {
		return err
	}
	b.giveBack()
	b.closeFiles()
	return errors.Join(err, lock.Close())
}

// Discard is Close for a buffer of which nothing is needed any more and whose directory is removed
// next: nothing is synced for it. A process that is killed before that finds it as it was.
func (b *Buffer) Discard(ctx context.Context) error {
	b.mu.Lock()
	b.discarded = true
	b.mu.Unlock()
	return b.Close(ctx)
}

// giveBack gives back the space that a lean buffer has reserved and not used: many may be
// closed for long, and the next Open begins new files.
func (b *Buffer) giveBack() {
	if !b.o.Lean || b.volatile || b.discarded {
		return
	}
	if t := b.tail; t != nil && t.file != nil {
		_ = t.file.Truncate(t.size)
	}
	if j := &b.journal; j.file != nil && j.bad == nil {
		_ = j.file.Truncate(j.size)
	}
}

// finish is the committer's end.
func (b *Buffer) finish() {
	b.recordMisses(math.MaxUint64)
	b.restDoor()
	b.mu.Lock()
	discarded := b.discarded
	b.mu.Unlock()
	if !discarded {
		b.syncInterval()
		b.persist()
	}
	b.report()
	b.mu.Lock()
	b.ended = true
	b.storedWait.wakeAll()
	b.markWait.wakeAll()
	b.readWait.wakeAll()
	b.mu.Unlock()
}

func (b *Buffer) closeFiles() {
	b.freeing.Wait()
	b.discardSpare()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaveShare()
	for _, s := range b.segments {
		b.closeFile(s)
	}
	for _, f := range []*vfs.File{&b.journal.file, &b.journal.check, &b.journal.doorFile.file} {
		if *f != nil {
			_ = (*f).Close()
			*f = nil
		}
	}
}
