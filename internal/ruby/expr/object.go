package expr

import "strings"

// objectMethods are the methods of all classes.
func objectMethods() map[string]*method {
	return map[string]*method{
		"nil?":    {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return boolValue(v.IsNil()), nil }},
		"to_s":    {fn: objectToS},
		"inspect": {fn: objectToS},
		"==":      {fn: objectEqual, least: 1, most: 1},
		"eql?":    {fn: objectEqual, least: 1, most: 1},
		"equal?":  {fn: objectEqual, least: 1, most: 1},
		"===": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			hit, err := m.caseEqual(n, v, a[0])
			return boolValue(hit), err
		}, least: 1, most: 1},
		"=~":           {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return Value{}, nil }, least: 1, most: 1},
		"<=>":          {fn: objectOrder, least: 1, most: 1},
		"!":            {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return boolValue(!v.Truthy()), nil }},
		"class":        {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.constValue(v.class()), nil }},
		"is_a?":        {fn: objectIsA, least: 1, most: 1},
		"kind_of?":     {fn: objectIsA, least: 1, most: 1},
		"instance_of?": {fn: objectIsA, least: 1, most: 1},
		"then":         {fn: objectThen}, "yield_self": {fn: objectThen}, "tap": {fn: objectThen},
		"itself": {fn: itself}, "dup": {fn: itself}, "clone": {fn: itself, most: 1}, "freeze": {fn: itself}, "to_enum": {fn: itself, most: -1}, "lazy": {fn: itself},
		"frozen?": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return boolValue(v.kind != String && v.kind != ArrayKind && v.kind != HashKind), nil
		}},
		"to_json": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.json(n, v) }, most: 1},
		// The parser replaces these.
		"respond_to?": {fn: itself, least: 1, most: 2}, "send": {fn: itself, most: -1}, "public_send": {fn: itself, most: -1}, "__send__": {fn: itself, most: -1},
		"instance_variables": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.array(nil), nil }},
	}
}

func objectToS(m *Machine, n *call, v Value, a []Value) (Value, error) {
	s := ""
	if n.name == "inspect" {
		s = v.Inspect()
	} else {
		s = v.ToS()
	}
	w := m.str(s)
	if v.kind == String {
		w.s.enc = v.s.enc
	}
	return w, nil
}

func objectEqual(m *Machine, n *call, v Value, a []Value) (Value, error) {
	w := a[0]
	if n.name == "==" {
		return boolValue(m.equal(v, w)), m.charge(n, 0)
	}
	if n.name == "equal?" && (v.o != nil || v.kind == String) {
		return boolValue(v.kind == w.kind && v.o == w.o && v.s == w.s), nil
	}
	return boolValue(v.kind == w.kind && m.equal(v, w)), m.charge(n, 0)
}

func objectOrder(m *Machine, n *call, v Value, a []Value) (Value, error) {
	c, ok := m.compare(v, a[0])
	if !ok {
		return Value{}, nil
	}
	return intValue(int64(c)), nil
}

func objectIsA(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if a[0].kind != ConstKind {
		return Value{}, m.raise(n, "TypeError", "class or module required")
	}
	if n.name == "instance_of?" {
		return boolValue(v.class() == a[0].s.s), nil
	}
	return boolValue(isA(v.class(), a[0].s.s)), nil
}

// objectThen is then and tap.
func objectThen(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if n.block == nil {
		return Value{}, m.noBlock(n)
	}
	w, err := m.yield(n.block, v)
	if n.name == "tap" {
		return v, err
	}
	return w, err
}

// caseEqual is ===, by which case compares.
func (m *Machine) caseEqual(n node, pattern, v Value) (bool, error) {
	switch pattern.kind {
	case ConstKind:
		return isA(v.class(), pattern.s.s), nil
	case RegexpKind:
		if v.kind != String && v.kind != Symbol {
			m.last = nil
			return false, nil
		}
		x, err := m.find(n, pattern.o.x.re.re, v)
		return x != nil, err
	case RangeKind:
		hit, err := rangeCovers(m, nil, pattern, []Value{v})
		return hit.Truthy(), err
	case ProcKind:
		r, err := m.callProc(n, pattern.o.x.proc, []Value{v})
		return r.Truthy(), err
	}
	return m.equal(pattern, v), m.charge(n, 0)
}

func nilMethods() map[string]*method {
	return map[string]*method{
		"to_i": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return intValue(0), nil }},
		"to_f": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return floatValue(0), nil }},
		"to_a": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.array(nil), nil }},
		"to_h": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.hash(), nil }},
		"&":    {fn: boolOp, least: 1, most: 1}, "|": {fn: boolOp, least: 1, most: 1}, "^": {fn: boolOp, least: 1, most: 1},
	}
}

func boolMethods() map[string]*method {
	return map[string]*method{"&": {fn: boolOp, least: 1, most: 1}, "|": {fn: boolOp, least: 1, most: 1}, "^": {fn: boolOp, least: 1, most: 1}}
}

func boolOp(m *Machine, n *call, v Value, a []Value) (Value, error) {
	x, y := v.Truthy(), a[0].Truthy()
	switch n.name {
	case "&":
		return boolValue(x && y), nil
	case "|":
		return boolValue(x || y), nil
	}
	return boolValue(x != y), nil
}

func symbolMethods() map[string]*method {
	out := map[string]*method{
		"to_sym": {fn: itself}, "intern": {fn: itself}, "=~": {fn: stringAt, least: 1, most: 1}, "succ": {fn: symbolSucc}, "next": {fn: symbolSucc},
		"to_proc": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return Value{}, m.exceed(n, "to_proc is not supported")
		}},
		"name": {fn: objectToS}, "id2name": {fn: objectToS},
	}
	text := textMethods()
	for _, name := range []string{"upcase", "downcase", "capitalize", "swapcase"} {
		t := text[name]
		out[name] = &method{fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			s, err := t.fn(m, n, v, a)
			return m.symbol(s), err
		}}
	}
	basics, parts := stringBasics(), stringSlices()
	for _, name := range []string{"length", "size", "empty?", "start_with?", "end_with?", "<", "<=", ">", ">=", "between?", "clamp", "casecmp", "casecmp?", "match", "match?"} {
		out[name] = basics[name]
	}
	out["[]"], out["slice"] = parts["[]"], parts["[]"]
	return out
}

func procMethods() map[string]*method {
	callIt := &method{fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return m.callProc(n, v.o.x.proc, a) }, most: -1}
	return map[string]*method{
		"call": callIt, "()": callIt, "yield": callIt, "[]": callIt, "to_proc": {fn: itself},
		"lambda?": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) { return boolValue(v.o.x.proc.lambda), nil }},
		"arity": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return intValue(int64(len(v.o.x.proc.params))), nil
		}},
	}
}

func constMethods() map[string]*method {
	return map[string]*method{
		"name": {fn: objectToS},
		"<=": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return boolValue(isA(v.s.s, a[0].text())), nil
		}, least: 1, most: 1},
	}
}

func uriMethods() map[string]*method {
	part := func(f func(v Value) string) *method {
		return &method{fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			s := f(v)
			if s == "" && n.name != "path" {
				return Value{}, nil
			}
			return m.str(s), nil
		}}
	}
	return map[string]*method{
		"scheme":   part(func(v Value) string { return v.o.x.uri.Scheme }),
		"host":     part(uriHost),
		"hostname": part(func(v Value) string { return v.o.x.uri.Hostname() }),
		"path": part(func(v Value) string {
			if v.o.x.uri.Opaque != "" {
				return ""
			}
			return v.o.x.uri.EscapedPath()
		}),
		"query":    part(func(v Value) string { return v.o.x.uri.RawQuery }),
		"fragment": part(func(v Value) string { return v.o.x.uri.EscapedFragment() }),
		"opaque":   part(func(v Value) string { return v.o.x.uri.Opaque }),
		"userinfo": part(func(v Value) string {
			if v.o.x.uri.User == nil {
				return ""
			}
			return v.o.x.uri.User.String()
		}),
		"user": part(func(v Value) string { return v.o.x.uri.User.Username() }),
		"port": {fn: uriPort},
		"request_uri": part(func(v Value) string {
			u := v.o.x.uri
			if u.RawQuery == "" {
				return u.EscapedPath()
			}
			return u.EscapedPath() + "?" + u.RawQuery
		}),
	}
}

// uriHost is the host as Ruby gives it: an IPv6 address with its brackets.
func uriHost(v Value) string {
	h := v.o.x.uri.Hostname()
	if strings.Contains(h, ":") {
		return "[" + h + "]"
	}
	return h
}

func uriPort(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if port := v.o.x.uri.Port(); port != "" {
		return m.parseInt(n, port, 10)
	}
	port, ok := map[string]int64{"http": 80, "https": 443, "ftp": 21, "ldap": 389, "ldaps": 636, "ws": 80, "wss": 443}[v.o.x.uri.Scheme]
	if !ok {
		return Value{}, nil
	}
	return intValue(port), nil
}
