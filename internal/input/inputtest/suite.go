package inputtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/event"
	"weir/internal/input"
)

// Subject is an input under test with a way to feed it.
type Subject struct {
	// Input is ready for Open.
	Input input.Input
	// Send makes the input receive events without acknowledgement, one for each text, and
	// returns when they have been sent; each text must come out somewhere in the JSON of
	// its event. It is called after Open, from one goroutine, while Run runs, and must
	// return if the input stops reading.
	Send func(texts ...string)
	// End tells the input that nothing more will come, if its kind has an end; nil if not.
	End func()
	// Keeps says that a refused event is tried again or kept by the sender, so that Lost is
	// not called while the input runs.
	Keeps bool
}

// patience bounds how long an input may take to stop.
const patience = 30 * time.Second

// Run checks that an input keeps the contract of input.Input. open makes a new Subject.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, f := range map[string]func(t *testing.T, s Subject){
		"Delivers": delivers, "StopIdle": stopIdle, "StopBeforeRun": stopBeforeRun,
		"StopWhileEmitBlocks": stopBlocked, "Refused": refused, "Borrowed": borrowed, "End": ends,
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			s := open(t)
			if err := s.Input.Open(); err != nil {
				t.Fatalf("Open: %v", err)
			}
			f(t, s)
		})
	}
}

// running is an input in Run.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, in input.Input, e input.Emitter) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- in.Run(ctx, e) }()
	return r
}

// wait waits until Run returns.
func (r *running) wait() {
	r.t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		r.t.Fatalf("Run did not return within %v", patience)
	}
}

func names(from, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("event-%06d", from+i))
	}
	return out
}

// compare checks that the events are those of the texts, in order.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d events, want %d", len(got), len(want))
		return
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("event %d is %s, want %s in it", i, got[i], want[i])
			return
		}
	}
}

// delivers: all events, once, in order, in well-formed batches.
func delivers(t *testing.T, s Subject) {
	rec := NewRecorder(t)
	r := start(t, s.Input, rec)
	want := names(0, 2000)
	for i := 0; i < len(want); i += 100 {
		s.Send(want[i : i+100]...)
	}
	compare(t, rec.WaitEvents(len(want)), want)
	r.stop()
	r.wait()
	rec.Close()
	compare(t, rec.Events(), want)
}

// stopIdle: Run returns when nothing happens.
func stopIdle(t *testing.T, s Subject) {
	rec := NewRecorder(t)
	r := start(t, s.Input, rec)
	s.Send("event")
	rec.WaitEvents(1)
	r.stop()
	r.wait()
	rec.Close()
}

// stopBeforeRun: Run with a context that has ended returns.
func stopBeforeRun(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan error, 1)
	go func() { done <- s.Input.Run(ctx, NewRecorder(t)) }()
	(&running{t: t, done: done}).wait()
}

// stopBlocked: what was being emitted when the context ended is accepted when there is
// room, and then Run returns.
func stopBlocked(t *testing.T, s Subject) {
	rec := NewRecorder(t)
	release := rec.Hold()
	r := start(t, s.Input, rec)
	s.Send("event-0")
	rec.WaitInside(1)
	r.stop()
	select {
	case err := <-r.done:
		t.Fatalf("Run returned %v while Emit was in progress", err)
	case <-time.After(20 * time.Millisecond): // it would be wrong to return at any time
	}
	release()
	r.wait()
	rec.Close()
	compare(t, rec.Events(), []string{"event-0"})
}

// refused: an event that a full buffer refuses is either kept or booked as lost, once.
func refused(t *testing.T, s Subject) {
	rec := NewRecorder(t)
	tries := make(chan struct{}, 1000)
	rec.Refuse(func(event.Batch) error {
		select {
		case tries <- struct{}{}:
		default:
		}
		return fmt.Errorf("append: %w", input.ErrRefused)
	})
	r := start(t, s.Input, rec)
	s.Send("event-0")
	<-tries
	if s.Keeps {
		<-tries // it is tried again
		rec.Refuse(nil)
		compare(t, rec.WaitEvents(1), []string{"event-0"})
	} else {
		rec.Wait(func() bool { return len(rec.LostEvents()) > 0 })
		compare(t, rec.LostEvents(), []string{"event-0"})
		rec.Refuse(nil)
	}
	r.stop()
	r.wait()
	if n := len(rec.Events()) + len(rec.LostEvents()); n != 1 {
		t.Errorf("the event came out %d times", n)
	}
}

// borrowed: the input does not look at a batch after Emit: events stay right although
// their memory is overwritten when Emit returns.
func borrowed(t *testing.T, s Subject) {
	rec := NewRecorder(t)
	r := start(t, s.Input, Poison(rec))
	for i := range 20 {
		s.Send(names(i*10, 10)...)
		rec.WaitEvents(i*10 + 10)
	}
	r.stop()
	r.wait()
	compare(t, rec.Events(), names(0, 200))
}

// ends: an input whose source ends returns by itself, after all events.
func ends(t *testing.T, s Subject) {
	rec := NewRecorder(t)
	r := start(t, s.Input, rec)
	s.Send(names(0, 50)...)
	if s.End == nil {
		rec.WaitEvents(50)
		r.stop()
	} else {
		s.End()
	}
	r.wait()
	r.stop()
	rec.Close()
	compare(t, rec.Events(), names(0, 50))
}

// Poison passes batches on to e and makes their bytes useless when e has returned. An
// emitter that keeps a borrowed batch, and an input that reads one again, then show.
func Poison(e input.Emitter) input.Emitter { return poison{e} }

type poison struct{ e input.Emitter }

func (p poison) Emit(ctx context.Context, b event.Batch) (input.Receipt, error) {
	r, err := p.e.Emit(ctx, b)
	if err == nil {
		for i := range b.Entries {
			b.Entries[i] = 0xc1
		}
	}
	return r, err
}

func (p poison) Lost(b event.Batch) { p.e.Lost(b) }
