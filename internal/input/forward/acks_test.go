package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/input/inputtest"
)

// read returns what the server has written and not yet been read, once all is quiet.
type wire struct {
	*session
	got chan byte
}

// rich opens a session whose answers can be looked at while it runs.
func rich(t *testing.T, p Params) *wire {
	s := open(t, p, Options{})
	return watch(s)
}

func watch(s *session) *wire {
	// again() started a collector; replace it by one that can be asked.
	w := &wire{session: s, got: make(chan byte, 1<<16)}
	var server net.Conn
	_ = s.nc.Close()
	server, s.nc = net.Pipe()
	s.in.serve(s.t.Context(), named{server})
	go func() {
		defer close(w.got)
		b := make([]byte, 4096)
		for {
			n, err := s.nc.Read(b)
			for _, c := range b[:n] {
				w.got <- c
			}
			if err != nil {
				return
			}
		}
	}()
	return w
}

// answers returns what has come since the last call. closed tells that the server has
// closed the connection.
func (w *wire) answers() (s string, closed bool) {
	synctest.Wait()
	var b strings.Builder
	for {
		select {
		case c, ok := <-w.got:
			if !ok {
				return b.String(), true
			}
			b.WriteByte(c)
		default:
			return b.String(), false
		}
	}
}

func (w *wire) want(want string, wantClosed bool) {
	w.t.Helper()
	got, closed := w.answers()
	if got != want || closed != wantClosed {
		w.t.Errorf("answers %q, closed %v; want %q, %v", got, closed, want, wantClosed)
	}
}

func ackOf(ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(pack(kv{"ack", id}))
	}
	return b.String()
}

func numbered(n int, chunk string) []byte {
	var option kv
	if chunk != "" {
		option = kv{"chunk", chunk}
	}
	return messageOf("t", 5, kv{"n", n}, option)
}

func events(ns ...int) (out []string) {
	for _, n := range ns {
		out = append(out, fmt.Sprintf(`t 5.000000000 {"n":%d}`, n))
	}
	return out
}

func (w *wire) wantEvents(ns ...int) {
	w.t.Helper()
	if d := cmp.Diff(w.rec.Events(), events(ns...)); d != "" {
		w.t.Errorf("events, got- want+\n%s", d)
	}
}

// finish ends the Input and waits for its goroutines.
func (w *wire) finish() {
	_ = w.nc.Close()
	w.in.windDown()
	w.in.running.Wait()
}

func TestAckWaitsForReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		defer w.finish()
		store := inputtest.NewStore()
		w.rec.Use(store)
		for i, id := range []string{"a", "b", "c", "d"} {
			w.send(numbered(i, id), 0)
			synctest.Wait()
		}
		w.want("", false)
		store.Safe(1)
		w.want(ackOf("a"), false)
		time.Sleep(time.Hour)
		w.want("", false)
		store.Safe(3)
		w.want(ackOf("b", "c"), false)
		store.Safe(4)
		w.want(ackOf("d"), false)
		w.wantEvents(0, 1, 2, 3)
		if s := w.in.Stats(); s.Acks != 4 || s.Messages != 4 || s.Events != 4 || s.AckLatency[len(s.AckLatency)-1] != 3 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestCoalesce checks that messages received together become one batch, and only those
// of one tag and kind.
func TestCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		defer w.finish()
		store := inputtest.NewStore()
		w.rec.Use(store)
		other := messageOf("u", 6, kv{"n", 9}, nil)
		large := pack(arr{"t", bin(entries(arr{5, kv{"n", 5}}, arr{5, kv{"x", strings.Repeat("y", smallEntries)}})), kv{"chunk", "e"}})
		w.send(cat(numbered(1, "a"), numbered(2, "b"), numbered(3, ""), numbered(4, ""), other, other, numbered(5, "c"), large, numbered(6, "f")), 0)
		synctest.Wait()
		var got []string
		for _, b := range w.rec.Batches() {
			got = append(got, fmt.Sprint(b.Tag, b.Count))
		}
		if d := cmp.Diff(got, []string{"t2", "t2", "u2", "t1", "t2", "t1"}); d != "" {
			t.Errorf("batches, got- want+\n%s", d)
		}
		w.want("", false)
		store.Safe(5)
		w.want(ackOf("a", "b", "c", "e"), false)
		store.Safe(6)
		w.want(ackOf("f"), false)
	})
}

// TestRepeats: a chunk that comes again is answered and not emitted again, whether the
// first copy is safe already or still on its way, over the same connection or another.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		store := inputtest.NewStore()
		w.rec.Use(store)
		w.send(cat(numbered(1, "a"), numbered(1, "a")), 0)
		w.want("", false)
		second := watch(w.session.again())
		second.send(numbered(1, "a"), 0)
		second.want("", false)
		store.Safe(1)
		w.want(ackOf("a", "a"), false)
		second.want(ackOf("a"), false)
		second.send(cat(numbered(2, "b"), numbered(1, "a"), numbered(3, "c")), 0)
		second.want("", false) // in order: a waits for b
		store.Safe(2)
		second.want(ackOf("b", "a"), false)
		store.Safe(3)
		second.want(ackOf("c"), false)
		second.send(messageOf("other", 5, kv{"n", 1}, kv{"chunk", "a"}), 0)
		store.Safe(4)
		second.want(ackOf("a"), false)
		want := append(events(1, 2, 3), `other 5.000000000 {"n":1}`)
		if d := cmp.Diff(w.rec.Events(), want); d != "" {
			t.Errorf("events, got- want+\n%s", d)
		}
		if s := w.in.Stats(); s.Repeats != 3 {
			t.Errorf("%d repeats, want 3", s.Repeats)
		}
		_ = second.nc.Close()
		w.finish()
	})
}

// TestNumberedChunks: a sender that numbers its chunks and begins anew after a restart has
// the ids of chunks that came before. What is in them is not the same, and is taken.
func TestNumberedChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		for _, m := range [][]byte{
			messageOf("t", 5, kv{"n", 1}, kv{"chunk", "1"}),
			messageOf("t", 6, kv{"n", 1}, kv{"chunk", "1"}),
			messageOf("t", 5, kv{"n", 1000}, kv{"chunk", "1"}),
		} {
			w.send(m, 0)
			w.want(ackOf("1"), false)
		}
		want := []string{`t 5.000000000 {"n":1}`, `t 6.000000000 {"n":1}`, `t 5.000000000 {"n":1000}`}
		if d := cmp.Diff(w.rec.Events(), want); d != "" {
			t.Errorf("events, got- want+\n%s", d)
		}
		if s := w.in.Stats(); s.Repeats != 0 {
			t.Errorf("%d repeats, want none", s.Repeats)
		}
		seen := map[event.Chunk]bool{}
		for _, b := range w.rec.Batches() {
			seen[b.Chunk] = true
		}
		if len(seen) != len(want) {
			t.Errorf("the buffer could tell %d messages apart, want %d", len(seen), len(want))
		}
		w.finish()
	})
}

// TestRepeatAfterLostConnection: the client went away before the answer; its batch became
// safe all the same, so the repeat is answered without a second copy.
func TestRepeatAfterLostConnection(t *testing.T) {
	for _, safeFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := rich(t, defaults())
			store := inputtest.NewStore()
			w.rec.Use(store)
			w.send(numbered(1, "a"), 0)
			synctest.Wait()
			_ = w.nc.Close()
			if safeFirst {
				store.Safe(1)
			}
			second := watch(w.session.again())
			second.send(numbered(1, "a"), 0)
			synctest.Wait()
			store.Safe(1)
			second.want(ackOf("a"), false)
			w.wantEvents(1)
			second.finish()
		})
	}
}

// TestRepeatDuringEmit: the first copy is stuck in a full buffer while the second comes.
func TestRepeatDuringEmit(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := rich(t, defaults())
			release := w.rec.Hold()
			w.send(numbered(1, "a"), 0)
			w.rec.WaitInside(1)
			second := watch(w.session.again())
			second.send(numbered(1, "a"), 0)
			second.want("", false)
			if refused {
				w.rec.RefuseAll()
				release()
				w.want("", true)
				second.want("", true)
				w.wantEvents()
				return
			}
			release()
			second.want(ackOf("a"), false)
			w.wantEvents(1)
			second.finish()
			w.finish()
		})
	}
}

// TestRepeatOfFailed: the first copy's receipt fails; neither connection gets an answer,
// and the third copy is a new one.
func TestRepeatOfFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		store := inputtest.NewStore()
		w.rec.Use(store)
		w.send(numbered(1, "a"), 0)
		synctest.Wait()
		second := watch(w.session.again())
		second.send(numbered(1, "a"), 0)
		second.want("", false)
		store.Fail(errors.New("disk is gone"))
		w.want("", true)
		second.want("", true)
		if log := w.log.String(); !strings.Contains(log, "disk is gone") {
			t.Errorf("log %q", log)
		}
		w.rec.Use(nil)
		third := watch(w.session.again())
		third.send(numbered(1, "a"), 0)
		third.want(ackOf("a"), false)
		w.wantEvents(1, 1)
		third.finish()
	})
}

// TestAmbiguousIDs: ids made from the content, with times in whole seconds, prove nothing.
func TestAmbiguousIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		hash := strings.Repeat("0a1b", 8)
		fine := messageOf("t", et{5, 1}, kv{"n", 2}, kv{"chunk", hash})
		w.send(cat(numbered(1, hash), numbered(1, hash), fine, fine), 0)
		w.want(ackOf(hash, hash, hash, hash), false)
		want := append(events(1, 1), `t 5.000000001 {"n":2}`)
		if d := cmp.Diff(w.rec.Events(), want); d != "" {
			t.Errorf("events, got- want+\n%s", d)
		}
		w.finish()
	})
}

// TestRefused: with a chunk id the sender keeps its data: no answer, and the connection
// is closed after the answers that are due. Without one the events are booked as lost,
// with all that has been received behind them.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stream  []byte
		answers string
		events  []string
		lost    []string
		refused uint64
	}{
		{"chunked", cat(numbered(1, "a"), numbered(66, "b"), numbered(2, "c")), "", nil, nil, 3},
		{"chunked, another tag before", cat(messageOf("ok", 5, kv{}, kv{"chunk", "a"}), numbered(66, "b"), numbered(2, "c")),
			ackOf("a"), []string{"ok 5.000000000 {}"}, nil, 2},
		{"plain", cat(numbered(1, ""), numbered(66, "")), "", nil, events(1, 66), 1},
		{"plain, more behind", cat(numbered(66, ""), messageOf("u", 5, kv{}, nil), numbered(7, "z"), numbered(2, "")), "", nil,
			append(append(events(66), "u 5.000000000 {}"), events(2)...), 4},
		{"mixed", cat(messageOf("ok", 5, kv{}, kv{"chunk", "a"}), numbered(66, "")), ackOf("a"), []string{"ok 5.000000000 {}"}, events(66), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := rich(t, defaults())
				w.rec.Refuse(func(b event.Batch) error {
					if b.Tag == "ok" {
						return nil
					}
					return fmt.Errorf("append to b1: %w", input.ErrRefused)
				})
				w.send(tt.stream, 0)
				w.want(tt.answers, true)
				if d := cmp.Diff(w.rec.Events(), tt.events); d != "" {
					t.Errorf("events, got- want+\n%s", d)
				}
				if d := cmp.Diff(w.rec.LostEvents(), tt.lost); d != "" {
					t.Errorf("lost, got- want+\n%s", d)
				}
				if s := w.in.Stats(); s.Refused != tt.refused || s.Lost != uint64(len(tt.lost)) || s.Open != 0 {
					t.Errorf("stats %+v", s)
				}
				if log := w.log.String(); !strings.Contains(log, "refused") || !strings.Contains(log, "buffer is full") {
					t.Errorf("log %q", log)
				}
				// The sender comes back when there is room.
				w.rec.Refuse(nil)
				again := watch(w.session.again())
				again.send(numbered(66, "b"), 0)
				again.want(ackOf("b"), false)
				again.finish()
			})
		})
	}
}

func TestDenyKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := defaults()
		p.DenyKeepalive = true
		w := rich(t, p)
		store := inputtest.NewStore()
		w.rec.Use(store)
		w.send(numbered(1, "a"), 0)
		w.want("", false)
		store.Safe(1)
		w.want(ackOf("a"), true)
		plain := watch(w.session.again())
		plain.send(numbered(2, ""), 0)
		plain.want("", true)
		w.finish()
	})
}

// TestSlowReader: a client that never reads its answers loses its connection, not weir
// its memory.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, defaults(), Options{})
		_ = s.nc.Close()
		server, client := net.Pipe()
		s.in.serve(t.Context(), named{server})
		if _, err := client.Write(numbered(1, "a")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := 0; ; i++ {
			if _, err := client.Write(numbered(i, "c")); err != nil {
				if !errors.Is(err, io.ErrClosedPipe) {
					t.Fatal(err)
				}
				break
			}
		}
		if d := time.Since(start); d != writeTimeout {
			t.Errorf("closed after %v, want %v", d, writeTimeout)
		}
		_ = client.Close()
		s.in.running.Wait()
	})
}

// TestIdle: a connection that has been quiet gives its buffer back.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		w.send(pack(arr{"t", bin(entries(arr{5, kv{"x", strings.Repeat("y", 3<<20)}}))}), 0)
		synctest.Wait()
		if used := w.in.mem.used.Load(); used != 0 {
			t.Errorf("%d bytes of large buffers are still held", used)
		}
		conn := func() *conn {
			for c := range w.in.conns {
				return c
			}
			return nil
		}()
		time.Sleep(idleRelease + time.Second)
		synctest.Wait()
		if n := len(conn.buf.b); n != minBuffer {
			t.Errorf("an idle connection holds %d bytes, want %d", n, minBuffer)
		}
		w.send(numbered(1, "a"), 0)
		w.want(ackOf("a"), false)
		w.finish()
	})
}

// TestMemoryLimit: large messages of all connections together stay within the limit.
func TestMemoryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, defaults(), Options{Memory: 6 << 20})
		a := watch(s)
		head := []byte("\x92\xa1t\xc6\x0f\x00\x00\x00")
		a.send(cat(head, make([]byte, 3<<20)), 0)
		synctest.Wait()
		b := watch(s.again())
		b.send(cat(head, make([]byte, 3<<20)), 0)
		b.want("", true)
		if log := s.log.String(); !strings.Contains(log, errMemory.Error()) {
			t.Errorf("log %q", log)
		}
		a.want("", false)
		a.send(make([]byte, 2<<20), 0)
		a.want("", true)
		if log := s.log.String(); !strings.Contains(log, errAlone.Error()) {
			t.Errorf("the log does not say that there is never enough for this one: %q", log)
		}
		a.finish()
	})
}
