package expr

import (
	"strconv"
	"strings"
)

// callTail reads the arguments and the block of a call.
func (p *parser) callTail(c *call) (err error) {
	switch {
	case p.isOp("(") && !p.tok.space:
		noDo, ternary := p.noDo, p.ternary
		p.noDo, p.ternary = false, 0
		if err := p.advanceOperand(); err != nil {
			return err
		}
		if c.args, c.splat, err = p.arguments(")"); err != nil {
			return err
		}
		p.noDo, p.ternary = noDo, ternary
	case p.tok.space && p.beginsArgument():
		if c.args, c.splat, err = p.openArguments(); err != nil {
			return err
		}
	}
	if err := p.takePass(c); err != nil {
		return err
	}
	if p.isOp("{") {
		c.block, err = p.block("}")
	} else if p.isWord("do") && !p.noDo {
		c.block, err = p.block("end")
	}
	if err == nil && c.block != nil && c.pass != nil {
		err = p.fail(c.off, "two blocks for one call")
	}
	return err
}

// takePass moves &value from the arguments to where a block belongs.
func (p *parser) takePass(c *call) error {
	if len(c.args) == 0 {
		return nil
	}
	pass, ok := c.args[len(c.args)-1].(*passed)
	if !ok {
		return nil
	}
	c.args = c.args[:len(c.args)-1]
	if l, ok := pass.value.(*literal); ok && l.value.kind == Symbol {
		b, err := p.symbolBlock(pass.off, l.value.text())
		c.block = b
		return err
	}
	c.pass = pass.value
	return nil
}

// passed is &value among arguments; it never reaches the evaluation.
type passed struct {
	off   int
	value node
}

func (n *passed) at() int { return n.off }

// beginsArgument says whether the current token can only be an argument.
func (p *parser) beginsArgument() bool {
	switch p.tok.kind {
	case tInt, tFloat, tString, tSymbol, tConst, tGlobal:
		return true
	case tIdent:
		switch p.tok.text {
		case "nil", "true", "false", "self", "not":
			return true
		}
		return !keyword(p.tok.text)
	case tOp:
		next := byte(' ')
		if p.pos < len(p.src) {
			next = p.src[p.pos]
		}
		return p.tok.text == "->" || p.tok.text == "[" && next != ' ' && p.ternary == 0 || p.tok.text == "!" && next != '='
	}
	return false
}

// openArguments reads arguments that stand without parentheses.
func (p *parser) openArguments() (out []node, splatted bool, err error) {
	pairs := &hash{off: p.tok.off}
	for {
		n, err := p.pairOrArgument(pairs)
		if err != nil {
			return nil, false, err
		}
		if n != nil {
			out = append(out, n)
			_, is := n.(*splat)
			splatted = splatted || is
		}
		if !p.isOp(",") {
			break
		}
		if err := p.advanceOperand(); err != nil {
			return nil, false, err
		}
	}
	if pairs.values != nil {
		out = append(out, pairs)
	}
	return out, splatted, nil
}

// arguments reads expressions up to a closing bracket and goes behind it. Pairs without
// braces become one hash at the end.
func (p *parser) arguments(end string) (out []node, splatted bool, err error) {
	pairs := &hash{off: p.tok.off}
	for {
		if err := p.skipEnds(); err != nil {
			return nil, false, err
		}
		if p.isOp(end) {
			break
		}
		n, err := p.pairOrArgument(pairs)
		if err != nil {
			return nil, false, err
		}
		if n != nil {
			if pass, ok := n.(*passed); ok && pairs.values != nil {
				out = append(out, pairs)
				pairs = &hash{off: pass.off}
			}
			out = append(out, n)
			_, is := n.(*splat)
			splatted = splatted || is
		}
		if err := p.skipEnds(); err != nil {
			return nil, false, err
		}
		if p.isOp(",") {
			if err := p.advance(); err != nil {
				return nil, false, err
			}
		} else if !p.isOp(end) {
			return nil, false, p.unexpected("expected , or " + end)
		}
	}
	if pairs.values != nil {
		out = append(out, pairs)
	}
	return out, splatted, p.advance()
}

// pairOrArgument reads one argument; a pair goes into pairs, and the node is nil.
func (p *parser) pairOrArgument(pairs *hash) (node, error) {
	if p.labelAhead() || p.isOp("**") {
		return nil, p.pair(pairs)
	}
	n, err := p.argument()
	if err != nil || !p.isOp("=>") {
		return n, err
	}
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	value, err := p.expression()
	pairs.keys, pairs.values = append(pairs.keys, n), append(pairs.values, value)
	return nil, err
}

// argument reads an expression, *list or &block.
func (p *parser) argument() (node, error) {
	off, op := p.tok.off, p.tok.text
	if !p.isOp("*") && !p.isOp("&") {
		if p.isWord("not") {
			return p.wordNot()
		}
		return p.expression()
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	value, err := p.expression()
	if op == "*" {
		return &splat{off: off, value: value}, err
	}
	return &passed{off: off, value: value}, err
}

// labelAhead says whether the current token is the key of a pair name: value.
func (p *parser) labelAhead() bool {
	rest := p.src[p.pos:]
	if !strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "::") {
		return false
	}
	switch p.tok.kind {
	case tIdent, tConst:
		return p.ternary == 0 || len(rest) > 1 && rest[1] == ' '
	case tString:
		_, ok := p.tok.node.(*stringLiteral)
		return ok && p.src[p.pos-1] != ' ' && p.ternary == 0
	}
	return false
}

// hash reads { key => value, name: value }.
func (p *parser) hash() (node, error) {
	h := &hash{off: p.tok.off}
	if err := p.enter(h.off); err != nil {
		return nil, err
	}
	defer p.leave()
	noDo, ternary := p.noDo, p.ternary
	p.noDo, p.ternary = false, 0
	defer func() { p.noDo, p.ternary = noDo, ternary }()
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	for !p.isOp("}") {
		if err := p.pair(h); err != nil {
			return nil, err
		}
		if err := p.skipEnds(); err != nil {
			return nil, err
		}
		if p.isOp(",") {
			if err := p.advanceOperand(); err != nil {
				return nil, err
			}
		} else if !p.isOp("}") {
			return nil, p.unexpected("expected , or }")
		}
	}
	return h, p.advance()
}

func (p *parser) pair(h *hash) error {
	t := p.tok
	var key node
	switch {
	case p.isOp("**"):
		if err := p.advance(); err != nil {
			return err
		}
		value, err := p.expression()
		h.keys, h.values = append(h.keys, nil), append(h.values, value)
		return err
	case p.labelAhead():
		name := t.text
		if l, ok := t.node.(*stringLiteral); ok {
			name = l.text
		}
		key = symbolLiteral(t.off, name)
		p.pos++ // the colon
		p.tok = token{kind: tOp, text: ":"}
		if err := p.advanceOperand(); err != nil {
			return err
		}
	default:
		var err error
		if key, err = p.expression(); err != nil {
			return err
		}
		if !p.isOp("=>") {
			return p.unexpected("expected =>")
		}
		if err := p.advanceOperand(); err != nil {
			return err
		}
	}
	value, err := p.expression()
	h.keys, h.values = append(h.keys, key), append(h.values, value)
	return err
}

// block reads { |a, b| … } or do |a, b| … end.
func (p *parser) block(end string) (*block, error) {
	if err := p.enter(p.tok.off); err != nil {
		return nil, err
	}
	defer p.leave()
	b := &block{off: p.tok.off, lo: p.scope.max}
	names, slots := p.scope.names, p.scope.slots
	defer func() { p.scope.names, p.scope.slots = names, slots }()
	noDo, ternary := p.noDo, p.ternary
	p.noDo, p.ternary = false, 0
	defer func() { p.noDo, p.ternary = noDo, ternary }()
	p.tok = token{kind: tEnd, off: p.tok.off}
	if err := p.advance(); err != nil {
		return nil, err
	}
	implicit := false
	if p.isOp("|") {
		var err error
		if b.params, err = p.params("|"); err != nil {
			return nil, err
		}
	} else if p.isOp("||") {
		if err := p.advance(); err != nil {
			return nil, err
		}
	} else if n := numbered(p.src[p.tok.off:]); n > 0 {
		implicit = true
		for i := 1; i <= n; i++ {
			b.params = append(b.params, param{slot: p.scope.add("_" + strconv.Itoa(i))})
		}
	}
	outer := p.numbered
	p.numbered = 0
	err := p.blockBody(b, end)
	if implicit {
		b.params = b.params[:min(p.numbered, len(b.params))]
	}
	p.numbered = outer
	return b, err
}

// numbered is the highest of the parameters _1 and _2 that the text uses, 0 if none. A text
// that only looks like it is found out when the block has been read.
func numbered(s string) int {
	switch {
	case strings.Contains(s, "_2"):
		return 2
	case strings.Contains(s, "_1"):
		return 1
	}
	return 0
}

// blockBody reads the statements of a block and its end.
func (p *parser) blockBody(b *block, end string) error {
	var err error
	if end == "end" {
		b.body, err = p.attempt(b.off)
	} else {
		b.body, err = p.statements()
	}
	if err != nil {
		return err
	}
	b.hi = p.scope.max
	if end == "end" {
		return p.word("end")
	}
	return p.expect("}")
}

// params reads the parameters of a block up to end and goes behind it. The current token is
// the opening sign.
func (p *parser) params(end string) (out []param, err error) {
	for {
		if err := p.advance(); err != nil {
			return nil, err
		}
		var one param
		if p.isOp(end) {
			break
		}
		switch {
		case p.isOp("("):
			if one.sub, err = p.params(")"); err != nil {
				return nil, err
			}
		case p.isOp("*"):
			one.rest = true
			if err := p.advance(); err != nil {
				return nil, err
			}
			if p.tok.kind != tIdent {
				one.slot = p.scope.add("*")
				break
			}
			fallthrough
		default:
			if p.tok.kind != tIdent || keyword(p.tok.text) {
				return nil, p.unexpected("expected the name of a block parameter")
			}
			one.slot = p.scope.add(p.tok.text)
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		if p.isOp("=") {
			if err := p.advance(); err != nil {
				return nil, err
			}
			if one.deflt, err = p.unary(); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
		if p.tok.kind == tEnd && p.src[p.tok.off] == ';' { // |a; local|
			return out, p.blockLocals(end)
		}
		if !p.isOp(",") {
			break
		}
	}
	return out, p.expectBar(end)
}

// expectBar is expect for the sign behind which a block begins: a / there is no division.
func (p *parser) expectBar(end string) error {
	if !p.isOp(end) {
		return p.unexpected("expected " + end)
	}
	if end == "|" {
		p.tok = token{kind: tEnd}
	}
	return p.advance()
}

func (p *parser) blockLocals(end string) error {
	for {
		if err := p.advance(); err != nil {
			return err
		}
		if p.tok.kind != tIdent {
			return p.unexpected("expected the name of a variable")
		}
		p.scope.add(p.tok.text)
		if err := p.advance(); err != nil {
			return err
		}
		if !p.isOp(",") {
			return p.expectBar(end)
		}
	}
}

// arrow reads ->(a) { … }.
func (p *parser) arrow() (node, error) {
	off := p.tok.off
	if err := p.enter(off); err != nil {
		return nil, err
	}
	defer p.leave()
	names, slots := p.scope.names, p.scope.slots
	defer func() { p.scope.names, p.scope.slots = names, slots }()
	b := &block{off: off, lo: p.scope.max, lambda: true}
	if err := p.advance(); err != nil {
		return nil, err
	}
	var err error
	if p.isOp("(") {
		if b.params, err = p.params(")"); err != nil {
			return nil, err
		}
	} else if p.tok.kind == tIdent && !keyword(p.tok.text) {
		b.params = append(b.params, param{slot: p.scope.add(p.tok.text)})
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	end := "}"
	if p.isWord("do") {
		end = "end"
	} else if !p.isOp("{") {
		return nil, p.unexpected("expected { or do")
	}
	p.tok = token{kind: tEnd}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return &lambda{off: off, block: b}, p.blockBody(b, end)
}
