// Package output is the contract between delivery and the destinations.
//
// Delivery (package deliver) owns buffers, lanes, workers, order, retry and books. An
// output only knows three things: which lane an event belongs to, how a request for one
// lane is built, and what came of sending it.
package output

import (
	"context"
	"fmt"
	"time"

	"weir/internal/event"
	"weir/internal/ledger"
)

// Output is one configured destination. Its methods may be used from any goroutine.
type Output interface {
	// Splitter returns a new Splitter. Delivery uses each from one goroutine.
	Splitter() Splitter
	// Request returns a new, empty Request. Delivery keeps a bounded number and reuses them.
	Request() Request
	// Scope names what a throttled answer is about, for example account, region and
	// operation: outputs of one scope share one throttle controller. "" means none.
	Scope() string
	// Close frees what the output holds, after the last Send has returned.
	Close() error
}

// Sized is implemented by an Output whose requests are as large as the configuration says,
// not as a service does: objects.
type Sized interface {
	// RequestBytes is how many bytes of entries one request should hold: a lane with that
	// many is due at once. Otherwise delivery learns what fills a request, 8 MiB at most.
	RequestBytes() int
}

// Tagged is implemented by an Output whose requests may mix tags that its lanes do not
// tell apart, although what they write depends on them. Its requests are TagTakers.
type Tagged interface {
	// UsesTags says whether that is so.
	UsesTags() bool
}

// Settler is implemented by requests that want to know when the end of their events is in
// the buffer's books.
type Settler interface {
	// Settled is called after an accepted Send, before the next Reset. A <secondary> is not
	// told: nothing of it is noted for a process after this one.
	Settled()
}

// TagTaker is implemented by the requests of a Tagged output.
type TagTaker interface {
	// SetTag gives the tag of the entries of the Adds that follow.
	SetTag(tag string)
}

// Splitter decides the lane of each event.
type Splitter interface {
	// Split cuts a batch into runs of neighbouring entries that go to one lane and calls
	// add for each run, in order, so that the runs cover all of b.Entries without gaps.
	// Where the names depend on the tag only, that is one call. lane is valid until add
	// returns. An event for which there is no lane is reported with a nil lane and a fate.
	Split(b event.Batch, add func(lane []byte, r Run))
}

// Run is some neighbouring entries of a batch.
type Run struct {
	Off, Len int         // bytes within Batch.Entries
	Count    int         // entries
	Fate     ledger.Fate // with a nil lane: what becomes of them
}

// Request is a request for one lane under construction, then in flight, then finished.
// It is used by one goroutine at a time and reused after Reset.
type Request interface {
	// Reset empties the request and starts one for lane.
	Reset(lane string)
	// Add takes entries from the front of b, at most limit of them, until the request is
	// full. It returns how many entries and bytes it took and whether the request is full
	// (no entry more would fit, or the next may not stand beside the others). Full with
	// nothing taken by an empty request does not happen: an entry that can never be sent is
	// taken and reported by Send as rejected. Add copies what it needs.
	Add(b []byte, limit int) (entries, size int, full bool)
	// Fill says how full the request is, from 0 to 1, for batching decisions and metrics.
	Fill() float64
	// Send sends the request and says what became of each entry taken since Reset, by
	// their order of Add. It may be called again after a failure and then sends the same.
	// Creating a missing target and answering a token conflict happen inside; waiting
	// between attempts does not: that is delivery's.
	Send(ctx context.Context) Result
}

// Freer is implemented by requests whose memory is worth being shared: Free gives it back
// when the request has ended. After that only Reset may follow.
type Freer interface {
	Free()
}

// Result is what became of a request.
type Result struct {
	// Err is nil when the request was accepted. Otherwise no entry has ended, and Err.Kind
	// decides what happens next.
	Err *Error
	// Ended lists runs of entries, ascending and not overlapping, that did not end as
	// ledger.Delivered. Only read when Err is nil.
	Ended []Ended
	// Untold says that the notice in the request was refused although the request was
	// accepted. Only read when Err is nil.
	Untold bool
	// Bytes is the size of the request body, Resent whether an earlier attempt may have
	// been accepted without our seeing the answer.
	Bytes  int
	Resent bool
}

// Ended is a run of entries of a request that ended in another way than delivered.
type Ended struct {
	First, Count int // in order of Add
	Fate         ledger.Fate
}

// Kind says what kind of failure an Error is; the retry policy follows from it alone.
type Kind uint8

const (
	Unavailable Kind = iota // 5xx, time-out, reset, refused, no such host: retry with back-off; concerns the endpoint
	Throttled               // too many requests: retry, and slow down everything in the scope
	Credentials             // missing, expired, wrong or clock skew: retry; concerns the output
	Denied                  // not allowed for this target: retry slowly; concerns the lane
	NoTarget                // target missing and not to be created: concerns the lane
	Conflict                // sequence token conflict with another writer, or a create in progress: retry at once, no error
	Refused                 // content not accepted: bisect; a single entry ends as rejected
	Drop                    // the configuration says to give up: the entries end with Error.Fate
	kinds
)

var kindNames = [kinds]string{"unavailable", "throttled", "credentials", "denied", "no_target", "conflict", "refused", "drop"}

// String gives the word used in metrics and logs.
func (k Kind) String() string { return kindNames[k] }

// Kinds lists all kinds, for metrics that show zeros from the start.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Error is a failed request.
type Error struct {
	Kind  Kind
	Op    string        // what was being done, with its object: `put 312 events to group "a" stream "b"`
	Hint  string        // what the user can do; may be empty
	After time.Duration // how long the service asked us to wait; 0 if it did not
	Fate  ledger.Fate   // for Drop
	Err   error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v", e.Op, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
