package emulator

import (
	"hash/maphash"
	"slices"
	"sort"
	"strings"
	"sync"
)

// chunk holds the events that one PutLogEvents call added to a stream. It is
// never changed after it was made, so readers may use it without a lock.
type chunk struct {
	stream   *stream
	request  int64  // number of the accepted call, from 1, over the whole server
	ordinal  uint64 // number of its first event, over the whole server
	ingested int64  // milliseconds

	ts   []int64
	ends []uint32
	data []byte
}

// message borrows the i-th message.
func (c *chunk) message(i int) []byte {
	if c.data == nil { // Options.Discard
		return nil
	}
	start := uint32(0)
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.data[start:c.ends[i]]
}

// cost is what the chunk holds in memory, about.
func (c *chunk) cost() int64 { return int64(len(c.data)) + 12*int64(len(c.ts)) + 160 }

// ref points at one event.
type ref struct {
	c *chunk
	i uint32
}

func (r ref) ts() int64       { return r.c.ts[r.i] }
func (r ref) ordinal() uint64 { return r.c.ordinal + uint64(r.i) }

// stream is one log stream.
type stream struct {
	id      uint64
	name    string
	group   *group
	created int64

	mu      sync.Mutex
	deleted bool
	chunks  []*chunk // in order of acceptance; never overwritten in place
	index   []ref    // by (timestamp, acceptance) over chunks[:indexed]; nil after an eviction
	indexed int

	events, bytes, evicted     int64 // accepted ever; bytes as the service counts them; forgotten for memory
	firstTS, lastTS, lastIngst int64

	puts      int64  // accepted calls; the sequence token is derived from it
	lastToken string // token that the last accepted call carried
	lastHash  uint64 // of its messages
}

// group is one log group. Server.mu guards all of it but the streams' events.
type group struct {
	name      string
	created   int64
	class     string
	kmsKey    string
	protected bool
	retention int // days; 0 never expires
	tags      map[string]string
	streams   map[string]*stream
}

// append adds c, which the caller has filled, and updates the figures. The
// caller holds s.mu.
func (s *stream) append(c *chunk, overhead int) {
	s.chunks = append(s.chunks, c)
	first, last := c.ts[0], c.ts[len(c.ts)-1]
	if s.events == 0 || first < s.firstTS {
		s.firstTS = first
	}
	if s.events == 0 || last > s.lastTS {
		s.lastTS = last
	}
	s.lastIngst = max(s.lastIngst, c.ingested)
	s.events += int64(len(c.ts))
	s.bytes += int64(c.ends[len(c.ends)-1]) + int64(overhead)*int64(len(c.ts))
}

// sorted returns the events by timestamp, ties in order of acceptance. The
// slice stays valid after the lock is released: later calls append behind it
// or build a new one.
func (s *stream) sorted() []ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.indexed < len(s.chunks); s.indexed++ {
		c := s.chunks[s.indexed]
		n := len(s.index)
		late := n > 0 && c.ts[0] < s.index[n-1].ts()
		if late {
			// Events of this call belong before ones already listed: sort
			// the part from there on, in a copy, since readers hold the old.
			from := sort.Search(n, func(i int) bool { return s.index[i].ts() > c.ts[0] })
			s.index = slices.Clone(s.index)
			s.addRefs(c)
			slices.SortStableFunc(s.index[from:], func(a, b ref) int { return cmpInt(a.ts(), b.ts()) })
			continue
		}
		s.addRefs(c)
	}
	return s.index
}

func (s *stream) addRefs(c *chunk) {
	for i := range c.ts {
		s.index = append(s.index, ref{c, uint32(i)})
	}
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// snapshot returns the chunks in order of acceptance.
func (s *stream) snapshot() []*chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chunks
}

// find returns a stream, or which of the two names is unknown. The caller
// holds Server.mu.
func (s *Server) find(groupName, streamName string) (*group, *stream, *apiError) {
	g := s.groups[groupName]
	if g == nil {
		return nil, nil, errGroupNotFound()
	}
	st := g.streams[streamName]
	if st == nil {
		return g, nil, errStreamNotFound()
	}
	return g, st, nil
}

// sortedGroups lists the groups whose names contain substr, by name. The
// caller holds Server.mu.
func (s *Server) sortedGroups(prefix, substr string) []*group {
	out := make([]*group, 0, len(s.groups))
	for name, g := range s.groups {
		if strings.HasPrefix(name, prefix) && strings.Contains(name, substr) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	return out
}

// sortedStreams lists streams by name. The caller holds Server.mu.
func (g *group) sortedStreams(prefix string) []*stream {
	out := make([]*stream, 0, len(g.streams))
	for name, st := range g.streams {
		if strings.HasPrefix(name, prefix) {
			out = append(out, st)
		}
	}
	slices.SortFunc(out, func(a, b *stream) int { return strings.Compare(a.name, b.name) })
	return out
}

// retained bounds the memory of all events: past its maximum the oldest
// accepted calls are forgotten, whatever their stream. (The alternative, to
// refuse new events, would look to a client like a fault of the service.)
type retained struct {
	mu    sync.Mutex
	max   int64
	bytes int64
	queue []*chunk // in about the order of acceptance; exactly so within a stream
	head  int
}

// add takes c and returns the chunks to forget: enough for an eighth of room,
// so that the work of an eviction is spread over many calls. The caller holds
// c.stream.mu, and must let go of it before it calls forget.
func (r *retained) add(c *chunk) []*chunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, c)
	r.bytes += c.cost()
	if r.bytes <= r.max {
		return nil
	}
	from := r.head
	for r.head < len(r.queue)-1 && r.bytes > r.max-r.max/8 {
		r.bytes -= r.queue[r.head].cost()
		r.head++
	}
	victims := slices.Clone(r.queue[from:r.head])
	if r.head > len(r.queue)/2 {
		r.queue = slices.Clone(r.queue[r.head:])
		r.head = 0
	}
	return victims
}

// remove takes the chunks of deleted streams out of the account.
func (r *retained) remove(gone map[*stream]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := make([]*chunk, 0, len(r.queue)-r.head)
	for _, c := range r.queue[r.head:] {
		if gone[c.stream] {
			r.bytes -= c.cost()
			continue
		}
		keep = append(keep, c)
	}
	r.queue, r.head = keep, 0
}

// oldest returns the smallest request number still kept, or next if none.
func (r *retained) oldest(next int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.queue[r.head:] {
		next = min(next, c.request)
	}
	return next
}

// forget drops the victims from their streams, one copy per stream.
func forget(victims []*chunk) {
	counts := make(map[*stream]int)
	for _, c := range victims {
		counts[c.stream]++
	}
	for st, n := range counts {
		st.mu.Lock()
		n = min(n, len(st.chunks))
		for _, c := range st.chunks[:n] {
			st.evicted += int64(len(c.ts))
		}
		st.chunks = slices.Clone(st.chunks[n:])
		st.index, st.indexed = nil, 0
		st.mu.Unlock()
	}
}

// hashMessages identifies the messages of a call, boundaries included.
func hashMessages(seed maphash.Seed, ends []uint32, data []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var b [4]byte
	for _, e := range ends {
		b[0], b[1], b[2], b[3] = byte(e), byte(e>>8), byte(e>>16), byte(e>>24)
		h.Write(b[:])
	}
	h.Write(data)
	return h.Sum64()
}
