package lines

import (
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
	size := 0
	for i := 0; i < len(b); {
		n, w := width(b[i:])
		i += n
		size += w
	}
	return size
}

// Cut gives the length of the longest beginning of b that does not cut a rune and whose Size
// is at most limit.
func Cut(b []byte, limit int) int {
	if len(b)*invalid <= limit || len(b) <= limit && utf8.Valid(b) {
		return len(b)
	}
	for i, size := 0, 0; i < len(b); {
		n, w := width(b[i:])
		if size += w; size > limit {
			return i
		}
		i += n
	}
	return len(b)
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
// rune at the end of the text that is not complete does not count yet. Nothing is counted twice, if
// from is 0 or what was given before.
func (t *text) over(from, limit int) int {
	if (len(t.buf)-from)*invalid <= limit {
		return from
	}
	for t.counted < len(t.buf) {
		rest := t.buf[t.counted:]
		if !utf8.FullRune(rest) {
			return from
		}
		n, w := width(rest)
		if t.size+w > limit && t.counted > from {
			t.size = 0
			return t.counted
		}
		t.counted += n
		t.size += w
	}
	return from
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
