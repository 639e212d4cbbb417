// Package pipeline is the way in: it routes a batch by its tag, filters it, and appends it
// to the buffers of all its targets or to none of them.
package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/retag"
)

// Target is where a route ends: an output's buffer and its book.
type Target struct {
	ID     string
	Book   *ledger.Book
	Buffer *buffer.Buffer // nil: nothing is kept, what arrives ends with End
	End    ledger.Fate    // without a buffer: filtered for @type null, dropped where no <match> takes it
	In     *Counter       // events and bytes that arrived
	// Backlog is a second buffer for drain_order live_first; nil: there is none.
	Backlog atomic.Pointer[Backlog]
}

// Counter counts what passes a point.
type Counter struct{ Batches, Events, Bytes atomic.Uint64 }

func (c *Counter) add(events, bytes int) {
	c.Batches.Add(1)
	c.Events.Add(uint64(events))
	c.Bytes.Add(uint64(bytes))
}

// Node is a stretch of a route: filters, then one or more ends. A tree of nodes is built
// once for each tag and shared by all goroutines.
type Node struct {
	Filters []filter.Filter
	Ends    []End
	Turn    *Turn // a roundrobin: each batch goes to one of the ends
}

// End is a target; or, behind a copy or a relabel with filters of its own, another node; or
// a rewriter, whose events go on by their new tags; or a filter that holds events.
type End struct {
	Target  *Target
	Next    *Node
	Rewrite *Rewrite
	Hold    *Door
	Tag     string // of events behind Next; "" for the one that they have
	// In counts what comes here when there is no Target; may be nil.
	In *Counter
	// Optional is a <store ignore_error>: if it refuses, the others go on.
	Optional bool
	// Fallback is a <store ignore_if_prev_success>: it gets nothing if the end before it
	// has taken the events.
	Fallback bool
}

// Rewrite is a rewrite_tag_filter in a route.
type Rewrite struct {
	Rewriter *retag.Rewriter
	// Route finds the route of a new tag, for the label of the rule or "" for where the
	// rewriter stands; nil means that no <match> takes it. depth counts rewriters before
	// this one: beyond maxRewrites the events go round in a circle.
	Route func(label, tag string) *Node
	// Rest books what no rule took.
	Rest *Target
	// Unmatched books what no <match> took under its new tag.
	Unmatched *Target
}

// maxRewrites bounds how often an event gets a new tag: more is a loop.
const maxRewrites = 16

// Ingress routes the batches of one source. It implements input.Emitter.
type Ingress struct {
	o      Options
	lost   doubling
	loops  doubling
	failed often
}

// Options configures an Ingress. Routes and Log are required.
type Options struct {
	Routes    *Routes
	Log       *slog.Logger
	In        *Counter     // everything the source has emitted
	Unmatched *ledger.Book // the book for tags that no <match> takes
	Delivered bool         // ack_after delivered
	Errors    *Routes      // of the label @ERROR, where events go that fail; nil: they are dropped
	Nowhere   *Target      // with Errors: books what no <match> of @ERROR takes
}

// New makes an Ingress.
func New(o Options) *Ingress {
	if o.In == nil {
		o.In = &Counter{}
	}
	if o.Unmatched == nil {
		o.Unmatched = &ledger.Book{}
	}
	return &Ingress{o: o}
}

// work is what one Emit needs; pooled.
type work struct {
	scratch filter.Scratch
	bufs    [][]byte // two for each node with filters on the way of this batch
	used    int      // of bufs
	drops   []drop
	appends []appendTo
	batches []event.Batch    // of one target, for its reservation
	retags  []*retag.Scratch // one for each rewriter on the way of this batch
	retagAt int              // of retags
	depth   int              // rewriters around the present one
	chunk   event.Chunk      // of the message that the batch came in
	in      *Ingress
	errors  []failures // events that filters could not process
	erring  bool       // they are being routed
	through bool       // holds hold nothing: it is only asked where events would go
	from    *Hold      // whose events these are, that it has kept too long
	places  []input.Place
	stores  []copied   // of copies with fallbacks
	at      int        // the store around the present end, counted from 1
	later   []fallback // ends that are asked when another one has refused
	routed  int        // of errors
	known   event.Chunk
}

type appendTo struct {
	target   *Target
	buf      *buffer.Buffer // of the target: where room is reserved
	hold     *Door          // in place of target
	shard    *shard         // of the hold
	batch    event.Batch
	optional bool
	reserved bool
	refused  bool // optional, and its buffer is full
	dropped  bool // by the policy of its buffer, and booked
	depth    int  // of work, for a hold
	erring   bool // likewise
	at       int  // the store that it belongs to; 0: none
}

// id is what reservations are ordered by.
func (a *appendTo) id() string {
	if a.hold != nil {
		return a.shard.id
	}
	return a.target.ID
}

// drop is what filters took out on the way to a target.
type drop struct {
	target           *Target
	filtered, failed int
	erring           bool // on the way through @ERROR
}

var works = sync.Pool{New: func() any { return new(work) }}

// Emit implements input.Emitter.
func (in *Ingress) Emit(ctx context.Context, b event.Batch) (input.Receipt, error) {
	r := input.Receipt{Delivered: in.o.Delivered}
	if b.Count == 0 {
		return r, nil
	}
	n := in.o.Routes.Route(b.Tag)
	if n == nil {
		in.unmatched(b)
		return r, nil
	}
	w := in.begin()
	defer w.release()
	w.walk(n, b, false, 0, 0)
	w.routeErrors()
	if w.chunk = b.Chunk; !w.chunk.IsZero() {
		w.leaveOut(w.chunk)
	}
	if err := w.reserve(ctx); err != nil {
		return input.Receipt{}, err
	}
	// From here on nothing fails: all targets take it.
	w.commit()
	for _, p := range w.places {
		r.Add(p)
	}
	in.o.In.add(b.Count, len(b.Entries))
	return r, nil
}

func (in *Ingress) begin() *work {
	w := works.Get().(*work)
	w.in = in
	w.scratch.Errors = w
	return w
}

// Lost implements input.Emitter.
func (in *Ingress) Lost(b event.Batch) {
	n := in.o.Routes.Route(b.Tag)
	if n == nil {
		return
	}
	in.lose(n, b, ledger.BufferFull.Fate())
	in.o.In.add(b.Count, len(b.Entries))
}

// leaveOut takes out the targets that have stored this message before a restart. A hold
// looks itself, when it knows what comes out.
func (w *work) leaveOut(c event.Chunk) {
	w.known = c
	known := func(t *Target) bool { return t != nil && t.Known(c) }
	w.drops = slices.DeleteFunc(w.drops, func(d drop) bool { return known(d.target) })
	w.appends = slices.DeleteFunc(w.appends, func(a appendTo) bool { return known(a.target) })
}

// bookDrops books what filters took out.
func (w *work) bookDrops() {
	for i := range w.drops {
		dr := &w.drops[i]
		if dr.filtered > 0 {
			dr.target.Book.AdmitEnded(ledger.Fate{Class: ledger.Filtered}, dr.filtered)
		}
		if dr.failed > 0 {
			fate := ledger.FilterFailed.Fate()
			if w.in.o.Errors != nil && !dr.erring {
				fate = ledger.Fate{Class: ledger.Filtered} // they go on in the label @ERROR
			}
			dr.target.Book.AdmitEnded(fate, dr.failed)
		}
	}
}

// unmatched books events that no <match> takes, and says so at the 1st, 2nd, 4th, 8th …
// time.
func (in *Ingress) unmatched(b event.Batch) {
	in.o.In.add(b.Count, len(b.Entries))
	in.o.Unmatched.AdmitEnded(ledger.Unmatched.Fate(), b.Count)
	if times, say := in.lost.hit(); say {
		in.o.Log.Warn("no <match> takes this tag, its events are dropped", "tag", b.Tag, "times", times)
	}
}

// doubling says yes at the 1st, 2nd, 4th, 8th … call.
type doubling struct{ n atomic.Uint64 }

func (d *doubling) hit() (n uint64, say bool) {
	n = d.n.Add(1)
	return n, n&(n-1) == 0
}

// walk runs the filters of a node and notes what goes where.
func (w *work) walk(n *Node, b event.Batch, optional bool, filtered, failed int) {
	if len(n.Filters) > 0 {
		before, bad := b.Count, 0
		w.scratch.Made = 0
		b, bad = w.filter(n.Filters, b)
		failed += bad
		filtered += before + w.scratch.Made - b.Count - bad
	}
	ends := n.Ends
	if n.Turn != nil {
		i := n.Turn.pick()
		ends = ends[i : i+1]
	}
	fallbacks := false
	for i := range ends {
		fallbacks = fallbacks || ends[i].Fallback
	}
	if fallbacks {
		w.walkStores(ends, b, optional, filtered, failed)
		return
	}
	for i := range ends {
		w.walkEnd(&ends[i], b, optional, filtered, failed)
	}
}

// walkEnd notes what goes to one end of a node.
func (w *work) walkEnd(e *End, b event.Batch, optional bool, filtered, failed int) {
	optional = optional || e.Optional
	if e.In != nil && b.Count > 0 && !w.through {
		e.In.add(b.Count, len(b.Entries))
	}
	switch {
	case e.Next != nil:
		if e.Tag != "" {
			b.Tag = e.Tag
		}
		w.walk(e.Next, b, optional, filtered, failed)
		return
	case e.Rewrite != nil:
		w.rewrite(e.Rewrite, b, optional, filtered, failed)
		return
	case e.Hold != nil:
		w.hold(e.Hold, b, optional, filtered, failed)
		return
	}
	if filtered > 0 || failed > 0 {
		w.drops = append(w.drops, drop{e.Target, filtered, failed, w.erring})
	}
	if b.Count > 0 {
		w.appends = append(w.appends, appendTo{target: e.Target, batch: b, optional: optional, at: w.at})
	}
}

// hold sends b into a hold. What filters took out before is booked where its events go on.
// Events that this hold has kept too long already, or that go round, are not kept again.
func (w *work) hold(d *Door, b event.Batch, optional bool, filtered, failed int) {
	if w.through || d.Hold == w.from || w.depth >= maxRewrites {
		w.walk(d.Next, b, optional, filtered, failed)
		return
	}
	if filtered > 0 || failed > 0 {
		w.walk(d.Next, event.Batch{Tag: b.Tag}, optional, filtered, failed)
	}
	if b.Count > 0 {
		w.appends = append(w.appends, appendTo{hold: d, shard: d.Hold.shard(b.Tag), batch: b, optional: optional, depth: w.depth, erring: w.erring, at: w.at})
	}
}

// rewrite gives the events of b new tags and lets them go on. What filters took out before
// is booked with what no rule took: it has no tag that would lead to a target.
func (w *work) rewrite(rw *Rewrite, b event.Batch, optional bool, filtered, failed int) {
	if w.depth >= maxRewrites {
		if times, say := w.in.loops.hit(); say {
			w.in.o.Log.Error("rewrite_tag_filter gives events new tags in a circle, they are dropped", "tag", b.Tag, "times", times,
				"hint", "the new tag is matched by the same <match> again: send it to a @label")
		}
		w.appends = append(w.appends, appendTo{target: rw.Unmatched, batch: b})
		return
	}
	if w.retagAt == len(w.retags) {
		w.retags = append(w.retags, &retag.Scratch{})
	}
	s := w.retags[w.retagAt]
	w.retagAt++
	s.Errors = w
	groups, dropped, bad := rw.Rewriter.Apply(s, b.Tag, b.Entries)
	s.Errors = nil
	if filtered+dropped > 0 || failed+bad > 0 {
		w.drops = append(w.drops, drop{rw.Rest, filtered + dropped, failed + bad, w.erring})
	}
	w.depth++
	for i := range groups {
		g := &groups[i]
		next := event.Batch{Tag: g.Tag, Entries: g.Entries, Count: g.Count, First: g.First, Last: g.Last}
		if n := rw.Route(g.Label, g.Tag); n != nil {
			w.walk(n, next, optional, 0, 0)
		} else {
			w.appends = append(w.appends, appendTo{target: rw.Unmatched, batch: next})
		}
	}
	w.depth--
}

// filter runs a chain of filters back and forth between two buffers. They stay taken until
// the batch has been appended everywhere: several ends may read them.
func (w *work) filter(fs []filter.Filter, b event.Batch) (out event.Batch, failed int) {
	base := w.used
	w.used += 2
	for len(w.bufs) < w.used {
		w.bufs = append(w.bufs, nil)
	}
	side, changed := 0, false
	for _, f := range fs {
		if b.Count == 0 {
			break
		}
		buf := &w.bufs[base+side]
		got, kept, bad := f.Apply(&w.scratch, b.Tag, b.Entries, (*buf)[:0])
		failed += bad
		b.Count = kept
		if len(got) > 0 && len(b.Entries) > 0 && &got[0] == &b.Entries[0] {
			continue // unchanged
		}
		*buf = got[:0]
		b.Entries, changed = got, true
		side ^= 1
	}
	if changed && b.Count > 0 {
		// Filters may have changed times or removed the first and the last event.
		if _, first, last, _, err := event.Check(b.Entries); err == nil {
			b.First, b.Last = first, last
		}
	}
	return b, failed
}

// keepScratch is how much working memory a pooled work may keep.
const keepScratch = 4 << 20

func (w *work) release() {
	total := cap(w.scratch.Buf)
	clear(w.appends)
	clear(w.batches)
	clear(w.drops)
	clear(w.places)
	clear(w.later)
	w.chunk, w.known, w.places = event.Chunk{}, event.Chunk{}, w.places[:0]
	w.stores, w.later, w.at, w.routed = w.stores[:0], w.later[:0], 0, 0
	w.in, w.scratch.Errors, w.erring, w.through, w.from = nil, nil, false, false, nil
	for i := range w.errors {
		total += cap(w.errors[i].entries)
	}
	w.errors = w.errors[:0]
	w.drops, w.appends, w.batches, w.used, w.retagAt, w.depth = w.drops[:0], w.appends[:0], w.batches[:0], 0, 0, 0
	for _, s := range w.retags {
		total += s.Size()
	}
	for _, b := range w.bufs {
		total += cap(b)
	}
	if total > keepScratch {
		w.bufs, w.scratch.Buf, w.retags, w.errors = nil, nil, nil, nil
	}
	works.Put(w)
}
