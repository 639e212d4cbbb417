// Package ledger is the book in which every event admitted to an output ends exactly
// once: delivered, filtered, dropped or rejected, the last two with a reason. What has
// not ended is pending.
//
// Each output has one Book. Its balance, admitted - delivered - filtered - dropped -
// rejected - pending, is 0 at every moment; anything else is a bug in weir, and a metric
// says so.
package ledger

import "sync"

// Class is how an event ended. The numbers stand on disk, as those of Reason.
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

// Reason says why an event was dropped or rejected. The set is fixed, so that every reason can
// be a metric label with a value from the start.
//
// The numbers stand on disk, in the records of every buffer: a new reason goes to the end, and
// none is ever moved or removed (docs/buffer-format.md, and a test, list them). It needs a line
// in the table below, one in docs/metrics.md, and where a person can do something about it a
// hint in web's lossHint.
type Reason uint8

const (
	None Reason = iota
	BufferFull
	DiskFull
	Damaged
	RetryLimit
	ThrottleLimit
	NoTarget
	FilterFailed
	Shutdown
	Unmatched
	Empty
	Oversize
	NoName
	BadName
	TooOld
	TooNew
	Expired
	Refused
	Invalid
	WireLoss
	reasons
)

// table has, for each reason, the word for it and the one class that goes with it.
var table = [reasons]struct {
	word  string
	class Class
}{
	None:          {"", Delivered},
	BufferFull:    {"buffer_full", Dropped},    // a buffer at total_limit_size gave up its oldest or the newest
	DiskFull:      {"disk_full", Dropped},      // the disk was full, or at its free-space floor
	Damaged:       {"damaged", Dropped},        // a damaged part of the buffer
	RetryLimit:    {"retry_limit", Dropped},    // retry_timeout or retry_max_times was reached
	ThrottleLimit: {"throttle_limit", Dropped}, // put_log_events_retry_limit was reached, as configured
	NoTarget:      {"no_target", Dropped},      // group or stream missing and auto_create_stream is false, as configured
	FilterFailed:  {"filter_failed", Dropped},  // a filter could not process the record
	Shutdown:      {"shutdown", Dropped},       // memory buffer at exit
	Unmatched:     {"unmatched", Dropped},      // no <match> for the tag
	Empty:         {"empty", Rejected},         // the message is empty
	Oversize:      {"oversize", Rejected},      // larger than the service takes, on_oversize drop
	NoName:        {"no_name", Rejected},       // no group or stream name for this record
	BadName:       {"bad_name", Rejected},      // an illegal group or stream name
	TooOld:        {"too_old", Rejected},       // older than 14 days, says the service; before 1970
	TooNew:        {"too_new", Rejected},       // more than two hours ahead, says the service
	Expired:       {"expired", Rejected},       // older than the group's retention, says the service
	Refused:       {"refused", Rejected},       // content that the service does not take
	Invalid:       {"invalid", Rejected},       // a record that cannot be encoded
	WireLoss:      {"wire_loss", Dropped},      // torn or missing in the pipe of a container
}

// String gives the word used in metrics and the status page. Loss notices show it with
// blanks in place of _.
func (r Reason) String() string { return table[r].word }

// Fate is how an event with this reason ended: the class follows from it.
func (r Reason) Fate() Fate { return Fate{Class: table[r].class, Reason: r} }

// ReasonsOf lists the reasons an event of this class can have, for metrics that show
// zeros from the start.
func ReasonsOf(c Class) (out []Reason) {
	for r := None + 1; r < reasons; r++ {
		if table[r].class == c {
			out = append(out, r)
		}
	}
	return out
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
