package expr

import (
	"strings"
	"unicode/utf8"
)

// kind of a token.
type tokenKind uint8

const (
	tEOF    tokenKind = iota
	tEnd              // newline or semicolon
	tInt              // text
	tFloat            // text
	tString           // node
	tSymbol           // text
	tIdent            // text, possibly with ? or !
	tConst            // text
	tOp               // text
)

// token is a lexical element. Strings with interpolation come parsed.
type token struct {
	kind  tokenKind
	text  string
	node  node
	off   int
	space bool // white space stands before it
}

// keywords of Ruby that the language of this package lacks, so that each is named as such.
func unsupportedKeyword(s string) bool {
	switch s {
	case "begin", "case", "class", "def", "do", "else", "elsif", "end", "ensure", "for", "module", "next", "redo", "retry",
		"return", "self", "super", "then", "undef", "until", "when", "while", "yield", "loop", "lambda", "proc", "alias", "defined?", "BEGIN", "END":
		return true
	}
	return false
}

// operators, longest first within each beginning.
var operators = [...]string{
	"<=>", "===", "**=", "||=", "&&=", "<<=", ">>=", "...",
	"==", "!=", "=~", "!~", "<=", ">=", "<<", ">>", "&&", "||", "&.", "::", "**", "->", "=>", "+=", "-=", "*=", "/=", "%=", "..", "|=", "&=", "^=",
	"+", "-", "*", "/", "%", "=", "<", ">", "!", "&", "|", "^", "~", "?", ":", ",", ".", "(", ")", "[", "]", "{", "}",
}

func isIdentStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isIdent(c byte) bool { return isIdentStart(c) || isDigit(c) }

// fail makes an error at an offset.
func (p *parser) fail(off int, text string) error {
	return &Error{Expr: p.src, Off: off, Text: text}
}

// advance reads the next token into p.tok.
func (p *parser) advance() error {
	start := p.pos
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		if c == ' ' || c == '\t' || c == '\r' || c == '\\' && strings.HasPrefix(p.src[p.pos:], "\\\n") {
			if c == '\\' {
				p.pos++
			}
			p.pos++
			continue
		}
		if c == '#' {
			if i := strings.IndexByte(p.src[p.pos:], '\n'); i >= 0 {
				p.pos += i
			} else {
				p.pos = len(p.src)
			}
			continue
		}
		if c == '\n' && p.leadingDot() {
			p.pos++
			continue
		}
		break
	}
	t, err := p.lex()
	if err != nil {
		return err
	}
	t.space = t.off > start || start == 0
	p.tok = t
	return nil
}

// leadingDot says whether the next line goes on with a method call.
func (p *parser) leadingDot() bool {
	s := strings.TrimLeft(p.src[p.pos:], " \t\r\n")
	return strings.HasPrefix(s, "&.") || strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "..")
}

// operand says whether the token before leaves an operand expected: there / begins a
// regular expression, ':' a symbol and '-' a sign.
func (p *parser) operand() bool {
	switch p.tok.kind {
	case tInt, tFloat, tString, tSymbol, tConst:
		return false
	case tIdent:
		switch p.tok.text {
		case "if", "unless", "and", "or", "not", "rescue":
			return true
		}
		return false
	case tOp:
		return p.tok.text != ")" && p.tok.text != "]" && p.tok.text != "}"
	}
	return true
}

func (p *parser) lex() (token, error) {
	t := token{off: p.pos}
	if p.pos >= len(p.src) {
		return t, nil
	}
	c := p.src[p.pos]
	switch {
	case c == '\n' || c == ';':
		p.pos++
		t.kind = tEnd
		return t, nil
	case isDigit(c):
		return p.number(t)
	case isIdentStart(c):
		return p.ident(t), nil
	case c == '"' || c == '\'':
		p.pos++
		return p.text(t, c, c, c == '"')
	case c == '`':
		p.pos++
		t, err := p.text(t, c, c, true)
		if err != nil {
			return t, err
		}
		// The one command that public files use.
		if l, ok := t.node.(*literal); ok && strings.TrimSpace(l.value.text) == "hostname" {
			t.node = &call{off: t.off, name: "+", recv: &call{off: t.off, name: "hostname"}, args: []node{&literal{off: t.off, value: StringValue("\n")}}}
			return t, nil
		}
		return t, p.fail(t.off, "running a command is not supported")
	case p.operand():
		if t, ok, err := p.operandLiteral(t); ok || err != nil {
			return t, err
		}
	}
	for _, op := range operators {
		if strings.HasPrefix(p.src[p.pos:], op) {
			p.pos += len(op)
			t.kind, t.text = tOp, op
			return t, nil
		}
	}
	_, n := utf8.DecodeRuneInString(p.src[p.pos:])
	return t, p.fail(p.pos, "unexpected character "+inspectString(p.src[p.pos:p.pos+n]))
}

// operandLiteral reads literals whose first character could be an operator elsewhere.
func (p *parser) operandLiteral(t token) (token, bool, error) {
	rest := p.src[p.pos:]
	switch {
	case rest[0] == ':' && len(rest) > 1 && rest[1] == '"':
		p.pos += 2
		t, err := p.text(t, '"', '"', true)
		if l, ok := t.node.(*literal); ok && err == nil {
			l.value = SymbolValue(l.value.text)
			return t, true, nil
		}
		if err == nil {
			err = p.fail(t.off, "a symbol with #{} is not supported")
		}
		return t, false, err
	case rest[0] == ':' && len(rest) > 1 && isIdentStart(rest[1]):
		p.pos++
		t = p.ident(t)
		t.kind = tSymbol
		return t, true, nil
	case rest[0] == '/':
		return t, false, p.fail(p.pos, "a regular expression is not supported")
	case rest[0] == '%' && len(rest) > 2 && (rest[1] == 'q' || rest[1] == 'Q') && !isIdent(rest[2]) && rest[2] != ' ':
		p.pos += 3
		t, err := p.text(t, rest[2], closing(rest[2]), rest[1] == 'Q')
		return t, err == nil, err
	case rest[0] == '%' && len(rest) > 1 && (rest[1] == '(' || rest[1] == '{' || rest[1] == '[' || rest[1] == '<' || rest[1] == '|'):
		p.pos += 2
		t, err := p.text(t, rest[1], closing(rest[1]), true)
		return t, err == nil, err
	case rest[0] == '%':
		return t, false, p.fail(p.pos, "this % literal is not supported")
	case strings.HasPrefix(rest, "<<"):
		return t, false, p.fail(p.pos, "a here-document is not supported")
	case rest[0] == '?' && len(rest) > 1 && isIdent(rest[1]) && (len(rest) == 2 || !isIdent(rest[2])):
		p.pos += 2
		t.kind, t.node = tString, &literal{off: t.off, value: StringValue(rest[1:2])}
		return t, true, nil
	}
	return t, false, nil
}

func closing(open byte) byte {
	switch open {
	case '(':
		return ')'
	case '[':
		return ']'
	case '{':
		return '}'
	case '<':
		return '>'
	}
	return open
}

// ident reads a name.
func (p *parser) ident(t token) token {
	start := p.pos
	for p.pos < len(p.src) && isIdent(p.src[p.pos]) {
		p.pos++
	}
	// nil? and sub! are names; in x ?a:b and x!=y the sign is none of the name.
	if p.pos < len(p.src) && (p.src[p.pos] == '?' || p.src[p.pos] == '!') && !strings.HasPrefix(p.src[p.pos+1:], "=") && (p.pos+1 >= len(p.src) || p.src[p.pos] == '!' || !isIdent(p.src[p.pos+1])) {
		p.pos++
	}
	t.text = p.src[start:p.pos]
	t.kind = tIdent
	if c := t.text[0]; c >= 'A' && c <= 'Z' {
		t.kind = tConst
	}
	return t
}

func (p *parser) number(t token) (token, error) {
	start := p.pos
	t.kind = tInt
	digits := func() {
		for p.pos < len(p.src) && (isDigit(p.src[p.pos]) || p.src[p.pos] == '_') {
			p.pos++
		}
	}
	if p.src[p.pos] == '0' && p.pos+1 < len(p.src) && isIdent(p.src[p.pos+1]) {
		// 0x1f, 0b11, 017: Go's own syntax is the same.
		for p.pos < len(p.src) && isIdent(p.src[p.pos]) {
			p.pos++
		}
		t.text = p.src[start:p.pos]
		return t, nil
	}
	digits()
	if p.pos+1 < len(p.src) && p.src[p.pos] == '.' && isDigit(p.src[p.pos+1]) {
		t.kind = tFloat
		p.pos++
		digits()
	}
	if p.pos < len(p.src) && (p.src[p.pos] == 'e' || p.src[p.pos] == 'E') {
		i := p.pos + 1
		if i < len(p.src) && (p.src[i] == '+' || p.src[i] == '-') {
			i++
		}
		if i < len(p.src) && isDigit(p.src[i]) {
			t.kind = tFloat
			p.pos = i
			digits()
		}
	}
	if p.pos < len(p.src) && isIdent(p.src[p.pos]) {
		return t, p.fail(start, "this number is not supported")
	}
	t.text = strings.ReplaceAll(p.src[start:p.pos], "_", "")
	return t, nil
}
