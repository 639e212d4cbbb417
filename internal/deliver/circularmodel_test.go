package deliver

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs/vfstest"
)

// overflowing is a drawn course of a small circular buffer with one lane.
type overflowing struct {
	seed  uint64
	limit int64
	bad   int // per cent of requests that fail while the endpoint is up
	steps []step
}

// run lets the course happen and checks that what arrived and what was told missing add up
// to what was appended.
func (o *overflowing) run(t *testing.T) {
	fs, out, log := vfstest.New(), newFake(), slog.New(slog.NewTextHandler(io.Discard, nil))
	rng := rand.New(rand.NewPCG(o.seed, 2))
	var down, healed atomic.Bool
	out.limit = 500
	out.answer = func(_ string, ns []uint32) output.Result {
		out.mu.Lock()
		defer out.mu.Unlock()
		switch {
		case healed.Load():
			return output.Result{}
		case down.Load():
			return fails(output.Unavailable)
		case rng.IntN(100) < o.bad:
			return fails(output.Throttled)
		}
		return output.Result{}
	}
	refused := 0 // in a row; at the third time a full buffer would let it go
	out.takes = func(string, output.Notice, int) bool {
		if healed.Load() || refused == 2 || rng.IntN(3) > 0 {
			refused = 0
			return true
		}
		refused++
		return false
	}
	opt := Options{ID: "out", Output: out, Log: log, Retry: DefaultRetry, Linger: Linger{Interval: time.Second}, Tell: true, Circular: true, Slots: NewSlots(1)}
	var book *ledger.Book
	open := func() {
		var err error
		book = &ledger.Book{}
		if opt.Buffer, err = buffer.Open(buffer.Options{FS: fs, Dir: "b", Book: book, Log: log, Limit: o.limit, Durability: buffer.OS,
			Overflow: buffer.DropOldest, Tell: true}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	d := New(opt)
	d.Start()
	next := uint32(0)
	for _, s := range o.steps {
		switch s.kind {
		case "append":
			for range s.count {
				_, err := opt.Buffer.Append(context.Background(), batch("a", next, 20))
				if err != nil && err != buffer.ErrDropped {
					t.Log(err) // dropped: told as well
				}
				next += 20
			}
		case "down":
			down.Store(true)
		case "up":
			down.Store(false)
		case "halt":
			d.Halt(context.Background())
			opt.Buffer.Rewind()
			d = New(opt)
			d.Start()
		case "kill":
			time.Sleep(2 * time.Second) // what is at the door is written within one
			synctest.Wait()
			was, left := opt.Buffer, fs.Kill()
			d.Halt(context.Background())
			_ = was.Close(context.Background())
			fs = left
			open()
			d = New(opt)
			d.Start()
		case "restart":
			_ = opt.Buffer.Seal(context.Background())
			ctx, cancel := context.WithTimeout(context.Background(), s.pause/2)
			d.Stop(ctx, s.give)
			cancel()
			_ = opt.Buffer.Close(context.Background())
			open()
			d = New(opt)
			d.Start()
		}
		time.Sleep(s.pause)
		synctest.Wait()
		if err := d.consistent(); err != nil {
			t.Error(err)
		}
		if st := opt.Buffer.Stats(); st.Balance != 0 {
			t.Errorf("books are off by %d", st.Balance)
		}
	}
	healed.Store(true)
	time.Sleep(20 * time.Minute)
	st := opt.Buffer.Stats()
	if st.PendingEvents != 0 || st.Untold != 0 {
		t.Errorf("%d events and %d gaps still wait", st.PendingEvents, st.Untold)
	}
	_ = opt.Buffer.Seal(context.Background())
	d.Stop(context.Background(), false)
	_ = opt.Buffer.Close(context.Background())
	got := out.got("a")
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			t.Fatalf("event %d arrived behind %d", got[i], got[i-1])
		}
	}
	told := out.sum("a")
	if s := book.Sheet(); uint64(len(got))+told != uint64(next) || s.Dropped[ledger.BufferFull] != told || s.Admitted != uint64(next) {
		t.Errorf("%d arrived and %d are told missing of %d; admitted %d, dropped %d", len(got), told, next, s.Admitted, s.Dropped[ledger.BufferFull])
	}
	if len(got) > 0 && len(out.heard("a")) > 0 {
		for _, n := range out.heard("a") { // what is told stands before what came after it
			if n.at < len(got) && n.Last > 1e18 {
				t.Errorf("notice %+v", n)
			}
		}
	}
}

func TestAnyOverflowIsTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := overflowing{
			seed:  rapid.Uint64().Draw(rt, "seed"),
			limit: rapid.SampledFrom([]int64{32 << 10, 64 << 10, 1 << 20}).Draw(rt, "limit"),
			bad:   rapid.SampledFrom([]int{0, 30}).Draw(rt, "bad"),
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			o.steps = append(o.steps, step{
				kind:  rapid.SampledFrom([]string{"append", "append", "append", "append", "down", "up", "halt", "restart", "kill"}).Draw(rt, "kind"),
				count: rapid.SampledFrom([]int{1, 5, 100, 400}).Draw(rt, "count"),
				pause: rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Millisecond, time.Second, 20 * time.Second}).Draw(rt, "pause"),
				give:  rapid.Bool().Draw(rt, "give"),
			})
		}
		if !t.Run("course", func(t *testing.T) { synctest.Test(t, o.run) }) {
			rt.Fatalf("course %+v", o)
		}
	})
}
