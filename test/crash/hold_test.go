package crash

import (
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// holding keeps the last event of every message until the next one comes: each line begins
// a group, which goes on when the next one does.
const holding = `<filter **>
  @type concat
  key log
  multiline_start_regexp /^id=/
  use_first_timestamp true
  flush_interval 1s
  timeout_label @LATE
</filter>
<label @LATE>
  <match **>
    @type relabel
    @label @ROOT
  </match>
</label>`

// TestKillWhileEventsAreHeld kills again and again while a filter holds events of every
// sender: who holds an event holds its acknowledgement, so the sender repeats it, and what
// had gone on of its message is not stored again. (Messages below 8 KiB are put together
// with their neighbours and have no mark.)
func TestKillWhileEventsAreHeld(t *testing.T) {
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Flush: "0.05", Buffer: impatient, More: holding}.String())
	tr := startTraffic(t, w, 3, 200, 4000)
	n := max(cycles(t)/3, 1)
	for range n {
		pause(r, 200*time.Millisecond, 800*time.Millisecond)
		w.Kill()
		w.Start()
		w.Balanced()
	}
	tr.end()
	w.Drained()
	got := tr.compare(e)
	t.Logf("%d kills: %s", n, got)
	// At each kill each sender repeats the message of which an event is held. Without the
	// marks of what has gone on of it all would come twice, 600 events a kill. What is in
	// flight at a kill does: on a busy machine that is now and then a message of each.
	if limit := 200 * n; got.byClient+got.byWeir > limit {
		t.Errorf("%d events were repeated, want at most %d", got.byClient+got.byWeir, limit)
	}
	if o := w.Output("out").Ledger; o.Lost() > 0 {
		t.Errorf("the book speaks of losses: %s", o)
	}
	w.Stop(15 * time.Second)
}
