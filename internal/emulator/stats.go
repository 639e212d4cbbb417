package emulator

import (
	"maps"
	"sync"
	"time"
)

// Stats counts what the server has done since it started.
type Stats struct {
	Start time.Time `json:"start"`
	// Requests counts by operation and outcome. An outcome is "ok", the type
	// of the error ("ThrottlingException"), "fault:" and the kind of the rule
	// that struck ("fault:lost_answer"), or "connection_lost".
	Requests map[string]map[string]int64 `json:"requests"`
	// Events and Bytes were accepted (bytes as the service counts them, with
	// 26 for each event); the rejected ones came back in an answer 200.
	// An event that is both too old and expired counts as expired.
	Events          int64 `json:"events"`
	Bytes           int64 `json:"bytes"`
	RejectedTooOld  int64 `json:"rejected_too_old"`
	RejectedTooNew  int64 `json:"rejected_too_new"`
	RejectedExpired int64 `json:"rejected_expired"`
	// Groups, Streams, and the events and bytes of memory that they hold now.
	Groups        int   `json:"groups"`
	Streams       int   `json:"streams"`
	RetainedBytes int64 `json:"retained_bytes"`
	EvictedEvents int64 `json:"evicted_events"`
}

type stats struct {
	start time.Time

	mu sync.Mutex // guards the rest
	s  Stats
}

func (st *stats) count(op, outcome string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.s.Requests == nil {
		st.s.Requests = make(map[string]map[string]int64)
	}
	m := st.s.Requests[op]
	if m == nil {
		m = make(map[string]int64)
		st.s.Requests[op] = m
	}
	m[outcome]++
}

// countEvents counts an accepted call; size is that of the whole batch.
func (st *stats) countEvents(w window, accepted int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Events += int64(w.high - w.low)
	st.s.Bytes += accepted
	st.s.RejectedTooNew += int64(w.n - w.high)
	st.s.RejectedExpired += int64(w.expired)
	st.s.RejectedTooOld += int64(w.low - w.expired)
}

// Stats returns a copy of the counters.
func (s *Server) Stats() Stats {
	s.stats.mu.Lock()
	out := s.stats.s
	out.Start = s.stats.start
	out.Requests = make(map[string]map[string]int64, len(s.stats.s.Requests))
	for op, m := range s.stats.s.Requests {
		out.Requests[op] = maps.Clone(m)
	}
	s.stats.mu.Unlock()

	s.mu.RLock()
	out.Groups = len(s.groups)
	var all []*stream
	for _, g := range s.groups {
		for _, st := range g.streams {
			all = append(all, st)
		}
	}
	s.mu.RUnlock()
	out.Streams = len(all)
	for _, st := range all {
		st.mu.Lock()
		out.EvictedEvents += st.evicted
		st.mu.Unlock()
	}
	s.retained.mu.Lock()
	out.RetainedBytes = s.retained.bytes
	s.retained.mu.Unlock()
	return out
}

// GroupInfo describes a log group.
type GroupInfo struct {
	Name          string
	Created       time.Time
	RetentionDays int // 0: never expires
	Class         string
	KMSKeyID      string
	Tags          map[string]string
	Streams       int
	Events        int64 // accepted ever, over the streams that exist
	Bytes         int64 // likewise, 26 for each event included
	LastIngestion time.Time
}

// StreamInfo describes a log stream. Times are zero while it has no events.
type StreamInfo struct {
	Name                                 string
	Created                              time.Time
	FirstEvent, LastEvent, LastIngestion time.Time
	Events, Bytes                        int64
	// Evicted events were accepted and then forgotten for Options.MaxBytes.
	Evicted int64
}

// Event is one accepted event.
type Event struct {
	Timestamp int64 // milliseconds, as sent
	Ingestion int64 // milliseconds, the service's clock
	Message   string
	// Request numbers the accepted PutLogEvents call, from 1, over the whole
	// server; Index is the event's place among those accepted of that call.
	Request int64
	Index   int
}

// Groups lists all log groups by name.
func (s *Server) Groups() []GroupInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	groups := s.sortedGroups("", "")
	out := make([]GroupInfo, len(groups))
	for i, g := range groups {
		out[i] = g.info()
	}
	return out
}

// info describes g. The caller holds Server.mu.
func (g *group) info() GroupInfo {
	gi := GroupInfo{
		Name: g.name, Created: time.UnixMilli(g.created), RetentionDays: g.retention, Class: g.class,
		KMSKeyID: g.kmsKey, Tags: maps.Clone(g.tags), Streams: len(g.streams),
	}
	last := int64(0)
	for _, st := range g.streams {
		st.mu.Lock()
		gi.Events += st.events
		gi.Bytes += st.bytes
		last = max(last, st.lastIngst)
		st.mu.Unlock()
	}
	if last > 0 {
		gi.LastIngestion = time.UnixMilli(last)
	}
	return gi
}

// Streams lists the streams of a group by name; nil when there is no such group.
func (s *Server) Streams(groupName string) []StreamInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[groupName]
	if g == nil {
		return nil
	}
	streams := g.sortedStreams("")
	out := make([]StreamInfo, len(streams))
	for i, st := range streams {
		out[i] = st.info()
	}
	return out
}

func (st *stream) info() StreamInfo {
	st.mu.Lock()
	defer st.mu.Unlock()
	si := StreamInfo{Name: st.name, Created: time.UnixMilli(st.created), Events: st.events, Bytes: st.bytes, Evicted: st.evicted}
	if st.events > 0 {
		si.FirstEvent, si.LastEvent = time.UnixMilli(st.firstTS), time.UnixMilli(st.lastTS)
		si.LastIngestion = time.UnixMilli(st.lastIngst)
	}
	return si
}

// Events returns the events of a stream in order of acceptance (not of
// timestamps), without those that were evicted.
func (s *Server) Events(groupName, streamName string) []Event {
	var out []Event
	s.Walk(groupName, streamName, func(e Event) bool {
		out = append(out, e)
		return true
	})
	return out
}

// Walk calls fn for each event of a stream in order of acceptance until fn
// returns false. It looks at the stream as it was when Walk was called.
func (s *Server) Walk(groupName, streamName string, fn func(Event) bool) {
	s.mu.RLock()
	_, st, err := s.find(groupName, streamName)
	s.mu.RUnlock()
	if err != nil {
		return
	}
	for _, c := range st.snapshot() {
		for i, ts := range c.ts {
			if !fn(Event{Timestamp: ts, Ingestion: c.ingested, Message: string(c.message(i)), Request: c.request, Index: i}) {
				return
			}
		}
	}
}
