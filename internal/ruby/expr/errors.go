package expr

// parents gives the parent of each class that we know, as far as rescue and is_a? need it.
var parents = map[string]string{
	"StandardError": "Exception", "ArgumentError": "StandardError", "TypeError": "StandardError", "NameError": "StandardError", "NoMethodError": "NameError",
	"RuntimeError": "StandardError", "FrozenError": "RuntimeError", "IndexError": "StandardError", "KeyError": "IndexError", "StopIteration": "IndexError",
	"RangeError": "StandardError", "Math::DomainError": "ArgumentError", "FloatDomainError": "RangeError", "ZeroDivisionError": "StandardError", "RegexpError": "StandardError",
	"LocalJumpError": "StandardError", "IOError": "StandardError", "EncodingError": "StandardError", "SystemCallError": "StandardError",
	"Errno::ENOENT": "SystemCallError", "JSON::JSONError": "StandardError", "JSON::ParserError": "JSON::JSONError", "JSON::GeneratorError": "JSON::JSONError",
	"JSON::NestingError": "JSON::ParserError", "URI::Error": "StandardError", "URI::InvalidURIError": "URI::Error", "UncaughtThrowError": "ArgumentError",
	"Encoding::UndefinedConversionError": "EncodingError", "Encoding::InvalidByteSequenceError": "EncodingError", "Encoding::ConverterNotFoundError": "EncodingError",
	"Encoding::CompatibilityError": "EncodingError", "SystemStackError": "Exception", "NotImplementedError": "Exception", "Exception": "Object",
	"Timeout::Error": "RuntimeError",
	"IPAddr::Error":  "ArgumentError", "IPAddr::InvalidAddressError": "IPAddr::Error", "Yajl::ParseError": "StandardError", "Oj::ParseError": "StandardError",
	"Integer": "Numeric", "Float": "Numeric", "Numeric": "Comparable", "String": "Comparable", "Time": "Comparable", "Symbol": "Object", "Array": "Enumerable", "Hash": "Enumerable", "Range": "Enumerable",
	"NilClass": "Object", "TrueClass": "Object", "FalseClass": "Object", "Regexp": "Object", "MatchData": "Object", "Proc": "Object", "Comparable": "Object", "Enumerable": "Object",
	"Class": "Object", "URI::Generic": "Object", "IPAddr": "Object", "URI::HTTP": "URI::Generic", "Kernel": "Object",
}

// isA says whether a class is, or comes from, another.
func isA(class, ancestor string) bool {
	if ancestor == "Object" || ancestor == "BasicObject" || ancestor == "Kernel" {
		return true
	}
	for class != "" && class != "Object" {
		if class == ancestor {
			return true
		}
		class = parents[class]
	}
	return false
}

// exceptionClass says whether a class is one of exceptions.
func exceptionClass(name string) bool { return name != "Object" && isA(name, "Exception") }

func errorMethods() map[string]*method {
	return map[string]*method{
		"message":      {fn: errorText},
		"to_s":         {fn: errorText},
		"full_message": {fn: errorText, most: -1},
		"backtrace":    {fn: func(m *Machine, n *call, recv Value, a []Value) (Value, error) { return m.array(nil), nil }},
	}
}

func errorText(m *Machine, n *call, recv Value, a []Value) (Value, error) {
	return m.str(recv.o.x.err.Text), nil
}

// raiseArgs is what raise does: a message, or a class and a message, or an exception.
func raiseArgs(m *Machine, n *function, a []Value) (Value, error) {
	if len(a) == 0 {
		return Value{}, m.raise(n, "RuntimeError", "unhandled exception")
	}
	switch v := a[0]; v.kind {
	case String:
		return Value{}, m.raise(n, "RuntimeError", "%s", v.s.s)
	case ErrorKind:
		return Value{}, v.o.x.err
	case ConstKind:
		if !exceptionClass(v.s.s) {
			break
		}
		text := v.s.s
		if len(a) > 1 {
			text = a[1].ToS()
		}
		return Value{}, m.raise(n, v.s.s, "%s", text)
	}
	return Value{}, m.raise(n, "TypeError", "exception class/object expected")
}
