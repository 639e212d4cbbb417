package buffer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// TestFullDiskGivesUpTheOldest: on a disk that is full, or below its floor, the newest events
// take the place of the oldest that the reader has not begun, and all is accounted for.
func TestFullDiskGivesUpTheOldest(t *testing.T) {
	for _, lean := range []bool{false, true} {
		for _, tell := range []bool{false, true} {
			for _, floor := range []bool{false, true} {
				t.Run(fmt.Sprint("lean=", lean, ",tell=", tell, ",floor=", floor), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						fs := vfstest.New()
						o := testOptions(t, fs, "q")
						o.Lean, o.Tell, o.Overflow, o.Durability, o.Limit, o.Segment = lean, tell, DropOldest, Interval, 64<<20, 64<<10
						if floor {
							o.MinFree = 1 << 30
						}
						b := mustOpen(t, o)
						fullDiskOldest(t, fs, b, floor)
						mustClose(t, b)
					})
				})
			}
		}
	}
}

func fullDiskOldest(t *testing.T, fs *vfstest.FS, b *Buffer, floor bool) {
	ctx := context.Background()
	appendN(t, b, 0, 1, 100)
	settleNext(t, b) // the reader has begun
	const n, count, pad = 4000, 2, 400
	for i := 1; i < n; i++ {
		if i == n/4 {
			if floor { // others took it, and more
				fs.SetFree(b.o.MinFree / 2)
			} else {
				fs.SetCapacity(fs.Used())
			}
		}
		if _, err := b.Append(ctx, batchOf("t", i, count, pad)); err != nil {
			t.Fatal(i, err)
		}
	}
	s := b.Stats()
	if s.Balance != 0 || s.Bytes < int64(n/4*count*pad/2) {
		t.Fatalf("%+v", s)
	}
	if err := b.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	killed := fs.Kill()
	abort(b)
	o := b.o
	was := o.Book.Sheet()
	o.FS, o.Book = killed, &ledger.Book{}
	b = mustOpen(t, o)
	defer mustClose(t, b)
	if now := o.Book.Sheet(); now.Dropped != was.Dropped || was.Dropped[ledger.DiskFull] == 0 {
		t.Fatalf("dropped %v, after a kill %v", was.Dropped, now.Dropped)
	}
	if err := b.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	var lost, read uint64
	last := Seq(0)
	for {
		k, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if k.Gap != nil {
			lost += k.Gap.Events
			if k.Gap.Reason != ledger.DiskFull || tagSum(k.Gap) != k.Gap.Events || lost > k.Gap.Events && o.Tell {
				t.Errorf("%+v", k.Gap)
			}
		}
		for _, it := range k.Items() {
			read += uint64(it.Batch.Count)
			last = it.Seq
		}
		k.Release()
	}
	if last != n || lost != was.Dropped[ledger.DiskFull] || lost+read != (n-1)*count {
		t.Fatalf("read %d events up to %d, lost %d", read, last, lost)
	}
}

// TestKillsOnAFullDisk: without any room, and with nothing to give up, what is lost is
// known after each of many kills: delivered and lost are what was appended.
func TestKillsOnAFullDisk(t *testing.T) {
	for _, lean := range []bool{false, true} {
		for _, tell := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { killsOnAFullDisk(t, lean, tell) })
		}
	}
}

func killsOnAFullDisk(t *testing.T, lean, tell bool) {
	ctx := context.Background()
	fs := vfstest.New()
	o := testOptions(t, fs, "q")
	o.Lean, o.Tell, o.Overflow, o.Durability, o.Limit, o.Segment = lean, tell, DropOldest, Interval, 1<<20, 64<<10
	b := mustOpen(t, o)
	fs.SetCapacity(fs.Used()) // nothing can be stored in a lean buffer, and one segment in another
	var want uint64
	for round := range 20 {
		for i := range 50 {
			want += 3
			if _, err := b.Append(ctx, batchOf(fmt.Sprint("t", i%3), round, 3, 1000)); err != nil && !errors.Is(err, ErrDropped) {
				t.Fatal(err)
			}
			if i%10 == 9 {
				time.Sleep(700 * time.Millisecond)
			}
		}
		if round%3 == 0 {
			want += 2
			mustMiss(t, b, "t1", ledger.WireLoss, Loss{Events: 2})
		}
		if got := o.Book.Sheet().Admitted; got != want {
			t.Fatalf("admitted %d of %d", got, want)
		}
		was := o.Book.Sheet()
		fs = fs.Kill()
		abort(b)
		o.FS, o.Book = fs, &ledger.Book{}
		b = mustOpen(t, o)
		mustBalance(t, b)
		now := o.Book.Sheet()
		lost := was.Admitted - now.Admitted // what was in memory and never acknowledged
		if now.Dropped != was.Dropped || lost > 0 && lean {
			t.Fatalf("round %d: before the kill %+v, after it %+v", round, was, now)
		}
		want -= lost
	}
	if err := b.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for {
		k, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if k.Gap != nil {
			sum += k.Gap.Events
		}
		var parts []Part
		for _, it := range k.Items() {
			sum += uint64(it.Batch.Count)
			parts = append(parts, Part{Seq: it.Seq, Span: Span{0, uint32(it.Batch.Count)}, Fate: delivered})
		}
		var told []Seq
		if k.Gap != nil && tell {
			told = []Seq{k.Gap.First}
		}
		k.Release()
		if err := b.Settle(parts, told...); err != nil {
			t.Fatal(err)
		}
	}
	if tell && sum != want || b.Stats().Untold != 0 {
		t.Fatalf("delivered and told %d of %d: %+v", sum, want, b.Stats())
	}
	mustClose(t, b)
}

func endedIn(b *Buffer) uint64 {
	s := b.o.Book.Sheet()
	return s.Ended()
}

// TestMakeRoom: a buffer without room on the disk asks others before it gives up its own, and
// takes what they have given back even below the floor.
func TestMakeRoom(t *testing.T) {
	for _, floor := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			fs := vfstest.New()
			share := NewShare(1 << 30)
			var loud *Buffer
			asked := 0
			open := func(dir string) *Buffer {
				o := testOptions(t, fs, dir)
				o.Lean, o.Overflow, o.Durability, o.Limit, o.Segment, o.Share = true, DropOldest, Interval, 64<<20, 64<<10, share
				if floor {
					o.MinFree = 1 << 30
				}
				o.MakeRoom = func(b *Buffer, need int64) bool {
					asked++
					return b != loud && loud.GiveUp(ledger.DiskFull) > 0
				}
				return mustOpen(t, o)
			}
			loud = open("loud")
			quiet := open("quiet")
			appendN(t, loud, 0, 500, 2000)
			if err := loud.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if floor {
				fs.SetFree(100)
			} else {
				fs.SetCapacity(fs.Used())
			}
			appendN(t, quiet, 0, 200, 1000)
			if endedIn(quiet) != 0 || asked == 0 || loud.o.Book.Sheet().Dropped[ledger.DiskFull] == 0 {
				t.Fatalf("asked %d times, quiet %+v, loud %+v", asked, quiet.o.Book.Sheet(), loud.o.Book.Sheet())
			}
			appendN(t, loud, 0, 500, 2000) // it gives up its own
			if endedIn(quiet) != 0 {
				t.Fatalf("%+v", quiet.o.Book.Sheet())
			}
			mustBalance(t, loud)
			mustClose(t, loud)
			mustClose(t, quiet)
		})
	}
}

// TestFullDiskThatFails: giving up events makes no room on a disk that cannot be written.
func TestFullDiskThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		o.Lean, o.Overflow, o.Durability, o.Segment = true, DropOldest, Interval, 64<<10
		b := mustOpen(t, o)
		appendN(t, b, 0, 100, 1000)
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, op := range []vfstest.Op{vfstest.Allocate, vfstest.Create} {
			fs.Inject(vfstest.Fault{Op: op, Name: "", Err: errors.New("it fails")})
		}
		n := b.Stats().Segments
		refused := 0
		for i := range 300 {
			if _, err := b.Append(context.Background(), batchOf("t", i, 2, 1000)); err != nil {
				refused++
			}
		}
		if refused == 0 || b.Stats().Segments < n {
			t.Fatalf("%d refused, %+v", refused, b.Stats())
		}
		fs.Heal()
		time.Sleep(2 * time.Second)
		appendN(t, b, 0, 1, 1000)
		mustBalance(t, b)
		mustClose(t, b)
	})
}

// TestManyLossesBetweenBatches: while the disk does not answer, losses and batches take turns; what
// is lost fits the door file, however often.
func TestManyLossesBetweenBatches(t *testing.T) {
	fs := &heldFS{FS: vfstest.New(), began: make(chan struct{}, 8), release: make(chan struct{})}
	o := testOptions(t, fs, "q")
	o.Tell, o.Limit = true, 8<<20
	b := mustOpen(t, o)
	appendN(t, b, 0, 1, 10)
	<-fs.began
	const n = 3000
	for i := range n {
		mustMiss(t, b, fmt.Sprint("t", i%3), []ledger.Reason{ledger.WireLoss, ledger.DiskFull}[i%2], lossAt(i, 1))
		appendN(t, b, i, 1, 10)
	}
	killed := fs.FS.(*vfstest.FS).Clone()
	k := o
	k.FS, k.Book = killed, &ledger.Book{}
	after := mustOpen(t, k)
	if s := k.Book.Sheet(); s.Dropped[ledger.WireLoss] != n/2 || s.Dropped[ledger.DiskFull] != n/2 {
		t.Errorf("after a kill %+v", s)
	}
	mustBalance(t, after)
	mustClose(t, after)
	close(fs.release)
	go func() {
		for range fs.began { // the other segments
		}
	}()
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustBalance(t, b)
	mustClose(t, b)
	close(fs.began)
}

// TestStaleDoor: a gap of the door file never hides a batch that is stored.
func TestStaleDoor(t *testing.T) {
	fs := &heldFS{FS: vfstest.New(), began: make(chan struct{}, 8), release: make(chan struct{})}
	o := testOptions(t, fs, "q")
	o.Tell = true
	b := mustOpen(t, o)
	appendN(t, b, 0, 1, 10)
	<-fs.began
	mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 2)) // behind a batch that is not stored: 2
	fs2 := fs.FS.(*vfstest.FS).Clone()
	stale := fs2.Contents("q/" + doorName)
	close(fs.release)
	mustClose(t, b)

	// A start finds it at 1, and can write neither a journal nor the door file.
	o.FS, o.Book = fs2, &ledger.Book{}
	fs2.Inject(vfstest.Fault{Op: vfstest.Create, Name: journalPrefix, Err: errors.New("it fails")})
	fs2.Inject(vfstest.Fault{Op: vfstest.Write, Name: doorName, Err: errors.New("it fails")})
	b = mustOpen(t, o)
	appendN(t, b, 0, 3, 10)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	killed := fs2.Clone()
	abort(b)
	if !bytes.Equal(killed.Contents("q/"+doorName), stale) {
		t.Fatal("the door file was written")
	}
	o.FS, o.Book = killed, &ledger.Book{}
	b = mustOpen(t, o)
	batches, lost := 0, uint64(0)
	for _, x := range readAllRuns(t, b) {
		if g, ok := x.(Gap); ok {
			lost += g.Events
		} else {
			batches++
		}
	}
	if batches != 3 || lost != 2 {
		t.Fatalf("%d batches, %d lost", batches, lost)
	}
	mustBalance(t, b)
	mustClose(t, b)
}
