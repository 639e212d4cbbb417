package emulator

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

type streamNames struct {
	groupName
	LogStreamName *string `json:"logStreamName"`
}

// decodeStream reads a body that names a group and a stream.
func (s *Server) decodeStream(c *call) (groupName, streamName string, _ *apiError) {
	var in streamNames
	if err := c.decode(&in); err != nil {
		return "", "", err
	}
	var p problems
	p.checkGroup(&s.lim, "logGroupName", deref(in.LogGroupName), in.LogGroupName != nil)
	p.checkStream(&s.lim, "logStreamName", deref(in.LogStreamName), in.LogStreamName != nil)
	return deref(in.LogGroupName), deref(in.LogStreamName), p.err()
}

func createLogStream(s *Server, c *call) (any, *apiError) {
	groupName, name, err := s.decodeStream(c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[groupName]
	if g == nil {
		return nil, errGroupNotFound()
	}
	if g.streams[name] != nil {
		return nil, newAPIError("ResourceAlreadyExistsException", "The specified log stream already exists")
	}
	s.nextID++
	st := &stream{id: s.nextID, name: name, group: g, created: millis(c.now)}
	if err := s.saveMeta(st.record()); err != nil {
		return nil, err
	}
	g.streams[name] = st
	return nil, nil
}

func deleteLogStream(s *Server, c *call) (any, *apiError) {
	groupName, name, err := s.decodeStream(c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	g, st, err := s.find(groupName, name)
	if err == nil {
		if err = s.saveMeta(metaRecord{Op: "delete_stream", Group: groupName, Stream: name}); err == nil {
			delete(g.streams, name)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.drop([]*stream{st})
	return nil, nil
}

type streamOut struct {
	LogStreamName       string `json:"logStreamName"`
	CreationTime        int64  `json:"creationTime"`
	FirstEventTimestamp *int64 `json:"firstEventTimestamp,omitempty"`
	LastEventTimestamp  *int64 `json:"lastEventTimestamp,omitempty"`
	LastIngestionTime   *int64 `json:"lastIngestionTime,omitempty"`
	UploadSequenceToken string `json:"uploadSequenceToken,omitempty"`
	Arn                 string `json:"arn"`
	// StoredBytes is always 0: the service stopped counting per stream in 2019.
	StoredBytes int64 `json:"storedBytes"`
}

// groupSelector are the two ways to name a group in newer operations.
type groupSelector struct {
	LogGroupName       *string `json:"logGroupName"`
	LogGroupIdentifier *string `json:"logGroupIdentifier"`
}

func (g *groupSelector) check(lim *Limits, p *problems) {
	p.checkGroupOptional(lim, "logGroupName", g.LogGroupName)
}

// resolve returns the one name. The service wants exactly one of the two.
func (g *groupSelector) resolve() (string, *apiError) {
	switch {
	case g.LogGroupName != nil && g.LogGroupIdentifier != nil:
		return "", errInvalid("LogGroup name and LogGroup ARN are mutually exclusive parameters.")
	case g.LogGroupName != nil:
		return *g.LogGroupName, nil
	case g.LogGroupIdentifier != nil:
		if name, ok := groupFromIdentifier(*g.LogGroupIdentifier); ok {
			return name, nil
		}
		return "", errInvalid("The specified logGroupIdentifier is invalid.")
	}
	return "", errInvalid("Either LogGroup name or LogGroup ARN must be specified.")
}

type describeStreamsInput struct {
	groupSelector
	LogStreamNamePrefix *string `json:"logStreamNamePrefix"`
	OrderBy             *string `json:"orderBy"`
	Descending          bool    `json:"descending"`
	NextToken           *string `json:"nextToken"`
	Limit               *int64  `json:"limit"`
}

func describeLogStreams(s *Server, c *call) (any, *apiError) {
	var in describeStreamsInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	in.check(&s.lim, &p)
	if in.LogStreamNamePrefix != nil {
		p.checkStream(&s.lim, "logStreamNamePrefix", *in.LogStreamNamePrefix, true)
	}
	p.checkRange("limit", in.Limit, 1, 50)
	byTime := deref(in.OrderBy) == "LastEventTime"
	if o := deref(in.OrderBy); in.OrderBy != nil && !byTime && o != "LogStreamName" {
		p.addf(quoted(o), "orderBy", "Member must satisfy enum value set: [LogStreamName, LastEventTime]")
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if byTime && in.LogStreamNamePrefix != nil {
		return nil, errInvalid("Cannot order by LastEventTime with a logStreamNamePrefix.")
	}
	name, err := in.resolve()
	if err != nil {
		return nil, err
	}
	after, err := decodeStreamToken(in.NextToken)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	g := s.groups[name]
	var streams []*stream
	if g != nil {
		streams = g.sortedStreams(deref(in.LogStreamNamePrefix))
	}
	s.mu.RUnlock()
	if g == nil {
		return nil, errGroupNotFound()
	}
	return s.pageStreams(streams, &in, byTime, after, s.groupARN(c.region, name)), nil
}

// streamToken is the last item of the page before.
type streamToken struct {
	Last int64  `json:"t"`
	Name string `json:"n"`
}

func decodeStreamToken(token *string) (*streamToken, *apiError) {
	if token == nil {
		return nil, nil
	}
	var t streamToken
	b, err := base64.RawURLEncoding.DecodeString(*token)
	if err != nil || json.Unmarshal(b, &t) != nil {
		return nil, errInvalid("The specified nextToken is invalid.")
	}
	return &t, nil
}

// pageStreams orders the streams, steps over those up to after, and describes
// a page of them.
func (s *Server) pageStreams(streams []*stream, in *describeStreamsInput, byTime bool, after *streamToken, arn string) any {
	type item struct {
		last int64
		out  streamOut
	}
	items := make([]item, len(streams))
	for i, st := range streams {
		items[i].out = st.describe(arn)
		if t := items[i].out.LastEventTimestamp; t != nil && byTime {
			items[i].last = *t
		}
	}
	compare := func(a, b item) int {
		c := cmpInt(a.last, b.last)
		if c == 0 {
			c = strings.Compare(a.out.LogStreamName, b.out.LogStreamName)
		}
		if in.Descending {
			return -c
		}
		return c
	}
	slices.SortFunc(items, compare)
	if after != nil {
		mark := item{last: after.Last, out: streamOut{LogStreamName: after.Name}}
		if !byTime {
			mark.last = 0
		}
		i, found := slices.BinarySearchFunc(items, mark, compare)
		if found {
			i++
		}
		items = items[i:]
	}
	limit := 50
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	out := struct {
		LogStreams []streamOut `json:"logStreams"`
		NextToken  string      `json:"nextToken,omitempty"`
	}{LogStreams: []streamOut{}}
	for i, it := range items {
		if i == limit {
			b, _ := json.Marshal(streamToken{items[i-1].last, items[i-1].out.LogStreamName}) // two plain fields
			out.NextToken = base64.RawURLEncoding.EncodeToString(b)
			break
		}
		out.LogStreams = append(out.LogStreams, it.out)
	}
	return out
}

func (st *stream) describe(groupARN string) streamOut {
	st.mu.Lock()
	defer st.mu.Unlock()
	out := streamOut{LogStreamName: st.name, CreationTime: st.created, Arn: groupARN + ":log-stream:" + st.name}
	if st.events > 0 {
		first, last, ingested := st.firstTS, st.lastTS, st.lastIngst
		out.FirstEventTimestamp, out.LastEventTimestamp, out.LastIngestionTime = &first, &last, &ingested
	}
	if st.puts > 0 {
		out.UploadSequenceToken = st.token()
	}
	return out
}
