// Package frame reads and writes the stream of a container's log pipe: frames of a 32-bit
// big-endian length and a protobuf LogEntry. It works on borrowed blocks of bytes and
// allocates nothing for a frame.
package frame

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
