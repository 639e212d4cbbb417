package expr

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// upcase is ToUpper with the letters that become two, as far as they are common.
func upcase(s string) string {
	return strings.NewReplacer("ß", "SS", "ŉ", "ʼN", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL").Replace(strings.ToUpper(s))
}

// downcase is ToLower with the letter that becomes two.
func downcase(s string) string {
	if strings.Contains(s, "İ") {
		s = strings.ReplaceAll(s, "İ", "i\u0307")
	}
	return strings.ToLower(s)
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	first := string(unicode.ToTitle(r))
	switch r {
	case 'ß':
		first = "Ss"
	case 'ŉ', 'ﬀ', 'ﬁ', 'ﬂ':
		first = capitalize(upcase(s[:n]))
	}
	if n == 0 {
		return s
	}
	return first + downcase(s[n:])
}

func swapCase(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteString(downcase(string(r)))
		} else {
			b.WriteString(upcase(string(r)))
		}
	}
	return b.String()
}

// letters makes a textMethod that changes the case of letters. It takes only UTF-8.
func letters(f func(s string) string) textMethod {
	return textMethod{fn: func(m *Machine, n *call, v Value, a []Value) (string, error) {
		if !valid(v.s.s) && v.s.enc == utf8Text {
			return "", m.raise(n, "ArgumentError", "input string invalid")
		}
		return f(v.s.s), nil
	}}
}

func chop(s string) string {
	if strings.HasSuffix(s, "\r\n") {
		return s[:len(s)-2]
	}
	_, n := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-n]
}

func reverse(s string) string {
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		_, n := utf8.DecodeLastRuneInString(s)
		out = append(out, s[len(s)-n:]...)
		s = s[:len(s)-n]
	}
	return string(out)
}

func textChomp(m *Machine, n *call, v Value, a []Value) (string, error) {
	s := v.s.s
	if len(a) == 1 && a[0].IsNil() {
		return s, nil
	}
	if len(a) == 1 {
		if err := m.need(n, String, a...); err != nil {
			return "", err
		}
		switch a[0].s.s {
		case "\n":
		case "":
			for strings.HasSuffix(s, "\n") {
				s = strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
			}
			return s, nil
		default:
			return strings.TrimSuffix(s, a[0].s.s), nil
		}
	}
	if strings.HasSuffix(s, "\n") {
		s = s[:len(s)-1]
		return strings.TrimSuffix(s, "\r"), nil
	}
	return strings.TrimSuffix(s, "\r"), nil
}

func textPrefix(m *Machine, n *call, v Value, a []Value) (string, error) {
	if err := m.need(n, String, a...); err != nil {
		return "", err
	}
	if strings.HasPrefix(n.name, "delete_prefix") {
		return strings.TrimPrefix(v.s.s, a[0].s.s), nil
	}
	return strings.TrimSuffix(v.s.s, a[0].s.s), nil
}

func textScrub(m *Machine, n *call, v Value, a []Value) (string, error) {
	to := "\uFFFD"
	if v.s.enc != utf8Text || valid(v.s.s) {
		return v.s.s, nil
	}
	if n.block != nil && len(a) == 0 {
		return "", m.exceed(n, "scrub with a block is not supported")
	}
	if len(a) == 1 && !a[0].IsNil() {
		if err := m.need(n, String, a...); err != nil {
			return "", err
		}
		to = a[0].s.s
	}
	return m.scrub(n, v.s.s, to)
}

// scrub replaces what is not UTF-8: each longest beginning of a character, or else a byte.
func (m *Machine) scrub(n node, s, to string) (string, error) {
	if err := m.checkText(n, len(s)*max(1, len(to))/4); err != nil {
		return "", err
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			b.WriteString(to)
			s = s[brokenLen(s):]
			continue
		}
		b.WriteString(s[:size])
		s = s[size:]
	}
	return b.String(), nil
}

// brokenLen is the length of the beginning of a character that s begins with.
func brokenLen(s string) int {
	c := s[0]
	lo, hi, want := byte(0x80), byte(0xbf), 0
	switch {
	case c >= 0xc2 && c <= 0xdf:
		want = 2
	case c >= 0xe0 && c <= 0xef:
		want = 3
		if c == 0xe0 {
			lo = 0xa0
		} else if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		want = 4
		if c == 0xf0 {
			lo = 0x90
		} else if c == 0xf4 {
			hi = 0x8f
		}
	}
	n := 1
	for n < want && n < len(s) && s[n] >= lo && s[n] <= hi {
		lo, hi = 0x80, 0xbf
		n++
	}
	return n
}

// charSet is a set of characters as tr, delete, squeeze and count write it.
type charSet struct {
	list   []rune
	except bool
}

// newCharSet reads a set: ranges such as a-z, a leading ^, \ before what stands for itself.
func (m *Machine) newCharSet(n node, s string) (charSet, error) {
	var c charSet
	if len(s) > 1 && s[0] == '^' {
		c.except, s = true, s[1:]
	}
	r := []rune(s)
	for i := 0; i < len(r); i++ {
		switch {
		case r[i] == '\\' && i+1 < len(r):
			i++
			c.list = append(c.list, r[i])
		case i+2 < len(r) && r[i+1] == '-':
			to := r[i+2]
			if to == '\\' && i+3 < len(r) {
				i++
				to = r[i+2]
			}
			if to < r[i] {
				return c, m.raise(n, "ArgumentError", "invalid range \"%c-%c\" in string transliteration", r[i], to)
			}
			if err := m.checkItems(n, len(c.list)+int(to-r[i])); err != nil {
				return c, err
			}
			for x := r[i]; x <= to; x++ {
				c.list = append(c.list, x)
			}
			i += 2
		default:
			c.list = append(c.list, r[i])
		}
	}
	return c, nil
}

func (c charSet) index(r rune) int {
	for i, x := range c.list {
		if x == r {
			return i
		}
	}
	return -1
}

func (c charSet) has(r rune) bool { return c.index(r) >= 0 != c.except }

// inAll says whether a character is in all sets.
func inAll(sets []charSet, r rune) bool {
	for _, c := range sets {
		if !c.has(r) {
			return false
		}
	}
	return true
}

func (m *Machine) charSets(n node, a []Value) ([]charSet, error) {
	if err := m.need(n, String, a...); err != nil {
		return nil, err
	}
	var out []charSet
	for _, x := range a {
		c, err := m.newCharSet(n, x.s.s)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func textTr(m *Machine, n *call, v Value, a []Value) (string, error) {
	if err := m.wellFormed(n, v); err != nil {
		return "", err
	}
	if err := m.need(n, String, a...); err != nil {
		return "", err
	}
	sets, err := m.charSets(n, a)
	if err != nil {
		return "", err
	}
	from, to := sets[0], sets[1].list
	if sets[1].except { // there ^ stands for itself
		to = append([]rune{'^'}, to...)
	}
	if err := m.charge(n, len(v.s.s)*(1+len(from.list)/8)/256); err != nil {
		return "", err
	}
	squeeze := strings.HasPrefix(n.name, "tr_s")
	last := rune(-1)
	return strings.Map(func(r rune) rune {
		at := from.index(r)
		if from.except {
			if at >= 0 {
				last = -1
				return r
			}
			at = len(to)
		}
		out := rune(-1)
		switch {
		case at < 0:
			last = -1
			return r
		case len(to) == 0:
		case at >= len(to):
			out = to[len(to)-1]
		default:
			out = to[at]
		}
		if squeeze && out == last {
			return -1
		}
		last = out
		return out
	}, v.s.s), nil
}

func textDelete(m *Machine, n *call, v Value, a []Value) (string, error) {
	if err := m.wellFormed(n, v); err != nil {
		return "", err
	}
	sets, err := m.charSets(n, a)
	if err != nil {
		return "", err
	}
	return strings.Map(func(r rune) rune {
		if inAll(sets, r) {
			return -1
		}
		return r
	}, v.s.s), nil
}

func textSqueeze(m *Machine, n *call, v Value, a []Value) (string, error) {
	if err := m.wellFormed(n, v); err != nil {
		return "", err
	}
	sets, err := m.charSets(n, a)
	if err != nil {
		return "", err
	}
	last := rune(-1)
	return strings.Map(func(r rune) rune {
		if r == last && inAll(sets, r) {
			return -1
		}
		last = r
		return r
	}, v.s.s), nil
}
