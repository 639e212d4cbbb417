package awslogs

import (
	"strings"
	"unicode/utf8"
)

// pattern gives the regular expression of a directive of awslogs-datetime-format, "" where
// awslogs has none. The classes are the original's, odd ones included: [1,2] takes a comma.
func pattern(verb byte) string {
	switch verb {
	case 'a':
		return names(cut(3, weekdays()))
	case 'A':
		return names(weekdays())
	case 'b':
		return names(cut(3, months()))
	case 'B':
		return names(months())
	case 'w':
		return `[0-6]`
	case 'd':
		return `(?:0[1-9]|[1,2][0-9]|3[0,1])`
	case 'm':
		return `(?:0[1-9]|1[0-2])`
	case 'Y':
		return `\d{4}`
	case 'y':
		return `\d{2}`
	case 'H':
		return `(?:[0,1][0-9]|2[0-3])`
	case 'I':
		return `(?:0[0-9]|1[0-2])`
	case 'p':
		return `[A,P]M`
	case 'M', 'S':
		return `[0-5][0-9]`
	case 'f':
		return `\d{6}`
	case 'L':
		return `\.\d{3}`
	case 'z':
		return `[+-]\d{4}`
	case 'Z':
		return `[A-Z]{1,4}T`
	case 'j':
		return `(?:0[0-9][1-9]|[1,2][0-9][0-9]|3[0-5][0-9]|36[0-6])`
	}
	return ""
}

func weekdays() []string {
	return []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
}

func months() []string {
	return []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
}

// cut shortens all to n bytes.
func cut(n int, all []string) []string {
	short := make([]string, len(all))
	for i, s := range all {
		short[i] = s[:n]
	}
	return short
}

// names makes an alternative of all.
func names(all []string) string { return "(?:" + strings.Join(all, "|") + ")" }

// pieces divides a format: text, and directives for which verb is called with the byte
// after the %. A directive that awslogs does not know, %% too, is left out; a lone % at the
// end, or before a line break, is text.
func pieces(format string, text func(string), verb func(byte)) {
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 || i == len(format)-1 {
			break
		}
		c, size := utf8.DecodeRuneInString(format[i+1:])
		if c == '\n' {
			text(format[:i+2])
			format = format[i+2:]
			continue
		}
		if i > 0 {
			text(format[:i])
		}
		if size == 1 && pattern(format[i+1]) != "" {
			verb(format[i+1])
		}
		format = format[i+1+size:]
	}
	if format != "" {
		text(format)
	}
}

// datetimePattern is the regular expression of a format, as awslogs makes it: text is taken
// as it is.
func datetimePattern(format string) string {
	var b strings.Builder
	pieces(format, func(s string) { b.WriteString(s) }, func(v byte) { b.WriteString(pattern(v)) })
	return b.String()
}
