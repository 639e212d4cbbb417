package forward

import (
	"errors"
	"fmt"

	"weir/internal/event"
)

// maxChunkID is the longest value of the option "chunk" that is accepted, in bytes with
// its header. Known senders use 16 to 64.
const maxChunkID = 4 << 10

// mode is one of the four shapes of a forward message.
type mode uint8

const (
	broken mode = iota // an array, but none of the four
	single             // [tag, time, record, option?]
	listed             // [tag, [[time, record], …], option?]
	packed             // [tag, entries as one string, option?]; perhaps compressed
)

// codec says how packed entries are compressed.
type codec uint8

const (
	plain codec = iota
	gzipped
	zstandard
	unknownCodec
)

// message is one forward message, taken apart. Its slices point into the read buffer.
type message struct {
	mode    mode
	tag     []byte // nil if it is no string
	entries []byte // concatenated entries; for single: time and record without the array's header
	chunk   []byte // the value of the option, with its msgpack header; nil if absent
	codec   codec
	size    int // of the whole message, in bytes

	// For single and listed, what the walk found.
	count       int
	first, last event.Time
	clean       bool // all entries have the form that event.Check wants
	likeness    likeness
}

// errChunk is a malformation: no sender makes such ids, and they would have to be kept.
var errChunk = fmt.Errorf("option chunk is longer than %d bytes", maxChunkID)

// read takes the message at the start of b apart. It returns errMore if b ends before the
// message does.
func (m *message) read(b []byte) error {
	*m = message{}
	n, i, err := event.ArrayHeader(b, 0)
	if err != nil {
		return more(err)
	}
	if n == 0 {
		m.size = i
		return nil
	}
	m.tag, i, err = readTag(b, i)
	if err != nil {
		return err
	}
	if n == 1 {
		m.size = i
		return nil
	}
	if i >= len(b) {
		return errMore
	}
	used := 2
	switch c := b[i]; {
	case isString(c):
		m.mode = packed
		m.entries, i, err = event.Bytes(b, i)
		err = more(err)
	case isArray(c):
		i, used, err = m.readList(b, i, n)
	default:
		i, used, err = m.readSingle(b, i, n)
	}
	if err != nil {
		return err
	}
	if used < n {
		i, err = m.readOption(b, i)
		used++
	}
	for ; err == nil && used < n; used++ {
		i, err = skip(b, i)
	}
	m.size = i
	return err
}

func readTag(b []byte, i int) ([]byte, int, error) {
	tag, j, err := event.Bytes(b, i)
	if errors.Is(err, event.ErrShape) {
		j, err = skip(b, i)
		return nil, j, err
	}
	return tag, j, more(err)
}

// readList reads the array of entries and walks it.
func (m *message) readList(b []byte, i, elements int) (next, used int, err error) {
	n, j, err := event.ArrayHeader(b, i)
	if err != nil {
		return 0, 0, more(err)
	}
	if n == 2 && elements >= 3 && j < len(b) && !isArray(b[j]) {
		// Not a list of two entries but a single event with [time, metadata].
		return m.readSingle(b, i, elements)
	}
	m.mode, m.clean = listed, true
	start := j
	for k := range n {
		e, size, err := event.Next(b[j:])
		if err == nil && isMap(e.Record[0]) {
			m.note(k == 0, e.Time)
			j += size
			continue
		}
		m.clean = false // or not complete: then skip says so
		if j, err = skip(b, j); err != nil {
			return 0, 0, err
		}
	}
	m.count = n
	m.entries = b[start:j]
	return j, 2, nil
}

// readSingle reads time and record.
func (m *message) readSingle(b []byte, i, elements int) (next, used int, err error) {
	m.mode, m.clean, m.count = single, true, 1
	start := i
	t, i, err := readTime(b, i)
	if err == nil {
		m.note(true, t)
	} else {
		m.clean = false // or not complete: then skip says so
		if i, err = skip(b, start); err != nil {
			return 0, 0, err
		}
	}
	if elements == 2 {
		m.mode = broken
		return i, 2, nil
	}
	at := i
	i, err = event.Skip(b, at)
	if err != nil || !isMap(b[at]) {
		m.clean = false
		if i, err = skip(b, at); err != nil {
			return 0, 0, err
		}
	}
	m.entries = b[start:i]
	return i, 3, nil
}

func (m *message) note(isFirst bool, t event.Time) {
	if isFirst || t < m.first {
		m.first = t
	}
	if isFirst || t > m.last {
		m.last = t
	}
}

// readOption reads the option map. Anything else in its place is ignored, as are unknown
// keys.
func (m *message) readOption(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, errMore
	}
	if !isMap(b[i]) {
		return skip(b, i)
	}
	n, i, err := event.MapHeader(b, i)
	if err != nil {
		return 0, more(err)
	}
	for range n {
		key, j, err := event.Bytes(b, i)
		if errors.Is(err, event.ErrShape) {
			if j, err = skip(b, i); err != nil {
				return 0, err
			}
			key = nil
		} else if err != nil {
			return 0, more(err)
		}
		end, err := skip(b, j)
		if err != nil {
			return 0, err
		}
		switch string(key) {
		case "chunk":
			if m.chunk = b[j:end]; b[j] == 0xc0 {
				m.chunk = nil
			}
			if len(m.chunk) > maxChunkID {
				return 0, errChunk
			}
		case "compressed":
			m.codec = readCodec(b[j:end])
		}
		i = end
	}
	return i, nil
}

func readCodec(v []byte) codec {
	s, _, err := event.Bytes(v, 0)
	if err != nil {
		return plain // nil, as Fluentd reads it
	}
	switch string(s) {
	case "text", "":
		return plain
	case "gzip":
		return gzipped
	case "zstd":
		return zstandard
	}
	return unknownCodec
}

// readTime reads a time or Fluent Bit's [time, metadata].
func readTime(b []byte, i int) (event.Time, int, error) {
	if i < len(b) && isArray(b[i]) {
		n, j, err := event.ArrayHeader(b, i)
		if err != nil || n != 2 {
			return 0, 0, firstOf(err, event.ErrTime)
		}
		t, j, err := event.ReadTime(b, j)
		if err != nil {
			return 0, 0, err
		}
		j, err = event.Skip(b, j)
		return t, j, err
	}
	return event.ReadTime(b, i)
}

func firstOf(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// more turns "the bytes end here" into "wait for more bytes".
func more(err error) error {
	if errors.Is(err, event.ErrShort) {
		return errMore
	}
	return err
}

func isString(c byte) bool {
	return c&0xe0 == 0xa0 || c >= 0xd9 && c <= 0xdb || c >= 0xc4 && c <= 0xc6
}
func isArray(c byte) bool { return c&0xf0 == 0x90 || c == 0xdc || c == 0xdd }
func isMap(c byte) bool   { return c&0xf0 == 0x80 || c == 0xde || c == 0xdf }
