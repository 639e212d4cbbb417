package forward

import (
	"context"
	"errors"

	"weir/internal/event"
)

// jsonScanner finds the end of a JSON array or object whose bytes arrive in pieces, and
// looks at each byte once.
type jsonScanner struct {
	at      int
	depth   int
	inStr   bool
	escaped bool
}

// next looks at b, which starts at the opening bracket and may have grown since the last
// call. It returns the length of the value, or errMore.
func (s *jsonScanner) next(b []byte) (int, error) {
	for ; s.at < len(b); s.at++ {
		c := b[s.at]
		switch {
		case s.escaped:
			s.escaped = false
		case s.inStr:
			if c == '"' {
				s.inStr = false
			} else if c == '\\' {
				s.escaped = true
			}
		case c == '"':
			s.inStr = true
		case c == '[' || c == '{':
			s.depth++
		case c == ']' || c == '}':
			if s.depth--; s.depth == 0 {
				s.at++
				return s.at, nil
			}
		}
	}
	return 0, errMore
}

// takeJSON takes the message at the start of b from a connection that speaks JSON.
func (c *conn) takeJSON(work context.Context, b []byte) (int, error) {
	switch b[0] {
	case ' ', '\t', '\r', '\n':
		return 1, nil
	case '[', '{':
	default:
		return 0, c.malformed(0, "malformed JSON", errors.New("a message must be an array"))
	}
	if !c.scanning {
		c.scanning, c.jsonScan = true, jsonScanner{}
	}
	size, err := c.jsonScan.next(b)
	if err != nil {
		if len(b) > c.set.maxMessage {
			return 0, c.malformed(0, "a JSON message is larger than chunk_size_limit", errMore)
		}
		return 0, err
	}
	c.scanning = false
	out, n, err := event.AppendFromJSON(c.jsonOut[:0], b[:size])
	if err != nil || n != size {
		return 0, c.malformed(0, "malformed JSON", firstOf(err, event.ErrJSON))
	}
	if c.jsonOut = out; cap(out) > keepBuffer {
		c.jsonOut = nil
	}
	c.took = true
	if !isArray(out[0]) {
		_, err := c.takeOther(out)
		return size, err
	}
	if err := c.msg.read(out); err != nil {
		return 0, c.malformed(0, "not a forward message", err)
	}
	c.msg.size = size
	if size > c.set.maxMessage {
		c.dropLarge(int64(size))
		return size, nil
	}
	c.strays = 0
	return size, c.take(work, &c.msg)
}
