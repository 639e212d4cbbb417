package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"weir/internal/config"
	"weir/internal/input/inputtest"
)

// Values for pack. A kv is a map in order.
type (
	kv   []any
	arr  []any
	raw  []byte
	et   struct{ sec, nsec uint32 } // EventTime as fixext8
	et8  struct{ sec, nsec uint32 } // EventTime as ext8
	bin  string
	big4 string // a string with a 4-byte length, as Ruby packs bodies
)

// pack encodes a value as msgpack, apart from weir's own encoder.
func pack(v any) []byte { return appendPacked(nil, v) }

func appendPacked(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case raw:
		return append(b, v...)
	case string:
		return msgp.AppendString(b, v)
	case bin:
		return msgp.AppendBytes(b, []byte(v))
	case big4:
		return append(binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(v))), v...)
	case int:
		return msgp.AppendInt(b, v)
	case float64:
		return msgp.AppendFloat64(b, v)
	case bool:
		return msgp.AppendBool(b, v)
	case et:
		b = binary.BigEndian.AppendUint32(append(b, 0xd7, 0), v.sec)
		return binary.BigEndian.AppendUint32(b, v.nsec)
	case et8:
		b = binary.BigEndian.AppendUint32(append(b, 0xc7, 8, 0), v.sec)
		return binary.BigEndian.AppendUint32(b, v.nsec)
	case arr:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, e := range v {
			b = appendPacked(b, e)
		}
		return b
	case kv:
		b = msgp.AppendMapHeader(b, uint32(len(v)/2))
		for _, e := range v {
			b = appendPacked(b, e)
		}
		return b
	}
	panic("pack: unknown type")
}

// entries concatenates values, as in a packed message.
func entries(vs ...any) string {
	var b []byte
	for _, v := range vs {
		b = appendPacked(b, v)
	}
	return string(b)
}

// session is one connection to an Input, in memory.
type session struct {
	t   testing.TB
	in  *Input
	rec *inputtest.Recorder
	nc  net.Conn
	log *logged

	answers chan []byte // all that the server wrote, when it has closed
}

// logged keeps log lines.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")
}

func (l *logged) String() string { return strings.Join(l.lines(), "\n") }

// open starts an Input without a port and one connection to it.
func open(t testing.TB, p Params, o Options) *session {
	t.Helper()
	log := &logged{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	in := newTestInput(t, p, o)
	in.recent = NewRecent()
	rec := inputtest.NewRecorder(t)
	in.SetEmitter(rec)
	return (&session{t: t, in: in, rec: rec, log: log}).again()
}

// again opens another connection to the same Input.
func (s *session) again() *session {
	n := *s
	var server net.Conn
	server, n.nc = net.Pipe()
	s.in.serve(context.Background(), named{server})
	n.answers = make(chan []byte, 1)
	nc, answers := n.nc, n.answers
	go func() {
		var b bytes.Buffer
		_, _ = b.ReadFrom(nc)
		answers <- b.Bytes()
	}()
	return &n
}

// named gives a pipe an address.
type named struct{ net.Conn }

func (named) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 40000} }

// send writes bytes in pieces of the given size; 0: at once. The server may close early.
func (s *session) send(b []byte, piece int) {
	if piece == 0 {
		piece = len(b)
	}
	for len(b) > 0 {
		n := min(piece, len(b))
		if _, err := s.nc.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
	}
}

// end closes the client's side and returns all that the server wrote.
func (s *session) end() string {
	// A pipe has no half close: tell the server to stop reading when it has nothing more.
	s.in.windDown()
	s.in.running.Wait()
	_ = s.nc.Close()
	return string(<-s.answers)
}

// talk sends one stream over a new Input and returns events and answers.
func talk(t testing.TB, p Params, stream []byte, piece int) (*session, []string, string) {
	t.Helper()
	s := open(t, p, Options{ReadGrace: time.Minute})
	s.send(stream, piece)
	answers := s.end()
	return s, s.rec.Events(), answers
}

func newSize(n int) *config.Size {
	s := config.Size(n)
	return &s
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
