package deliver

import (
	"slices"
	"sync"
)

// Slots bounds the requests in hand, built or on their way, of all Deliverers that share
// it: memory and connections then grow with the bound, not with their number. Who waits is
// served in turn. A lane that waits for its next attempt, or for the endpoint to come back,
// holds none.
type Slots struct {
	mu      sync.Mutex // guards the rest
	free    int
	waiting []chan struct{} // in order of arrival; each gets one value with its slot
}

// NewSlots makes n slots, at least one.
func NewSlots(n int) *Slots { return &Slots{free: max(n, 1)} }

// try takes a slot if there is one and nobody waits.
func (s *Slots) try() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || len(s.waiting) > 0 {
		return false
	}
	s.free--
	return true
}

// wait takes a slot as soon as it is its turn; false if stop is closed before.
func (s *Slots) wait(stop <-chan struct{}) bool {
	s.mu.Lock()
	if s.free > 0 && len(s.waiting) == 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	turn := make(chan struct{}, 1)
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-stop:
	}
	s.mu.Lock()
	i := slices.Index(s.waiting, turn)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.release() // it came at the same moment
	}
	return false
}

// release gives a slot to who has waited longest.
func (s *Slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		s.waiting[0] <- struct{}{}
		s.waiting = slices.Delete(s.waiting, 0, 1)
		return
	}
	s.free++
}
