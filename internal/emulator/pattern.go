package emulator

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
)

// pattern is a compiled filter pattern.
type pattern interface {
	match(message []byte) bool
}

// matchAll is the empty pattern.
type matchAll struct{}

func (matchAll) match([]byte) bool { return true }

// termPattern is the form for plain text: all of must, none of never, and, if
// there is nothing else, one of any.
type termPattern struct {
	must, never, any []matcher
}

// matcher is a term, a quoted phrase or a regular expression.
type matcher struct {
	text []byte
	re   *regexp.Regexp
}

func (m *matcher) match(message []byte) bool {
	if m.re != nil {
		return m.re.Match(message)
	}
	return bytes.Contains(message, m.text)
}

func (t *termPattern) match(message []byte) bool {
	for i := range t.must {
		if !t.must[i].match(message) {
			return false
		}
	}
	for i := range t.never {
		if t.never[i].match(message) {
			return false
		}
	}
	// The service ignores ?terms beside other terms.
	if len(t.any) == 0 || len(t.must)+len(t.never) > 0 {
		return true
	}
	for i := range t.any {
		if t.any[i].match(message) {
			return true
		}
	}
	return false
}

func errPattern(format string, args ...any) *apiError {
	return errInvalid("Invalid filter pattern: "+format, args...)
}

// parsePattern compiles a filter pattern. Patterns for space-delimited events
// ("[a, b]") are the one form that is not supported here; they are refused
// and never match by accident.
func parsePattern(text string) (pattern, *apiError) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return matchAll{}, nil
	case text[0] == '{':
		if text[len(text)-1] != '}' || len(text) < 2 {
			return nil, errPattern("If a filter pattern starts with '{' it must end with '}'")
		}
		return parseJSONPattern(text[1 : len(text)-1])
	case text[0] == '[':
		return nil, errInvalid("%s", "Invalid filter pattern: this local endpoint does not support patterns for space-delimited events ([a, b, ...]); use terms, \"phrases\", %regular expressions% or { $.field = value }")
	}
	return parseTerms(text)
}

func parseTerms(text string) (pattern, *apiError) {
	var t termPattern
	for rest := text; rest != ""; rest = strings.TrimLeft(rest, " \t\r\n") {
		list := &t.must
		switch rest[0] {
		case '-':
			list, rest = &t.never, rest[1:]
		case '?':
			list, rest = &t.any, rest[1:]
		}
		m, n, err := parseTerm(rest)
		if err != nil {
			return nil, err
		}
		*list = append(*list, m)
		if rest = rest[n:]; rest != "" && !strings.ContainsRune(" \t\r\n", rune(rest[0])) {
			return nil, errPattern("Invalid character(s) in term '%s'", firstWord(rest))
		}
	}
	return &t, nil
}

// parseTerm reads one term and returns how long its text is.
func parseTerm(s string) (m matcher, n int, _ *apiError) {
	if s == "" {
		return m, 0, errPattern("Invalid character(s) in term ''")
	}
	switch s[0] {
	case '"':
		text, n, ok := parseQuoted(s)
		if !ok {
			return m, 0, errPattern("Unterminated quote in '%s'", s)
		}
		if text == "" {
			return m, 0, errPattern(`Invalid character(s) in term '""'`)
		}
		return matcher{text: []byte(text)}, n, nil
	case '%':
		return parseRegexp(s)
	}
	word := s
	if i := strings.IndexAny(s, " \t\r\n"); i >= 0 {
		word = s[:i]
	}
	for _, r := range word {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return m, 0, errPattern("Invalid character(s) in term '%s'", word)
		}
	}
	return matcher{text: []byte(word)}, len(word), nil
}

// parseQuoted reads a phrase in double quotes, with \" and \\ as escapes.
func parseQuoted(s string) (text string, n int, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), i + 1, true
		case '\\':
			if i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\') {
				i++
				c = s[i]
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}

// parseRegexp reads %regexp%. The service allows no groups.
func parseRegexp(s string) (m matcher, n int, _ *apiError) {
	end := strings.IndexByte(s[1:], '%')
	if end < 0 {
		return m, 0, errPattern("Unterminated regular expression in '%s'", s)
	}
	text := s[1 : end+1]
	if text == "" || strings.ContainsAny(text, "()!\"'&<>~`") {
		return m, 0, errPattern("Invalid character(s) in term '%%%s%%'", text)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return m, 0, errPattern("Invalid regular expression '%s'", text)
	}
	return matcher{re: re}, end + 2, nil
}
