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
	tString           // node: also regular expressions and lists of words
	tSymbol           // text
	tIdent            // text, possibly with ? or !
	tConst            // text
	tGlobal           // text, with its $
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

// keyword says whether a name is reserved; the parser says which of them it knows.
func keyword(s string) bool {
	switch s {
	case "begin", "case", "class", "def", "do", "else", "elsif", "end", "ensure", "for", "in", "module", "next", "redo", "retry", "return", "self",
		"super", "then", "undef", "until", "when", "while", "yield", "alias", "defined?", "BEGIN", "END", "break", "if", "unless", "and", "or", "not", "rescue",
		"nil", "true", "false", "__FILE__", "__LINE__", "__method__":
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
	case tInt, tFloat, tString, tSymbol, tConst, tGlobal:
		return false
	case tIdent:
		return p.operandAfter(p.tok.text)
	case tOp:
		return p.tok.text != ")" && p.tok.text != "]" && p.tok.text != "}"
	}
	return true
}

// operandAfter is operand behind a name. Behind the name of a method that is called without
// parentheses an argument may stand: blank before, none after.
func (p *parser) operandAfter(name string) bool {
	switch name {
	case "nil", "true", "false", "self", "end":
		return p.afterDot
	}
	if !p.afterDot && keyword(name) {
		return true
	}
	if _, ok := p.scope.find(name); ok && !p.afterDot || p.ternary > 0 {
		return false
	}
	if p.pos == 0 || p.pos+1 >= len(p.src) || p.src[p.pos-1] != ' ' {
		return false
	}
	switch next := p.src[p.pos+1]; p.src[p.pos] {
	case '/':
		return next != ' ' && next != '=' && strings.IndexByte(p.src[p.pos+1:], '/') >= 0
	case ':':
		return isIdentStart(next) || next == '"'
	case '%':
		return strings.IndexByte("wiqQr", next) >= 0 && p.pos+2 < len(p.src) && !isIdent(p.src[p.pos+2]) && p.src[p.pos+2] != ' '
	}
	return false
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
		return p.quoted(t, c, c, c == '"')
	case c == '`':
		return p.command(t)
	case c == '$':
		return p.global(t)
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
	return t, p.fail(p.pos, "unexpected character "+inspectString(&text{s: p.src[p.pos : p.pos+n]}))
}

// command reads back-ticks. Only the name of the host can be asked for in this way, which
// files do.
func (p *parser) command(t token) (token, error) {
	p.pos++
	t, err := p.quoted(t, '`', '`', true)
	if err != nil {
		return t, err
	}
	if l, ok := t.node.(*stringLiteral); ok && strings.TrimSpace(l.text) == "hostname" {
		t.node = &interpolation{off: t.off, parts: []node{&function{off: t.off, name: "hostname", fn: kernel["hostname"]}, &stringLiteral{off: t.off, text: "\n"}}}
		return t, nil
	}
	return t, p.fail(t.off, "running a command is not supported")
}

// global reads $~, $1 and their like.
func (p *parser) global(t token) (token, error) {
	rest := p.src[p.pos+1:]
	n := 0
	for n < len(rest) && isDigit(rest[n]) {
		n++
	}
	if n == 0 && rest != "" && strings.IndexByte("~&`'!", rest[0]) >= 0 {
		n = 1
	}
	if n == 0 || n > 3 || rest[0] == '0' {
		for n < len(rest) && isIdent(rest[n]) {
			n++
		}
		if n == 0 {
			return t, p.fail(p.pos, `unexpected character "$"`)
		}
		return t, p.fail(p.pos, "the global variable $"+rest[:n]+" is not supported")
	}
	t.kind, t.text = tGlobal, p.src[p.pos:p.pos+1+n]
	p.pos += 1 + n
	return t, nil
}

// operandLiteral reads literals whose first character could be an operator elsewhere.
func (p *parser) operandLiteral(t token) (token, bool, error) {
	rest := p.src[p.pos:]
	switch {
	case rest[0] == ':' && len(rest) > 1 && (rest[1] == '"' || rest[1] == '\''):
		p.pos += 2
		t, err := p.quoted(t, rest[1], rest[1], rest[1] == '"')
		if l, ok := t.node.(*stringLiteral); ok && err == nil && valid(l.text) {
			t.node = symbolLiteral(t.off, l.text)
			return t, true, nil
		}
		if err == nil {
			err = p.fail(t.off, "a symbol with #{}, or one that is not UTF-8, is not supported")
		}
		return t, false, err
	case rest[0] == ':' && len(rest) > 1 && isIdentStart(rest[1]):
		p.pos++
		t = p.ident(t)
		t.kind = tSymbol
		return t, true, nil
	case rest[0] == ':' && !strings.HasPrefix(rest, "::"):
		for _, op := range [...]string{"[]", "<=>", "===", "==", "=~", "**", "<<", ">>", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "!", "&", "|", "^"} {
			if strings.HasPrefix(rest[1:], op) {
				p.pos += 1 + len(op)
				t.kind, t.text = tSymbol, op
				return t, true, nil
			}
		}
	case rest[0] == '/':
		p.pos++
		t, err := p.regexp(t, '/', '/')
		return t, err == nil, err
	case rest[0] == '%':
		return p.percent(t, rest)
	case strings.HasPrefix(rest, "<<"):
		return t, false, p.fail(p.pos, "a here-document is not supported")
	case rest[0] == '?' && len(rest) > 1 && rest[1] > ' ' && rest[1] < utf8.RuneSelf && rest[1] != '\\' && (len(rest) == 2 || !isIdent(rest[2])):
		p.pos += 2
		t.kind, t.node = tString, &stringLiteral{off: t.off, text: rest[1:2]}
		return t, true, nil
	}
	return t, false, nil
}

// percent reads the literals that begin with %.
func (p *parser) percent(t token, rest string) (token, bool, error) {
	kind, n := byte('Q'), 1
	if len(rest) > 2 && strings.IndexByte("qQwWiIr", rest[1]) >= 0 {
		kind, n = rest[1], 2
	}
	if len(rest) <= n || isIdent(rest[n]) || rest[n] == ' ' || rest[n] == '\n' {
		return t, false, p.fail(p.pos, "this % literal is not supported")
	}
	open, end := rest[n], closing(rest[n])
	p.pos += n + 1
	var err error
	switch kind {
	case 'q', 'Q':
		t, err = p.quoted(t, open, end, kind == 'Q')
	case 'r':
		t, err = p.regexp(t, open, end)
	default:
		t, err = p.words(t, open, end, kind)
	}
	return t, err == nil, err
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
