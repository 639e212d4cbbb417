package event

import (
	"encoding/binary"
	"math"
)

// AppendNil appends nil.
func AppendNil(dst []byte) []byte { return append(dst, 0xc0) }

// AppendBool appends true or false.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 0xc3)
	}
	return append(dst, 0xc2)
}

// AppendInt appends v in its shortest form.
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	case v >= math.MinInt8:
		return append(dst, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(v))
}

// AppendUint appends v in its shortest form.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v <= 0x7f:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), v)
}

// AppendFloat appends v as a 64-bit float.
func AppendFloat(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(v))
}

// AppendStr appends s as a str. A text longer than 4 GiB cannot be expressed; such a length
// wraps, and no caller holds one.
func AppendStr[T string | []byte](dst []byte, s T) []byte {
	return append(AppendStrHeader(dst, len(s)), s...)
}

// AppendStrHeader appends the head of a str of n bytes; the caller appends the bytes.
func AppendStrHeader(dst []byte, n int) []byte {
	switch {
	case n <= 31:
		return append(dst, 0xa0|byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xd9, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
}

// AppendBin appends b as a bin.
func AppendBin(dst, b []byte) []byte {
	switch n := len(b); {
	case n <= math.MaxUint8:
		dst = append(dst, 0xc4, byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xc5), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
	}
	return append(dst, b...)
}

// AppendMapHeader appends the head of a map; n keys and n values must follow.
func AppendMapHeader(dst []byte, n int) []byte { return appendHeader(dst, n, 0x80, 0xde) }

// AppendArrayHeader appends the head of an array; n elements must follow.
func AppendArrayHeader(dst []byte, n int) []byte { return appendHeader(dst, n, 0x90, 0xdc) }

func appendHeader(dst []byte, n int, fix, wide byte) []byte {
	switch {
	case n <= 15:
		return append(dst, fix|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, wide), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, wide+1), uint32(n))
}

// AppendEntry appends the event [t, record]. record must be one msgpack map.
func AppendEntry(dst []byte, t Time, record []byte) []byte {
	return append(AppendEntryHeader(dst, t), record...)
}

// AppendEntryHeader appends the beginning of an event; the caller appends its record,
// which must be one msgpack map.
func AppendEntryHeader(dst []byte, t Time) []byte {
	return AppendTime(append(dst, 0x92), t)
}

// OpenMap begins a map whose number of entries is not known yet: append its keys and values
// to what it returns, then call CloseMap with the length that dst had before.
func OpenMap(dst []byte) []byte { return openHeader(dst) }

// CloseMap ends the map that OpenMap began at dst[at], with n entries. It moves the content
// if n needs more than the one byte reserved, that is beyond 15.
func CloseMap(dst []byte, at, n int) []byte { return closeHeader(dst, at, n, 0x80, 0xde) }

// openHeader appends a byte in which closeHeader puts the count of a map or an array that
// is not known yet.
func openHeader(dst []byte) []byte { return append(dst, 0) }

// closeHeader writes the count of the container whose header byte openHeader put at
// dst[at], and moves its content if the count needs more than that byte.
func closeHeader(dst []byte, at, n int, fix, wide byte) []byte {
	if n <= 15 {
		dst[at] = fix | byte(n)
		return dst
	}
	more := 2
	if n > math.MaxUint16 {
		more = 4
	}
	end := len(dst)
	dst = append(dst, 0, 0, 0, 0)[:end+more]
	copy(dst[at+1+more:], dst[at+1:end])
	appendHeader(dst[:at], n, fix, wide)
	return dst
}
