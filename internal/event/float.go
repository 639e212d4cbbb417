package event

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// AppendFloatText prints f as Ruby does: the shortest digits that read back as f, in fixed
// notation when 1e-4 <= |f| < 1e15, and up to 1e16 if there are digits behind the point, else
// as d.de+XX, always with a decimal.
func AppendFloatText(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	switch {
	case f != f:
		return append(dst, "NaN"...)
	case math.IsInf(f, 0):
		if f < 0 {
			dst = append(dst, '-')
		}
		return append(dst, "Infinity"...)
	case abs == 0 || abs >= 1e-4 && abs < 1e15:
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	start := len(dst)
	if abs >= 1e15 && abs < 1e16 {
		if dst = strconv.AppendFloat(dst, f, 'f', -1, 64); bytes.IndexByte(dst[start:], '.') >= 0 {
			return dst
		}
		dst = dst[:start]
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		e := start + bytes.IndexByte(dst[start:], 'e')
		dst = append(dst, "  "...)
		copy(dst[e+2:], dst[e:])
		copy(dst[e:], ".0")
	}
	return dst
}

// appendJSONFloat prints f as a JSON number; what JSON cannot say (NaN, infinities) is null.
func appendJSONFloat(dst []byte, f float64, style JSONStyle) []byte {
	if f != f || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	// Oj prints whole numbers that fit 64 bits without an exponent, and zero without a sign.
	if style == Oj && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
		return append(strconv.AppendInt(dst, int64(f), 10), ".0"...)
	}
	return AppendFloatText(dst, f)
}

// float reads the float whose first byte, 0xca or 0xcb, is b[i]. ok is false if it is cut off.
func float(b []byte, i int) (f float64, next int, ok bool) {
	if b[i] == 0xca {
		if len(b)-i < 5 {
			return 0, 0, false
		}
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b[i+1:]))), i + 5, true
	}
	if len(b)-i < 9 {
		return 0, 0, false
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b[i+1:])), i + 9, true
}
