package expr

import (
	"strconv"
	"strings"
)

// postfix reads a primary and the calls and indexes behind it.
func (p *parser) postfix() (node, error) {
	n, err := p.primary()
	for err == nil {
		off := p.tok.off
		switch {
		case p.isOp(".") || p.isOp("&."):
			n, err = p.method(n)
		case p.isOp("::"):
			return nil, p.fail(off, "a nested constant is not supported")
		case p.isOp("[") && !p.tok.space:
			c := &call{off: off, recv: n, name: "[]"}
			if err = p.advanceOperand(); err != nil {
				return nil, err
			}
			c.args, err = p.arguments("]")
			n = c
		default:
			return n, nil
		}
	}
	return n, err
}

// method reads .name(args) { block }.
func (p *parser) method(recv node) (node, error) {
	c := &call{recv: recv, safe: p.tok.text == "&."}
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	if p.tok.kind != tIdent && p.tok.kind != tConst {
		return nil, p.unexpected("expected the name of a method")
	}
	c.off, c.name = p.tok.off, p.tok.text
	if k, ok := recv.(*constant); ok {
		if !constantMethod(k.name, c.name) {
			return nil, p.fail(k.off, k.name+"."+c.name+" is not supported")
		}
	} else if !knownMethod(c.name) {
		return nil, p.fail(c.off, "the method "+c.name+" is not supported")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return c, p.callTail(c)
}

// callTail reads the arguments and the block of a call.
func (p *parser) callTail(c *call) (err error) {
	switch {
	case p.isOp("(") && !p.tok.space:
		if err := p.advanceOperand(); err != nil {
			return err
		}
		if c.args, err = p.arguments(")"); err != nil {
			return err
		}
	case p.tok.space && p.beginsArgument():
		return p.fail(p.tok.off, "a call without parentheses is not supported; write "+c.name+"(…)")
	}
	if p.isOp("{") {
		c.block, err = p.block()
	} else if p.isWord("do") {
		return p.fail(p.tok.off, "do … end is not supported; write { … }")
	}
	return err
}

// beginsArgument says whether the current token can only be an argument.
func (p *parser) beginsArgument() bool {
	switch p.tok.kind {
	case tInt, tFloat, tString, tSymbol, tConst:
		return true
	case tIdent:
		switch p.tok.text {
		case "if", "unless", "and", "or", "rescue", "do", "then", "end", "else":
			return false
		}
		return true
	}
	return false
}

// arguments reads expressions up to a closing bracket and goes behind it.
func (p *parser) arguments(end string) ([]node, error) {
	var out []node
	for {
		if err := p.skipEnds(); err != nil {
			return nil, err
		}
		if p.isOp(end) {
			return out, p.advance()
		}
		if p.isOp("*") || p.isOp("&") || p.isOp("**") {
			return nil, p.fail(p.tok.off, "this form of argument is not supported")
		}
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, n)
		if err := p.skipEnds(); err != nil {
			return nil, err
		}
		if p.isOp(",") {
			if err := p.advance(); err != nil {
				return nil, err
			}
		} else if !p.isOp(end) {
			return nil, p.unexpected("expected , or " + end)
		}
	}
}

// block reads { |a, b| … }.
func (p *parser) block() (*block, error) {
	if err := p.enter(p.tok.off); err != nil {
		return nil, err
	}
	defer p.leave()
	b := &block{}
	visible := len(p.scope.names)
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.isOp("|") {
		for {
			if err := p.advance(); err != nil {
				return nil, err
			}
			if p.tok.kind != tIdent {
				return nil, p.unexpected("expected the name of a block parameter")
			}
			b.params = append(b.params, p.scope.add(p.tok.text))
			if err := p.advance(); err != nil {
				return nil, err
			}
			if p.isOp(",") {
				continue
			}
			if err := p.expect("|"); err != nil {
				return nil, err
			}
			break
		}
	} else if p.isOp("||") {
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	var err error
	if b.body, err = p.statements(); err != nil {
		return nil, err
	}
	p.scope.names = p.scope.names[:visible]
	return b, p.expect("}")
}

func (p *parser) primary() (node, error) {
	t := p.tok
	switch t.kind {
	case tInt, tFloat:
		return p.numberNode()
	case tString:
		n := t.node
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.tok.kind == tString {
			return nil, p.fail(p.tok.off, "joining strings by writing them side by side is not supported; write +")
		}
		return n, nil
	case tSymbol:
		return &literal{off: t.off, value: SymbolValue(t.text)}, p.advance()
	case tConst:
		return p.constant()
	case tIdent:
		return p.name()
	case tOp:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			if err := p.advanceOperand(); err != nil {
				return nil, err
			}
			items, err := p.arguments("]")
			return &array{off: t.off, items: items}, err
		case "{":
			return p.hash()
		case "->":
			return nil, p.fail(t.off, "a lambda is not supported")
		}
	}
	return nil, p.unexpected("expected a value")
}

func (p *parser) parenthesis() (node, error) {
	if err := p.enter(p.tok.off); err != nil {
		return nil, err
	}
	defer p.leave()
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.statements()
	if err != nil {
		return nil, err
	}
	return n, p.expect(")")
}

func (p *parser) constant() (node, error) {
	t := p.tok
	if !knownConstant(t.text) {
		// Show the call too: Time.now says more than Time.
		shown := t.text
		for i := p.pos; i < len(p.src); i++ {
			if c := p.src[i]; c != '.' && c != ':' && !isIdent(c) {
				break
			}
			shown = p.src[t.off : i+1]
		}
		return nil, p.fail(t.off, strings.TrimRight(shown, ".:")+" is not supported")
	}
	return &constant{off: t.off, name: t.text}, p.advance()
}

// name reads a keyword, a variable or a function.
func (p *parser) name() (node, error) {
	t := p.tok
	if slot, ok := p.scope.find(t.text); ok {
		return &variable{off: t.off, slot: slot}, p.advance()
	}
	switch t.text {
	case "nil":
		return &literal{off: t.off}, p.advance()
	case "true", "false":
		return &literal{off: t.off, value: BoolValue(t.text == "true")}, p.advance()
	case "hostname", "worker_id", "use_nil", "use_default":
		if err := p.advance(); err != nil {
			return nil, err
		}
		c := &call{off: t.off, name: t.text}
		if p.isOp("(") && !p.tok.space {
			if err := p.advance(); err != nil {
				return nil, err
			}
			return c, p.expect(")")
		}
		return c, nil
	case "if", "unless":
		return nil, p.fail(t.off, t.text+" … end is not supported; write a ? b : c")
	}
	if unsupportedKeyword(t.text) {
		return nil, p.fail(t.off, t.text+" is not supported")
	}
	return nil, p.fail(t.off, "undefined local variable or method "+strconv.Quote(t.text))
}

// hash reads { key => value, name: value }.
func (p *parser) hash() (node, error) {
	h := &hash{off: p.tok.off}
	if err := p.enter(h.off); err != nil {
		return nil, err
	}
	defer p.leave()
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
	label := (t.kind == tIdent || t.kind == tConst || t.kind == tString) && strings.HasPrefix(p.src[p.pos:], ":") && !strings.HasPrefix(p.src[p.pos:], "::")
	var key node
	if l, ok := t.node.(*literal); label && t.kind != tString {
		key = &literal{off: t.off, value: SymbolValue(t.text)}
	} else if label && ok {
		key = &literal{off: t.off, value: SymbolValue(l.value.text)}
	}
	if key != nil {
		if err := p.advance(); err != nil {
			return err
		}
		if err := p.advanceOperand(); err != nil {
			return err
		}
	} else {
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
