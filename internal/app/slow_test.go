package app

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
)

// TestSlowFlushThreshold: slow_flush_log_threshold reaches delivery, in the status and in a line.
func TestSlowFlushThreshold(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	if err := s.SetFaults(&emulator.FaultScript{Rules: []emulator.FaultRule{
		{Kind: emulator.FaultDelay, Operations: []string{"PutLogEvents"}, Duration: emulator.Duration(120 * time.Millisecond)},
	}}); err != nil {
		t.Fatal(err)
	}
	r := start(t, forwardIn+cloudMatch(s.URL(), filepath.Join(t.TempDir(), "buf"), "slow_flush_log_threshold 0.05"))
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	if err := sn.send("app", "n", 0, 5); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for sum := r.Totals(); sum.Pending() != 0 && time.Now().Before(deadline); sum = r.Totals() {
		<-time.After(5 * time.Millisecond)
	}
	if n := r.Status().Outputs[0].SlowFlushes; n == 0 {
		t.Error("no slow request was counted")
	}
	if !strings.Contains(r.log.String(), "a request took long") {
		t.Errorf("nothing was said:\n%s", r.log.String())
	}
	r.stop(10 * time.Second)
}

func TestSlowFlushDefault(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 20 * time.Second, "slow_flush_log_threshold 2.5": 2500 * time.Millisecond} {
		conf := "<source>\n@type stdin\n</source>\n<match **>\n@type stdout\n" + text + "\n</match>\n"
		p, d := Load("t.conf", Env{ReadFile: func(string) ([]byte, error) { return []byte(conf), nil }}, false)
		if len(d.Errors) > 0 || p.Outputs[0].slow != want {
			t.Errorf("%q: %v, want %v; errors %v", text, p.Outputs[0].slow, want, d.Errors)
		}
	}
}
