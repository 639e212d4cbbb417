package cloudwatch

import (
	"bytes"
	"unicode/utf8"
)

// groupChar reports whether c may stand in the name of a log group.
func groupChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '.' || c == '-' || c == '_' || c == '/' || c == '#'
}

// badGroupName says what is wrong with a group's name, or "".
func badGroupName(name []byte) string {
	switch {
	case len(name) == 0:
		return "is empty"
	case len(name) > maxNameChars:
		return "is longer than 512 characters"
	case reserved(name):
		return "begins with aws/, which is reserved"
	}
	for _, c := range name {
		if !groupChar(c) {
			return "has characters other than letters, digits and . - _ / #"
		}
	}
	return ""
}

// badStreamName says what is wrong with a stream's name, or "". Control characters are not
// excluded by the service's documentation, but NUL is by us: it separates names in lanes.
func badStreamName(name []byte) string {
	switch {
	case len(name) == 0:
		return "is empty"
	case len(name) > maxNameChars && utf8.RuneCount(name) > maxNameChars:
		return "is longer than 512 characters"
	case bytes.IndexByte(name, ':') >= 0 || bytes.IndexByte(name, '*') >= 0:
		return "has : or *"
	case bytes.IndexByte(name, 0) >= 0:
		return "has a NUL character"
	case !utf8.Valid(name):
		return "is not UTF-8"
	}
	return ""
}

// sanitizeGroup replaces in place what is illegal in a group's name and returns the name,
// cut where it is too long.
func sanitizeGroup(name []byte) []byte {
	out := name[:0]
	for i := 0; i < len(name); {
		_, n := utf8.DecodeRune(name[i:])
		c := name[i]
		if n > 1 || !groupChar(c) {
			c = '_' // one for a whole character
		}
		out = append(out, c)
		i += n
	}
	if reserved(out) {
		out[3] = '_'
	}
	return out[:min(len(out), maxNameChars)]
}

// sanitizeStream does the same for a stream's name.
func sanitizeStream(name []byte) []byte {
	out, chars := name[:0], 0
	for i := 0; i < len(name) && chars < maxNameChars; chars++ {
		r, n := utf8.DecodeRune(name[i:])
		if c := name[i]; c == ':' || c == '*' || c == 0 || r == utf8.RuneError && n == 1 {
			out = append(out, '_')
		} else {
			out = append(out, name[i:i+n]...)
		}
		i += n
	}
	return out
}

// reserved says whether a group's name begins as Amazon's own do. The service says "AWS/"
// when it refuses one and its documentation "aws/": here both count.
func reserved(name []byte) bool {
	return len(name) >= 4 && bytes.EqualFold(name[:4], []byte("aws/"))
}
