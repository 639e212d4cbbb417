package awslogs

import (
	"strings"
	"unicode/utf8"
)

// scanner finds what a format's regular expression finds, many times faster. It exists for
// formats whose text is plain; the others are left to package regexp.
type scanner struct {
	pieces   []piece
	first    [256]bool // bytes with which a match can begin
	shortest int       // bytes of the shortest match
	anchored bool      // begins with ^
}

// piece is one directive, or some text.
type piece struct {
	kind byte     // the directive's letter, or one of the kinds below
	text string   // of kindText
	list []string // of directives that are names
}

const (
	kindText = 0
	kindAny  = '.' // any character but a line break
)

const (
	maxPieces = 48 // each has a place in spots
	maxZones  = 2  // %Z may have to be tried with several lengths
)

// spots are the places in a line at which the pieces of a match begin.
type spots [maxPieces]int

// newScanner returns nil for a format whose text has a regular expression in it, other than
// an escaped character, a dot inside, and ^ at the beginning.
func newScanner(format string) *scanner {
	s, plain, zones := &scanner{}, true, 0
	format, s.anchored = strings.CutPrefix(format, "^")
	pieces(format, func(t string) { plain = plain && s.addText(t) }, func(v byte) {
		if v == 'Z' {
			zones++
		}
		s.pieces = append(s.pieces, newPiece(v))
	})
	if !plain || len(s.pieces) == 0 || len(s.pieces) > maxPieces || zones > maxZones || s.pieces[0].kind == kindAny {
		return nil
	}
	for _, p := range s.pieces {
		s.shortest += p.shortest()
	}
	for c := range s.first {
		s.first[c] = s.pieces[0].begins(byte(c))
	}
	return s
}

// addText adds text of a format, and says whether it is plain.
func (s *scanner) addText(t string) bool {
	plain := ""
	flush := func() {
		if plain != "" {
			s.pieces = append(s.pieces, piece{kind: kindText, text: plain})
			plain = ""
		}
	}
	for t != "" {
		c, size := utf8.DecodeRuneInString(t)
		switch {
		case c == utf8.RuneError: // as a regular expression it matches bytes that are no UTF-8 too
			return false
		case c == '.':
			flush()
			s.pieces = append(s.pieces, piece{kind: kindAny})
		case c == '\\':
			if len(t) < 2 || !strings.ContainsRune(`\.+*?()|[]{}^$-/:,;!"#&'<=>@~%`, rune(t[1])) {
				return false
			}
			plain += t[1:2]
			size = 2
		case strings.ContainsRune(`+*?()|[]{}^$`, c):
			return false
		default:
			plain += t[:size]
		}
		t = t[size:]
	}
	flush()
	return true
}

func newPiece(verb byte) piece {
	p := piece{kind: verb}
	switch verb {
	case 'a':
		p.list = cut(3, weekdays())
	case 'A':
		p.list = weekdays()
	case 'b':
		p.list = cut(3, months())
	case 'B':
		p.list = months()
	}
	return p
}

// shortest is the number of bytes that the piece takes at least.
func (p *piece) shortest() int {
	switch p.kind {
	case kindText:
		return len(p.text)
	case kindAny, 'w':
		return 1
	case 'A':
		return len("Monday")
	case 'a', 'b', 'B', 'j':
		return 3
	case 'Y', 'L':
		return 4
	case 'z':
		return 5
	case 'f':
		return 6
	}
	return 2
}

// begins reports whether a match of the piece can begin with c.
func (p *piece) begins(c byte) bool {
	switch p.kind {
	case kindText:
		return c == p.text[0]
	case 'a', 'A', 'b', 'B', 'Z':
		return c >= 'A' && c <= 'Z'
	case 'p':
		return c == 'A' || c == ',' || c == 'P'
	case 'L':
		return c == '.'
	case 'z':
		return c == '+' || c == '-'
	}
	return digit(c) || c == ','
}

// find looks for the first match, and says where it is; start is -1 without one.
func (s *scanner) find(line []byte, sp *spots) (start, end int) {
	last := len(line) - s.shortest
	if s.anchored {
		last = min(last, 0)
	}
	for i := 0; i <= last; i++ {
		if s.first[line[i]] {
			if end := s.match(line, 0, i, sp); end >= 0 {
				return i, end
			}
		}
	}
	return -1, -1
}

// match matches the pieces from the kth at line[i] and returns the end, or -1.
func (s *scanner) match(line []byte, k, i int, sp *spots) int {
	for ; k < len(s.pieces); k++ {
		sp[k] = i
		if s.pieces[k].kind == 'Z' {
			return s.zone(line, k, i, sp)
		}
		n := s.pieces[k].width(line[i:])
		if n < 0 {
			return -1
		}
		i += n
	}
	return i
}

// zone matches %Z, the longest name first with which the rest matches too.
func (s *scanner) zone(line []byte, k, i int, sp *spots) int {
	capitals := 0
	for i+capitals < len(line) && capitals < 5 && line[i+capitals] >= 'A' && line[i+capitals] <= 'Z' {
		capitals++
	}
	for n := capitals; n >= 2; n-- {
		if line[i+n-1] == 'T' {
			if end := s.match(line, k+1, i+n, sp); end >= 0 {
				return end
			}
		}
	}
	return -1
}

// width is the number of bytes at the beginning of b that the piece matches, or -1.
func (p *piece) width(b []byte) int {
	switch p.kind {
	case kindText:
		if len(b) >= len(p.text) && string(b[:len(p.text)]) == p.text {
			return len(p.text)
		}
		return -1
	case kindAny:
		if c, size := utf8.DecodeRune(b); size > 0 && c != '\n' {
			return size
		}
		return -1
	case 'a', 'A', 'b', 'B':
		for _, name := range p.list {
			if len(b) >= len(name) && string(b[:len(name)]) == name {
				return len(name)
			}
		}
		return -1
	}
	n := p.shortest()
	if len(b) < n || !fits(p.kind, b[:n]) {
		return -1
	}
	return n
}

// fits reports whether b, which has the length for it, matches a directive of fixed length.
func fits(verb byte, b []byte) bool {
	switch verb {
	case 'w':
		return b[0] >= '0' && b[0] <= '6'
	case 'd':
		return b[0] == '0' && b[1] != '0' && digit(b[1]) || oneOrTwo(b[0]) && digit(b[1]) || b[0] == '3' && zeroOrOne(b[1])
	case 'm':
		return b[0] == '0' && b[1] != '0' && digit(b[1]) || b[0] == '1' && b[1] >= '0' && b[1] <= '2'
	case 'H':
		return zeroOrOne(b[0]) && digit(b[1]) || b[0] == '2' && b[1] >= '0' && b[1] <= '3'
	case 'I':
		return b[0] == '0' && digit(b[1]) || b[0] == '1' && b[1] >= '0' && b[1] <= '2'
	case 'p':
		return (b[0] == 'A' || b[0] == ',' || b[0] == 'P') && b[1] == 'M'
	case 'M', 'S':
		return b[0] >= '0' && b[0] <= '5' && digit(b[1])
	case 'Y', 'y', 'f':
		return digits(b)
	case 'L':
		return b[0] == '.' && digits(b[1:])
	case 'z':
		return (b[0] == '+' || b[0] == '-') && digits(b[1:])
	case 'j':
		return b[0] == '0' && digit(b[1]) && b[2] != '0' && digit(b[2]) || oneOrTwo(b[0]) && digits(b[1:]) ||
			b[0] == '3' && b[1] >= '0' && b[1] <= '5' && digit(b[2]) || b[0] == '3' && b[1] == '6' && b[2] >= '0' && b[2] <= '6'
	}
	return false
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func digits(b []byte) bool {
	for _, c := range b {
		if !digit(c) {
			return false
		}
	}
	return true
}

// oneOrTwo and zeroOrOne take the comma that awslogs' classes take.
func oneOrTwo(c byte) bool  { return c == '1' || c == '2' || c == ',' }
func zeroOrOne(c byte) bool { return c == '0' || c == '1' || c == ',' }
