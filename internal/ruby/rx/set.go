package rx

import (
	"slices"
	"unicode"
)

// runeRange is a range of characters, both ends included.
type runeRange struct{ lo, hi rune }

// set is a set of characters: ascending ranges that neither overlap nor touch.
type set []runeRange

const maxRune = unicode.MaxRune

// everything holds all characters.
func everything() set { return set{{0, maxRune}} }

func oneOf(s string) set {
	var out set
	for _, r := range s {
		out = append(out, runeRange{r, r})
	}
	return out.normal()
}

// normal sorts and merges ranges.
func (s set) normal() set {
	if len(s) < 2 {
		return s
	}
	slices.SortFunc(s, func(a, b runeRange) int { return int(a.lo) - int(b.lo) })
	out := s[:1]
	for _, r := range s[1:] {
		last := &out[len(out)-1]
		if r.lo <= last.hi+1 {
			last.hi = max(last.hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

func (s set) union(t set) set {
	return append(slices.Clone(s), t...).normal()
}

func (s set) negate() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= maxRune {
		out = append(out, runeRange{next, maxRune})
	}
	return out
}

func (s set) intersect(t set) set {
	return s.negate().union(t.negate()).negate()
}

func (s set) has(r rune) bool {
	_, ok := slices.BinarySearchFunc(s, r, func(x runeRange, r rune) int {
		switch {
		case x.hi < r:
			return -1
		case x.lo > r:
			return 1
		}
		return 0
	})
	return ok
}

// folded adds the other cases of every character, as Ruby does for a class: from ASCII to
// another character and back only for members of free (not for those that came from \w and
// its like), and never to a character of Latin-1, which Onigmo's tables lose.
func (s set) folded(free set) set {
	if len(s) == 1 && s[0] == (runeRange{0, maxRune}) {
		return s
	}
	out := slices.Clone(s)
	for _, r := range s {
		// Beyond the last letter with cases nothing is to be done; CJK alone would be
		// tens of thousands of steps.
		for c := r.lo; c <= min(r.hi, lastFold); c++ {
			if c == noFoldLow {
				if r.hi <= noFoldHigh {
					break
				}
				c = noFoldHigh
			}
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				if f >= 0x80 && f <= 0xff || (f < 0x80) != (c < 0x80) && !free.has(c) {
					continue
				}
				out = append(out, runeRange{f, f})
			}
		}
	}
	return out.normal()
}

// cases holds one character and its other cases.
func cases(c rune) set {
	out := set{{c, c}}
	for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
		out = append(out, runeRange{f, f})
	}
	return out.normal()
}

// Bounds of the characters that have cases, with the one big gap (CJK) left out.
const (
	noFoldLow  = 0x2e80
	noFoldHigh = 0xa63f
	lastFold   = 0x1e943
)

// fromTable makes a set of a Unicode table.
func fromTable(tables ...*unicode.RangeTable) set {
	var out set
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			out = append(out, runeRange{lo, hi})
			return
		}
		for c := lo; c <= hi; c += stride {
			out = append(out, runeRange{c, c})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return out.normal()
}
