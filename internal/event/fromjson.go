package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// ErrJSON marks an error of AppendFromJSON other than ErrShort and ErrDepth.
var ErrJSON = errors.New("not JSON")

// AppendFromJSON appends the first JSON value of src as msgpack and returns how many bytes
// of src it took, blanks before it included. What follows the value is not looked at, so a
// number counts as complete at the end of src.
//
// Keys stay in the order of their first appearance; of a key that comes twice the last
// value counts. Integers are exact from -2^63 to 2^64-1, beyond that they become floats.
// Control characters inside strings are accepted as they are, and so are bytes that are
// not UTF-8; a lone surrogate escape becomes U+FFFD.
//
// Errors: ErrShort if src ends inside the value (read more and try again), ErrDepth if it
// nests deeper than MaxDepth, else one that wraps ErrJSON. dst is then returned unchanged.
func AppendFromJSON(dst, src []byte) (out []byte, n int, err error) {
	p := jsonParser{src: src, dst: dst}
	if err := p.value(0); err != nil {
		return dst, 0, err
	}
	return p.dst, p.i, nil
}

type jsonParser struct {
	src []byte
	i   int
	dst []byte
}

// peek skips blanks and returns the next byte.
func (p *jsonParser) peek() (byte, error) {
	for p.i < len(p.src) {
		switch c := p.src[p.i]; c {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return c, nil
		}
	}
	return 0, ErrShort
}

func (p *jsonParser) bad(c byte, where string) error {
	return fmt.Errorf("%w: %q %s at byte %d", ErrJSON, c, where, p.i)
}

func (p *jsonParser) value(depth int) error {
	c, err := p.peek()
	if err != nil {
		return err
	}
	switch c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.str()
	case 't':
		return p.word("true", 0xc3)
	case 'f':
		return p.word("false", 0xc2)
	case 'n':
		return p.word("null", 0xc0)
	}
	if c == '-' || c >= '0' && c <= '9' {
		return p.number()
	}
	return p.bad(c, "cannot begin a value")
}

func (p *jsonParser) word(word string, code byte) error {
	for k := range len(word) {
		if p.i+k >= len(p.src) {
			return ErrShort
		}
		if c := p.src[p.i+k]; c != word[k] {
			p.i += k
			return p.bad(c, "in the word "+word)
		}
	}
	p.i += len(word)
	p.dst = append(p.dst, code)
	return nil
}

// number reads the grammar strictly: digits on both sides of the point.
func (p *jsonParser) number() error {
	start, integer := p.i, true
	if p.src[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.src) && p.src[p.i] == '0' {
		p.i++ // no digit follows a leading zero: the number ends here
	} else if err := p.digits(); err != nil {
		return err
	}
	if p.i < len(p.src) && p.src[p.i] == '.' {
		integer = false
		p.i++
		if err := p.digits(); err != nil {
			return err
		}
	}
	if p.i < len(p.src) && p.src[p.i]|0x20 == 'e' {
		integer = false
		p.i++
		if p.i < len(p.src) && (p.src[p.i] == '+' || p.src[p.i] == '-') {
			p.i++
		}
		if err := p.digits(); err != nil {
			return err
		}
	}
	text := p.src[start:p.i]
	if integer {
		if text[0] == '-' {
			if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
				p.dst = AppendInt(p.dst, v)
				return nil
			}
		} else if v, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			p.dst = AppendUint(p.dst, v)
			return nil
		}
	}
	// The grammar was checked; the only error left is the range, with f an infinity.
	f, _ := strconv.ParseFloat(string(text), 64)
	p.dst = AppendFloat(p.dst, f)
	return nil
}

func (p *jsonParser) digits() error {
	start := p.i
	for p.i < len(p.src) && p.src[p.i] >= '0' && p.src[p.i] <= '9' {
		p.i++
	}
	if p.i > start {
		return nil
	}
	if p.i == len(p.src) {
		return ErrShort
	}
	return p.bad(p.src[p.i], "in place of a digit")
}

// str reads a string. Its length in msgpack is known at its end; the head is moved then.
func (p *jsonParser) str() error {
	p.i++
	start := p.i
	end, esc := p.plainRun(start)
	if end == len(p.src) {
		return ErrShort
	}
	if !esc {
		p.dst = AppendStr(p.dst, p.src[start:end])
		p.i = end + 1
		return nil
	}
	at := len(p.dst)
	p.dst = append(p.dst, 0, 0, 0, 0, 0)
	for {
		p.dst = append(p.dst, p.src[p.i:end]...)
		p.i = end
		if !esc {
			break
		}
		if err := p.escape(); err != nil {
			return err
		}
		if end, esc = p.plainRun(p.i); end == len(p.src) {
			return ErrShort
		}
	}
	p.i++
	n := len(p.dst) - at - 5
	head := len(AppendStrHeader(p.dst[:at], n)) - at
	copy(p.dst[at+head:], p.dst[at+5:])
	p.dst = p.dst[:at+head+n]
	return nil
}

// plainRun returns where the next quote (esc false) or backslash (esc true) stands at or
// behind i, or len(src).
func (p *jsonParser) plainRun(i int) (end int, esc bool) {
	src := p.src
	for i+8 <= len(src) {
		w := binary.LittleEndian.Uint64(src[i:])
		q, s := w^'"'*ones, w^'\\'*ones
		if ((q-ones)&^q|(s-ones)&^s)&highs != 0 {
			break
		}
		i += 8
	}
	for ; i < len(src); i++ {
		if c := src[i]; c == '"' || c == '\\' {
			return i, c == '\\'
		}
	}
	return i, false
}

// escape reads the escape sequence at p.i, which is a backslash.
func (p *jsonParser) escape() error {
	if p.i+1 >= len(p.src) {
		return ErrShort
	}
	c := p.src[p.i+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return p.unicode()
	default:
		p.i++
		return p.bad(c, "behind a backslash")
	}
	p.dst = append(p.dst, c)
	p.i += 2
	return nil
}

func (p *jsonParser) unicode() error {
	r, err := p.hex4(p.i + 2)
	if err != nil {
		return err
	}
	p.i += 6
	if r >= 0xd800 && r < 0xdc00 {
		// Half of a pair: take the other half with it, if that is what follows.
		for k, want := range []byte{'\\', 'u'} {
			if p.i+k >= len(p.src) {
				return ErrShort
			}
			if p.src[p.i+k] != want {
				p.dst = append(p.dst, "\uFFFD"...)
				return nil
			}
		}
		low, err := p.hex4(p.i + 2)
		if err != nil {
			return err
		}
		if low >= 0xdc00 && low < 0xe000 {
			p.i += 6
			r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
		}
	}
	p.dst = utf8.AppendRune(p.dst, r) // a surrogate becomes U+FFFD here
	return nil
}

func (p *jsonParser) hex4(i int) (rune, error) {
	r := rune(0)
	for k := range 4 {
		if i+k >= len(p.src) {
			return 0, ErrShort
		}
		c := p.src[i+k]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			p.i = i + k
			return 0, p.bad(c, "in place of a hexadecimal digit")
		}
		r = r<<4 | rune(c)
	}
	return r, nil
}

func (p *jsonParser) array(depth int) error {
	p.i++
	at, n := len(p.dst), 0
	p.dst = openHeader(p.dst)
	for {
		c, err := p.peek()
		if err != nil {
			return err
		}
		if c == ']' && n == 0 {
			break
		}
		if depth == MaxDepth {
			return ErrDepth
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
		n++
		if c, err = p.peek(); err != nil {
			return err
		}
		if c == ']' {
			break
		}
		if c != ',' {
			return p.bad(c, "in place of , or ]")
		}
		p.i++
	}
	p.i++
	if uint64(n) > math.MaxUint32 {
		return fmt.Errorf("%w: an array of %d elements", ErrJSON, n)
	}
	p.dst = closeHeader(p.dst, at, n, 0x90, 0xdc)
	return nil
}

func (p *jsonParser) object(depth int) error {
	p.i++
	at := len(p.dst)
	p.dst = openHeader(p.dst)
	keys := keyIndex{base: at}
	for {
		c, err := p.peek()
		if err != nil {
			return err
		}
		if c == '}' && keys.n == 0 {
			break
		}
		if depth == MaxDepth {
			return ErrDepth
		}
		if c != '"' {
			return p.bad(c, "in place of a key")
		}
		key := len(p.dst)
		if err := p.str(); err != nil {
			return err
		}
		keys.add(p.dst, key)
		if c, err = p.peek(); err != nil {
			return err
		}
		if c != ':' {
			return p.bad(c, "in place of :")
		}
		p.i++
		if err := p.value(depth + 1); err != nil {
			return err
		}
		if c, err = p.peek(); err != nil {
			return err
		}
		if c == '}' {
			break
		}
		if c != ',' {
			return p.bad(c, "in place of , or }")
		}
		p.i++
	}
	p.i++
	n := keys.n
	if keys.twice {
		p.dst, n = keys.compact(p.dst, n)
	}
	p.dst = closeHeader(p.dst, at, n, 0x80, 0xde)
	return nil
}
