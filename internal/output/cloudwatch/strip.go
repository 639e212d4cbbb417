package cloudwatch

import (
	"weir/internal/event"
)

// appendStripped appends the record without the paths in drop and, if empty, without
// top-level fields that hold the empty string.
func appendStripped(dst, record []byte, drop *event.PathSet, empty bool) []byte {
	start := len(dst)
	dst = event.AppendWithout(dst, record, drop)
	if !empty {
		return dst
	}
	n, i, err := event.MapHeader(dst, start)
	if err != nil {
		return dst
	}
	// First count: most records have no empty field and need no second copy.
	kept := 0
	for k, at := 0, i; k < n; k++ {
		at, _ = event.Skip(dst, at)
		if v, _, err := event.Bytes(dst, at); err != nil || len(v) > 0 {
			kept++
		}
		at, _ = event.Skip(dst, at)
	}
	if kept == n {
		return dst
	}
	end := len(dst)
	dst = event.AppendMapHeader(dst, kept)
	for k := 0; k < n; k++ {
		key := i
		value, _ := event.Skip(dst, key)
		next, _ := event.Skip(dst, value)
		if v, _, err := event.Bytes(dst, value); err != nil || len(v) > 0 {
			dst = append(dst, dst[key:next]...)
		}
		i = next
	}
	return append(dst[:start], dst[end:]...)
}
