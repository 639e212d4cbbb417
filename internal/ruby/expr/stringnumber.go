package expr

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// stringToInt is to_i with an optional base, hex and oct.
func stringToInt(m *Machine, n *call, v Value, a []Value) (Value, error) {
	base := 10
	s := strings.TrimLeft(v.s.s, " \t\n\v\f\r")
	if len(a) == 1 {
		var err error
		if base, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
		if base < 0 || base == 1 || base > 36 {
			return Value{}, m.raise(n, "ArgumentError", "invalid radix %d", base)
		}
	}
	switch n.name {
	case "hex":
		base = 16
	case "oct":
		base = 8
	}
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	if len(s) > 1 && s[0] == '0' {
		prefix, ok := map[byte]int{'x': 16, 'b': 2, 'o': 8}[s[1]|0x20]
		switch {
		case s[1]|0x20 == 'd' && (base == 0 || base == 10 || n.name == "oct"):
			base, s = 10, s[2:]
		case ok && (prefix == base || base == 0 || n.name == "oct"):
			base, s = prefix, s[2:]
		case base == 0:
			base = 8
		}
		if strings.HasPrefix(s, "_") { // no digit behind the prefix
			return intValue(0), nil
		}
	}
	if base == 0 {
		base = 10
	}
	end := 0
	for ; end < len(s); end++ {
		if s[end] == '_' && end > 0 && end+1 < len(s) && isIdent(s[end-1]) && s[end-1] != '_' {
			continue
		}
		if _, err := strconv.ParseUint(s[end:end+1], base, 8); err != nil {
			break
		}
	}
	digits := strings.ReplaceAll(s[:end], "_", "")
	if digits == "" {
		return intValue(0), nil
	}
	return m.parseInt(n, sign+digits, base)
}

// parseInt reads digits that are known to be right.
func (m *Machine) parseInt(n node, digits string, base int) (Value, error) {
	i, err := strconv.ParseInt(digits, base, 64)
	if err == nil {
		return intValue(i), nil
	}
	if u, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), base, 64); err == nil {
		return Value{kind: Uint, bits: u}, nil
	}
	return Value{}, m.exceed(n, "the number %s is too large: integers of more than 64 bits are not supported", clip(digits))
}

// strictInt is Integer(text, base): the whole text must be a number. With base 0 a prefix
// says the base.
func strictInt(s string, base int) (digits string, numBase int, ok bool) {
	s = strings.Trim(s, " \t\n\v\f\r")
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	if len(s) > 1 && s[0] == '0' {
		prefix, known := map[byte]int{'x': 16, 'b': 2, 'o': 8, 'd': 10}[s[1]|0x20]
		switch {
		case known && (base == 0 || base == prefix):
			base, s = prefix, s[2:]
		case base == 0:
			base, s = 8, s[1:]
		}
	}
	if base == 0 {
		base = 10
	}
	if s == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return "", 0, false
	}
	s = strings.ReplaceAll(s, "_", "")
	for i := range len(s) {
		if _, err := strconv.ParseUint(s[i:i+1], base, 8); err != nil {
			return "", 0, false
		}
	}
	return sign + s, base, true
}

// strictFloat is Float(text).
func strictFloat(s string) (float64, bool) {
	s = strings.Trim(s, " \t\n\v\f\r")
	if s == "" || strings.Contains(s, "__") || s[0] == '_' || s[len(s)-1] == '_' || s[len(s)-1] == '.' {
		return 0, false
	}
	if bare := strings.TrimLeft(s, "+-"); len(s)-len(bare) <= 1 && strings.HasPrefix(bare, ".") {
		s = s[:len(s)-len(bare)] + "0" + bare
	}
	for i := range len(s) {
		if s[i] == '_' && (!isDigit(s[i-1]) || !isDigit(s[i+1])) && !strings.ContainsAny(s, "xX") {
			return 0, false
		}
	}
	plain := strings.ReplaceAll(s, "_", "")
	for i := range len(plain) {
		if c := plain[i]; !isDigit(c) && strings.IndexByte("+-.eE", c) < 0 {
			if digits, base, ok := strictInt(s, 0); ok && base == 16 {
				n, err := strconv.ParseInt(digits, base, 64)
				return float64(n), err == nil
			}
			return 0, false
		}
		if plain[i] == '.' && (i == 0 || !isDigit(plain[i-1]) || i+1 < len(plain) && !isDigit(plain[i+1])) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(plain, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// leadingFloat reads the number at the beginning of a text, 0 if there is none.
func leadingFloat(s string) float64 {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if f, ok := signedHex(s); ok {
		return f
	}
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

var hexFloat = regexp.MustCompile(`^([+-]0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?)([pP][+-]?[0-9]+)?`)

// signedHex reads a number that Ruby's to_f takes for a hexadecimal one: only with a sign.
func signedHex(s string) (float64, bool) {
	if len(s) < 3 || s[1] != '0' || s[2]|0x20 != 'x' || s[0] != '-' && s[0] != '+' {
		return 0, false
	}
	m := hexFloat.FindStringSubmatch(s)
	if m == nil {
		return 0, true
	}
	if m[2] == "" {
		m[2] = "p0"
	}
	f, err := strconv.ParseFloat(m[1]+m[2], 64)
	return f, err == nil || math.IsInf(f, 0)
}
