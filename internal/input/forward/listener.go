package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// Listener is an open port with what belongs to it: the UDP port for heartbeats and the
// memory of acknowledged chunks. It can be handed from an Input to its successor.
type Listener struct {
	tcp    net.Listener
	udp    net.PacketConn // nil if the port was taken
	recent *Recent
}

// listen binds the ports.
func listen(p *Params, set *settings, log *slog.Logger) (*Listener, error) {
	at := net.JoinHostPort(p.Bind, strconv.Itoa(p.Port))
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return set.tuneListener(raw) }}
	tcp, err := lc.Listen(context.Background(), "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for <source> @type forward: %w; choose another port or bind", at, err)
	}
	l := &Listener{tcp: tcp, recent: NewRecent()}
	if p.Backlog != nil {
		if err := setBacklog(tcp, *p.Backlog); err != nil {
			log.Warn("forward: cannot set backlog", slog.Int("backlog", *p.Backlog), slog.Any("reason", err))
		}
	}
	l.udp, err = net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		l.udp = nil
		log.Warn("forward: no UDP heartbeats", slog.Any("reason", err))
	}
	return l, nil
}

// setBacklog calls listen(2) once more, which changes the length of the queue.
func setBacklog(l net.Listener, n int) error {
	s, ok := l.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = syscall.Listen(int(fd), n) })
	return errors.Join(err, inner)
}

// TakeListener takes the open port away from the Input, to be given to its successor as
// Options.Listener. The Input stops accepting at once, and when its context ends it winds
// down its connections as usual, but leaves the port open. Connections that arrive in
// between wait in the kernel's queue for the successor.
//
// Where only the routes change and not the source itself, SetEmitter is enough, and the
// connections live on too.
func (in *Input) TakeListener() *Listener {
	in.taken.Store(true)
	in.listener.interrupt()
	in.accepts.Wait()
	return in.listener
}

// Close closes a listener that no Input has taken.
func (l *Listener) Close() { l.close() }

func (l *Listener) close() {
	_ = l.tcp.Close()
	if l.udp != nil {
		_ = l.udp.Close()
	}
}

// interrupt makes Accept and the heartbeats return. What has no deadlines is closed.
func (l *Listener) interrupt() {
	past := time.Unix(1, 0)
	if d, ok := l.tcp.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(past)
	} else {
		_ = l.tcp.Close()
	}
	if l.udp != nil {
		_ = l.udp.SetReadDeadline(past)
	}
}

// reset makes the listener usable again after interrupt.
func (l *Listener) reset() error {
	if l.udp != nil {
		if err := l.udp.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	if d, ok := l.tcp.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(time.Time{})
	}
	return nil
}

// heartbeats answers every datagram with one zero byte.
func (in *Input) heartbeats(ctx context.Context) {
	var buf [128]byte
	for !in.taken.Load() {
		_, from, err := in.listener.udp.ReadFrom(buf[:])
		switch {
		case err == nil:
			_, _ = in.listener.udp.WriteTo([]byte{0}, from) // a lost heartbeat is repeated
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default: // an ICMP error of an earlier answer; the socket is fine
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// lookupHost resolves the host of a <client>.
func lookupHost(host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
