package frame

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// looked is what can be said of the first bytes of a LogEntry.
type looked struct {
	ok     bool // nothing contradicts it
	fields int  // how many have begun
	known  bool // the first of them is one that we know
	named  bool // a source is there, whole
	odd    bool // a source is neither stdout nor stderr, nor the beginning of one of these
	time   int64
}

// look reads what is there of a LogEntry of size bytes, but refuses one of more than most
// fields. It is slower than decode and agrees with it when all is there.
func look(b []byte, size, most int) (l looked) {
	for at := 0; at < len(b); {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			l.ok = truncated(n) && len(b) < size
			return l
		}
		known := num <= lastField
		if l.fields == 0 {
			l.known = known
		}
		l.fields++
		if l.fields > most || known && !isKey(b[at]) || !plain(typ) {
			return l
		}
		v, ok := readValue(typ, b[at+n:], size-at-n)
		if !ok || known && !l.take(b[at], v, most) {
			return l
		}
		if v.cut {
			break
		}
		at += n + v.size
	}
	l.ok = true
	return l
}

// isKey says whether b is the key of a field that we know.
func isKey(b byte) bool {
	switch b {
	case keySource, keyTimeNano, keyLine, keyPartial, keyMeta, keyAttrs:
		return true
	}
	return false
}

// take notes a field that we know.
func (l *looked) take(key byte, v value, most int) bool {
	switch {
	case key == keySource:
		l.named = l.named || !v.cut
		l.odd = l.odd || !sourceBegins(v.bytes, v.cut)
	case key == keyTimeNano && !v.cut:
		l.time = int64(v.varint)
	case key == keyPartial && !v.cut:
		return v.varint <= 1
	case key == keyMeta && !v.cut:
		// An identifier is 64 bytes. What is much longer counts as fields, since each one
		// of these takes two bytes at least.
		l.fields += len(v.bytes) / 16
		var m Meta
		return l.fields <= most && m.decode(v.bytes)
	}
	return true
}

// sourceBegins says whether name is stdout or stderr or, if it is cut, the beginning of one.
func sourceBegins(name []byte, cut bool) bool {
	for _, s := range [...]string{"stdout", "stderr"} {
		if string(name) == s || cut && len(name) < len(s) && s[:len(name)] == string(name) {
			return true
		}
	}
	return false
}

// value is the value of a field, or the part of it that is there.
type value struct {
	size   int // in the message, when it is not cut
	cut    bool
	varint uint64
	bytes  []byte
}

// readValue reads a value at the beginning of b. The message has left bytes from there on, of
// which len(b) are there.
func readValue(typ protowire.Type, b []byte, left int) (v value, ok bool) {
	more := len(b) < left
	switch typ {
	case protowire.Fixed32Type, protowire.Fixed64Type:
		v.size = 4
		if typ == protowire.Fixed64Type {
			v.size = 8
		}
		v.cut = v.size > len(b)
		return v, v.size <= left
	}
	u, n := protowire.ConsumeVarint(b)
	if n < 0 {
		v.cut = true
		return v, truncated(n) && more
	}
	if typ == protowire.VarintType {
		v.size, v.varint = n, u
		return v, true
	}
	if u > uint64(left-n) {
		return v, false
	}
	v.size = n + int(u)
	v.cut = v.size > len(b)
	v.bytes = b[n:min(v.size, len(b))]
	return v, true
}

// truncated says whether an error of protowire means that bytes are missing.
func truncated(n int) bool { return protowire.ParseError(n) == io.ErrUnexpectedEOF }
