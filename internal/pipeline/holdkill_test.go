package pipeline

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// life is a process with a hold and a buffer on a disk, between two kills.
type life struct {
	fs *vfstest.FS
	*held
	buf *buffer.Buffer
}

func begin(t testing.TB, fs *vfstest.FS, conf string) *life {
	t.Helper()
	book := &ledger.Book{}
	b, err := buffer.Open(buffer.Options{FS: fs, Dir: "b", Book: book, Log: quiet(), Limit: 1 << 20, Durability: buffer.Sync})
	if err != nil {
		t.Fatal(err)
	}
	out := &Target{ID: "out", Book: book, In: &Counter{}, Buffer: b}
	h := holdBefore(t, HoldOptions{Holder: holder(t, conf), Known: b.Known}, &Node{Ends: []End{{Target: out}}})
	h.holds.Start()
	return &life{fs: fs, held: h, buf: b}
}

// kill ends the process as SIGKILL does and gives what is on the disk.
func (l *life) kill() *vfstest.FS {
	fs := l.fs.Kill()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.holds.Stop(ctx)
	_ = l.buf.Close(ctx)
	return fs
}

// message is a batch with the name of its message.
func message(name string, at int, text ...string) event.Batch {
	b := lines(at, text...)
	sum := sha256.Sum256([]byte(name))
	copy(b.Chunk[:], sum[:])
	return b
}

// TestRepeatAfterAKill repeats a message whose beginning was stored: what was is left out,
// what was held is stored then.
func TestRepeatAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, vfstest.New(), byStart)
		old := mustEmit(t, l, message("m0", 1, "x", "S0", "0"))
		m := message("m1", 10, "1", "S1", "a", "S2", "b", "S3", "c")
		r := mustEmit(t, l, m)
		time.Sleep(time.Second)
		synctest.Wait()
		if !safe(old) || safe(r) {
			t.Fatal("acknowledged", safe(old), safe(r))
		}
		l = begin(t, l.kill(), byStart)
		r = mustEmit(t, l, m)
		time.Sleep(time.Second)
		synctest.Wait()
		if safe(r) {
			t.Fatal("acknowledged")
		}
		q := mustEmit(t, l, message("m2", 20, "S4"))
		time.Sleep(time.Second)
		synctest.Wait()
		if !safe(r) || safe(q) {
			t.Fatal("acknowledged", safe(r), safe(q))
		}
		// All of the message has gone on now, but the sender does not know.
		l = begin(t, l.kill(), byStart)
		r = mustEmit(t, l, m)
		q = mustEmit(t, l, message("m2", 20, "S4"))
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if !safe(r) || !safe(q) {
			t.Fatal("acknowledged", safe(r), safe(q))
		}
		l.holds.Stop(context.Background())
		got := fmt.Sprintf("%q", texts(t, l.buf))
		_ = l.buf.Close(context.Background())
		// The last part was held, so nothing marks the message as a whole: it comes twice.
		if want := `["x" "S0\n0\n1" "S1\na" "S2\nb" "S3\nc" "S3\nc" "S4"]`; got != want {
			t.Errorf("stored %s\nwant   %s", got, want)
		}
	})
}

// TestAnotherBeginningIsNotLeftOut repeats a message after the filters before the hold have
// changed: what is new in it must be stored.
func TestAnotherBeginningIsNotLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, vfstest.New(), byStart)
		mustEmit(t, l, message("m", 1, "S1", "a", "S2"))
		time.Sleep(time.Second)
		l = begin(t, l.kill(), byStart)
		mustEmit(t, l, message("m", 1, "S0", "S1", "a", "S2"))
		time.Sleep(time.Second)
		l.holds.Stop(context.Background())
		got := fmt.Sprintf("%q", texts(t, l.buf))
		_ = l.buf.Close(context.Background())
		if want := `["S1\na" "S0" "S1\na" "S2"]`; got != want {
			t.Errorf("stored %s\nwant   %s", got, want)
		}
	})
}

// TestNothingAcknowledgedIsLost kills again and again a process that holds events; a sender
// repeats what was not acknowledged.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var sent, got []string
		synctest.Test(t, func(t *testing.T) {
			conf := rapid.SampledFrom([]string{byStart, "@type concat\nkey m\nn_lines 3\nflush_interval 2s", "@type detect_exceptions\nmessage m\nmultiline_flush_interval 2s"}).Draw(rt, "conf")
			l := begin(t, vfstest.New(), conf)
			type pending struct {
				b event.Batch
				r input.Receipt
			}
			var open []pending
			number := 0
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				switch rapid.IntRange(0, 9).Draw(rt, "step") {
				case 0:
					l = begin(t, l.kill(), conf)
					for i := range open {
						open[i].r = mustEmit(t, l, open[i].b)
					}
				case 1, 2:
					time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond)
				case 3:
					synctest.Wait()
					open = slices.DeleteFunc(open, func(p pending) bool { return safe(p.r) })
				default:
					var text []string
					for range rapid.IntRange(1, 6).Draw(rt, "lines") {
						number++
						line := fmt.Sprintf("%s#%d.", rapid.SampledFrom([]string{"S", "a", "E.Exception:", "\tat x"}).Draw(rt, "line"), number)
						text, sent = append(text, line), append(sent, line)
					}
					b := message(fmt.Sprint(number), number, text...)
					b.Tag = rapid.SampledFrom([]string{"app", "b"}).Draw(rt, "tag")
					open = append(open, pending{b, mustEmit(t, l, b)})
				}
			}
			for _, p := range open {
				ctx, cancel := context.WithTimeout(context.Background(), 70*time.Second)
				if err := p.r.Wait(ctx); err != nil {
					rt.Errorf("never acknowledged: %v", err)
				}
				cancel()
			}
			l.holds.Stop(context.Background())
			got = texts(t, l.buf)
			_ = l.buf.Close(context.Background())
		})
		all := strings.Join(got, "\n")
		for _, line := range sent {
			if !strings.Contains(all, line) {
				rt.Fatalf("line %q is lost; stored %q", line, got)
			}
		}
	})
}

// TestManyEmitters sends several tags from several goroutines each, through two holds in a
// row, while they are flushed and stopped: per sender the order stays, nothing is lost.
func TestManyEmitters(t *testing.T) {
	s := newStore(t, "out", 64<<20, buffer.Throw)
	second := NewHold(HoldOptions{ID: "second", Log: quiet(), Holder: holder(t, "@type detect_exceptions\nmessage m\nmultiline_flush_interval 50ms")})
	h := holdBefore(t, HoldOptions{Holder: holder(t, byStart), Limit: 64 << 10}, &Node{Ends: []End{{Hold: &Door{Hold: second, Next: &Node{Ends: []End{end(s)}}}}}})
	h.holds.Add(second)
	h.holds.Start()
	const senders, batches = 8, 200
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			var open []input.Receipt
			for j := range batches {
				b := lines(j, fmt.Sprintf("S%d.%d", i, 2*j), fmt.Sprintf("%d.%d", i, 2*j+1))
				b.Tag = fmt.Sprint("t", i%3)
				open = append(open, mustEmit(t, h, b))
				if j%50 == 0 {
					h.holds.Flush()
				}
			}
			h.holds.Flush()
			for _, r := range open {
				if err := r.Wait(context.Background()); err != nil {
					t.Error(err)
				}
				h.holds.Flush()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-tick.C:
			h.holds.Flush() // a line of another sender may be the last one
			continue
		case <-done:
			tick.Stop()
		}
		break
	}
	h.holds.Stop(context.Background())
	next := map[string]int{}
	n := 0
	for _, text := range texts(t, s.Buffer) {
		for _, line := range strings.Split(text, "\n") {
			who, number, _ := strings.Cut(strings.TrimPrefix(line, "S"), ".")
			if fmt.Sprint(next[who]) != number {
				t.Fatalf("line %s of sender %s, want %d", number, who, next[who])
			}
			next[who]++
			n++
		}
	}
	if n != senders*batches*2 || s.Book.Sheet().Admitted != uint64(n) {
		t.Errorf("%d lines, books %+v", n, s.Book.Sheet())
	}
}

// BenchmarkHold sends batches of 100 events through a hold; nothing is stored.
func BenchmarkHold(b *testing.B) {
	for _, c := range []struct{ name, conf string }{
		{"concat, single lines", byStart}, {"detect, no trace", "@type detect_exceptions\nmessage m\nmultiline_flush_interval 1s"},
	} {
		b.Run(c.name, func(b *testing.B) {
			null := &Target{ID: "null", Book: &ledger.Book{}, In: &Counter{}, End: ledger.Fate{Class: ledger.Filtered}}
			h := holdBefore(b, HoldOptions{Holder: holder(b, c.conf)}, &Node{Ends: []End{{Target: null}}})
			h.holds.Start()
			var text []string
			for range 100 {
				text = append(text, "S "+strings.Repeat("x", 100))
			}
			batch := lines(1, text...)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				mine := batch
				mine.Tag = fmt.Sprint("t", time.Now().UnixNano()%7)
				for n := 0; pb.Next(); n++ {
					if n%100 == 0 {
						_, _ = h.Emit(context.Background(), mine)
					}
				}
			})
			h.holds.Stop(context.Background())
		})
	}
}
