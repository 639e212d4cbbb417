// Package rx runs Ruby's regular expressions (Onigmo's dialect, UTF-8).
//
// An expression is parsed here, by Ruby's rules, and then said again in the syntax of an
// engine: Go's regexp (RE2, linear time) where that means exactly the same, else regexp2,
// which backtracks and is therefore given a time limit. What neither can say is refused
// when the expression is compiled. Characters are worked out here: classes, properties,
// POSIX brackets, && and case folding become plain ranges, so that no engine's own idea of
// them matters.
//
// Two differences from Ruby are known and kept: under (?i) a letter never matches two (Ruby
// lets ß match "ss"), and a subject that is not valid UTF-8 is matched with each wrong byte
// as one unknown character, where Ruby raises an error.
package rx

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Limits of an expression, and of the memory of one match by the engine that backtracks.
const (
	maxPattern = 1 << 16
	maxNesting = 200
	maxGroups  = 1000
	maxStack   = 1 << 20 // slots of the backtracking stack
)

// ErrTimeout says that a match was given up because it took too long.
var ErrTimeout = errors.New("regular expression takes too long")

// Options are the flags of a regexp literal.
type Options struct {
	IgnoreCase bool // i
	DotAll     bool // m: the dot matches a newline
	Extended   bool // x: blanks and comments in the pattern are ignored
}

// Error says what is wrong with an expression, or what it holds that is not supported.
type Error struct {
	Pattern string
	Off     int // offset in Pattern, bytes
	Text    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("regular expression /%s/: %s at offset %d", e.Pattern, e.Text, e.Off)
}

// Offset is where in the pattern the mistake is, in bytes.
func (e *Error) Offset() int { return e.Off }

// Regexp is a compiled expression. It may be used from any goroutine.
type Regexp struct {
	text  string
	flags Options
	names []string // per group, "" for group 0 and groups without a name

	// fast is nil when RE2 cannot say the expression. The conditions tell for which subjects
	// it can: for others slow is used.
	fast      *regexp.Regexp
	asciiOnly bool // \b is ASCII in Go's regexp, Unicode in Ruby
	noNewline bool // \Z, and ^ at the very end, differ before a final newline
	slow      *regexp2.Regexp
	patience  patience

	timeouts atomic.Uint64
}

// Options are the flags that the expression was compiled with.
func (r *Regexp) Options() Options { return r.flags }

// Compile compiles a pattern in Ruby's syntax, without slashes. The error is an *Error.
func Compile(pattern string, o Options) (*Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, &Error{Pattern: pattern[:40] + "…", Text: fmt.Sprintf("the pattern is longer than %d bytes", maxPattern)}
	}
	if !utf8.ValidString(pattern) {
		return nil, &Error{Pattern: strings.ToValidUTF8(pattern, "\ufffd"), Text: "the pattern is not valid UTF-8"}
	}
	p := &parser{src: pattern, opt: flags{icase: o.IgnoreCase, dotAll: o.DotAll, extended: o.Extended}}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	r := &Regexp{text: pattern, flags: o, names: p.groupNames()}
	fast := &emitter{target: toRE2}
	if text, ok := fast.emit(root); ok {
		if r.fast, err = regexp.Compile(text); err == nil {
			r.asciiOnly, r.noNewline = fast.asciiOnly, fast.noNewline
		}
		// An expression may be too large for RE2 only: repeats above 1000.
	}
	if r.fast != nil && !r.asciiOnly && !r.noNewline {
		return r, nil
	}
	slow := &emitter{target: toRegexp2}
	text, _ := slow.emit(root)
	if r.slow, r.patience.brief, err = slowly(text); err != nil {
		return nil, &Error{Pattern: pattern, Text: fmt.Sprintf("not supported: %v", err)}
	}
	return r, nil
}

// ParseLiteral reads the value of a parameter of type regexp: /…/ with flags i and m, or,
// without a leading slash, the pattern itself. As by Fluentd other flags are ignored, and a
// slash without a partner gives an empty expression when at most two characters follow.
func ParseLiteral(text string) (*Regexp, error) {
	if !strings.HasPrefix(text, "/") {
		return Compile(text, Options{})
	}
	end := strings.LastIndexByte(text, '/')
	if utf8.RuneCountInString(text[end:]) > 3 {
		return nil, &Error{Pattern: text, Off: end, Text: "the closing slash is missing"}
	}
	flags := text[end+1:]
	o := Options{IgnoreCase: strings.Contains(flags, "i"), DotAll: strings.Contains(flags, "m")}
	return Compile(text[min(1, end):end], o)
}

// Names gives the names of the groups, "" for group 0 and for groups without a name. As in
// Ruby, groups without a name are not counted when some have one.
func (r *Regexp) Names() []string { return r.names }

// String is the pattern as it was written.
func (r *Regexp) String() string { return r.text }

// Linear says whether every subject is matched in linear time.
func (r *Regexp) Linear() bool { return r.slow == nil }

// Timeouts counts the matches that were given up because they took too long. They count
// as not matching for Match and FindSubmatchIndex.
func (r *Regexp) Timeouts() uint64 { return r.timeouts.Load() }

// quick says whether the linear engine is right for this subject.
func (r *Regexp) quick(b []byte) bool {
	if r.fast == nil {
		return false
	}
	if r.noNewline && len(b) > 0 && b[len(b)-1] == '\n' {
		return false
	}
	return !r.asciiOnly || isASCII(b)
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Match says whether the expression matches somewhere in b.
func (r *Regexp) Match(b []byte) bool {
	if r.quick(b) {
		return r.fast.Match(b)
	}
	re := r.engine(len(b))
	if re == nil {
		return false
	}
	runes, _ := decode(b, false)
	ok, err := re.MatchRunes(runes)
	r.ended(re, len(b), err == nil)
	return ok && err == nil
}

func (r *Regexp) tooLong(b []byte) error {
	return fmt.Errorf("matching /%s/ against %d bytes: %w", r.text, len(b), ErrTimeout)
}

// FindSubmatchIndex gives the byte offsets of the leftmost match and of its groups, two
// numbers each, -1 for groups that took no part; nil if nothing matches.
func (r *Regexp) FindSubmatchIndex(b []byte) []int {
	loc, err := r.AppendSubmatchIndex(nil, b)
	if err != nil {
		return nil
	}
	return loc
}

// AppendSubmatchIndex is FindSubmatchIndex into the caller's slice: it appends to dst and
// returns the grown slice, or nil when nothing matches. The error wraps ErrTimeout.
func (r *Regexp) AppendSubmatchIndex(dst []int, b []byte) ([]int, error) {
	if r.quick(b) {
		loc := r.fast.FindSubmatchIndex(b)
		if loc == nil {
			return nil, nil
		}
		return append(dst, loc...), nil
	}
	re := r.engine(len(b))
	if re == nil {
		return nil, r.tooLong(b)
	}
	runes, offsets := decode(b, true)
	m, err := re.FindRunesMatch(runes)
	r.ended(re, len(b), err == nil)
	if err != nil {
		return nil, r.tooLong(b)
	}
	if m == nil {
		return nil, nil
	}
	at := func(i int) int {
		if offsets == nil {
			return i
		}
		return offsets[i]
	}
	for i := range len(r.names) {
		g := m.GroupByNumber(i)
		if g == nil || len(g.Captures) == 0 {
			dst = append(dst, -1, -1)
			continue
		}
		c := g.Captures[len(g.Captures)-1]
		dst = append(dst, at(c.RuneIndex), at(c.RuneIndex+c.RuneLength))
	}
	return dst, nil
}

// decode turns a subject into characters and, if asked, the offset of each and of the end.
// A byte that is no UTF-8 becomes U+FFFD. offsets is nil when all characters are one byte.
func decode(b []byte, withOffsets bool) (runes []rune, offsets []int) {
	runes = make([]rune, 0, len(b))
	if isASCII(b) {
		for _, c := range b {
			runes = append(runes, rune(c))
		}
		return runes, nil
	}
	if withOffsets {
		offsets = make([]int, 0, len(b)+1)
	}
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		runes = append(runes, c)
		if withOffsets {
			offsets = append(offsets, i)
		}
		i += n
	}
	if withOffsets {
		offsets = append(offsets, len(b))
	}
	return runes, offsets
}
