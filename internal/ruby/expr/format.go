package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// directive is one % of a format.
type directive struct {
	minus, plus, space, zero, alt bool
	width, prec                   int // prec is -1 if it is not given
	arg                           Value
	named                         bool
}

// sprintf formats as Ruby does.
func (m *Machine) sprintf(n node, f string, args []Value) (Value, error) {
	var out []byte
	s := &formatter{m: m, n: n, args: args}
	for i := 0; i < len(f); {
		if f[i] != '%' {
			out = append(out, f[i])
			i++
			continue
		}
		text, used, err := s.one(f[i:])
		if err != nil {
			return Value{}, err
		}
		out = append(out, text...)
		i += used
		if err := m.checkText(n, len(out)); err != nil {
			return Value{}, err
		}
	}
	return m.str(view(out)), nil
}

type formatter struct {
	m    *Machine
	n    node
	args []Value
	next int
}

func (s *formatter) take() (Value, error) {
	if s.next >= len(s.args) {
		return Value{}, s.m.raise(s.n, "ArgumentError", "too few arguments")
	}
	s.next++
	return s.args[s.next-1], nil
}

// named looks a %<name> or %{name} up.
func (s *formatter) named(name string) (Value, error) {
	if len(s.args) != 1 || s.args[0].kind != HashKind {
		return Value{}, s.m.raise(s.n, "ArgumentError", "one hash required")
	}
	v, ok := s.m.get(s.args[0].o, s.m.symbol(name))
	if !ok {
		return Value{}, s.m.raise(s.n, "KeyError", "key<%s> not found", name)
	}
	return v, nil
}

// one formats the directive at the start of f and says how long it is.
func (s *formatter) one(f string) (text string, used int, err error) {
	d := directive{prec: -1}
	for i := 1; i < len(f); i++ {
		switch c := f[i]; c {
		case '-':
			d.minus = true
		case '+':
			d.plus = true
		case ' ':
			d.space = true
		case '0':
			d.zero = true
		case '#':
			d.alt = true
		case '<', '{':
			end := strings.IndexByte(f[i:], map[byte]byte{'<': '>', '{': '}'}[c])
			if end < 0 {
				return "", 0, s.m.raise(s.n, "ArgumentError", "malformed name - unmatched parenthesis")
			}
			if d.arg, err = s.named(f[i+1 : i+end]); err != nil {
				return "", 0, err
			}
			d.named = true
			i += end
			if c == '{' {
				return d.pad(d.arg.ToS()), i + 1, nil
			}
		case '1', '2', '3', '4', '5', '6', '7', '8', '9', '*', '.':
			if k := position(f[i:]); k > 0 {
				n, _ := strconv.Atoi(f[i : i+k]) // digits
				if n > len(s.args) {
					return "", 0, s.m.raise(s.n, "ArgumentError", "too few arguments")
				}
				d.arg, d.named = s.args[n-1], true
				i += k
				continue
			}
			k, err := s.size(&d, f[i:])
			if err != nil {
				return "", 0, err
			}
			i += k - 1
		case '%':
			if i > 1 {
				return "", 0, s.m.raise(s.n, "ArgumentError", "invalid format character - %%")
			}
			return "%", i + 1, nil
		default:
			text, err := s.convert(&d, c)
			return text, i + 1, err
		}
	}
	return "", 0, s.m.raise(s.n, "ArgumentError", "incomplete format specifier; use %%%% (double %%) instead")
}

// position is how many digits stand before a $ at the beginning of f, 0 if there is none.
func position(f string) int {
	n := 0
	for n < len(f) && n < 6 && isDigit(f[n]) {
		n++
	}
	if n == 0 || n == len(f) || f[n] != '$' {
		return 0
	}
	return n
}

// size reads a width or, behind a dot, a precision.
func (s *formatter) size(d *directive, f string) (used int, err error) {
	i, to := 0, &d.width
	if f[0] == '.' {
		d.prec = 0
		i, to = 1, &d.prec
	}
	if i < len(f) && f[i] == '*' {
		v, err := s.take()
		if err != nil {
			return 0, err
		}
		if *to, err = s.m.intArg(s.n, v); err != nil {
			return 0, err
		}
		if to == &d.width && d.width < 0 {
			d.minus, d.width = true, -d.width
		}
		return i + 1, s.m.checkText(s.n, max(*to, 0))
	}
	for ; i < len(f) && isDigit(f[i]); i++ {
		*to = *to*10 + int(f[i]-'0')
		if err := s.m.checkText(s.n, *to); err != nil {
			return 0, err
		}
	}
	return i, nil
}

func (s *formatter) convert(d *directive, verb byte) (string, error) {
	if strings.IndexByte("diuxXobBeEfgGaAspc", verb) < 0 {
		return "", s.m.raise(s.n, "ArgumentError", "malformed format string - %%%c", verb)
	}
	if !d.named {
		v, err := s.take()
		if err != nil {
			return "", err
		}
		d.arg = v
	}
	switch verb {
	case 's', 'p':
		text := d.arg.ToS()
		if verb == 'p' {
			text = d.arg.Inspect()
		}
		if d.prec >= 0 {
			t := textOf(text)
			at, _ := charOffset(&t, d.prec)
			text = text[:at]
		}
		return d.pad(text), nil
	case 'c':
		return s.char(d)
	case 'e', 'E', 'f', 'g', 'G', 'a', 'A':
		v, err := kernelFloat(s.m, &function{off: s.n.at(), name: "Float"}, []Value{d.arg})
		if err != nil {
			return "", err
		}
		if verb == 'f' && d.arg.kind == Int { // without going through a float, and no point alone
			digits := strings.TrimPrefix(strconv.FormatInt(d.arg.int(), 10), "-")
			if d.prec != 0 {
				digits += "." + strings.Repeat("0", map[bool]int{true: 6, false: d.prec}[d.prec < 0])
			}
			return d.number(d.arg.int() < 0, "", digits), nil
		}
		return d.float(v.float(), verb), nil
	}
	v := d.arg
	if v.kind == Float {
		var err error
		if v, err = rounded(s.m, &call{off: s.n.at(), name: "to_i"}, v, nil); err != nil {
			return "", err
		}
	} else {
		var err error
		if v, err = kernelInteger(s.m, &function{off: s.n.at(), name: "Integer"}, []Value{v}); err != nil {
			return "", err
		}
	}
	return d.integer(v, verb), nil
}

// char is %c: a code point, or a text of one character.
func (s *formatter) char(d *directive) (string, error) {
	if d.arg.kind == String {
		if countChars(d.arg.s, len(d.arg.s.s)) != 1 {
			return "", s.m.raise(s.n, "ArgumentError", "%%c requires a character")
		}
		return d.pad(d.arg.s.s), nil
	}
	i, err := s.m.intArg(s.n, d.arg)
	if err != nil {
		return "", err
	}
	if i < 0 || i > utf8.MaxRune || i >= 0xd800 && i < 0xe000 {
		return "", s.m.exceed(s.n, "%%c of %d is not supported", i)
	}
	return d.pad(string(rune(i))), nil
}

func textOf(s string) text { return text{s: s} }

// pad fills up to the width with blanks.
func (d *directive) pad(s string) string {
	t := textOf(s)
	missing := d.width - countChars(&t, len(s))
	switch {
	case missing <= 0:
		return s
	case d.minus:
		return s + strings.Repeat(" ", missing)
	}
	return strings.Repeat(" ", missing) + s
}

// number puts sign, prefix and digits together.
func (d *directive) number(negative bool, prefix, digits string) string {
	sign := ""
	switch {
	case negative:
		sign = "-"
	case d.plus:
		sign = "+"
	case d.space:
		sign = " "
	}
	head := sign + prefix
	if d.zero && !d.minus && d.width > len(head)+len(digits) {
		digits = strings.Repeat("0", d.width-len(head)-len(digits)) + digits
	}
	return d.pad(head + digits)
}

// integer formats d, x, o and b. Of a negative number in another base than ten Ruby writes
// the two's complement with leading .., unless a sign is asked for.
func (d *directive) integer(v Value, verb byte) string {
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2, 'B': 2}[verb]
	if base == 0 {
		base = 10
	}
	negative := v.kind == Int && v.int() < 0
	magnitude := v.bits
	if negative {
		magnitude = uint64(-v.int())
	}
	digits := strconv.FormatUint(magnitude, base)
	if magnitude == 0 && d.prec == 0 && !(base == 8 && d.alt) {
		digits = ""
	}
	prefix := ""
	if d.alt && base != 10 && magnitude != 0 {
		prefix = map[byte]string{'x': "0x", 'X': "0X", 'o': "0", 'b': "0b", 'B': "0B"}[verb]
	}
	fill := "0"
	if negative && base != 10 && !d.plus && !d.space {
		digits = complement(v.int(), base)
		negative, fill = false, digits[2:3]
		if base == 8 {
			prefix = ""
		}
		if wide := max(d.prec, 0); wide > len(digits) {
			digits = ".." + strings.Repeat(fill, wide-len(digits)) + digits[2:]
		} else if d.zero && !d.minus && d.prec < 0 && d.width > len(prefix)+len(digits) {
			digits = ".." + strings.Repeat(fill, d.width-len(prefix)-len(digits)) + digits[2:]
		}
	} else if prefix == "0" && d.prec > len(digits) {
		prefix = "" // it is one of the digits
	}
	if d.prec > len(digits) {
		digits = strings.Repeat("0", d.prec-len(digits)) + digits
	}
	if verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if d.prec >= 0 {
		d.zero = false
	}
	return d.number(negative, prefix, digits)
}

// complement writes a negative number as Ruby's %x does: ..f01.
func complement(v int64, base int) string {
	bits := map[int]int{16: 4, 8: 3, 2: 1}[base]
	var out []byte
	for v < -1 {
		out = append(out, "0123456789abcdef"[v&int64(base-1)])
		v >>= bits
	}
	top := "0123456789abcdef"[base-1]
	for len(out) > 0 && out[len(out)-1] == top {
		out = out[:len(out)-1]
	}
	s := []byte{'.', '.', top}
	for i := len(out) - 1; i >= 0; i-- {
		s = append(s, out[i])
	}
	return string(s)
}

func (d *directive) float(f float64, verb byte) string {
	negative := f < 0 || f == 0 && math.Signbit(f)
	f = math.Abs(f)
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		d.zero = false
		if math.IsNaN(f) {
			return d.number(false, "", "NaN")
		}
		return d.number(negative, "", "Inf")
	case verb == 'a' || verb == 'A':
		return d.hexFloat(negative, f, verb)
	}
	prec := d.prec
	if prec < 0 {
		prec = 6
	}
	prec = min(prec, 1000)
	if verb == 'g' || verb == 'G' {
		return d.number(negative, "", general(f, max(prec, 1), verb, d.alt))
	}
	if verb == 'f' {
		return d.number(negative, "", d.point(fixed(f, prec)))
	}
	return d.number(negative, "", d.point(scientific(f, verb, prec)))
}

// point puts a point behind whole digits if the directive has a #.
func (d *directive) point(s string) string {
	if !d.alt || strings.Contains(s, ".") {
		return s
	}
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		return s[:e] + "." + s[e:]
	}
	return s + "."
}

// hexFloat is %a: the exponent has no zeros in front.
func (d *directive) hexFloat(negative bool, f float64, verb byte) string {
	s := strconv.FormatFloat(f, 'x', d.prec, 64)
	mantissa, exp, _ := strings.Cut(s, "p")
	e, _ := strconv.Atoi(exp) // it is a number
	mantissa = d.point(strings.TrimPrefix(mantissa, "0x"))
	s, prefix := mantissa+"p"+fmt.Sprintf("%+d", e), "0x"
	if verb == 'A' {
		s, prefix = strings.ToUpper(s), "0X"
	}
	return d.number(negative, prefix, s)
}

// fixed is %f. Ruby takes a number whose shortest digits end in a 5 right behind the last
// place for a tie, which it rounds to even: 0.15 is 0.2 though its bits are below 0.15.
func fixed(f float64, prec int) string {
	const quick = 14 // digits up to which Ruby works that way
	s := strconv.FormatFloat(f, 'f', -1, 64)
	dot := strings.IndexByte(s, '.')
	if dot < 0 || len(s)-dot-1 != prec+1 || s[len(s)-1] != '5' || len(s) > quick {
		return strconv.FormatFloat(f, 'f', prec, 64)
	}
	return halfEven(strings.TrimSuffix(s[:len(s)-1], "."))
}

// halfEven rounds up the last digit of a number behind which a 5 was cut off, if it is odd.
func halfEven(s string) string {
	b := []byte(s)
	if (b[len(b)-1]-'0')%2 == 0 {
		return s
	}
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '.' {
			continue
		}
		if b[i]++; b[i] <= '9' {
			return string(b)
		}
		b[i] = '0'
	}
	return "1" + string(b)
}

// scientific is %e, which takes ties as %f does.
func scientific(f float64, verb byte, prec int) string {
	const quick = 14
	m, exp, _ := strings.Cut(strconv.FormatFloat(f, verb, -1, 64), string(verb))
	if digits := len(m) - 2; digits != prec+1 || m[len(m)-1] != '5' || digits > quick {
		return strconv.FormatFloat(f, verb, prec, 64)
	}
	m = halfEven(strings.TrimSuffix(m[:len(m)-1], "."))
	if strings.HasPrefix(m, "10") { // 9.5 became 10
		e, _ := strconv.Atoi(exp) // it is a number
		m = "1" + strings.Replace("."+m[2:], "..", ".", 1)
		if m = strings.TrimSuffix(m[:min(len(m), prec+2)], "."); prec > 0 && !strings.Contains(m, ".") {
			m += "." + strings.Repeat("0", prec)
		}
		exp = fmt.Sprintf("%+03d", e+1)
	}
	return m + string(verb) + exp
}

// general is %g: the shorter of %e and %f, without zeros at the end.
func general(f float64, prec int, verb byte, alt bool) string {
	e := 0
	if f != 0 {
		s := scientific(f, 'e', prec-1)
		e, _ = strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	}
	if e < -4 || e >= prec {
		m, exp, _ := strings.Cut(scientific(f, 'e', prec-1), "e")
		if !alt && strings.Contains(m, ".") {
			m = strings.TrimRight(strings.TrimRight(m, "0"), ".")
		} else if alt && !strings.Contains(m, ".") {
			m += "."
		}
		return m + string(verb-'g'+'e') + exp
	}
	s := fixed(f, prec-1-e)
	if !alt && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	} else if alt && !strings.Contains(s, ".") {
		s += "."
	}
	return s
}
