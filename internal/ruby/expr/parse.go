package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// scope resolves the names of local variables to slots. A slot is never used twice.
type scope struct {
	names []string
	slots []int
	max   int
}

func (s *scope) find(name string) (int, bool) {
	for i := len(s.names) - 1; i >= 0; i-- {
		if s.names[i] == name {
			return s.slots[i], true
		}
	}
	return 0, false
}

func (s *scope) add(name string) int {
	s.names = append(s.names, name)
	s.slots = append(s.slots, s.max)
	s.max++
	return s.max - 1
}

// parser is a recursive-descent parser with one token of look-ahead. It reads tokens as it
// goes, because what a character means depends on what stands before it.
type parser struct {
	src      string
	pos      int
	tok      token
	depth    int
	scope    *scope
	event    bool // the variables of an event are there
	afterDot bool // tok is the name of a method
	ternary  int  // depth of ? :, where a colon begins no symbol
	numbered int  // the highest of _1 and _2 that the block at hand uses
	noDo     bool // a do belongs to the loop whose condition is read
	inits    []initial
	dynamics int
	mutates  bool
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

// word demands a keyword.
func (p *parser) word(s string) error {
	if !p.isWord(s) {
		return p.unexpected("expected " + s)
	}
	return p.advance()
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

// ends says whether something comes that ends statements.
func (p *parser) ends() bool {
	switch p.tok.kind {
	case tEOF:
		return true
	case tOp:
		return p.tok.text == ")" || p.tok.text == "}"
	case tIdent:
		switch p.tok.text {
		case "end", "else", "elsif", "when", "rescue", "ensure":
			return true
		}
	}
	return false
}

// statements reads statements up to something that ends them.
func (p *parser) statements() (node, error) {
	seq := &sequence{off: p.tok.off}
	for {
		if err := p.skipEnds(); err != nil {
			return nil, err
		}
		if p.ends() {
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
	var n node
	var err error
	begin := p.isWord("begin")
	if names := p.multipleAhead(); names != nil {
		n, err = p.multiple(names)
	} else {
		n, err = p.wordLogic()
	}
	for err == nil && p.tok.kind == tIdent {
		off := p.tok.off
		word := p.tok.text
		switch word {
		case "if", "unless", "while", "until", "rescue":
		default:
			return n, nil
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
		case "while", "until":
			l := &loop{off: off, test: arg, not: word == "until", body: n}
			if n = l; begin { // begin … end while runs once before it asks
				n = &sequence{off: off, steps: []node{l.body, l}}
			}
		default:
			n = &attempt{off: off, body: n, rescues: []rescue{{slot: -1, body: arg}}}
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
	for p.tok.kind == tEnd && p.src[p.tok.off] != ';' {
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) enter(off int) error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(off, "nested too deeply")
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// expression reads a ternary or what binds stronger. Assignments are read where their left
// side is.
func (p *parser) expression() (node, error) {
	if err := p.enter(p.tok.off); err != nil {
		return nil, err
	}
	defer p.leave()
	test, err := p.rangeOf()
	if err != nil || !p.isOp("?") {
		return test, err
	}
	c := &cond{off: p.tok.off, test: test}
	p.ternary++
	defer func() { p.ternary-- }()
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

// rangeOf reads a..b.
func (p *parser) rangeOf() (node, error) {
	off := p.tok.off
	var from node
	var err error
	if !p.isOp("..") && !p.isOp("...") {
		if from, err = p.binary(0); err != nil || !p.isOp("..") && !p.isOp("...") {
			return from, err
		}
	}
	r := &span{off: off, from: from, exclusive: p.tok.text == "..."}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tEOF || p.tok.kind == tEnd || p.isOp(")") || p.isOp("]") || p.isOp(",") || p.isWord("then") {
		return r, nil // open at its end
	}
	r.to, err = p.binary(0)
	return r, err
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
			left = &not{off: off, arg: newCall(off, left, "==", right)}
		case "!~":
			left = &not{off: off, arg: newCall(off, left, "=~", right)}
		default:
			p.mutates = p.mutates || op == "<<"
			left = p.captures(newCall(off, left, op, right))
		}
	}
	return left, err
}

// newCall makes the call of an operator, which needs no check that the method is known.
func newCall(off int, recv node, op string, args ...node) *call {
	fns, _ := methodTable(op)
	return &call{off: off, recv: recv, name: op, args: args, fns: fns}
}

// captures assigns the named groups of a regular expression on the left side of =~ to
// variables, as Ruby does.
func (p *parser) captures(c *call) node {
	l, ok := c.recv.(*literal)
	if c.name != "=~" || !ok || l.value.kind != RegexpKind {
		return c
	}
	seq := &sequence{off: c.off}
	for _, name := range l.value.o.x.re.re.Names() {
		if name == "" {
			continue
		}
		slot, ok := p.scope.find(name)
		if !ok {
			slot = p.scope.add(name)
		}
		seq.steps = append(seq.steps, &assign{off: c.off, slot: slot, value: &globalValue{off: c.off, name: name}})
	}
	if seq.steps == nil {
		return c
	}
	result := p.scope.add("")
	seq.steps = append([]node{&assign{off: c.off, slot: result, value: c}}, seq.steps...)
	seq.steps = append(seq.steps, &variable{off: c.off, slot: result})
	return seq
}

func (p *parser) unary() (node, error) {
	off := p.tok.off
	if p.tok.kind != tOp {
		return p.power()
	}
	op := p.tok.text
	if op != "!" && op != "-" && op != "+" && op != "~" {
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
	switch {
	case err != nil:
		return arg, err
	case op == "+":
		return newCall(off, arg, "+@"), nil
	case op == "!":
		return &not{off: off, arg: arg}, nil
	case op == "~":
		return newCall(off, arg, "~"), nil
	}
	return newCall(off, arg, "-@"), nil
}

func (p *parser) power() (node, error) {
	left, err := p.postfix()
	if err != nil || !p.isOp("**") {
		return left, err
	}
	off := p.tok.off
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	if err := p.enter(off); err != nil {
		return nil, err
	}
	defer p.leave()
	right, err := p.unary()
	if err != nil {
		return nil, err
	}
	// -2 ** 2 is -(2 ** 2).
	if l, ok := left.(*literal); ok && l.value.kind == Int && l.value.int() < 0 {
		positive := &literal{off: l.off, value: intValue(-l.value.int())}
		return newCall(off, newCall(off, positive, "**", right), "-@"), nil
	}
	return newCall(off, left, "**", right), nil
}

// numberNode makes the literal of a number token.
func (p *parser) numberNode() (node, error) {
	t := p.tok
	n := &literal{off: t.off}
	if t.kind == tFloat {
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.off, fmt.Sprintf("the number %s is out of range", t.text))
		}
		n.value = floatValue(f)
		return n, p.advance()
	}
	base := 10
	if digits := strings.TrimPrefix(t.text, "-"); len(digits) > 1 && digits[0] == '0' {
		base = 0
	}
	i, err := strconv.ParseInt(t.text, base, 64)
	n.value = intValue(i)
	if err != nil {
		u, err := strconv.ParseUint(t.text, base, 64)
		if err != nil {
			return nil, p.fail(t.off, fmt.Sprintf("the number %s is not supported", t.text))
		}
		n.value = Value{kind: Uint, bits: u}
	}
	return n, p.advance()
}
