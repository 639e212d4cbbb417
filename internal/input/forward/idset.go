package forward

// idSet is a set of chunk ids that only grows and is emptied as a whole. Ids are hashes
// already, so that a table with linear probing needs no further hashing, and a look-up of
// an id that is not there, which is the usual one, costs one cache line. Go's map costs
// several, which made a third of the work per message of Message mode
// (docs/performance.md).
type idSet struct {
	slots []chunkID // a power of two of them, at most half full; the zero id is an empty slot
	n     int
}

// minSlots is the size of the smallest table.
const minSlots = 1 << 8

// has reports whether id is in the set.
func (s *idSet) has(id chunkID) bool {
	if s.n == 0 {
		return false
	}
	mask := uint64(len(s.slots) - 1)
	for i := id[0] & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case id:
			return true
		case chunkID{}:
			return false
		}
	}
}

// add puts id, which must not be zero, into the set.
func (s *idSet) add(id chunkID) {
	if 2*(s.n+1) > len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for i := id[0] & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case id:
			return
		case chunkID{}:
			s.slots[i] = id
			s.n++
			return
		}
	}
}

func (s *idSet) grow() {
	was := s.slots
	s.slots, s.n = make([]chunkID, max(2*len(was), minSlots)), 0
	for _, id := range was {
		if id != (chunkID{}) {
			s.add(id)
		}
	}
}

// reset empties the set and keeps its memory.
func (s *idSet) reset() {
	clear(s.slots)
	s.n = 0
}
