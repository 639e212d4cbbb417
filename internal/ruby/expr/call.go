package expr

import (
	"math"
	"strings"
)

// method is a method of a class; doc.go says what one must keep to.
type method struct {
	fn          func(m *Machine, n *call, recv Value, a []Value) (Value, error)
	least, most int // number of arguments; most is -1 if there is no limit
}

// methodTable gives, for each class, the method of that name; ok is false if no class has
// one.
func methodTable(name string) (fns *[kinds]*method, ok bool) {
	fns = new([kinds]*method)
	for k := range fns {
		if f := methods[k][name]; f != nil {
			fns[k], ok = f, true
		}
	}
	if f := objectTable[name]; f != nil {
		ok = true
		for k := range fns {
			if fns[k] == nil {
				fns[k] = f
			}
		}
	}
	return fns, ok
}

// methods are the tables of all classes.
var methods = [kinds]map[string]*method{
	Nil: nilMethods(), Bool: boolMethods(), Int: numberMethods(), Uint: numberMethods(), Float: numberMethods(), String: stringMethods(), Symbol: symbolMethods(),
	ArrayKind: arrayMethods(), HashKind: hashMethods(), RangeKind: rangeMethods(), RegexpKind: regexpMethods(), MatchKind: matchMethods(),
	TimeKind: timeMethods(), ProcKind: procMethods(), ErrorKind: errorMethods(), ConstKind: constMethods(), URIKind: uriMethods(), AddressKind: addressMethods(), RawKind: eventTimeMethods(),
}

var objectTable = objectMethods()

// mutating says whether a method changes its receiver, or asks which object it is.
func mutating(name string) bool {
	switch name {
	case "<<", "[]=", "store", "delete", "delete_if", "delete_at", "keep_if", "clear", "concat", "push", "append", "pop", "shift", "unshift", "prepend",
		"insert", "replace", "update", "tally", "equal?", "force_encoding", "utc", "gmtime", "localtime", "setbyte", "default=", "fill":
		return true
	}
	return len(name) > 1 && name[len(name)-1] == '!'
}

// call evaluates a call: receiver, arguments, then the method.
func (m *Machine) call(n *call) (Value, error) {
	recv, err := m.eval(n.recv)
	if err != nil {
		return Value{}, err
	}
	if n.safe && recv.IsNil() {
		return recv, nil
	}
	base := len(m.args)
	err = m.pushArgs(n.args)
	if err == nil && n.pass != nil {
		n, err = m.withBlock(n)
	}
	var v Value
	if err == nil {
		v, err = m.send(n, recv, m.args[base:len(m.args):len(m.args)])
	}
	m.args = m.args[:base]
	return v, err
}

// pushArgs evaluates arguments onto the stack.
func (m *Machine) pushArgs(nodes []node) error {
	for _, a := range nodes {
		if s, ok := a.(*splat); ok {
			v, err := m.eval(s.value)
			if err != nil {
				return err
			}
			if m.args, err = m.splat(a, m.args, v); err != nil {
				return err
			}
			continue
		}
		v, err := m.eval(a)
		if err != nil {
			return err
		}
		m.args = append(m.args, v)
	}
	return nil
}

// withBlock is the call with the Proc behind & as its block.
func (m *Machine) withBlock(n *call) (*call, error) {
	v, err := m.eval(n.pass)
	if err != nil || v.IsNil() {
		return n, err
	}
	if v.kind != ProcKind {
		return n, m.raise(n, "TypeError", "wrong argument type %s (expected Proc)", v.class())
	}
	c := *n
	c.block, c.pass = v.o.x.proc, nil
	return &c, nil
}

// send calls a method by the class of its receiver.
func (m *Machine) send(n *call, recv Value, args []Value) (Value, error) {
	f := n.fns[recv.kind]
	if f == nil {
		return Value{}, m.noMethod(n, recv)
	}
	if len(args) < f.least || f.most >= 0 && len(args) > f.most {
		return Value{}, m.wrongCount(n, len(args), f.least, f.most)
	}
	v, err := f.fn(m, n, recv, args)
	if err != nil {
		if err == errBreak && n.block != nil {
			return m.thrown, nil
		}
		return Value{}, err
	}
	if v.kind == String || v.kind == ArrayKind || v.kind == HashKind {
		return v, m.spend(n, v)
	}
	return v, nil
}

func (m *Machine) noMethod(n *call, recv Value) error {
	name := n.name
	if lacking(recv.kind, name) {
		return m.exceed(n, "the method %s of %s is not supported", name, recv.class())
	}
	return m.raise(n, "NoMethodError", "undefined method `%s' for %s", name, describe(recv))
}

// describe names a value in an error, as Ruby 3.1 does.
func describe(v Value) string {
	switch v.kind {
	case ConstKind:
		return v.s.s + ":Class"
	case ProcKind, ErrorKind, MatchKind, RawKind:
		return "#<" + v.class() + ">"
	}
	const most = 65
	s := v.Inspect()
	if len(s) > most {
		return "#<" + v.class() + ">"
	}
	return s + ":" + v.class()
}

func (m *Machine) wrongCount(n node, given, least, most int) error {
	switch {
	case most < 0:
		return m.raise(n, "ArgumentError", "wrong number of arguments (given %d, expected %d+)", given, least)
	case least != most:
		return m.raise(n, "ArgumentError", "wrong number of arguments (given %d, expected %d..%d)", given, least, most)
	}
	return m.raise(n, "ArgumentError", "wrong number of arguments (given %d, expected %d)", given, least)
}

// noConversion is the error for an argument of the wrong class.
func (m *Machine) noConversion(n node, v Value, want string) error {
	what := v.class()
	if v.kind == Nil || v.kind == Bool {
		what = v.Inspect()
	}
	if want == "Integer" && (v.kind == Nil || v.kind == Bool) {
		return m.raise(n, "TypeError", "no implicit conversion from %s to integer", what)
	}
	return m.raise(n, "TypeError", "no implicit conversion of %s into %s", what, want)
}

// need demands arguments of one class.
func (m *Machine) need(n node, k Kind, args ...Value) error {
	for _, a := range args {
		if a.kind != k {
			return m.noConversion(n, a, k.String())
		}
	}
	return nil
}

// intArg reads an Integer; a Float is cut off, as Ruby does where it wants an index.
func (m *Machine) intArg(n node, v Value) (int, error) {
	switch v.kind {
	case Int:
		if i := v.int(); i > 1<<31 || i < -1<<31 {
			return 0, m.exceed(n, "the number %d is out of range here", i)
		}
		return int(v.int()), nil
	case Float:
		f := v.float()
		switch {
		case f < 1<<31 && f > -1<<31:
			return int(f), nil
		case math.IsNaN(f) || math.IsInf(f, 0):
			return 0, m.raise(n, "RangeError", "float %s out of range of integer", strings.TrimSuffix(formatFloat(f), "inity"))
		}
		return 0, m.exceed(n, "the number %s is out of range here", formatFloat(f))
	}
	return 0, m.noConversion(n, v, "Integer")
}

// yield runs a block with one value.
func (m *Machine) yield(b *block, v Value) (Value, error) {
	if len(b.params) == 1 && b.params[0].sub == nil && !b.params[0].rest {
		m.vars[b.params[0].slot] = v
	} else if len(b.params) > 0 {
		one := [1]Value{v}
		args := one[:]
		if v.kind == ArrayKind && (len(b.params) > 1 || b.params[0].sub != nil) {
			if len(b.params) == 1 {
				return m.yieldSub(b, v)
			}
			args = m.items(v)
		}
		if err := m.bind(b.params, args); err != nil {
			return Value{}, err
		}
	}
	return m.runBlock(b)
}

// yieldSub runs a block whose one parameter is a list in parentheses.
func (m *Machine) yieldSub(b *block, v Value) (Value, error) {
	if err := m.bind(b.params[0].sub, m.items(v)); err != nil {
		return Value{}, err
	}
	return m.runBlock(b)
}

// yield2 runs a block with two values.
func (m *Machine) yield2(b *block, v, w Value) (Value, error) {
	if b.symbol { // Ruby would call the method with an argument
		return Value{}, m.exceed(m.prog.body, "a Symbol as the block of a method that gives two values is not supported")
	}
	if len(b.params) == 1 && b.params[0].sub == nil && !b.params[0].rest {
		m.vars[b.params[0].slot] = v
		return m.runBlock(b)
	}
	two := [2]Value{v, w}
	if err := m.bind(b.params, two[:]); err != nil {
		return Value{}, err
	}
	return m.runBlock(b)
}

// bind gives parameters their values.
func (m *Machine) bind(params []param, args []Value) error {
	for i := range params {
		p := &params[i]
		behind := len(params) - i - 1
		if p.rest {
			n := max(len(args)-behind, 0)
			rest := m.values.get(n)
			copy(rest, args)
			m.vars[p.slot] = m.array(rest)
			args = args[n:]
			continue
		}
		var v Value
		given := len(args) > 0
		if given {
			v, args = args[0], args[1:]
		}
		switch {
		case p.sub != nil:
			items := []Value{v}
			if v.kind == ArrayKind {
				items = m.items(v)
			}
			if err := m.bind(p.sub, items); err != nil {
				return err
			}
			continue
		case !given && p.deflt != nil:
			var err error
			if v, err = m.eval(p.deflt); err != nil {
				return err
			}
		}
		m.vars[p.slot] = v
	}
	return nil
}

func (m *Machine) runBlock(b *block) (Value, error) {
	v, err := m.eval(b.body)
	if err == errNext {
		return m.thrown, nil
	}
	return v, err
}

// callProc calls a Proc or a lambda. Its variables are put back behind the call, so that it
// may call itself.
func (m *Machine) callProc(n node, b *block, args []Value) (Value, error) {
	if m.calls++; m.calls > maxCalls {
		return Value{}, m.raise(n, "SystemStackError", "stack level too deep")
	}
	defer func() { m.calls-- }()
	if b.lambda {
		least, most := 0, len(b.params)
		for _, p := range b.params {
			if p.rest {
				most = -1
			} else if p.deflt == nil {
				least++
			}
		}
		if len(args) < least || most >= 0 && len(args) > most {
			return Value{}, m.wrongCount(n, len(args), least, most)
		}
	} else if len(args) == 1 && args[0].kind == ArrayKind && len(b.params) > 1 {
		args = m.items(args[0])
	}
	saved := append([]Value(nil), m.vars[b.lo:b.hi]...)
	defer func() { copy(m.vars[b.lo:b.hi], saved) }()
	if err := m.bind(b.params, args); err != nil {
		return Value{}, err
	}
	v, err := m.runBlock(b)
	if err == errBreak && b.lambda {
		return m.thrown, nil
	}
	return v, err
}

// constCall evaluates a call on a constant.
func (m *Machine) constCall(n *constCall) (Value, error) {
	base := len(m.args)
	err := m.pushArgs(n.args)
	args := m.args[base:len(m.args):len(m.args)]
	var v Value
	if err == nil {
		if len(args) < n.fn.least || n.fn.most >= 0 && len(args) > n.fn.most {
			err = m.wrongCount(n, len(args), n.fn.least, n.fn.most)
		} else {
			v, err = n.fn.fn(m, n, args)
		}
	}
	m.args = m.args[:base]
	if err != nil {
		if err == errBreak && n.block != nil {
			return m.thrown, nil
		}
		return Value{}, err
	}
	return v, m.spend(n, v)
}

// function evaluates a call without a receiver.
func (m *Machine) function(n *function) (Value, error) {
	base := len(m.args)
	err := m.pushArgs(n.args)
	var v Value
	if err == nil {
		v, err = n.fn.fn(m, n, m.args[base:len(m.args):len(m.args)])
	}
	m.args = m.args[:base]
	if err != nil {
		return Value{}, err
	}
	return v, m.spend(n, v)
}
