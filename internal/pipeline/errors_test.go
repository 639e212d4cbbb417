package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/ledger"
)

// failing fails the events whose number is divisible by its value and tells the sink.
type failing int

func (f failing) Apply(s *filter.Scratch, tag string, src, dst []byte) (out []byte, kept, failed int) {
	for b := src; len(b) > 0; {
		e, n, err := event.Next(b)
		if err != nil {
			panic(err)
		}
		if int(e.Record[3])%int(f) == 0 {
			failed++
			if s.Errors != nil {
				s.Errors.FilterError(tag, b[:n], "no good")
			}
		} else {
			kept++
			dst = append(dst, b[:n]...)
		}
		b = b[n:]
	}
	return dst, kept, failed
}

func TestFailedEventsGoToTheErrorLabel(t *testing.T) {
	good, bad := newStore(t, "good", 1<<20, buffer.Throw), newStore(t, "bad", 1<<20, buffer.Throw)
	var log strings.Builder
	nowhere := &ledger.Book{}
	in := New(Options{
		Routes: NewRoutes(func(string) *Node { return &Node{Filters: []filter.Filter{failing(3)}, Ends: []End{end(good)}} }),
		// A filter of @ERROR that fails itself does not send events round in a circle.
		Errors:  NewRoutes(func(string) *Node { return &Node{Filters: []filter.Filter{failing(6)}, Ends: []End{end(bad)}} }),
		Nowhere: lost(nowhere, ledger.Unmatched.Fate()),
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	for range 2 {
		if _, err := in.Emit(context.Background(), entries(1, 12)); err != nil {
			t.Fatal(err)
		}
	}
	if s := good.Book.Sheet(); s.Admitted != 24 || s.Filtered != 8 {
		t.Errorf("main book: %+v", s)
	}
	if s := bad.Book.Sheet(); s.Admitted != 8 || s.Dropped[ledger.FilterFailed] != 4 {
		t.Errorf("book of @ERROR: %+v", s)
	}
	if got := good.content(); !slices.Equal(got, []int{1, 2, 4, 5, 7, 8, 10, 11, 1, 2, 4, 5, 7, 8, 10, 11}) {
		t.Errorf("main: %v", got)
	}
	if got := bad.content(); !slices.Equal(got, []int{3, 9, 3, 9}) {
		t.Errorf("@ERROR: %v", got)
	}
	if n := strings.Count(log.String(), "events fail on their way"); n != 1 || !strings.Contains(log.String(), "no good") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

func TestFailedEventsWithoutErrorLabelAreDroppedAndSaid(t *testing.T) {
	good := newStore(t, "good", 1<<20, buffer.Throw)
	var log strings.Builder
	in := New(Options{
		Routes: NewRoutes(func(string) *Node { return &Node{Filters: []filter.Filter{failing(3)}, Ends: []End{end(good)}} }),
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	if _, err := in.Emit(context.Background(), entries(1, 12)); err != nil {
		t.Fatal(err)
	}
	if s := good.Book.Sheet(); s.Admitted != 12 || s.Dropped[ledger.FilterFailed] != 4 {
		t.Errorf("book: %+v", s)
	}
	if !strings.Contains(log.String(), "are dropped") {
		t.Errorf("log: %s", log.String())
	}
}

// TestErrorsOfAStoreThatStandsIn: events fail before a copy, and again, of the same tag, in a
// store that is asked only when another one has refused. All of them go to @ERROR.
func TestErrorsOfAStoreThatStandsIn(t *testing.T) {
	full, other, bad := newStore(t, "full", 4<<10, buffer.Throw), newStore(t, "other", 1<<20, buffer.Throw), newStore(t, "bad", 1<<20, buffer.Throw)
	for full.fill() {
	}
	in := New(Options{
		Routes: NewRoutes(func(string) *Node {
			return &Node{Filters: []filter.Filter{failing(3)}, Ends: []End{
				{Target: full.Target, Optional: true},
				{Fallback: true, Next: &Node{Filters: []filter.Filter{failing(4)}, Ends: []End{end(other)}}},
			}}
		}),
		Errors:  NewRoutes(func(string) *Node { return &Node{Ends: []End{end(bad)}} }),
		Nowhere: lost(&ledger.Book{}, ledger.Unmatched.Fate()),
		Log:     slog.New(slog.DiscardHandler),
	})
	if _, err := in.Emit(context.Background(), entries(1, 12)); err != nil {
		t.Fatal(err)
	}
	if got := other.content(); !slices.Equal(got, []int{1, 2, 5, 7, 10, 11}) {
		t.Errorf("the store: %v", got)
	}
	got := bad.content()
	slices.Sort(got)
	if !slices.Equal(got, []int{3, 4, 6, 8, 9, 12}) {
		t.Errorf("@ERROR: %v", got)
	}
}
