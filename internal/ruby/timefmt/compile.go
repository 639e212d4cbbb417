package timefmt

import (
	"errors"
	"fmt"
)

// maxWidth bounds the width in a directive such as %10Y. Ruby takes more and then fills
// memory; no file or stream name is that long.
const maxWidth = 1024

// What can be wrong with a layout.
var (
	ErrIncomplete = errors.New("the layout ends inside a % directive; write %% for a percent sign")
	ErrWidth      = errors.New("a width in the layout is above 1024")
)

// op is a literal text or one directive.
type op struct {
	verb   byte // directive letter, 0 for text
	colons uint8
	pad    byte // '0' or ' ' when asked for by a flag
	left   bool // flag '-': no padding
	upper  bool // flag '^'
	swap   bool // flag '#'
	width  int  // 0 when not given
	text   string
	sub    []op // what a composite directive stands for
}

// composites lists the directives that stand for several.
var composites = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y",
	'D': "%m/%d/%y",
	'x': "%m/%d/%y",
	'F': "%Y-%m-%d",
	'T': "%H:%M:%S",
	'X': "%H:%M:%S",
	'R': "%H:%M",
	'r': "%I:%M:%S %p",
	'v': "%e-%^b-%4Y",
}

// units gives the unit of each directive; appendOp and appendClock print them. %n, %t and %%
// show no time; %z and %Z are in the table so that they are known.
var units = map[byte]Unit{
	'Y': Year, 'C': Year, 'y': Year, 'G': Year, 'g': Year,
	'm': Month, 'b': Month, 'B': Month, 'h': Month,
	'V': Week, 'U': Week, 'W': Week,
	'd': Day, 'e': Day, 'j': Day, 'a': Day, 'A': Day, 'u': Day, 'w': Day,
	'H': Hour, 'I': Hour, 'k': Hour, 'l': Hour, 'p': Hour, 'P': Hour,
	'M': Minute,
	'S': Second, 's': Second,
	'L': Subsecond, 'N': Subsecond,
	'z': Never, 'Z': Never, 'n': Never, 't': Never, '%': Never,
}

// Alternative forms are accepted and change nothing, but only before these letters.
const (
	afterE = "cCxXyY"
	afterO = "deHklImMSuUVwWy"
)

// Compile reads a layout. As in Ruby, a directive that does not exist stands for itself,
// %Q and %+ among them, which only Ruby's DateTime knows. Errors wrap ErrIncomplete or
// ErrWidth.
func Compile(layout string) (*Layout, error) {
	l := &Layout{}
	if err := l.compile(layout, op{}); err != nil {
		return nil, fmt.Errorf("read time layout %q: %w", layout, err)
	}
	return l, nil
}

// compile appends the ops of a layout. inherited.upper makes names upper case.
func (l *Layout) compile(s string, inherited op) error {
	for i := 0; i < len(s); {
		if s[i] != '%' {
			j := i + 1
			for j < len(s) && s[j] != '%' {
				j++
			}
			l.text(s[i:j])
			i = j
			continue
		}
		o, n, err := directive(s[i:])
		if err != nil {
			return err
		}
		if o.verb == 0 {
			l.text(s[i : i+n])
		} else if err := l.add(o, inherited); err != nil {
			return err
		}
		i += n
	}
	return nil
}

func (l *Layout) text(s string) {
	if k := len(l.ops) - 1; k >= 0 && l.ops[k].verb == 0 && l.ops[k].sub == nil {
		l.ops[k].text += s
		return
	}
	l.ops = append(l.ops, op{text: s})
}

func (l *Layout) add(o op, inherited op) error {
	o.upper = o.upper || inherited.upper
	if layout, ok := composites[o.verb]; ok {
		if o.width == 0 {
			return l.compile(layout, o)
		}
		var sub Layout
		if err := sub.compile(layout, o); err != nil {
			return err
		}
		o.sub = sub.ops
		l.unit = max(l.unit, sub.unit)
		l.date = l.date || sub.date
		l.ops = append(l.ops, o)
		return nil
	}
	if o.verb == '%' && o.width == 0 {
		l.text("%")
		return nil
	}
	u := units[o.verb]
	l.unit = max(l.unit, u)
	l.zone = l.zone || o.verb == 'z' || o.verb == 'Z'
	l.date = l.date || (u >= Year && u <= Day)
	l.ops = append(l.ops, o)
	return nil
}

// directive reads the directive at the start of s, which is a %. It returns how many
// bytes it takes. Without a verb those bytes are plain text.
func directive(s string) (o op, n int, err error) {
	i := 1
	for i < len(s) {
		switch c := s[i]; {
		case c == '-':
			o.left, o.pad = true, 0 // as in Ruby, a padding flag before it no longer counts
		case c == '^':
			o.upper = true
		case c == '#':
			o.swap = true
		case c == '_':
			o.pad = ' '
		case c == '0':
			o.pad = '0'
		default:
			goto width
		}
		i++
	}
width:
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		o.width = o.width*10 + int(s[i]-'0')
		if o.width > maxWidth {
			return op{}, 0, ErrWidth
		}
		i++
	}
	start := i
	for i < len(s) && s[i] == ':' {
		o.colons++
		i++
	}
	if i > start && (i == len(s) || s[i] != 'z' || i-start > 3) {
		return op{}, i, nil // colons stand only before z
	}
	if i == len(s) {
		return op{}, 0, ErrIncomplete
	}
	if c := s[i]; c == 'E' || c == 'O' {
		allowed := afterE
		if c == 'O' {
			allowed = afterO
		}
		i++
		if i == len(s) {
			return op{}, i, nil
		}
		if !contains(allowed, s[i]) {
			return op{}, i, nil
		}
	}
	_, simple := units[s[i]]
	_, composite := composites[s[i]]
	if !simple && !composite {
		return op{}, i, nil
	}
	o.verb = s[i]
	return o, i + 1, nil
}

func contains(s string, c byte) bool {
	for i := range len(s) {
		if s[i] == c {
			return true
		}
	}
	return false
}
