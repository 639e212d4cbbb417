package outputtest

import (
	"testing"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// tell: a Teller takes one notice, which counts as no entry; an empty request always has
// room for one.
func (s *Subject) tell(t *testing.T) {
	o := s.open(t)
	r := o.Request()
	teller, ok := r.(output.Teller)
	if !ok {
		t.Log("this output's requests carry no notices: not tested")
		return
	}
	n := output.Notice{Events: 3, Bytes: 1234, First: begin, Last: begin + second,
		Reasons: []output.ReasonCount{{Reason: ledger.BufferFull, Events: 2}, {Reason: ledger.Damaged, Events: 1}}}
	r.Reset(s.lane(t, o))
	if !teller.Tell(n) || teller.Tell(n) {
		t.Error("an empty request takes one notice, and no second one")
	}
	if res := send(t, r); len(res.Ended) != 0 || res.Untold {
		t.Errorf("a notice alone: %+v", res)
	}
	r.Reset(s.lane(t, o))
	add(t, r, s.entries(0, 2), 2)
	if !teller.Tell(n) {
		t.Error("no room for a notice behind two entries")
	}
	if s.Poison != nil {
		add(t, r, event.AppendEntry(nil, begin, s.Poison), 1)
	}
	add(t, r, s.entries(2, 3), 1)
	res := send(t, r)
	want := 0
	if s.Poison != nil {
		want = 1
	}
	if len(res.Ended) != want || want > 0 && (res.Ended[0].First != 2 || res.Ended[0].Count != 1) || res.Untold {
		t.Errorf("a notice among entries: %+v", res)
	}
	s.received(t, 0, 1, 2)
}

// free: a request that has given its memory back can be used again.
func (s *Subject) free(t *testing.T) {
	o := s.open(t)
	r := s.request(t, o, 0, 2)
	f, ok := r.(output.Freer)
	if !ok {
		t.Log("this output's requests keep their memory: not tested")
		return
	}
	send(t, r)
	f.Free()
	f.Free()
	other := s.request(t, o, 2, 4) // may have the memory now
	r.Reset(s.lane(t, o))
	add(t, r, s.entries(4, 6), 2)
	send(t, other)
	send(t, r)
	s.received(t, 0, 1, 2, 3, 4, 5)
}
