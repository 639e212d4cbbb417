package buffer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batchOf makes a batch of n events of one tag whose entries carry id and their index.
func batchOf(tag string, id, n, pad int) event.Batch {
	var e []byte
	for i := range n {
		e = append(e, 0x92)
		e = event.AppendTime(e, event.Unix(int64(1000+id), int64(i)))
		e = append(e, 0x81, 0xa1, 'm', 0xda, 0, 0)
		at := len(e)
		e = fmt.Appendf(e, "%d/%d", id, i)
		e = append(e, bytes.Repeat([]byte{'.'}, pad)...)
		e[at-2], e[at-1] = byte((len(e)-at)>>8), byte(len(e)-at)
	}
	return event.Batch{Tag: tag, Entries: e, Count: n, First: event.Unix(int64(1000+id), 0), Last: event.Unix(int64(1000+id), int64(n-1))}
}

func testOptions(tb testing.TB, fs vfs.FS, dir string) Options {
	return Options{FS: fs, Dir: dir, Book: &ledger.Book{}, Log: testLog(tb), Limit: 1 << 20}
}

func testLog(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

func mustOpen(tb testing.TB, o Options) *Buffer {
	tb.Helper()
	b, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func mustBalance(tb testing.TB, b *Buffer) {
	tb.Helper()
	if s := b.Stats(); s.Balance != 0 {
		tb.Fatalf("balance is %d: %+v, book %+v", s.Balance, s, b.o.Book.Sheet())
	}
}

func TestRoundTrip(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"os": vfs.OS{}, "mem": vfs.NewMem(0)} {
		for _, codec := range []string{"", "gzip", "zstd"} {
			t.Run(name+codec, func(t *testing.T) {
				ctx := context.Background()
				o := testOptions(t, fs, t.TempDir())
				o.Compress = codec
				b := mustOpen(t, o)
				const n = 100
				for i := range n {
					seq, err := b.Append(ctx, batchOf(fmt.Sprint("tag", i%3), i, 1+i%7, 20))
					if err != nil || seq != Seq(i+1) {
						t.Fatal(seq, err)
					}
				}
				if err := b.WaitStored(ctx, n); err != nil {
					t.Fatal(err)
				}
				mustBalance(t, b)
				if err := b.Seal(ctx); err != nil {
					t.Fatal(err)
				}
				next := 0
				for {
					k, err := b.Next(ctx)
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					var parts []Part
					for _, it := range k.Items() {
						want := batchOf(fmt.Sprint("tag", next%3), next, 1+next%7, 20)
						if it.Batch.Tag != want.Tag || !bytes.Equal(it.Batch.Entries, want.Entries) || it.Batch.Count != want.Count || it.Batch.First != want.First || it.Batch.Last != want.Last {
							t.Fatalf("batch %d differs: %+v", next, it)
						}
						v, err := b.View(it.Ref(0, len(want.Entries), Span{0, uint32(want.Count)}))
						if err != nil || !bytes.Equal(v.Bytes, want.Entries) {
							t.Fatal("view", err)
						}
						v.Release()
						parts = append(parts, Part{Seq: it.Seq, Span: Span{0, uint32(want.Count)}, Fate: ledger.Fate{Class: ledger.Delivered}})
						next++
					}
					k.Release()
					if err := b.Settle(parts); err != nil {
						t.Fatal(err)
					}
					if err := b.Settle(parts[:1]); !errors.Is(err, ErrGone) {
						t.Fatal("settled twice", err)
					}
					mustBalance(t, b)
				}
				if next != n {
					t.Fatal("read", next)
				}
				if err := b.WaitDelivered(ctx, n); err != nil {
					t.Fatal(err)
				}
				if err := b.Close(ctx); err != nil {
					t.Fatal(err)
				}
				if name == "mem" {
					return
				}
				o.Book = &ledger.Book{}
				b = mustOpen(t, o)
				mustBalance(t, b)
				s, sheet := b.Stats(), o.Book.Sheet()
				if s.Mark != n || s.PendingEvents != 0 || sheet.Delivered != sheet.Admitted || sheet.Delivered == 0 {
					t.Fatalf("%+v %+v", s, sheet)
				}
				if err := b.Close(ctx); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
