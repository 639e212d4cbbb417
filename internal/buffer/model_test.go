package buffer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// modelBatch is what the model knows of a batch.
type modelBatch struct {
	id, count, pad int
	tag            string
	fate           []*ledger.Fate // of each entry; nil: has not ended
	ever           []bool         // it has ended at some time
	gone           bool           // a Gap told that it is lost
	lost           bool           // likewise, at some time
	chunk          event.Chunk
	miss           bool // no batch: a gap of losses that never came in has this Seq
}

func (m *modelBatch) batch() event.Batch {
	b := batchOf(m.tag, m.id, m.count, m.pad)
	b.Chunk = m.chunk
	return b
}

// model drives a Buffer and a plain slice side by side.
type model struct {
	t       *rapid.T
	fs      *vfstest.FS
	o       Options
	b       *Buffer
	batches []*modelBatch // batches[i] has Seq i+1
	acked   int           // so many batches were acknowledged as stored
	read    int           // Seq of the last batch that the reader has passed
	held    []Ref         // handed out and not settled, one entry each
	ids     int
	logged  notes // what the buffer and the model did, for a failure's message
	power   bool  // the power was cut: settled entries may come back once

	share  int64        // limit of o.Share; 0: there is none
	losses []*modelLoss // of Miss, as far as they are known to have survived
	given  []Gap        // handed out and not told
	known  map[Seq]bool // gaps that were told
	calm   bool         // nothing fails and the power stays
	told   ledger.Sheet // what was told
}

// notes may be written from any goroutine.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

const modelLimit = 64 << 10

func newModel(t *rapid.T) *model {
	m := &model{t: t, fs: vfstest.New()}
	m.o = Options{
		FS: m.fs, Dir: "q", Log: testLog(nil), Limit: modelLimit, Segment: 4 << 10,
		Overflow:   rapid.SampledFrom([]Overflow{Throw, DropOldest, DropNewest, Block}).Draw(t, "overflow"),
		Durability: rapid.SampledFrom([]Durability{Sync, Sync, Interval}).Draw(t, "durability"),
		Compress:   rapid.SampledFrom([]string{"", "", "zstd", "gzip"}).Draw(t, "codec"),
		Recent:     rapid.SampledFrom([]int64{1, 64 << 10, 1 << 20}).Draw(t, "recent"),
		Tell:       rapid.Bool().Draw(t, "tell"),
		Lean:       rapid.Bool().Draw(t, "lean"),
		MinFree:    rapid.SampledFrom([]int64{0, 0, 16 << 10}).Draw(t, "floor"),
	}
	m.share = rapid.SampledFrom([]int64{0, modelLimit / 2, 2 * modelLimit}).Draw(t, "share")
	m.calm = rapid.Bool().Draw(t, "calm")
	m.o.Log = slog.New(slog.NewTextHandler(&m.logged, nil))
	m.open()
	return m
}

func (m *model) open() {
	fmt.Fprintln(&m.logged, "open")
	m.o.FS, m.o.Book = m.fs, &ledger.Book{}
	if m.share > 0 {
		m.o.Share = NewShare(m.share)
	}
	if n, err := m.fs.List("q"); err == nil {
		for _, x := range n {
			fmt.Fprint(&m.logged, x, " ", len(m.fs.Contents("q/"+x)), ", ")
		}
		fmt.Fprintln(&m.logged)
	}
	b, err := Open(m.o)
	if err == nil {
		fmt.Fprintln(&m.logged, "opened: mark, stored, sheet, ahead, restored, drops:", b.mark, b.stored, b.own, b.ahead, b.restored, len(b.drops))
	}
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.b = b
	st := b.Stats()
	for m.power && m.acked > int(st.Stored) && m.batches[m.acked-1].miss {
		m.acked-- // the journal could not remember this gap
	}
	if int(st.Stored) < m.acked {
		m.t.Fatalf("acknowledged up to %d, stored after opening: %d\n%s", m.acked, st.Stored, m.logged.String())
	}
	for int(st.Stored) > len(m.batches) && (m.o.Tell || len(m.losses) > 0) {
		m.batches = append(m.batches, &modelBatch{miss: true})
	}
	if int(st.Stored) > len(m.batches) {
		m.t.Fatalf("stored %d batches of %d\n%s", st.Stored, len(m.batches), m.logged.String())
	}
	for i := int(st.Stored); i < len(m.batches); i++ {
		m.batches[i] = nil // never stored, never acknowledged
	}
	m.batches = m.batches[:st.Stored]
	m.replaced()
	m.acked = int(st.Stored)
	m.read = int(st.Mark)
	m.held = nil
	m.survivors()
	m.chunks()
	for i, mb := range m.batches[:m.read] {
		for j, f := range mb.fate {
			if f == nil && !mb.gone && !(m.power && (m.o.Durability == Interval || mb.lost || mb.ever[j])) {
				m.t.Fatalf("the mark is at %d, but batch %d has not ended\n%s", st.Mark, i+1, m.logged.String())
			}
		}
	}
	m.check()
}

// abort ends a buffer whose file system is dead.
func abort(b *Buffer) {
	b.mu.Lock()
	b.sealed, b.stopping, b.giveUp = true, true, true
	b.roomWait.wakeAll()
	b.mu.Unlock()
	b.kickCommitter()
	<-b.done
}

func brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 3*time.Second)
}

func (m *model) check() {
	synctest.Wait()
	mustBalanceModel(m)
	m.untoldStay()
	m.shared()
	// A power cut can bring removed segments back for a while.
	if n := m.fs.Total(segmentExt); n > modelLimit && !m.power {
		m.t.Fatalf("segments have %d bytes, the limit is %d: %+v\n%s", n, modelLimit, m.b.Stats(), m.logged.String())
	}
}

func mustBalanceModel(m *model) {
	s := m.b.Stats()
	if s.Balance != 0 {
		m.t.Fatalf("balance %d: %+v book %+v\n%s", s.Balance, s, m.o.Book.Sheet(), m.logged.String())
	}
}

func (m *model) append(t *rapid.T) {
	defer synctest.Wait()
	slow := rapid.Bool().Draw(t, "slow")
	for range rapid.IntRange(1, 12).Draw(t, "batches") {
		mb := &modelBatch{
			id:    m.ids,
			count: rapid.IntRange(1, 5).Draw(t, "count"),
			pad:   rapid.IntRange(0, 600).Draw(t, "pad"),
			tag:   rapid.SampledFrom([]string{"a", "b.c", ""}).Draw(t, "tag"),
		}
		if rapid.Bool().Draw(t, "chunk") {
			mb.chunk = event.Chunk{byte(mb.id), byte(mb.id >> 8), 1}
		}
		mb.fate, mb.ever = make([]*ledger.Fate, mb.count), make([]bool, mb.count)
		m.ids++
		ctx, cancel := brief()
		old := m.old()
		seq, err := m.b.Append(ctx, mb.batch())
		cancel()
		if slow {
			synctest.Wait()
		}
		fmt.Fprintln(&m.logged, "append", mb.count, seq, err)
		switch {
		case err == nil:
			for int(seq) > len(m.batches)+1 && (m.o.Tell || len(m.losses) > 0) {
				m.batches = append(m.batches, &modelBatch{miss: true})
			}
			m.batches = append(m.batches, mb)
			if int(seq) != len(m.batches) {
				t.Fatalf("seq %d for batch %d", seq, len(m.batches))
			}
		case errors.Is(err, input.ErrRefused) && m.o.Overflow == Throw,
			errors.Is(err, ErrDropped) && m.o.Overflow == DropNewest,
			errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, ErrDropped) && m.o.Overflow == DropOldest:
			if old && m.calm && m.old() {
				t.Fatalf("a batch is dropped although there are older ones\n%s", m.logged.String())
			}
		default:
			t.Fatalf("append: %v", err)
		}
	}
}

func (m *model) flush(t *rapid.T) {
	fmt.Fprintln(&m.logged, "flush of", len(m.batches))
	ctx, cancel := brief()
	defer cancel()
	last := len(m.batches)
	losses := m.losses
	if err := m.b.Flush(ctx); err == nil {
		m.acked = last
		for _, l := range losses {
			l.sure = true
		}
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush: %v", err)
	}
}

func (m *model) next(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	k, err := m.b.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return
	}
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	m.take(k)
	k.Release()
}

// take compares a run with the model.
func (m *model) take(k *Run) {
	fmt.Fprintln(&m.logged, "take", k.Gap, len(k.Items()))
	t := m.t
	if g := k.Gap; g != nil && m.takeMiss(g) {
		m.read = int(g.Last)
	} else if g != nil {
		m.give(g)
		// With Interval a power cut loses what was not synced; the rest of the books says so.
		cut := m.power && m.o.Durability == Interval
		if g.Reason != ledger.BufferFull && g.Reason != ledger.DiskFull && !(cut && g.Reason == ledger.Damaged) {
			t.Fatalf("unexpected gap %+v\n%s", g, m.logged.String())
		}
		var n, tags uint64
		for seq := g.First; seq <= g.Last; seq++ {
			mb := m.batches[seq-1]
			mb.gone, mb.lost = true, true
			for _, f := range mb.fate {
				if f == nil {
					n++
				}
			}
		}
		tags = tagSum(g)
		if int(g.First) <= m.read || !cut && g.Events > tags || !m.power && g.Events != n {
			t.Fatalf("gap %+v: %d events in the model, read up to %d\n%s", g, n, m.read, m.logged.String())
		}
		m.read = int(g.Last)
	}
	for _, it := range k.Items() {
		m.skipEnded(int(it.Seq) - 1)
		if int(it.Seq) != m.read+1 {
			t.Fatalf("batch %d after %d", it.Seq, m.read)
		}
		m.read = int(it.Seq)
		m.takeItem(&it)
	}
}

// skipEnded passes batches that had ended as a whole before a restart.
func (m *model) skipEnded(to int) {
	for m.read < to {
		mb := m.batches[m.read]
		for i, f := range mb.fate {
			if f == nil && !mb.gone && !(m.power && (m.o.Durability == Interval || mb.lost || mb.ever[i])) {
				m.t.Fatalf("batch %d was skipped, but has not ended", m.read+1)
			}
		}
		m.read++
	}
}

func (m *model) takeItem(it *Item) {
	t, mb := m.t, m.batches[it.Seq-1]
	want := mb.batch()
	if it.Batch.Tag != want.Tag || it.Batch.Count != want.Count || !bytes.Equal(it.Batch.Entries, want.Entries) || it.Batch.First != want.First || it.Batch.Last != want.Last {
		t.Fatalf("batch %d differs", it.Seq)
	}
	if mb.gone && !m.power {
		t.Fatalf("batch %d was given up and comes now", it.Seq)
	}
	mb.gone = false
	ended := make([]bool, mb.count)
	for _, s := range it.Ended {
		for i := s.First; i < s.First+s.Count; i++ {
			ended[i] = true
		}
	}
	off := 0
	for i := range mb.count {
		_, n, err := event.Next(it.Batch.Entries[off:])
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ended[i] && mb.fate[i] == nil && !(m.power && mb.ever[i]):
			t.Fatalf("entry %d of batch %d counts as ended", i, it.Seq)
		case !ended[i] && mb.fate[i] != nil && !m.power:
			t.Fatalf("entry %d of batch %d comes again", i, it.Seq)
		case !ended[i]:
			mb.fate[i] = nil
			m.held = append(m.held, it.Ref(off, n, Span{uint32(i), 1}))
		}
		off += n
	}
}

func (m *model) view(t *rapid.T) {
	if len(m.held) == 0 {
		return
	}
	r := rapid.SampledFrom(m.held).Draw(t, "ref")
	v, err := m.b.View(r)
	if err != nil {
		t.Fatalf("view %+v: %v", r, err)
	}
	defer v.Release()
	if want := fmt.Sprintf("%d/%d", m.batches[r.Seq-1].id, r.First); !bytes.Contains(v.Bytes, []byte(want)) || len(v.Bytes) != int(r.Len) {
		t.Fatalf("view %+v gives %q", r, v.Bytes)
	}
}

func (m *model) settle(t *rapid.T) {
	if len(m.held) == 0 {
		return
	}
	fates := []ledger.Fate{{Class: ledger.Delivered}, {Class: ledger.Rejected, Reason: ledger.TooOld}, {Class: ledger.Dropped, Reason: ledger.RetryLimit}}
	oldest := rapid.Bool().Draw(t, "oldest")
	var parts []Part
	for range min(len(m.held), rapid.IntRange(1, 30).Draw(t, "parts")) {
		i := 0
		if !oldest {
			i = rapid.IntRange(0, len(m.held)-1).Draw(t, "which")
		}
		r := m.held[i]
		m.held = append(m.held[:i], m.held[i+1:]...)
		f := rapid.SampledFrom(fates).Draw(t, "fate")
		parts = append(parts, Part{Seq: r.Seq, Span: r.Span, Fate: f})
		m.batches[r.Seq-1].fate[r.First] = &f
		m.batches[r.Seq-1].ever[r.First] = true
	}
	if err := m.b.Settle(parts, m.tell(t)...); err != nil {
		t.Fatalf("settle: %v", err)
	}
	fmt.Fprintln(&m.logged, "settle", parts, m.b.Stats().Mark)
	if err := m.b.Settle(parts[:1]); !errors.Is(err, ErrGone) {
		t.Fatalf("settled twice: %v", err)
	}
}

// weak notes that the journal could not remember what was settled.
func (m *model) weak() {
	m.b.journalMu.Lock()
	m.power = m.power || m.b.journal.bad != nil
	m.b.journalMu.Unlock()
}

func (m *model) kill(*rapid.T) {
	m.weak()
	was, sure := m.o.Book.Sheet(), m.writtenDown()
	fs := m.fs.Kill()
	abort(m.b)
	m.fs = fs
	m.open()
	m.fates()
	for _, r := range append([]ledger.Reason{ledger.BufferFull, ledger.DiskFull}, missReasons...) {
		if now := m.o.Book.Sheet(); sure && was.Dropped[r] != now.Dropped[r] {
			m.t.Fatalf("%d events were dropped as %v, after a kill %d\n%s", was.Dropped[r], r, now.Dropped[r], m.logged.String())
		}
	}
}

// fates compares the buffer's own sheet with the model, which is exact after SIGKILL.
func (m *model) fates() {
	if m.power {
		return
	}
	var want ledger.Sheet
	for _, mb := range m.batches {
		want.Admitted += uint64(mb.count)
		for _, f := range mb.fate {
			if f != nil {
				want.Add(*f, 1)
			}
		}
	}
	got := m.b.own
	got.Dropped[ledger.BufferFull], got.Dropped[ledger.DiskFull] = 0, 0
	if got != want {
		m.t.Fatalf("sheet %+v, want %+v\n%s", got, want, m.logged.String())
	}
}

func (m *model) cut(t *rapid.T) {
	if m.calm {
		return
	}
	fs := m.fs.Crash(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "survives") })
	abort(m.b)
	m.fs = fs
	m.power = true
	if m.o.Durability != Sync {
		m.acked = 0 // within the last interval
	}
	m.open()
}

func (m *model) reopen(t *rapid.T) {
	ctx, cancel := brief()
	defer cancel()
	last := len(m.batches)
	if err := m.b.Close(ctx); err == nil {
		m.acked = last
		for _, l := range m.losses {
			l.sure = true
		}
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("close: %v", err)
	}
	m.weak()
	m.fs.Heal()
	m.fs.SetCapacity(0)
	m.open()
	m.fates()
}

func (m *model) fault(t *rapid.T) {
	if m.calm {
		return
	}
	m.fs.Inject(vfstest.Fault{
		Op:    rapid.SampledFrom([]vfstest.Op{vfstest.Write, vfstest.Datasync, vfstest.Create, vfstest.Rename, vfstest.SyncDir, vfstest.Remove, vfstest.Truncate, vfstest.Allocate}).Draw(t, "op"),
		Name:  rapid.SampledFrom([]string{"", segmentExt, checkpointName, journalPrefix}).Draw(t, "name"),
		After: rapid.IntRange(0, 4).Draw(t, "after"),
		Times: rapid.IntRange(1, 3).Draw(t, "times"),
		Err:   rapid.SampledFrom([]error{syscall.EIO, syscall.ENOSPC}).Draw(t, "error"),
		Short: rapid.SampledFrom([]int{0, 1, 100, 1000}).Draw(t, "short"),
	})
}
