package expr

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// text reads a string literal behind its opening quote. With interpolation its parts become
// a tree.
func (p *parser) text(t token, open, end byte, double bool) (token, error) {
	t.kind = tString
	var parts []node
	var b strings.Builder
	depth := 0
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		switch {
		case c == end && depth == 0:
			p.pos++
			if parts == nil {
				t.node = &literal{off: t.off, value: StringValue(b.String())}
				return t, nil
			}
			if b.Len() > 0 {
				parts = append(parts, &literal{off: t.off, value: StringValue(b.String())})
			}
			t.node = &interpolation{off: t.off, parts: parts}
			return t, nil
		case c == '\\' && p.pos+1 < len(p.src):
			if err := p.escape(&b, end, double); err != nil {
				return t, err
			}
			continue
		case double && strings.HasPrefix(p.src[p.pos:], "#{"):
			n, err := p.nested()
			if err != nil {
				return t, err
			}
			if b.Len() > 0 {
				parts = append(parts, &literal{off: t.off, value: StringValue(b.String())})
				b.Reset()
			}
			parts = append(parts, n)
			continue
		case open != end && c == open:
			depth++
		case open != end && c == end:
			depth--
		}
		b.WriteByte(c)
		p.pos++
	}
	return t, p.fail(t.off, "a string is not closed")
}

// nested parses #{…} within a string and goes behind it.
func (p *parser) nested() (node, error) {
	off := p.pos
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(off, "nested too deeply")
	}
	saved := p.tok
	p.pos += len("#{")
	p.tok = token{kind: tEnd}
	n, err := p.program(tOp)
	if err != nil {
		return nil, err
	}
	if !p.isOp("}") {
		return nil, p.fail(off, "#{ is not closed")
	}
	p.pos = p.tok.off + 1
	p.tok = saved
	p.depth--
	return n, nil
}

// escape reads a backslash sequence.
func (p *parser) escape(b *strings.Builder, end byte, double bool) error {
	c := p.src[p.pos+1]
	off := p.pos
	p.pos += 2
	if !double {
		if c != '\\' && c != end {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		return nil
	}
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'f':
		b.WriteByte('\f')
	case 'b':
		b.WriteByte('\b')
	case 'a':
		b.WriteByte('\a')
	case 'v':
		b.WriteByte('\v')
	case 'e':
		b.WriteByte(27)
	case 's':
		b.WriteByte(' ')
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
