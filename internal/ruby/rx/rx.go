// Package rx runs Ruby's regular expressions (Onigmo's dialect).
package rx

import (
	"regexp"
	"strings"
)

// Options are the flags of a regexp literal.
type Options struct {
	IgnoreCase bool // i
	DotAll     bool // m: the dot matches a newline
	Extended   bool // x: blanks and comments in the pattern are ignored
}

// Regexp is a compiled expression. It may be used from any goroutine.
type Regexp struct {
	text string
	re   *regexp.Regexp
}

// Compile compiles a pattern in Ruby's syntax.
func Compile(pattern string, o Options) (*Regexp, error) {
	flags := "m"
	if o.IgnoreCase {
		flags += "i"
	}
	if o.DotAll {
		flags += "s"
	}
	re, err := regexp.Compile("(?" + flags + ")" + strings.ReplaceAll(pattern, `\Z`, `\n?\z`))
	if err != nil {
		return nil, err
	}
	return &Regexp{text: pattern, re: re}, nil
}

// Match says whether the expression matches somewhere in b.
func (r *Regexp) Match(b []byte) bool { return r.re.Match(b) }

// FindSubmatchIndex gives the offsets of the leftmost match and its groups, -1 for groups
// that took no part; nil if nothing matches.
func (r *Regexp) FindSubmatchIndex(b []byte) []int { return r.re.FindSubmatchIndex(b) }

// Names gives the names of the groups, "" for group 0 and groups without a name.
func (r *Regexp) Names() []string { return r.re.SubexpNames() }

// String is the pattern as it was written.
func (r *Regexp) String() string { return r.text }

// ParseLiteral reads the value of a parameter of type regexp: /…/ with flags i and m, or,
// without a leading slash, the pattern itself.
func ParseLiteral(text string) (*Regexp, error) {
	if !strings.HasPrefix(text, "/") {
		return Compile(text, Options{})
	}
	end := strings.LastIndexByte(text, '/')
	if end == 0 {
		return Compile("", Options{})
	}
	flags := text[end+1:]
	return Compile(text[1:end], Options{IgnoreCase: strings.Contains(flags, "i"), DotAll: strings.Contains(flags, "m")})
}
