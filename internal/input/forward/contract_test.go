package forward

import (
	"net"
	"testing"

	"weir/internal/input/inputtest"
)

func TestContract(t *testing.T) {
	for _, shape := range []string{"message", "forward", "packed bin", "gzip"} {
		t.Run(shape, func(t *testing.T) {
			inputtest.Run(t, func(t *testing.T) inputtest.Subject {
				in := newTestInput(t, loopback(), Options{Log: discard()})
				var nc net.Conn
				t.Cleanup(func() {
					if nc != nil {
						_ = nc.Close()
					}
				})
				return inputtest.Subject{Input: in, Send: func(texts ...string) {
					var b []byte
					for _, s := range texts {
						b = append(b, shapes[shape]("t", et{5, 6}, kv{"text", s}, nil)...)
					}
					var err error
					if nc == nil {
						if nc, err = net.Dial("tcp", in.Addr().String()); err != nil {
							t.Fatal(err)
						}
					}
					_, _ = nc.Write(b) // fails when the input has stopped
				}}
			})
		})
	}
}
