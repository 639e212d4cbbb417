package event

import (
	"bytes"
	"hash/maphash"
)

// keyIndex finds out which keys of a map under construction come twice. Small maps need no
// memory beyond it; for a larger one it makes a hash table, so that an input of nothing but
// keys takes linear time.
type keyIndex struct {
	base  int // where the map's header byte stands in dst; the first key follows
	n     int // keys seen
	twice bool
	small [24]uint32 // where the keys begin, from base
	table []slot     // open addressing; length is a power of two, at most half full
	seed  maphash.Seed
}

// slot holds the places of a key's first and last appearance, from base. The first is 0
// for an empty slot: no key stands at the header byte.
type slot struct{ first, last uint32 }

// add notes the key that begins at dst[at] and ends dst. A map that takes 4 GiB or more,
// for which 32 bits do not do, does not come from a message: those are far smaller.
func (x *keyIndex) add(dst []byte, at int) {
	key := dst[at:]
	place := uint32(at - x.base)
	x.n++
	if x.table == nil {
		if x.n <= len(x.small) {
			for _, p := range x.small[:x.n-1] {
				// A str says its own length, so that a prefix is the whole key.
				if bytes.HasPrefix(dst[x.base+int(p):], key) {
					x.twice = true
				}
			}
			x.small[x.n-1] = place
			return
		}
		x.seed = maphash.MakeSeed()
		x.grow(dst, 8*len(x.small))
		for _, p := range x.small {
			x.put(dst, keyAt(dst, x.base+int(p)), p)
		}
	} else if 2*x.n > len(x.table) {
		x.grow(dst, 2*len(x.table))
	}
	x.put(dst, key, place)
}

// keyAt returns the whole str, head included, that begins at dst[at].
func keyAt(dst []byte, at int) []byte {
	end, _ := skip(dst, at, 1, 0)
	return dst[at:end]
}

// grow makes a table of the least power of two that is not below n.
func (x *keyIndex) grow(dst []byte, n int) {
	size := 1
	for size < n {
		size *= 2
	}
	old := x.table
	x.table = make([]slot, size)
	for _, s := range old {
		if s.first != 0 {
			*x.find(dst, keyAt(dst, x.base+int(s.first))) = s
		}
	}
}

func (x *keyIndex) put(dst, key []byte, place uint32) {
	s := x.find(dst, key)
	if s.first == 0 {
		s.first = place
	} else {
		x.twice = true
	}
	s.last = place
}

// find returns the slot of a key, or the empty one where it belongs.
func (x *keyIndex) find(dst, key []byte) *slot {
	mask := uint64(len(x.table) - 1)
	for h := maphash.Bytes(x.seed, key) & mask; ; h = (h + 1) & mask {
		s := &x.table[h]
		if s.first == 0 || string(keyAt(dst, x.base+int(s.first))) == string(key) {
			return s
		}
	}
}

// compact leaves one entry for each key: in the place of its first appearance, with the
// value of its last. It returns dst and how many entries the map has now.
func (x *keyIndex) compact(dst []byte, n int) ([]byte, int) {
	if x.table == nil {
		x.seed = maphash.MakeSeed()
		x.grow(dst, 4*len(x.small))
		for _, p := range x.small[:n] {
			x.put(dst, keyAt(dst, x.base+int(p)), p)
		}
	}
	end, kept := len(dst), 0
	for i := x.base + 1; i < end; {
		key := keyAt(dst, i)
		next, _ := skip(dst, i, 2, 0)
		if s := x.find(dst, key); int(s.first) == i-x.base {
			last := x.base + int(s.last)
			stop, _ := skip(dst, last, 2, 0)
			dst = append(dst, dst[last:stop]...)
			kept++
		}
		i = next
	}
	moved := copy(dst[x.base+1:], dst[end:])
	return dst[:x.base+1+moved], kept
}
