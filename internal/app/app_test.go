package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"weir/internal/emulator"
	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
)

// running is an App under test.
type running struct {
	*App
	t   *testing.T
	log *logs
	out *logs
}

// start runs a configuration; stop is the test's.
func start(t *testing.T, text string) *running {
	t.Helper()
	r := &running{t: t, log: &logs{}, out: &logs{}}
	p := r.load(text)
	a, err := New(p, Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), HTTP: "127.0.0.1:0", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r.App = a
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stop(10 * time.Second)
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func (r *running) load(text string) *Plan {
	r.t.Helper()
	p, d := Load("test.conf", Env{Stdout: r.out, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }}, false)
	for _, e := range d.Errors {
		r.t.Fatal(e)
	}
	return p
}

func (r *running) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	r.Stop(ctx)
}

// addr is where the nth source listens.
func (r *running) addr(n int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inputs[n].forward.Addr().String()
}

// sender sends forward messages and waits for their acknowledgement.
type sender struct {
	c net.Conn
	r *msgp.Reader
	n int
	// at is the time of its events; 0 is now. What is sent again has the time it had.
	at event.Time
}

func dial(addr string) (*sender, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &sender{c: c, r: msgp.NewReader(bufio.NewReader(c))}, nil
}

// send sends count events {"message": "PREFIX first"} … and waits for the ack.
func (s *sender) send(tag, prefix string, first, count int) error {
	s.n++
	chunk := fmt.Sprint(tag, prefix, first, s.n)
	m := msgp.AppendArrayHeader(nil, 3)
	m = msgp.AppendString(m, tag)
	var entries []byte
	for i := range count {
		at := s.at
		if at == 0 {
			at = event.FromTime(time.Now())
		}
		rec := msgp.AppendMapHeader(nil, 1)
		rec = msgp.AppendString(rec, "message")
		rec = msgp.AppendString(rec, fmt.Sprintf("%s %d", prefix, first+i))
		entries = event.AppendEntry(entries, at, rec)
	}
	m = msgp.AppendBytes(m, entries)
	m = msgp.AppendMapHeader(m, 1)
	m = msgp.AppendString(m, "chunk")
	m = msgp.AppendString(m, chunk)
	if err := s.c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := s.c.Write(m); err != nil {
		return err
	}
	if _, err := s.r.ReadMapHeader(); err != nil {
		return fmt.Errorf("read ack: %w", err)
	}
	if _, err := s.r.ReadString(); err != nil {
		return err
	}
	got, err := s.r.ReadString()
	if err == nil && got != chunk {
		err = fmt.Errorf("ack of %q, sent %q", got, chunk)
	}
	return err
}

func mustSend(t *testing.T, addr, tag, prefix string, first, count int) {
	t.Helper()
	mustSendAt(t, addr, tag, prefix, first, count, 0)
}

func mustSendAt(t *testing.T, addr, tag, prefix string, first, count int, at event.Time) {
	t.Helper()
	s, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.c.Close()
	s.at = at
	if err := s.send(tag, prefix, first, count); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for something that happens in other goroutines and processes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

const forwardIn = `
<system>
  shutdown_grace 5s
</system>
<source>
  @type forward
  @id in
  port 0
  bind 127.0.0.1
</source>
`

func TestForwardToStdout(t *testing.T) {
	r := start(t, forwardIn+`
<filter app.**>
  @type grep
  <exclude>
    key message
    pattern /drop/
  </exclude>
</filter>
<match app.**>
  @type stdout
  <format>
    @type json
  </format>
</match>
`)
	mustSend(t, r.addr(0), "app.x", "line", 0, 100)
	mustSend(t, r.addr(0), "app.x", "drop", 0, 7)
	mustSend(t, r.addr(0), "other", "line", 0, 3)
	r.stop(10 * time.Second)
	if n := strings.Count(r.out.String(), "\n"); n != 100 {
		t.Errorf("%d lines, want 100", n)
	}
	s := r.Totals()
	if s.Delivered != 100 || s.Filtered != 7 || s.Pending() != 0 || r.unmatchedEvents() != 3 {
		t.Errorf("%+v, unmatched %d", s, r.unmatchedEvents())
	}
	if !strings.Contains(r.log.String(), "everything was delivered") {
		t.Error("the log does not say how it ended")
	}
}

// cloud is a local CloudWatch Logs endpoint for the length of a test.
func cloud(t *testing.T) *emulator.Server {
	t.Helper()
	s, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func cloudMatch(url, dir, more string) string {
	return fmt.Sprintf(`
<match **>
  @type cloudwatch_logs
  @id cw
  region us-east-1
  aws_key_id x
  aws_sec_key y
  endpoint %s
  log_group_name group
  log_stream_name ${tag}
  auto_create_stream true
  message_keys message
  %s
  <buffer tag>
    @type file
    path %s
    durability os
    min_free_space 0
    flush_interval 0.1s
    flush_thread_count 4
  </buffer>
</match>
`, url, more, dir)
}

func TestForwardThroughAFileBufferToCloudWatch(t *testing.T) {
	s := cloud(t)
	dir := filepath.Join(t.TempDir(), "buf")
	r := start(t, forwardIn+cloudMatch(s.URL(), dir, ""))
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			sn, err := dial(r.addr(0))
			if err != nil {
				t.Error(err)
				return
			}
			defer sn.c.Close()
			for i := range 20 {
				if err := sn.send(fmt.Sprint("app", c), "n", i*50, 50); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	r.status(t)
	r.stop(10 * time.Second)
	for c := range 4 {
		checkSequence(t, s, fmt.Sprint("app", c), "n", 1000)
	}
	if sum := r.Totals(); sum.Delivered != 4000 || sum.Pending() != 0 {
		t.Errorf("%+v", sum)
	}
}

// checkSequence fails unless a stream has "PREFIX 0", "PREFIX 1" … in order.
func checkSequence(t *testing.T, s *emulator.Server, stream, prefix string, n int) {
	t.Helper()
	got := s.Events("group", stream)
	if len(got) != n {
		t.Errorf("stream %s has %d events, want %d", stream, len(got), n)
	}
	for i, e := range got {
		if want := fmt.Sprintf("%s %d", prefix, i); e.Message != want {
			t.Fatalf("stream %s: event %d is %q, want %q", stream, i, e.Message, want)
		}
	}
}

// status fetches the status page and checks what it says about itself.
func (r *running) status(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/api/status"} {
		res, err := http.Get(r.StatusURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || len(body) == 0 {
			t.Errorf("%s: %s\n%s", path, res.Status, body)
		}
		if path == "/api/status" && !json.Valid(body) {
			t.Errorf("%s is no JSON", path)
		}
	}
	for _, o := range r.Status().Outputs {
		if o.Balance != 0 {
			t.Errorf("output %s: the books are off by %d", o.ID, o.Balance)
		}
	}
}

func TestAckAfterDelivered(t *testing.T) {
	s := cloud(t)
	in := strings.Replace(forwardIn, "port 0", "port 0\n  ack_after delivered", 1)
	match := strings.Replace(cloudMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), ""), "flush_interval 0.1s", "flush_interval 1h", 1)
	r := start(t, in+match)
	acked := make(chan error, 1)
	addr := r.addr(0)
	go func() {
		sn, err := dial(addr)
		if err == nil {
			err = sn.send("app", "n", 0, 10)
			_ = sn.c.Close()
		}
		acked <- err
	}()
	eventually(t, "the events are in the buffer", func() bool { return r.Totals().Admitted == 10 })
	select {
	case err := <-acked:
		t.Fatalf("acknowledged before delivery (%v)", err)
	default:
	}
	// Stopping hurries: the sender is answered within the wind-down, not after flush_interval.
	began := time.Now()
	r.stop(20 * time.Second)
	if err := <-acked; err != nil {
		t.Errorf("not acknowledged: %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("stopping took %s", took)
	}
	checkSequence(t, s, "app", "n", 10)
}

func TestStopKeepsWhatCannotBeSentAndStartSendsIt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "buf")
	r := start(t, forwardIn+cloudMatch("http://127.0.0.1:1", dir, ""))
	mustSend(t, r.addr(0), "app", "n", 0, 100)
	r.stop(10 * time.Second)
	if !strings.Contains(r.log.String(), "events were not delivered") || !strings.Contains(r.log.String(), dir) {
		t.Error("the log does not say what was left and where")
	}
	s := cloud(t)
	r = start(t, forwardIn+cloudMatch(s.URL(), dir, ""))
	eventually(t, "the rest arrives", func() bool { return len(s.Events("group", "app")) == 100 })
	r.stop(10 * time.Second)
	checkSequence(t, s, "app", "n", 100)
	if sum := r.Totals(); sum.Admitted != 100 || sum.Delivered != 100 {
		t.Errorf("books across the restart: %+v", sum)
	}
}

func TestOrphanIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, forwardIn+cloudMatch("http://127.0.0.1:1", filepath.Join(dir, "old"), ""))
	mustSend(t, r.addr(0), "app", "n", 0, 42)
	r.stop(10 * time.Second)
	s := cloud(t)
	r = start(t, forwardIn+cloudMatch(s.URL(), filepath.Join(dir, "new"), ""))
	log := r.log.String()
	if !strings.Contains(log, "belongs to no output") || !strings.Contains(log, "events=42") || !strings.Contains(log, filepath.Join(dir, "old")) {
		t.Error("the orphan is not reported")
	}
	r.stop(10 * time.Second)
	if got := orphans(r.gen.plan); !slices.Equal(got, []string{filepath.Join(dir, "old")}) {
		t.Errorf("orphans: %v", got)
	}
}

func TestStdinEndsTheProcess(t *testing.T) {
	r := &running{t: t, log: &logs{}, out: &logs{}}
	p := r.load("<source>\n@type stdin\ntag x\n</source>\n<match **>\n@type stdout\n<format>\n@type single_value\n</format>\n</match>\n")
	a, err := New(p, Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), HTTP: "off", Stdin: strings.NewReader("one\ntwo\nthree\n")})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Done():
	case <-time.After(time.Minute):
		t.Fatal("the end of standard input is not the end")
	}
	a.Stop(context.Background())
	if got := r.out.String(); got != "one\ntwo\nthree\n" {
		t.Errorf("%q", got)
	}
}

func TestStartThatFailsLeavesNothingOpen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(forwardIn, "port 0", "port "+port, 1) + cloudMatch("http://127.0.0.1:1", filepath.Join(blocked, "x"), "")
	r := &running{t: t, log: &logs{}, out: &logs{}}
	a, err := New(r.load(text), Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err == nil {
		t.Fatal("it started on a file in place of a directory")
	}
	if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		_ = c.Close()
		t.Error("the port is open")
	}
	a.Stop(context.Background())
}

func TestFullBufferRefusesAndTakesAgain(t *testing.T) {
	s := cloud(t)
	dir := filepath.Join(t.TempDir(), "buf")
	match := strings.Replace(cloudMatch("http://127.0.0.1:1", dir, ""), "durability os", "durability os\n    total_limit_size 1m", 1)
	r := start(t, forwardIn+match)
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < 100_000 && err == nil {
		if err = sn.send("app", "n", n, 100); err == nil {
			n += 100
		}
	}
	_ = sn.c.Close()
	if err == nil {
		t.Fatal("a full buffer refuses nothing")
	}
	if err := r.Reload(r.load(forwardIn + strings.Replace(match, "http://127.0.0.1:1", s.URL(), 1))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the buffer takes again", func() bool {
		sn, err := dial(r.addr(0))
		if err != nil {
			return false
		}
		defer sn.c.Close()
		return sn.send("app", "n", n, 10) == nil
	})
	r.stop(10 * time.Second)
	checkSequence(t, s, "app", "n", n+10)
	if sum := r.Totals(); sum.Delivered != uint64(n+10) || total(sum, ledger.Dropped) != 0 {
		t.Errorf("%+v", sum)
	}
}

var _ input.Emitter = (*emitter)(nil)

func TestStopWhileABufferBlocks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "buf")
	match := strings.Replace(cloudMatch("http://127.0.0.1:1", dir, ""), "durability os", "durability os\n    total_limit_size 1m\n    overflow_action block", 1)
	r := start(t, forwardIn+match)
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	acked := make(chan int, 1)
	go func() {
		n := 0
		for sn.send("app", "n", n, 100) == nil {
			n += 100
		}
		acked <- n
	}()
	eventually(t, "the buffer is full", func() bool {
		o := r.Status().Outputs[0].Buffer
		return o.Bytes > o.Limit-16<<10
	})
	began := time.Now()
	r.stop(3 * time.Second)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("stopping took %s", took)
	}
	n := <-acked
	if sum := r.Totals(); sum.Pending() < int64(n) || sum.Pending() > int64(n+100) {
		t.Errorf("%d events were acknowledged, the buffer keeps %d", n, sum.Pending())
	}
}
