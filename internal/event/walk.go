package event

import (
	"encoding/binary"
	"errors"
)

// MaxDepth is how deep arrays and maps may nest. Real records stay below ten; the bound
// keeps every recursive reader of a checked record from exhausting its stack.
const MaxDepth = 64

// What can be wrong with foreign msgpack.
var (
	ErrShort = errors.New("msgpack ends in the middle of a value")
	ErrDepth = errors.New("msgpack nests deeper than 64 levels")
	ErrType  = errors.New("msgpack byte 0xc1 is not a type")
	ErrTime  = errors.New("time is neither an integer nor an EventTime")
	ErrShape = errors.New("value is not of the expected type")
)

// How the bytes of a value follow from its first byte.
const (
	fixed   = iota // the whole value has width bytes
	len8           // width is the head; a byte behind the first gives the body's length
	len16          // likewise, two bytes
	len32          // likewise, four bytes
	items          // fixarray or fixmap: width children follow
	items16        // a count of two bytes; width is children per item
	items32        // a count of four bytes; width is children per item
	never          // 0xc1
)

type shape struct{ kind, width uint8 }

var shapes = func() (t [256]shape) {
	for c := range 256 {
		switch {
		case c <= 0x7f || c >= 0xe0:
			t[c] = shape{fixed, 1}
		case c <= 0x8f:
			t[c] = shape{items, uint8(2 * (c & 15))}
		case c <= 0x9f:
			t[c] = shape{items, uint8(c & 15)}
		case c <= 0xbf:
			t[c] = shape{fixed, uint8(1 + c&31)}
		}
	}
	for c, s := range map[int]shape{
		0xc0: {fixed, 1}, 0xc1: {never, 0}, 0xc2: {fixed, 1}, 0xc3: {fixed, 1},
		0xc4: {len8, 2}, 0xc5: {len16, 3}, 0xc6: {len32, 5}, // bin
		0xc7: {len8, 3}, 0xc8: {len16, 4}, 0xc9: {len32, 6}, // ext
		0xca: {fixed, 5}, 0xcb: {fixed, 9}, // float
		0xcc: {fixed, 2}, 0xcd: {fixed, 3}, 0xce: {fixed, 5}, 0xcf: {fixed, 9}, // uint
		0xd0: {fixed, 2}, 0xd1: {fixed, 3}, 0xd2: {fixed, 5}, 0xd3: {fixed, 9}, // int
		0xd4: {fixed, 3}, 0xd5: {fixed, 4}, 0xd6: {fixed, 6}, 0xd7: {fixed, 10}, 0xd8: {fixed, 18}, // fixext
		0xd9: {len8, 2}, 0xda: {len16, 3}, 0xdb: {len32, 5}, // str
		0xdc: {items16, 1}, 0xdd: {items32, 1}, 0xde: {items16, 2}, 0xdf: {items32, 2},
	} {
		t[c] = s
	}
	return t
}()

// Skip returns the index behind the value that starts at b[i]. It allocates nothing
// whatever the bytes claim, and fails with ErrShort, ErrDepth or ErrType.
func Skip(b []byte, i int) (int, error) {
	return skip(b, i, 1, 0)
}

// skip steps over n values that start at b[i] and lie inside depth containers. It calls
// itself only for containers that are not empty, so that a flat record costs one loop, and
// MaxDepth bounds the stack.
func skip(b []byte, i, n, depth int) (int, error) {
	for ; n > 0; n-- {
		if uint(i) >= uint(len(b)) {
			return 0, ErrShort
		}
		s := shapes[b[i]]
		children := 0
		switch s.kind {
		case fixed:
			i += int(s.width)
			continue
		case len8:
			if len(b)-i < 2 {
				return 0, ErrShort
			}
			i += int(s.width) + int(b[i+1])
			continue
		case items:
			children = int(s.width)
			i++
		case len16:
			if len(b)-i < 3 {
				return 0, ErrShort
			}
			i += int(s.width) + int(binary.BigEndian.Uint16(b[i+1:]))
			continue
		case len32:
			if len(b)-i < 5 {
				return 0, ErrShort
			}
			i += int(s.width) + int(binary.BigEndian.Uint32(b[i+1:]))
			continue
		case items16:
			if len(b)-i < 3 {
				return 0, ErrShort
			}
			children = int(binary.BigEndian.Uint16(b[i+1:])) * int(s.width)
			i += 3
		case items32:
			if len(b)-i < 5 {
				return 0, ErrShort
			}
			children = int(binary.BigEndian.Uint32(b[i+1:])) * int(s.width)
			i += 5
		default:
			return 0, ErrType
		}
		if children == 0 {
			continue
		}
		if depth == MaxDepth {
			return 0, ErrDepth
		}
		var err error
		if i, err = skip(b, i, children, depth+1); err != nil {
			return 0, err
		}
	}
	if i > len(b) {
		return 0, ErrShort
	}
	return i, nil
}

// IsMap says whether c begins a map.
func IsMap(c byte) bool { return c&0xf0 == 0x80 || c == 0xde || c == 0xdf }

// IsText says whether c begins a str.
func IsText(c byte) bool { return c&0xe0 == 0xa0 || c >= 0xd9 && c <= 0xdb }

// IsBin says whether c begins binary data.
func IsBin(c byte) bool { return c >= 0xc4 && c <= 0xc6 }

func isArray(c byte) bool { return c&0xf0 == 0x90 || c == 0xdc || c == 0xdd }

// ArrayHeader reads an array's length at b[i]; the first element is at the index returned.
// The length is what the bytes claim: never allocate by it.
func ArrayHeader(b []byte, i int) (n, next int, err error) {
	return header(b, i, 0x90, 0xdc)
}

// MapHeader reads the number of key-value pairs of a map at b[i]; the first key is at the
// index returned. The number is what the bytes claim: never allocate by it.
func MapHeader(b []byte, i int) (n, next int, err error) {
	return header(b, i, 0x80, 0xde)
}

func header(b []byte, i int, fix, wide byte) (n, next int, err error) {
	if i >= len(b) {
		return 0, 0, ErrShort
	}
	switch c := b[i]; {
	case c&0xf0 == fix:
		return int(c & 15), i + 1, nil
	case c == wide:
		if len(b)-i < 3 {
			return 0, 0, ErrShort
		}
		return int(binary.BigEndian.Uint16(b[i+1:])), i + 3, nil
	case c == wide+1:
		if len(b)-i < 5 {
			return 0, 0, ErrShort
		}
		return int(binary.BigEndian.Uint32(b[i+1:])), i + 5, nil
	}
	return 0, 0, ErrShape
}

// Bytes reads a str or bin at b[i]. The slice returned points into b.
func Bytes(b []byte, i int) (s []byte, next int, err error) {
	if i >= len(b) {
		return nil, 0, ErrShort
	}
	n, head := 0, 0
	switch c := b[i]; {
	case c&0xe0 == 0xa0:
		n, head = int(c&31), 1
	case c == 0xd9 || c == 0xc4:
		if len(b)-i < 2 {
			return nil, 0, ErrShort
		}
		n, head = int(b[i+1]), 2
	case c == 0xda || c == 0xc5:
		if len(b)-i < 3 {
			return nil, 0, ErrShort
		}
		n, head = int(binary.BigEndian.Uint16(b[i+1:])), 3
	case c == 0xdb || c == 0xc6:
		if len(b)-i < 5 {
			return nil, 0, ErrShort
		}
		n, head = int(binary.BigEndian.Uint32(b[i+1:])), 5
	default:
		return nil, 0, ErrShape
	}
	if len(b)-i-head < n {
		return nil, 0, ErrShort
	}
	return b[i+head : i+head+n], i + head + n, nil
}

// readInt reads any msgpack integer that fits int64.
func readInt(b []byte, i int) (v int64, next int, ok bool) {
	c := b[i]
	s := shapes[c]
	if len(b)-i < int(s.width) {
		return 0, 0, false
	}
	p := b[i+1:]
	switch {
	case c <= 0x7f:
		v = int64(c)
	case c >= 0xe0:
		v = int64(int8(c))
	case c == 0xcc:
		v = int64(p[0])
	case c == 0xcd:
		v = int64(binary.BigEndian.Uint16(p))
	case c == 0xce:
		v = int64(binary.BigEndian.Uint32(p))
	case c == 0xcf:
		u := binary.BigEndian.Uint64(p)
		if u > 1<<63-1 {
			return 0, 0, false
		}
		v = int64(u)
	case c == 0xd0:
		v = int64(int8(p[0]))
	case c == 0xd1:
		v = int64(int16(binary.BigEndian.Uint16(p)))
	case c == 0xd2:
		v = int64(int32(binary.BigEndian.Uint32(p)))
	case c == 0xd3:
		v = int64(binary.BigEndian.Uint64(p))
	default:
		return 0, 0, false
	}
	return v, i + int(s.width), true
}

// Check walks concatenated entries and returns how many there are and their smallest and
// largest time. It fails at the first entry that is not [time, record], with the number
// of good bytes before it in ok.
func Check(b []byte) (count int, first, last Time, ok int, err error) {
	for ok < len(b) {
		e, n, err := Next(b[ok:])
		if err != nil {
			return count, first, last, ok, err
		}
		if c := e.Record[0]; c&0xf0 != 0x80 && c != 0xde && c != 0xdf {
			return count, first, last, ok, ErrShape
		}
		if count == 0 || e.Time < first {
			first = e.Time
		}
		if count == 0 || e.Time > last {
			last = e.Time
		}
		count++
		ok += n
	}
	return count, first, last, ok, nil
}
