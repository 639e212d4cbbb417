package buffer

import "sync/atomic"

// Share is a limit that several buffers of a process have together, beside the Limit of
// each. It may be used from any goroutine.
type Share struct {
	limit int64
	used  atomic.Int64
}

// NewShare makes a share of limit bytes for Options.Share.
func NewShare(limit int64) *Share { return &Share{limit: limit} }

// Used is how many bytes the segment files of all its open buffers take, with what is on
// its way to them.
func (s *Share) Used() int64 { return s.used.Load() }
