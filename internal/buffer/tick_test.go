package buffer

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/ledger"
	"weir/internal/vfs"
	"weir/internal/vfs/vfstest"
)

// TestIdleBufferSleeps: when there is nothing to do no timer fires, whatever was done before.
func TestIdleBufferSleeps(t *testing.T) {
	for _, lean := range []bool{false, true} {
		for _, durability := range []Durability{Sync, Interval, OS} {
			synctest.Test(t, func(t *testing.T) {
				fs := vfstest.New()
				o := testOptions(t, fs, "q")
				o.Lean, o.Durability, o.Tell, o.Segment = lean, durability, true, 32<<10
				b := mustOpen(t, o)
				idle := func(what string) {
					t.Helper()
					time.Sleep(5 * time.Second)
					synctest.Wait()
					was := b.ticks
					time.Sleep(time.Hour)
					synctest.Wait()
					if b.ticks != was {
						t.Fatalf("lean %v, durability %d, %s: the timer has fired %d times in an hour", lean, durability, what, b.ticks-was)
					}
				}
				idle("new")
				appendN(t, b, 0, 20, 1000)
				idle("events wait")
				for b.Stats().PendingEvents > 0 {
					settleNext(t, b)
				}
				idle("all is delivered")
				mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 2))
				idle("a gap waits")
				mustClose(t, b)
			})
		}
	}
}

// heldFS lets writes to segments wait.
type heldFS struct {
	vfs.FS
	began, release chan struct{}
}

type heldFile struct {
	vfs.File
	fs *heldFS
}

func (s *heldFS) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, spareName) {
		return f, err
	}
	return &heldFile{f, s}, nil
}

func (f *heldFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.began <- struct{}{}
	<-f.fs.release
	return f.File.WriteAt(p, off)
}

// TestGapWaitsForTheFramesBeforeIt: the tick of every second does not write a gap down before
// what stands ahead of it is stored; it is in the door file meanwhile.
func TestGapWaitsForTheFramesBeforeIt(t *testing.T) {
	fs := &heldFS{FS: vfstest.New(), began: make(chan struct{}, 8), release: make(chan struct{})}
	o := testOptions(t, fs, "q")
	o.Tell = true
	b := mustOpen(t, o)
	appendN(t, b, 0, 1, 10)
	<-fs.began
	mustMiss(t, b, "a", ledger.WireLoss, lossAt(0, 2))
	b.recordMisses(math.MaxUint64) // as the tick does
	b.mu.Lock()
	waiting, stored := len(b.misses), b.stored.Seq
	b.mu.Unlock()
	if waiting != 1 || stored != 1 {
		t.Fatalf("%d gaps wait, stored is %d", waiting, stored)
	}
	// A kill now: the batch was not acknowledged, and the gap is remembered.
	killed := fs.FS.(*vfstest.FS).Clone()
	k := o
	k.FS, k.Book = killed, &ledger.Book{}
	after := mustOpen(t, k)
	mustBe(t, readAllRuns(t, after), wireGap(1, 1, map[string]Loss{"a": lossAt(0, 2)}))
	mustClose(t, after)
	close(fs.release)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for b.Stats().Stored < 2 {
		time.Sleep(time.Millisecond)
	}
	mustBe(t, readAllRuns(t, b), Seq(1), wireGap(2, 2, map[string]Loss{"a": lossAt(0, 2)}))
	mustClose(t, b)
}
