package weirtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Port gives a TCP and UDP port of the loopback that is free, and is this test's until its
// end, also towards other test processes. It lies below the range from which the kernel
// takes ports for outgoing connections, so that it is still free when weir has been killed
// and starts again.
func Port(t testing.TB) int {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "weir-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		p := 12000 + rand.IntN(18000)
		if reserve(t, filepath.Join(dir, fmt.Sprint(p))) && free(fmt.Sprintf("127.0.0.1:%d", p)) {
			return p
		}
	}
	t.Fatal("no free port")
	return 0
}

// reserve makes a file that says that a port is in use.
func reserve(t testing.TB, name string) bool {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close()
	t.Cleanup(func() { _ = os.Remove(name) })
	return true
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	_ = u.Close()
	return true
}
