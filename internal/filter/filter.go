// Package filter holds the filters: pure functions over the raw entries of a batch.
package filter

// Filter changes or removes events. A Filter is immutable after its construction and may
// be used from any goroutine; what it needs for working it keeps in the Scratch.
type Filter interface {
	// Apply reads the entries of src, which have passed event.Check, and appends those
	// that go on, changed or not, to dst. It returns the grown dst and how many events go
	// on and how many failed; the others were filtered. When nothing changes it may return
	// src itself instead of a copy.
	Apply(s *Scratch, tag string, src, dst []byte) (out []byte, kept, failed int)
}

// Scratch is working memory that a filter may use during Apply. Each goroutine has its own.
type Scratch struct {
	Buf []byte
}
