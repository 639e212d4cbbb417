package expr

import (
	"math"
	"strconv"
	"strings"
)

// toInt is String#to_i with an optional base.
func (c *invocation) toInt() (Value, bool, error) {
	if err := c.need(Int, 0, 1); err != nil {
		return Value{}, true, err
	}
	base := 10
	if len(c.args) == 1 {
		if base = int(c.args[0].Int()); base < 2 || base > 36 {
			return Value{}, true, c.m.raise(c.n, "invalid radix %d", base)
		}
	}
	s := strings.TrimLeft(c.recv.text, blanks)
	end := 0
	if end < len(s) && (s[end] == '-' || s[end] == '+') {
		end++
	}
	for ; end < len(s); end++ {
		if s[end] == '_' && end > 0 && end+1 < len(s) && isIdent(s[end-1]) && s[end-1] != '_' {
			continue
		}
		if _, err := strconv.ParseUint(s[end:end+1], base, 8); err != nil {
			break
		}
	}
	digits := strings.ReplaceAll(s[:end], "_", "")
	if digits == "" || digits == "-" || digits == "+" {
		return IntValue(0), true, nil
	}
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil {
		return Value{}, true, c.m.raise(c.n, "the number %s is too large", clip(digits))
	}
	return IntValue(n), true, nil
}

// leadingFloat reads the number at the beginning of a text, 0 if there is none.
func leadingFloat(s string) float64 {
	s = strings.TrimLeft(s, blanks)
	end, digits, dot, exp := 0, 0, false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case isDigit(c):
			digits++
			end = i + 1
		case (c == '-' || c == '+') && (i == 0 || s[i-1] == 'e' || s[i-1] == 'E'):
		case c == '_' && digits > 0 && i > 0 && isDigit(s[i-1]):
		case c == '.' && !dot && !exp && (digits == 0 || isDigit(s[i-1])) && i+1 < len(s) && isDigit(s[i+1]):
			dot = true
		case (c == 'e' || c == 'E') && !exp && digits > 0 && isDigit(s[i-1]):
			exp = true
		default:
			i = len(s)
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s[:end], "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0
	}
	return f
}
