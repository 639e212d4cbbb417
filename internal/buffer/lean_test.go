package buffer

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/ledger"
	"weir/internal/vfs"
)

// diskBlocks is what the files below dir take on disk.
func diskBlocks(tb testing.TB, dir string) (n int64) {
	tb.Helper()
	err := filepath.Walk(dir, func(_ string, f os.FileInfo, err error) error {
		if err == nil && !f.IsDir() {
			n += f.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Skip("no /proc here")
	}
	return len(list)
}

func heapNow() int64 {
	for range 3 {
		runtime.GC() // twice empties the pools
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestManyLeanBuffers is what a buffer costs where there are many: before its first event, and
// when it has carried some and has nothing to do.
func TestManyLeanBuffers(t *testing.T) {
	if allocSlack > 1 {
		t.Skip("figures of memory mean nothing under the race detector")
	}
	synctest.Test(t, manyLeanBuffers)
}

func manyLeanBuffers(t *testing.T) {
	const n = 100
	dir := t.TempDir()
	share := NewShare(1 << 30)
	heap, fds, routines := heapNow(), descriptors(t), runtime.NumGoroutine()
	var all []*Buffer
	for i := range n {
		o := testOptions(t, vfs.OS{}, path.Join(dir, fmt.Sprint(i)))
		o.Limit, o.Recent, o.Lean, o.Share, o.Repeats = 256<<20, 256<<10, true, share, 1024
		o.Durability, o.Overflow, o.Tell = Interval, DropOldest, true
		all = append(all, mustOpen(t, o))
	}
	report := func(what string, maxHeap, maxDisk int64) {
		t.Helper()
		h, d := (heapNow()-heap)/n, diskBlocks(t, dir)/n
		f, g := float64(descriptors(t)-fds)/n, float64(runtime.NumGoroutine()-routines)/n
		t.Logf("%s: %d bytes of memory, %d on disk, %.1f descriptors, %.1f goroutines each", what, h, d, f, g)
		if h > maxHeap || d > maxDisk || f > 6 || g > 2 {
			t.Errorf("%s: too much", what)
		}
	}
	report("never used", 64<<10, 100<<10)
	use := func(batches, pad int) {
		for i := range batches {
			for _, b := range all {
				if _, err := b.Append(context.Background(), batchOf("group\x00stream", i, 10, pad)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, b := range all {
			for b.Stats().PendingEvents > 0 {
				settleNext(t, b)
			}
		}
	}
	use(3, 100)
	report("some events", 128<<10, 200<<10)
	use(30, 1000)
	time.Sleep(4 * time.Second) // two ticks
	synctest.Wait()
	report("more, all delivered", 128<<10, 200<<10)
	if used := share.Used(); used > n*(leanStep+1) {
		t.Errorf("the share has %d bytes", used)
	}
	for _, b := range all {
		mustBalance(t, b)
		mustClose(t, b)
	}
	if d := diskBlocks(t, dir) / n; d > 40<<10 {
		t.Errorf("closed buffers take %d bytes of disk each", d)
	}
	if share.Used() != 0 {
		t.Errorf("closed buffers leave %d bytes in the share", share.Used())
	}
}

// BenchmarkLeanIdle is a lean buffer from Open to Close.
func BenchmarkLeanIdle(b *testing.B) {
	dir := b.TempDir()
	b.ReportAllocs()
	for i := range b.N {
		o := testOptions(b, vfs.OS{}, path.Join(dir, fmt.Sprint(i)))
		o.Limit, o.Lean, o.Durability, o.Book = 256<<20, true, Interval, &ledger.Book{}
		mustClose(b, mustOpen(b, o))
	}
}
