package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"weir/internal/vfs"
	"weir/internal/vfs/vfstest"
)

// TestDropOldestInASmallBuffer: what comes last stays, and nothing is refused, while the
// reader has only begun.
func TestDropOldestInASmallBuffer(t *testing.T) {
	files := map[string]func() vfs.FS{
		"os": func() vfs.FS { return vfs.OS{} }, "test": func() vfs.FS { return vfstest.New() }, "memory": func() vfs.FS { return vfs.NewMem(0) },
	}
	for name, fs := range files {
		for _, limit := range []int64{64 << 10, 256 << 10, 1 << 20} {
			for _, lean := range []bool{false, true} {
				for _, size := range []int{1, 10, 100} {
					t.Run(fmt.Sprint(name, limit, lean, size), func(t *testing.T) {
						o := testOptions(t, fs(), t.TempDir())
						o.Limit, o.Lean, o.Overflow, o.Durability, o.Recent, o.Tell = limit, lean, DropOldest, Interval, 256<<10, true
						b := mustOpen(t, o)
						smallBuffer(t, b, size)
						mustClose(t, b)
					})
				}
			}
		}
	}
}

func smallBuffer(t *testing.T, b *Buffer, size int) {
	ctx := context.Background()
	const n = 10000
	appendN(t, b, 0, 3, 50)
	if err := b.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	k, err := b.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	seq := k.Items()[len(k.Items())-1].Seq
	k.Release() // begun, and not settled
	for i := range n / size {
		if _, err := b.Append(ctx, batchOf("t", i, size, 50)); err != nil {
			t.Fatal(i, err)
		}
	}
	// A batch of more than half of the limit, twice.
	for i := range 2 {
		if _, err := b.Append(ctx, batchOf("t", n+i, int(b.o.Limit*6/10/80), 50)); err != nil {
			t.Fatal("large", i, err)
		}
	}
	last, err := b.Append(ctx, batchOf("t", n+3, 1, 50))
	if err != nil {
		t.Fatal(err)
	}
	if s := b.Stats(); s.Balance != 0 || s.Bytes > s.Limit {
		t.Fatalf("%+v", s)
	}
	if err := b.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	stays := int64(0)
	for {
		k, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if g := k.Gap; g != nil {
			if g.First != seq+1 || stays > b.o.Segment { // the rest of the segment that it has begun
				t.Fatalf("gap %+v behind %d, %d bytes before it stay", g, seq, stays)
			}
			seq = g.Last
		}
		for _, it := range k.Items() {
			if it.Seq != seq+1 {
				t.Fatalf("%d after %d", it.Seq, seq)
			}
			seq = it.Seq
			stays += int64(len(it.Batch.Entries))
		}
		k.Release()
	}
	if seq != last || stays < b.o.Limit/2 {
		t.Fatalf("read up to %d of %d, %d bytes of them stay", seq, last, stays)
	}
}
