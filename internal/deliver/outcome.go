package deliver

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

// gateAfter is how many failures of the endpoint in a row, of more than one lane and none
// of them followed by an answer, close the output: a lane whose requests alone fail must
// not.
const gateAfter = 3

// mostRefused is how many events of a lane may be refused for their content, one by one,
// before anything is accepted. Then it is not for theirs: a proxy, or a setting of the group, is in
// the way of all, and giving up one after the other would lose them all.
const mostRefused = 100

// stopWait is the longest wait before another attempt while weir is stopping.
const stopWait = 2 * time.Second

// succeeded moves the lane on after an accepted request. marks are of what it has lost.
func (d *Deliverer) succeeded(f *flight, marks []piece) {
	now := time.Now()
	d.o.Throttle.OK(now)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := f.lane
	d.leave(f)
	if len(marks) > 0 && !(d.draining && marks[0].loss.refused > 2) { // else it stays in the buffer
		d.giveBack(l, marks)
	}
	l.delivered += uint64(f.events)
	l.backoff, l.refusals = 0, 0
	d.recover(l, now)
	if l.limit > 0 {
		if l.limit *= 2; l.limit > d.o.Linger.Events {
			l.limit = 0
		}
	}
	d.endpointWell()
	d.settled(l)
}

// recover ends a lane's series of failures. Callers hold d.mu.
func (d *Deliverer) recover(l *lane, now time.Time) {
	if l.attempts > 0 {
		d.stat.laneWell(d.o.Log, d.o.ID, l, now)
	}
	l.attempts, l.failing, l.lastError = 0, time.Time{}, ""
}

// endpointWell opens the gate after any answer of the endpoint. Callers hold d.mu.
func (d *Deliverer) endpointWell() {
	g := &d.gate
	if g.streak == 0 && !g.shut {
		return
	}
	if g.reported {
		d.o.Log.Info("delivery works again", "output", d.o.ID, "after", time.Since(g.since).Round(time.Millisecond), "failed_requests", g.lost)
	}
	d.gate = gate{}
	d.work.Broadcast()
	d.turns.Broadcast()
}

// failed decides by the kind of error alone. Nothing of the request has ended; either it
// is given up, or it goes back to where it came from.
func (d *Deliverer) failed(f *flight, e *output.Error, resent bool) {
	switch {
	case e.Kind == output.Drop && f.events > 0:
		d.endUnsent(f, e, e.Fate)
		return
	case e.Kind == output.Refused && f.told != nil && f.events == 0:
		d.notTaken(f, e)
		return
	case e.Kind == output.Refused && f.told != nil:
		f.told.alone = true // which of them it was shows then
	case e.Kind == output.Refused && f.events == 1 && d.forItsContent(f.lane):
		d.endUnsent(f, e, ledger.Refused.Fate())
		return
	case e.Kind == output.Refused && f.events == 1:
		all := *e
		all.Kind, all.Hint = output.Denied, "as were all before it: it is for no event's content; look at the endpoint, at proxies, at the target and its settings"
		e = &all
	}
	now := time.Now()
	d.stat.retry(e.Kind)
	switch over := d.countFailure(f, e, now); {
	case over && f.events == 0:
		f.told.stale = true // a notice alone is kept for as long as there is room
	case over && d.exhausted(f, e):
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := f.lane
	d.back(f)
	l.backoff = 0
	if e.Kind != output.Unavailable && e.Kind != output.Credentials {
		d.endpointWell()
	}
	d.react(f, e, resent, now)
	if l.attempts > 0 {
		if !d.gate.shut { // else it is the endpoint that is ill
			d.stat.laneIll(d.o.Log, d.o.ID, l, e)
		}
		d.park(l, e, now)
		d.quit(l)
	}
	d.settled(l)
}

// forItsContent says whether that is why an event was refused that stood alone in its
// request.
func (d *Deliverer) forItsContent(l *lane) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.refusals++
	return l.refusals <= mostRefused
}

// react decides when the lane, or the output, tries again. Callers hold d.mu.
func (d *Deliverer) react(f *flight, e *output.Error, resent bool, now time.Time) {
	l := f.lane
	if resent && e.Kind != output.Refused && e.Kind != output.Drop {
		// It may have been accepted: send the same again, so that a service that recognises
		// repeats can do so, and so that no more than this is repeated. It may have been an attempt
		// before this one, also before a restart.
		l.limit = f.events
	}
	switch e.Kind {
	case output.Conflict:
		// Another writer was faster: flow control, not an error. A short random wait keeps
		// two replicas from meeting again and again.
		l.backoff = d.at(now.Add(max(time.Duration(5+rand.IntN(100))*time.Millisecond, min(e.After, time.Minute))))
	case output.Refused:
		if f.told == nil {
			l.limit = max(f.events/2, 1)
		}
	case output.Throttled:
		d.o.Throttle.Throttled(now, l.key, len(d.lanes) == 1)
		d.backOff(l, now, e.After)
	case output.Credentials:
		d.gate.sole = nil
		d.closeGate(e, now)
	case output.Unavailable:
		g := &d.gate
		if g.streak++; g.streak == 1 {
			g.sole = l
		} else if g.sole != l {
			g.sole = nil
		}
		switch {
		case len(d.lanes) == 1:
			d.closeGate(e, now)
			l.backoff = g.until // so that a new lane that comes is the one that tries
		case g.shut || g.streak >= gateAfter && g.sole == nil:
			d.closeGate(e, now)
		default:
			d.backOff(l, now, e.After)
		}
	case output.Denied, output.NoTarget, output.Drop: // the last one only for a notice alone
		d.backOff(l, now, max(e.After, 2*time.Second))
	}
}

// countFailure notes a failure of a lane and says whether it was one too many.
func (d *Deliverer) countFailure(f *flight, e *output.Error, now time.Time) bool {
	if e.Kind == output.Conflict || e.Kind == output.Refused {
		return false // no trouble of the lane
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := f.lane
	if l.attempts == 0 {
		l.failing = now
	}
	l.attempts++
	l.lastError, l.lastKind = e.Error(), e.Kind
	d.last = lastError{at: now, text: l.lastError}
	f.attempts, f.failing = l.attempts, now.Sub(l.failing)
	return d.o.Retry.exhausted(f.attempts, f.failing) || d.o.Secondary != nil && d.o.Retry.forSecondary(f.failing)
}

// wait is how long to wait after the nth failure in a row. Callers hold d.mu.
func (d *Deliverer) wait(n int, atLeast time.Duration) time.Duration {
	w := max(d.o.Retry.wait(n), min(atLeast, time.Minute))
	if d.draining {
		w = min(w, stopWait)
	}
	return w
}

// backOff keeps one lane away for a while.
func (d *Deliverer) backOff(l *lane, now time.Time, atLeast time.Duration) {
	l.backoff = d.at(now.Add(d.wait(l.attempts, atLeast)))
}

// closeGate stops the whole output for a while; then one request tries.
func (d *Deliverer) closeGate(e *output.Error, now time.Time) {
	g := &d.gate
	if g.since.IsZero() {
		g.since = now
	}
	g.shut = true
	g.lost++
	if g.until > 0 {
		return // a request that was under way with the one that closed it
	}
	g.tries++
	g.until = d.at(now.Add(d.wait(g.tries, e.After)))
	if !g.reported && (g.lost > 1 || e.Kind == output.Credentials) && !d.stat.saidLately(illClass(e.Kind)) {
		g.reported = true
		d.o.Log.Error("delivery fails; events wait in the buffer and it is tried again", "output", d.o.ID, "kind", e.Kind.String(), "error", e)
	}
	if d.draining && d.giveUp && g.sole == nil {
		d.stopped = true
		d.wakeAll()
	}
	d.arm()
}

// quit gives a lane up for this run if weir is stopping and should not wait for what does
// nothing but fail. A throttled lane does more. Callers hold d.mu.
func (d *Deliverer) quit(l *lane) {
	if d.draining && d.giveUp && l.attempts > 1 && !l.parked && !l.givenUp && l.lastKind != output.Throttled {
		l.givenUp = true
		d.left += l.waiting()
	}
}

// back takes a failed flight out of its lane and gives its pieces, and those of flights
// built behind it, back in order. Callers hold d.mu.
func (d *Deliverer) back(f *flight) {
	l := f.lane
	for j := len(l.flights) - 1; j >= l.sending; j-- {
		g := l.flights[j]
		g.cutShort = true
		d.giveBack(l, g.pieces)
		d.carry(g, 0)
		l.flights = l.flights[:j]
		d.flights--
	}
	d.leave(f)
	d.giveBack(l, f.pieces)
}

// giveBack puts pieces before everything else that waits. While a worker is filling the
// next request it holds pieces that belong behind these: it puts both back when it is done.
func (d *Deliverer) giveBack(l *lane, ps []piece) {
	if l.building {
		l.returned = merged(ps, l.returned)
		return
	}
	d.putBack(l, ps)
}

// exhausted is for a flight at its retry limit: the <secondary> takes it, or it is dropped.
// While the secondary fails too, it is kept for as long again; then it returns false.
func (d *Deliverer) exhausted(f *flight, e *output.Error) bool {
	err := fmt.Errorf("%w after %d attempts in %s: %w", errRetryLimit, f.attempts, f.failing.Round(time.Second), e)
	fate := ledger.RetryLimit.Fate()
	if d.o.Secondary == nil {
		d.endUnsent(f, err, fate)
		return true
	}
	events := f.events
	o, serr := d.toSecondary(f)
	switch {
	case serr == nil:
		d.stat.tookSecond(d.o.Log, d.o.ID, f.lane.key, events, err)
		d.gone(f, o)
		return true
	case d.ctx.Err() != nil || !d.o.Retry.exhaustedTwice(f.attempts, f.failing):
		d.stat.secondaryFails(d.o.Log, d.o.ID, serr)
		return false
	}
	d.endUnsent(f, fmt.Errorf("%w; the secondary fails too: %w", err, serr), fate)
	return true
}

// endUnsent ends a flight's events with a fate instead of sending them again.
func (d *Deliverer) endUnsent(f *flight, err error, fate ledger.Fate) {
	d.stat.gaveUp(d.o.Log, d.o.ID, f, err, fate)
	f.parts = f.parts[:0]
	for i := range f.pieces {
		if !isMark(f.pieces[i]) {
			f.parts = append(f.parts, buffer.Part{Seq: f.pieces[i].Seq, Span: f.pieces[i].Span, Fate: fate})
		}
	}
	var o *loss
	if f.parts, o = d.withhold(f.pieces, f.parts); o != nil {
		o.stale = true
	}
	o = joined(o, marked(f.pieces))
	d.settle(f.lane.key, f.parts)
	d.gone(f, o)
}

// gone lets the lane of a flight go on whose events have ended without being sent. o is
// what the lane is to be told of; may be nil.
func (d *Deliverer) gone(f *flight, o *loss) {
	marks := d.markOf(f, o)
	d.mu.Lock()
	l := f.lane
	d.leave(f)
	d.recover(l, time.Now())
	l.backoff = 0
	d.giveBack(l, marks)
	d.settled(l)
	d.mu.Unlock()
}
