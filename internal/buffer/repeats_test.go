package buffer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// TestKillRemembersMessages: what was stored before a kill is known after it, what was not
// stored is not, and batches without a Chunk are read back beside them.
func TestKillRemembersMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		fs := vfstest.New()
		o := testOptions(t, fs, "q")
		b := mustOpen(t, o)
		add := func(i int, chunk event.Chunk) Seq {
			e := batchOf("tag", i, 3, 10)
			e.Chunk = chunk
			seq, err := b.Append(ctx, e)
			if err != nil {
				t.Fatal(err)
			}
			return seq
		}
		var last Seq
		for i := range 200 {
			c := event.Chunk{}
			if i%2 == 0 {
				c = event.Chunk{1, byte(i)}
			}
			last = add(i*3, c)
		}
		if err := b.WaitStored(ctx, uint64(last)); err != nil {
			t.Fatal(err)
		}
		if b.Known(event.Chunk{1, 2}) {
			t.Error("a message of this run is known: within a process that is the input's business")
		}
		killed := fs.Kill()
		add(999, event.Chunk{9}) // never reaches the files of the killed process
		synctest.Wait()
		gone, cancel := context.WithTimeout(ctx, time.Second)
		_ = b.Close(gone) // its files are gone: only its goroutine matters
		cancel()

		o.FS, o.Book = killed, &ledger.Book{}
		b = mustOpen(t, o)
		for i := range 200 {
			if got := b.Known(event.Chunk{1, byte(i)}); got != (i%2 == 0) {
				t.Errorf("message %d: known %v", i, got)
			}
		}
		if b.Known(event.Chunk{9}) || b.Known(event.Chunk{}) {
			t.Error("a message is known that was never stored, or none at all")
		}
		if st := b.Stats(); st.Balance != 0 || st.PendingEvents != 600 {
			t.Errorf("%+v", st)
		}
		n := 0
		for n < 200 {
			k, err := b.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range k.Items() {
				if count, _, _, _, err := event.Check(it.Batch.Entries); err != nil || count != 3 || it.Batch.Tag != "tag" {
					t.Fatalf("batch %d came back as %q with %d events (%v)", it.Seq, it.Batch.Tag, count, err)
				}
				n++
			}
			k.Release()
		}
		mustClose(t, b)
	})
}

func TestRepeatsAreBounded(t *testing.T) {
	b := &Buffer{}
	const limit = 1000
	id := func(i int) event.Chunk { return event.Chunk{byte(i), byte(i >> 8), byte(i >> 16), 1} }
	for i := range 5 * limit {
		e := event.Batch{Tag: "t", Count: 1, Chunk: id(i), Entries: event.AppendEntry(nil, 1e9, []byte{0x80})}
		f := (&pool{}).get(smallest)
		f.add(&e)
		b.repeats.note(f.payload(), limit)
	}
	if n := len(b.repeats.list); n > 2*limit || n < limit {
		t.Errorf("%d messages are remembered", n)
	}
	if !b.Known(id(5*limit-1)) || !b.Known(id(4*limit)) || b.Known(id(2*limit)) {
		t.Error("it does not know the last messages")
	}
}

// TestChunksOutliveSegments is that the last ids are known at every start, also when the
// segments with them were delivered and removed.
func TestChunksOutliveSegments(t *testing.T) {
	fs := vfstest.New()
	o := testOptions(t, fs, "q")
	o.Limit, o.Segment, o.Lean = 1<<20, 4<<10, true
	ctx := context.Background()
	id := func(i int) event.Chunk { return event.Chunk{byte(i), byte(i >> 8), 1} }
	n := 0
	for round := range 6 {
		o.Book = &ledger.Book{}
		o.FS = fs
		b := mustOpen(t, o)
		got := b.Chunks()
		if len(got) < min(n, leastChunks) {
			t.Fatalf("round %d: %d ids of %d", round, len(got), n)
		}
		for i, c := range got {
			if want := id(n - len(got) + i); c != want {
				t.Fatalf("round %d: id %d of %d is %v, want %v", round, i, len(got), c, want)
			}
		}
		for range 40 * (round % 3) {
			e := batchOf("t", n, 1, 100)
			e.Chunk = id(n)
			n++
			seq, err := b.Append(ctx, e)
			if err == nil {
				err = b.WaitStored(ctx, uint64(seq))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			for b.Stats().PendingEvents > 0 {
				settleNext(t, b)
			}
			if err := b.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if round == 4 {
			old := fs
			fs = old.Kill()
			abort(b)
			continue
		}
		mustClose(t, b)
	}
}
