package buffer

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// modelLoss is what the model knows of one call of Miss.
type modelLoss struct {
	reason ledger.Reason
	tag    string
	events uint64
	after  int  // Seq of the last batch appended before it
	gap    Seq  // the gap that brought it; 0: none so far
	told   bool // and that was told
	sure   bool // it must survive a kill
}

// missReasons are used by nothing else in the model.
var missReasons = []ledger.Reason{ledger.WireLoss, ledger.FilterFailed}

func (m *model) lastBatch() int {
	for i := len(m.batches); i > 0; i-- {
		if !m.batches[i-1].miss {
			return i
		}
	}
	return 0
}

func (m *model) miss(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "losses") {
		l := &modelLoss{
			reason: rapid.SampledFrom(missReasons).Draw(t, "reason"),
			tag:    rapid.SampledFrom([]string{"a", "b.c"}).Draw(t, "tag"),
			events: uint64(rapid.IntRange(1, 9).Draw(t, "events")),
			after:  m.lastBatch(),
		}
		if err := m.b.Miss(l.tag, l.reason, Loss{Events: l.events, Bytes: 10 * l.events, First: event.Unix(1, 0), Last: event.Unix(2, 0)}); err != nil {
			t.Fatal(err)
		}
		m.losses = append(m.losses, l)
	}
	if m.writtenDown() {
		for _, l := range m.losses {
			l.sure = true
		}
	}
}

// writtenDown tells whether all that was lost is in the journal or in the door file.
func (m *model) writtenDown() bool {
	m.b.journalMu.Lock()
	defer m.b.journalMu.Unlock()
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	f := &m.b.journal.doorFile
	return f.made && f.losses == m.b.losses
}

// old tells whether there are batches that can be given up.
func (m *model) old() bool {
	b := m.b
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault == nil && (b.noSpace == nil || vfs.IsFull(b.noSpace)) && !b.unstored() && b.droppable() >= 0
}

func (m *model) fill(t *rapid.T) {
	capacity := int64(rapid.IntRange(8<<10, 64<<10).Draw(t, "capacity"))
	if rapid.Bool().Draw(t, "more") {
		capacity += m.fs.Used() // it is not full yet
	}
	m.fs.SetCapacity(capacity)
}

// replaced finds gaps that stand after a start where there was a batch that was not stored.
func (m *model) replaced() {
	for _, d := range m.b.drops {
		for seq := d.Start.Seq; d.Miss && seq < d.End.Seq; seq++ {
			if mb := m.batches[seq-1]; mb != nil && !mb.miss {
				if int(seq) <= m.acked && !m.power {
					m.t.Fatalf("a gap stands in the place of the acknowledged batch %d\n%s", seq, m.logged.String())
				}
				m.batches[seq-1] = &modelBatch{miss: true}
			}
		}
	}
	for _, l := range m.losses {
		for l.after > 0 && (l.after > len(m.batches) || m.batches[l.after-1].miss) {
			l.after--
		}
	}
}

// survivors finds out after a start which losses are remembered: of each reason the first
// ones, and all those that had to be.
func (m *model) survivors() {
	m.given = nil
	book := m.o.Book.Sheet()
	if m.power {
		return
	}
	var keep []*modelLoss
	for _, r := range missReasons {
		left := book.Dropped[r] // all there ever were, less those told before
		for _, l := range m.losses {
			if l.reason != r {
				continue
			}
			if l.events > left {
				if l.sure || l.after < m.acked && m.ackedBehind(l) {
					m.t.Fatalf("loss %+v is forgotten, acknowledged up to %d\n%s", l, m.acked, m.logged.String())
				}
				left = 0
				continue
			}
			left -= l.events
			if int(l.gap) > m.read && !l.told {
				l.gap = 0
			}
			l.sure = true
			keep = append(keep, l)
		}
		if left != 0 {
			m.t.Fatalf("%d events are booked as %v that nobody lost\n%s", left, r, m.logged.String())
		}
	}
	slices.SortStableFunc(keep, func(x, y *modelLoss) int { return x.after - y.after })
	m.losses = keep
}

// ackedBehind tells whether a batch that was appended after l was acknowledged as stored.
func (m *model) ackedBehind(l *modelLoss) bool {
	for i := l.after; i < m.acked; i++ {
		if !m.batches[i].miss {
			return true
		}
	}
	return false
}

// takeMiss compares a gap with the losses of which it must tell; false if it is of batches.
func (m *model) takeMiss(g *Gap) bool {
	if int(g.First) > len(m.batches) || m.batches[g.First-1].miss {
		for int(g.Last) > len(m.batches) {
			m.batches = append(m.batches, &modelBatch{miss: true})
		}
	}
	if !m.batches[g.First-1].miss || g.Reason == ledger.Damaged {
		return false
	}
	if m.power && slices.ContainsFunc(m.batches[g.First-1:g.Last], func(mb *modelBatch) bool { return !mb.miss }) {
		return false // the power cut took a gap that is known only by its Seq now
	}
	m.give(g)
	if tagSum(g) != g.Events || int(g.First) <= m.read && !m.power {
		m.t.Fatalf("gap %+v after %d\n%s", g, m.read, m.logged.String())
	}
	for seq := g.First; seq <= g.Last; seq++ {
		if !m.batches[seq-1].miss && !m.power {
			m.t.Fatalf("gap %+v covers the batch %d\n%s", g, seq, m.logged.String())
		}
	}
	if !slices.Contains(missReasons, g.Reason) || m.power {
		return true
	}
	after := 0
	for i := int(g.First) - 1; i > 0 && after == 0; i-- {
		if !m.batches[i-1].miss {
			after = i
		}
	}
	left := g.Events
	tags := map[string]uint64{}
	for _, l := range m.losses {
		if l.reason == g.Reason && l.after == after && l.gap == 0 && left >= l.events {
			l.gap = g.First
			left -= l.events
			tags[l.tag] += l.events
		}
	}
	for tag, n := range tags {
		if g.Tags[tag].Events != n || g.Tags[tag].Bytes != 10*n {
			left = 1
		}
	}
	if left != 0 {
		m.t.Fatalf("gap %+v is not what was lost behind %d: %v\n%s", g, after, tags, m.logged.String())
	}
	return true
}

func tagSum(g *Gap) (n uint64) {
	for _, l := range g.Tags {
		n += l.Events
	}
	return n
}

// tell draws gaps that are told now.
func (m *model) tell(t *rapid.T) (told []Seq) {
	if !m.o.Tell {
		return nil
	}
	for range rapid.IntRange(0, len(m.given)).Draw(t, "told") {
		told = append(told, m.tellOne(rapid.IntRange(0, len(m.given)-1).Draw(t, "gap")))
	}
	return told
}

func (m *model) tellAll() (told []Seq) {
	for m.o.Tell && len(m.given) > 0 {
		told = append(told, m.tellOne(0))
	}
	return told
}

func (m *model) tellOne(i int) Seq {
	g := m.given[i]
	m.given = slices.Delete(m.given, i, i+1)
	for _, l := range m.losses {
		l.told = l.told || l.gap == g.First && l.reason == g.Reason
	}
	if m.known == nil {
		m.known = map[Seq]bool{}
	}
	m.known[g.First] = true
	m.told.Add(ledger.Fate{Class: ledger.Dropped, Reason: g.Reason}, g.Events)
	return g.First
}

func (m *model) tellSome(t *rapid.T) {
	told := m.tell(t)
	if len(told) == 0 {
		return
	}
	fmt.Fprintln(&m.logged, "tell", told)
	if err := m.b.Settle(nil, told...); err != nil {
		t.Fatal(err)
	}
	if err := m.b.Settle(nil, told[0]); !errors.Is(err, ErrGone) {
		t.Fatalf("told twice: %v", err)
	}
}

// untoldStay is that the mark does not pass what was not told.
func (m *model) untoldStay() {
	s := m.b.Stats()
	if !m.o.Tell {
		if s.Untold != 0 {
			m.t.Fatal("untold gaps without Tell")
		}
		return
	}
	for _, g := range m.given {
		if s.Mark >= g.First || s.Untold == 0 {
			m.t.Fatalf("the mark is at %d, gap %+v is untold, of %d\n%s", s.Mark, g, s.Untold, m.logged.String())
		}
	}
}

func (m *model) rewind(*rapid.T) {
	m.b.Rewind()
	s := m.b.Stats()
	m.read, m.held = int(s.Mark), nil
	for _, g := range m.given {
		for _, l := range m.losses {
			if l.gap == g.First && l.reason == g.Reason {
				l.gap = 0
			}
		}
	}
	m.given = nil
	fmt.Fprintln(&m.logged, "rewind to", s.Mark)
}

// give notes that g was handed out and is to be told.
func (m *model) give(g *Gap) {
	if m.known[g.First] && !m.power {
		m.t.Fatalf("gap %+v was told and comes again\n%s", g, m.logged.String())
	}
	if m.o.Tell {
		m.given = append(m.given, *g)
	}
}

func (m *model) giveUp(*rapid.T) {
	fmt.Fprintln(&m.logged, "give up", m.b.GiveUp(ledger.BufferFull))
}

// chunks is that the ids of the last batches are known after a start, in order, and none of
// batches that were not stored.
func (m *model) chunks() {
	if m.power {
		return
	}
	var want []event.Chunk
	for _, mb := range m.batches {
		if !mb.chunk.IsZero() {
			want = append(want, mb.chunk)
		}
	}
	got := m.b.Chunks()
	unknown := slices.ContainsFunc(got, func(c event.Chunk) bool { return !slices.Contains(want, c) })
	n := min(len(want), leastChunks)
	good := len(got) >= n && len(got) <= len(want) && slices.Equal(got[len(got)-n:], want[len(want)-n:])
	if own := m.b.own; own.Dropped[ledger.BufferFull]+own.Dropped[ledger.DiskFull] > 0 {
		// With segments given up in between it is only sure to know the last one.
		good = len(want) == 0 || slices.Contains(got, want[len(want)-1])
	}
	if unknown || !good {
		m.t.Fatalf("chunks %v, want the last of %v\n%s", got, want, m.logged.String())
	}
}

// shared is that the Share knows what the buffer takes.
func (m *model) shared() {
	if m.share == 0 {
		return
	}
	b := m.b
	b.mu.Lock()
	used, n := m.o.Share.Used(), b.occupied()
	b.mu.Unlock()
	if used != n || used > m.share && !m.power {
		m.t.Fatalf("the share has %d bytes, the buffer %d\n%s", used, n, m.logged.String())
	}
}

// accounted is that each loss was told once.
func (m *model) accounted() {
	if !m.o.Tell || m.power {
		return
	}
	book := m.o.Book.Sheet()
	for _, r := range append([]ledger.Reason{ledger.BufferFull, ledger.DiskFull}, missReasons...) {
		if m.told.Dropped[r] != book.Dropped[r] {
			m.t.Fatalf("%d events dropped as %v, told of %d\n%s", book.Dropped[r], r, m.told.Dropped[r], m.logged.String())
		}
	}
}
