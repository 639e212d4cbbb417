package docker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is the reading end of a container's pipe. Looking at it and taking from it are two
// steps: what was looked at stays in the pipe, and so outlives this process.
type pipe struct {
	f    *os.File
	rc   syscall.RawConn
	size int // bytes that the pipe holds

	grown int // of these, made by grow
}

// openPipe opens a pipe and never waits, also if nobody has it open for writing.
func openPipe(path string) (*pipe, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNoPipe, err)
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.Mode().Type() != os.ModeNamedPipe {
		err = fmt.Errorf("%w: %s is no named pipe", errNoPipe, path)
	}
	var rc syscall.RawConn
	if err == nil {
		rc, err = f.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := &pipe{f: f, rc: rc}
	p.size, err = p.fcntl(unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the size of %s: %w", path, err), f.Close())
	}
	return p, nil
}

func (p *pipe) fcntl(cmd, arg int) (n int, err error) {
	cerr := p.rc.Control(func(fd uintptr) { n, err = unix.FcntlInt(fd, cmd, arg) })
	return n, errors.Join(cerr, err)
}

// grow makes the pipe hold size bytes, if it held less and the kernel agrees.
func (p *pipe) grow(size int) {
	if size <= p.size {
		return
	}
	if n, err := p.fcntl(unix.F_SETPIPE_SZ, size); err == nil {
		p.size, p.grown = n, p.grown+n-p.size
	}
}

func (p *pipe) close() error { return p.f.Close() }

// wait returns when the pipe holds more than seen bytes, when the last writer has gone
// (hungUp), or at the deadline.
func (p *pipe) wait(seen int) (hungUp bool) {
	_ = p.rc.Read(func(fd uintptr) bool {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil || n > seen {
			return true
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 0); err != nil {
			return err != unix.EINTR
		}
		hungUp = fds[0].Revents&unix.POLLHUP != 0
		return hungUp || fds[0].Revents&(unix.POLLERR|unix.POLLNVAL) != 0
	})
	return hungUp
}

// deadline ends wait at t; at once if t has passed, never if it is zero. It may be called
// from any goroutine.
func (p *pipe) deadline(t time.Time) { _ = p.f.SetReadDeadline(t) }

// waiting is how many bytes the pipe holds now.
func (p *pipe) waiting() (n int) {
	_ = p.rc.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// look reads into b what is in the pipe without taking it, limit bytes at most, and returns how much. It fails
// with errEmpty if there is nothing just now and with io.EOF if nothing can come any more.
func (p *pipe) look(b *viewer, limit int) (n int, err error) {
	cerr := p.rc.Control(func(fd uintptr) {
		for {
			var m int64
			m, err = unix.Tee(int(fd), b.w, limit, unix.SPLICE_F_NONBLOCK)
			n = int(m)
			if err != unix.EINTR {
				return
			}
		}
	})
	switch {
	case cerr != nil:
		return 0, cerr
	case err == unix.EAGAIN:
		return 0, errEmpty
	case err != nil:
		return 0, os.NewSyscallError("tee", err)
	case n == 0:
		return 0, io.EOF
	}
	if err := readFull(b.r, b.raw[:n]); err != nil {
		return 0, err
	}
	return n, nil
}

// take removes len(scratch) bytes, which must have been looked at, from the pipe. A signal
// that kills the process comes before or after it: read, unlike splice, does not stop
// in between while there are bytes.
func (p *pipe) take(scratch []byte) (err error) {
	cerr := p.rc.Control(func(fd uintptr) { err = readFull(int(fd), scratch) })
	return errors.Join(cerr, err)
}

func readFull(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		buf = buf[n:]
	}
	return nil
}

// viewer is what a look at a pipe needs: a pipe of our own to copy into, and memory.
type viewer struct {
	r, w int
	raw  []byte
}

func newViewer() (*viewer, error) {
	b, size, err := makePipe()
	if err == nil && size < minBlock {
		b.close()
		b, size, err = makeCountedPipe()
	}
	if err == nil && size < minBlock {
		b.close()
		err = fmt.Errorf("it holds %d bytes and must hold %d; raise fs.pipe-user-pages-soft or give the process CAP_SYS_RESOURCE", size, minBlock)
	}
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	b.raw = make([]byte, min(size, maxBlock))
	return b, nil
}

// makePipe makes the pipe of a viewer, as large as the kernel lets it be.
func makePipe() (b *viewer, size int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, os.NewSyscallError("pipe2", err)
	}
	b = &viewer{r: fds[0], w: fds[1]}
	if size, err = unix.FcntlInt(uintptr(b.w), unix.F_SETPIPE_SZ, maxBlock); err != nil {
		size, err = unix.FcntlInt(uintptr(b.w), unix.F_GETPIPE_SZ, 0)
	}
	if err != nil {
		b.close()
		return nil, 0, os.NewSyscallError("fcntl", err)
	}
	return b, size, nil
}

// nobody is a user with hardly any pipes of his own.
const nobody = 65534

// makeCountedPipe is makePipe where root's pipes, those of other containers among them, have
// used up what root may have: then a new one holds two pages, unless its maker has rights that a managed
// plugin has not. The kernel counts a pipe for the real user of the thread that makes it, so
// a thread makes it that is somebody else, and then ends.
func makeCountedPipe() (b *viewer, size int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		const same = ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, nobody, same, same); e != 0 {
			err = os.NewSyscallError("setresuid", e)
			return
		}
		b, size, err = makePipe()
	}()
	<-done
	return b, size, err
}

func (b *viewer) close() {
	_ = unix.Close(b.r)
	_ = unix.Close(b.w)
}

// pipeLimit is the largest size that a pipe can be given.
func pipeLimit() int {
	b, err := os.ReadFile("/proc/sys/fs/pipe-max-size")
	var n int
	if err == nil {
		_, err = fmt.Sscan(string(b), &n)
	}
	if err != nil {
		return 1 << 20
	}
	return n
}
