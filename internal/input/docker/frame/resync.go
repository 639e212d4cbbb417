package frame

import "bytes"

// Bounds of a plausible time. A host without a clock of its own starts in 1970; a clock that
// is merely wrong does not say 2200.
const (
	minTime = 1
	maxTime = 7_258_118_400 * 1_000_000_000 // 2200-01-01
)

// maxFields is how many fields a candidate may have, so that the work of Resync grows with
// the block and not with its square, whatever a container wrote. The engine writes five.
const maxFields = 64

// minSize is the size of the smallest plausible LogEntry: a source and a time of one byte.
const minSize = 8 + 2

// Resync finds the next frame of a block that begins with garbage (or with a frame that the
// caller has given up because it never became whole). skip is how many bytes are lost, at
// least 1 of a block that is not empty. With ok a frame begins at block[skip:]; it may be
// incomplete. Without, nothing like a frame is there: what is left after skip, if anything,
// is too little to tell. In both cases go on with Next at skip, if need be when there are
// more bytes.
//
// At the end of the stream an incomplete frame is lost; but as it may be a damaged one that
// claims the frames after it, let Resync look for these too.
//
// A line may hold bytes that look like a frame, and a frame that has lost its end may have
// swallowed the beginning of the next one. So of the places at which a plausible frame
// begins (from stdout or stderr, with a time between 1970 and 2200) the first one is taken
// after which another frame or the end of the block follows. Only if there is none, the
// first that stands alone.
func Resync(block []byte) (skip int, ok bool) {
	alone, begun, tail := -1, -1, -1
	for at := 1; at < len(block); at++ {
		i := bytes.IndexByte(block[at:], 0) // MaxFrame is less than 1<<24
		if i < 0 {
			break
		}
		at += i
		n, l := guess(block, at)
		switch {
		case l == whole && followed(block, at+n):
			return at, true
		case l == whole && alone < 0:
			alone = at
		case l == beginning && begun < 0:
			begun = at
		case l == scrap && tail < 0:
			tail = at
		}
	}
	switch {
	case begun >= 0:
		return begun, true
	case alone >= 0:
		return alone, true
	case tail >= 0:
		return tail, false
	}
	return len(block), false
}

// followed says whether at is the end of the block or the place of another frame.
func followed(block []byte, at int) bool {
	if at == len(block) {
		return true
	}
	_, l := guess(block, at)
	return l != nothing
}

// likeness says how much a place of a block looks like a frame.
type likeness uint8

const (
	nothing   likeness = iota
	scrap              // the block ends before much can be said
	beginning          // the block ends within it, after its source or its time
	whole
)

// guess says how much block[at:] looks like a frame, and how large that is if it is whole.
func guess(block []byte, at int) (n int, l likeness) {
	b := block[at:]
	if len(b) < header {
		if lengthBegins(b) {
			return 0, scrap
		}
		return 0, nothing
	}
	size, ok := length(b)
	if !ok || size < minSize {
		return 0, nothing
	}
	b = b[header:]
	part := b[:min(size, len(b))]
	f := look(part, size, maxFields)
	timed := f.time != 0
	switch {
	case !f.ok || f.odd || timed && (f.time < minTime || f.time > maxTime):
		return 0, nothing
	case len(part) == size && f.named && timed:
		return header + size, whole
	case len(part) == size || f.fields > 0 && !f.known:
		return 0, nothing
	case f.named || timed:
		return 0, beginning
	}
	return 0, scrap
}
