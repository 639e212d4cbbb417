package emulator

import (
	"container/heap"
	"encoding/base64"
	"math"
	"slices"
)

// filterScan is how many events one FilterLogEvents call looks at. Past it the
// page ends, even an empty one, with a token to go on: as the service does.
const filterScan = 200000

type filterInput struct {
	groupSelector
	LogStreamNames      []string `json:"logStreamNames"`
	LogStreamNamePrefix *string  `json:"logStreamNamePrefix"`
	StartTime           *int64   `json:"startTime"`
	EndTime             *int64   `json:"endTime"`
	FilterPattern       *string  `json:"filterPattern"`
	NextToken           *string  `json:"nextToken"`
	Limit               *int64   `json:"limit"`
}

type filterOutput struct {
	Events             []eventOut `json:"events"`
	SearchedLogStreams []struct{} `json:"searchedLogStreams"` // always empty since 2020
	NextToken          string     `json:"nextToken,omitempty"`
}

func filterLogEvents(s *Server, c *call) (any, *apiError) {
	var in filterInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if err := s.checkFilter(&in); err != nil {
		return nil, err
	}
	pat, err := parsePattern(deref(in.FilterPattern))
	if err != nil {
		return nil, err
	}
	name, err := in.resolve()
	if err != nil {
		return nil, err
	}
	streams, err := s.filterStreams(name, &in)
	if err != nil {
		return nil, err
	}
	start, end := int64(0), int64(math.MaxInt64-1)
	if in.StartTime != nil {
		start = *in.StartTime
	}
	if in.EndTime != nil {
		end = min(end, *in.EndTime)
	}
	place := position{start, 0}.prev()
	if in.NextToken != nil {
		b, err := base64.RawURLEncoding.DecodeString(*in.NextToken)
		p, ok := parseID(string(b))
		if err != nil || !ok {
			return nil, errInvalid("The specified nextToken is invalid.")
		}
		if place.less(p) {
			place = p
		}
	}
	limit := s.lim.PageEvents
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	return s.filterPage(mergeStreams(streams, place, end), pat, limit), nil
}

func (s *Server) checkFilter(in *filterInput) *apiError {
	var p problems
	in.check(&s.lim, &p)
	for _, name := range in.LogStreamNames {
		p.checkStream(&s.lim, "logStreamNames", name, true)
	}
	if in.LogStreamNames != nil && len(in.LogStreamNames) == 0 {
		p.addf("'[]'", "logStreamNames", "Member must have length greater than or equal to 1")
	}
	if len(in.LogStreamNames) > 100 {
		p.addf("", "logStreamNames", "Member must have length less than or equal to 100")
	}
	if in.LogStreamNamePrefix != nil {
		p.checkStream(&s.lim, "logStreamNamePrefix", *in.LogStreamNamePrefix, true)
	}
	if n := len([]rune(deref(in.FilterPattern))); n > 1024 {
		p.addf(quoted(*in.FilterPattern), "filterPattern", "Member must have length less than or equal to 1024")
	}
	p.checkRange("limit", in.Limit, 1, int64(s.lim.PageEvents))
	p.checkRange("startTime", in.StartTime, 0, math.MaxInt64)
	p.checkRange("endTime", in.EndTime, 0, math.MaxInt64)
	if err := p.err(); err != nil {
		return err
	}
	if in.LogStreamNames != nil && in.LogStreamNamePrefix != nil {
		return errInvalid("LogStreamNames and LogStreamNamePrefix are mutually exclusive parameters.")
	}
	if in.StartTime != nil && in.EndTime != nil && *in.EndTime < *in.StartTime {
		return errInvalid("End time should not be less than start time.")
	}
	return nil
}

// filterStreams picks the streams to search. A name that doesn't exist is an
// error; a prefix that matches nothing is not.
func (s *Server) filterStreams(groupName string, in *filterInput) ([]*stream, *apiError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[groupName]
	if g == nil {
		return nil, errGroupNotFound()
	}
	if in.LogStreamNames == nil {
		return g.sortedStreams(deref(in.LogStreamNamePrefix)), nil
	}
	names := slices.Clone(in.LogStreamNames)
	slices.Sort(names)
	var out []*stream
	for _, name := range slices.Compact(names) {
		st := g.streams[name]
		if st == nil {
			return nil, errStreamNotFound()
		}
		out = append(out, st)
	}
	return out, nil
}

// cursor is a stream's events not yet merged.
type cursor struct {
	name   string
	events []ref
}

// cursors is a heap by the position of the first event.
type cursors []cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	return h[i].events[0].position().less(h[j].events[0].position())
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)   { *h = append(*h, x.(cursor)) }

func (h *cursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// advance drops the first event.
func (h *cursors) advance() {
	cur := &(*h)[0]
	if cur.events = cur.events[1:]; len(cur.events) == 0 {
		heap.Pop(h)
		return
	}
	heap.Fix(h, 0)
}

// mergeStreams prepares the events behind place up to the time end, inclusive.
func mergeStreams(streams []*stream, place position, end int64) *cursors {
	h := make(cursors, 0, len(streams))
	for _, st := range streams {
		events := st.sorted()
		low, high := after(events, place), from(events, end+1)
		if low < high {
			h = append(h, cursor{st.name, events[low:high]})
		}
	}
	heap.Init(&h)
	return &h
}

// filterPage merges until the page is full.
func (s *Server) filterPage(h *cursors, pat pattern, limit int) filterOutput {
	out := filterOutput{Events: []eventOut{}, SearchedLogStreams: []struct{}{}}
	size := 0
	var last position
	for scanned := 0; h.Len() > 0; scanned++ {
		cur := &(*h)[0]
		r := cur.events[0]
		message := r.c.message(int(r.i))
		match := pat.match(message)
		cost := len(message) + s.lim.EventOverhead
		if len(out.Events) == limit || scanned == filterScan || match && len(out.Events) > 0 && size+cost > s.lim.PageBytes {
			out.NextToken = base64.RawURLEncoding.EncodeToString([]byte(last.id()))
			return out
		}
		last = r.position()
		if match {
			size += cost
			out.Events = append(out.Events, eventOut{
				LogStreamName: cur.name, Timestamp: r.ts(), Message: string(message), IngestionTime: r.c.ingested, EventID: last.id(),
			})
		}
		h.advance()
	}
	return out
}
