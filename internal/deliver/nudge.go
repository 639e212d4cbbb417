package deliver

import (
	"time"

	"weir/internal/output"
)

// Health says when a request was accepted last and when one failed last, and whether the
// delivery waits for its endpoint. Zero times stand for never.
func (d *Deliverer) Health() (accepted, failed time.Time, waiting bool) {
	if ns := d.stat.lastSuccess.Load(); ns != 0 {
		accepted = time.Unix(0, ns)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return accepted, d.last.at, d.gate.until > 0
}

// Nudge ends the wait for the endpoint: somebody else has seen it answer.
func (d *Deliverer) Nudge() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || d.gate.until == 0 {
		return
	}
	d.gate.until = 0
	for _, l := range d.lanes {
		if l.backoff > 0 && l.lastKind == output.Unavailable {
			l.backoff = 0
			d.schedule(l)
		}
	}
	d.work.Broadcast()
	d.turns.Broadcast()
}
