package expr

import "strings"

// assignments are the operators that assign.
var assignments = [...]string{"||=", "&&=", "**=", "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "="}

// assignment says whether an operator assigns.
func assignment(op string) bool {
	for _, a := range assignments {
		if a == op {
			return true
		}
	}
	return false
}

// assignAhead says whether the current name is followed by an operator that assigns.
func (p *parser) assignAhead() bool {
	rest := strings.TrimLeft(p.src[p.pos:], " \t")
	for _, a := range assignments {
		if after, ok := strings.CutPrefix(rest, a); ok {
			return a != "=" || after == "" || after[0] != '=' && after[0] != '~' && after[0] != '>'
		}
	}
	return false
}

// assignName reads an assignment to a variable; the name is the current token.
func (p *parser) assignName() (node, error) {
	off, name := p.tok.off, p.tok.text
	if err := p.advance(); err != nil {
		return nil, err
	}
	op := p.tok.text
	known, ok := p.scope.find(name)
	subject := p.subject(name)
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	if !ok {
		known = p.scope.add(name)
		if subject >= 0 {
			p.inits = append(p.inits, initial{slot: known, subject: subject})
		}
	}
	value, err := p.assigned()
	if err != nil {
		return nil, err
	}
	if op == "=" {
		return &assign{off: off, slot: known, value: value}, nil
	}
	return p.update(&update{off: off, slot: known, op: strings.TrimSuffix(op, "="), value: value}), nil
}

// assigned reads the right side of an assignment. A rescue behind it belongs to it.
func (p *parser) assigned() (node, error) {
	off := p.tok.off
	if p.isOp("*") { // a = *list
		item, err := p.argument()
		return &array{off: off, items: []node{item}}, err
	}
	value, err := p.expression()
	if err != nil || !p.isWord("rescue") {
		return value, err
	}
	off = p.tok.off
	if err := p.advance(); err != nil {
		return nil, err
	}
	other, err := p.expression()
	return &attempt{off: off, body: value, rescues: []rescue{{slot: -1, body: other}}}, err
}

// assignElement reads an assignment to an element; the operator is the current token.
func (p *parser) assignElement(target *call) (node, error) {
	p.mutates = true
	op := p.tok.text
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	value, err := p.assigned()
	if err != nil {
		return nil, err
	}
	if op == "=" {
		c := newCall(target.off, target.recv, "[]=", append(target.args[:len(target.args):len(target.args)], value)...)
		c.splat, c.safe = target.splat, target.safe
		return c, nil
	}
	return p.update(&update{off: target.off, target: target, op: strings.TrimSuffix(op, "="), value: value}), nil
}

func (p *parser) update(u *update) node {
	if u.target != nil {
		u.set = newCall(u.off, nil, "[]=")
	}
	if u.op != "||" && u.op != "&&" {
		u.apply = newCall(u.off, nil, u.op)
		p.mutates = p.mutates || u.op == "<<"
	}
	return u
}

// multipleAhead gives the names of a multiple assignment if one begins here.
func (p *parser) multipleAhead() []string {
	if p.tok.kind != tIdent && !p.isOp("*") {
		return nil
	}
	end := strings.IndexByte(p.src[p.tok.off:], '=')
	if end < 0 {
		return nil
	}
	left, right := p.src[p.tok.off:p.tok.off+end], p.src[p.tok.off+end+1:]
	if !strings.Contains(left, ",") || right != "" && strings.IndexByte("=~>", right[0]) >= 0 {
		return nil
	}
	var names []string
	for part := range strings.SplitSeq(left, ",") {
		name := strings.TrimSpace(part)
		plain := strings.TrimPrefix(name, "*")
		if plain == "" || !isIdentStart(plain[0]) || plain[0] >= 'A' && plain[0] <= 'Z' || keyword(plain) {
			return nil
		}
		for i := range len(plain) {
			if !isIdent(plain[i]) {
				return nil
			}
		}
		names = append(names, name)
	}
	return names
}

func (p *parser) multiple(names []string) (node, error) {
	n := &multiple{off: p.tok.off, rest: -1}
	for !p.isOp("=") {
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if err := p.advanceOperand(); err != nil {
		return nil, err
	}
	list := &array{off: p.tok.off}
	for {
		item, err := p.argument()
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, item)
		if !p.isOp(",") {
			break
		}
		if err := p.advanceOperand(); err != nil {
			return nil, err
		}
	}
	n.value = list
	if _, splatted := list.items[0].(*splat); len(list.items) == 1 && !splatted {
		n.value = list.items[0]
	}
	for i, name := range names {
		if strings.HasPrefix(name, "*") {
			if n.rest >= 0 {
				return nil, p.fail(n.off, "two * in one assignment")
			}
			n.rest, name = i, name[1:]
		}
		slot, ok := p.scope.find(name)
		if !ok {
			slot = p.scope.add(name)
		}
		n.slots = append(n.slots, slot)
	}
	return n, nil
}

// subject is the number of a variable of the event, -1 if the name is none.
func (p *parser) subject(name string) int {
	if p.event {
		for i, s := range subjectNames {
			if s == name {
				return i
			}
		}
	}
	return -1
}
