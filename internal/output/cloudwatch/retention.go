package cloudwatch

import (
	"context"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"weir/internal/output"
)

// retention sets the retention of groups that weir has created, behind the data's back: a
// call that fails is logged once and tried again later, and never holds up an event.
type retention struct {
	call   func(ctx context.Context, group string, days int) *output.Error
	log    *slog.Logger
	cancel context.CancelFunc
	over   sync.WaitGroup
	wake   chan struct{} // holds a value when something new is pending
	once   sync.Once
	ending chan struct{} // closed when what is pending has its last chance

	mu      sync.Mutex // guards pending
	pending map[string]int
}

// The waits between attempts, and how many groups may wait.
const (
	retentionFirst = 5 * time.Second
	retentionLast  = 10 * time.Minute
	retentionEnd   = 3 * time.Second // what a call at the end may take
	maxRetentions  = 10_000
)

// newRetention starts the goroutine that close ends.
func newRetention(log *slog.Logger, call func(context.Context, string, int) *output.Error) *retention {
	r := &retention{call: call, log: log, pending: map[string]int{}, wake: make(chan struct{}, 1), ending: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.over.Go(func() { r.run(ctx) })
	return r
}

// ask wants the group to have this retention.
func (r *retention) ask(group string, days int) {
	r.mu.Lock()
	full := len(r.pending) >= maxRetentions
	if !full {
		r.pending[group] = days
	}
	r.mu.Unlock()
	if full {
		r.log.Warn("retention not set: too many groups wait for it", "group", group, "days", days)
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *retention) run(ctx context.Context) {
	var again <-chan time.Time // fires when what failed is due again; nil: nothing has failed
	pause, failed := retentionFirst, failures{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.ending:
			r.round(ctx, failed, true)
			return
		case <-r.wake:
			r.round(ctx, failed, false)
		case <-again:
			again = nil
			r.round(ctx, failed, true)
		}
		switch {
		case len(failed) == 0:
			again, pause = nil, retentionFirst
		case again == nil:
			again = time.After(pause)
			pause = min(2*pause, retentionLast)
		}
	}
}

// failures are the groups whose call has failed, and whether that was logged.
type failures map[string]bool

// round asks for everything that is pending; what has failed before is left out unless it is
// due again: groups that are created while calls are denied must not each bring a call for all.
func (r *retention) round(ctx context.Context, failed failures, again bool) {
	r.mu.Lock()
	todo := maps.Clone(r.pending)
	r.mu.Unlock()
	for group, days := range todo {
		logged, before := failed[group]
		if before && !again {
			continue
		}
		err := r.call(ctx, group, days)
		log := r.log.With("group", group, "days", days)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Kind != output.Refused && err.Kind != output.NoTarget:
			if !logged && err.Kind != output.Conflict {
				logged = true
				log.Warn("retention not set yet", "err", err)
			}
			failed[group] = logged
			continue
		case err != nil:
			log.Warn("retention not set", "err", err)
		case logged:
			log.Info("retention set after all")
		}
		delete(failed, group)
		r.mu.Lock()
		if r.pending[group] == days {
			delete(r.pending, group)
		}
		r.mu.Unlock()
	}
}

// close gives what is pending a last chance: after a restart the group is there already, and
// nobody asks again.
func (r *retention) close() {
	r.once.Do(func() { close(r.ending) })
	defer time.AfterFunc(retentionEnd, r.cancel).Stop()
	r.over.Wait()
	r.cancel()
}

func retentionBody(group string, days int) []byte {
	b := appendField([]byte{'{'}, "logGroupName", group)
	b = append(b, `,"retentionInDays":`...)
	return append(strconv.AppendInt(b, int64(days), 10), '}')
}
