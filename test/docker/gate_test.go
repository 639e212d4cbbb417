package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gate stands in front of an endpoint. It has an address of its own that stays, and can be
// shut: then connections are refused, or taken and never answered.
type gate struct {
	t    testing.TB
	addr string

	mu       sync.Mutex
	target   string
	silent   bool
	listener net.Listener
	clients  map[net.Conn]net.Conn // with their connections to the endpoint
	wg       sync.WaitGroup
}

func newGate(t testing.TB, target string) *gate {
	g := &gate{t: t, target: target, clients: map[net.Conn]net.Conn{}}
	g.addr = keepPort(t)
	g.open()
	t.Cleanup(func() {
		g.refuse()
		g.wg.Wait()
	})
	return g
}

// keepPort gives an address of this machine that stays ours until the end of the test, also
// while nobody listens there: connections are refused then, and nobody else gets it.
func keepPort(t testing.TB) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := share(fd); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port)
}

// share lets several sockets of this user have the same port.
func share(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

func (g *gate) url() string { return "http://" + g.addr }

// open lets everything through.
func (g *gate) open() { g.listen(false) }

// swallow takes connections and bytes and answers nothing, as a firewall does that drops.
func (g *gate) swallow() { g.listen(true) }

// lead leads to another endpoint from the next connection on.
func (g *gate) lead(target string) {
	g.refuse()
	g.mu.Lock()
	g.target = target
	g.mu.Unlock()
	g.open()
}

func (g *gate) listen(silent bool) {
	g.refuse()
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) { err = share(int(fd)) })
		return errors.Join(cerr, err)
	}}
	l, err := shared.Listen(context.Background(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener, g.silent = l, silent
	g.mu.Unlock()
	g.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.serve(c) })
		}
	})
}

// refuse closes the listener and all connections. A request that is through gets its answer
// before that: cut off from it, the plugin has to send it again, and no test that counts
// could tell this from a fault.
func (g *gate) refuse() {
	g.mu.Lock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	for c := range g.clients {
		_ = c.(*net.TCPConn).CloseRead()
	}
	g.mu.Unlock()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && g.busy(); {
		time.Sleep(time.Millisecond)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for c, out := range g.clients {
		_ = c.Close()
		if out != nil {
			_ = out.Close()
		}
	}
	clear(g.clients)
}

func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.clients) > 0
}

// hold notes a connection, and then its way to the endpoint, so that refuse closes them;
// false: the gate is shut already.
func (g *gate) hold(c, out net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		return false
	}
	g.clients[c] = out
	return true
}

func (g *gate) serve(c net.Conn) {
	defer c.Close()
	if !g.hold(c, nil) {
		return
	}
	defer func() {
		g.mu.Lock()
		delete(g.clients, c)
		g.mu.Unlock()
	}()
	g.mu.Lock()
	silent, target := g.silent, g.target
	g.mu.Unlock()
	if silent {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	if !g.hold(c, out) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, c)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, out)
	_ = c.Close()
	<-done
}
