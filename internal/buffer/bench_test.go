package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"weir/internal/ledger"
	"weir/internal/vfs"
)

// drainAll reads and settles everything until the buffer is sealed and empty.
func drainAll(tb testing.TB, b *Buffer) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		var parts []Part
		for {
			k, err := b.Next(context.Background())
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				tb.Error(err)
				return
			}
			parts = parts[:0]
			for _, it := range k.Items() {
				parts = append(parts, Part{Seq: it.Seq, Span: Span{0, uint32(it.Batch.Count)}, Fate: ledger.Fate{Class: ledger.Delivered}})
			}
			k.Release()
			if err := b.Settle(parts); err != nil {
				tb.Error(err)
				return
			}
		}
	})
	return &wg
}

// BenchmarkAppend is producers that append and wait until stored, beside a reader that
// settles everything. events/s is the figure of interest.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name      string
		fs        func() vfs.FS
		d         Durability
		producers int
		events    int
		pad       int
		wait      bool
	}{
		{"sync/64x10", func() vfs.FS { return vfs.OS{} }, Sync, 64, 10, 230, true},
		{"sync/64x1", func() vfs.FS { return vfs.OS{} }, Sync, 64, 1, 230, true},
		{"sync/1x1000", func() vfs.FS { return vfs.OS{} }, Sync, 1, 1000, 420, true},
		{"sync/4x1000", func() vfs.FS { return vfs.OS{} }, Sync, 4, 1000, 420, true},
		{"sync/1x1000/nowait", func() vfs.FS { return vfs.OS{} }, Sync, 1, 1000, 420, false},
		{"os/4x10/nowait", func() vfs.FS { return vfs.OS{} }, OS, 4, 10, 230, false},
		{"mem/4x10/nowait", func() vfs.FS { return vfs.NewMem(0) }, OS, 4, 10, 230, false},
		{"mem/4x1/nowait", func() vfs.FS { return vfs.NewMem(0) }, OS, 4, 1, 230, false},
		{"mem/4x1000/nowait", func() vfs.FS { return vfs.NewMem(0) }, OS, 4, 1000, 420, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := testOptions(b, c.fs(), b.TempDir())
			o.Limit, o.Durability, o.Overflow = 2<<30, c.d, Block
			q := mustOpen(b, o)
			reader := drainAll(b, q)
			batch := batchOf("kubernetes.var.log.containers.web", 1, c.events, c.pad)
			ctx := context.Background()
			b.SetBytes(int64(len(batch.Entries)))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for p := range c.producers {
				wg.Go(func() {
					for range b.N/c.producers + min(1, max(0, b.N%c.producers-p)) {
						seq, err := q.Append(ctx, batch)
						if err == nil && c.wait {
							err = q.WaitStored(ctx, uint64(seq))
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if err := q.Seal(ctx); err != nil {
				b.Fatal(err)
			}
			reader.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N*c.events)/b.Elapsed().Seconds(), "events/s")
			mustBalance(b, q)
			if err := q.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkView is delivery taking its references back: whole runs of frames in memory, and
// one entry at a time of frames that are only on disk.
func BenchmarkView(b *testing.B) {
	for _, c := range []struct {
		name   string
		recent int64
		run    int
	}{
		{"hot/1000", 64 << 20, 1000},
		{"hot/1", 64 << 20, 1},
		{"cold/1000", 1, 1000},
		{"cold/1", 1, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := testOptions(b, vfs.OS{}, b.TempDir())
			o.Limit, o.Durability, o.Recent = 1<<30, OS, c.recent
			q := mustOpen(b, o)
			ctx := context.Background()
			for i := range 64 {
				if _, err := q.Append(ctx, batchOf(fmt.Sprint("t", i), i, 1000, 300)); err != nil {
					b.Fatal(err)
				}
			}
			if err := q.Seal(ctx); err != nil {
				b.Fatal(err)
			}
			var refs []Ref
			for {
				k, err := q.Next(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				for _, it := range k.Items() {
					size := len(it.Batch.Entries) / 1000 * c.run
					for i := 0; i < 1000; i += c.run {
						refs = append(refs, it.Ref(i*size/c.run, size, Span{uint32(i), uint32(c.run)}))
					}
				}
				k.Release()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				v, err := q.View(refs[i%len(refs)])
				if err != nil {
					b.Fatal(err)
				}
				v.Release()
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N*c.run)/b.Elapsed().Seconds(), "events/s")
			if err := q.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}
