package output

import (
	"weir/internal/event"
	"weir/internal/ledger"
)

// Notice is what a lane has lost and is to be told of: a line at the place of the gap.
type Notice struct {
	Events      uint64
	Bytes       uint64     // of the lost events' entries or messages, as far as known
	First, Last event.Time // of the lost events; zero if not known
	Behind      event.Time // of the first event that arrived behind the loss; zero if not known
	Reasons     []ReasonCount
}

// ReasonCount is how many events were lost for one reason.
type ReasonCount struct {
	Reason ledger.Reason
	Events uint64
}

// Teller is implemented by requests that can carry notices among their entries.
type Teller interface {
	// Tell puts a notice at this place among the entries added. It counts as no entry. At
	// most one stands in a request. It returns false if the request has no room for it; an
	// empty request always has. Result.Untold says whether it was refused.
	Tell(n Notice) bool
}

// TagLanes is implemented by an Output of which the lane of an event depends on its tag
// alone: what a buffer has lost of a tag is then known to be lost of that lane.
type TagLanes interface {
	// LaneOf gives the lane of a tag; ok is false if it has none, or several.
	LaneOf(tag string) (lane string, ok bool)
}
