package cloudwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/output"
)

// A retention that cannot be set is logged once and tried again, ever more seldom.
func TestRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		log := &lines{}
		r := newRetention(slog.New(log), func(_ context.Context, group string, days int) *output.Error {
			at = append(at, time.Since(begin))
			switch {
			case group == "bad":
				return &output.Error{Kind: output.Refused, Op: "set", Err: errors.New("no")}
			case len(at) < 5:
				return &output.Error{Kind: output.Denied, Op: "set", Err: errors.New("not allowed")}
			}
			return nil
		})
		r.ask("g", 7)
		time.Sleep(time.Hour)
		synctest.Wait()
		s := time.Second
		if d := cmp.Diff([]time.Duration{0, 5 * s, 15 * s, 35 * s, 75 * s}, at); d != "" {
			t.Error(d)
		}
		r.ask("bad", 8)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(at) != 6 {
			t.Errorf("%d attempts", len(at))
		}
		if d := cmp.Diff(map[string]int{"retention not set yet": 1, "retention set after all": 1, "retention not set": 1}, log.n); d != "" {
			t.Error(d)
		}
		if len(r.pending) != 0 {
			t.Errorf("pending: %v", r.pending)
		}
		r.close()
	})
}

// While calls are denied, a group that is created brings its own call and not one for each
// that waits.
func TestRetentionDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var allowed atomic.Bool
		r := newRetention(slog.New(&lines{}), func(context.Context, string, int) *output.Error {
			if calls.Add(1); !allowed.Load() {
				return &output.Error{Kind: output.Denied, Op: "set", Err: errors.New("not allowed")}
			}
			return nil
		})
		for i := range 100 {
			r.ask(fmt.Sprint("g", i), 7)
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := calls.Load(); n != 100 {
			t.Errorf("%d calls for 100 groups", n)
		}
		allowed.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := calls.Load(); n != 200 || len(r.pending) != 0 {
			t.Errorf("%d calls, %d groups wait", n, len(r.pending))
		}
		r.close()
	})
}
