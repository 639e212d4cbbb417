package forward

import (
	"log/slog"
	"net"
	"syscall"
)

// sparedFiles is how many descriptors clients leave to the rest of the process: a buffer that
// cannot open its next file takes no events from anybody.
const sparedFiles = 64

// lastFile is the first descriptor that no client may have. The kernel gives the lowest that is
// free, so the number says how many are in use.
func lastFile() uintptr {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return ^uintptr(0)
	}
	limit := uintptr(r.Cur)
	return limit - min(sparedFiles, limit/4)
}

// spare closes a connection that takes one of the descriptors that are kept for others, and says so.
func (in *Input) spare(nc net.Conn) bool {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	last := in.lastFile()
	over := false
	if raw.Control(func(fd uintptr) { over = fd >= last }) != nil || !over {
		return false
	}
	in.notices.warnRare(kindAccept, "forward: a client is sent away, since nearly all descriptors of the process are in use",
		slog.String("peer", nc.RemoteAddr().String()), slog.Int64("connections", in.n.open.Load()),
		slog.String("hint", "raise the limit: LimitNOFILE in the unit file, ulimit -n in a shell, --ulimit nofile with Docker"))
	_ = nc.Close()
	return true
}
