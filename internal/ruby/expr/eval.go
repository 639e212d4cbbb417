package expr

import (
	"errors"
	"fmt"
	"strings"
)

// machine evaluates one program once.
type machine struct {
	env   *Env
	prog  *Program
	vars  []Value
	steps int
	spent int // bytes of texts and arrays made so far
}

// valueSize is what an element of an array takes, about.
const valueSize = 64

// raise makes the error of a node: what Ruby would raise.
func (m *machine) raise(n node, format string, args ...any) error {
	return &Error{Expr: m.prog.text, Off: n.at(), Text: fmt.Sprintf(format, args...)}
}

func (m *machine) eval(n node) (Value, error) {
	if m.steps++; m.steps > maxSteps {
		return Value{}, m.raise(n, "the expression takes more than %d steps", maxSteps)
	}
	switch n := n.(type) {
	case *literal:
		return n.value, nil
	case *variable:
		return m.vars[n.slot], nil
	case *assign:
		v, err := m.eval(n.value)
		m.vars[n.slot] = v
		return v, err
	case *constant:
		return Value{kind: object, text: n.name}, nil
	case *interpolation:
		return m.interpolate(n)
	case *array:
		items, err := m.list(n.items)
		return ArrayValue(items), err
	case *hash:
		return m.hash(n)
	case *logic:
		left, err := m.eval(n.left)
		if err != nil || left.Truthy() == n.or {
			return left, err
		}
		return m.eval(n.right)
	case *not:
		v, err := m.eval(n.arg)
		return BoolValue(!v.Truthy()), err
	case *cond:
		return m.cond(n)
	case *rescue:
		v, err := m.eval(n.body)
		var raised *Error
		if errors.As(err, &raised) && m.steps <= maxSteps {
			return m.eval(n.other)
		}
		return v, err
	case *sequence:
		var v Value
		var err error
		for _, s := range n.steps {
			if v, err = m.eval(s); err != nil {
				return Value{}, err
			}
		}
		return v, nil
	case *call:
		return m.call(n)
	}
	return Value{}, fmt.Errorf("evaluating a node of type %T", n)
}

func (m *machine) cond(n *cond) (Value, error) {
	test, err := m.eval(n.test)
	switch {
	case err != nil:
		return Value{}, err
	case test.Truthy():
		return m.eval(n.then)
	case n.els != nil:
		return m.eval(n.els)
	}
	return Value{}, nil
}

func (m *machine) list(nodes []node) ([]Value, error) {
	out := make([]Value, len(nodes))
	for i, n := range nodes {
		v, err := m.eval(n)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (m *machine) hash(n *hash) (Value, error) {
	h := &Hash{}
	for i, kn := range n.keys {
		k, err := m.eval(kn)
		if err != nil {
			return Value{}, err
		}
		v, err := m.eval(n.values[i])
		if err != nil {
			return Value{}, err
		}
		h.Set(k, v)
	}
	return Value{kind: HashKind, hash: h}, nil
}

func (m *machine) interpolate(n *interpolation) (Value, error) {
	var b strings.Builder
	for _, part := range n.parts {
		v, err := m.eval(part)
		if err != nil {
			return Value{}, err
		}
		b.WriteString(v.ToS())
		if b.Len() > maxText {
			return Value{}, m.raise(n, "the text is longer than %d bytes", maxText)
		}
	}
	return StringValue(b.String()), nil
}

// call evaluates a call: receiver, arguments, then the method.
func (m *machine) call(n *call) (Value, error) {
	if n.recv == nil {
		return m.function(n)
	}
	recv, err := m.eval(n.recv)
	if err != nil {
		return Value{}, err
	}
	if n.safe && recv.IsNil() {
		return recv, nil
	}
	args, err := m.list(n.args)
	if err != nil {
		return Value{}, err
	}
	v, err := m.send(n, recv, args)
	if err != nil {
		return v, err
	}
	if len(v.text) > maxText {
		return Value{}, m.raise(n, "the text is longer than %d bytes", maxText)
	}
	m.spent += len(v.text)
	if v.kind == ArrayKind {
		m.spent += len(v.arr.Items) * valueSize
	}
	if m.spent > maxSpent {
		return Value{}, m.raise(n, "the expression needs more than %d bytes", maxSpent)
	}
	return v, nil
}

// function evaluates what the configuration's context offers without a receiver.
func (m *machine) function(n *call) (Value, error) {
	switch n.name {
	case "hostname":
		return StringValue(m.env.Hostname), nil
	case "worker_id":
		return StringValue(m.env.WorkerID), nil
	case "use_nil":
		return Value{}, errUseNil
	case "use_default":
		return Value{}, errUseDefault
	}
	return Value{}, m.raise(n, "undefined method %q", n.name)
}

// yield runs a block with these values for its parameters.
func (m *machine) yield(b *block, args ...Value) (Value, error) {
	for i, slot := range b.params {
		m.vars[slot] = Value{}
		if i < len(args) {
			m.vars[slot] = args[i]
		}
	}
	return m.eval(b.body)
}

// send calls a method by the class of its receiver.
func (m *machine) send(n *call, recv Value, args []Value) (Value, error) {
	if recv.kind == object {
		return m.constantCall(n, recv.text, args)
	}
	c := &invocation{m: m, n: n, recv: recv, args: args}
	if v, ok, err := c.any(); ok || err != nil {
		return v, err
	}
	var v Value
	var ok bool
	var err error
	switch recv.kind {
	case String:
		v, ok, err = c.str()
	case Symbol:
		v, ok, err = c.symbol()
	case Int, Float:
		v, ok, err = c.number()
	case ArrayKind:
		v, ok, err = c.array()
	case HashKind:
		v, ok, err = c.hash()
	case Nil:
		v, ok, err = c.null()
	}
	if !ok && err == nil {
		err = m.raise(n, "undefined method '%s' for %s", n.name, recv.describe())
	}
	return v, err
}

// describe names a value in an error.
func (v Value) describe() string {
	switch v.kind {
	case Nil, Bool:
		return v.Inspect()
	}
	return "an instance of " + v.kind.String()
}

// knownConstant lists the constants that may stand in an expression.
func knownConstant(name string) bool {
	return name == "ENV" || name == "Socket" || name == "File" || name == "IO"
}

// constantMethod lists what may be called on them.
func constantMethod(name, method string) bool {
	switch name {
	case "ENV":
		switch method {
		case "fetch", "[]", "key?", "has_key?", "include?":
			return true
		}
	case "Socket":
		return method == "gethostname"
	case "File":
		return method == "join" || method == "read" || method == "basename" || method == "dirname"
	case "IO":
		return method == "read"
	}
	return false
}

func (m *machine) constantCall(n *call, name string, args []Value) (Value, error) {
	switch name {
	case "ENV":
		return m.envCall(n, args)
	case "Socket":
		return StringValue(m.env.Hostname), nil
	case "File", "IO":
		return m.fileCall(n, args)
	}
	return Value{}, m.raise(n, "%s.%s is not supported", name, n.name)
}

// envCall evaluates ENV[…], ENV.fetch and their like.
func (m *machine) envCall(n *call, args []Value) (Value, error) {
	most := 1
	if n.name == "fetch" {
		most = 2
	}
	if len(args) < 1 || len(args) > most {
		return Value{}, m.raise(n, "wrong number of arguments for ENV.%s: %d", n.name, len(args))
	}
	if args[0].kind != String {
		return Value{}, m.raise(n, "the name of an environment variable is a String, not %s", args[0].describe())
	}
	if m.env.Lookup == nil {
		return Value{}, m.raise(n, "environment variables are not available here")
	}
	text, ok := m.env.Lookup(args[0].text)
	switch n.name {
	case "[]":
		if !ok {
			return Value{}, nil
		}
		return StringValue(text), nil
	case "key?", "has_key?", "include?":
		return BoolValue(ok), nil
	case "fetch":
		switch {
		case ok:
			return StringValue(text), nil
		case n.block != nil:
			return m.yield(n.block, args[0])
		case len(args) == 2:
			return args[1], nil
		}
		return Value{}, m.raise(n, "key not found: %s: set this environment variable or give ENV.fetch a default", args[0].Inspect())
	}
	return Value{}, m.raise(n, "ENV.%s is not supported", n.name)
}

// fileCall evaluates File.join, File.read and their like.
func (m *machine) fileCall(n *call, args []Value) (Value, error) {
	for _, a := range args {
		if a.kind != String {
			return Value{}, m.raise(n, "no implicit conversion of %s into String", a.describe())
		}
	}
	if n.name == "join" {
		return StringValue(joinPath(args)), nil
	}
	if len(args) != 1 {
		return Value{}, m.raise(n, "wrong number of arguments for %s: %d", n.name, len(args))
	}
	switch path := args[0].text; n.name {
	case "basename":
		s := strings.TrimRight(path, "/")
		return StringValue(s[strings.LastIndexByte(s, '/')+1:]), nil
	case "dirname":
		s := strings.TrimRight(path, "/")
		i := strings.LastIndexByte(s, '/')
		switch {
		case i < 0:
			return StringValue("."), nil
		case strings.TrimRight(s[:i], "/") == "":
			return StringValue("/"), nil
		}
		return StringValue(strings.TrimRight(s[:i], "/")), nil
	case "read":
		if m.env.ReadFile == nil {
			return Value{}, m.raise(n, "files are not available here")
		}
		b, err := m.env.ReadFile(path)
		if err != nil {
			return Value{}, m.raise(n, "%v", err)
		}
		return StringValue(string(b)), nil
	}
	return Value{}, m.raise(n, "File.%s is not supported", n.name)
}

// joinPath joins with single slashes, as File.join does.
func joinPath(args []Value) string {
	var b strings.Builder
	for i, a := range args {
		s := a.text
		if i > 0 {
			done := b.String()
			if strings.HasSuffix(done, "/") {
				s = strings.TrimLeft(s, "/")
			} else if !strings.HasPrefix(s, "/") {
				b.WriteByte('/')
			}
		}
		b.WriteString(s)
	}
	return b.String()
}
