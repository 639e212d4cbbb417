package expr

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/ruby/rx"
)

// body is what stands between the quotes of a literal: parts that alternate between text
// and interpolated expressions.
type body struct {
	off   int
	parts []node
	b     strings.Builder
}

// flush makes a part of the text that has been read.
func (l *body) flush() {
	if l.b.Len() > 0 {
		l.parts = append(l.parts, &stringLiteral{off: l.off, text: l.b.String()})
		l.b.Reset()
	}
}

// node is the String of a literal.
func (l *body) node() node {
	if l.parts == nil {
		return &stringLiteral{off: l.off, text: l.b.String()}
	}
	l.flush()
	return &interpolation{off: l.off, parts: l.parts}
}

// escapes says what a backslash means in a literal.
type escapes uint8

const (
	singleQuoted escapes = iota // only \\ and the escaped quote
	doubleQuoted                // \n and so on, #{…}
	inRegexp                    // kept for the regular expression, #{…}
)

// quoted reads a string literal behind its opening quote.
func (p *parser) quoted(t token, open, end byte, double bool) (token, error) {
	mode := singleQuoted
	if double {
		mode = doubleQuoted
	}
	l, err := p.literal(t.off, open, end, mode)
	if err != nil {
		return t, err
	}
	t.kind, t.node = tString, l.node()
	return t, nil
}

func (p *parser) literal(off int, open, end byte, mode escapes) (*body, error) {
	l := &body{off: off}
	depth := 0
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		switch {
		case c == end && depth == 0:
			p.pos++
			return l, nil
		case c == '\\' && p.pos+1 < len(p.src):
			if err := p.escape(&l.b, open, end, mode); err != nil {
				return l, err
			}
			continue
		case mode != singleQuoted && c == '#' && bareVariable(p.src[p.pos+1:]):
			return l, p.fail(p.pos, "a variable behind # without braces is not supported: write #{…}, or \\# for the sign itself")
		case mode != singleQuoted && strings.HasPrefix(p.src[p.pos:], "#{"):
			n, err := p.nested()
			if err != nil {
				return l, err
			}
			l.flush()
			l.parts = append(l.parts, n)
			continue
		case open != end && c == open:
			depth++
		case open != end && c == end:
			depth--
		}
		l.b.WriteByte(c)
		p.pos++
	}
	if mode == inRegexp {
		return l, p.fail(off, "a regular expression is not closed")
	}
	return l, p.fail(off, "a string is not closed")
}

// regexp reads a regular expression behind its opening sign, and its flags.
func (p *parser) regexp(t token, open, end byte) (token, error) {
	l, err := p.literal(t.off, open, end, inRegexp)
	if err != nil {
		return t, err
	}
	var o rx.Options
	flags := ""
	for p.pos < len(p.src) && isIdent(p.src[p.pos]) {
		switch c := p.src[p.pos]; c {
		case 'i':
			o.IgnoreCase = true
		case 'm':
			o.DotAll = true
		case 'x':
			o.Extended = true
		case 'o', 'u', 'n':
			p.pos++
			continue
		default:
			return t, p.fail(p.pos, "unknown flag of a regular expression")
		}
		flags += p.src[p.pos : p.pos+1]
		p.pos++
	}
	t.kind = tString
	n := l.node()
	s, ok := n.(*stringLiteral)
	if !ok {
		t.node = &dynamicRegexp{off: t.off, source: n, options: o, flags: flags, slot: p.dynamics}
		p.dynamics++
		return t, nil
	}
	re, err := rx.Compile(s.text, o)
	if err != nil {
		return t, p.fail(t.off, err.Error())
	}
	t.node = &literal{off: t.off, value: regexpValue(&pattern{re: re, flags: flags})}
	return t, nil
}

func regexpValue(re *pattern) Value {
	return Value{kind: RegexpKind, o: &object{x: &extra{re: re}}}
}

// words reads %w and %i.
func (p *parser) words(t token, open, end, kind byte) (token, error) {
	from := p.pos
	words, err := p.bareWords(t.off, open, end)
	if err != nil {
		return t, err
	}
	if (kind == 'W' || kind == 'I') && strings.ContainsAny(p.src[from:p.pos], `\#`) {
		return t, p.fail(t.off, "this % literal is not supported")
	}
	list := &array{off: t.off}
	for _, w := range words {
		if kind == 'i' || kind == 'I' {
			list.items = append(list.items, symbolLiteral(t.off, w))
		} else {
			list.items = append(list.items, &stringLiteral{off: t.off, text: w})
		}
	}
	t.kind, t.node = tString, list
	return t, nil
}

// bareWords reads words up to the closing sign. A backslash makes a blank, itself and the signs
// part of a word.
func (p *parser) bareWords(off int, open, end byte) ([]string, error) {
	var words []string
	var w []byte
	depth, inside := 0, false
	for ; p.pos < len(p.src); p.pos++ {
		c := p.src[p.pos]
		blank := strings.IndexByte(" \t\n\v\f\r", c) >= 0
		switch {
		case c == '\\' && p.pos+1 < len(p.src) && strings.IndexByte(" \t\n\v\f\r\\", p.src[p.pos+1]) >= 0,
			c == '\\' && p.pos+1 < len(p.src) && (p.src[p.pos+1] == open || p.src[p.pos+1] == end):
			p.pos++
			w, inside = append(w, p.src[p.pos]), true
			continue
		case blank || c == end && depth == 0:
			if inside {
				words = append(words, string(w))
			}
			w, inside = w[:0], false
			if !blank {
				p.pos++
				return words, nil
			}
			continue
		case open != end && c == open:
			depth++
		case open != end && c == end:
			depth--
		}
		w, inside = append(w, c), true
	}
	return nil, p.fail(off, "a list of words is not closed")
}

// bareVariable says whether Ruby takes what stands behind # for a global or instance variable.
func bareVariable(rest string) bool {
	name := func(s string) bool {
		return s != "" && (s[0] == '_' || s[0] >= utf8.RuneSelf || s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
	}
	switch {
	case strings.HasPrefix(rest, "@"):
		return name(strings.TrimPrefix(rest[1:], "@"))
	case strings.HasPrefix(rest, "$-"):
		return name(rest[2:])
	case strings.HasPrefix(rest, "$") && len(rest) > 1:
		return name(rest[1:]) || isDigit(rest[1]) || strings.IndexByte("~*$?!@/\\;,.=:<>\"&`'+", rest[1]) >= 0
	}
	return false
}

func symbolLiteral(off int, s string) node {
	return &literal{off: off, value: Value{kind: Symbol, s: &text{s: s}}}
}

// nested parses #{…} within a string and goes behind it.
func (p *parser) nested() (node, error) {
	off := p.pos
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(off, "nested too deeply")
	}
	tok, afterDot, ternary, noDo := p.tok, p.afterDot, p.ternary, p.noDo
	p.pos += len("#{")
	p.tok, p.afterDot, p.ternary, p.noDo = token{kind: tEnd}, false, 0, false
	n, err := p.program(tOp)
	if err != nil {
		return nil, err
	}
	if !p.isOp("}") {
		return nil, p.fail(off, "#{ is not closed")
	}
	p.pos = p.tok.off + 1
	p.tok, p.afterDot, p.ternary, p.noDo = tok, afterDot, ternary, noDo
	p.depth--
	return n, nil
}

// escape reads a backslash sequence.
func (p *parser) escape(b *strings.Builder, open, end byte, mode escapes) error {
	c := p.src[p.pos+1]
	off := p.pos
	p.pos += 2
	if mode == inRegexp {
		if c != end || c != '/' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		return nil
	}
	if mode == singleQuoted {
		if c != '\\' && c != end && c != open {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		return nil
	}
	if i := strings.IndexByte("ntrfbaves0", c); i >= 0 && c != '0' {
		b.WriteByte("\n\t\r\f\b\a\v\x1b "[i])
		return nil
	}
	switch c {
	case '\n':
	case 'x':
		return p.code(b, off, 16, 2)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		p.pos--
		return p.code(b, off, 8, 3)
	case 'u':
		return p.unicode(b, off)
	case 'c', 'C', 'M':
		return p.fail(off, "this escape is not supported")
	default:
		b.WriteByte(c)
	}
	return nil
}

// code reads up to most digits of a byte.
func (p *parser) code(b *strings.Builder, off, base, most int) error {
	end := p.pos
	for end < len(p.src) && end < p.pos+most {
		if _, err := strconv.ParseUint(p.src[end:end+1], base, 8); err != nil {
			break
		}
		end++
	}
	n, err := strconv.ParseUint(p.src[p.pos:end], base, 16)
	if err != nil {
		return p.fail(off, "invalid escape")
	}
	b.WriteByte(byte(n))
	p.pos = end
	return nil
}

// unicode reads what follows \u.
func (p *parser) unicode(b *strings.Builder, off int) error {
	rest := p.src[p.pos:]
	codes := []string{}
	if strings.HasPrefix(rest, "{") {
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return p.fail(off, "invalid escape")
		}
		codes = strings.Fields(rest[1:end])
		p.pos += end + 1
	} else if len(rest) >= 4 {
		codes = append(codes, rest[:4])
		p.pos += 4
	}
	if len(codes) == 0 {
		return p.fail(off, "invalid escape")
	}
	for _, c := range codes {
		n, err := strconv.ParseUint(c, 16, 32)
		if err != nil || n > utf8.MaxRune || n >= 0xd800 && n < 0xe000 {
			return p.fail(off, "invalid escape")
		}
		b.WriteRune(rune(n))
	}
	return nil
}
