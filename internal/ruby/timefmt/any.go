package timefmt

import (
	"bytes"
	"time"
)

// layouts are tried one after the other.
type layouts []*Parser

// isoLayouts are those of ISO 8601 with a zone; anyLayouts also the other forms that are
// common in logs, which is a part of what Ruby's Time.parse reads.
var (
	isoLayouts = compileAll("%Y-%m-%dT%H:%M:%S.%N%z", "%Y-%m-%dT%H:%M:%S%z")
	anyLayouts = compileAll("%Y-%m-%dT%H:%M:%S.%N%z", "%Y-%m-%dT%H:%M:%S%z",
		"%Y-%m-%d %H:%M:%S.%N %z", "%Y-%m-%d %H:%M:%S,%N %z", "%Y-%m-%d %H:%M:%S %z",
		"%Y-%m-%dT%H:%M:%S.%N", "%Y-%m-%dT%H:%M:%S,%N", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%N", "%Y-%m-%d %H:%M:%S,%N", "%Y-%m-%d %H:%M:%S",
		"%Y/%m/%d %H:%M:%S.%N %z", "%Y/%m/%d %H:%M:%S %z", "%Y/%m/%d %H:%M:%S.%N", "%Y/%m/%d %H:%M:%S",
		"%a, %d %b %Y %H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %z %Y", "%d/%b/%Y:%H:%M:%S %z", "%d %b %Y %H:%M:%S %z", "%d %b %Y %H:%M:%S",
		"%Y%m%dT%H%M%S%z", "%Y%m%d%H%M%S", "%b %d %Y %H:%M:%S", "%b %d %H:%M:%S",
		"%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%Y/%m/%d", "%H:%M:%S.%N", "%H:%M:%S", "%H:%M")
)

func compileAll(texts ...string) layouts {
	out := make(layouts, len(texts))
	for i, text := range texts {
		out[i], _ = CompileParser(text) // a test compiles them
	}
	return out
}

// ParseISO reads a time of ISO 8601 with a zone.
func ParseISO(b []byte) (Moment, bool) { return isoLayouts.parse(b, nil, nil) }

// ParseAny reads a time in one of the forms that are common in logs. See Parser.Parse.
func ParseAny(b []byte, loc *time.Location, now func() time.Time) (Moment, bool) {
	return anyLayouts.parse(b, loc, now)
}

func (l layouts) parse(b []byte, loc *time.Location, now func() time.Time) (Moment, bool) {
	b = bytes.TrimSpace(b)
	for _, p := range l {
		if m, ok := p.Parse(b, loc, now); ok {
			return m, true
		}
	}
	return Moment{}, false
}
