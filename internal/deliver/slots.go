package deliver

// Slots bounds the requests in hand, built or on their way, of all Deliverers that share
// it: memory and connections then grow with the bound, not with their number.
type Slots struct {
	n int
}

// NewSlots makes n slots, at least one.
func NewSlots(n int) *Slots { return &Slots{n: max(n, 1)} }
