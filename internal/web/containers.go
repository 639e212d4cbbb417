package web

import (
	"time"

	"weir/internal/ledger"
)

// ContainerStatus is one container of the Docker logging driver. Its events are in the
// books of its output too.
type ContainerStatus struct {
	ID     string // the first 12 digits
	Name   string // the id if it has none
	Output string // id of its output; empty as long as nothing was written
	Group  string
	Stream string

	Sessions   int    // pipes that are read
	Frames     uint64 // read from them since they were opened
	LostPlaces uint64 // places in the pipes where frames were torn or missing
	// Fault says why nothing can be stored; empty when well.
	Fault string

	Sheet    ledger.Sheet
	Balance  int64
	BytesOut uint64 // of delivered entries
	Buffer   BufferStatus
	Untold   int    // losses of which the stream is still to be told
	Notices  uint64 // of losses, taken by the service since the start
	Noticed  uint64 // events of which they told

	LastSuccess time.Time // of a request; zero if none yet
	LastError   string
	LastErrorAt time.Time
}

// containerReport is a ContainerStatus for readers.
type containerReport struct {
	ID         string       `json:"id"`
	Name       string       `json:"name"`
	Group      string       `json:"group"`
	Stream     string       `json:"stream"`
	Output     string       `json:"output,omitempty"`
	Sessions   int          `json:"sessions"`
	Frames     uint64       `json:"frames"`
	LostPlaces uint64       `json:"lost_places"`
	Fault      string       `json:"fault,omitempty"`
	Ledger     bookReport   `json:"ledger"`
	Buffer     bufferReport `json:"buffer"`
	BytesOut   uint64       `json:"delivered_bytes"`
	Untold     int          `json:"untold_gaps"`
	Notices    uint64       `json:"notices"`
	Noticed    uint64       `json:"noticed_events"`
	Failing    bool         `json:"failing"` // the last request failed
	Success    *time.Time   `json:"last_success"`
	LastError  *errorReport `json:"last_error"`
}

func containerOf(c *ContainerStatus, now time.Time) containerReport {
	r := containerReport{
		ID: c.ID, Name: c.Name, Group: c.Group, Stream: c.Stream, Output: c.Output, Sessions: c.Sessions, Frames: c.Frames,
		LostPlaces: c.LostPlaces, Fault: c.Fault, Ledger: bookOf(&c.Sheet, c.Balance), Buffer: bufferOf(&c.Buffer, now), BytesOut: c.BytesOut,
		Untold: c.Untold, Notices: c.Notices, Noticed: c.Noticed, Success: stamp(c.LastSuccess),
	}
	if c.LastError != "" {
		r.Failing = c.LastErrorAt.After(c.LastSuccess)
		r.LastError = &errorReport{Text: c.LastError, At: c.LastErrorAt}
	}
	return r
}
