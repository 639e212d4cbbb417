package lines

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// invalid is what a byte that is not UTF-8 counts: U+FFFD, which replaces it, has 3 bytes.
const invalid = 3

// Size is the length of a message as the service counts it: in UTF-8, with U+FFFD in the
// place of each byte that is none.
func Size(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
	}
	_, size := count(b, math.MaxInt)
	return size
}

// Cut gives the length of the longest beginning of b that does not cut a rune and whose Size
// is at most limit.
func Cut(b []byte, limit int) int {
	if len(b)*invalid <= limit || len(b) <= limit && utf8.Valid(b) {
		return len(b)
	}
	i, _ := count(b, limit)
	return i
}

// count gives the longest beginning of b that does not cut a rune and whose Size is at most
// limit, and that Size.
func count(b []byte, limit int) (n, size int) {
	for n < len(b) {
		if run := min(ascii(b[n:]), limit-size); run > 0 {
			n += run
			size += run
			continue
		}
		more, w := width(b[n:])
		if size+w > limit {
			break
		}
		n += more
		size += w
	}
	return n, size
}

// AppendUTF8 appends b with U+FFFD in the place of each byte that is no UTF-8, which is how
// Docker's own driver sends it.
func AppendUTF8(dst, b []byte) []byte {
	for len(b) > 0 {
		n := ascii(b)
		dst, b = append(dst, b[:n]...), b[n:]
		if len(b) > 0 {
			r, n := utf8.DecodeRune(b)
			dst, b = utf8.AppendRune(dst, r), b[n:]
		}
	}
	return dst
}

// ascii gives how many bytes at the beginning of b are ASCII.
func ascii(b []byte) int {
	n := 0
	for ; n+8 <= len(b) && binary.LittleEndian.Uint64(b[n:])&0x8080_8080_8080_8080 == 0; n += 8 {
	}
	for ; n < len(b) && b[n] < utf8.RuneSelf; n++ {
	}
	return n
}

// width gives the bytes of the first rune, and what they count.
func width(b []byte) (n, size int) {
	if b[0] < utf8.RuneSelf {
		return 1, 1
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		return 1, invalid
	}
	return n, n
}

// piece gives how much of a text the next event takes. It is never nothing, so that a limit
// that is smaller than a rune does no more harm than being exceeded.
func (l *Lines) piece(b []byte) int {
	n := Cut(b, l.o.EventSize)
	if n == 0 && len(b) > 0 {
		n, _ = width(b)
	}
	return n
}

// keep is how large a buffer may be that is kept while it is empty, so that a hundred
// containers that wrote one long line do not hold a hundred megabytes.
const keep = 64 << 10

// unknown is the time since which something is held after Restore.
const unknown = math.MinInt64

// text is text that is held, and since when.
type text struct {
	buf     []byte
	since   int64 // arrival of the oldest byte
	counted int   // the runes of buf[:counted] are counted
	size    int   // Size of these
}

func (t *text) add(now int64, more []byte) {
	if len(t.buf) == 0 {
		t.since = now
	}
	t.buf = append(t.buf, more...)
}

// drop takes away the first n bytes, up to what over gave last; the rest came just now.
func (t *text) drop(now int64, n int) {
	t.buf = t.buf[:copy(t.buf, t.buf[n:])]
	t.since = now
	t.counted -= n
}

func (t *text) reset() {
	t.buf = t.buf[:0]
	if cap(t.buf) > keep {
		t.buf = nil
	}
	t.counted, t.size = 0, 0
}

// over gives the end of the next event if buf[from:] is larger than one, and from if not. A
// rune at the end of the text that is not complete does not count yet. from is 0 or what
// over gave before, so that nothing is counted twice.
func (t *text) over(from, limit int) int {
	if (len(t.buf)-from)*invalid <= limit {
		return from
	}
	whole := len(t.buf) - unfinished(t.buf)
	n, size := count(t.buf[t.counted:max(whole, t.counted)], limit-t.size)
	t.counted += n
	t.size += size
	if t.counted >= whole {
		return from
	}
	if t.counted == from { // a single rune is larger than an event
		n, _ = width(t.buf[from:])
		t.counted += n
	}
	t.size = 0
	return t.counted
}

// unfinished gives how many bytes at the end of b are a rune that lacks its end.
func unfinished(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// old says whether the text must be given out.
func (t *text) old(now, after int64) bool {
	if len(t.buf) == 0 {
		return false
	}
	if t.since == unknown {
		t.since = now
	}
	return now < t.since || now-t.since >= after
}

func (t *text) due(after int64) int64 {
	switch {
	case len(t.buf) == 0:
		return Never
	case t.since == unknown:
		return 0
	}
	return t.since + after
}
