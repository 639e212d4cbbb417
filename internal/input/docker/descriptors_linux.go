package docker

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// spareFiles is how many descriptors are kept back from everything but Docker's calls: a
// container must be able to end also when all others are used up.
const spareFiles = 64

// keepSpare lowers the limit of descriptors by what is kept back, so that it can be raised again
// for a moment. It is the process's own, and so done once.
var keepSpare = sync.OnceFunc(func() {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil || r.Max < 4*spareFiles || r.Cur <= r.Max-spareFiles {
		return
	}
	r.Cur = r.Max - spareFiles
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &r) // without it weir runs as well
})

// spareListener accepts also when the process has no descriptors left.
type spareListener struct{ *net.UnixListener }

func newSpareListener(l *net.UnixListener) net.Listener {
	keepSpare()
	return spareListener{l}
}

// Accept implements net.Listener. It is called by one goroutine at a time.
func (l spareListener) Accept() (net.Conn, error) {
	for {
		c, err := l.UnixListener.Accept()
		if !errors.Is(err, unix.EMFILE) {
			return c, err
		}
		// The kernel asks for a descriptor before it looks whether anybody calls.
		if calls, err := l.pending(); err != nil {
			return nil, err
		} else if calls {
			return l.acceptBeyond()
		}
	}
}

// pending waits a moment for somebody who calls.
func (l spareListener) pending() (calls bool, err error) {
	rc, err := l.SyscallConn()
	if err != nil {
		return false, err
	}
	cerr := rc.Control(func(fd uintptr) {
		var n int
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(pace/time.Millisecond))
		calls = n > 0
	})
	if errors.Is(err, unix.EINTR) {
		err = nil
	}
	return calls, errors.Join(cerr, err)
}

// acceptBeyond accepts with one of the descriptors that were kept back.
func (l spareListener) acceptBeyond() (net.Conn, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil && r.Cur < r.Max {
		more := r
		more.Cur += min(r.Max-r.Cur, spareFiles)
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &more) == nil {
			defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &r) }()
		}
	}
	return l.UnixListener.Accept()
}
