package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/input/inputtest"
	"weir/test/forwardclient"
)

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return named{c}, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	server, client := net.Pipe()
	p.conns <- server
	return client
}

// running is an Input in Run over pipes.
type running struct {
	in     *Input
	rec    *inputtest.Recorder
	net    *pipes
	cancel context.CancelFunc
	done   chan error
}

func run(t *testing.T, p Params, o Options) *running {
	r := &running{rec: inputtest.NewRecorder(t), net: newPipes(), done: make(chan error, 1)}
	o.Listener = &Listener{tcp: r.net, recent: NewRecent()}
	r.in = newTestInput(t, p, o)
	if err := r.in.Open(); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	go func() { r.done <- r.in.Run(ctx, r.rec) }()
	return r
}

// collect reads until the connection is closed.
func collect(nc net.Conn) <-chan string {
	got := make(chan string, 1)
	go func() {
		var all []byte
		b := make([]byte, 4096)
		for {
			n, err := nc.Read(b)
			all = append(all, b[:n]...)
			if err != nil {
				got <- string(all)
				return
			}
		}
	}()
	return got
}

// TestStop: what clients have on the way is still read, what was accepted is answered,
// and then Run returns.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, defaults(), Options{})
		store := inputtest.NewStore()
		r.rec.Use(store)
		idle, busy := r.net.dial(), r.net.dial()
		idleGot, busyGot := collect(idle), collect(busy)
		mustWrite(t, busy, numbered(1, "a"))
		synctest.Wait()
		start := time.Now()
		r.cancel()
		time.Sleep(stopIdle / 2)
		mustWrite(t, busy, numbered(2, "b")) // was on the way
		if got := <-idleGot; got != "" || time.Since(start) != stopIdle {
			t.Errorf("idle connection got %q, closed after %v", got, time.Since(start))
		}
		time.Sleep(5 * time.Second)
		select {
		case err := <-r.done:
			t.Fatalf("Run returned %v before what was accepted was answered", err)
		default:
		}
		store.Safe(2)
		if got := <-busyGot; got != ackOf("a", "b") {
			t.Errorf("answers %q, want those of a and b", got)
		}
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.rec.Close()
	})
}

// TestStopBusyClient: a client that never pauses is read for the grace and no longer.
func TestStopBusyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, defaults(), Options{ReadGrace: 700 * time.Millisecond})
		nc := r.net.dial()
		collect(nc)
		start := time.Now()
		r.cancel()
		n := 0
		for ; ; n++ {
			if _, err := nc.Write(numbered(n, "")); err != nil {
				break
			}
			time.Sleep(9 * time.Millisecond)
		}
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d < 700*time.Millisecond || d >= 709*time.Millisecond {
			t.Errorf("stopped after %v", d)
		}
		if got := len(r.rec.Events()); got != n {
			t.Errorf("%d events, want %d", got, n)
		}
	})
}

// TestStopGivesUp: a buffer that stays full and receipts that never come do not hold Run
// for ever.
func TestStopGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, defaults(), Options{ReadGrace: time.Second, AckGrace: 3 * time.Second})
		r.rec.Use(inputtest.NewStore())
		waiting := r.net.dial()
		waitingGot := collect(waiting)
		mustWrite(t, waiting, numbered(1, "a"))
		synctest.Wait()
		release := r.rec.Hold()
		defer release()
		full, plain := r.net.dial(), r.net.dial()
		fullGot, plainGot := collect(full), collect(plain)
		mustWrite(t, full, numbered(2, "b"))
		mustWrite(t, plain, numbered(3, ""))
		synctest.Wait()
		start := time.Now()
		r.cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("stopped after %v, want 4s", d)
		}
		if a, b, c := <-waitingGot, <-fullGot, <-plainGot; a+b+c != "" {
			t.Errorf("answers %q %q %q, want none", a, b, c)
		}
		if got := r.rec.LostEvents(); fmt.Sprint(got) != fmt.Sprint(events(3)) {
			t.Errorf("lost %v, want the event without a chunk id", got)
		}
	})
}

// TestAcceptErrors: no descriptors for a while.
func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newTestInput(t, defaults(), Options{Listener: &Listener{tcp: &failing{pipes: newPipes(), n: 10}, recent: NewRecent()}})
		if err := in.Open(); err != nil {
			t.Fatal(err)
		}
		rec := inputtest.NewRecorder(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Run(ctx, rec) }()
		nc := in.listener.tcp.(*failing).dial()
		mustWrite(t, nc, numbered(1, ""))
		rec.WaitEvents(1)
		_ = nc.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type failing struct {
	*pipes
	n int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.n > 0 {
		f.n--
		return nil, errors.New("too many open files")
	}
	return f.pipes.Accept()
}

func mustWrite(t *testing.T, nc net.Conn, b []byte) {
	t.Helper()
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
}

// TestSetEmitter: connections go on over a change of the emitter, and the channel tells
// when the old one is no longer in use.
func TestSetEmitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rich(t, defaults())
		release := w.rec.Hold()
		w.send(numbered(1, "a"), 0)
		w.rec.WaitInside(1)
		second := inputtest.NewRecorder(t)
		unused := w.in.SetEmitter(second)
		synctest.Wait()
		select {
		case <-unused:
			t.Error("the old emitter is said to be unused while it is in Emit")
		default:
		}
		release()
		<-unused
		w.rec.Close()
		w.send(numbered(2, "b"), 0)
		w.want(ackOf("a", "b"), false)
		w.wantEvents(1)
		if got := fmt.Sprint(second.Events()); got != fmt.Sprint(events(2)) {
			t.Errorf("second emitter got %v", got)
		}
		<-w.in.SetEmitter(w.rec) // was idle: unused at once
		w.finish()
	})
}

// TestTakeListener: a successor takes over the port; clients of the old one are wound
// down, come back, and lose nothing. Chunks that the old one knew are still known.
func TestTakeListener(t *testing.T) {
	old := serveOn(t, loopback(), Options{ReadGrace: 50 * time.Millisecond})
	addr := old.Addr().String()
	c := mustDial(t, old, forwardclient.Options{Window: 1, Nonce: 7})
	send(t, c)
	l := old.TakeListener()

	// Between the two nobody accepts: this waits in the queue.
	between, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	mustWrite(t, between, numbered(9, ""))

	next := serveOn(t, loopback(), Options{Listener: l})
	if got := next.Addr().String(); got != addr {
		t.Fatalf("the successor listens on %s, want %s", got, addr)
	}
	old.stop()
	<-c.Done()
	next.rec.WaitEvents(1)
	again := mustDial(t, next, forwardclient.Options{Window: 1, Nonce: 7})
	send(t, again) // the same chunk again
	if n := next.Stats().Repeats; n != 1 {
		t.Errorf("%d repeats, want 1", n)
	}
	if n, m := len(old.rec.Events()), len(next.rec.Events()); n != 1 || m != 1 {
		t.Errorf("%d events before and %d after, want 1 and 1", n, m)
	}
	udp, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	mustWrite(t, udp, []byte{0})
	if n, err := udp.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Errorf("heartbeat: %d bytes, %v", n, err)
	}
}
