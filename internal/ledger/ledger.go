// Package ledger is the book in which every event admitted to an output ends exactly
// once: delivered, filtered, dropped or rejected, the last two with a reason. What has
// not ended is pending.
//
// Each output has one Book. Its balance, admitted - delivered - filtered - dropped -
// rejected - pending, is 0 at every moment; anything else is a bug in weir, and a metric
// says so.
package ledger

import "sync"

// Class is how an event ended.
type Class uint8

const (
	Delivered Class = iota // the destination accepted it
	Filtered               // the configuration asked for it to go no further
	Dropped                // weir lost it or gave it up
	Rejected               // it cannot be delivered: the service or its rules refuse it
	Moved                  // parked: it goes on in the book of the output's parking lot
	classes
)

// String gives the word used in metrics and in the status page.
func (c Class) String() string {
	return [...]string{"delivered", "filtered", "dropped", "rejected", "moved"}[c]
}

// Reason says why. The set is fixed, so that every reason can be a metric label with a
// value from the start.
type Reason uint8

const (
	None          Reason = iota
	BufferFull           // dropped: a buffer at total_limit_size gave up its oldest or the newest
	DiskFull             // dropped: the disk was full, or at its free-space floor
	Damaged              // dropped: a damaged part of the buffer
	RetryLimit           // dropped: retry_timeout or retry_max_times was reached
	ThrottleLimit        // dropped: put_log_events_retry_limit was reached, as configured
	NoTarget             // dropped: group or stream missing and auto_create_stream is false, as configured
	FilterFailed         // dropped: a filter could not process the record
	Shutdown             // dropped: memory buffer at exit
	Unmatched            // dropped: no <match> for the tag
	Empty                // rejected: the message is empty
	Oversize             // rejected: larger than the service takes, on_oversize drop
	NoName               // rejected: no group or stream name for this record
	BadName              // rejected: an illegal group or stream name
	TooOld               // rejected by the service: older than 14 days
	TooNew               // rejected by the service: more than two hours ahead
	Expired              // rejected by the service: older than the group's retention
	Refused              // rejected by the service: content it does not take
	Invalid              // rejected: a record that cannot be encoded
	WireLoss             // dropped: torn or missing in the pipe of a container
	reasons
)

var reasonNames = [reasons]string{
	"", "buffer_full", "disk_full", "damaged", "retry_limit", "throttle_limit", "no_target", "filter_failed",
	"shutdown", "unmatched", "empty", "oversize", "no_name", "bad_name", "too_old", "too_new", "expired",
	"refused", "invalid", "wire_loss",
}

// String gives the word used in metrics, the status page and loss notices.
func (r Reason) String() string { return reasonNames[r] }

// ReasonsOf lists the reasons an event of this class can have, for metrics that show
// zeros from the start.
func ReasonsOf(c Class) []Reason {
	switch c {
	case Dropped:
		return []Reason{BufferFull, DiskFull, Damaged, RetryLimit, ThrottleLimit, NoTarget, FilterFailed, Shutdown, Unmatched, WireLoss}
	case Rejected:
		return []Reason{Empty, Oversize, NoName, BadName, TooOld, TooNew, Expired, Refused, Invalid}
	}
	return nil
}

// Fate is a class with its reason (None for Delivered and Filtered).
type Fate struct {
	Class  Class
	Reason Reason
}

// Sheet is a page of the book: counts of events. It is a value and can be stored.
type Sheet struct {
	Admitted  uint64
	Delivered uint64
	Filtered  uint64
	Moved     uint64
	Dropped   [reasons]uint64
	Rejected  [reasons]uint64
}

// Add books n events with fate f.
func (s *Sheet) Add(f Fate, n uint64) {
	switch f.Class {
	case Delivered:
		s.Delivered += n
	case Filtered:
		s.Filtered += n
	case Dropped:
		s.Dropped[f.Reason] += n
	case Rejected:
		s.Rejected[f.Reason] += n
	case Moved:
		s.Moved += n
	}
}

// Ended is how many events have ended, in any way.
func (s *Sheet) Ended() uint64 {
	n := s.Delivered + s.Filtered + s.Moved
	for i := range reasons {
		n += s.Dropped[i] + s.Rejected[i]
	}
	return n
}

// Book is the ledger of one output. It may be used from any goroutine.
type Book struct {
	mu    sync.Mutex // guards sheet
	sheet Sheet
}

// Admit books n events that were given to the output.
func (b *Book) Admit(n int) {
	b.mu.Lock()
	b.sheet.Admitted += uint64(n)
	b.mu.Unlock()
}

// End books n admitted events that ended with fate f.
func (b *Book) End(f Fate, n int) {
	b.mu.Lock()
	b.sheet.Add(f, uint64(n))
	b.mu.Unlock()
}

// AdmitEnded books n events that ended at the door: filtered, or refused by a full buffer.
func (b *Book) AdmitEnded(f Fate, n int) {
	b.mu.Lock()
	b.sheet.Admitted += uint64(n)
	b.sheet.Add(f, uint64(n))
	b.mu.Unlock()
}

// Sheet returns a copy of the current page.
func (b *Book) Sheet() Sheet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sheet
}

// Restore adds a page read back from disk at start.
func (b *Book) Restore(s Sheet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sheet.Merge(s)
}

// Pending is what the book says has not ended.
func (s *Sheet) Pending() int64 { return int64(s.Admitted) - int64(s.Ended()) }

// Count is how many events ended with fate f.
func (s *Sheet) Count(f Fate) uint64 {
	switch f.Class {
	case Delivered:
		return s.Delivered
	case Filtered:
		return s.Filtered
	case Moved:
		return s.Moved
	case Dropped:
		return s.Dropped[f.Reason]
	}
	return s.Rejected[f.Reason]
}

// Merge adds another page.
func (s *Sheet) Merge(o Sheet) {
	s.Admitted += o.Admitted
	s.Delivered += o.Delivered
	s.Filtered += o.Filtered
	s.Moved += o.Moved
	for i := range reasons {
		s.Dropped[i] += o.Dropped[i]
		s.Rejected[i] += o.Rejected[i]
	}
}
