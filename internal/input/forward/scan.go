package forward

import (
	"encoding/binary"
	"errors"
)

// errMore says that a value goes on behind the bytes received so far.
var errMore = errors.New("value is not complete")

// errReserved is the only byte that cannot begin a msgpack value.
var errReserved = errors.New("byte 0xc1 is not a msgpack type")

// scanner finds the end of a msgpack value whose bytes arrive in pieces, and looks at
// each byte once however often it is called. Unlike event.Skip it counts the values that
// are still to come instead of keeping a stack, so it can step over a record that nests
// deeper than weir accepts: one bad record then costs itself and not the connection.
type scanner struct {
	at   int    // where the next value begins, counted from the start; may lie behind the bytes received
	left uint64 // values still to come
	need int    // after errMore: the whole value has at least this many bytes
}

// begin makes s ready for a new value.
func (s *scanner) begin() { *s = scanner{left: 1} }

// next looks at b, which starts at the beginning of the value and may have grown since
// the last call. It returns the value's length, or errMore, or errReserved with s.at at
// the bad byte.
func (s *scanner) next(b []byte) (int, error) {
	i, left := s.at, s.left
	for left > 0 {
		if i >= len(b) {
			s.at, s.left, s.need = i, left, i+1
			return 0, errMore
		}
		size, children, ok := head(b[i:])
		if !ok {
			s.at, s.left, s.need = i, left, i+1
			if b[i] == 0xc1 {
				return 0, errReserved
			}
			return 0, errMore
		}
		i += size
		left += children - 1
	}
	s.at, s.left, s.need = i, 0, i
	if i > len(b) {
		return 0, errMore
	}
	return i, nil
}

// discard tells s that the first n bytes of its value were thrown away, n ≤ s.at.
func (s *scanner) discard(n int) { s.at -= n }

// skip returns the index behind the value at b[i], however deep it nests.
func skip(b []byte, i int) (int, error) {
	s := scanner{left: 1}
	n, err := s.next(b[i:])
	return i + n, err
}

// head reads the first bytes of a value: how many bytes it takes itself, and how many
// values follow inside it. It fails if b is too short to tell, or begins with 0xc1.
func head(b []byte) (size int, children uint64, ok bool) {
	c := b[0]
	switch {
	case c <= 0x7f || c >= 0xe0:
		return 1, 0, true
	case c <= 0x8f:
		return 1, 2 * uint64(c&15), true
	case c <= 0x9f:
		return 1, uint64(c & 15), true
	case c <= 0xbf:
		return 1 + int(c&31), 0, true
	}
	f := forms[c-0xc0]
	switch f.length {
	case 0:
		return int(f.head), 0, f.head > 0
	case 1:
		if len(b) < 2 {
			return 0, 0, false
		}
		return int(f.head) + int(b[1]), 0, true
	case 2:
		if len(b) < 3 {
			return 0, 0, false
		}
		n := binary.BigEndian.Uint16(b[1:])
		if f.perItem > 0 {
			return 3, uint64(n) * uint64(f.perItem), true
		}
		return int(f.head) + int(n), 0, true
	}
	if len(b) < 5 {
		return 0, 0, false
	}
	n := binary.BigEndian.Uint32(b[1:])
	if f.perItem > 0 {
		return 5, uint64(n) * uint64(f.perItem), true
	}
	return int(f.head) + int(n), 0, true
}

// form describes the types 0xc0 to 0xdf.
type form struct {
	head    uint8 // bytes besides a body of variable length
	length  uint8 // bytes of the length or count behind the first byte
	perItem uint8 // values per item, for arrays and maps
}

var forms = [32]form{
	0x00: {1, 0, 0}, 0x01: {0, 0, 0}, 0x02: {1, 0, 0}, 0x03: {1, 0, 0}, // nil, reserved, false, true
	0x04: {2, 1, 0}, 0x05: {3, 2, 0}, 0x06: {5, 4, 0}, // bin
	0x07: {3, 1, 0}, 0x08: {4, 2, 0}, 0x09: {6, 4, 0}, // ext
	0x0a: {5, 0, 0}, 0x0b: {9, 0, 0}, // float
	0x0c: {2, 0, 0}, 0x0d: {3, 0, 0}, 0x0e: {5, 0, 0}, 0x0f: {9, 0, 0}, // uint
	0x10: {2, 0, 0}, 0x11: {3, 0, 0}, 0x12: {5, 0, 0}, 0x13: {9, 0, 0}, // int
	0x14: {3, 0, 0}, 0x15: {4, 0, 0}, 0x16: {6, 0, 0}, 0x17: {10, 0, 0}, 0x18: {18, 0, 0}, // fixext
	0x19: {2, 1, 0}, 0x1a: {3, 2, 0}, 0x1b: {5, 4, 0}, // str
	0x1c: {3, 2, 1}, 0x1d: {5, 4, 1}, 0x1e: {3, 2, 2}, 0x1f: {5, 4, 2}, // array, map
}
