package rx

import (
	"strings"
)

// AppendAll appends the offsets of all matches, one after the other and each as
// AppendSubmatchIndex has it (2 numbers per group, Names has the groups), at most limit of
// them. As in Ruby, an empty match may stand directly behind the match before it. The error
// wraps ErrTimeout.
func (r *Regexp) AppendAll(dst []int, b []byte, limit int) ([]int, error) {
	if !r.quick(b) {
		return r.allSlow(dst, b, limit)
	}
	last := -1 // where a match ended that was not empty
	for _, loc := range r.fast.FindAllSubmatchIndex(b, limit) {
		dst = r.appendEmptyAt(dst, b, last, loc[0])
		dst = append(dst, loc...)
		last = -1
		if loc[1] > loc[0] {
			last = loc[1]
		}
	}
	dst = r.appendEmptyAt(dst, b, last, len(b)+1)
	if most := 2 * len(r.names) * limit; len(dst) > most {
		dst = dst[:most]
	}
	return dst, nil
}

// appendEmptyAt appends the empty match directly behind a match that ended at b[at:], which
// Go's engine passes over. What looks to the left of it cannot be judged there: such an
// expression has none.
func (r *Regexp) appendEmptyAt(dst []int, b []byte, at, next int) []int {
	if at < 0 || at == next || r.looksLeft() {
		return dst
	}
	loc := r.fast.FindSubmatchIndex(b[at:])
	if loc == nil || loc[0] != 0 || loc[1] != 0 {
		return dst
	}
	for _, i := range loc {
		if i >= 0 {
			i += at
		}
		dst = append(dst, i)
	}
	return dst
}

// looksLeft says whether the pattern may have an anchor. It errs on the side of yes.
func (r *Regexp) looksLeft() bool {
	return strings.Contains(strings.ReplaceAll(r.text, "[^", ""), "^") || strings.Contains(r.text, `\A`) || strings.Contains(r.text, `\b`) || strings.Contains(r.text, `\B`) ||
		strings.Contains(r.text, `\G`) || strings.Contains(r.text, "(?<")
}

func (r *Regexp) allSlow(dst []int, b []byte, limit int) ([]int, error) {
	runes, offsets := decode(b, true)
	at := func(i int) int {
		if offsets == nil {
			return i
		}
		return offsets[i]
	}
	re := r.engine(len(b))
	if re == nil {
		return dst, r.tooLong(b)
	}
	m, err := re.FindRunesMatch(runes)
	for ; err == nil && m != nil && limit > 0; limit-- {
		for i := range len(r.names) {
			g := m.GroupByNumber(i)
			if g == nil || len(g.Captures) == 0 {
				dst = append(dst, -1, -1)
				continue
			}
			c := g.Captures[len(g.Captures)-1]
			dst = append(dst, at(c.RuneIndex), at(c.RuneIndex+c.RuneLength))
		}
		m, err = re.FindNextMatch(m)
	}
	r.ended(re, len(b), err == nil)
	if err != nil {
		return dst, r.tooLong(b)
	}
	return dst, nil
}
