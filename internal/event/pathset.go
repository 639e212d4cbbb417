package event

// PathSet is a set of paths to leave out. A nil PathSet is empty. It is immutable and may
// be used from any goroutine.
type PathSet struct {
	steps []setStep
}

type setStep struct {
	step
	leaf bool     // a path ends here: the value is left out
	sub  *PathSet // what is left out inside the value
}

// NewPathSet makes the set of these paths; nil if there are none.
func NewPathSet(paths ...Path) *PathSet {
	if len(paths) == 0 {
		return nil
	}
	set := &PathSet{}
	for _, p := range paths {
		at := set.add(p.first)
		for _, s := range p.rest {
			if at.sub == nil {
				at.sub = &PathSet{}
			}
			at = at.sub.add(s)
		}
		at.leaf = true
	}
	return set
}

func (s *PathSet) add(want step) *setStep {
	for i := range s.steps {
		if s.steps[i].step == want {
			return &s.steps[i]
		}
	}
	s.steps = append(s.steps, setStep{step: want})
	return &s.steps[len(s.steps)-1]
}

// key says what the set holds of a map's key: the value is left out, or parts of it (sub).
func (s *PathSet) key(k []byte) (out bool, sub *PathSet) {
	if s == nil {
		return false, nil
	}
	for i := range s.steps {
		if st := &s.steps[i]; !st.isIndex && st.key == string(k) {
			return st.leaf, st.sub
		}
	}
	return false, nil
}

// index is like key, for element i of an array of n. [0] and [-1] may be one element.
func (s *PathSet) index(i, n int) (out bool, sub *PathSet) {
	if s == nil {
		return false, nil
	}
	for k := range s.steps {
		if st := &s.steps[k]; st.isIndex && (st.index == i || st.index == i-n) {
			out = out || st.leaf
			if st.sub != nil {
				sub = st.sub
			}
		}
	}
	return out, sub
}

// AppendWithout appends the msgpack value without what drop holds. The value must have
// passed Check or Skip; of a damaged one it appends a part, but always whole msgpack.
func AppendWithout(dst, value []byte, drop *PathSet) []byte {
	end, err := Skip(value, 0)
	if err != nil {
		return AppendNil(dst)
	}
	return appendWithout(dst, value[:end], drop)
}

// appendWithout works on one whole, valid value.
func appendWithout(dst, v []byte, drop *PathSet) []byte {
	if drop == nil {
		return append(dst, v...)
	}
	if n, i, err := MapHeader(v, 0); err == nil {
		at, kept := len(dst), 0
		dst = openHeader(dst)
		for ; n > 0; n-- {
			k, j, err := Bytes(v, i)
			out, sub := false, (*PathSet)(nil)
			if err == nil {
				out, sub = drop.key(k)
			} else {
				j, _ = skip(v, i, 1, 1)
			}
			end, _ := skip(v, j, 1, 1)
			if !out {
				dst = appendWithout(append(dst, v[i:j]...), v[j:end], sub)
				kept++
			}
			i = end
		}
		return closeHeader(dst, at, kept, 0x80, 0xde)
	}
	n, i, err := ArrayHeader(v, 0)
	if err != nil {
		return append(dst, v...)
	}
	at, kept := len(dst), 0
	dst = openHeader(dst)
	for k := range n {
		end, _ := skip(v, i, 1, 1)
		out, sub := drop.index(k, n)
		if !out {
			dst = appendWithout(dst, v[i:end], sub)
			kept++
		}
		i = end
	}
	return closeHeader(dst, at, kept, 0x90, 0xdc)
}
