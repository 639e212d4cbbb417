package deliver

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

// gateAfter is how many failures of the endpoint in a row, none of them answered by a
// success elsewhere, close the output: a lane whose requests alone fail must not.
const gateAfter = 3

// succeeded moves the lane on after an accepted request.
func (d *Deliverer) succeeded(f *flight) {
	now := time.Now()
	d.o.Throttle.OK(now)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := f.lane
	d.leave(f)
	l.delivered += uint64(f.events)
	l.backoff = 0
	d.recover(l, now)
	if l.limit > 0 {
		if l.limit *= 2; l.limit > d.o.Linger.Events {
			l.limit = 0
		}
	}
	if d.gate.streak > 0 || d.gate.shut {
		if d.gate.reported {
			d.o.Log.Info("delivery works again", "output", d.o.ID, "after", time.Since(d.gate.since).Round(time.Millisecond), "failed_requests", d.gate.lost)
		}
		d.gate = gate{}
	}
	d.schedule(l)
	d.work.Broadcast()
	d.room.Signal()
}

// recover ends a lane's series of failures. Callers hold d.mu.
func (d *Deliverer) recover(l *lane, now time.Time) {
	if l.attempts > 0 {
		d.stat.laneWell(d.o.Log, d.o.ID, l, now)
	}
	l.attempts, l.failing, l.lastError = 0, time.Time{}, ""
}

// failed decides by the kind of error alone. Nothing of the request has ended, unless it
// returns true: then its events were given up.
func (d *Deliverer) failed(f *flight, e *output.Error, resent bool) bool {
	switch {
	case e.Kind == output.Drop:
		d.giveUp(f, e, e.Fate)
		return true
	case e.Kind == output.Refused && f.events == 1:
		d.giveUp(f, e, ledger.Fate{Class: ledger.Rejected, Reason: ledger.Refused})
		return true
	}
	now := time.Now()
	d.mu.Lock()
	l := f.lane
	d.stat.retry(e.Kind)
	if e.Kind != output.Conflict && e.Kind != output.Refused {
		if l.attempts == 0 {
			l.failing = now
		}
		l.attempts++
		l.lastError = e.Error()
		d.last = lastError{at: now, text: l.lastError}
		if d.o.Retry.exhausted(l.attempts, now.Sub(l.failing)) {
			d.mu.Unlock()
			d.giveUp(f, fmt.Errorf("%w after %d attempts in %s: %w", errRetryLimit, l.attempts, now.Sub(l.failing).Round(time.Second), e),
				ledger.Fate{Class: ledger.Dropped, Reason: ledger.RetryLimit})
			return true
		}
	}
	defer d.mu.Unlock()
	d.back(f)
	l.backoff = 0
	switch e.Kind {
	case output.Conflict:
		// Another writer was faster: flow control, not an error. A short random wait keeps
		// two replicas from meeting again and again.
		l.backoff = now.Add(max(time.Duration(5+rand.IntN(100))*time.Millisecond, min(e.After, time.Minute))).UnixMilli()
	case output.Refused:
		l.limit = max(f.events/2, 1)
	case output.Throttled:
		d.o.Throttle.Throttled(now, l.key, len(d.lanes) == 1)
		d.backOff(l, now, e.After)
	case output.Credentials:
		d.closeGate(e, now)
	case output.Unavailable:
		if resent {
			// It may have been accepted: send the same again, so that a service that
			// recognises repeats can do so, and so that no more than this is repeated.
			l.limit = f.events
		}
		d.gate.streak++
		if d.gate.streak >= gateAfter || len(d.lanes) == 1 {
			d.closeGate(e, now)
		} else {
			d.backOff(l, now, e.After)
		}
	case output.Denied, output.NoTarget:
		d.backOff(l, now, max(e.After, 2*time.Second))
	}
	if l.attempts > 0 {
		if !d.gate.shut { // else it is the endpoint that is ill
			d.stat.laneIll(d.o.Log, d.o.ID, l, e)
		}
		d.park(l, e, now)
	}
	d.schedule(l)
	d.work.Broadcast()
	return false
}

// backOff keeps one lane away for a while.
func (d *Deliverer) backOff(l *lane, now time.Time, atLeast time.Duration) {
	l.backoff = now.Add(max(d.o.Retry.wait(l.attempts), min(atLeast, time.Minute))).UnixMilli()
}

// closeGate stops the whole output for a while; then one request tries.
func (d *Deliverer) closeGate(e *output.Error, now time.Time) {
	g := &d.gate
	if g.since.IsZero() {
		g.since = now
	}
	g.shut = true
	g.lost++
	g.reason = e.Kind
	wait := max(d.o.Retry.wait(g.lost), min(e.After, time.Minute))
	g.until = now.Add(wait).UnixMilli()
	if !g.reported && (g.lost > 1 || e.Kind == output.Credentials) {
		g.reported = true
		d.o.Log.Error("delivery fails; events wait in the buffer and it is tried again", "output", d.o.ID, "kind", e.Kind.String(), "error", e)
	}
	d.arm()
}

// back takes a failed flight out of its lane and gives its pieces, and those of flights
// built behind it, back in order. Callers hold d.mu.
func (d *Deliverer) back(f *flight) {
	l := f.lane
	for j := len(l.flights) - 1; j >= l.sending; j-- {
		g := l.flights[j]
		g.cutShort = true
		d.giveBack(l, g.pieces)
		l.flights = l.flights[:j]
	}
	d.leave(f)
	d.giveBack(l, f.pieces)
}

// giveBack puts pieces before everything else that waits. While a worker is filling the
// next request it holds pieces that belong behind these: it puts both back when it is done.
func (d *Deliverer) giveBack(l *lane, ps []piece) {
	if l.building {
		l.returned = append(append([]piece(nil), ps...), l.returned...)
		return
	}
	d.putBack(l, ps)
}

// giveUp ends a flight's events with a fate instead of sending them again.
func (d *Deliverer) giveUp(f *flight, err error, fate ledger.Fate) {
	d.stat.gaveUp(d.o.Log, d.o.ID, f, err, fate)
	if d.o.Secondary == nil || fate.Class == ledger.Rejected || !d.toSecondary(f) {
		f.parts = f.parts[:0]
		for i := range f.pieces {
			if f.pieces[i].Count > 0 { // else the secondary has it
				f.parts = append(f.parts, buffer.Part{Seq: f.pieces[i].Seq, Span: f.pieces[i].Span, Fate: fate})
			}
		}
		d.settle(f.parts)
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	l := f.lane
	d.leave(f)
	if fate.Reason == ledger.RetryLimit {
		l.attempts, l.failing = 0, time.Time{}
	} else {
		d.recover(l, now)
	}
	l.backoff = 0
	d.schedule(l)
	d.work.Broadcast()
	d.room.Signal()
}
