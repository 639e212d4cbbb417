package parser

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"weir/internal/event"
)

// timeOf reads seconds: a number, or a text that is one. Of the decimals as they are
// written nine count. has is false for a text that is no number, and for what EventTime
// cannot hold; ok for what is neither text nor number.
func timeOf(v []byte, whole bool) (t event.Time, has, ok bool) {
	var buf [32]byte
	text, _, err := event.Bytes(v, 0)
	if err != nil {
		switch c := v[0]; {
		case c == 0xcb:
			text = strconv.AppendFloat(buf[:0], math.Float64frombits(binary.BigEndian.Uint64(v[1:])), 'f', -1, 64)
		case c == 0xca:
			text = strconv.AppendFloat(buf[:0], float64(math.Float32frombits(binary.BigEndian.Uint32(v[1:]))), 'f', -1, 64)
		case c < 0x80 || c >= 0xe0 || c >= 0xcc && c <= 0xd3:
			t, _, err = event.ReadTime(v, 0)
			return t, err == nil && t >= 0 && t.Seconds() <= math.MaxUint32, true
		default:
			return 0, false, false
		}
	}
	t, has = secondsOf(text, whole)
	return t, has, true
}

// secondsOf reads a text that is a number.
func secondsOf(text []byte, whole bool) (t event.Time, ok bool) {
	sec, frac, _ := bytes.Cut(bytes.TrimSpace(text), []byte{'.'})
	seconds, n := number(sec, 10)
	if n == 0 || n != len(sec) || seconds > math.MaxUint32 {
		return 0, false
	}
	nanos, n := number(frac, 9)
	if n != len(frac) {
		if n < 9 || !digits(frac[n:]) {
			return 0, false
		}
	}
	for ; n < 9; n++ {
		nanos *= 10
	}
	if whole {
		nanos = 0
	}
	return event.Unix(seconds, nanos), true
}

// number reads up to limit digits and says how many there were.
func number(s []byte, limit int) (v int64, n int) {
	for n < len(s) && n < limit && s[n] >= '0' && s[n] <= '9' {
		v = 10*v + int64(s[n]-'0')
		n++
	}
	return v, n
}

func digits(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
