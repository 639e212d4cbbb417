// Package outputtest is the conformance suite of the output contract: what delivery relies
// on, tested against any output.Output.
package outputtest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// Subject describes the output under test. All functions may be called from any test.
type Subject struct {
	// New opens an output whose destination works. The suite closes it.
	New func(t *testing.T) output.Output
	// Tag is a tag whose events the output takes.
	Tag string
	// Record makes the record of event i, a msgpack map whose event can be delivered. nil
	// makes {"message": "event i"}.
	Record func(i int) []byte
	// Poison is a record whose event can never be delivered: it is taken and ends as
	// rejected. nil if the output knows none.
	Poison []byte
	// Unnamed is a record for which the output has no lane; nil if there is none.
	Unnamed []byte
	// Received gives, for each event that arrived at the destination of the output opened
	// last, the number i of its record, in order, without notices. nil leaves those checks
	// out.
	Received func() []int
	// Fail makes the next request of the output opened last fail; nil leaves those checks
	// out.
	Fail func()
	// Full is how many bytes of entries surely fill a request; 0 if requests have no limit.
	Full int
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	if s.Record == nil {
		s.Record = func(i int) []byte {
			return event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "message"), fmt.Sprint("event ", i))
		}
	}
	t.Run("Split", s.split)
	t.Run("AddLimit", s.addLimit)
	t.Run("AddCopies", s.addCopies)
	t.Run("Full", s.full)
	t.Run("Reset", s.reset)
	t.Run("Empty", s.empty)
	t.Run("Order", s.order)
	t.Run("Ended", s.ended)
	t.Run("SendAgain", s.sendAgain)
	t.Run("Cancelled", s.cancelled)
	t.Run("Concurrent", s.concurrent)
	t.Run("Tell", s.tell)
	t.Run("Free", s.free)
}

const second = event.Time(time.Second)

// begin is the time of the first event.
var begin = event.FromTime(time.Now().Add(-time.Minute).Truncate(time.Second))

// entries makes events from to to, all of one time.
func (s *Subject) entries(from, to int) []byte {
	var b []byte
	for i := from; i < to; i++ {
		b = event.AppendEntry(b, begin, s.Record(i))
	}
	return b
}

func (s *Subject) batch(b []byte) event.Batch {
	out := event.Batch{Tag: s.Tag, Entries: b}
	out.Count, out.First, out.Last, _, _ = event.Check(b)
	return out
}

func (s *Subject) open(t *testing.T) output.Output {
	t.Helper()
	o := s.New(t)
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return o
}

// lane is the lane of event 0.
func (s *Subject) lane(t *testing.T, o output.Output) string {
	t.Helper()
	lane := ""
	o.Splitter().Split(s.batch(s.entries(0, 1)), func(l []byte, _ output.Run) { lane = string(l) })
	if lane == "" {
		t.Fatal("event 0 has no lane")
	}
	return lane
}

// request is a request with events from to to.
func (s *Subject) request(t *testing.T, o output.Output, from, to int) output.Request {
	t.Helper()
	r := o.Request()
	r.Reset(s.lane(t, o))
	add(t, r, s.entries(from, to), to-from)
	return r
}

// add adds all of b, which has n entries and fits.
func add(t *testing.T, r output.Request, b []byte, n int) {
	t.Helper()
	if got, size, _ := r.Add(b, n); got != n || size != len(b) {
		t.Fatalf("Add took %d entries and %d bytes of %d and %d", got, size, n, len(b))
	}
}

func send(t *testing.T, r output.Request) output.Result {
	t.Helper()
	res := r.Send(t.Context())
	if res.Err != nil {
		t.Fatalf("send: %v", res.Err)
	}
	return res
}

func (s *Subject) received(t *testing.T, want ...int) {
	t.Helper()
	if s.Received == nil {
		return
	}
	if got := s.Received(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("received %v, want %v", got, want)
	}
}

// split: the runs cover the batch without gaps and in order; an event without a lane has a
// fate that is not delivery; an empty batch has no runs.
func (s *Subject) split(t *testing.T) {
	o := s.open(t)
	b := s.entries(0, 3)
	if s.Unnamed != nil {
		b = event.AppendEntry(b, begin, s.Unnamed)
	}
	b = append(b, s.entries(3, 5)...)
	sp := o.Splitter()
	sp.Split(event.Batch{Tag: s.Tag}, func([]byte, output.Run) { t.Error("an empty batch has a run") })
	for range 2 {
		batch := s.batch(bytes.Clone(b))
		end, count, unnamed := 0, 0, 0
		sp.Split(batch, func(lane []byte, r output.Run) {
			if r.Off != end || r.Len <= 0 || r.Count <= 0 {
				t.Errorf("run %+v behind byte %d", r, end)
			}
			if n, _, _, _, err := event.Check(batch.Entries[r.Off : r.Off+r.Len]); err != nil || n != r.Count {
				t.Errorf("run %+v holds %d entries: %v", r, n, err)
			}
			if len(lane) == 0 {
				unnamed += r.Count
				if r.Fate.Class == ledger.Delivered {
					t.Error("an event without a lane counts as delivered")
				}
			}
			end, count = end+r.Len, count+r.Count
		})
		if end != len(b) || count != batch.Count {
			t.Errorf("the runs cover %d bytes and %d entries of %d and %d", end, count, len(b), batch.Count)
		}
		if want := batch.Count - 5; unnamed != want {
			t.Errorf("%d events have no lane, want %d", unnamed, want)
		}
		if !bytes.Equal(batch.Entries, b) {
			t.Error("Split changed the batch")
		}
	}
}

// addLimit: Add takes whole entries from the front, no more than limit.
func (s *Subject) addLimit(t *testing.T) {
	o := s.open(t)
	r := o.Request()
	r.Reset(s.lane(t, o))
	b := s.entries(0, 10)
	if n, size, full := r.Add(b, 0); n != 0 || size != 0 || full {
		t.Errorf("with limit 0: %d, %d, %v", n, size, full)
	}
	if n, size, full := r.Add(nil, 5); n != 0 || size != 0 || full {
		t.Errorf("with no entries: %d, %d, %v", n, size, full)
	}
	n, size, full := r.Add(b, 4)
	if n != 4 || size != len(s.entries(0, 4)) || full {
		t.Fatalf("with limit 4: %d, %d, %v", n, size, full)
	}
	add(t, r, b[size:], 6)
	send(t, r)
	s.received(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
}

// addCopies: what was added may be overwritten.
func (s *Subject) addCopies(t *testing.T) {
	o := s.open(t)
	r := o.Request()
	r.Reset(s.lane(t, o))
	b := s.entries(0, 3)
	add(t, r, b, 3)
	for i := range b {
		b[i] = 0xc1
	}
	send(t, r)
	s.received(t, 0, 1, 2)
}

// full: a request that is filled says so, has taken something, and can be sent.
func (s *Subject) full(t *testing.T) {
	if s.Full == 0 {
		t.Log("this output's requests have no limit: not tested")
		return
	}
	o := s.open(t)
	r := o.Request()
	r.Reset(s.lane(t, o))
	taken, n, last := 0, 0, 0.0
	for full := false; !full; {
		if taken > s.Full {
			t.Fatalf("not full after %d bytes", taken)
		}
		b := s.entries(n, n+100)
		var got, size int
		got, size, full = r.Add(b, 100)
		if got < 100 && !full {
			t.Fatalf("took %d of 100 without being full", got)
		}
		if k, _, _, _, err := event.Check(b[:size]); err != nil || k != got {
			t.Fatalf("took %d entries, but %d bytes are %d: %v", got, size, k, err)
		}
		taken, n = taken+size, n+got
		if f := r.Fill(); f < last || f < 0 || f > 1 {
			t.Fatalf("Fill went from %v to %v", last, f)
		} else {
			last = f
		}
	}
	if n == 0 {
		t.Fatal("full with nothing taken")
	}
	if got, size, full := r.Add(s.entries(n, n+1), 1); got > 0 && full || size > 0 && got == 0 {
		t.Errorf("a full request took %d entries, %d bytes", got, size)
	}
	send(t, r)
}

// reset: a request can be used again, and nothing is left of its former life.
func (s *Subject) reset(t *testing.T) {
	o := s.open(t)
	r := s.request(t, o, 0, 3)
	r.Reset(s.lane(t, o)) // given up before it was sent
	if f := r.Fill(); f != 0 {
		t.Errorf("Fill is %v after Reset", f)
	}
	add(t, r, s.entries(3, 5), 2)
	send(t, r)
	r.Reset(s.lane(t, o))
	add(t, r, s.entries(5, 6), 1)
	if res := send(t, r); len(res.Ended) != 0 || res.Resent {
		t.Errorf("result %+v", res)
	}
	s.received(t, 3, 4, 5)
}

// empty: a request without entries ends well.
func (s *Subject) empty(t *testing.T) {
	o := s.open(t)
	r := o.Request()
	r.Reset(s.lane(t, o))
	if res := send(t, r); len(res.Ended) != 0 {
		t.Errorf("result %+v", res)
	}
}

// order: events arrive in order of time, those of one time in order of Add.
func (s *Subject) order(t *testing.T) {
	o := s.open(t)
	r := o.Request()
	r.Reset(s.lane(t, o))
	var b []byte
	for i, at := range []event.Time{0, 5, 3, 5, 0, 3} {
		b = event.AppendEntry(b, begin+at*second, s.Record(i))
	}
	add(t, r, b, 6)
	send(t, r)
	if s.Received == nil {
		return
	}
	got := s.Received()
	sorted := fmt.Sprint([]int{0, 4, 2, 5, 1, 3})
	if g := fmt.Sprint(got); g != sorted && g != fmt.Sprint([]int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("received %v: neither in order of time nor in order of Add", got)
	}
}

// ended: what cannot be delivered is reported by its place, and its neighbours arrive.
func (s *Subject) ended(t *testing.T) {
	if s.Poison == nil {
		t.Log("this output takes everything: not tested")
		return
	}
	o := s.open(t)
	r := o.Request()
	r.Reset(s.lane(t, o))
	b := s.entries(0, 1)
	for range 2 {
		b = event.AppendEntry(b, begin, s.Poison)
	}
	b = append(b, s.entries(1, 3)...)
	b = event.AppendEntry(b, begin, s.Poison)
	add(t, r, b, 6)
	res := send(t, r)
	want := map[int]bool{1: true, 2: true, 5: true}
	last := -1
	for _, e := range res.Ended {
		if e.First <= last || e.Count <= 0 || e.Fate.Class == ledger.Delivered {
			t.Errorf("ended %+v", res.Ended)
		}
		last = e.First + e.Count - 1
		for i := e.First; i <= last; i++ {
			if !want[i] {
				t.Errorf("entry %d ended", i)
			}
			delete(want, i)
		}
	}
	if len(want) > 0 {
		t.Errorf("entries %v did not end", want)
	}
	s.received(t, 0, 1, 2)
}

// sendAgain: after a failure the same request can be sent, and arrives once.
func (s *Subject) sendAgain(t *testing.T) {
	if s.Fail == nil {
		t.Log("this output cannot be made to fail: not tested")
		return
	}
	o := s.open(t)
	r := s.request(t, o, 0, 3)
	s.Fail()
	res := r.Send(t.Context())
	if res.Err == nil {
		t.Fatal("the request did not fail")
	}
	if len(res.Ended) != 0 || res.Err.Op == "" || res.Err.Error() == "" || int(res.Err.Kind) >= len(output.Kinds()) {
		t.Errorf("failure %+v", res)
	}
	send(t, r)
	s.received(t, 0, 1, 2)
}

// cancelled: a Send whose context has ended returns.
func (s *Subject) cancelled(t *testing.T) {
	o := s.open(t)
	r := s.request(t, o, 0, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan output.Result, 1)
	go func() { done <- r.Send(ctx) }()
	select {
	case res := <-done:
		if res.Err != nil && len(res.Ended) != 0 {
			t.Errorf("result %+v", res)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Send does not return")
	}
}

// concurrent: splitters and requests of one output work side by side.
func (s *Subject) concurrent(t *testing.T) {
	o := s.open(t)
	lane := s.lane(t, o)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			sp, r := o.Splitter(), o.Request()
			for i := range 5 {
				n := w*100 + i
				sp.Split(s.batch(s.entries(n, n+1)), func([]byte, output.Run) {})
				r.Reset(lane)
				r.Add(s.entries(n, n+1), 1)
				if res := r.Send(t.Context()); res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	wg.Wait()
	if s.Received != nil {
		if n := len(s.Received()); n != 20 {
			t.Errorf("%d of 20 events arrived", n)
		}
	}
}
