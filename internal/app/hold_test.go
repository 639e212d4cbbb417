package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/ledger"
)

// lines is what was written to standard output.
func (r *running) lines() []string {
	return strings.Split(strings.TrimSpace(r.out.String()), "\n")
}

const concatConf = forwardIn + `
<filter app.**>
  @type concat
  key message
  multiline_start_regexp /^S/
  flush_interval %s
  timeout_label @LATE
</filter>
<filter **>
  @type record_transformer
  <record>
    way normal
  </record>
</filter>
<match **>
  @type relabel
  @label @OUT
</match>
<label @LATE>
  <match **>
    @type relabel
    @label @OUT
  </match>
</label>
<label @OUT>
  <match **>
    @type stdout
    <format>
      @type json
    </format>
  </match>
</label>
`

// TestConcatHoldsTheAck has the last line of a message wait for the next message, and the
// last of all for the time-out.
func TestConcatHoldsTheAck(t *testing.T) {
	t.Parallel()
	r := start(t, fmt.Sprintf(concatConf, "1s"))
	addr := r.addr(0)
	first := make(chan error, 1)
	begun := time.Now()
	go func() {
		s, err := dial(addr)
		if err == nil {
			defer s.c.Close()
			err = s.send("app.x", "S", 1, 2)
		}
		first <- err
	}()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begun); d < 900*time.Millisecond {
		t.Errorf("the acknowledgement came after %v", d)
	}
	r.stop(10 * time.Second)
	if got := strings.Join(r.lines(), "\n"); got != `{"message":"S 1","way":"normal"}`+"\n"+`{"message":"S 2"}` {
		t.Errorf("got %s", got)
	}
	if s := r.Totals(); s.Admitted != 2 || s.Delivered != 2 {
		t.Errorf("%+v", s)
	}
}

// TestStopPassesOnWhatIsHeld stops while a sender waits for its acknowledgement.
func TestStopPassesOnWhatIsHeld(t *testing.T) {
	t.Parallel()
	r := start(t, fmt.Sprintf(concatConf, "1h"))
	addr := r.addr(0)
	done := make(chan error, 1)
	s, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.c.Close()
	go func() { done <- s.send("app.x", "S", 1, 1) }()
	eventually(t, "the event is held", func() bool { return r.inputEvents() == 1 })
	held := func() string { return fmt.Sprint(r.Status().Filters) }
	if got := held(); got != "[{concat 1}]" || r.Totals().Admitted != 0 {
		t.Errorf("held %s, admitted %d", got, r.Totals().Admitted)
	}
	r.stop(10 * time.Second)
	if err := <-done; err != nil {
		t.Errorf("no acknowledgement: %v", err)
	}
	if got := held(); got != "[{concat 0}]" {
		t.Errorf("held %s", got)
	}
	if got := strings.Join(r.lines(), "\n"); got != `{"message":"S 1"}` {
		t.Errorf("got %s", got)
	}
}

func (r *running) inputEvents() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := uint64(0)
	for _, in := range r.inputs {
		n += in.count.Events.Load()
	}
	return n
}

// TestFlushPassesOnWhatIsHeld is SIGUSR1.
func TestFlushPassesOnWhatIsHeld(t *testing.T) {
	r := start(t, fmt.Sprintf(concatConf, "1h"))
	done := make(chan error, 1)
	s, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer s.c.Close()
	go func() { done <- s.send("app.x", "S", 1, 1) }()
	eventually(t, "the event is held", func() bool { return r.inputEvents() == 1 })
	r.Flush()
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "the event is written", func() bool { return r.out.String() == "{\"message\":\"S 1\"}\n" })
}

// TestReloadKeepsTheOrderOfWhatIsHeld reloads while events are held.
func TestReloadKeepsTheOrderOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(concatConf, "1h")
	r := start(t, text)
	addr := r.addr(0)
	done := make(chan error, 2)
	for i := range 2 {
		s, err := dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer s.c.Close()
		before := r.inputEvents()
		go func() { done <- s.send("app.x", "S", i, 1) }()
		eventually(t, "the event is held", func() bool { return r.inputEvents() == before+1 })
		if err := r.Reload(r.load(strings.Replace(text, "way normal", fmt.Sprint("way ", i), 1))); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	r.stop(10 * time.Second)
	if got := strings.Join(r.lines(), "\n"); got != `{"message":"S 0"}`+"\n"+`{"message":"S 1"}` {
		t.Errorf("got %s", got)
	}
}

// TestDetectExceptionsGoOnUnderTheirTag sends a trace and other lines through a <match>.
func TestDetectExceptionsGoOnUnderTheirTag(t *testing.T) {
	r := start(t, forwardIn+`
<match raw.**>
  @type detect_exceptions
  remove_tag_prefix raw
  message message
  languages java, python
  multiline_flush_interval 0.2
  force_line_breaks true
</match>
<match app.**>
  @type stdout
  <format>
    @type out_file
    output_time false
  </format>
</match>
`)
	mustSend(t, r.addr(0), "raw.app.x", "plain", 1, 1)
	mustSend(t, r.addr(0), "raw.app.x", "my.Exception: ", 1, 1)
	mustSend(t, r.addr(0), "raw.app.x", "\tat a.b", 1, 1)
	mustSend(t, r.addr(0), "raw", "goes round", 1, 1)
	r.stop(10 * time.Second)
	got := strings.ReplaceAll(strings.Join(r.lines(), "\n"), "\t{", " {")
	want := `app.x {"message":"plain 1"}` + "\n" + `app.x {"message":"my.Exception:  1"}` + "\n" + `app.x {"message":"\tat a.b 1"}`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if n := r.unmatchedEvents(); n != 1 || !strings.Contains(r.log.String(), "in a circle") {
		t.Errorf("%d events without a match\n%s", n, r.log.String())
	}
}

// TestConcatAndDetectTogether joins the parts of lines, then the lines of a trace.
func TestConcatAndDetectTogether(t *testing.T) {
	t.Parallel()
	r := start(t, forwardIn+`
<filter raw.**>
  @type concat
  key message
  n_lines 2
  separator ""
  flush_interval 0.1
</filter>
<match raw.**>
  @type detect_exceptions
  remove_tag_prefix raw
  multiline_flush_interval 0.3
  @label @OUT
</match>
<label @OUT>
  <match **>
    @type stdout
    <format>
      @type json
    </format>
  </match>
</label>
`)
	s, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer s.c.Close()
	if err := s.send("raw.x", "\tat ", 1, 1); err != nil { // alone: late, no @ERROR, so it goes on
		t.Fatal(err)
	}
	for _, p := range []string{"Exception:", "\tat"} {
		if err := s.send("raw.x", p, 1, 2); err != nil {
			t.Fatal(err)
		}
	}
	r.stop(10 * time.Second)
	got := strings.Join(r.lines(), "\n")
	if !strings.HasPrefix(got, `{"message":"\tat  1"}`+"\n"+`{"message":"Exception: 1Exception: 2`) || r.Totals().Admitted != 5 {
		t.Errorf("got %s, %+v", got, r.Totals())
	}
}

// TestStoreAfterOneThatRefuses has a store that takes events only when the one before
// cannot.
func TestStoreAfterOneThatRefuses(t *testing.T) {
	r := start(t, strings.Replace(forwardIn, "5s", "0.1", 1)+`
<match **>
  @type copy
  <store ignore_error>
    @type file
    @id small
    path /proc/nowhere/x
    <buffer time>
      total_limit_size 64k
      retry_forever true
    </buffer>
  </store>
  <store ignore_if_prev_success>
    @type stdout
    @id other
  </store>
</match>
`)
	for i := range 20 {
		mustSend(t, r.addr(0), "t", strings.Repeat("x", 3000), i, 2)
	}
	r.mu.Lock()
	small, other := r.gen.order[0].book.Sheet(), r.gen.order[1].book.Sheet()
	r.mu.Unlock()
	refused := small.Dropped[ledger.BufferFull]
	if small.Admitted != 40 || refused == 0 || refused == 40 || other.Admitted != refused {
		t.Errorf("first %+v, second %+v", small, other)
	}
}
