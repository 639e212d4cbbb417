package event

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// escape is what stands for one ASCII character inside a string.
type escape struct {
	text  uint64 // up to eight bytes, the first in the lowest bits
	n     uint8  // bytes of text
	extra uint8  // how many of these bytes do not count as text
}

// A dialect says how strings are written.
type dialect struct {
	style JSONStyle
	// quote begins and ends a string; quoteLen bytes of it count, quoteLen-1 are extra.
	quote    [2]byte
	quoteLen int
	// ascii holds an entry for every character that cannot stand for itself.
	ascii [128]escape
}

// The dialects, by style: JSON text itself, and JSON text that stands inside a JSON string.
var (
	plain   = [...]*dialect{Yajl: newDialect(Yajl, upperHex, false), Oj: newDialect(Oj, lowerHex, false), Gem: newDialect(Gem, lowerHex, false)}
	escaped = [...]*dialect{Yajl: newDialect(Yajl, upperHex, true), Oj: newDialect(Oj, lowerHex, true), Gem: newDialect(Gem, lowerHex, true)}
)

const (
	upperHex = "0123456789ABCDEF"
	lowerHex = "0123456789abcdef"
)

func newDialect(style JSONStyle, hex string, inString bool) *dialect {
	d := &dialect{style: style, quote: [2]byte{'"'}, quoteLen: 1}
	short := map[int]byte{'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}
	for c := range 128 {
		var text []byte
		if s := short[c]; s != 0 {
			text = []byte{'\\', s}
		} else if c < ' ' {
			text = []byte{'\\', 'u', '0', '0', hex[c>>4], hex[c&15]}
		} else {
			text = []byte{byte(c)}
		}
		if !inString {
			// The text counts as the one character that it stands for.
			d.ascii[c] = newEscape(text, 1)
			continue
		}
		var twice []byte
		for _, t := range text {
			if t == '"' || t == '\\' {
				twice = append(twice, '\\')
			}
			twice = append(twice, t)
		}
		d.ascii[c] = newEscape(twice, len(text))
	}
	if inString {
		d.quote, d.quoteLen = [2]byte{'\\', '"'}, 2
	}
	return d
}

func newEscape(text []byte, counts int) escape {
	var b [8]byte
	copy(b[:], text)
	return escape{binary.LittleEndian.Uint64(b[:]), uint8(len(text)), uint8(len(text) - counts)}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// marks sets the high bit of the bytes of w that cannot be copied as they are: control
// characters, the quote, the backslash and what is not ASCII. Above the lowest mark there
// may be wrong ones (a borrow runs upwards), so only the lowest counts.
//
// w^2 swaps 0x22 and 0x20, which makes "below 0x20 or the quote" one comparison.
func marks(w uint64) uint64 { return roughMarks(w) & highs }

func roughMarks(w uint64) uint64 {
	return w | ((w ^ 0x02*ones) - 0x21*ones) | ((w ^ '\\'*ones) - ones)
}

// slack is how many bytes appendChars may write behind what it says it wrote.
const slack = 16

// appendChars appends the characters b[i:end], escaped, and returns how many of the bytes
// appended do not count as text. Bytes that are not UTF-8 become U+FFFD, one for each
// longest run that could have begun a character, as Ruby's scrub does. It reads up to
// seven bytes behind end if b has them, which is what makes short strings cheap.
func (d *dialect) appendChars(dst, b []byte, i, end int) ([]byte, int) {
	o := len(dst)
	if cap(dst)-o < end-i+slack {
		dst = slices.Grow(dst, end-i+slack)
	}
	out := dst[:cap(dst)]
	extra := 0
	// After something special the next is probably near, and copyPlain only pays for plain
	// text: it is tried again after a few plain words.
	plain := 4
	for {
		// Invariant: out has room for end-i+slack bytes at o.
		for i+8 <= end {
			if plain >= 4 && i+32 <= end {
				n := copyPlain(out[o:], b[i:end])
				i += n
				o += n
				plain = 0
				continue
			}
			w := binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(out[o:], w)
			if m := marks(w); m != 0 {
				k := bits.TrailingZeros64(m) >> 3
				i += k
				o += k
				goto special
			}
			i += 8
			o += 8
			plain++
		}
		if i == end {
			return out[:o], extra
		}
		{
			w := load(b, i)
			binary.LittleEndian.PutUint64(out[o:], w)
			m := marks(w) & (1<<(8*uint(end-i)) - 1)
			if m == 0 {
				return out[:o+end-i], extra
			}
			k := bits.TrailingZeros64(m) >> 3
			i += k
			o += k
		}
	special:
		plain = 0
		if c := b[i]; c < 0x80 {
			e := &d.ascii[c]
			binary.LittleEndian.PutUint64(out[o:], e.text)
			o += int(e.n)
			extra += int(e.extra)
			i++
		} else {
			i, o = scrub(out, b, i, o, end)
		}
		if len(out)-o < end-i+slack {
			out = slices.Grow(out[:o], end-i+slack)
			out = out[:cap(out)]
		}
	}
}

// copyPlain copies from s to out in blocks of 32 bytes as long as they hold nothing special
// and returns how many bytes these are. out is longer than s.
func copyPlain(out, s []byte) int {
	n := 0
	for n+32 <= len(s) {
		from, to := s[n:n+32:n+32], out[n:n+32:n+32]
		w0, w1 := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[8:])
		w2, w3 := binary.LittleEndian.Uint64(from[16:]), binary.LittleEndian.Uint64(from[24:])
		binary.LittleEndian.PutUint64(to, w0)
		binary.LittleEndian.PutUint64(to[8:], w1)
		binary.LittleEndian.PutUint64(to[16:], w2)
		binary.LittleEndian.PutUint64(to[24:], w3)
		if (roughMarks(w0)|roughMarks(w1)|roughMarks(w2)|roughMarks(w3))&highs != 0 {
			break
		}
		n += 32
	}
	return n
}

// load reads up to eight bytes at b[i:]; those behind the end of b are zero.
func load(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b[len(b)-8:]) >> (8 * uint(i+8-len(b)))
	}
	w := uint64(0)
	for k, c := range b[i:] {
		w |= uint64(c) << (8 * uint(k))
	}
	return w
}

// scrub copies the run of characters beyond ASCII at b[i:end] to out[o:]. It stops after a
// replacement, since that one may be longer than what it replaces; out has at least slack
// bytes more than the rest of the input.
func scrub(out, b []byte, i, o, end int) (int, int) {
	for i < end && b[i] >= 0x80 {
		// The usual characters of three bytes, without the two first bytes that have rules
		// of their own.
		if c := b[i]; i+3 <= end && c > 0xe0 && c <= 0xef && c != 0xed && b[i+1]&0xc0 == 0x80 && b[i+2]&0xc0 == 0x80 {
			out[o], out[o+1], out[o+2] = c, b[i+1], b[i+2]
			i += 3
			o += 3
			continue
		}
		n, ok := runeLen(b[i:end])
		if !ok {
			copy(out[o:], "\uFFFD")
			return i + n, o + 3
		}
		out[o], out[o+1] = b[i], b[i+1]
		if n > 2 {
			out[o+2] = b[i+2]
			if n > 3 {
				out[o+3] = b[i+3]
			}
		}
		i += n
		o += n
	}
	return i, o
}

// AppendScrubbed appends a text with other bytes in place of what is not UTF-8, once for each
// longest run that could have begun a character, as Ruby's scrub does.
func AppendScrubbed(dst, text []byte, instead string) []byte {
	for len(text) > 0 {
		n, ok := runeLen(text)
		if ok {
			dst = append(dst, text[:n]...)
		} else {
			dst = append(dst, instead...)
		}
		text = text[n:]
	}
	return dst
}

// runeLen says how many bytes the character takes that s begins with (s is not empty). If
// ok is false they are not a character but the longest part of one, or one byte.
func runeLen(s []byte) (n int, ok bool) {
	c := s[0]
	lo, hi := byte(0x80), byte(0xbf) // bounds of the second byte
	switch {
	case c < 0x80:
		return 1, true
	case c < 0xc2 || c > 0xf4:
		return 1, false
	case c < 0xe0:
		if len(s) < 2 || s[1]&0xc0 != 0x80 {
			return 1, false
		}
		return 2, true
	case c == 0xe0:
		lo = 0xa0
	case c == 0xed:
		hi = 0x9f
	case c == 0xf0:
		lo = 0x90
	case c == 0xf4:
		hi = 0x8f
	}
	if len(s) < 2 || s[1] < lo || s[1] > hi {
		return 1, false
	}
	if len(s) < 3 || s[2]&0xc0 != 0x80 {
		return 2, false
	}
	if c < 0xf0 {
		return 3, true
	}
	if len(s) < 4 || s[3]&0xc0 != 0x80 {
		return 3, false
	}
	return 4, true
}

// AppendStringEscaped appends the text s escaped for standing inside a JSON string and
// returns, beside the grown dst, how many bytes the text has: CloudWatch Logs counts
// these. Invalid UTF-8 becomes U+FFFD (three bytes) in both. It does not append quotes.
func AppendStringEscaped(dst, s []byte) (out []byte, n int) {
	start := len(dst)
	dst, extra := plain[Yajl].appendChars(dst, s, 0, len(s))
	return dst, len(dst) - start - extra
}
