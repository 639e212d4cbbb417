package frame

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Append writes an entry as a frame, in the way of the engine: fields in the order of their
// numbers, zero values left out. The source is e.Name or, if that is empty, the name of
// e.Source.
func Append(dst []byte, e *Entry) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, header)...)
	dst = append(dst, keySource)
	if len(e.Name) > 0 {
		dst = protowire.AppendBytes(dst, e.Name)
	} else {
		dst = protowire.AppendString(dst, e.Source.String())
	}
	if e.TimeNano != 0 {
		dst = protowire.AppendVarint(append(dst, keyTimeNano), uint64(e.TimeNano))
	}
	if len(e.Line) > 0 {
		dst = protowire.AppendBytes(append(dst, keyLine), e.Line)
	}
	if e.Partial {
		dst = append(dst, keyPartial, 1)
	}
	if e.HasMeta {
		dst = protowire.AppendVarint(append(dst, keyMeta), uint64(e.Meta.size()))
		dst = e.Meta.append(dst)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-header))
	return dst
}

// append writes the metadata without its length.
func (m *Meta) append(dst []byte) []byte {
	if m.Last {
		dst = append(dst, keyLast, 1)
	}
	if len(m.ID) > 0 {
		dst = protowire.AppendBytes(append(dst, keyID), m.ID)
	}
	if m.Ordinal != 0 {
		dst = protowire.AppendVarint(append(dst, keyOrdinal), uint64(m.Ordinal))
	}
	return dst
}

// size is how many bytes append writes.
func (m *Meta) size() int {
	n := 0
	if m.Last {
		n += 2
	}
	if len(m.ID) > 0 {
		n += 1 + protowire.SizeBytes(len(m.ID))
	}
	if m.Ordinal != 0 {
		n += 1 + protowire.SizeVarint(uint64(m.Ordinal))
	}
	return n
}
