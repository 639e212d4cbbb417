package filter

import (
	"time"

	"weir/internal/event"
)

// Holder is a filter that keeps events back to make one out of several. It is immutable;
// what it keeps is in a Held for each tag. Who uses it has to see to it that what is kept
// comes out in time, and that nobody is told before that it is safe.
type Holder interface {
	// Hold begins to keep events of a tag.
	Hold(tag string) *Held
	// Wait is how long a group may be kept; 0 is for ever.
	Wait() time.Duration
}

// Incoming is a batch on its way into a Held.
type Incoming struct {
	ID      uint64        // the caller's name for the batch: Passed.Released speaks of it
	Entries []byte        // have passed event.Check; borrowed
	At      time.Duration // the time by a clock of the caller that never goes back
	Known   int           // so many entries at the beginning went on before a restart
}

// Passed is what comes out of a Held. Its owner resets it and may use it again.
type Passed struct {
	Entries     []byte // events that go on, in order
	Count       int
	First, Last event.Time // smallest and largest time of Entries
	Filtered    int        // events that are part of others now, or were given up as configured
	Failed      int        // events that Scratch.Errors was told of
	// Released names a batch once for each group with entries of it that has come out.
	Released []uint64
	// Holds is how many groups have taken entries of the batch that came in.
	Holds int
	// Whole is how many entries at the beginning of the batch are not kept any more: all
	// of them, or those before the first one that is.
	Whole int
	// Repeats says for each event in Entries whether it consists of known entries of this
	// batch only. It is filled if there are known ones.
	Repeats []bool
}

// Reset empties p and keeps its memory.
func (p *Passed) Reset() {
	*p = Passed{Entries: p.Entries[:0], Released: p.Released[:0], Repeats: p.Repeats[:0]}
}

// keeper decides what becomes of events: it is what holders differ in.
type keeper interface {
	// take works off the entries of h.in.
	take(h *Held)
	// late ends a group whose time is up, or at an end of everything: final.
	late(h *Held, g *group, now event.Time, final bool)
}

// maxGroup is how many bytes one group may have: then it goes on as if it were complete.
// No destination takes a larger event.
const maxGroup = 4 << 20

// Held is what a Holder keeps of one tag: groups of events, by the stream that they belong
// to. It is not safe for concurrent use, and knows no clock.
type Held struct {
	tag    string
	k      keeper
	touch  bool // the time of a group begins anew with each of its events
	groups map[string]*group
	// The groups in the order in which their time is up.
	oldest, newest *group
	bytes          int
	free           *group // one to use again

	// Of the call under way.
	s       *Scratch
	out     *Passed
	in      Incoming
	index   int // of the entry under way
	touched []*group
}

// group is what is kept of one stream.
type group struct {
	stream     string
	prev, next *group
	alive      bool
	since      time.Duration // the last event, or the first one

	record []byte // of the first event
	time   event.Time
	text   []byte // of all of them
	lines  int
	size   int // what the configured limit counts
	bytes  int // what this costs, roughly
	parts  []piece
	owners []uint64 // batches with entries here, in order
	first  int      // index of the first entry of the last owner
	last   int      // index of its last entry
	state  state    // of the detector
	field  string   // that the detector looks at
}

// piece is a piece of a group's text that has a number: the text is put in order at the end.
type piece struct {
	ordinal    int64
	start, end int
}

// freeMost is how much memory a Held keeps for its next group.
const freeMost = 8 << 10

// What a group, a piece and the name of a batch cost beside their bytes.
const (
	groupCost = 300
	pieceCost = 24
	ownerCost = 8
)

func newHeld(tag string, k keeper, touch bool) *Held {
	return &Held{tag: tag, k: k, touch: touch, groups: map[string]*group{}}
}

// Take works off a batch. What goes on is appended to out; what is kept stays here, and the
// batch is named in a later Released once for each of out.Holds.
func (h *Held) Take(s *Scratch, in Incoming, out *Passed) {
	h.s, h.in, h.out, h.index = s, in, out, 0
	h.k.take(h)
	out.Whole = h.index
	for _, g := range h.touched {
		if g.alive && len(g.owners) > 0 && g.owners[len(g.owners)-1] == in.ID {
			out.Whole = min(out.Whole, g.first)
		}
	}
	clear(h.touched)
	h.s, h.out, h.in, h.touched = nil, nil, Incoming{}, h.touched[:0]
}

// Expire ends the groups that have waited so long. now is what events get as their time
// that have none of their own. They are appended to out: what has taken too long may go
// another way than what is complete.
func (h *Held) Expire(s *Scratch, at, wait time.Duration, now event.Time, out *Passed) {
	h.s, h.out = s, out
	for h.oldest != nil && at-h.oldest.since >= wait {
		h.k.late(h, h.oldest, now, false)
	}
	h.s, h.out = nil, nil
}

// Flush ends all groups as Expire does.
func (h *Held) Flush(s *Scratch, out *Passed) {
	h.s, h.out = s, out
	for h.oldest != nil {
		h.k.late(h, h.oldest, h.oldest.time, true)
	}
	h.s, h.out = nil, nil
}

// Shed ends the group that has waited longest as Expire does, to save memory.
func (h *Held) Shed(s *Scratch, out *Passed) {
	if g := h.oldest; g != nil {
		h.s, h.out = s, out
		h.k.late(h, g, g.time, true)
		h.s, h.out = nil, nil
	}
}

// Groups is how many groups there are, Bytes roughly how much memory they take.
func (h *Held) Groups() int { return len(h.groups) }

// Bytes is described at Groups.
func (h *Held) Bytes() int { return h.bytes }

// Oldest is since when the oldest group has waited.
func (h *Held) Oldest() (since time.Duration, ok bool) {
	if h.oldest == nil {
		return 0, false
	}
	return h.oldest.since, true
}

// Tag is the tag that the events came with.
func (h *Held) Tag() string { return h.tag }

// group finds the group of a stream, or nil.
func (h *Held) group(stream []byte) *group { return h.groups[string(stream)] }

// open begins a group with an event.
func (h *Held) open(stream []byte, e event.Entry) *group {
	g := h.free
	if g == nil {
		g = &group{}
	}
	h.free = nil
	g.stream = string(stream)
	h.groups[g.stream] = g
	h.begin(g, e)
	return g
}

// again ends a group, as end does, and begins the next one of its stream with an event.
func (h *Held) again(g *group, e event.Entry) {
	h.unlink(g)
	h.bytes -= g.bytes
	h.out.Released = append(h.out.Released, g.owners...)
	h.begin(g, e)
}

func (h *Held) begin(g *group, e event.Entry) {
	*g = group{stream: g.stream, alive: true, since: h.in.At, record: append(g.record[:0], e.Record...), time: e.Time,
		text: g.text[:0], parts: g.parts[:0], owners: g.owners[:0]}
	h.append(g)
	g.bytes = groupCost + len(g.stream) + len(g.record)
	h.bytes += g.bytes
}

// own notes that the entry under way is part of a group, of whose text n bytes are its.
func (h *Held) own(g *group, n int) {
	g.lines++
	g.last = h.index
	g.bytes += n
	h.bytes += n
	if h.touch && g.since != h.in.At {
		g.since = h.in.At
		if g != h.newest {
			h.unlink(g)
			h.append(g)
		}
	}
	if len(g.owners) > 0 && g.owners[len(g.owners)-1] == h.in.ID {
		return
	}
	g.owners, g.first = append(g.owners, h.in.ID), h.index
	if n := len(h.touched); n == 0 || h.touched[n-1] != g {
		h.touched = append(h.touched, g)
	}
	h.out.Holds++
	g.bytes += ownerCost
	h.bytes += ownerCost
}

// large says that a group has as much as it may.
func (g *group) large() bool { return g.bytes > maxGroup }

// end takes a group away. The caller has appended what comes out of it.
func (h *Held) end(g *group) {
	h.unlink(g)
	delete(h.groups, g.stream)
	h.bytes -= g.bytes
	h.out.Released = append(h.out.Released, g.owners...)
	g.alive = false
	if h.free == nil && cap(g.text)+cap(g.record)+8*cap(g.owners) < freeMost {
		h.free = g
	}
}

func (h *Held) append(g *group) {
	g.prev, g.next = h.newest, nil
	if h.newest != nil {
		h.newest.next = g
	} else {
		h.oldest = g
	}
	h.newest = g
}

func (h *Held) unlink(g *group) {
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		h.oldest = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		h.newest = g.prev
	}
	g.prev, g.next = nil, nil
}

// pass lets an entry go on as it came.
func (h *Held) pass(t event.Time, whole []byte) {
	h.out.Entries = append(h.out.Entries, whole...)
	h.passed(t, nil)
}

// passed counts an event that was appended to out.Entries; g is the group that it comes
// from, if any.
func (h *Held) passed(t event.Time, g *group) {
	p := h.out
	if p.Count == 0 || t < p.First {
		p.First = t
	}
	if p.Count == 0 || t > p.Last {
		p.Last = t
	}
	p.Count++
	if g != nil {
		p.Filtered += g.lines - 1
	}
	if h.in.Known > 0 {
		last, own := h.index, true
		if g != nil {
			last, own = g.last, len(g.owners) == 1 && g.owners[0] == h.in.ID
		}
		p.Repeats = append(p.Repeats, own && last < h.in.Known)
	}
}
