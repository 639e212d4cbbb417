package expr

import (
	"math"
	"strings"
)

// classMethod is a method of a constant.
type classMethod struct {
	fn          func(m *Machine, n *constCall, a []Value) (Value, error)
	least, most int
}

// classes are the constants that may stand in an expression, with what may be called on
// them.
var classes = classTables()

func classTables() map[string]map[string]*classMethod {
	out := map[string]map[string]*classMethod{
		"ENV":    {"fetch": {envFetch, 1, 2}, "[]": {envFetch, 1, 1}, "key?": {envFetch, 1, 1}, "has_key?": {envFetch, 1, 1}, "include?": {envFetch, 1, 1}},
		"Socket": {"gethostname": {func(m *Machine, n *constCall, a []Value) (Value, error) { return m.str(m.env.Hostname), nil }, 0, 0}},
		"File": {"join": {fileJoin, 0, -1}, "read": {fileRead, 1, 1}, "open": {fileRead, 1, 2}, "readlines": {fileRead, 1, 1}, "exist?": {fileExists, 1, 1}, "file?": {fileExists, 1, 1},
			"basename": {filePart, 1, 2}, "dirname": {filePart, 1, 1}, "extname": {filePart, 1, 1}},
		"IO": {"read": {fileRead, 1, 1}},
		"Time": {"now": {timeNow, 0, 0}, "at": {timeAt, 1, 4}, "new": {timeNew, 0, 7}, "local": {timeNew, 1, 6}, "mktime": {timeNew, 1, 6}, "utc": {timeNew, 1, 6}, "gm": {timeNew, 1, 6},
			"parse": {timeParse, 1, 1}, "iso8601": {timeParse, 1, 1}, "xmlschema": {timeParse, 1, 1}, "strptime": {timeStrptime, 2, 2}},
		"JSON": {"parse": {jsonParse, 1, 2}, "load": {jsonParse, 1, 1}, "generate": {jsonGenerate, 1, 2}, "dump": {jsonGenerate, 1, 1}},
		"Oj":   {"load": {jsonParse, 1, 2}, "dump": {jsonGenerate, 1, 2}},
		"Yajl": {}, "Yajl::Parser": {"parse": {jsonParse, 1, 1}}, "Yajl::Encoder": {"encode": {jsonGenerate, 1, 1}},
		"SecureRandom": {"uuid": {secureRandom, 0, 0}, "hex": {secureRandom, 0, 1}, "random_number": {secureRandom, 0, 1}, "alphanumeric": {secureRandom, 0, 1}, "base64": {secureRandom, 0, 1}, "urlsafe_base64": {secureRandom, 0, 1}},
		"Random":       {"rand": {randomRand, 0, 1}},
		"Process":      {"pid": {func(m *Machine, n *constCall, a []Value) (Value, error) { return intValue(int64(m.env.PID)), nil }, 0, 0}},
		"CGI":          {"escape": {webText, 1, 1}, "unescape": {webText, 1, 1}, "escapeHTML": {webText, 1, 1}, "unescapeHTML": {webText, 1, 1}, "escape_html": {webText, 1, 1}},
		"URI":          {"parse": {uriParse, 1, 1}, "encode_www_form_component": {webText, 1, 1}, "decode_www_form_component": {webText, 1, 1}, "encode_www_form": {webForm, 1, 1}, "decode_www_form": {webForm, 1, 1}},
		"Base64":       {"encode64": {base64Text, 1, 1}, "strict_encode64": {base64Text, 1, 1}, "urlsafe_encode64": {base64Text, 1, 2}, "decode64": {base64Text, 1, 1}, "strict_decode64": {base64Text, 1, 1}, "urlsafe_decode64": {base64Text, 1, 1}},
		"IPAddr":       {"new": {ipAddress, 1, 1}}, "Zlib": {"crc32": {checksum, 1, 1}},
		"Regexp":  {"escape": {regexpText, 1, 1}, "quote": {regexpText, 1, 1}, "new": {regexpNew, 1, 2}, "union": {regexpUnion, 0, -1}, "last_match": {regexpLast, 0, 1}},
		"Hash":    {"new": {hashNew, 0, 1}, "[]": {hashFrom, 1, 1}},
		"Array":   {"new": {arrayNew, 0, 2}},
		"String":  {"new": {stringNew, 0, 1}},
		"Integer": {"sqrt": {mathFunc, 1, 1}},
		"Digest":  {}, "Float": {}, "Kernel": {}, "Encoding": {}, "Comparable": {}, "Numeric": {}, "Object": {}, "BasicObject": {},
		"Math": {"sqrt": {mathFunc, 1, 1}, "log": {mathFunc, 1, 2}, "log2": {mathFunc, 1, 1}, "log10": {mathFunc, 1, 1}, "exp": {mathFunc, 1, 1}, "hypot": {mathFunc, 2, 2}},
	}
	for _, name := range []string{"Digest::MD5", "Digest::SHA1", "Digest::SHA256", "Digest::SHA384", "Digest::SHA512"} {
		out[name] = map[string]*classMethod{"hexdigest": {digest, 1, 1}, "base64digest": {digest, 1, 1}}
	}
	for class := range parents {
		if out[class] == nil {
			out[class] = map[string]*classMethod{}
		}
		if exceptionClass(class) {
			out[class]["new"] = &classMethod{exceptionNew, 0, 1}
		}
	}
	for _, methods := range out {
		for _, name := range []string{"to_s", "name", "inspect"} {
			methods[name] = &classMethod{constName, 0, 0}
		}
		for _, name := range []string{"==", "===", "class"} {
			methods[name] = &classMethod{constCompare, 0, 1}
		}
	}
	return out
}

func knownConstant(name string) bool { return classes[name] != nil }

func knownClassMethod(class, name string) bool { return classes[class][name] != nil }

// constantValue gives the constants that are plain values.
func constantValue(name string) (Value, bool) {
	switch name {
	case "Float::INFINITY":
		return floatValue(math.Inf(1)), true
	case "Float::NAN":
		return floatValue(math.NaN()), true
	case "Float::MAX":
		return floatValue(math.MaxFloat64), true
	case "Float::EPSILON":
		return floatValue(math.Nextafter(1, 2) - 1), true
	case "Math::PI":
		return floatValue(math.Pi), true
	case "Math::E":
		return floatValue(math.E), true
	case "File::SEPARATOR":
		return Value{kind: Symbol, s: &text{s: "/"}}, true
	case "Regexp::IGNORECASE":
		return intValue(1), true
	case "Regexp::EXTENDED":
		return intValue(2), true
	case "Regexp::MULTILINE":
		return intValue(4), true
	}
	if e, ok := strings.CutPrefix(name, "Encoding::"); ok {
		if _, known := encodingOf(Value{kind: String, s: &text{s: e}}); known {
			return Value{kind: ConstKind, s: &text{s: strings.ReplaceAll(e, "_", "-")}}, true
		}
	}
	return Value{}, false
}

// classCall makes the call of a method on a constant.
func (p *parser) classCall(k *constant, c *call) (node, error) {
	fn := classes[k.name][c.name]
	if fn == nil {
		return nil, p.fail(k.off, k.name+"."+c.name+" is not supported")
	}
	if p.event && (k.name == "File" || k.name == "IO") && (c.name == "read" || c.name == "open" || c.name == "readlines" || strings.HasSuffix(c.name, "?")) {
		return nil, p.fail(k.off, k.name+"."+c.name+" is not supported here: a file would be read for each event")
	}
	if c.pass != nil {
		return nil, p.fail(c.off, "a block argument is not supported for "+k.name+"."+c.name)
	}
	return &constCall{off: c.off, recv: k.name, name: c.name, args: c.args, block: c.block, fn: fn}, nil
}

func constName(m *Machine, n *constCall, a []Value) (Value, error) { return m.str(n.recv), nil }

func constCompare(m *Machine, n *constCall, a []Value) (Value, error) {
	switch {
	case n.name == "class":
		return m.constValue("Class"), nil
	case len(a) == 0:
		return Value{}, m.wrongCount(n, 0, 1, 1)
	case n.name == "===":
		return boolValue(isA(a[0].class(), n.recv)), nil
	}
	return boolValue(a[0].kind == ConstKind && a[0].s.s == n.recv), nil
}

func exceptionNew(m *Machine, n *constCall, a []Value) (Value, error) {
	v, x := m.withExtra(ErrorKind)
	text := n.recv
	if len(a) == 1 {
		text = a[0].ToS()
	}
	x.err = &Error{Expr: m.prog.text, Off: n.off, Text: text, Class: n.recv}
	return v, nil
}

// envFetch evaluates ENV[…], ENV.fetch and their like.
func envFetch(m *Machine, n *constCall, a []Value) (Value, error) {
	if a[0].kind != String {
		return Value{}, m.noConversion(n, a[0], "String")
	}
	if m.env.Lookup == nil {
		return Value{}, m.exceed(n, "environment variables are not available here")
	}
	s, ok := m.env.Lookup(a[0].s.s)
	switch n.name {
	case "[]":
		if !ok {
			return Value{}, nil
		}
		return m.str(s), nil
	case "fetch":
		switch {
		case ok:
			return m.str(s), nil
		case n.block != nil:
			return m.yield(n.block, a[0])
		case len(a) == 2:
			return a[1], nil
		}
		return Value{}, m.raise(n, "KeyError", "key not found: %s: set this environment variable or give ENV.fetch a default", a[0].Inspect())
	}
	return boolValue(ok), nil
}

// fileJoin joins with single slashes.
func fileJoin(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a...); err != nil {
		return Value{}, err
	}
	var b strings.Builder
	for i, v := range a {
		s := v.s.s
		if i > 0 {
			if strings.HasSuffix(b.String(), "/") {
				s = strings.TrimLeft(s, "/")
			} else if !strings.HasPrefix(s, "/") {
				b.WriteByte('/')
			}
		}
		b.WriteString(s)
	}
	return m.str(b.String()), nil
}

// fileRead is read, and open, whose File is here the text that its read gives.
func fileRead(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	if m.env.ReadFile == nil {
		return Value{}, m.exceed(n, "files are not available here")
	}
	if len(a) == 2 && a[1].text() != "r" && a[1].text() != "rb" {
		return Value{}, m.exceed(n, "a file may only be read")
	}
	b, err := m.env.ReadFile(a[0].s.s)
	if err != nil {
		return Value{}, m.raise(n, "Errno::ENOENT", "%v", err)
	}
	v := m.str(string(b))
	switch {
	case n.name == "readlines":
		return stringChars(m, &call{off: n.off, name: "lines"}, v, nil)
	case n.name == "open" && n.block != nil:
		return m.yield(n.block, v)
	}
	return v, nil
}

func fileExists(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	if m.env.ReadFile == nil {
		return Value{}, m.exceed(n, "files are not available here")
	}
	_, err := m.env.ReadFile(a[0].s.s)
	return boolValue(err == nil), nil
}

// filePart is basename, dirname and extname.
func filePart(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a...); err != nil {
		return Value{}, err
	}
	s := strings.TrimRight(a[0].s.s, "/")
	i := strings.LastIndexByte(s, '/')
	if n.name == "dirname" {
		switch {
		case i < 0 && s != a[0].s.s && s == "":
			return m.str("/"), nil
		case i < 0:
			return m.str("."), nil
		case strings.TrimRight(s[:i], "/") == "":
			return m.str("/"), nil
		}
		return m.str(strings.TrimRight(s[:i], "/")), nil
	}
	base := s[i+1:]
	dot := strings.LastIndexByte(base, '.')
	if n.name == "extname" {
		if dot <= 0 || dot == len(base)-1 {
			return m.str(""), nil
		}
		return m.str(base[dot:]), nil
	}
	if len(a) == 2 {
		if a[1].s.s == ".*" && dot > 0 {
			base = base[:dot]
		} else if rest := strings.TrimSuffix(base, a[1].s.s); rest != "" {
			base = rest
		}
	}
	return m.str(base), nil
}

func jsonParse(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	v, err := m.parseJSON(n, a[0].s.s)
	if e, ok := err.(*Error); ok && n.recv != "JSON" {
		e.Class = map[string]string{"Oj": "Oj::ParseError", "Yajl::Parser": "Yajl::ParseError"}[n.recv]
	}
	if err != nil || len(a) == 1 || a[1].kind != HashKind {
		return v, err
	}
	for _, name := range []string{"symbolize_names", "symbol_keys"} {
		if on, _ := m.get(a[1].o, m.symbol(name)); on.Truthy() {
			m.symbolize(v)
		}
	}
	return v, nil
}

func jsonGenerate(m *Machine, n *constCall, a []Value) (Value, error) { return m.json(n, a[0]) }

// hashNew is Hash.new with a default or a block that makes it.
func hashNew(m *Machine, n *constCall, a []Value) (Value, error) {
	h := m.hash()
	if len(a) == 1 || n.block != nil {
		h.o.x = m.extras.get()
		h.o.x.proc = n.block
		if len(a) == 1 {
			h.o.x.deflt = a[0]
		}
	}
	return h, nil
}

func hashFrom(m *Machine, n *constCall, a []Value) (Value, error) {
	c := &call{off: n.off, name: "to_h"}
	if a[0].kind == HashKind {
		return copyItems(m, c, a[0], nil)
	}
	if err := m.need(n, ArrayKind, a[0]); err != nil {
		return Value{}, err
	}
	return enumToH(m, c, a[0], nil)
}

func arrayNew(m *Machine, n *constCall, a []Value) (Value, error) {
	if len(a) == 0 {
		return m.array(nil), nil
	}
	if a[0].kind == ArrayKind {
		return copyItems(m, &call{off: n.off}, a[0], nil)
	}
	size, err := m.intArg(n, a[0])
	if err == nil {
		err = m.checkItems(n, size)
	}
	if err != nil {
		return Value{}, err
	}
	items := m.values.get(size)
	for i := range items {
		if n.block != nil {
			if items[i], err = m.yield(n.block, intValue(int64(i))); err != nil {
				return Value{}, err
			}
		} else if len(a) == 2 {
			items[i] = a[1]
		}
	}
	return m.array(items), nil
}

func stringNew(m *Machine, n *constCall, a []Value) (Value, error) {
	if len(a) == 0 {
		return m.str(""), nil
	}
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	return m.copyOf(a[0]), nil
}

func mathFunc(m *Machine, n *constCall, a []Value) (Value, error) {
	for _, v := range a {
		if v.kind == Uint {
			return Value{}, m.exceed(n, "integers of more than 64 bits are not supported")
		}
		if !v.number() {
			return Value{}, m.raise(n, "TypeError", "can't convert %s into Float", v.class())
		}
	}
	if err := m.charge(n, preciseSteps); err != nil {
		return Value{}, err
	}
	x := a[0].asFloat()
	switch n.name {
	case "sqrt":
		if x < 0 {
			return Value{}, m.raise(n, "ArgumentError", `Numerical argument is out of domain - "sqrt"`)
		}
		if n.recv == "Integer" {
			return intValue(int64(math.Sqrt(x))), nil
		}
		x = math.Sqrt(x)
	case "log":
		x = precise("log", x)
		if len(a) == 2 {
			x /= precise("log", a[1].asFloat())
		}
	case "log2", "log10", "exp":
		x = precise(n.name, x)
	case "pow":
		x = pow(x, a[1].asFloat())
	case "hypot":
		x = hypot(x, a[1].asFloat())
	}
	return floatValue(x), nil
}
