package deliver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs"
)

// sink is an output that costs as little as an output can: it counts entries by their
// number in the batch, and takes up to a mebibyte a request.
type sink struct{ wait time.Duration }

func (s sink) Splitter() output.Splitter { return &tagSplitter{} }
func (s sink) Request() output.Request   { return &sinkRequest{s: s} }
func (s sink) Scope() string             { return "" }
func (s sink) Close() error              { return nil }

type tagSplitter struct{ key []byte }

func (s *tagSplitter) Split(b event.Batch, add func([]byte, output.Run)) {
	s.key = append(s.key[:0], b.Tag...)
	add(s.key, output.Run{Len: len(b.Entries), Count: b.Count})
}

type sinkRequest struct {
	s    sink
	size int
}

func (r *sinkRequest) Reset(string)  { r.size = 0 }
func (r *sinkRequest) Fill() float64 { return float64(r.size) / (1 << 20) }
func (r *sinkRequest) Add(b []byte, limit int) (entries, size int, full bool) {
	const each = 19 // bytes of an entry of batch()
	n := min(len(b)/each, limit, (1<<20-r.size)/each)
	r.size += n * each
	return n, n * each, n < len(b)/each && n < limit
}
func (r *sinkRequest) Send(context.Context) output.Result {
	time.Sleep(r.s.wait)
	return output.Result{Bytes: r.size}
}

// BenchmarkDeliver measures everything between the buffer and the output, with an output
// that does nothing.
func BenchmarkDeliver(b *testing.B) {
	for _, c := range []struct {
		lanes, count, workers int
		wait                  time.Duration
	}{
		{1, 1000, 4, 0}, {1, 1, 4, 0}, {100, 10, 32, 0}, {10_000, 1, 32, 0}, {10_000, 100, 32, 0}, {100, 100, 32, time.Millisecond},
	} {
		b.Run(fmt.Sprintf("lanes=%d/batch=%d/workers=%d/wait=%s", c.lanes, c.count, c.workers, c.wait), func(b *testing.B) {
			var book ledger.Book
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			buf, err := buffer.Open(buffer.Options{FS: vfs.NewMem(0), Dir: "b", Book: &book, Log: log, Limit: 256 << 20, Durability: buffer.OS, Overflow: buffer.Block})
			if err != nil {
				b.Fatal(err)
			}
			d := New(Options{ID: "bench", Buffer: buf, Output: sink{c.wait}, Log: log, Workers: c.workers, Retry: DefaultRetry, Linger: Linger{Interval: 50 * time.Millisecond}})
			d.Start()
			batches := make([]event.Batch, c.lanes)
			for i := range batches {
				batches[i] = batch(fmt.Sprint("lane-", i), 0, c.count)
			}
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for i := 0; n < b.N; i++ {
				if _, err := buf.Append(context.Background(), batches[i%c.lanes]); err != nil {
					b.Fatal(err)
				}
				n += c.count
			}
			if err := buf.Seal(context.Background()); err != nil {
				b.Fatal(err)
			}
			d.Stop(context.Background(), false)
			b.StopTimer()
			if s := book.Sheet(); s.Delivered != uint64(n) {
				b.Fatalf("%d of %d delivered", s.Delivered, n)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
			_ = buf.Close(context.Background())
		})
	}
}
