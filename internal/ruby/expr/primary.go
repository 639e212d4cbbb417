package expr

import (
	"strconv"
	"strings"
)

// postfix reads a primary and the calls and indexes behind it.
func (p *parser) postfix() (node, error) {
	n, err := p.primary()
	for err == nil {
		switch {
		case p.isOp(".") || p.isOp("&."):
			n, err = p.method(n)
		case p.isOp("::"):
			n, err = p.nestedConstant(n)
		case p.isOp("[") && (!p.tok.space || isVariable(n)):
			n, err = p.index(n)
		default:
			return n, nil
		}
	}
	return n, err
}

func isVariable(n node) bool {
	switch n.(type) {
	case *variable, *eventValue:
		return true
	}
	return false
}

// index reads [arguments], and an assignment to that element.
func (p *parser) index(recv node) (node, error) {
	off := p.tok.off
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	args, splat, err := p.arguments("]")
	if err != nil {
		return nil, err
	}
	if k, ok := recv.(*constant); ok {
		return p.classCall(k, &call{off: off, name: "[]", args: args, splat: splat})
	}
	c := newCall(off, recv, "[]", args...)
	c.splat = splat
	if p.tok.kind == tOp && assignment(p.tok.text) {
		return p.assignElement(c)
	}
	return c, nil
}

// nestedConstant reads Outer::Inner, and Outer::method.
func (p *parser) nestedConstant(recv node) (node, error) {
	k, ok := recv.(*constant)
	if !ok {
		return nil, p.fail(p.tok.off, ":: is supported only behind a constant")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tConst {
		name := k.name + "::" + p.tok.text
		if value, ok := constantValue(name); ok {
			return &literal{off: k.off, value: value}, p.advance()
		}
		if !knownConstant(name) {
			return nil, p.fail(k.off, name+" is not supported")
		}
		return &constant{off: k.off, name: name}, p.advance()
	}
	return p.methodName(k, false)
}

// method reads .name(args) { block }.
func (p *parser) method(recv node) (node, error) {
	safe := p.tok.text == "&."
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	if p.isOp("(") { // .() is .call()
		c := &call{off: p.tok.off, recv: recv, name: "call", safe: safe}
		c.fns, _ = methodTable(c.name)
		p.tok.space = false
		return c, p.callTail(c)
	}
	return p.methodName(recv, safe)
}

func (p *parser) methodName(recv node, safe bool) (node, error) {
	if p.tok.kind != tIdent && p.tok.kind != tConst {
		return nil, p.unexpected("expected the name of a method")
	}
	c := &call{off: p.tok.off, recv: recv, name: p.tok.text, safe: safe}
	k, isConst := recv.(*constant)
	if isConst && !knownClassMethod(k.name, c.name) {
		return nil, p.fail(k.off, k.name+"."+c.name+" is not supported")
	}
	if !isConst {
		var ok bool
		if c.fns, ok = methodTable(c.name); !ok {
			return nil, p.fail(c.off, "the method "+c.name+" is not supported")
		}
		p.mutates = p.mutates || mutating(c.name)
	}
	p.afterDot = true
	err := p.advance()
	p.afterDot = false
	if err != nil {
		return nil, err
	}
	if p.isOp("=") {
		return nil, p.fail(c.off, "an assignment to "+c.name+" is not supported")
	}
	if err := p.callTail(c); err != nil {
		return nil, err
	}
	if isConst {
		return p.classCall(k, c)
	}
	if c.block == nil && c.pass == nil && mustHaveBlock(c.name, len(c.args)) {
		return nil, p.fail(c.off, c.name+" without a block is not supported")
	}
	return p.special(c)
}

// special replaces calls whose argument must be known when they are compiled.
func (p *parser) special(c *call) (node, error) {
	symbol := func() (string, bool) {
		if len(c.args) == 0 {
			return "", false
		}
		switch l := c.args[len(c.args)-1].(type) {
		case *literal:
			return l.value.text(), l.value.kind == Symbol
		case *stringLiteral:
			return l.text, true
		}
		return "", false
	}
	switch c.name {
	case "respond_to?":
		name, ok := symbol()
		if !ok {
			return nil, p.fail(c.off, "respond_to? needs a literal name")
		}
		fns, _ := methodTable(name)
		return &responds{off: c.off, recv: c.recv, fns: fns}, nil
	case "inject", "reduce":
		if name, ok := symbol(); ok && c.block == nil && c.pass == nil {
			c.args = c.args[:len(c.args)-1]
			b, err := p.operatorBlock(c.off, name)
			c.block = b
			return c, err
		}
	case "send", "public_send", "__send__":
		name, ok := "", false
		if len(c.args) > 0 {
			if l, is := c.args[0].(*literal); is && l.value.kind == Symbol {
				name, ok = l.value.text(), true
			}
		}
		fns, known := methodTable(name)
		if !ok || !known {
			return nil, p.fail(c.off, c.name+" is supported only with the literal name of a known method")
		}
		c.name, c.fns, c.args = name, fns, c.args[1:]
		p.mutates = p.mutates || mutating(name)
	}
	return c, nil
}

// operatorBlock makes { |a, b| a.name(b) }.
func (p *parser) operatorBlock(off int, name string) (*block, error) {
	fns, ok := methodTable(name)
	if !ok {
		return nil, p.fail(off, "the method "+name+" is not supported")
	}
	lo := p.scope.max
	p.scope.max += 2
	p.mutates = p.mutates || mutating(name) || name == "<<"
	return &block{off: off, params: []param{{slot: lo}, {slot: lo + 1}}, lo: lo, hi: lo + 2,
		body: &call{off: off, recv: &variable{off, lo}, name: name, args: []node{&variable{off, lo + 1}}, fns: fns}}, nil
}

// symbolBlock makes { |x| x.name }, which &:name stands for.
func (p *parser) symbolBlock(off int, name string) (*block, error) {
	fns, ok := methodTable(name)
	if !ok {
		return nil, p.fail(off, "the method "+name+" is not supported")
	}
	lo := p.scope.max
	p.scope.max++
	p.mutates = p.mutates || mutating(name)
	return &block{symbol: true, off: off, params: []param{{slot: lo}}, lo: lo, hi: lo + 1, body: &call{off: off, recv: &variable{off, lo}, name: name, fns: fns}}, nil
}

func (p *parser) primary() (node, error) {
	t := p.tok
	switch t.kind {
	case tInt, tFloat:
		return p.numberNode()
	case tString:
		return p.adjacent()
	case tSymbol:
		if t.node != nil {
			return t.node, p.advance()
		}
		return symbolLiteral(t.off, t.text), p.advance()
	case tConst:
		return p.constant()
	case tGlobal:
		return &globalValue{off: t.off, name: t.text}, p.advance()
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
			items, _, err := p.arguments("]")
			return &array{off: t.off, items: items}, err
		case "{":
			return p.hash()
		case "->":
			return p.arrow()
		case "::":
			if err := p.advance(); err != nil {
				return nil, err
			}
			if p.tok.kind == tConst {
				return p.constant()
			}
		}
	}
	return nil, p.unexpected("expected a value")
}

// adjacent reads a string and those that stand side by side with it.
func (p *parser) adjacent() (node, error) {
	n := p.tok.node
	if err := p.advance(); err != nil {
		return nil, err
	}
	for p.tok.kind == tString && isText(n) && isText(p.tok.node) {
		n = &interpolation{off: n.at(), parts: []node{n, p.tok.node}}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func isText(n node) bool {
	switch n.(type) {
	case *stringLiteral, *interpolation:
		return true
	}
	return false
}

func (p *parser) parenthesis() (node, error) {
	if err := p.enter(p.tok.off); err != nil {
		return nil, err
	}
	defer p.leave()
	noDo, ternary := p.noDo, p.ternary
	p.noDo, p.ternary = false, 0
	defer func() { p.noDo, p.ternary = noDo, ternary }()
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
	// Integer("5") is a function.
	if fn, ok := kernelTable(t.text); ok && strings.HasPrefix(p.src[p.pos:], "(") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		return p.functionCall(t, fn)
	}
	if !knownConstant(t.text) {
		// Show the call too: Gem.path says more than Gem.
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
	if !keyword(t.text) && p.assignAhead() {
		return p.assignName()
	}
	if slot, ok := p.scope.find(t.text); ok {
		if t.text == "_1" || t.text == "_2" {
			p.numbered = max(p.numbered, int(t.text[1]-'0'))
		}
		return &variable{off: t.off, slot: slot}, p.advance()
	}
	if i := p.subject(t.text); i >= 0 {
		return &eventValue{off: t.off, subject: i}, p.advance()
	}
	switch t.text {
	case "nil":
		return &literal{off: t.off}, p.advance()
	case "true", "false":
		return &literal{off: t.off, value: boolValue(t.text == "true")}, p.advance()
	}
	if keyword(t.text) {
		return p.control()
	}
	if fn, ok := kernelTable(t.text); ok && (!p.event || !fn.config) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		return p.functionCall(t, fn)
	}
	if why := refusedFunction(t.text); why != "" {
		return nil, p.fail(t.off, why)
	}
	return nil, p.fail(t.off, "undefined local variable or method "+strconv.Quote(t.text))
}

// functionCall reads the arguments of a function; its name has been passed.
func (p *parser) functionCall(t token, fn *kernelMethod) (node, error) {
	c := &call{off: t.off, name: t.text}
	if err := p.callTail(c); err != nil {
		return nil, err
	}
	if (t.text == "lambda" || t.text == "proc") && c.block != nil {
		c.block.lambda = t.text == "lambda"
		return &lambda{off: t.off, block: c.block}, nil
	}
	if c.splat || c.pass != nil {
		return nil, p.fail(t.off, "this form of argument is not supported for "+t.text)
	}
	if t.text == "loop" && c.block == nil {
		return nil, p.fail(t.off, "loop needs a block")
	}
	if len(c.args) < fn.least || fn.most >= 0 && len(c.args) > fn.most {
		return nil, p.fail(t.off, "wrong number of arguments for "+t.text+": "+strconv.Itoa(len(c.args)))
	}
	if t.text == "require" || t.text == "require_relative" {
		if l, ok := c.args[0].(*stringLiteral); !ok || !knownLibrary(l.text) {
			return nil, p.fail(t.off, "this library is not supported")
		}
	}
	return &function{off: t.off, name: t.text, args: c.args, block: c.block, fn: fn}, nil
}
