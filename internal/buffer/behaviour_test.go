package buffer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/vfs"
	"weir/internal/vfs/vfstest"
)

var delivered = ledger.Fate{Class: ledger.Delivered}

func appendN(tb testing.TB, b *Buffer, from, n, pad int) {
	tb.Helper()
	for i := range n {
		if _, err := b.Append(context.Background(), batchOf("t", from+i, 2, pad)); err != nil {
			tb.Fatal(err)
		}
	}
}

// settleNext reads one run and settles all of it.
func settleNext(tb testing.TB, b *Buffer) *Gap {
	tb.Helper()
	k, err := b.Next(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	defer k.Release()
	var parts []Part
	for _, it := range k.Items() {
		parts = append(parts, Part{Seq: it.Seq, Span: Span{0, uint32(it.Batch.Count)}, Fate: delivered})
	}
	if err := b.Settle(parts); err != nil {
		tb.Fatal(err)
	}
	return k.Gap
}

func mustClose(tb testing.TB, b *Buffer) {
	tb.Helper()
	if err := b.Close(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

// TestFailedSync: a segment whose fdatasync failed is never synced again, and what was not
// acknowledged is written to the next one.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		b := mustOpen(t, o)
		appendN(t, b, 0, 3, 10)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		fs.Inject(vfstest.Fault{Op: vfstest.Datasync, Name: segmentExt, Times: 1, Err: syscall.EIO})
		appendN(t, b, 3, 1, 10)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		// Any further sync of the first segment fails the test.
		fs.Inject(vfstest.Fault{Op: vfstest.Datasync, Name: segmentName(1), Err: syscall.EIO})
		appendN(t, b, 4, 3, 10)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := b.Stats(); s.Segments != 2 || s.Fault != nil {
			t.Fatalf("%+v", s)
		}
		// The power is cut: nothing that was not synced survives.
		fs = fs.Crash(func(n int) int { return n - 1 })
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		if s := b.Stats(); s.Stored != 7 || s.PendingEvents != 14 {
			t.Fatalf("%+v", s)
		}
		for b.Stats().Mark < 7 {
			if g := settleNext(t, b); g != nil {
				t.Fatalf("%+v", g)
			}
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestBrokenDisk: while nothing can be written the policy acts and WaitStored waits; Close
// gives up when told to.
func TestBrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		b := mustOpen(t, o)
		fs.Inject(vfstest.Fault{Op: vfstest.Write, Name: segmentExt, Err: syscall.EIO})
		appendN(t, b, 0, 1, 10)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := b.WaitStored(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := b.Append(context.Background(), batchOf("t", 1, 1, 0)); !errors.Is(err, input.ErrRefused) {
			t.Fatal(err)
		}
		if s := b.Stats(); !errors.Is(s.Fault, syscall.EIO) {
			t.Fatalf("%+v", s)
		}
		short, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		if err := b.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := b.WaitStored(context.Background(), 1); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestIntervalSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Durability, o.SyncEvery = Interval, 200*time.Millisecond
		b := mustOpen(t, o)
		before := fs.Syncs()
		appendN(t, b, 0, 5, 10)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if fs.Syncs() != before {
			t.Fatal("a batch waited for a sync")
		}
		time.Sleep(201 * time.Millisecond)
		synctest.Wait()
		fs = fs.Crash(func(n int) int { return n - 1 })
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		if s := b.Stats(); s.Stored != 5 {
			t.Fatalf("not synced in time: %+v", s)
		}
		mustClose(t, b)
	})
}

// TestIdle: a buffer in which nothing happens wakes nobody.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		b := mustOpen(t, testOptions(t, fs, "q"))
		appendN(t, b, 0, 1, 10)
		time.Sleep(5 * time.Second)
		before := fs.Syncs()
		time.Sleep(time.Hour)
		if n := fs.Syncs(); n != before {
			t.Fatalf("%d syncs in an idle hour", n-before)
		}
		mustClose(t, b)
	})
}

// TestGroupCommit: on a disk that takes 10 ms for a sync, 32 producers that wait for each
// of their batches share the syncs.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &countingFS{FS: vfstest.New(), takes: 10 * time.Millisecond}
		b := mustOpen(t, testOptions(t, fs, "q"))
		var wg sync.WaitGroup
		for p := range 32 {
			wg.Go(func() {
				for i := range 10 {
					seq, err := b.Append(context.Background(), batchOf("t", p*10+i, 1, 10))
					if err == nil {
						err = b.WaitStored(context.Background(), uint64(seq))
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := fs.syncs; n > 24 {
			t.Errorf("%d syncs for 10 rounds of 32 producers", n)
		}
		mustClose(t, b)
	})
}

// countingFS counts the syncs of segments.
type countingFS struct {
	vfs.FS
	syncs int           // only the committer syncs segments
	takes time.Duration // by each
}

func (c *countingFS) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	if err != nil || path.Base(name) != spareName {
		return f, err
	}
	return &countingFile{f, c}, nil
}

type countingFile struct {
	vfs.File
	c *countingFS
}

func (f *countingFile) Datasync() error {
	f.c.syncs++
	time.Sleep(f.c.takes)
	return f.File.Datasync()
}

// TestAppendAllocatesNothing: neither Append nor WaitStored nor Next, View and Settle
// allocate in steady state.
func TestAppendAllocatesNothing(t *testing.T) {
	o := testOptions(t, vfs.NewMem(0), "q")
	o.Limit = 64 << 20
	b := mustOpen(t, o)
	ctx := context.Background()
	batch := batchOf("kubernetes", 1, 10, 200)
	parts := make([]Part, 0, 8)
	step := func() {
		seq, err := b.Append(ctx, batch)
		if err == nil {
			err = b.WaitStored(ctx, uint64(seq))
		}
		if err != nil {
			t.Fatal(err)
		}
		k, err := b.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		parts = parts[:0]
		for i := range k.Items() {
			it := &k.Items()[i]
			v, err := b.View(it.Ref(0, len(it.Batch.Entries), Span{0, 10}))
			if err != nil {
				t.Fatal(err)
			}
			v.Release()
			parts = append(parts, Part{Seq: it.Seq, Span: Span{0, 10}, Fate: delivered})
		}
		k.Release()
		if err := b.Settle(parts); err != nil {
			t.Fatal(err)
		}
	}
	for range 20000 {
		step()
	}
	if n := testing.AllocsPerRun(5000, step); n > allocSlack {
		t.Fatalf("%v allocations a batch", n)
	}
	mustClose(t, b)
}

// TestTogether is everything at once, for the race detector: producers, a reader that
// settles out of order from several goroutines, and somebody who watches the balance.
func TestTogether(t *testing.T) {
	o := testOptions(t, vfs.OS{}, t.TempDir())
	o.Limit, o.Overflow, o.Recent, o.Compress = 256<<10, Block, 32<<10, "zstd"
	b := mustOpen(t, o)
	ctx := context.Background()
	stop := make(chan struct{})
	var watch, work, out sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if s := b.Stats(); s.Balance != 0 || s.Bytes > s.Limit {
				t.Errorf("%+v", s)
				return
			}
		}
	})
	const producers, each = 4, 300
	for p := range producers {
		work.Go(func() {
			for i := range each {
				if _, err := b.Append(ctx, batchOf("t", p*each+i, 4, 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	refs := make(chan Ref, 64)
	for range 3 {
		out.Go(func() {
			for r := range refs {
				v, err := b.View(r)
				if err != nil {
					t.Error(err)
					continue
				}
				if n, _, _, _, err := event.Check(v.Bytes); n != int(r.Count) || err != nil {
					t.Error(n, err)
				}
				v.Release()
				if err := b.Settle([]Part{{Seq: r.Seq, Span: r.Span, Fate: delivered}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	out.Go(func() {
		defer close(refs)
		for {
			k, err := b.Next(ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				return
			}
			for _, it := range k.Items() {
				half := len(it.Batch.Entries) / 2
				refs <- it.Ref(half, half, Span{2, 2})
				refs <- it.Ref(0, half, Span{0, 2})
			}
			k.Release()
		}
	})
	work.Wait()
	if err := b.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitDelivered(ctx, producers*each); err != nil {
		t.Fatal(err)
	}
	out.Wait()
	close(stop)
	watch.Wait()
	if got := o.Book.Sheet(); got.Delivered != producers*each*4 || got.Admitted != got.Delivered {
		t.Fatalf("%+v", got)
	}
	mustClose(t, b)
}

func TestDropRest(t *testing.T) {
	o := testOptions(t, vfs.NewMem(0), "q")
	b := mustOpen(t, o)
	appendN(t, b, 0, 10, 10)
	if err := b.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	settleNext(t, b)
	done := o.Book.Sheet().Delivered
	if n := b.DropRest(ledger.Shutdown); n != 20-done {
		t.Fatal(n, done)
	}
	mustBalance(t, b)
	if _, err := b.Next(context.Background()); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	mustClose(t, b)
	if got := o.Book.Sheet(); got.Dropped[ledger.Shutdown] != 20-done {
		t.Fatalf("%+v", got)
	}
}

func TestLocked(t *testing.T) {
	o := testOptions(t, vfs.OS{}, t.TempDir())
	b := mustOpen(t, o)
	if _, err := Open(o); !errors.Is(err, vfs.ErrLocked) {
		t.Fatal(err)
	}
	appendN(t, b, 0, 5, 10)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Looking is allowed, and changes nothing.
	info, err := Inspect(vfs.OS{}, o.Dir, true)
	if err != nil || info.Stored != 5 || info.Pending != 10 || len(info.Problems) > 0 {
		t.Fatalf("%+v %v", info, err)
	}
	n := 0
	err = Dump(vfs.OS{}, o.Dir, 3, func(seq Seq, t event.Batch) error {
		if int(seq) != n+3 || t.Count != 2 {
			return errors.New("out of order")
		}
		n++
		return nil
	})
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	mustClose(t, b)
	if _, err := b.Append(context.Background(), batchOf("t", 0, 1, 0)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestInspectTellsDamage(t *testing.T) {
	c := newCorpus(t)
	b := c.fs.Contents(c.files[1])
	b[150] ^= 1
	c.fs.Damage(c.files[1], b)
	info, err := Inspect(c.fs, "q", true)
	if err != nil || len(info.Problems) != 1 || !strings.Contains(info.Problems[0], "batches 5 to 6, 6 events") {
		t.Fatalf("%+v %v", info, err)
	}
	if info, err = Inspect(c.fs, "q", false); err != nil || len(info.Problems) != 0 || len(info.Segments) != 3 {
		t.Fatalf("%+v %v", info, err)
	}
	if !bytes.Equal(c.fs.Contents(c.files[1]), b) {
		t.Fatal("it was changed")
	}
}

// TestShortageIsNoDamage: what cannot be opened, or read, for want of descriptors or memory is
// read when there are some.
func TestShortageIsNoDamage(t *testing.T) {
	for name, fault := range map[string]vfstest.Fault{
		"open": {Op: vfstest.Open, Name: segmentExt, Times: 5, Err: syscall.EMFILE},
		"read": {Op: vfstest.Read, Name: segmentExt, After: 1, Times: 5, Err: syscall.ENOMEM},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { shortage(t, fault, again) })
			})
		}
	}
}

// shortage reads a buffer from before a restart while fault acts, or again after a Rewind.
func shortage(t *testing.T, fault vfstest.Fault, again bool) {
	fs, log := vfstest.New(), &bytes.Buffer{}
	o := testOptions(t, fs, "q")
	o.Lean = true
	b := mustOpen(t, o)
	appendN(t, b, 0, 5, 10)
	mustClose(t, b)
	o.Book, o.Log = &ledger.Book{}, slog.New(slog.NewTextHandler(log, nil))
	b = mustOpen(t, o)
	if again {
		for read := Seq(0); read < 5; {
			k, err := b.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range k.Items() {
				read = it.Seq
			}
			k.Release()
		}
		b.mu.Lock()
		for _, h := range b.window.list { // nothing of it is in memory, and no file is open
			if h.mem != nil {
				b.mem.remove(h.mem)
			}
		}
		for _, s := range b.segments {
			if s.file != nil && s != b.tail {
				_ = s.file.Close()
				s.file = nil
			}
		}
		b.mu.Unlock()
		b.Rewind()
		fault.After = 0
	}
	fs.Inject(fault)
	ctx, cancel := context.WithTimeout(context.Background(), openAgain/2)
	defer cancel()
	if _, err := b.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next does not wait: %v", err)
	}
	for b.Stats().Mark < 5 {
		if g := settleNext(t, b); g != nil {
			t.Fatalf("%+v", g)
		}
	}
	if s := o.Book.Sheet(); s.Delivered != 10 || s.Ended() != 10 {
		t.Errorf("%+v", s)
	}
	if text := log.String(); strings.Count(text, "cannot read a segment just now") != 1 || !strings.Contains(text, "can read its segments again") || !strings.Contains(text, "failures=5") {
		t.Errorf("log:\n%s", text)
	}
	mustBalance(t, b)
	mustClose(t, b)
}

// TestGivingUpDoesNotWaitForReading: a full buffer gives up its oldest also while nothing can be
// read; whose events they were is then not known.
func TestGivingUpDoesNotWaitForReading(t *testing.T) {
	fs := vfstest.New()
	o := testOptions(t, fs, "q")
	o.Limit, o.Overflow = 64<<10, DropOldest
	b := mustOpen(t, o)
	fs.Inject(vfstest.Fault{Op: vfstest.Read, Name: segmentExt, Err: syscall.ENOMEM})
	appendN(t, b, 0, 300, 200)
	if s := o.Book.Sheet(); s.Dropped[ledger.BufferFull] == 0 || s.Admitted != 600 {
		t.Errorf("%+v", s)
	}
	mustBalance(t, b)
	abort(b)
}

// TestShortageAtOpenLosesNothing has each of the reads of an Open fail in turn: it fails, or
// finds everything, and the next one finds everything too.
func TestShortageAtOpenLosesNothing(t *testing.T) { synctest.Test(t, shortageAtOpen) }

func shortageAtOpen(t *testing.T) {
	fs := vfstest.New()
	o := testOptions(t, fs, "q")
	b := mustOpen(t, o)
	for i := range 5 {
		appendN(t, b, i, 1, 10)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	fs = fs.Crash(func(n int) int { return n })
	abort(b)
	failed := 0
	for k := range 24 {
		o.FS, o.Book = fs, &ledger.Book{}
		fs.Inject(vfstest.Fault{Op: vfstest.Read, Name: segmentExt, After: k, Times: 1, Err: syscall.ENOMEM})
		b, err := Open(o)
		if err != nil {
			if failed++; !errors.Is(err, syscall.ENOMEM) {
				t.Fatal(err)
			}
			fs = fs.Crash(func(n int) int { return n })
			continue
		}
		for read := Seq(0); read < 5; {
			run, err := b.Next(context.Background())
			if err != nil || run.Gap != nil {
				t.Fatalf("read %d has failed: %v, %+v", k, err, run.Gap)
			}
			for _, it := range run.Items() {
				read = it.Seq
			}
			run.Release()
		}
		fs = fs.Crash(func(n int) int { return n })
		abort(b)
	}
	if failed < 3 {
		t.Errorf("only %d of the reads have failed", failed)
	}
}
