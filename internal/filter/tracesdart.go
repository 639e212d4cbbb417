package filter

import "bytes"

// dartErrors are how the messages of Dart's errors begin that consist of one line.
func isDartError(line []byte) bool {
	for _, head := range [...]string{
		"Instance of", "Exception", "Bad state", "IntegerDivisionByZeroException", "Invalid argument", "RangeError", "Assertion failed",
		"Cannot instantiate", "Reading static variable", "UnimplementedError", "Unsupported operation", "Concurrent modification",
		"Out of Memory", "Stack Overflow",
	} {
		if hasPrefix(line, head) {
			return true
		}
	}
	return false
}

// isDartType takes a type error: a place in quotes, a colon, and what is wrong there.
func isDartType(line []byte) bool {
	if len(line) < 2 || line[0] != '\'' {
		return false
	}
	i := bytes.Index(line[2:], []byte("':"))
	return i >= 0 && len(line) > 2+i+2
}

func isCaret(line []byte) bool { return bytes.IndexByte(line, '^') >= 0 }

func isFilled(line []byte) bool { return len(line) > 0 }

func (s state) nextDart(m []byte) (state, bool) {
	switch s {
	case dartHead:
		switch {
		case hasLine(m, isDartError):
			return dartFrames, true
		case hasLine(m, isDartType):
			return dartType1, true
		case hasLine(m, begins("FormatException")):
			return dartFormat1, true
		}
		return dartMethod1, hasLine(m, begins("NoSuchMethodError:"))
	case dartFrames:
		return dartFrames, hasDartFrame(m) || hasLine(m, is("<asynchronous suspension>"))
	case dartType1, dartFormat1:
		if hasDartFrame(m) {
			return dartFrames, true
		}
		return s + 1, hasLine(m, isFilled)
	case dartType2, dartFormat2:
		return s + 1, hasLine(m, isCaret)
	case dartType3:
		return dartType4, hasLine(m, isEmpty)
	case dartType4, dartFormat3:
		return dartFrames, hasLine(m, isEmpty)
	case dartMethod1:
		return dartMethod2, hasLine(m, begins("Receiver:"))
	case dartMethod2:
		return dartMethod3, hasLine(m, begins("Tried calling:"))
	case dartMethod3:
		return dartFrames, hasLine(m, begins("Found:")) || hasDartFrame(m)
	}
	return outside, false
}

// hasDartFrame looks for a frame: its number, a name, a place in parentheses at the end of
// the line. Behind the number there may be line breaks.
func hasDartFrame(m []byte) bool {
	for {
		if len(m) > 1 && m[0] == '#' {
			if n := digits(m[1:]); n > 0 && isDartPlace(m[1+n:]) {
				return true
			}
		}
		end := bytes.IndexByte(m, '\n')
		if end < 0 {
			return false
		}
		m = m[end+1:]
	}
}

// isDartPlace takes white space, a name and a place in parentheses.
func isDartPlace(m []byte) bool {
	n := 0
	for n < len(m) && isSpace(m[n]) {
		n++
	}
	if n == 0 {
		return false
	}
	from := 1 // of the parenthesis: there is a name before it
	if n > 1 && m[n-1] != '\n' {
		from = 0 // it may be a blank
	}
	line := m[n:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	if len(line) < from+3 || line[len(line)-1] != ')' {
		return false
	}
	i := bytes.IndexByte(line[from:], '(')
	return i >= 0 && from+i+2 < len(line)
}
