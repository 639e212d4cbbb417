package pipeline

import (
	"context"
	"fmt"
	"time"

	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/input"
	"weir/internal/ledger"
)

// keeping is what the goroutine of a shard keeps.
type keeping struct {
	s       *shard
	start   time.Time
	tags    map[string]*tagged
	tickets map[uint64]*ticket // of batches that are not passed on whole, by their number
	number  uint64             // of the last batch
	groups  int
	bytes   int
	out     filter.Passed
}

// tagged is what is kept of one tag, with how its events go on.
type tagged struct {
	held     *filter.Held
	door     *Door
	depth    int
	optional bool
	erring   bool
}

// tagsKept is how many tags without events are remembered.
const tagsKept = 1024

// run works off what comes until ctx ends, and then what is left without waiting for
// anything.
func (s *shard) run(ctx context.Context) {
	k := &s.keep
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	due := time.Time{}
	for {
		d, ok, flush, ending := s.next(ctx)
		switch {
		case ok:
			k.take(ctx, &d)
			s.unreserve(len(d.batch.Entries))
		case ending && s.deserted():
			k.flush(ctx)
			return
		case ending: // not ctx.Err(): it may have ended since next looked
			<-s.wake // somebody has room for a batch that is still to come, or gives it back
			continue
		}
		if flush {
			k.flush(ctx)
		}
		now := time.Now()
		wait := s.h.wait()
		switch {
		case k.groups == 0 || wait <= 0:
			due = time.Time{}
		case due.IsZero() || due.Sub(now) > lookEvery(wait):
			due = now.Add(lookEvery(wait))
		case !now.Before(due):
			k.expire(ctx, wait)
			due = now.Add(lookEvery(wait))
		}
		if ok || flush {
			continue
		}
		if !due.IsZero() {
			timer.Reset(due.Sub(now))
		}
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// wait is how long a group is kept; 0 is for ever.
func (h *Hold) wait() time.Duration {
	w := h.o.Holder.Wait()
	if h.hurried.Load() && (w <= 0 || w > hurryWait) {
		return hurryWait
	}
	return w
}

// lookEvery is how often is looked whose time is up: one timer does for all streams.
func lookEvery(wait time.Duration) time.Duration {
	return min(max(wait/8, 10*time.Millisecond), time.Second)
}

// next takes the first batch of the queue. After the end of ctx no further one is accepted,
// and ending says so.
func (s *shard) next(ctx context.Context) (d delivery, ok, flush, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	flush, s.flush = s.flush, false
	if ctx.Err() != nil {
		s.stopping = true
		s.wakeAll()
	}
	if len(s.queue) == 0 {
		return d, false, flush, s.stopping
	}
	d = s.queue[0]
	s.queue[0] = delivery{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	return d, true, flush, s.stopping
}

// deserted says that nothing comes any more.
func (s *shard) deserted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued == 0
}

// take works off one batch.
func (k *keeping) take(ctx context.Context, d *delivery) {
	t := k.tags[d.batch.Tag]
	if t == nil {
		t = &tagged{held: k.s.h.o.Holder.Hold(d.batch.Tag)}
		k.tags[d.batch.Tag] = t
	}
	t.door, t.depth, t.optional, t.erring = d.door, d.depth, d.optional, d.erring
	groups, bytes := t.held.Groups(), t.held.Bytes()
	k.number++
	k.tickets[k.number] = d.ticket
	in := filter.Incoming{ID: k.number, Entries: d.batch.Entries, At: time.Since(k.start)}
	m := k.s.h.markOf(d)
	known := m.known(d.batch.Entries, k.s.h.o.Known)
	in.Known = known.entries
	w := k.begin(t)
	k.out.Reset()
	t.held.Take(&w.scratch, in, &k.out)
	if in.Known > 0 {
		w = k.repeat(ctx, w, t, m.chunk(known), d.ticket)
	}
	w.chunk = m.at(d.batch.Entries, k.out.Whole, d.batch.Count)
	w.walkPassed(t, &k.out)
	d.ticket.refs += k.out.Holds
	k.settle(ctx, w, d.ticket)
	k.groups += t.held.Groups() - groups
	k.bytes += t.held.Bytes() - bytes
	if d.ticket.refs == 0 {
		k.done(k.number, d.ticket)
	}
	k.shed(ctx, t)
	if cap(k.out.Entries) > keepScratch {
		k.out.Entries = nil
	}
	if t.held.Groups() == 0 && len(k.tags) > tagsKept {
		delete(k.tags, d.batch.Tag)
	}
}

// repeat passes on what comes out of a batch whose beginning went on before a restart: where
// that was stored then, it is left out. Events that hold something else too are not. It
// leaves the last run of events in k.out, for the work that it returns.
func (k *keeping) repeat(ctx context.Context, w *work, t *tagged, c event.Chunk, own *ticket) *work {
	all, rest := k.out, k.out.Entries
	for flags := all.Repeats; len(flags) > 0; {
		n := 1
		for n < len(flags) && flags[n] == flags[0] {
			n++
		}
		size := prefix(rest, n)
		k.out = filter.Passed{Entries: rest[:size], Count: n}
		_, k.out.First, k.out.Last, _, _ = event.Check(k.out.Entries)
		skip := flags[0]
		rest, flags = rest[size:], flags[n:]
		if len(flags) == 0 && !skip {
			break // it goes on like others
		}
		w.walkPassed(t, &k.out)
		if skip {
			w.leaveOut(c)
		}
		k.settle(ctx, w, own)
		w = k.begin(t)
		k.out = filter.Passed{}
	}
	k.out.Released, k.out.Filtered, k.out.Failed, k.out.Holds, k.out.Whole = all.Released, all.Filtered, all.Failed, all.Holds, all.Whole
	return w
}

// begin makes the work for what comes out.
func (k *keeping) begin(t *tagged) *work {
	w := k.s.h.in.begin()
	w.depth, w.erring = t.depth+1, t.erring
	return w
}

// walkPassed notes where events go that came out as they should.
func (w *work) walkPassed(t *tagged, p *filter.Passed) {
	if p.Count > 0 || p.Filtered > 0 || p.Failed > 0 {
		b := event.Batch{Tag: t.held.Tag(), Entries: p.Entries, Count: p.Count, First: p.First, Last: p.Last}
		w.walk(t.door.Next, b, t.optional, p.Filtered, p.Failed)
	}
	w.routeErrors()
}

// settle passes on what a work has noted, and tells the tickets of batches that came out
// with it: extra, and those in out.Released.
func (k *keeping) settle(ctx context.Context, w *work, extra *ticket) {
	err := k.s.deliver(ctx, w)
	k.s.h.held.Add(-int64(k.out.Count + k.out.Filtered + k.out.Failed))
	note := func(t *ticket) {
		for _, p := range w.places {
			t.add(p)
		}
		if err != nil {
			t.err = err
		}
	}
	if extra != nil {
		note(extra)
	}
	for _, number := range k.out.Released {
		t := k.tickets[number]
		if t != extra {
			note(t)
		}
		if t.refs--; t.refs == 0 && t != extra {
			k.done(number, t)
		}
	}
	w.release()
}

// done ends a ticket: all of its batch has been passed on.
func (k *keeping) done(number uint64, t *ticket) {
	delete(k.tickets, number)
	close(t.done)
	k.s.h.waiting.Add(-1)
}

// expire passes on the groups whose time is up.
func (k *keeping) expire(ctx context.Context, wait time.Duration) {
	at, now := time.Since(k.start), event.FromTime(time.Now())
	for _, t := range k.tags {
		if since, ok := t.held.Oldest(); ok && at-since >= wait {
			k.late(ctx, t, "Timeout flush", func(s *filter.Scratch, out *filter.Passed) { t.held.Expire(s, at, wait, now, out) })
		}
	}
}

// flush passes on all groups.
func (k *keeping) flush(ctx context.Context) {
	for _, t := range k.tags {
		if t.held.Groups() > 0 {
			k.late(ctx, t, "Flush remaining buffer", t.held.Flush)
		}
	}
}

// shed passes on groups before their time while there are too many.
func (k *keeping) shed(ctx context.Context, t *tagged) {
	for k.bytes > int(k.s.limit) || k.groups > maxGroups/holdShards {
		if n, say := k.s.h.crowded.hit(); say {
			k.s.h.o.Log.Warn("a filter holds as much as it may, it passes groups on before their time", "groups", k.groups, "bytes", k.bytes, "times", n)
		}
		if t.held.Groups() == 0 {
			if t = k.oldest(); t == nil {
				return
			}
		}
		k.late(ctx, t, "Flush full buffer", t.held.Shed)
	}
}

// oldest is the tag whose oldest group has waited longest.
func (k *keeping) oldest() (found *tagged) {
	least := time.Duration(0)
	for _, t := range k.tags {
		if since, ok := t.held.Oldest(); ok && (found == nil || since < least) {
			found, least = t, since
		}
	}
	return found
}

// late passes on what end takes out of a tag: to where late groups go.
func (k *keeping) late(ctx context.Context, t *tagged, why string, end func(*filter.Scratch, *filter.Passed)) {
	groups, bytes := t.held.Groups(), t.held.Bytes()
	w := k.begin(t)
	k.out.Reset()
	w.from = k.s.h
	end(&w.scratch, &k.out)
	k.groups += t.held.Groups() - groups
	k.bytes += t.held.Bytes() - bytes
	o := &k.s.h.o
	switch p := &k.out; {
	case o.Late != nil:
		n := o.Late(t.held.Tag())
		if n == nil {
			n = &Node{Ends: []End{{Target: o.Nowhere}}}
		}
		w.walk(n, event.Batch{Tag: t.held.Tag(), Entries: p.Entries, Count: p.Count, First: p.First, Last: p.Last}, t.optional, p.Filtered, 0)
		w.routeErrors()
	case o.LateIsError && o.Errors != nil && !t.erring:
		for b := p.Entries; len(b) > 0; {
			_, n, err := event.Next(b)
			if err != nil {
				break
			}
			w.FilterError(t.held.Tag(), b[:n], why+": "+t.held.Tag())
			b = b[n:]
		}
		w.walkPassed(t, &filter.Passed{Filtered: p.Filtered, Failed: p.Count})
	default:
		w.walkPassed(t, p)
	}
	k.settle(ctx, w, nil)
}

// Waits between attempts to pass on what was refused.
const (
	refusedFirst = 50 * time.Millisecond
	refusedMost  = 2 * time.Second
)

// deliver passes on what a work has noted. What is refused is kept and tried again until
// ctx ends; then it is booked as dropped.
func (s *shard) deliver(ctx context.Context, w *work) error {
	wait := refusedFirst
	var since time.Time
	for tries := 1; ; tries++ {
		err := w.reserve(ctx)
		if err == nil {
			w.commit()
			if tries > 1 {
				s.refuse(nil)
				s.h.o.Log.Info("what a filter holds is passed on again", "attempts", tries, "after", time.Since(since))
			}
			return nil
		}
		if ctx.Err() != nil {
			w.lose(ledger.Shutdown.Fate())
			return fmt.Errorf("pass on what filter %s holds: %w: %w", s.h.o.ID, input.ErrRefused, err)
		}
		if tries == 1 {
			since = time.Now()
			s.h.o.Log.Warn("what a filter holds is refused, it is kept and tried again", "error", err)
		}
		s.refuse(err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		wait = min(2*wait, refusedMost)
	}
}

// refuse notes why what comes out is refused, nil when it is not any more: who waits for
// room is refused too.
func (s *shard) refuse(err error) {
	s.mu.Lock()
	s.refused = err
	s.wakeAll()
	s.mu.Unlock()
}
