package buffer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/ledger"
	"weir/internal/vfs"
)

// slowFree is a file system on which the last close of a removed segment takes as long as
// the test wants.
type slowFree struct {
	vfs.FS
	mu      sync.Mutex // guards removed
	removed map[string]bool
	closing chan struct{} // a removed segment is being closed
	release chan struct{} // closed: it may go on
}

func (s *slowFree) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return &slowFile{File: f, fs: s, segment: strings.HasSuffix(name, spareName)}, err
}

func (s *slowFree) Remove(name string) error {
	if strings.HasSuffix(name, segmentExt) {
		s.mu.Lock()
		s.removed[name] = true
		s.mu.Unlock()
	}
	return s.FS.Remove(name)
}

type slowFile struct {
	vfs.File
	fs      *slowFree
	segment bool
}

func (f *slowFile) Close() error {
	f.fs.mu.Lock()
	slow := f.segment && len(f.fs.removed) > 0
	f.fs.mu.Unlock()
	if slow {
		select {
		case f.fs.closing <- struct{}{}:
		default:
		}
		<-f.fs.release
	}
	return f.File.Close()
}

// TestFreeingHoldsUpNobody: while the kernel takes its time to free a removed segment,
// batches are stored, and so acknowledged. Close waits for it.
func TestFreeingHoldsUpNobody(t *testing.T) {
	fs := &slowFree{FS: vfs.OS{}, removed: map[string]bool{}, closing: make(chan struct{}, 1), release: make(chan struct{})}
	o := testOptions(t, fs, t.TempDir())
	o.Segment = 8 << 10
	b := mustOpen(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	append1 := func(i int) {
		t.Helper()
		seq, err := b.Append(ctx, batchOf("t", i, 10, 100))
		if err == nil {
			err = b.WaitStored(ctx, uint64(seq))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	for freed := false; !freed; i++ {
		append1(i)
		run, err := b.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range run.Items() {
			if err := b.Settle([]Part{{Seq: it.Seq, Span: Span{Count: uint32(it.Batch.Count)}, Fate: ledger.Fate{Class: ledger.Delivered}}}); err != nil {
				t.Fatal(err)
			}
		}
		run.Release()
		select {
		case <-fs.closing:
			freed = true
		default:
		}
	}
	for range 20 {
		append1(i)
		i++
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close(ctx) }()
	select {
	case <-b.done: // the committer has ended, freeing has not
	case <-ctx.Done():
		t.Fatal("the committer waits for a segment that is being freed")
	}
	select {
	case <-closed:
		t.Fatal("Close did not wait for the segment that is being freed")
	default:
	}
	close(fs.release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}
