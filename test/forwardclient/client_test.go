package forwardclient

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPayloads: payloads are whole msgpack values, with ids and chunk ids where they
// should be after renumbering.
func TestPayloads(t *testing.T) {
	for _, mode := range []Mode{Message, Forward, Packed} {
		for name, record := range map[string]Generator{"kubernetes": Kubernetes(), "docker": Docker(300)} {
			p := Encoding{Mode: mode, Tag: "t", Events: 3, Record: record, Acks: true, Step: time.Second}.Encode()
			p.Renumber(123456, time.Unix(1700000000, 5))
			rest, values := p.Bytes, 0
			var err error
			for ; len(rest) > 0; values++ {
				if rest, err = msgp.Skip(rest); err != nil {
					t.Fatalf("%v %s: %v", mode, name, err)
				}
			}
			if want := map[Mode]int{Message: 3}[mode]; values != max(want, 1) || p.Messages() != values {
				t.Errorf("%v %s: %d messages, %d chunk ids", mode, name, values, p.Messages())
			}
			for i, at := range p.ids {
				if got, want := string(p.Bytes[at:at+IDLen]), "00000012345"+string(rune('6'+i)); got != want {
					t.Errorf("%v %s: id %q, want %q", mode, name, got, want)
				}
				if got, want := string(p.Bytes[at-3:at]), "id="; got != want {
					t.Errorf("%v %s: %q before the id", mode, name, got)
				}
			}
		}
	}
}

// TestRecordSizes: what the records are said to be.
func TestRecordSizes(t *testing.T) {
	for name, c := range map[string]struct {
		g        Generator
		min, max int
	}{"kubernetes": {Kubernetes(), 430, 480}, "docker": {Docker(256), 256 + 140, 256 + 180}} {
		b, _ := c.g(nil, 1)
		var w countingWriter
		if rest, err := msgp.UnmarshalAsJSON(&w, b); err != nil || len(rest) > 0 {
			t.Errorf("%s: %v, %d bytes left", name, err, len(rest))
		}
		if w.n < c.min || w.n > c.max {
			t.Errorf("%s: %d bytes as JSON, want %d to %d", name, w.n, c.min, c.max)
		}
	}
}

type countingWriter struct{ n int }

func (c *countingWriter) Write(b []byte) (int, error) { c.n += len(b); return len(b), nil }

// BenchmarkSend measures the client alone, on a connection that takes everything.
func BenchmarkSend(b *testing.B) {
	server, client := net.Pipe()
	defer server.Close()
	sink := discardConn{client}
	for _, renumber := range []bool{false, true} {
		name := "as is"
		if renumber {
			name = "renumbered"
		}
		b.Run(name, func(b *testing.B) {
			c, err := Dial(b.Context(), Options{Conn: sink})
			if err != nil {
				b.Fatal(err)
			}
			p := Encoding{Mode: Packed, Tag: "t", Events: 1000, Record: Kubernetes(), Acks: true}.Encode()
			now := time.Now()
			b.ResetTimer()
			for i := 0; i < b.N; i += 1000 {
				if renumber {
					p.Renumber(uint64(i), now)
				}
				if err := c.Send(p, uint64(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	_ = client.Close()
}

type discardConn struct{ net.Conn }

func (discardConn) Write(b []byte) (int, error) { return io.Discard.Write(b) }
