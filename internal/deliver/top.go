package deliver

import (
	"slices"
)

// top keeps the n most interesting of many lanes.
type top struct {
	n     int
	lanes []*lane
}

func newTop(n int) *top { return &top{n: n} }

// before says whether a is more interesting than b: in trouble, then more waiting.
func before(a, b *lane) bool {
	if (a.attempts > 0 || a.parked) != (b.attempts > 0 || b.parked) {
		return a.attempts > 0 || a.parked
	}
	if a.events != b.events {
		return a.events > b.events
	}
	if a.delivered != b.delivered {
		return a.delivered > b.delivered
	}
	return a.key < b.key
}

func (t *top) offer(l *lane) {
	if len(t.lanes) == t.n && (t.n == 0 || !before(l, t.lanes[t.n-1])) {
		return
	}
	i, _ := slices.BinarySearchFunc(t.lanes, l, func(a, b *lane) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	t.lanes = slices.Insert(t.lanes, i, l)
	if len(t.lanes) > t.n {
		t.lanes = t.lanes[:t.n]
	}
}

func (t *top) stats() []LaneStats {
	out := make([]LaneStats, 0, len(t.lanes))
	for _, l := range t.lanes {
		s := LaneStats{Lane: l.key, Events: l.events, Bytes: l.bytes, Delivered: l.delivered, Attempts: l.attempts,
			LastError: l.lastError, Parked: l.parked}
		for _, f := range l.flights {
			s.Events += f.events
			s.Bytes += f.raw
		}
		out = append(out, s)
	}
	return out
}
