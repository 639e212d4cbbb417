package frame

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Keys of the fields of a LogEntry: number and wire type in one byte.
const (
	keySource   = 1<<3 | byte(protowire.BytesType)
	keyTimeNano = 2<<3 | byte(protowire.VarintType)
	keyLine     = 3<<3 | byte(protowire.BytesType)
	keyPartial  = 4<<3 | byte(protowire.VarintType)
	keyMeta     = 5<<3 | byte(protowire.BytesType)
	keyAttrs    = 6<<3 | byte(protowire.BytesType)
)

// Keys of the fields of the metadata of a partial line.
const (
	keyLast    = 1<<3 | byte(protowire.VarintType)
	keyID      = 2<<3 | byte(protowire.BytesType)
	keyOrdinal = 3<<3 | byte(protowire.VarintType)
)

// Next decodes the frame at block[at:]. n is the size of the frame with its length: for
// Whole the next one is at at+n; for More it is the size that the frame will have (4 while
// its length is not complete); for Garbage it is 0, and Resync finds the next frame.
//
// What does not parse as a LogEntry to the last byte is garbage, and so is one without a
// time, which the engine always sets, or with a truth value that is neither 0 nor 1.
// Unknown fields are skipped, fields may come in any order, and of a repeated one the last
// counts. An incomplete frame is garbage as soon as what is there of it contradicts itself.
// Until then garbage can pass for one; so a caller for whom the n bytes will never come
// (the pipe is full, or the stream has ended) gives it up with Resync.
func Next(block []byte, at int) (e Entry, n int, s State) {
	b := block[at:]
	if len(b) < header {
		if !lengthBegins(b) {
			return e, 0, Garbage
		}
		return e, header, More
	}
	size, ok := length(b)
	if !ok {
		return e, 0, Garbage
	}
	b = b[header:]
	n = header + size
	if size > len(b) {
		if !look(b, size, size).ok {
			return e, 0, Garbage
		}
		return e, n, More
	}
	if !e.decode(b[:size]) || e.TimeNano <= 0 {
		return Entry{}, 0, Garbage
	}
	return e, n, Whole
}

// length reads the length at the beginning of b, which has at least its four bytes.
func length(b []byte) (size int, ok bool) {
	u := binary.BigEndian.Uint32(b)
	return int(u), u != 0 && u <= MaxFrame-header
}

// lengthBegins says whether up to three bytes can be the beginning of a length.
func lengthBegins(b []byte) bool {
	var most [header]byte
	copy(most[:], b)
	return binary.BigEndian.Uint32(most[:]) <= MaxFrame-header
}

// decode reads a whole LogEntry.
func (e *Entry) decode(b []byte) bool {
	for len(b) > 0 {
		switch key := b[0]; key {
		case keySource, keyLine, keyMeta, keyAttrs:
			v, n := protowire.ConsumeBytes(b[1:])
			if n < 0 || !e.setBytes(key, v) {
				return false
			}
			b = b[1+n:]
		case keyTimeNano, keyPartial:
			v, n := protowire.ConsumeVarint(b[1:])
			if n < 0 || key == keyPartial && v > 1 {
				return false
			}
			if key == keyTimeNano {
				e.TimeNano = int64(v)
			} else {
				e.Partial = v != 0
			}
			b = b[1+n:]
		default:
			n := skip(b, lastField)
			if n < 0 {
				return false
			}
			b = b[n:]
		}
	}
	return true
}

// setBytes takes a field that is a run of bytes.
func (e *Entry) setBytes(key byte, v []byte) bool {
	switch key {
	case keySource:
		e.Name, e.Source = v, sourceOf(v)
	case keyLine:
		e.Line = v
	case keyMeta:
		e.HasMeta = true
		return e.Meta.decode(v)
	}
	return true
}

// decode reads the metadata. A second message adds to the first, as protobuf has it.
func (m *Meta) decode(b []byte) bool {
	for len(b) > 0 {
		switch key := b[0]; key {
		case keyLast, keyOrdinal:
			v, n := protowire.ConsumeVarint(b[1:])
			if n < 0 || key == keyLast && v > 1 {
				return false
			}
			if key == keyLast {
				m.Last = v != 0
			} else {
				m.Ordinal = int32(v)
			}
			b = b[1+n:]
		case keyID:
			v, n := protowire.ConsumeBytes(b[1:])
			if n < 0 {
				return false
			}
			m.ID = v
			b = b[1+n:]
		default:
			n := skip(b, lastMetaField)
			if n < 0 {
				return false
			}
			b = b[n:]
		}
	}
	return true
}

// Highest numbers of fields that we know.
const (
	lastField     = 6
	lastMetaField = 3
)

// skip gives the size of an unknown field, or less than 0 if there is none. A field that we
// know with another wire type, or in more bytes than it needs, is nothing that an engine
// writes; neither are groups, which proto3 does not have.
func skip(b []byte, known protowire.Number) int {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num <= known || !plain(typ) {
		return -1
	}
	v := protowire.ConsumeFieldValue(num, typ, b[n:])
	if v < 0 {
		return -1
	}
	return n + v
}

// plain says whether a wire type is one of a value, not of a group.
func plain(t protowire.Type) bool {
	switch t {
	case protowire.VarintType, protowire.BytesType, protowire.Fixed32Type, protowire.Fixed64Type:
		return true
	}
	return false
}

// sourceOf gives the source of a name.
func sourceOf(name []byte) Source {
	switch string(name) {
	case "stdout":
		return Stdout
	case "stderr":
		return Stderr
	}
	return Other
}
