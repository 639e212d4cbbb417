package filter

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// state is where a detector of stack traces is.
type state uint8

const (
	outside state = iota // of any trace
	javaAfter
	javaNested
	javaFrames
	pythonFile
	pythonCode
	phpHead
	phpFrames
	goHead
	goSignal
	goRoutine
	goCall
	goPlace
	railsHead
	rubyFrames
	dartHead
	dartFrames
	dartType1
	dartType2
	dartType3
	dartType4
	dartFormat1
	dartFormat2
	dartFormat3
	dartMethod1
	dartMethod2
	dartMethod3
)

// language is a family of stack traces.
type language uint8

const (
	langJava language = iota // and JavaScript and C#
	langPython
	langPHP
	langGo
	langRuby
	langDart
)

// languageNames are the names of languages in a configuration.
func languageNames() map[string][]language {
	return map[string][]language{
		"java": {langJava}, "javascript": {langJava}, "js": {langJava}, "csharp": {langJava}, "py": {langPython}, "python": {langPython}, "php": {langPHP}, "go": {langGo},
		"rb": {langRuby}, "ruby": {langRuby}, "dart": {langDart}, "all": {langJava, langPython, langPHP, langGo, langRuby, langDart},
	}
}

// place is where a line stands to a stack trace.
type place uint8

const (
	noTrace    place = iota
	traceBegin       // the first line of one
	traceInside
	traceEnd // the last line of one
)

// update looks at the next line of a stream, and says where it stands.
func (s *state) update(langs []language, line []byte) place {
	next, inside := s.next(langs, line)
	if !inside {
		// It belongs to nothing before, but may begin another trace.
		next, _ = beginsTrace(langs, line)
	}
	*s = next
	switch {
	case inside && next != outside:
		return traceInside
	case inside:
		return traceEnd
	case next != outside:
		return traceBegin
	}
	return noTrace
}

// next is the state after a line that goes on with a trace; false if it does not.
func (s state) next(langs []language, m []byte) (state, bool) {
	switch s {
	case outside:
		return beginsTrace(langs, m)
	case javaAfter, javaNested, javaFrames:
		return s.nextJava(m)
	case pythonFile, pythonCode:
		return s.nextPython(m)
	case phpHead, phpFrames:
		return s.nextPHP(m)
	case goHead, goSignal, goRoutine, goCall, goPlace:
		return s.nextGo(m)
	case railsHead, rubyFrames:
		return s.nextRuby(m)
	}
	return s.nextDart(m)
}

// beginsTrace is the state after a line in which a trace begins.
func beginsTrace(langs []language, m []byte) (state, bool) {
	for _, l := range langs {
		switch {
		case l == langJava && hasJavaThrowable(m):
			return javaAfter, true
		case l == langPython && hasLine(m, is("Traceback (most recent call last):")):
			return pythonFile, true
		case l == langPHP && hasPHPMessage(m):
			return phpHead, true
		case l == langGo && bytes.Contains(m, []byte("panic")):
			if hasPanic(m) {
				return goHead, true
			}
			if bytes.Contains(m, []byte("http: panic serving")) {
				return goRoutine, true
			}
		case l == langRuby && hasLine(m, isRailsError):
			return railsHead, true
		case l == langDart && hasLine(m, is("Unhandled exception:")):
			return dartHead, true
		}
	}
	return outside, false
}

// hasLine says whether one of the lines of m is as wanted. A line break at the end of m
// begins no further line; a carriage return is part of its line.
func hasLine(m []byte, want func(line []byte) bool) bool {
	for {
		end := bytes.IndexByte(m, '\n')
		if end < 0 {
			return want(m)
		}
		if want(m[:end]) {
			return true
		}
		if m = m[end+1:]; len(m) == 0 {
			return false
		}
	}
}

func is(text string) func([]byte) bool {
	return func(line []byte) bool { return string(line) == text }
}

func begins(prefix string) func([]byte) bool {
	return func(line []byte) bool { return hasPrefix(line, prefix) }
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

func isEmpty(line []byte) bool { return len(line) == 0 }

// isSpace goes by ASCII, as Ruby's \s does.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// blanks counts blanks and tabs at the beginning of a line, digits counts digits.
func blanks(line []byte) int {
	n := 0
	for n < len(line) && (line[n] == ' ' || line[n] == '\t') {
		n++
	}
	return n
}

func digits(line []byte) int {
	n := 0
	for n < len(line) && isDigit(line[n]) {
		n++
	}
	return n
}

// hasJavaThrowable looks for the name of something that was thrown, with its message or the
// end of the line behind it: colons and line breaks are fewer than letters.
func hasJavaThrowable(m []byte) bool {
	for _, end := range [...]byte{':', '\n', '\r'} {
		for at := 0; ; at++ {
			i := bytes.IndexByte(m[at:], end)
			if i < 0 {
				break
			}
			if at += i; isThrowable(m[:at]) {
				return true
			}
		}
	}
	return false
}

// isThrowable says whether a text ends in such a name.
func isThrowable(b []byte) bool {
	for _, name := range [...]string{"Exception", "Error", "Throwable", "V8 errors stack trace"} {
		if n := len(b) - len(name); n >= 0 && string(b[n:]) == name {
			return true
		}
	}
	return false
}

func (s state) nextJava(m []byte) (state, bool) {
	if s == javaNested {
		return javaAfter, hasJavaThrowable(m)
	}
	after := s == javaAfter
	switch {
	case after && hasLine(m, func(l []byte) bool { return hasPrefix(l[blanks(l):], "nested exception is:") }):
		return javaNested, true
	case after && hasLine(m, func(l []byte) bool { return len(bytes.TrimLeft(l, "\r")) == 0 }):
		return javaAfter, true
	case hasLine(m, isJavaFrame):
		return javaFrames, true
	case hasLine(m, isJavaCause):
		return javaAfter, true
	case hasLine(m, isJavaMore):
		return javaFrames, true
	}
	return outside, false
}

// isJavaFrame takes a frame, and the lines that C# writes between those of several exceptions.
func isJavaFrame(line []byte) bool {
	n := blanks(line)
	rest := line[n:]
	if n == 0 {
		return string(rest) == "--- End of stack trace from previous location where exception was thrown ---"
	}
	return hasPrefix(rest, "at ") || hasPrefix(rest, "eval at ") || string(rest) == "--- End of inner exception stack trace ---"
}

func isJavaCause(line []byte) bool {
	rest := line[blanks(line):]
	return hasPrefix(rest, "Caused by:") || hasPrefix(rest, "Suppressed:")
}

// isJavaMore takes "... 23 more". The three dots may be any characters, as in Fluentd.
func isJavaMore(line []byte) bool {
	for n := blanks(line); n >= 0; n-- {
		rest := line[n:]
		for range 3 {
			_, size := utf8.DecodeRune(rest)
			rest = rest[size:]
		}
		if len(rest) < 2 || rest[0] != ' ' {
			continue
		}
		d := digits(rest[1:])
		if rest = rest[1+d:]; d > 0 && (hasPrefix(rest, " more") || hasPrefix(rest, " common frames omitted")) {
			return true
		}
	}
	return false
}

func (s state) nextPython(m []byte) (state, bool) {
	if s == pythonCode {
		return pythonFile, len(bytes.Trim(m, "\t ")) > 0
	}
	if hasLine(m, func(l []byte) bool { n := blanks(l); return n > 0 && hasPrefix(l[n:], "File ") }) {
		return pythonCode, true
	}
	return outside, hasLine(m, isPythonError)
}

// isPythonError takes the line that ends a trace: a name with dots, and a colon.
func isPythonError(line []byte) bool {
	word := 0
	for _, c := range line {
		switch {
		case c == ':':
			return word > 0
		case c == '.' && word > 0:
			word = 0
		case c == '.' || c == '(' || c == ')' || isSpace(c):
			return false
		default:
			word++
		}
	}
	return false
}

func hasPHPMessage(m []byte) bool {
	for rest := m; ; {
		i := bytes.Index(rest, []byte("PHP "))
		if i < 0 {
			break
		}
		rest = rest[i+4:]
		for _, kind := range [...]string{"Notice:", "Parse error:", "Fatal error:", "Warning:"} {
			if hasPrefix(rest, kind) {
				return true
			}
		}
	}
	const head = "exception '"
	for rest := m; ; {
		i := bytes.Index(rest, []byte(head))
		if i < 0 {
			return false
		}
		rest = rest[i+len(head):]
		if n := bytes.IndexByte(rest, '\''); n > 0 && hasPrefix(rest[n:], "' with message '") {
			return true
		}
	}
}

func (s state) nextPHP(m []byte) (state, bool) {
	switch {
	case s == phpHead:
		return phpFrames, hasLine(m, begins("Stack trace:"))
	case hasLine(m, func(l []byte) bool { return len(l) > 1 && l[0] == '#' && isDigit(l[1]) }):
		return phpFrames, true
	}
	return outside, hasThrownIn(m)
}

// hasThrownIn looks for "thrown in " behind white space at the beginning of a line, which
// may contain line breaks.
func hasThrownIn(m []byte) bool {
	for {
		n := 0
		for n < len(m) && isSpace(m[n]) {
			n++
		}
		if n > 0 && hasPrefix(m[n:], "thrown in ") {
			return true
		}
		end := bytes.IndexByte(m[n:], '\n')
		if end < 0 {
			return false
		}
		m = m[n+end+1:]
	}
}

// hasPanic looks for "panic: " as a word.
func hasPanic(m []byte) bool {
	for at := 0; ; {
		i := bytes.Index(m[at:], []byte("panic: "))
		if i < 0 {
			return false
		}
		at += i
		if r, _ := utf8.DecodeLastRune(m[:at]); at == 0 || !isWord(r) {
			return true
		}
		at += len("panic: ")
	}
}

func isWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.In(r, unicode.M, unicode.Nd, unicode.Pc))
}

func (s state) nextGo(m []byte) (state, bool) {
	switch s {
	case goRoutine:
		return goCall, hasGoroutine(m)
	case goPlace:
		return goCall, hasLine(m, func(l []byte) bool { return len(l) > 0 && isSpace(l[0]) }) || len(m) > 0 && (m[0] == '\n' || bytes.Contains(m, []byte("\n\n")))
	}
	switch {
	case hasLine(m, isEmpty):
		return goRoutine, true
	case s == goHead:
		return goSignal, hasLine(m, begins("[signal "))
	case s == goCall:
		return goPlace, hasLine(m, isGoCall)
	}
	return outside, false
}

// hasGoroutine looks for the head of a goroutine. What stands in its brackets may contain
// line breaks.
func hasGoroutine(m []byte) bool {
	for {
		if rest, ok := bytes.CutPrefix(m, []byte("goroutine ")); ok {
			n := digits(rest)
			if rest = rest[n:]; n > 0 && hasPrefix(rest, " [") {
				end := bytes.IndexByte(rest, ']')
				if end > 2 && hasPrefix(rest[end:], "]:") && (len(rest) == end+2 || rest[end+2] == '\n') {
					return true
				}
			}
		}
		end := bytes.IndexByte(m, '\n')
		if end < 0 {
			return false
		}
		m = m[end+1:]
	}
}

// isGoCall takes the first line of a frame: a name with dots, and a parenthesis; or who
// created the goroutine.
func isGoCall(line []byte) bool {
	if hasPrefix(line, "created by ") {
		return true
	}
	// Words end in dots and may hold parentheses, as methods' receivers do, but the last.
	word, plain := 0, true
	for _, c := range line {
		switch {
		case c == '(' && word > 0 && plain:
			return true
		case c == '.' && word > 0:
			word, plain = 0, true
		case c == '.' || c == ':' || isSpace(c):
			return false
		default:
			word++
			plain = plain && c != '(' && c != ')'
		}
	}
	return false
}

// isRailsError takes the line with an error's name and its message in parentheses.
func isRailsError(line []byte) bool {
	const head, end = "Error (", "):"
	n := len(line) - len(end)
	if n < len(head) || string(line[n:]) != end {
		return false
	}
	return bytes.Contains(line[:n], []byte(head))
}

func (s state) nextRuby(m []byte) (state, bool) {
	if s == railsHead && hasLine(m, is("  ")) {
		return rubyFrames, true
	}
	return rubyFrames, hasLine(m, isRubyFrame)
}

func isRubyFrame(line []byte) bool {
	if blanks(line) == 0 {
		return false
	}
	for rest := line[1:]; ; {
		i := bytes.Index(rest, []byte(".rb:"))
		if i < 0 {
			return false
		}
		rest = rest[i+len(".rb:"):]
		if n := digits(rest); n > 0 && hasPrefix(rest[n:], ":in `") {
			return true
		}
	}
}
