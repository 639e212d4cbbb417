// Package frame reads and writes the stream of a container's log pipe: frames of a 32-bit
// big-endian length and a protobuf LogEntry. It works on borrowed blocks of bytes and
// allocates nothing for a frame.
package frame

import "encoding/binary"

// MaxFrame is the largest frame accepted, with its length, in bytes: the largest event that
// the service takes (1 MiB) and room for what is around it. Engines of today cut lines into
// chunks of 16 KiB; but one that let a plugin ask for larger ones would still be
// understood. Anything above can only be garbage: a pipe holds no more than that either
// (pipe-max-size is 1 MiB unless an administrator raised it).
const MaxFrame = 1<<20 + 4<<10

// header is the length before each frame.
const header = 4

// Source says which output of the container a line comes from.
type Source uint8

// The sources. Other is a name that no engine of today writes; it is in Entry.Name.
const (
	Other Source = iota
	Stdout
	Stderr

	Sources = 3 // how many there are, for arrays by source
)

// String gives the name as it is in a frame; "other" for Other.
func (s Source) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "other"
}

// Entry is one frame. Its slices point into the block and live as long as that.
type Entry struct {
	Source   Source
	Partial  bool   // one chunk of a line that was longer than the engine's buffer
	HasMeta  bool   // Meta is there; engines before 19.03 know only Partial
	Name     []byte // the source as written
	TimeNano int64  // when the engine read the line, nanoseconds since 1970; never 0
	Line     []byte // without its LF; may be empty
	Meta     Meta
}

// Meta is the place of a chunk in its line.
type Meta struct {
	Last    bool   // the chunk that ended in LF
	ID      []byte // the same for all chunks of a line, and for no other line
	Ordinal int32  // from 1; 0: not said
}

// State is what Next found.
type State uint8

// The states.
const (
	Whole   State = iota // a frame
	More                 // the beginning of a frame, or nothing at all
	Garbage              // no frame begins here
)

// String names the state.
func (s State) String() string {
	switch s {
	case Whole:
		return "whole"
	case More:
		return "more"
	}
	return "garbage"
}

// Next decodes the frame at block[at:]. n is the size of the frame with its length: for
// Whole the next one is at at+n; for More it is the size that it will have (4 while its
// length is not complete), so that a caller can see that it will never fit into the pipe;
// for Garbage it is 0, and Resync finds the next frame.
//
// What does not parse as a LogEntry to the last byte is garbage, and so is one without a
// time: the engine always sets it. Unknown fields are skipped, fields may come in any order,
// and of a repeated one the last counts. Incomplete frames are garbage as soon as what is
// there of them contradicts itself.
func Next(block []byte, at int) (e Entry, n int, s State) {
	b := block[at:]
	if len(b) < header {
		return e, header, head(b)
	}
	size := binary.BigEndian.Uint32(b)
	if size == 0 || size > MaxFrame-header {
		return e, 0, Garbage
	}
	n = header + int(size)
	if n > len(b) {
		if !begins(b[header:], int(size)) {
			return e, 0, Garbage
		}
		return e, n, More
	}
	if !e.decode(b[header:n]) {
		return Entry{}, 0, Garbage
	}
	return e, n, Whole
}

// Resync finds the next frame of a block that begins with garbage (or with a frame that the
// caller has given up, since it never became complete). skip is how many bytes are lost, at
// least 1 of a block that is not empty. With ok a frame begins at block[skip:], which may be
// incomplete. Without, nothing like a frame is there: what is left after skip, if anything,
// is too short to tell. In both cases go on with Next at skip, when there are more bytes;
// at the end of the stream what is left is lost too.
//
// A line may hold bytes that look like a frame. So of the places where a plausible frame
// begins (stdout or stderr, a time between 1970 and 2200) the first is taken that is
// followed by more frames, or up to the end of the block by nothing else; only if there is none, the first that
// stands alone. A frame that lost its end and swallowed the beginning of the next one is
// passed over by the same rule.
func Resync(block []byte) (skip int, ok bool) { return len(block), false }

// Append writes an entry as a frame, in the way of the engine: fields in order of their
// numbers, zero values left out. The name of the source is e.Name, or if that is nil the one of
// e.Source.
func Append(dst []byte, e *Entry) []byte { return dst }
