package emulator

import "unicode/utf8"

// putRequest is a decoded PutLogEvents body. It is reused between requests:
// message bytes of all events lie one behind the other in data.
type putRequest struct {
	group, stream, token          string
	hasGroup, hasStream, hasToken bool
	hasEvents                     bool

	ts   []int64  // milliseconds, one per event
	ends []uint32 // end of each message in data
	data []byte   // unescaped UTF-8

	// missing notes events that lack a member; the rest of their slots is zero.
	missing []missingMember

	// entity is the raw JSON of the member, nil when absent.
	entity []byte
}

type missingMember struct {
	event   int // from 0
	message bool
}

func (q *putRequest) reset() {
	*q = putRequest{ts: q.ts[:0], ends: q.ends[:0], data: q.data[:0], missing: q.missing[:0]}
}

// scanPut decodes a PutLogEvents body into q. It accepts exactly the JSON that
// encoding/json accepts (apart from deeper nesting and invalid UTF-8, which
// the service refuses), matches member names exactly, lets the last of
// repeated members win, and treats null as absent.
func scanPut(b []byte, q *putRequest) error {
	q.reset()
	if !utf8.Valid(b) {
		return errNotUTF8
	}
	s := scanner{b: b}
	if err := s.object(func(key []byte) error { return s.putMember(key, q) }); err != nil {
		return err
	}
	s.space()
	if s.i != len(b) {
		return errJSON
	}
	return nil
}

func (s *scanner) putMember(key []byte, q *putRequest) error {
	switch string(key) {
	case "logEvents":
		return s.events(q)
	case "logGroupName":
		return s.optString(&q.group, &q.hasGroup)
	case "logStreamName":
		return s.optString(&q.stream, &q.hasStream)
	case "sequenceToken":
		return s.optString(&q.token, &q.hasToken)
	case "entity":
		start := s.i
		null := s.peek() == 'n'
		if err := s.skip(0); err != nil {
			return err
		}
		q.entity = nil
		if !null {
			q.entity = s.b[start:s.i]
		}
		return nil
	}
	return s.skip(0)
}

// events reads the list of events; null counts as absent.
func (s *scanner) events(q *putRequest) error {
	q.ts, q.ends, q.data, q.missing = q.ts[:0], q.ends[:0], q.data[:0], q.missing[:0]
	q.hasEvents = false
	if s.peek() == 'n' {
		return s.literal("null")
	}
	if s.peek() != '[' {
		return errJSONType
	}
	q.hasEvents = true
	return s.array(func() error { return s.event(q) })
}

// event reads one element of logEvents and appends it to q.
func (s *scanner) event(q *putRequest) error {
	n, start := len(q.ts), len(q.data)
	var ts int64
	var hasTS, hasMessage bool
	if s.peek() == 'n' { // a null element: both members are missing
		if err := s.literal("null"); err != nil {
			return err
		}
	} else {
		if s.peek() != '{' {
			return errJSONType
		}
		err := s.object(func(key []byte) (err error) {
			switch string(key) {
			case "timestamp":
				ts, hasTS, err = s.optInt()
			case "message":
				q.data = q.data[:start]
				if hasMessage = s.peek() != 'n'; !hasMessage {
					return s.literal("null")
				}
				q.data, err = s.str(q.data)
			default:
				err = s.skip(0)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	q.ts = append(q.ts, ts)
	q.ends = append(q.ends, uint32(len(q.data)))
	if !hasTS {
		q.missing = append(q.missing, missingMember{event: n})
	}
	if !hasMessage {
		q.missing = append(q.missing, missingMember{event: n, message: true})
	}
	return nil
}
