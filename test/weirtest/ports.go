package weirtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Port gives a TCP and UDP port of the loopback that is free now. It lies below the range
// from which the kernel takes ports for outgoing connections, so that it is still free
// when weir has been killed and starts again.
func Port(t testing.TB) int {
	t.Helper()
	for range 200 {
		p := 12000 + rand.IntN(18000)
		addr := fmt.Sprintf("127.0.0.1:%d", p)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		u, err := net.ListenPacket("udp", addr)
		_ = l.Close()
		if err != nil {
			continue
		}
		_ = u.Close()
		return p
	}
	t.Fatal("no free port")
	return 0
}
