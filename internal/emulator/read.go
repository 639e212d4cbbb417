package emulator

import (
	"math"
	"sort"
	"strconv"
	"strings"
)

// position orders events: by timestamp, then by order of acceptance. An event
// id is a position in decimal, so ids sort like events and a token can name a
// place between two events.
type position struct {
	ts      int64
	ordinal uint64
}

func (a position) less(b position) bool {
	return a.ts < b.ts || a.ts == b.ts && a.ordinal < b.ordinal
}

// next and prev are the neighbouring places, where no event lies in between.
func (a position) next() position { return position{a.ts, a.ordinal + 1} }

func (a position) prev() position {
	if a.ordinal > 0 {
		return position{a.ts, a.ordinal - 1}
	}
	return position{a.ts - 1, math.MaxUint64}
}

func (r ref) position() position { return position{r.ts(), r.ordinal()} }

// id has 56 digits, as the service's event ids have.
func (a position) id() string { return "3" + pad(uint64(max(a.ts, 0)), 19) + pad(a.ordinal, 36) }

func parseID(s string) (p position, ok bool) {
	if len(s) != 56 || s[0] != '3' {
		return p, false
	}
	ts, err1 := strconv.ParseUint(s[1:20], 10, 63)
	ordinal, err2 := strconv.ParseUint(s[20:], 10, 64)
	return position{int64(ts), ordinal}, err1 == nil && err2 == nil
}

// after returns the index of the first event behind p.
func after(events []ref, p position) int {
	return sort.Search(len(events), func(i int) bool { return p.less(events[i].position()) })
}

// from returns the index of the first event with a timestamp of at least ts.
func from(events []ref, ts int64) int {
	return sort.Search(len(events), func(i int) bool { return events[i].ts() >= ts })
}

type eventOut struct {
	LogStreamName string `json:"logStreamName,omitempty"`
	Timestamp     int64  `json:"timestamp"`
	Message       string `json:"message"`
	IngestionTime int64  `json:"ingestionTime"`
	EventID       string `json:"eventId,omitempty"`
}

type getInput struct {
	groupSelector
	LogStreamName *string `json:"logStreamName"`
	StartTime     *int64  `json:"startTime"`
	EndTime       *int64  `json:"endTime"`
	NextToken     *string `json:"nextToken"`
	Limit         *int64  `json:"limit"`
	StartFromHead bool    `json:"startFromHead"`
}

type getOutput struct {
	Events            []eventOut `json:"events"`
	NextForwardToken  string     `json:"nextForwardToken"`
	NextBackwardToken string     `json:"nextBackwardToken"`
}

func getLogEvents(s *Server, c *call) (any, *apiError) {
	var in getInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	in.check(&s.lim, &p)
	p.checkStream(&s.lim, "logStreamName", deref(in.LogStreamName), in.LogStreamName != nil)
	p.checkRange("limit", in.Limit, 1, int64(s.lim.PageEvents))
	p.checkRange("startTime", in.StartTime, 0, math.MaxInt64)
	p.checkRange("endTime", in.EndTime, 0, math.MaxInt64)
	if err := p.err(); err != nil {
		return nil, err
	}
	name, err := in.resolve()
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	_, st, err := s.find(name, *in.LogStreamName)
	s.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	return s.pageEvents(st.sorted(), &in)
}

// pageEvents cuts one page out of a stream. A token names a place and a
// direction; at the end of the stream in that direction the same token comes
// back, which is how clients know that they have read everything.
func (s *Server) pageEvents(events []ref, in *getInput) (any, *apiError) {
	start, end := int64(0), int64(math.MaxInt64)
	if in.StartTime != nil {
		start = *in.StartTime
	}
	if in.EndTime != nil {
		end = *in.EndTime
	}
	if in.EndTime != nil && end < start {
		return nil, errInvalid("End time should not be less than start time.")
	}
	limit := s.lim.PageEvents
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	low, high := from(events, start), from(events, end)
	high = max(low, high)

	forward, place := in.StartFromHead, position{start, 0}.prev()
	if start == 0 {
		place = position{}
	}
	if !forward && high > low {
		place = events[high-1].position().next()
	}
	if in.NextToken != nil {
		var ok bool
		if forward, place, ok = parseToken(*in.NextToken); !ok {
			return nil, errInvalid("The specified nextToken is invalid.")
		}
	}
	if forward {
		low = max(low, min(high, after(events, place)))
		high = low + s.fit(events[low:high], limit, false)
	} else {
		high = max(low, min(high, after(events, place.prev())))
		low = high - s.fit(events[low:high], limit, true)
	}
	out := getOutput{Events: make([]eventOut, 0, high-low)}
	for _, r := range events[low:high] {
		out.Events = append(out.Events, eventOut{Timestamp: r.ts(), Message: string(r.c.message(int(r.i))), IngestionTime: r.c.ingested})
	}
	if low < high {
		out.NextBackwardToken = token('b', events[low].position())
		out.NextForwardToken = token('f', events[high-1].position())
		return out, nil
	}
	if forward {
		out.NextForwardToken, out.NextBackwardToken = token('f', place), token('b', place.next())
	} else {
		out.NextForwardToken, out.NextBackwardToken = token('f', place.prev()), token('b', place)
	}
	return out, nil
}

// fit returns how many events from the start (or the end) make up a page.
func (s *Server) fit(events []ref, limit int, fromEnd bool) int {
	size := 0
	for n := range events {
		r := events[n]
		if fromEnd {
			r = events[len(events)-1-n]
		}
		size += len(r.c.message(int(r.i))) + s.lim.EventOverhead
		if n == limit || n > 0 && size > s.lim.PageBytes {
			return n
		}
	}
	return len(events)
}

func token(direction byte, p position) string {
	return string(direction) + "/" + p.id() + "/s"
}

func parseToken(t string) (forward bool, p position, ok bool) {
	parts := strings.Split(t, "/")
	if len(parts) != 3 || parts[2] != "s" || parts[0] != "f" && parts[0] != "b" {
		return false, p, false
	}
	p, ok = parseID(parts[1])
	return parts[0] == "f", p, ok
}
