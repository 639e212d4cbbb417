package app

import (
	"time"

	"weir/internal/buffer"
	"weir/internal/deliver"
)

// With drain_order live_first there are two queues, each with a delivery of its own. Events
// go to the live one while they leave it. When they do not, new ones go to the backlog, so
// that what stands in front of the live queue stays small; when it works again new events
// are sent at once, and the backlog beside them: in order, and at a bounded rate.
const (
	BacklogDir = "backlog"       // directory of the second queue within that of the first
	turnAfter  = 5 * time.Second // of nothing but failures until new events go to the backlog
)

// liveShare is how much of a limit the live queue has; the backlog has the rest.
func liveShare(limit int64) int64 { return limit / 8 }

// turn decides which of two queues new events go to. A request that is answered late is no
// failure.
type turn struct {
	away    bool      // they go to the backlog
	failing time.Time // since when requests of the live queue fail and none is accepted; zero if that is not so
}

// look decides anew. live and the times of the last accepted and the last failed request
// are the live queue's.
func (t *turn) look(now time.Time, live *buffer.Stats, accepted, failed time.Time, after time.Duration) {
	well := live.Oldest // nothing that waits has failed before
	if accepted.After(well) {
		well = accepted
	}
	switch {
	case live.PendingEvents == 0 || !failed.After(well):
		t.failing = time.Time{}
	case !t.failing.After(well):
		t.failing = failed
	}
	fails := !t.failing.IsZero() && now.Sub(t.failing) >= after
	switch waiting := int64(min(live.PendingBytes, 1<<62)); {
	case !t.away && (fails || waiting > live.Limit/2):
		t.away = true
	case t.away && !fails && waiting <= live.Limit/4:
		t.away = false
	}
}

// nudge lets a delivery try at once whose endpoint has failed, when another one of the same
// output has seen it answer since.
func nudge(all ...*deliver.Deliverer) {
	var well time.Time
	for _, d := range all {
		if accepted, _, _ := d.Health(); accepted.After(well) {
			well = accepted
		}
	}
	for _, d := range all {
		if _, failed, waiting := d.Health(); waiting && well.After(failed) {
			d.Nudge()
		}
	}
}
