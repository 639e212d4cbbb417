package forward

import (
	"context"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/input"
	"weir/test/forwardclient"
)

// null takes everything and keeps nothing.
type null struct{}

func (null) Emit(context.Context, event.Batch) (input.Receipt, error) { return input.Receipt{}, nil }
func (null) Lost(event.Batch)                                         {}

// replay is a connection on which a payload arrives again and again, with a new chunk id
// each time, as fast as it is read. It stands for the kernel: a read costs one copy.
type replay struct {
	net.Conn
	p    *forwardclient.Payload
	ids  []int // where digits to be changed stand, in p.Bytes
	at   int
	left int // payloads to come
	next uint64
}

func (r *replay) Read(b []byte) (int, error) {
	if r.at == len(r.p.Bytes) {
		if r.left--; r.left <= 0 {
			return 0, io.EOF
		}
		r.at = 0
		for _, at := range r.ids {
			copy(r.p.Bytes[at:], strconv.AppendUint(make([]byte, 0, 24), 1e15+r.next, 10))
			r.next++
		}
	}
	n := copy(b, r.p.Bytes[r.at:])
	r.at += n
	return n, nil
}

func (r *replay) Write(b []byte) (int, error)      { return len(b), nil }
func (r *replay) Close() error                     { return nil }
func (r *replay) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (r *replay) SetReadDeadline(time.Time) error  { return nil }
func (r *replay) SetWriteDeadline(time.Time) error { return nil }

func BenchmarkModes(b *testing.B) {
	for _, c := range []struct {
		name   string
		e      forwardclient.Encoding
		record forwardclient.Generator
	}{
		{"PackedForward/1000/Kubernetes", forwardclient.Encoding{Mode: forwardclient.Packed, Events: 1000}, forwardclient.Kubernetes()},
		{"PackedForward/1000/256", forwardclient.Encoding{Mode: forwardclient.Packed, Events: 1000}, forwardclient.Docker(256)},
		{"PackedForward/1000/256/ack", forwardclient.Encoding{Mode: forwardclient.Packed, Events: 1000, Acks: true}, forwardclient.Docker(256)},
		{"PackedForward/10/256/ack", forwardclient.Encoding{Mode: forwardclient.Packed, Events: 10, Acks: true}, forwardclient.Docker(256)},
		{"PackedForward/1000/metadata", forwardclient.Encoding{Mode: forwardclient.Packed, Events: 1000, Metadata: true}, forwardclient.Kubernetes()},
		{"Forward/1000/256", forwardclient.Encoding{Mode: forwardclient.Forward, Events: 1000}, forwardclient.Docker(256)},
		{"Message/256", forwardclient.Encoding{Mode: forwardclient.Message, Events: 1000, Seconds: true}, forwardclient.Docker(256)},
		{"Message/256/ack", forwardclient.Encoding{Mode: forwardclient.Message, Events: 1000, Seconds: true, Acks: true}, forwardclient.Docker(256)},
		{"gzip/1000/Kubernetes", forwardclient.Encoding{Mode: forwardclient.Gzip, Events: 1000}, forwardclient.Kubernetes()},
		{"zstd/1000/Kubernetes", forwardclient.Encoding{Mode: forwardclient.Zstd, Events: 1000}, forwardclient.Kubernetes()},
		{"JSON/256", forwardclient.Encoding{Mode: forwardclient.Message, Events: 1000, JSON: true}, forwardclient.Docker(256)},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.e.Tag, c.e.Record = "docker.shop", c.record
			p := c.e.Encode()
			in := newTestInput(b, defaults(), Options{})
			in.recent = NewRecent()
			in.SetEmitter(null{})
			b.ReportAllocs()
			b.SetBytes(int64(len(p.Bytes)) / int64(p.Events))
			b.ResetTimer()
			nc := &replay{p: p, left: b.N/p.Events + 1, ids: p.Chunks()}
			in.serve(context.Background(), nc)
			in.running.Wait()
			b.ReportMetric(float64(in.Stats().Events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
