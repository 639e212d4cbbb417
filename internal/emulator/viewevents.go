package emulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"time"
)

const (
	pageRows    = 200  // events on a page
	pageStreams = 1000 // streams that a search over a group looks into, the busiest last ingestion first
)

// row is one event on the page.
type row struct {
	ID      string
	Time    time.Time
	Stream  string
	Message string
	Pretty  string // indented JSON, when the message is a JSON object
}

type eventsData struct {
	Title          string
	Group, Stream  string
	Query          string
	Error          string
	Follow         bool
	Before         string
	Rows           []row
	Older          string // id of the first row when there are older events
	Last           string // id of the last row, for following
	Limited        int    // streams that were left out
	Total          int64
	Evicted        int64
	Path, Live, Up string
}

// serveEvents shows the newest events (or those before an id) of a stream or
// of all streams of a group, oldest first; as a page, or only the rows behind
// an id for a page that follows.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, tmpl string) {
	d := &eventsData{
		Group: r.FormValue("group"), Stream: r.FormValue("stream"), Query: r.FormValue("q"),
		Follow: r.FormValue("follow") != "", Before: r.FormValue("before"),
	}
	s.mu.RLock()
	var streams []*stream
	g := s.groups[d.Group]
	if g != nil {
		if d.Stream == "" {
			streams = g.sortedStreams("")
		} else if st := g.streams[d.Stream]; st != nil {
			streams = []*stream{st}
		}
	}
	s.mu.RUnlock()
	if g == nil {
		s.missing(w, "log group "+d.Group)
		return
	}
	if d.Stream != "" && streams == nil {
		s.missing(w, "log stream "+d.Stream+" in "+d.Group)
		return
	}
	d.Title = d.Group
	if d.Stream != "" {
		d.Title = d.Stream
	}
	v := url.Values{"group": {d.Group}}
	d.Up = "/group?" + v.Encode()
	if d.Stream != "" {
		v.Set("stream", d.Stream)
	}
	if d.Query != "" {
		v.Set("q", d.Query)
	}
	d.Path = "/events?" + v.Encode()
	pat, apiErr := parsePattern(d.Query)
	if apiErr != nil {
		d.Error = apiErr.Message
	} else {
		s.fillRows(d, streams, pat, r.FormValue("after"))
	}
	status := http.StatusOK
	if d.Error != "" && tmpl == "rows.html" {
		status = http.StatusBadRequest
	}
	w.Header().Set("X-Weir-Last", d.Last)
	s.page(w, tmpl, status, d)
}

// fillRows collects the rows: behind afterID when it is given, else the last
// ones before d.Before.
func (s *Server) fillRows(d *eventsData, streams []*stream, pat pattern, afterID string) {
	for _, st := range streams {
		st.mu.Lock()
		d.Total += st.events
		d.Evicted += st.evicted
		st.mu.Unlock()
	}
	d.Last = afterID
	if p, ok := parseID(afterID); ok {
		h := mergeStreams(streams, p, int64(1)<<62)
		for n := 0; h.Len() > 0 && n < filterScan && len(d.Rows) < 5*pageRows; n++ {
			cur := &(*h)[0]
			e := cur.events[0]
			d.Last = e.position().id()
			if pat.match(e.c.message(int(e.i))) {
				d.Rows = append(d.Rows, newRow(e, d.Stream == ""))
			}
			h.advance()
		}
		return
	}
	streams, d.Limited = recentStreams(streams)
	before, limited := parseID(d.Before)
	var found []ref
	budget, more := filterScan, false
	for _, st := range streams {
		events := st.sorted()
		if limited {
			events = events[:sort.Search(len(events), func(i int) bool { return !events[i].position().less(before) })]
		}
		n := 0
		for i := len(events) - 1; i >= 0; i-- {
			if n > pageRows || budget == 0 {
				more = true
				break
			}
			budget--
			if pat.match(events[i].c.message(int(events[i].i))) {
				found = append(found, events[i])
				n++
			}
		}
	}
	slices.SortFunc(found, func(a, b ref) int {
		if a.position().less(b.position()) {
			return -1
		}
		return 1
	})
	if len(found) > pageRows {
		found, more = found[len(found)-pageRows:], true
	}
	for _, e := range found {
		d.Rows = append(d.Rows, newRow(e, d.Stream == ""))
	}
	d.Last = position{}.id()
	if n := len(d.Rows); n > 0 {
		d.Last = d.Rows[n-1].ID
		if more {
			d.Older = d.Rows[0].ID
		}
	}
}

// recentStreams picks those with the latest ingestion and says how many it left out.
func recentStreams(streams []*stream) ([]*stream, int) {
	if len(streams) <= pageStreams {
		return streams, 0
	}
	last := make(map[*stream]int64, len(streams))
	for _, st := range streams {
		st.mu.Lock()
		last[st] = st.lastIngst
		st.mu.Unlock()
	}
	streams = slices.Clone(streams)
	slices.SortStableFunc(streams, func(a, b *stream) int { return cmpInt(last[b], last[a]) })
	return streams[:pageStreams], len(streams) - pageStreams
}

func newRow(e ref, withStream bool) row {
	message := e.c.message(int(e.i))
	r := row{ID: e.position().id(), Time: time.UnixMilli(e.ts()), Message: string(message)}
	if withStream {
		r.Stream = e.c.stream.name
	}
	if len(message) > 1 && message[0] == '{' && len(message) < 64<<10 {
		var b bytes.Buffer
		if json.Indent(&b, message, "", "  ") == nil {
			r.Pretty = b.String()
		}
	}
	return r
}
