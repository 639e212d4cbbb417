package expr

// control reads what begins with a keyword.
func (p *parser) control() (node, error) {
	t := p.tok
	if err := p.enter(t.off); err != nil {
		return nil, err
	}
	defer p.leave()
	ternary, noDo := p.ternary, p.noDo
	p.ternary, p.noDo = 0, false
	defer func() { p.ternary, p.noDo = ternary, noDo }()
	switch t.text {
	case "if", "unless":
		return p.condition()
	case "case":
		return p.choice()
	case "while", "until":
		return p.loop()
	case "begin":
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.attempt(t.off)
		if err != nil {
			return nil, err
		}
		return n, p.word("end")
	case "next", "break":
		return p.jump()
	case "self":
		return nil, p.fail(t.off, "self is not supported")
	}
	return nil, p.fail(t.off, t.text+" is not supported")
}

func (p *parser) jump() (node, error) {
	n := &jump{off: p.tok.off, brk: p.tok.text == "break"}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tEnd || p.ends() || p.isWord("if") || p.isWord("unless") || p.isOp(":") {
		return n, nil
	}
	var err error
	n.value, err = p.expression()
	return n, err
}

// then passes over what stands between a condition and its consequence.
func (p *parser) then() error {
	if p.tok.kind != tEnd && !p.isWord("then") {
		return p.unexpected("expected then or a new line")
	}
	if err := p.skipEnds(); err != nil {
		return err
	}
	if p.isWord("then") {
		return p.advance()
	}
	return nil
}

// condition reads if and elsif, up to the end.
func (p *parser) condition() (node, error) {
	c := &cond{off: p.tok.off}
	unless := p.isWord("unless")
	if err := p.advance(); err != nil {
		return nil, err
	}
	test, err := p.wordLogic()
	if err != nil {
		return nil, err
	}
	c.test = test
	if unless {
		c.test = &not{off: c.off, arg: test}
	}
	if err := p.then(); err != nil {
		return nil, err
	}
	if c.then, err = p.statements(); err != nil {
		return nil, err
	}
	switch {
	case p.isWord("elsif"):
		if err := p.enter(p.tok.off); err != nil {
			return nil, err
		}
		defer p.leave()
		c.els, err = p.condition()
		return c, err
	case p.isWord("else"):
		if c.els, err = p.elseBody(); err != nil {
			return nil, err
		}
	}
	return c, p.word("end")
}

func (p *parser) elseBody() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	return p.statements()
}

// choice reads case … when … end.
func (p *parser) choice() (node, error) {
	c := &choice{off: p.tok.off}
	if err := p.advance(); err != nil {
		return nil, err
	}
	var err error
	if p.tok.kind != tEnd && !p.isWord("when") {
		if c.subject, err = p.wordLogic(); err != nil {
			return nil, err
		}
	}
	if err := p.skipEnds(); err != nil {
		return nil, err
	}
	if !p.isWord("when") {
		return nil, p.unexpected("expected when")
	}
	for p.isWord("when") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		var w when
		for {
			test, err := p.argument()
			if err != nil {
				return nil, err
			}
			w.tests = append(w.tests, test)
			if !p.isOp(",") {
				break
			}
			if err := p.advanceOperand(); err != nil {
				return nil, err
			}
		}
		if err := p.then(); err != nil {
			return nil, err
		}
		if w.body, err = p.statements(); err != nil {
			return nil, err
		}
		c.whens = append(c.whens, w)
	}
	if p.isWord("else") {
		if c.els, err = p.elseBody(); err != nil {
			return nil, err
		}
	}
	return c, p.word("end")
}

// loop reads while and until.
func (p *parser) loop() (node, error) {
	l := &loop{off: p.tok.off, not: p.isWord("until")}
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.noDo = true
	test, err := p.wordLogic()
	p.noDo = false
	if err != nil {
		return nil, err
	}
	l.test = test
	if p.isWord("do") {
		if err := p.advance(); err != nil {
			return nil, err
		}
	} else if p.tok.kind != tEnd {
		return nil, p.unexpected("expected do or a new line")
	}
	if l.body, err = p.statements(); err != nil {
		return nil, err
	}
	return l, p.word("end")
}

// attempt reads statements with rescue, else and ensure behind them, up to the end.
func (p *parser) attempt(off int) (node, error) {
	a := &attempt{off: off}
	var err error
	if a.body, err = p.statements(); err != nil {
		return nil, err
	}
	for p.isWord("rescue") {
		r, err := p.rescue()
		if err != nil {
			return nil, err
		}
		a.rescues = append(a.rescues, r)
	}
	if p.isWord("else") {
		if a.els, err = p.elseBody(); err != nil {
			return nil, err
		}
	}
	if p.isWord("ensure") {
		if a.ensure, err = p.elseBody(); err != nil {
			return nil, err
		}
	}
	if a.rescues == nil && a.els == nil && a.ensure == nil {
		return a.body, nil
	}
	return a, nil
}

// rescue reads rescue A, B => e.
func (p *parser) rescue() (rescue, error) {
	r := rescue{slot: -1}
	if err := p.advance(); err != nil {
		return r, err
	}
	for p.tok.kind != tEnd && !p.isWord("then") && !p.isOp("=>") {
		class, err := p.unary()
		if err != nil {
			return r, err
		}
		if _, ok := class.(*constant); !ok {
			return r, p.fail(class.at(), "rescue needs the names of classes")
		}
		r.classes = append(r.classes, class)
		if !p.isOp(",") {
			break
		}
		if err := p.advanceOperand(); err != nil {
			return r, err
		}
	}
	if p.isOp("=>") {
		if err := p.advance(); err != nil {
			return r, err
		}
		if p.tok.kind != tIdent {
			return r, p.unexpected("expected the name of a variable")
		}
		slot, ok := p.scope.find(p.tok.text)
		if !ok {
			slot = p.scope.add(p.tok.text)
		}
		r.slot = slot
		if err := p.advance(); err != nil {
			return r, err
		}
	}
	if err := p.then(); err != nil {
		return r, err
	}
	var err error
	r.body, err = p.statements()
	return r, err
}
