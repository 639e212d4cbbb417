package app

import (
	"context"
	"path/filepath"
	"time"

	"weir/internal/ledger"
	"weir/internal/pipeline"
)

func (o *outputPlan) liveFirst() bool { return o.buffer.DrainOrder == "live_first" }

// backlogDir is where the backlog of a file buffer is; "" for memory.
func (o *outputPlan) backlogDir() string {
	if o.dir == "" {
		return ""
	}
	return filepath.Join(o.dir, BacklogDir)
}

// hasBacklog says whether the output has a second queue. One that was live_first before
// delivers what its backlog has left.
func (o *outputPlan) hasBacklog() bool {
	return o.liveFirst() || o.dir != "" && IsBuffer(o.backlogDir())
}

// limits divides total_limit_size between the two queues. What one of them holds beyond its
// part, after a change of drain_order, the other one does without.
func (r *runningOutput) limits() (first, backlog int64) {
	all := int64(r.plan.buffer.TotalLimit)
	live := liveShare(all)
	switch {
	case r.backlog == nil:
		return all, 0
	case r.plan.liveFirst():
		return live, max(all-max(live, r.bytes(&r.outputQueue)), live)
	}
	return max(all-r.bytes(r.backlog), live), all
}

// bytes is what a queue holds; nothing before it is open.
func (r *runningOutput) bytes(q *outputQueue) int64 {
	if q.buf == nil {
		return 0
	}
	return q.buf.Stats().Bytes
}

// setLimits makes limits the buffers'.
func (r *runningOutput) setLimits() {
	first, backlog := r.limits()
	if r.buf.Stats().Limit != first {
		r.buf.SetLimit(first)
	}
	if k := r.backlog; k != nil && k.buf.Stats().Limit != backlog {
		k.buf.SetLimit(backlog)
	}
}

// queues are the one or two that the output has; none for <match> @type null.
func (r *runningOutput) queues() (all []*outputQueue) {
	if r.del == nil {
		return nil
	}
	if all = append(all, &r.outputQueue); r.backlog != nil {
		all = append(all, r.backlog)
	}
	return all
}

// sheet is the sum of the books of its queues, without those of parking lots.
func (r *runningOutput) sheet() ledger.Sheet {
	sum := r.book.Sheet()
	if r.backlog != nil {
		sum.Merge(r.backlog.book.Sheet())
	}
	return sum
}

// attach shows the backlog to those who append.
func (r *runningOutput) attach() {
	if r.backlog == nil {
		return
	}
	k := r.target.Backlog.Load()
	if k == nil {
		k = &pipeline.Backlog{Buffer: r.backlog.buf}
	}
	k.Open.Store(r.plan.liveFirst())
	if !r.plan.liveFirst() {
		k.Turned.Store(false)
	}
	r.target.Backlog.Store(k)
}

// direct decides now and then where new events go, until ctx is done: after so long of
// nothing but failures they go to the backlog.
func (r *runningOutput) direct(ctx context.Context, after time.Duration) {
	tick := time.NewTicker(after / 5)
	defer tick.Stop()
	k := r.target.Backlog.Load()
	var t turn
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.setLimits()
			nudge(r.del, r.backlog.del)
			if !r.plan.liveFirst() {
				continue
			}
			live := r.buf.Stats()
			accepted, failed, _ := r.del.Health()
			t.away = k.Turned.Load() // a full live queue sends them there too
			t.look(now, &live, accepted, failed, after)
			k.Turned.Store(t.away)
		}
	}
}

// startDirecting runs direct; endDirecting ends it.
func (r *runningOutput) startDirecting() {
	if r.backlog == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.undirect = cancel
	r.directing.Go(func() { r.direct(ctx, r.turnAfter) })
}

func (r *runningOutput) endDirecting() {
	if r.undirect != nil {
		r.undirect()
		r.directing.Wait()
	}
}
