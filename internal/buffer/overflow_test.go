package buffer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/vfs"
	"weir/internal/vfs/vfstest"
)

// fill appends until the first batch that does not go in without waiting.
func fill(tb testing.TB, b *Buffer) (n int, err error) {
	tb.Helper()
	for ; n < 10000; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := b.Append(ctx, batchOf("t", n, 2, 400))
		cancel()
		if err != nil {
			return n, err
		}
	}
	tb.Fatal("it never was full")
	return 0, nil
}

func TestThrowBooksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t, vfstest.New(), "q")
		o.Limit = 64 << 10
		b := mustOpen(t, o)
		n, err := fill(t, b)
		if !errors.Is(err, input.ErrRefused) {
			t.Fatal(err)
		}
		if got := o.Book.Sheet(); got.Admitted != uint64(2*n) || got.Ended() != 0 {
			t.Fatalf("%+v", got)
		}
		// What was reserved and given back leaves room for as much.
		small := batchOf("t", 0, 1, 0)
		for range 10 {
			if err := b.Reserve(context.Background(), small); err != nil {
				break
			}
			b.Unreserve(small)
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

func TestBlockWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t, vfstest.New(), "q")
		o.Limit, o.Overflow = 64<<10, Block
		b := mustOpen(t, o)
		n, err := fill(t, b)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := b.Append(context.Background(), batchOf("t", n, 2, 400))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatal("it did not wait", err)
		default:
		}
		for b.Stats().Mark < Seq(n) {
			settleNext(t, b)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		mustBalance(t, b)
		mustClose(t, b)
	})
}

func TestDropNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t, vfstest.New(), "q")
		o.Limit, o.Overflow = 64<<10, DropNewest
		b := mustOpen(t, o)
		n, err := fill(t, b)
		if !errors.Is(err, ErrDropped) {
			t.Fatal(err)
		}
		if got := o.Book.Sheet(); got.Dropped[ledger.BufferFull] != 2 || got.Admitted != uint64(2*n+2) {
			t.Fatalf("%+v", got)
		}
		mustBalance(t, b)
		mustClose(t, b)
		// The drop is remembered though it never was in a file.
		o.Book = &ledger.Book{}
		b = mustOpen(t, o)
		if got := o.Book.Sheet(); got.Dropped[ledger.BufferFull] != 2 || got.Admitted != uint64(2*n+2) {
			t.Fatalf("after a restart: %+v", got)
		}
		mustClose(t, b)
	})
}

func TestDropOldestTellsWhatIsLost(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"file": vfstest.New(), "memory": vfs.NewMem(0)} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t, fs, "q")
			o.Limit, o.Overflow = 64<<10, DropOldest
			b := mustOpen(t, o)
			ctx := context.Background()
			const n = 600
			lost := map[string]uint64{}
			for i := range n {
				tag := []string{"a", "b"}[i%2]
				lost[tag] += 2
				if _, err := b.Append(ctx, batchOf(tag, i, 2, 200)); err != nil {
					t.Fatal(err)
				}
				if s := b.Stats(); s.Balance != 0 || s.Bytes > s.Limit {
					t.Fatalf("%+v", s)
				}
			}
			if err := b.Seal(ctx); err != nil {
				t.Fatal(err)
			}
			var gaps uint64
			next := Seq(1)
			for {
				k, err := b.Next(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if g := k.Gap; g != nil {
					if g.First != next || g.Reason != ledger.BufferFull || g.Events != 2*uint64(g.Last-g.First+1) {
						t.Fatalf("%+v, next %d", g, next)
					}
					var sum uint64
					for tag, l := range g.Tags {
						sum += l.Events
						lost[tag] -= l.Events
						if l.First == 0 || l.Last < l.First || l.Bytes == 0 {
							t.Fatalf("%s: %+v", tag, l)
						}
					}
					if sum != g.Events {
						t.Fatalf("tags have %d of %d", sum, g.Events)
					}
					gaps += g.Events
					next = g.Last + 1
				}
				var parts []Part
				for _, it := range k.Items() {
					if it.Seq != next {
						t.Fatalf("%d after %d", it.Seq, next-1)
					}
					next++
					lost[it.Batch.Tag] -= 2
					parts = append(parts, Part{Seq: it.Seq, Span: Span{0, 2}, Fate: delivered})
				}
				k.Release()
				if err := b.Settle(parts); err != nil {
					t.Fatal(err)
				}
			}
			if next != n+1 || lost["a"] != 0 || lost["b"] != 0 || gaps == 0 {
				t.Fatalf("next %d, unaccounted %v, lost %d", next, lost, gaps)
			}
			if got := o.Book.Sheet(); got.Dropped[ledger.BufferFull] != gaps || got.Delivered != 2*n-gaps {
				t.Fatalf("%+v", got)
			}
			mustBalance(t, b)
			mustClose(t, b)
		})
	}
}

// TestFullDisk: a full disk acts like the limit, is logged once when it begins and once
// when it ends, and everything goes on.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { fullDisk(t, false) })
	synctest.Test(t, func(t *testing.T) { fullDisk(t, true) })
}

func fullDisk(t *testing.T, lean bool) {
	fs := vfstest.New()
	var logged bytes.Buffer
	o := testOptions(t, fs, "q")
	o.Lean, o.Limit, o.Segment, o.Log = lean, 1<<20, 8<<10, slog.New(slog.NewTextHandler(&logged, nil))
	b := mustOpen(t, o)
	fs.SetCapacity(3 << 20)
	appendN(t, b, 0, 4, 400)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(1) // others took it
	n, err := fill(t, b)
	if !errors.Is(err, input.ErrRefused) {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := b.Append(context.Background(), batchOf("t", 0, 2, 4000)); !errors.Is(err, input.ErrRefused) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if s := b.Stats(); !vfs.IsFull(s.Fault) {
		t.Fatalf("%+v", s)
	}
	// Everything that was accepted is stored: it was reserved before.
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(0)
	time.Sleep(3 * time.Second)
	appendN(t, b, n, 10, 400)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustBalance(t, b)
	mustClose(t, b)
	if s := logged.String(); strings.Count(s, "buffer is full") != 1 || strings.Count(s, "buffer has room again") != 1 || strings.Count(s, "\n") != 2 {
		t.Fatalf("logged:\n%s", s)
	}
}

func TestFreeSpaceFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { freeSpaceFloor(t, false) })
	synctest.Test(t, func(t *testing.T) { freeSpaceFloor(t, true) })
}

func freeSpaceFloor(t *testing.T, lean bool) {
	fs := vfstest.New()
	o := testOptions(t, fs, "q")
	o.Lean, o.MinFree, o.Segment = lean, 100<<20, 8<<10
	fs.SetFree(99 << 20)
	b := mustOpen(t, o)
	if _, err := b.Append(context.Background(), batchOf("t", 0, 1, 0)); !errors.Is(err, input.ErrRefused) {
		t.Fatal(err)
	}
	fs.SetFree(200 << 20)
	time.Sleep(2 * time.Second)
	appendN(t, b, 0, 1, 0)
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, b)
}

// TestTooBig: a batch that can never fit is refused at once, whatever the policy.
func TestTooBig(t *testing.T) {
	for _, p := range []Overflow{Throw, Block, DropOldest, DropNewest} {
		o := testOptions(t, vfs.NewMem(0), "q")
		o.Limit, o.Overflow = 32<<10, p
		b := mustOpen(t, o)
		_, err := b.Append(context.Background(), batchOf("t", 0, 100, 400))
		if want := map[Overflow]error{Throw: input.ErrRefused, Block: input.ErrRefused, DropOldest: ErrDropped, DropNewest: ErrDropped}[p]; !errors.Is(err, want) {
			t.Fatal(p, err)
		}
		appendN(t, b, 0, 3, 10)
		mustBalance(t, b)
		b.DropRest(ledger.Shutdown)
		mustClose(t, b)
	}
}
