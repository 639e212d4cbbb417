package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// fluentBitCase is a way in which Fluent Bit's forward output sends.
type fluentBitCase struct {
	name     string
	output   string // parameters of [OUTPUT]
	compress bool
	metadata bool // events are [[time, metadata], record]
}

func fluentBitCases() []fluentBitCase {
	return []fluentBitCase{
		{name: "acks", output: "Require_ack_response On", metadata: true},
		{name: "acks-gzip", output: "Require_ack_response On\n    Compress gzip", compress: true, metadata: true},
		{name: "plain", output: "Require_ack_response Off", metadata: true},
		{name: "acks-records", output: "Require_ack_response On\n    Retain_metadata_in_forward_mode Off"},
		{name: "acks-seconds", output: "Require_ack_response On\n    Time_as_Integer On"},
	}
}

const fluentBitLines = 800

// TestFluentBit has Fluent Bit read a file of known lines and forward them. Where it is not
// installed, streams that were recorded from it are sent instead (TestFluentBitRecorded
// always sends them).
func TestFluentBit(t *testing.T) {
	program, err := exec.LookPath("fluent-bit")
	if err != nil {
		t.Log("left out: fluent-bit is not on the PATH, so no live Fluent Bit was run; its recorded streams are used in TestFluentBitRecorded")
		return
	}
	for _, c := range fluentBitCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := weirtest.Endpoint(t, emulator.Options{})
			w := weirtest.Start(t, e, weirtest.Config{}.String())
			p := newTap(t, w.Addr())
			runFluentBit(t, program, c, p.port())
			want := weirtest.Target{Group: "g", Stream: "fb"}
			weirtest.Eventually(t, "all lines are delivered", func() (string, bool) {
				n := w.Output("out").Ledger.Delivered
				return fmt.Sprint(n), n >= fluentBitLines
			})
			w.Drained()
			weirtest.Exactly(t, e, want, weirtest.IDs(0, fluentBitLines))
			in := w.Input()
			if strings.Contains(c.output, "Require_ack_response On") != (in.Acks > 0) {
				t.Errorf("%d acknowledgements", in.Acks)
			}
			w.LogAtMost(0, 0)
			if dir := os.Getenv("WEIR_RECORD"); dir != "" {
				p.save(filepath.Join(dir, c.name+".bin"))
			}
		})
	}
}

// runFluentBit runs Fluent Bit until it has read and forwarded all lines.
func runFluentBit(t *testing.T, program string, c fluentBitCase, port string) {
	t.Helper()
	dir := weirtest.Dir(t)
	var lines bytes.Buffer
	for id := range uint64(fluentBitLines) {
		lines.WriteString(weirtest.Message(id) + "\n")
	}
	input := filepath.Join(dir, "lines.log")
	if err := os.WriteFile(input, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "fluent-bit.conf")
	text := fmt.Sprintf(`[SERVICE]
    Flush 0.2
    Grace 20
    Log_Level warn
[INPUT]
    Name tail
    Path %s
    Tag fb
    Read_from_Head On
    Exit_On_Eof On
[OUTPUT]
    Name forward
    Match *
    Host 127.0.0.1
    Port %s
    Retry_Limit False
    %s
`, input, port, c.output)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*weirtest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-c", config)
	cmd.Env = weirtest.CleanEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fluent-bit: %v\n%s", err, out)
	}
}

// tap passes connections on to weir and keeps what the client says.
type tap struct {
	t      *testing.T
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu  sync.Mutex
	all [][]byte // by connection
}

func newTap(t *testing.T, target string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{t: t, l: l, target: target}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.wg.Wait()
	})
	return p
}

func (p *tap) port() string { return fmt.Sprint(p.l.Addr().(*net.TCPAddr).Port) }

func (p *tap) serve() {
	for n := 0; ; n++ {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.all = append(p.all, nil)
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(client, n) })
	}
}

func (p *tap) pass(client net.Conn, n int) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server) // acknowledgements
		_ = client.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(server, (*kept)(&tapped{p, n})), client)
	_ = server.(*net.TCPConn).CloseWrite()
}

type tapped struct {
	p *tap
	n int
}

type kept tapped

func (k *kept) Write(b []byte) (int, error) {
	k.p.mu.Lock()
	k.p.all[k.n] = append(k.p.all[k.n], b...)
	k.p.mu.Unlock()
	return len(b), nil
}

// save writes the streams of all connections to a file, each behind its length in four
// bytes.
func (p *tap) save(name string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var b []byte
	for _, s := range p.all {
		if len(s) > 0 {
			b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
			b = append(b, s...)
		}
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		p.t.Error(err)
	}
}

// TestFluentBitRecorded sends what Fluent Bit 5.1 has sent, recorded with
//
//	WEIR_RECORD=$PWD/test/e2e/testdata/fluent-bit go test -run 'TestFluentBit$' ./test/e2e
func TestFluentBitRecorded(t *testing.T) {
	for _, c := range fluentBitCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(filepath.Join("testdata", "fluent-bit", c.name+".bin"))
			if err != nil {
				t.Fatal(err)
			}
			if gz := bytes.Contains(b, []byte("compressed")); gz != c.compress {
				t.Errorf("the recording says compressed: %t, want %t", gz, c.compress)
			}
			// The recording grows older than what the service takes.
			limits := emulator.DefaultLimits()
			limits.MaxAge = 100 * 365 * 24 * time.Hour
			e := weirtest.Endpoint(t, emulator.Options{Limits: &limits})
			w := weirtest.Start(t, e, weirtest.Config{}.String())
			acked := strings.Contains(c.output, "Require_ack_response On")
			for len(b) > 0 {
				n := binary.BigEndian.Uint32(b)
				replay(t, w, b[4:4+n], acked)
				b = b[4+n:]
			}
			w.Drained()
			weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "fb"}, weirtest.IDs(0, fluentBitLines))
			w.LogAtMost(0, 0)
		})
	}
}

// replay sends a recorded stream and reads what weir answers until it closes.
func replay(t *testing.T, w *weirtest.Weir, b []byte, acked bool) {
	t.Helper()
	c, err := net.Dial("tcp", w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(weirtest.Patience)); err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(answers, []byte("\xa3ack")); acked != (got > 0) || got != bytes.Count(b, []byte("\xa5chunk")) {
		t.Errorf("%d acknowledgements for %d chunks", got, bytes.Count(b, []byte("\xa5chunk")))
	}
}
