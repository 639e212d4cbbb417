package cloudwatch

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
)

// taker is an endpoint that takes everything and allocates next to nothing. It returns its
// URL.
func taker(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nX-Amzn-Requestid: id\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: 29\r\n\r\n" + `{"nextSequenceToken":"token"}`)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				length := 0
				for {
					line, err := r.ReadSlice('\n')
					if err != nil {
						return
					}
					if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
						length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
					}
					if len(bytes.TrimSpace(line)) > 0 {
						continue
					}
					if _, err := r.Discard(length); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil && err != io.EOF {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// putter makes and sends a request of one event.
func putter(t testing.TB) func() {
	t.Helper()
	p := Params{GroupName: "/app/g", StreamName: "s", MessageKeys: []string{"m"}}
	p.Region, p.Endpoint, p.KeyID, p.SecKey = "eu-west-1", taker(t), "AKID", "SECRET"
	o, err := New(t.Context(), Options{Params: p, ID: "out", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	r := o.Request().(*request)
	in := encodeEntries([]entry{{1_796_000_000e9, "message"}})
	return func() {
		r.Reset(lane)
		r.Add(in, 1)
		if res := r.Send(t.Context()); res.Err != nil {
			t.Fatal(res.Err)
		}
		r.Free()
	}
}

// BenchmarkPut is one request over the loop-back.
func BenchmarkPut(b *testing.B) {
	put := putter(b)
	b.ReportAllocs()
	for b.Loop() {
		put()
	}
}

// What a put allocates is the signer's and net/http's, and little of our own.
func TestPutAllocates(t *testing.T) {
	put := putter(t)
	put() // the connection
	if n := testing.AllocsPerRun(200, put); n > 135 {
		t.Errorf("%v allocations for a put", n)
	}
}
