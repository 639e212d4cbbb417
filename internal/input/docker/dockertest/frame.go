package dockertest

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Frame is one LogEntry.
type Frame struct {
	Source  string
	Time    int64 // nanoseconds since 1970
	Line    []byte
	Partial bool
	ID      string // of partials
	Ordinal int
	Last    bool
}

// append writes the frame with its length.
func (f *Frame) append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), f.Source)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(f.Time))
	if len(f.Line) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), f.Line)
	}
	if f.Partial {
		b = protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.VarintType), 1)
	}
	if f.ID != "" {
		var m []byte
		if f.Last {
			m = protowire.AppendVarint(protowire.AppendTag(m, 1, protowire.VarintType), 1)
		}
		m = protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), f.ID)
		m = protowire.AppendVarint(protowire.AppendTag(m, 3, protowire.VarintType), uint64(f.Ordinal))
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), m)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// Bytes is the frame as it stands in the pipe.
func (f *Frame) Bytes() []byte { return f.append(nil) }

// Cut makes the frames of one line as the engine cuts it: chunks of size bytes with one id
// and one time. Without a newline at its end the last chunk is never marked.
func Cut(source string, time int64, line []byte, id string, size int, newline bool) []Frame {
	if len(line) < size {
		if newline {
			return []Frame{{Source: source, Time: time, Line: line}}
		}
	}
	var all []Frame
	for ordinal := 1; len(line) >= size; ordinal++ {
		all = append(all, Frame{Source: source, Time: time, Line: line[:size], Partial: true, ID: id, Ordinal: ordinal})
		line = line[size:]
	}
	if newline || len(line) > 0 {
		all = append(all, Frame{Source: source, Time: time, Line: line, Partial: true, ID: id, Ordinal: len(all) + 1, Last: newline})
	}
	return all
}
