package stdin

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errStopped says that the context ended and nothing more was on the way.
var errStopped = errors.New("input is stopping")

// source makes a reader end with its context. Standard input is rarely a file on which Go
// can set deadlines, and a blocked read of it cannot be interrupted: so for files poll(2)
// looks first whether there is something to read, together with a pipe that wakes it.
type source struct {
	done  <-chan struct{}
	r     io.Reader
	read  func(b []byte) (int, error)
	until time.Time // when reading ends at last, once stopping
	close func()
}

type deadliner interface{ SetReadDeadline(time.Time) error }

func newSource(ctx context.Context, r io.Reader) (*source, error) {
	s := &source{done: ctx.Done(), r: r, close: func() {}}
	if f, ok := r.(*os.File); ok {
		return s, s.withPoll(ctx, f)
	}
	if d, ok := r.(deadliner); ok {
		s.withDeadlines(ctx, d)
		return s, nil
	}
	s.read = s.readOnce
	if c, ok := r.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		s.close = func() { stop() }
	}
	return s, nil
}

func (s *source) stopping() bool {
	select {
	case <-s.done:
		if s.until.IsZero() {
			s.until = time.Now().Add(readGrace)
		}
		return true
	default:
		return false
	}
}

func (s *source) readOnce(b []byte) (int, error) {
	if s.stopping() {
		return 0, errStopped
	}
	n, err := s.r.Read(b)
	if err != nil && s.stopping() {
		err = errStopped
	}
	return n, err
}

func (s *source) withDeadlines(ctx context.Context, d deadliner) {
	stop := context.AfterFunc(ctx, func() { _ = d.SetReadDeadline(time.Now().Add(idle)) })
	s.close = func() { stop() }
	s.read = func(b []byte) (int, error) {
		if s.stopping() {
			if time.Now().After(s.until) {
				return 0, errStopped
			}
			if err := d.SetReadDeadline(time.Now().Add(idle)); err != nil {
				return 0, err
			}
		}
		n, err := s.r.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errStopped
		}
		return n, err
	}
}

func (s *source) withPoll(ctx context.Context, f *os.File) error {
	woken, wake, err := os.Pipe()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _, _ = wake.Write([]byte{0}) })
	s.close = func() {
		stop()
		_ = wake.Close()
		_ = woken.Close()
	}
	fd, wakeFD := descriptor(f), descriptor(woken)
	if fd < 0 {
		s.close()
		return os.ErrClosed
	}
	s.read = func(b []byte) (int, error) {
		for {
			wait := -1
			fds := []unix.PollFd{{Fd: fd, Events: unix.POLLIN}, {Fd: wakeFD, Events: unix.POLLIN}}
			if s.stopping() {
				if time.Now().After(s.until) {
					return 0, errStopped
				}
				wait, fds = int(idle/time.Millisecond), fds[:1]
			}
			n, err := unix.Poll(fds, wait)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return 0, os.NewSyscallError("poll", err)
			case n == 0:
				return 0, errStopped
			case fds[0].Revents != 0:
				return f.Read(b)
			}
		}
	}
	return nil
}

// descriptor is the file's number. Unlike Fd it leaves the file's mode alone, which other
// processes may share.
func descriptor(f *os.File) (fd int32) {
	fd = -1 // poll ignores it
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = int32(n) })
	}
	return fd
}
