package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// knock sends bytes to the forward port, says that no more come, and waits until weir has
// closed the connection.
func knock(t *testing.T, w *weirtest.Weir, b []byte) {
	t.Helper()
	c, err := net.Dial("tcp", w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(weirtest.Patience)); err != nil {
		t.Fatal(err)
	}
	_, werr := c.Write(b)
	if werr == nil {
		_ = c.(*net.TCPConn).CloseWrite() // it may have been reset already
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("weir has not closed a connection that sent %.20q", b)
	}
}

// TestHostile sends what is not the forward protocol: each connection is closed with one
// line that names the peer and the likely cause, memory stays bounded, others are not
// disturbed.
func TestHostile(t *testing.T) {
	t.Parallel()
	nested := func(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }
	for _, c := range []struct {
		name      string
		bytes     []byte
		says      string // of the line; "": there is none
		malformed uint64 // as counted, of three connections
	}{
		{"http", []byte("GET / HTTP/1.1\r\nHost: weir\r\n\r\n"), "HTTP", 3},
		{"http post", []byte("POST /api HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), "HTTP", 3},
		{"tls", tlsHello(t), "TLS", 3},
		{"text", []byte("hello, is this syslog?\n"), "no message", 0},
		{"nested arrays", append([]byte{0x93, 0xa1, 'a'}, nested(0x91, 1<<20)...), "middle of a message", 0},
		{"nested maps", append([]byte{0x93, 0xa1, 'a'}, nested(0x81, 1<<20)...), "middle of a message", 0},
		{"nested arrays from the start", nested(0x91, 1<<20), "middle of a message", 0},
		{"huge array", []byte{0xdd, 0xff, 0xff, 0xff, 0xff, 0xa1, 'a'}, "middle of a message", 0},
		{"huge string", []byte{0x93, 0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, "middle of a message", 0},
		{"truncated", forwardMessage(t)[:40], "middle of a message", 0},
		{"reserved byte", []byte{0x93, 0xa1, 'a', 0xc1, 0, 0}, "malformed", 3},
		{"nothing", nil, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := weirtest.Endpoint(t, emulator.Options{})
			w := weirtest.Start(t, e, weirtest.Config{}.String())
			good := &weirtest.Sender{Addr: w.Addr(), Tag: "good", Mode: forwardclient.Packed, Events: 20, Window: 8}
			defer good.Close()
			good.SendAll(t, 5)
			before := w.RSS()
			for range 3 {
				knock(t, w, c.bytes)
			}
			good.SendAll(t, 5)
			if n := good.Dials(); n != 1 {
				t.Errorf("a neighbour had to connect %d times, want once", n)
			}
			if grown := w.RSS() - before; grown > 24<<20 {
				t.Errorf("memory has grown by %d MiB", grown>>20)
			}
			warned := w.Lines("WARN", "")
			want := 3
			if c.says == "" {
				want = 0
			}
			if len(warned) > 3 || len(warned) < want {
				t.Errorf("%d lines about 3 connections", len(warned))
			}
			for _, l := range warned {
				if !strings.Contains(l.Text, c.says) || !strings.Contains(l.Text, "127.0.0.1:") {
					t.Errorf("the line does not name the peer and %q: %s", c.says, l.Text)
				}
			}
			if n := w.Input().Malformed; n != c.malformed {
				t.Errorf("malformed is %d, want %d", n, c.malformed)
			}
			w.Drained()
			weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "good"}, good.IDs())
			w.LogAtMost(0, 3)
		})
	}
}

// TestRandomBytes sends noise, pure and after the beginning of a good message, over many
// connections while others work.
func TestRandomBytes(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{}.String())
	good := &weirtest.Sender{Addr: w.Addr(), Tag: "good", Mode: forwardclient.Packed, Events: 20, Window: 8}
	defer good.Close()
	good.SendAll(t, 5)
	before := w.RSS()
	r := rand.New(rand.NewPCG(1, 2))
	message := forwardMessage(t)
	for i := range 150 {
		noise := make([]byte, 1+r.IntN(20_000))
		for j := range noise {
			noise[j] = byte(r.Uint32())
		}
		if i%2 == 0 { // noise inside what looks good
			b := bytes.Clone(message)
			copy(b[r.IntN(len(b)):], noise[:min(len(noise), 1+r.IntN(8))])
			noise = b
		}
		knock(t, w, noise)
		if i%30 == 0 {
			good.SendAll(t, 1)
		}
	}
	good.SendAll(t, 5)
	if n := good.Dials(); n != 1 {
		t.Errorf("a neighbour had to connect %d times, want once", n)
	}
	if grown := w.RSS() - before; grown > 32<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	w.Drained()
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "good"}, good.IDs())
	w.LogAtMost(0, 40) // a few a minute of each kind
	if n := w.Input().Malformed; n < 10 {
		t.Errorf("only %d connections were malformed", n)
	}
	w.Balanced()
}

// forwardMessage is a good message to the tag "bad".
func forwardMessage(t *testing.T) []byte {
	t.Helper()
	return forwardclient.Encoding{Mode: forwardclient.Packed, Tag: "bad", Events: 5, Record: weirtest.Record, First: 77_000_000}.Encode().Bytes
}

// tlsHello is what a TLS client says first.
func tlsHello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		// It fails when the pipe is closed; only its first words matter.
		_ = tls.Client(client, &tls.Config{ServerName: "weir", MinVersion: tls.VersionTLS12}).Handshake()
		_ = client.Close()
	}()
	b := make([]byte, 4096)
	n, err := server.Read(b)
	if err != nil || n < 50 {
		t.Fatal(fmt.Errorf("TLS hello of %d bytes: %w", n, err))
	}
	return b[:n]
}
