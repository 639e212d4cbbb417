package emulator

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// putLogEvents accepts a batch. Checks run in this order: the model's
// constraints (all findings in one error), sizes, order of timestamps, group
// and stream, sequence token, acceptance window, span of the valid events.
func putLogEvents(s *Server, c *call) (any, *apiError) {
	q := &c.put
	if err := s.checkPut(q); err != nil {
		return nil, err
	}
	size, err := s.checkContent(q)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	g, st, err := s.find(q.group, q.stream)
	retention := 0
	if g != nil {
		retention = g.retention
	}
	s.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	w := s.window(q.ts, c.now, retention)
	w.force(c.reject, c.rejectShare)
	if n := w.high - w.low; n > 0 {
		if span := q.ts[w.high-1] - q.ts[w.low]; span > s.lim.BatchSpan.Milliseconds() {
			return nil, errInvalid("The batch of log events in a single PutLogEvents request cannot span more than 24 hours.")
		}
	}
	token, err := s.accept(c, st, w)
	if err != nil {
		return nil, err
	}
	s.stats.countEvents(w, s.acceptedSize(q, w, size))
	return putAnswer(token, w, rejectedEntity(q.entity)), nil
}

// checkPut applies the constraints of the API model.
func (s *Server) checkPut(q *putRequest) *apiError {
	var p problems
	p.checkGroup(&s.lim, "logGroupName", q.group, q.hasGroup)
	p.checkStream(&s.lim, "logStreamName", q.stream, q.hasStream)
	if q.hasToken && q.token == "" {
		p.addf("''", "sequenceToken", "Member must have length greater than or equal to 1")
	}
	switch n := len(q.ts); {
	case !q.hasEvents:
		p.addf("null", "logEvents", notNull)
	case n == 0:
		p.addf("'[]'", "logEvents", "Member must have length greater than or equal to 1")
	case n > s.lim.BatchEvents:
		p.addf("", "logEvents", "Member must have length less than or equal to %d", s.lim.BatchEvents)
	}
	missing := q.missing
	start := uint32(0)
	for i, ts := range q.ts {
		noTS, noMessage := false, false
		for len(missing) > 0 && missing[0].event == i {
			noMessage = noMessage || missing[0].message
			noTS = noTS || !missing[0].message
			missing = missing[1:]
		}
		end := q.ends[i]
		if end > start && ts >= 0 && !noTS {
			start = end
			continue
		}
		member := "logEvents." + strconv.Itoa(i+1) + ".member."
		switch {
		case noTS:
			p.addf("null", member+"timestamp", notNull)
		case ts < 0:
			p.addf(quoted(itoa(ts)), member+"timestamp", "Member must have value greater than or equal to 0")
		}
		switch {
		case noMessage:
			p.addf("null", member+"message", notNull)
		case end == start:
			p.addf("''", member+"message", "Member must have length greater than or equal to 1")
		}
		start = end
		if len(p) >= 100 { // the real list is cut somewhere, too
			break
		}
	}
	return p.err()
}

// checkContent applies the rules on sizes and order. It returns the size of
// the batch as the service counts it.
func (s *Server) checkContent(q *putRequest) (int64, *apiError) {
	start := uint32(0)
	for _, end := range q.ends {
		if n := int(end-start) + s.lim.EventOverhead; n > s.lim.EventBytes {
			return 0, errInvalid("Log event too large: %d bytes exceeds limit of %d", n, s.lim.EventBytes)
		}
		start = end
	}
	size := len(q.data) + s.lim.EventOverhead*len(q.ts)
	if size > s.lim.BatchBytes {
		return 0, errInvalid("Upload too large: %d bytes exceeds limit of %d", size, s.lim.BatchBytes)
	}
	if !slices.IsSorted(q.ts) {
		return 0, errInvalid("Log events in a single PutLogEvents request must be in chronological order.")
	}
	return int64(size), nil
}

// window says which events of a sorted batch are valid, and why others are
// not. Events [low, high) are valid. The two ends overlap when an event is
// both older than 14 days and older than the group's retention.
type window struct {
	n         int
	low, high int
	tooOld    int // exclusive end
	expired   int // exclusive end
}

func (s *Server) window(ts []int64, now time.Time, retention int) window {
	ms := millis(now)
	before := func(limit int64) int {
		i, _ := slices.BinarySearch(ts, limit)
		return i
	}
	w := window{n: len(ts), tooOld: before(ms - s.lim.MaxAge.Milliseconds())}
	if retention > 0 {
		w.expired = before(ms - int64(retention)*24*time.Hour.Milliseconds())
	}
	w.low = max(w.tooOld, w.expired)
	w.high = max(w.low, before(ms+s.lim.MaxFuture.Milliseconds()+1))
	return w
}

// force applies a fault rule: a share of the batch, at least one event, is
// rejected as if its time were out of bounds.
func (w *window) force(as string, share float64) {
	n := min(w.n, max(1, int(math.Ceil(share*float64(w.n)))))
	switch as {
	case "too_old":
		w.tooOld = max(w.tooOld, n)
	case "expired":
		w.expired = max(w.expired, n)
	case "too_new":
		w.high = min(w.high, w.n-n)
	default:
		return
	}
	w.low = max(w.tooOld, w.expired)
	w.high = max(w.low, w.high)
}

// accept stores the valid events under the stream's lock and returns the next
// sequence token. Nothing is stored when all are rejected.
func (s *Server) accept(c *call, st *stream, w window) (string, *apiError) {
	q := &c.put
	var add *chunk
	if w.high > w.low {
		add = newChunk(q, w.low, w.high, s.opt.Discard)
		add.stream, add.ingested = st, millis(c.now)
	}
	hash := uint64(0)
	if s.opt.StrictTokens {
		hash = hashMessages(s.seed, q.ends, q.data)
	}
	st.mu.Lock()
	if st.deleted {
		st.mu.Unlock()
		return "", errStreamNotFound()
	}
	if s.opt.StrictTokens {
		if err := st.checkToken(q, hash); err != nil {
			st.mu.Unlock()
			return "", err
		}
	}
	var victims []*chunk
	if add != nil {
		n := uint64(len(add.ts))
		add.ordinal = s.ordinals.Add(n) - n + 1 // from 1: position zero lies before all events
		add.request = s.requests.Add(1)
		if s.journal != nil {
			if err := s.journal.appendChunk(add, q.token); err != nil {
				st.mu.Unlock()
				s.log.Error("writing an accepted batch failed; answered 500", "err", err)
				return "", errInternal()
			}
		}
		st.append(add, s.lim.EventOverhead)
		if s.opt.Discard {
			st.chunks = nil
		} else {
			victims = s.retained.add(add)
		}
	}
	st.puts++
	st.lastToken, st.lastHash = q.token, hash
	token := st.token()
	st.mu.Unlock()
	if len(victims) > 0 {
		forget(victims)
		if s.journal != nil {
			s.journal.drop(s.retained.oldest(add.request))
		}
	}
	return token, nil
}

// newChunk copies events [low, high) out of q.
func newChunk(q *putRequest, low, high int, discard bool) *chunk {
	start := uint32(0)
	if low > 0 {
		start = q.ends[low-1]
	}
	c := &chunk{ts: slices.Clone(q.ts[low:high]), ends: slices.Clone(q.ends[low:high])}
	if low > 0 {
		for i := range c.ends {
			c.ends[i] -= start
		}
	}
	if !discard {
		c.data = slices.Clone(q.data[start:q.ends[high-1]])
	}
	return c
}

// checkToken enforces sequence tokens. The caller holds st.mu.
func (st *stream) checkToken(q *putRequest, hash uint64) *apiError {
	want := ""
	if st.puts > 0 {
		want = st.token()
	}
	if q.token == want {
		return nil
	}
	if st.puts > 0 && q.token == st.lastToken && hash == st.lastHash {
		e := newAPIError("DataAlreadyAcceptedException", "The given batch of log events has already been accepted. The next batch can be sent with sequenceToken: %s", want)
		e.Extra = map[string]any{"expectedSequenceToken": want}
		return e
	}
	if want == "" {
		return newAPIError("InvalidSequenceTokenException", "The given sequenceToken is invalid. The next expected sequenceToken is: null")
	}
	e := newAPIError("InvalidSequenceTokenException", "The given sequenceToken is invalid. The next expected sequenceToken is: %s", want)
	e.Extra = map[string]any{"expectedSequenceToken": want}
	return e
}

// token is the token that the next put has to carry, 56 digits. The caller
// holds st.mu.
func (st *stream) token() string {
	return "496" + pad(st.id, 21) + pad(uint64(st.puts), 32)
}

// pad writes v with leading zeros.
func pad(v uint64, width int) string {
	b := make([]byte, width)
	for i := width - 1; i >= 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return string(b)
}

// putAnswer encodes the answer.
func putAnswer(token string, w window, entityError string) []byte {
	b := make([]byte, 0, 256)
	b = append(b, `{"nextSequenceToken":"`...)
	b = append(b, token...)
	b = append(b, '"')
	if w.low > 0 || w.high < w.n {
		b = append(b, `,"rejectedLogEventsInfo":{`...)
		sep := ""
		field := func(name string, v int) {
			b = append(b, sep...)
			b = append(b, '"')
			b = append(b, name...)
			b = append(b, `":`...)
			b = strconv.AppendInt(b, int64(v), 10)
			sep = ","
		}
		if w.high < w.n {
			field("tooNewLogEventStartIndex", w.high)
		}
		if w.tooOld > 0 {
			field("tooOldLogEventEndIndex", w.tooOld)
		}
		if w.expired > 0 {
			field("expiredLogEventEndIndex", w.expired)
		}
		b = append(b, '}')
	}
	if entityError != "" {
		b = append(b, `,"rejectedEntityInfo":{"errorType":"`...)
		b = append(b, entityError...)
		b = append(b, `"}`...)
	}
	return append(b, '}')
}

// rejectedEntity judges the optional entity: an error type, or empty. Events
// are accepted either way.
func rejectedEntity(raw []byte) string {
	if raw == nil {
		return ""
	}
	var e struct {
		KeyAttributes map[string]string
		Attributes    map[string]string
	}
	if json.Unmarshal(raw, &e) != nil {
		return "InvalidEntity"
	}
	if len(e.KeyAttributes) == 0 {
		return "MissingRequiredFields"
	}
	for k, v := range e.KeyAttributes {
		known := k == "Type" || k == "ResourceType" || k == "Identifier" || k == "Name" || k == "Environment"
		if !known || v == "" || len(v) > 512 {
			return "InvalidKeyAttributes"
		}
	}
	switch e.KeyAttributes["Type"] {
	case "":
		return "MissingRequiredFields"
	case "Service", "RemoteService", "AWS::Service", "Resource", "RemoteResource", "AWS::Resource":
	default:
		return "InvalidTypeValue"
	}
	if len(e.KeyAttributes) < 2 || len(e.KeyAttributes) > 4 {
		return "InvalidKeyAttributes"
	}
	if len(e.Attributes) > 10 {
		return "EntitySizeTooLarge"
	}
	for k, v := range e.Attributes {
		if k == "" || len(k) > 256 || v == "" || len(v) > 512 {
			return "InvalidAttributes"
		}
	}
	return ""
}

// acceptedSize is the size of the valid events of a batch of the given size.
func (s *Server) acceptedSize(q *putRequest, w window, size int64) int64 {
	if w.low == 0 && w.high == w.n {
		return size
	}
	if w.low == w.high {
		return 0
	}
	start := uint32(0)
	if w.low > 0 {
		start = q.ends[w.low-1]
	}
	return int64(q.ends[w.high-1]-start) + int64(s.lim.EventOverhead*(w.high-w.low))
}
