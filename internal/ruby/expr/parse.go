package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// node is a part of an expression's tree.
type node interface{ at() int }

type (
	literal struct {
		off   int
		value Value
	}
	interpolation struct {
		off   int
		parts []node
	}
	array struct {
		off   int
		items []node
	}
	hash struct {
		off          int
		keys, values []node
	}
	variable struct{ off, slot int }
	assign   struct {
		off, slot int
		value     node
	}
	constant struct {
		off  int
		name string
	}
	// call is a method call; operators are calls too. Without a receiver it is a function.
	call struct {
		off   int
		recv  node
		name  string
		args  []node
		block *block
		safe  bool // &.
	}
	block struct {
		params []int // slots
		body   node
	}
	logic struct { // || and &&
		off         int
		left, right node
		or          bool
	}
	not struct {
		off int
		arg node
	}
	cond struct {
		off       int
		test      node
		then, els node // els may be nil
	}
	rescue struct {
		off         int
		body, other node
	}
	sequence struct {
		off   int
		steps []node
	}
)

func (n *literal) at() int       { return n.off }
func (n *interpolation) at() int { return n.off }
func (n *array) at() int         { return n.off }
func (n *hash) at() int          { return n.off }
func (n *variable) at() int      { return n.off }
func (n *assign) at() int        { return n.off }
func (n *constant) at() int      { return n.off }
func (n *call) at() int          { return n.off }
func (n *logic) at() int         { return n.off }
func (n *not) at() int           { return n.off }
func (n *cond) at() int          { return n.off }
func (n *rescue) at() int        { return n.off }
func (n *sequence) at() int      { return n.off }

// scope resolves the names of local variables to slots.
type scope struct {
	names []string // visible variables; the index is the slot
	max   int
}

func (s *scope) find(name string) (int, bool) {
	for i := len(s.names) - 1; i >= 0; i-- {
		if s.names[i] == name {
			return i, true
		}
	}
	return 0, false
}

func (s *scope) add(name string) int {
	s.names = append(s.names, name)
	s.max = max(s.max, len(s.names))
	return len(s.names) - 1
}

// parser is a recursive-descent parser with one token of look-ahead. It reads tokens as it
// goes, because what a character means depends on what stands before it.
type parser struct {
	src   string
	pos   int
	tok   token
	depth int
	scope *scope
}

func newParser(src string) *parser { return &parser{src: src, scope: &scope{}, tok: token{kind: tEnd}} }

func (p *parser) isOp(s string) bool { return p.tok.kind == tOp && p.tok.text == s }

func (p *parser) isWord(s string) bool { return p.tok.kind == tIdent && p.tok.text == s }

// accept passes over an operator if it comes next.
func (p *parser) accept(s string) (bool, error) {
	if !p.isOp(s) {
		return false, nil
	}
	return true, p.advance()
}

// expect demands an operator.
func (p *parser) expect(s string) error {
	ok, err := p.accept(s)
	if err == nil && !ok {
		return p.unexpected("expected " + s)
	}
	return err
}

func (p *parser) unexpected(want string) error {
	what := p.tok.text
	switch p.tok.kind {
	case tEOF:
		what = "the end"
	case tEnd:
		what = "the end of the line"
	case tString:
		what = "a string"
	default:
		what = strconv.Quote(what)
	}
	return p.fail(p.tok.off, want+" but found "+what)
}

// skipEnds passes over newlines and semicolons.
func (p *parser) skipEnds() error {
	for p.tok.kind == tEnd {
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

// program reads the whole text (until tEOF) or up to a closing brace (tOp), which is left
// as the current token.
func (p *parser) program(until tokenKind) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.statements()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != until || until == tOp && !p.isOp("}") {
		return nil, p.unexpected("expected the end of the expression")
	}
	return n, nil
}

// statements reads statements up to something that ends them: a bracket or the end.
func (p *parser) statements() (node, error) {
	seq := &sequence{off: p.tok.off}
	for {
		if err := p.skipEnds(); err != nil {
			return nil, err
		}
		if p.tok.kind == tEOF || p.isOp(")") || p.isOp("}") {
			break
		}
		n, err := p.statement()
		if err != nil {
			return nil, err
		}
		seq.steps = append(seq.steps, n)
		if p.tok.kind != tEnd {
			break
		}
	}
	switch len(seq.steps) {
	case 0:
		return &literal{off: seq.off}, nil
	case 1:
		return seq.steps[0], nil
	}
	return seq, nil
}

// statement is an expression with modifiers.
func (p *parser) statement() (node, error) {
	n, err := p.wordLogic()
	for err == nil && p.tok.kind == tIdent {
		off := p.tok.off
		word := p.tok.text
		if word != "if" && word != "unless" && word != "rescue" {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		var arg node
		if arg, err = p.wordLogic(); err != nil {
			return nil, err
		}
		switch word {
		case "if":
			n = &cond{off: off, test: arg, then: n}
		case "unless":
			n = &cond{off: off, test: &not{off: off, arg: arg}, then: n}
		default:
			n = &rescue{off: off, body: n, other: arg}
		}
	}
	return n, err
}

// wordLogic reads and, or and not, which bind weakest.
func (p *parser) wordLogic() (node, error) {
	left, err := p.wordNot()
	for err == nil && (p.isWord("and") || p.isWord("or")) {
		n := &logic{off: p.tok.off, left: left, or: p.tok.text == "or"}
		if err = p.advanceOperand(); err == nil {
			n.right, err = p.wordNot()
		}
		left = n
	}
	return left, err
}

func (p *parser) wordNot() (node, error) {
	if !p.isWord("not") {
		return p.expression()
	}
	off := p.tok.off
	if err := p.enter(off); err != nil {
		return nil, err
	}
	defer p.leave()
	if err := p.advance(); err != nil {
		return nil, err
	}
	arg, err := p.wordNot()
	return &not{off: off, arg: arg}, err
}

// advanceOperand passes over an operator and the newlines behind it.
func (p *parser) advanceOperand() error {
	if err := p.advance(); err != nil {
		return err
	}
	return p.skipEnds()
}

func (p *parser) enter(off int) error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(off, "nested too deeply")
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// expression reads an assignment or a ternary.
func (p *parser) expression() (node, error) {
	off := p.tok.off
	if err := p.enter(off); err != nil {
		return nil, err
	}
	defer p.leave()
	if p.tok.kind == tIdent && p.assignAhead() {
		name := p.tok.text
		if err := p.advance(); err != nil { // the name
			return nil, err
		}
		if err := p.advanceOperand(); err != nil { // the sign
			return nil, err
		}
		slot, ok := p.scope.find(name)
		if !ok {
			slot = p.scope.add(name)
		}
		value, err := p.expression()
		return &assign{off: off, slot: slot, value: value}, err
	}
	test, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	if p.tok.kind == tOp {
		switch p.tok.text {
		case "=", "||=", "&&=", "+=", "-=", "*=", "/=", "<<=", "|=", "&=", "^=", "%=", "**=", ">>=":
			return nil, p.fail(p.tok.off, "this assignment is not supported")
		case "..", "...":
			return nil, p.fail(p.tok.off, "a range is not supported here")
		}
	}
	if !p.isOp("?") {
		return test, nil
	}
	c := &cond{off: p.tok.off, test: test}
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	if c.then, err = p.expression(); err != nil {
		return nil, err
	}
	if err := p.skipEnds(); err != nil {
		return nil, err
	}
	if !p.isOp(":") {
		return nil, p.unexpected("expected the : of a ? b : c")
	}
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	c.els, err = p.expression()
	return c, err
}

// assignAhead says whether the current name is followed by a plain '='.
func (p *parser) assignAhead() bool {
	i := p.pos
	for i < len(p.src) && (p.src[i] == ' ' || p.src[i] == '\t') {
		i++
	}
	if i >= len(p.src) || p.src[i] != '=' {
		return false
	}
	return i+1 >= len(p.src) || p.src[i+1] != '=' && p.src[i+1] != '~' && p.src[i+1] != '>'
}

// levels of binary operators, weakest first.
var levels = [...][]string{
	{"||"}, {"&&"}, {"<=>", "==", "===", "!=", "=~", "!~"}, {"<", "<=", ">", ">="}, {"|", "^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"},
}

func (p *parser) binary(level int) (node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil && p.tok.kind == tOp {
		op, off, found := p.tok.text, p.tok.off, false
		for _, o := range levels[level] {
			found = found || o == op
		}
		if !found {
			return left, nil
		}
		if !supportedOperator(op) {
			return nil, p.fail(off, "the operator "+op+" is not supported")
		}
		if err := p.advanceOperand(); err != nil {
			return nil, err
		}
		var right node
		if right, err = p.binary(level + 1); err != nil {
			return nil, err
		}
		switch op {
		case "||", "&&":
			left = &logic{off: off, left: left, right: right, or: op == "||"}
		case "!=":
			left = &not{off: off, arg: &call{off: off, recv: left, name: "==", args: []node{right}}}
		default:
			left = &call{off: off, recv: left, name: op, args: []node{right}}
		}
	}
	return left, err
}

func supportedOperator(op string) bool {
	switch op {
	case "||", "&&", "==", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%":
		return true
	}
	return false
}

func (p *parser) unary() (node, error) {
	off := p.tok.off
	if p.tok.kind != tOp {
		return p.power()
	}
	op := p.tok.text
	if op != "!" && op != "-" && op != "+" {
		return p.power()
	}
	if err := p.enter(off); err != nil {
		return nil, err
	}
	defer p.leave()
	// A sign that touches a number belongs to it: -3.2.floor is (-3.2).floor.
	number := op == "-" && p.pos < len(p.src) && isDigit(p.src[p.pos])
	if err := p.advance(); err != nil {
		return nil, err
	}
	if number {
		p.tok.text, p.tok.off = "-"+p.tok.text, off
		return p.power()
	}
	arg, err := p.unary()
	if err != nil || op == "+" {
		return arg, err
	}
	if op == "!" {
		return &not{off: off, arg: arg}, nil
	}
	return &call{off: off, recv: &literal{off: off, value: IntValue(0)}, name: "-", args: []node{arg}}, nil
}

func (p *parser) power() (node, error) {
	left, err := p.postfix()
	if err != nil || !p.isOp("**") {
		return left, err
	}
	return nil, p.fail(p.tok.off, "the operator ** is not supported")
}

// number makes the literal of a number token.
func (p *parser) numberNode() (node, error) {
	t := p.tok
	n := &literal{off: t.off}
	if t.kind == tFloat {
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.off, fmt.Sprintf("the number %s is out of range", t.text))
		}
		n.value = FloatValue(f)
		return n, p.advance()
	}
	base := 10
	if digits := strings.TrimPrefix(t.text, "-"); len(digits) > 1 && digits[0] == '0' {
		base = 0
	}
	i, err := strconv.ParseInt(t.text, base, 64)
	if err != nil {
		return nil, p.fail(t.off, fmt.Sprintf("the number %s is not supported", t.text))
	}
	n.value = IntValue(i)
	return n, p.advance()
}
