package expr

import "strings"

// kernelMethod is a function: a method that is called without a receiver.
type kernelMethod struct {
	fn          func(m *Machine, n *function, a []Value) (Value, error)
	least, most int
	config      bool // only where a configuration file is read
}

// kernel are the functions.
var kernel = map[string]*kernelMethod{
	"hostname":    {fn: func(m *Machine, n *function, a []Value) (Value, error) { return m.str(m.env.Hostname), nil }, config: true},
	"worker_id":   {fn: func(m *Machine, n *function, a []Value) (Value, error) { return m.str(m.env.WorkerID), nil }, config: true},
	"use_nil":     {fn: func(m *Machine, n *function, a []Value) (Value, error) { return Value{}, errUseNil }, config: true},
	"use_default": {fn: func(m *Machine, n *function, a []Value) (Value, error) { return Value{}, errUseDefault }, config: true},

	"format": {fn: kernelFormat, least: 1, most: -1}, "sprintf": {fn: kernelFormat, least: 1, most: -1},
	"Integer": {fn: kernelInteger, least: 1, most: 3}, "Float": {fn: kernelFloat, least: 1, most: 2},
	"String": {fn: func(m *Machine, n *function, a []Value) (Value, error) { return m.str(a[0].ToS()), nil }, least: 1, most: 1},
	"Array":  {fn: func(m *Machine, n *function, a []Value) (Value, error) { return m.toArray(n, a[0]) }, least: 1, most: 1},
	"raise":  {fn: raiseArgs, most: 3}, "fail": {fn: raiseArgs, most: 3},
	"rand":    {fn: func(m *Machine, n *function, a []Value) (Value, error) { return m.rand(n, a) }, most: 1},
	"require": {fn: kernelRequire, least: 1, most: 1},
	"puts":    {fn: kernelPuts, most: -1}, "print": {fn: kernelPuts, most: -1}, "warn": {fn: kernelPuts, most: -1}, "p": {fn: kernelPuts, most: -1},
	"loop": {fn: kernelLoop}, "catch": {fn: kernelCatch, most: 1}, "throw": {fn: kernelThrow, least: 1, most: 2},
	"lambda": {fn: kernelPuts}, "proc": {fn: kernelPuts}, // with their blocks they are literals
}

func kernelTable(name string) (*kernelMethod, bool) {
	f, ok := kernel[name]
	return f, ok
}

// refusedFunction says why a function that Ruby has is not there.
func refusedFunction(name string) string {
	switch name {
	case "system", "exec", "spawn", "fork", "syscall":
		return name + " is not supported: it runs a command"
	case "eval", "instance_eval", "class_eval", "binding", "send", "public_send", "__send__", "method", "define_method", "instance_variable_get", "instance_variable_set", "require_relative", "load", "autoload":
		return name + " is not supported: it runs computed code"
	case "open", "gets", "exit", "exit!", "abort", "sleep", "trap", "at_exit", "srand", "caller", "select", "test":
		return name + " is not supported"
	}
	return ""
}

// knownLibrary says whether what a library brings is there without it.
func knownLibrary(name string) bool {
	switch strings.TrimSuffix(name, ".rb") {
	case "json", "time", "socket", "securerandom", "digest", "digest/md5", "digest/sha1", "digest/sha2", "cgi", "cgi/util", "uri", "base64", "oj", "yajl", "ipaddr", "zlib", "English":
		return true
	}
	return false
}

func kernelRequire(m *Machine, n *function, a []Value) (Value, error) { return boolValue(false), nil }

// kernelPuts writes nothing: a filter has no place to write to.
func kernelPuts(m *Machine, n *function, a []Value) (Value, error) {
	if n.name == "p" && len(a) > 0 {
		if len(a) == 1 {
			return a[0], nil
		}
		return m.array(append([]Value(nil), a...)), nil
	}
	return Value{}, nil
}

func kernelFormat(m *Machine, n *function, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	return m.sprintf(n, a[0].s.s, a[1:])
}

// lenient says whether exception: false is among the arguments, and takes it out.
func (m *Machine) lenient(a []Value) ([]Value, bool) {
	last := a[len(a)-1]
	if last.kind != HashKind {
		return a, false
	}
	v, ok := m.get(last.o, m.symbol("exception"))
	return a[:len(a)-1], ok && !v.Truthy()
}

func kernelInteger(m *Machine, n *function, a []Value) (Value, error) {
	a, quiet := m.lenient(a)
	if len(a) == 0 {
		return Value{}, m.wrongCount(n, 0, 1, 2)
	}
	v := a[0]
	base := 0
	if len(a) == 2 {
		var err error
		if base, err = m.intArg(n, a[1]); err != nil {
			return Value{}, err
		}
	}
	switch v.kind {
	case Int, Uint:
		return v, nil
	case Float:
		w, err := rounded(m, &call{off: n.off, name: "to_i"}, v, nil)
		if err != nil && quiet {
			return Value{}, nil
		}
		return w, err
	case String:
		digits, base, ok := strictInt(v.s.s, base)
		if ok {
			return m.parseInt(n, digits, base)
		}
		if quiet {
			return Value{}, nil
		}
		return Value{}, m.raise(n, "ArgumentError", "invalid value for Integer(): %s", v.Inspect())
	case TimeKind:
		return intValue(v.time().Unix()), nil
	case RawKind:
		if t, ok := v.eventTime(); ok {
			return intValue(t.Seconds()), nil
		}
	}
	if quiet {
		return Value{}, nil
	}
	return Value{}, m.raise(n, "TypeError", "can't convert %s into Integer", conversionName(v))
}

// conversionName names a value in the error of a conversion: nil by itself.
func conversionName(v Value) string {
	if v.kind == Nil || v.kind == Bool {
		return v.Inspect()
	}
	return v.class()
}

func kernelFloat(m *Machine, n *function, a []Value) (Value, error) {
	a, quiet := m.lenient(a)
	if len(a) == 0 {
		return Value{}, m.wrongCount(n, 0, 1, 1)
	}
	switch v := a[0]; v.kind {
	case Int, Uint, Float:
		return floatValue(v.asFloat()), nil
	case String:
		if f, ok := strictFloat(v.s.s); ok {
			return floatValue(f), nil
		}
		if !quiet {
			return Value{}, m.raise(n, "ArgumentError", "invalid value for Float(): %s", v.Inspect())
		}
	case TimeKind:
		return timeNumber(m, &call{off: n.off, name: "to_f"}, v, nil)
	default:
		if !quiet {
			return Value{}, m.raise(n, "TypeError", "can't convert %s into Float", conversionName(v))
		}
	}
	return Value{}, nil
}

// toArray is Array(v).
func (m *Machine) toArray(n node, v Value) (Value, error) {
	switch v.kind {
	case Nil:
		return m.array(nil), nil
	case ArrayKind:
		return v, nil
	case HashKind, RangeKind:
		items, err := m.elements(n, v)
		return m.array(items), err
	}
	items := m.values.get(1)
	items[0] = v
	return m.array(items), nil
}

func kernelLoop(m *Machine, n *function, a []Value) (Value, error) {
	for {
		if _, err := m.yield(n.block, Value{}); err != nil {
			if err == errBreak {
				return m.thrown, nil
			}
			if e, ok := err.(*Error); ok && e.Class == "StopIteration" {
				return Value{}, nil
			}
			return Value{}, err
		}
	}
}

func kernelCatch(m *Machine, n *function, a []Value) (Value, error) {
	var tag Value
	if len(a) == 1 {
		tag = a[0]
	}
	if n.block == nil {
		return Value{}, m.raise(n, "LocalJumpError", "no block given")
	}
	v, err := m.yield(n.block, tag)
	if err == errThrow && m.equal(m.tag, tag) {
		return m.thrown, nil
	}
	return v, err
}

func kernelThrow(m *Machine, n *function, a []Value) (Value, error) {
	m.tag, m.thrown = a[0], Value{}
	if len(a) == 2 {
		m.thrown = a[1]
	}
	return Value{}, errThrow
}
