package e2e

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// TestOldAndFutureEvents sends events that the service refuses for their time, beside good
// ones: each ends in the book under its own reason.
func TestOldAndFutureEvents(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Match: "retention_in_days 1", Buffer: impatient}.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 20}
	defer s.Close()
	s.SendAll(t, 1)
	w.Drained() // the group is there, with its retention
	weirtest.Eventually(t, "the group has its retention", func() (string, bool) {
		g := e.Groups()
		return fmt.Sprint(g), len(g) == 1 && g[0].RetentionDays == 1
	})
	c, err := forwardclient.Dial(t.Context(), forwardclient.Options{Addr: w.Addr(), Window: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, age := range []time.Duration{20 * 24 * time.Hour, -3 * time.Hour, 2 * 24 * time.Hour} {
		p := forwardclient.Encoding{Mode: forwardclient.Packed, Tag: "a", Events: 10 + i, Record: weirtest.Record, Acks: true,
			First: 1_000_000, Time: time.Now().Add(-age)}.Encode()
		if err := c.Send(p, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	s.SendAll(t, 1)
	w.Drained()
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
	st := e.Stats()
	if st.RejectedTooOld+st.RejectedTooNew+st.RejectedExpired != 10+11+12 {
		t.Errorf("the endpoint rejected %+v, want 33 events", st)
	}
	// Beyond 14 days an event is too old, whatever the retention.
	w.Ends("out", 40, map[string]int{"too_old": 10, "too_new": 11, "expired": 12})
	w.LogAtMost(0, 3)
}

// TestStdin pipes lines into weir, which ends with its input.
func TestStdin(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.New(t, e, `<source>
  @type stdin
  tag lines
</source>
<match **>
  @type cloudwatch_logs
  @id out
  log_group_name g
  log_stream_name ${tag}
  auto_create_stream true
  message_keys message
  <buffer tag>
    flush_interval 1h
  </buffer>
</match>
`)
	var lines strings.Builder
	for id := range uint64(5000) {
		lines.WriteString(weirtest.Message(id) + "\n")
	}
	w.Stdin = strings.NewReader(lines.String())
	w.Launch()
	if code := w.Exit(weirtest.Patience); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "lines"}, weirtest.IDs(0, 5000))
}

// TestSecured has TLS, a shared key and users on the forward port.
func TestSecured(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Source: `<transport tls>
    insecure true
  </transport>
  <security>
    self_hostname weir
    shared_key secret
    user_auth true
    <user>
      username fred
      password wilma
    </user>
  </security>`}.String())
	dial := func(key, password string) (*forwardclient.Client, error) {
		return forwardclient.Dial(t.Context(), forwardclient.Options{Addr: w.Addr(), Window: 4, SharedKey: key, Hostname: "node",
			Username: "fred", Password: password, TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}})
	}
	for _, wrong := range [][2]string{{"guess", "wilma"}, {"secret", "guess"}} {
		if c, err := dial(wrong[0], wrong[1]); err == nil {
			_ = c.Close()
			t.Errorf("key %q and password %q were accepted", wrong[0], wrong[1])
		}
	}
	c, err := dial("secret", "wilma")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := forwardclient.Encoding{Mode: forwardclient.Gzip, Tag: "a", Events: 30, Record: weirtest.Record, Acks: true}.Encode()
	if err := c.Send(p, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	w.Drained()
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, weirtest.IDs(0, 30))
	for _, l := range w.Lines("", "") {
		if strings.Contains(l.Text, "secret") || strings.Contains(l.Text, "wilma") {
			t.Errorf("the log tells a secret: %s", l.Text)
		}
	}
	w.LogAtMost(0, 4) // of the two that were refused, and of insecure
}

// TestCopy sends to two outputs of which one is full: a message is taken by both or by
// none, so that the sender's repeat doubles nothing.
func TestCopy(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.Fault503, Group: "full"}, emulator.FaultRule{Kind: emulator.Fault503, Operations: []string{create, "CreateLogGroup"}, Group: "full"})
	store := func(id, limit string) string {
		return fmt.Sprintf(`  <store>
    @type cloudwatch_logs
    @id %s
    log_group_name %s
    use_tag_as_stream true
    auto_create_stream true
    message_keys log
    <buffer tag>
      @type file
      path $DIR/%s
      flush_interval 0.05
      total_limit_size %s
      retry_wait 0.05
      retry_max_interval 0.3
      retry_forever true
    </buffer>
  </store>
`, id, id, id, limit)
	}
	w := weirtest.Start(t, e, "<source>\n  @type forward\n  @id in\n  port $PORT\n  bind 127.0.0.1\n</source>\n<match **>\n  @type copy\n"+
		store("roomy", "64m")+store("full", "256k")+"</match>\n")
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 50, Window: 4}
	done := s.Background(t, 150)
	weirtest.Eventually(t, "messages are refused", func() (string, bool) {
		n := w.Input().Refused
		return fmt.Sprint(n), n > 0
	})
	roomy, full := w.Output("roomy").Ledger, w.Output("full").Ledger
	if full.Pending == 0 || roomy.Lost()+full.Lost() > 0 {
		t.Errorf("roomy: %s; full: %s", roomy, full)
	}
	weirtest.Faults(t, e)
	<-done
	w.Drained()
	for _, id := range []string{"roomy", "full"} {
		weirtest.Exactly(t, e, weirtest.Target{Group: id, Stream: "a"}, s.IDs())
		w.Ends(id, len(s.IDs()), nil)
	}
}
