package emulator

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errJSON     = errors.New("the body is not valid JSON")
	errTooDeep  = errors.New("the body is nested too deeply")
	errNotUTF8  = errors.New("the body is not valid UTF-8")
	errJSONType = errors.New("a member has a value of the wrong kind")
)

// maxDepth bounds nesting in members that the scanner only skips.
const maxDepth = 500

// scanner walks JSON text. Positions only move forward.
type scanner struct {
	b   []byte
	i   int
	key []byte // scratch for member names with escapes
}

// peek returns the byte at the position, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// object reads an object and calls member for each name, positioned at the
// value. The name is valid until member reads a string.
func (s *scanner) object(member func(name []byte) error) error {
	s.space()
	if s.peek() != '{' {
		return errJSON
	}
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		s.space()
		name, err := s.name()
		if err != nil {
			return err
		}
		s.space()
		if s.peek() != ':' {
			return errJSON
		}
		s.i++
		s.space()
		if err := member(name); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return errJSON
		}
	}
}

// array reads an array, which begins at the position, and calls item for each element,
// positioned at it.
func (s *scanner) array(item func() error) error {
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		s.space()
		if err := item(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return errJSON
		}
	}
}

// name reads a member name, without a copy when it has no escapes.
func (s *scanner) name() ([]byte, error) {
	if s.peek() != '"' {
		return nil, errJSON
	}
	end := special(s.b, s.i+1)
	if end < len(s.b) && s.b[end] == '"' {
		name := s.b[s.i+1 : end]
		s.i = end + 1
		return name, nil
	}
	name, err := s.str(s.key[:0])
	s.key = name
	return name, err
}

func (s *scanner) literal(want string) error {
	if len(s.b)-s.i < len(want) || string(s.b[s.i:s.i+len(want)]) != want {
		return errJSON
	}
	s.i += len(want)
	return nil
}

func (s *scanner) optString(dst *string, set *bool) error {
	if s.peek() == 'n' {
		*dst, *set = "", false
		return s.literal("null")
	}
	if s.peek() != '"' {
		return errJSONType
	}
	b, err := s.str(nil)
	*dst, *set = string(b), true
	return err
}

// optInt reads an integer or null. Numbers with a fraction or an exponent, and
// those beyond 64 bits, are of the wrong kind.
func (s *scanner) optInt() (v int64, set bool, err error) {
	if s.peek() == 'n' {
		return 0, false, s.literal("null")
	}
	start := s.i
	if err := s.number(); err != nil {
		return 0, false, errJSONType
	}
	text := s.b[start:s.i]
	neg := text[0] == '-'
	if neg {
		text = text[1:]
	}
	if len(text) > 18 {
		return 0, false, errJSONType
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false, errJSONType
		}
		v = v*10 + int64(c-'0')
	}
	if neg {
		v = -v
	}
	return v, true, nil
}

// number moves over a JSON number.
func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	switch c := s.peek(); {
	case c == '0':
		s.i++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return errJSON
	}
	if s.peek() == '.' {
		s.i++
		if s.digits() == 0 {
			return errJSON
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if s.digits() == 0 {
			return errJSON
		}
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - start
}

// skip moves over any value.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	switch s.peek() {
	case '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case '"':
		var err error
		s.key, err = s.str(s.key[:0])
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns the index at or after i of the first quote, backslash or
// control character, or len(b). It looks at eight bytes at a time: the lowest
// set bit of the mask is exact, higher ones may be carries and are not used.
func special(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^(ones*'"'), w^(ones*'\\')
		m := ((q - ones) &^ q) | ((e - ones) &^ e) | ((w - ones*0x20) &^ w)
		if m &= highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// str appends the unescaped string at the position to dst.
func (s *scanner) str(dst []byte) ([]byte, error) {
	if s.peek() != '"' {
		return dst, errJSONType
	}
	s.i++
	for {
		end := special(s.b, s.i)
		dst = append(dst, s.b[s.i:end]...)
		s.i = end
		if end == len(s.b) || s.b[end] < 0x20 {
			return dst, errJSON
		}
		if s.b[end] == '"' {
			s.i++
			return dst, nil
		}
		if end+1 == len(s.b) {
			return dst, errJSON
		}
		s.i += 2
		switch c := s.b[end+1]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := s.hex4(s.i)
			if r < 0 {
				return dst, errJSON
			}
			s.i += 4
			if utf16.IsSurrogate(r) {
				r = s.pair(r)
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, errJSON
		}
	}
}

// pair joins r with a low surrogate that follows; a lone one becomes U+FFFD.
func (s *scanner) pair(r rune) rune {
	if s.i+6 <= len(s.b) && s.b[s.i] == '\\' && s.b[s.i+1] == 'u' {
		if joined := utf16.DecodeRune(r, s.hex4(s.i+2)); joined != utf8.RuneError {
			s.i += 6
			return joined
		}
	}
	return utf8.RuneError
}

// hex4 returns the value of four hexadecimal digits at i, or -1.
func (s *scanner) hex4(i int) rune {
	if i+4 > len(s.b) {
		return -1
	}
	var r rune
	for _, c := range s.b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
