package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// TestModes sends every form of the forward protocol, each to a stream of its own, all with
// acknowledgements, and wants exactly these events in order.
func TestModes(t *testing.T) {
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Match: "retention_in_days 7", Group: "modes"}.String())
	total, messages := 0, uint64(0)
	sent := map[string][]uint64{}
	send := func(name string, enc forwardclient.Encoding) {
		enc.Tag, enc.Acks, enc.First, enc.Record = name, true, uint64(1_000_000*(len(sent)+1)), weirtest.Record
		c, err := forwardclient.Dial(t.Context(), forwardclient.Options{Addr: w.Addr(), Window: 4 * enc.Events, JSON: enc.JSON})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range 3 {
			p := enc.Encode()
			if err := c.Send(p, uint64(i*p.Messages())); err != nil {
				t.Fatal(err)
			}
			sent[name] = append(sent[name], weirtest.IDs(enc.First, enc.Events)...)
			total += enc.Events
			messages += uint64(p.Messages())
			enc.First += uint64(enc.Events)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, mode := range []forwardclient.Mode{forwardclient.Message, forwardclient.Forward, forwardclient.Packed, forwardclient.Gzip, forwardclient.Zstd} {
		send(mode.String(), forwardclient.Encoding{Mode: mode, Events: 40})
		send(mode.String()+".seconds", forwardclient.Encoding{Mode: mode, Events: 40, Seconds: true})
		if mode != forwardclient.Message {
			send(mode.String()+".metadata", forwardclient.Encoding{Mode: mode, Events: 40, Metadata: true})
		}
	}
	send("message.json", forwardclient.Encoding{Mode: forwardclient.Message, Events: 40, JSON: true})
	send("forward.json", forwardclient.Encoding{Mode: forwardclient.Forward, Events: 40, JSON: true})

	w.Drained()
	for name, ids := range sent {
		weirtest.Exactly(t, e, weirtest.Target{Group: "modes", Stream: name}, ids)
	}
	if got := len(e.Streams("modes")); got != len(sent) {
		t.Errorf("%d streams, want %d", got, len(sent))
	}
	if g := e.Groups(); len(g) != 1 || g[0].RetentionDays != 7 {
		t.Errorf("groups %+v, want one with a retention of 7 days", g)
	}
	w.Ends("out", total, nil)
	in := w.Input()
	if in.Events != uint64(total) || in.Acks != messages || in.Malformed != 0 {
		t.Errorf("input %+v, want %d events, %d acks", in, total, messages)
	}
	w.Stop(10 * time.Second)
	w.LogAtMost(0, 0)
}

// TestStatus asks every address of the status server.
func TestStatus(t *testing.T) {
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{}.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Events: 10, Mode: forwardclient.Packed, Window: 4}
	defer s.Close()
	s.SendAll(t, 20)
	w.Drained()
	for path, want := range map[string]string{
		"/": "<!doctype html>", "/healthz": "ok", "/readyz": "ready", "/api/status": `"balance":0`, "/metrics": "weir_output_balance_events",
	} {
		code, body := w.Get(path)
		if code != http.StatusOK || !strings.Contains(strings.ReplaceAll(strings.ToLower(body), ": ", ":"), want) {
			t.Errorf("%s: %d, without %q in: %.300s", path, code, want, body)
		}
	}
	if code, _ := w.Get("/nothing"); code != http.StatusNotFound {
		t.Errorf("/nothing: %d, want 404", code)
	}
	m := w.Metrics()
	for name, want := range map[string]float64{
		`weir_input_events_total{input="in"}`:                                             200,
		`weir_output_delivered_events_total{book="main",output="out"}`:                    200,
		`weir_output_admitted_events_total{book="main",output="out"}`:                     200,
		`weir_output_balance_events{book="main",output="out"}`:                            0,
		`weir_output_pending_events{book="main",output="out"}`:                            0,
		`weir_output_dropped_events_total{book="main",output="out",reason="buffer_full"}`: 0,
		`weir_ready`: 1,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("metric %s is %v (there: %t), want %v", name, got, ok, want)
		}
	}
	w.LogAtMost(0, 0)
}

// TestStopFlushes stops weir right after the last acknowledgement while everything still
// waits for its flush_interval.
func TestStopFlushes(t *testing.T) {
	for _, kind := range []string{"file", "memory"} {
		t.Run(kind, func(t *testing.T) {
			e := weirtest.Endpoint(t, emulator.Options{})
			w := weirtest.Start(t, e, weirtest.Config{Flush: "1h", Memory: kind == "memory"}.String())
			s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Events: 100, Mode: forwardclient.Packed, Window: 8}
			defer s.Close()
			s.SendAll(t, 50)
			if n := e.Stats().Events; n != 0 {
				t.Errorf("%d events were sent before their time", n)
			}
			w.Stop(15 * time.Second)
			weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
			if len(w.Lines("INFO", "everything was delivered")) != 1 {
				t.Error("the log does not say that everything was delivered")
			}
			w.LogAtMost(0, 1) // a memory buffer is warned about at start
		})
	}
}

// TestFlushSignal sends what waits on SIGUSR1.
func TestFlushSignal(t *testing.T) {
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Flush: "1h"}.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Events: 10, Mode: forwardclient.Message, Window: 100}
	defer s.Close()
	s.Mode = forwardclient.Packed
	s.SendAll(t, 10)
	// An event may be stored and not yet read by the delivery: then it is due by the next signal.
	weirtest.Eventually(t, "SIGUSR1 sends what waits", func() (string, bool) {
		w.Signal(syscall.SIGUSR1)
		n := e.Stats().Events
		return fmt.Sprint(n, " events"), n == 100
	})
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
}

// TestWholeRecord has no message_keys: the message is the record as JSON.
func TestWholeRecord(t *testing.T) {
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, strings.Replace(weirtest.Config{}.String(), "message_keys log", "", 1))
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Events: 1, Mode: forwardclient.Packed}
	defer s.Close()
	s.SendAll(t, 1)
	w.Drained()
	want := `{"host":"node-1","log":"` + weirtest.Message(0) + `"}`
	if ev := e.Events("g", "a"); len(ev) != 1 || ev[0].Message != want {
		t.Errorf("got %+v, want %s", ev, want)
	}
}

// TestCheck looks at exit codes and places.
func TestCheck(t *testing.T) {
	dir := weirtest.Dir(t)
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.conf", strings.ReplaceAll(weirtest.Config{}.String(), "$PORT", "24224"))
	code, out, _ := weirtest.Command(t, "check", "-c", good)
	if code != 0 || !strings.Contains(out, "is good. Routes:") || !strings.Contains(out, "cloudwatch_logs") {
		t.Errorf("check of a good file: %d\n%s", code, out)
	}
	if _, err := os.Stat("$DIR"); err == nil {
		t.Error("check has made a buffer")
	}
	if code, out, _ := weirtest.Command(t, "check", "--strict", "-c", "../../examples/aggregator.conf"); code != 0 {
		t.Errorf("check of the example: %d\n%s", code, out)
	}
	bad := write("bad.conf", `<source>
  @type forward
  port many_ports
</source>
<source>
  @type carrier_pigeon
</source>
<match **>
  @type cloudwatch_logs
  log_group_name g
  <buffer>
    overflow_action explode
  </buffer>
</match>
`)
	code, out, _ = weirtest.Command(t, "check", "-c", bad)
	if code != 1 {
		t.Errorf("check of a bad file: exit code %d, want 1", code)
	}
	for _, place := range []string{"bad.conf:3:", "bad.conf:6:", "bad.conf:12:", "bad.conf:8:"} {
		if !strings.Contains(out, place) {
			t.Errorf("check does not name %s:\n%s", place, out)
		}
	}
	if code, _, errOut := weirtest.Command(t, "run", "-c", bad); code != 1 || !strings.Contains(errOut, "bad.conf:6:") {
		t.Errorf("run of a bad file: %d\n%s", code, errOut)
	}
	if code, out, _ := weirtest.Command(t, "check", "-c", filepath.Join(dir, "none.conf")); code != 1 || !strings.Contains(out, "none.conf") {
		t.Errorf("check of a missing file: %d %s", code, out)
	}
	odd := write("odd.conf", strings.ReplaceAll(weirtest.Config{Match: "no_such_parameter 1"}.String(), "$PORT", "24224"))
	if code, out, _ := weirtest.Command(t, "check", "-c", odd); code != 0 || !strings.Contains(out, "no_such_parameter") {
		t.Errorf("an unknown parameter: %d, want 0 with a warning\n%s", code, out)
	}
	if code, _, _ := weirtest.Command(t, "check", "--strict", "-c", odd); code != 1 {
		t.Errorf("an unknown parameter with --strict: %d, want 1", code)
	}
}

// TestUsage wants exit code 2 and a hint for command lines that are wrong.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"fly"}, {"run"}, {"check"}, {"run", "--no-such-flag"}, {"emulate", "extra"}, {"demo", "--for", "x"}} {
		code, _, errOut := weirtest.Command(t, args...)
		if code != 2 || errOut == "" {
			t.Errorf("weir %s: exit code %d and %q, want 2 and a hint", strings.Join(args, " "), code, errOut)
		}
	}
	for _, args := range [][]string{{"-h"}, {"help"}, {"run", "-h"}, {"check", "-h"}, {"emulate", "-h"}, {"demo", "-h"}, {"version"}} {
		if code, out, _ := weirtest.Command(t, args...); code != 0 || out == "" {
			t.Errorf("weir %s: exit code %d and %q, want 0 and a text", strings.Join(args, " "), code, out)
		}
	}
}

// TestStatusAddress: the default address may be taken, one that was asked for may not.
func TestStatusAddress(t *testing.T) {
	e := weirtest.Endpoint(t, emulator.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := weirtest.New(t, e, weirtest.Config{}.String())
	w.HTTP = l.Addr().String()
	w.Launch()
	if code := w.Exit(10 * time.Second); code != 1 || len(w.Lines("ERROR", "status address")) != 1 {
		t.Errorf("exit code %d with a taken status address that was given, want 1 and one line", code)
	}

	// Something has the default address now, if only this test.
	if d, err := net.Listen("tcp", "127.0.0.1:24280"); err == nil {
		defer d.Close()
	}
	w.HTTP = ""
	w.Args = []string{"--http="} // the default
	w.Launch()
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Events: 10, Mode: forwardclient.Packed}
	defer s.Close()
	s.SendAll(t, 2)
	if n := len(w.Lines("WARN", "status address is taken")); n != 1 {
		t.Errorf("%d warnings about the taken default address, want 1", n)
	}
	w.Stop(10 * time.Second)
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
}

// TestDemo runs the newcomer's command.
func TestDemo(t *testing.T) {
	code, out, errOut := weirtest.Command(t, "demo", "--events", "2000", "--for", "20s")
	if code != 0 || !strings.Contains(out+errOut, "2000") {
		t.Errorf("weir demo: exit code %d\n%s\n%s", code, out, errOut)
	}
}

// TestEmulate serves the endpoint as a process, keeps events over SIGKILL in a directory, and
// is what weir sends to.
func TestEmulate(t *testing.T) {
	p := weirtest.StartEmulator(t, weirtest.Dir(t))
	w := weirtest.New(t, nil, weirtest.Config{}.String())
	w.Env = []string{"AWS_ENDPOINT_URL=" + p.URL}
	w.Start()
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Events: 10, Mode: forwardclient.Packed}
	defer s.Close()
	s.SendAll(t, 30)
	w.Drained()
	p.Restart()
	s.SendAll(t, 30)
	w.Drained()
	w.Ends("out", 600, nil)
	p.Stop()
	kept, err := emulator.New(emulator.Options{Dir: p.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	weirtest.Exactly(t, kept, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
}
