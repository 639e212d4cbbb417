package expr

import (
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/ruby/rx"
)

// matchSize is how many groups a match has, the whole one included.
func matchSize(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return intValue(int64(len(v.o.x.match.loc) / 2)), nil
}

// noPosition refuses a place to begin at.
func (m *Machine) noPosition(n *call, a []Value) error {
	if len(a) < 2 {
		return nil
	}
	if _, err := m.intArg(n, a[1]); err != nil {
		return err
	}
	return m.exceed(n, "%s with a position is not supported", n.name)
}

// text is a regular expression as it stands in another.
func (p *pattern) text() string {
	on, off := "", ""
	for _, f := range "mix" {
		if slices.Contains([]rune(p.flags), f) {
			on += string(f)
		} else {
			off += string(f)
		}
	}
	if off != "" {
		off = "-" + off
	}
	return "(?" + on + off + ":" + p.re.String() + ")"
}

// findFrom looks for the first match that begins at start or behind it, or with back for the
// last one that begins at start or before it; -1 if there is none. Matches may overlap those
// that lie before.
func (m *Machine) findFrom(n node, re *rx.Regexp, v Value, start int, back bool) (int, error) {
	found, err := m.findAll(n, re, v)
	if err != nil {
		return -1, err
	}
	at, alone := -1, true // alone: no match could begin within another
	for i := range found {
		loc := found[i].loc
		if !back && loc[0] >= start {
			m.last = &found[i]
			return loc[0], nil
		}
		if loc[0] <= start {
			at = loc[0]
			m.last = &found[i]
			alone = utf8.RuneCountInString(v.s.s[loc[0]:loc[1]]) <= 1
		}
		if !back && loc[1] > start && loc[0] < start {
			return m.findOver(n, re, v, start, start, back)
		}
	}
	if back && at >= 0 && !alone {
		return m.findOver(n, re, v, at, start, back)
	}
	if !back {
		at, m.last = -1, nil
	}
	return at, nil
}

// findOver looks again from a place within a match. What stands before is lost to the regular
// expression then, so that one which asks for it is refused.
func (m *Machine) findOver(n node, re *rx.Regexp, v Value, from, start int, back bool) (int, error) {
	if strings.ContainsAny(re.String(), `^$`) || strings.Contains(re.String(), "(?<") || strings.Contains(re.String(), `\A`) || strings.Contains(re.String(), `\b`) ||
		strings.Contains(re.String(), `\B`) || strings.Contains(re.String(), `\G`) || strings.Contains(re.String(), `\K`) {
		return -1, m.exceed(n, "matches of this regular expression that overlap are not supported")
	}
	at := -1
	for from <= len(v.s.s) {
		loc, err := re.AppendSubmatchIndex(nil, bytesOf(v.s.s[from:]))
		if err != nil {
			return -1, m.exceed(n, "%v", err)
		}
		if err := m.charge(n, 20+(len(v.s.s)-from)/16); err != nil {
			return -1, err
		}
		if loc == nil || back && from+loc[0] > start {
			break
		}
		at = from + loc[0]
		for i := range loc {
			if loc[i] >= 0 {
				loc[i] += from
			}
		}
		m.last = &match{re: re, src: v.s.s, loc: loc}
		if !back {
			break
		}
		_, size := utf8.DecodeRuneInString(v.s.s[at:])
		from = at + max(size, 1)
	}
	if at < 0 {
		m.last = nil
	}
	return at, nil
}
