package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/internal/emulator"
)

// tally is what the sink has counted.
type tally struct {
	Puts    int64
	Events  int64
	Bytes   int64 // of bodies
	Other   int64 // requests that are not puts
	Streams int   // different ones
	// Delays are percentiles of the time from an event's timestamp to its arrival in whole
	// milliseconds: p50, p90, p99, max. Only with ?delays=1.
	Delays [4]int64
}

// counter is the sink's state.
type counter struct {
	mu      sync.Mutex
	t       tally
	delays  []int64
	timed   bool
	streams map[string]struct{}
	pool    sync.Pool
}

// event stands once in each event of a PutLogEvents body, in front of or behind the message.
// Within a message the quotes would be escaped, so counting these counts events.
var event = []byte(`"timestamp":`)

// ServeHTTP takes a request of the service.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buf, _ := c.pool.Get().(*bytes.Buffer)
	if buf == nil {
		buf = &bytes.Buffer{}
	}
	defer c.pool.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", "bench") // Fluent Bit takes an answer without one for a failure
	if r.Header.Get("X-Amz-Target") != "Logs_20140328.PutLogEvents" {
		c.mu.Lock()
		c.t.Other++
		c.mu.Unlock()
		_, _ = io.WriteString(w, "{}")
		return
	}
	body := buf.Bytes()
	n := bytes.Count(body, event)
	c.mu.Lock()
	c.t.Puts++
	c.t.Events += int64(n)
	c.t.Bytes += int64(len(body))
	if s := stream(body); s != nil {
		if _, ok := c.streams[string(s)]; !ok {
			c.streams[string(s)] = struct{}{}
		}
	}
	if c.timed {
		c.time(body)
	}
	c.mu.Unlock()
	_, _ = io.WriteString(w, `{"nextSequenceToken":"1"}`)
}

// stream finds the name of the stream near the start of a body.
func stream(body []byte) []byte {
	key := []byte(`"logStreamName":"`)
	head := body[:min(len(body), 2048)]
	i := bytes.Index(head, key)
	if i < 0 {
		return nil
	}
	head = head[i+len(key):]
	if i = bytes.IndexByte(head, '"'); i < 0 {
		return nil
	}
	return head[:i]
}

// time notes how old each event is.
func (c *counter) time(body []byte) {
	now := time.Now().UnixMilli()
	for {
		i := bytes.Index(body, event)
		if i < 0 {
			return
		}
		body = body[i+len(event):]
		end := bytes.IndexAny(body, ",}")
		if end < 0 {
			return
		}
		if ms, err := strconv.ParseInt(string(body[:end]), 10, 64); err == nil {
			c.delays = append(c.delays, now-ms)
		}
	}
}

// control serves the runner: /stats, /reset[?delays=1].
func (c *counter) control(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/reset" {
		c.t, c.delays, c.streams, c.timed = tally{}, nil, map[string]struct{}{}, r.URL.Query().Get("delays") != ""
		return
	}
	t := c.t
	t.Streams = len(c.streams)
	if n := len(c.delays); n > 0 {
		d := slices.Clone(c.delays)
		slices.Sort(d)
		t.Delays = [4]int64{d[n/2], d[n*9/10], d[n*99/100], d[n-1]}
	}
	_ = json.NewEncoder(w).Encode(t)
}

// runSink serves until its standard input ends. It prints both addresses and writes the
// certificate to the file -cert.
func runSink(args []string) error {
	fs := flag.NewFlagSet("sink", flag.ContinueOnError)
	certFile := fs.String("cert", "", "file for the certificate")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cert, pem, err := emulator.SelfSigned("127.0.0.1")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*certFile, pem, 0o600); err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	c := &counter{streams: map[string]struct{}{}}
	service := &sinkServer{handler: c, config: config}
	if err := service.up("127.0.0.1:0"); err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/stats", c.control)
	mux.HandleFunc("/reset", c.control)
	mux.HandleFunc("/down", func(http.ResponseWriter, *http.Request) { service.down() })
	mux.HandleFunc("/up", func(w http.ResponseWriter, _ *http.Request) {
		if err := service.up(service.addr); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	go func() { _ = http.Serve(control, mux) }()
	fmt.Printf("%s %s\n", service.addr, control.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// sinkServer is the TLS side, which can go away and come back at the same port.
type sinkServer struct {
	handler http.Handler
	config  *tls.Config
	addr    string
	server  *http.Server
}

func (s *sinkServer) up(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.server = &http.Server{Handler: s.handler, IdleTimeout: 6 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func(srv *http.Server) { _ = srv.Serve(tls.NewListener(l, s.config)) }(s.server)
	return nil
}

func (s *sinkServer) down() { _ = s.server.Close() }

// sink is the sink process, seen from the runner.
type sink struct {
	proc          *process
	addr, control string
	cert          string
}

func startSink(ctx context.Context, dir string) (*sink, error) {
	s := &sink{cert: dir + "/sink.pem"}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var line string
	if s.proc, line, err = startHelper(ctx, self, "sink", "-cert", s.cert); err != nil {
		return nil, fmt.Errorf("start the sink: %w", err)
	}
	if _, err := fmt.Sscan(line, &s.addr, &s.control); err != nil {
		return nil, fmt.Errorf("start the sink: %w", err)
	}
	return s, nil
}

func (s *sink) ask(path string, into any) error {
	resp, err := http.Get("http://" + s.control + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("sink: %s: %s", path, resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func (s *sink) stats() (t tally, err error) { return t, s.ask("/stats", &t) }
func (s *sink) stop()                       { s.proc.end() }
