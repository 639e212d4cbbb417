package expr

// symbolSucc is the Symbol behind this one.
func symbolSucc(m *Machine, n *call, v Value, a []Value) (Value, error) {
	s, err := stringSucc(m, n, m.str(v.s.s), nil)
	if err != nil {
		return Value{}, err
	}
	return m.symbol(s.s.s), nil
}

// stringUpTo counts from one text to another, as succ does.
func stringUpTo(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return Value{}, m.exceed(n, "upto of a String is not supported")
}

// stringSucc is succ for texts of ASCII letters and digits; others are refused.
func stringSucc(m *Machine, n *call, v Value, a []Value) (Value, error) {
	b := []byte(v.s.s)
	for i := len(b) - 1; i >= 0; i-- {
		switch c := b[i]; {
		case c == 'z' || c == 'Z' || c == '9':
			first := map[byte]byte{'z': 'a', 'Z': 'A', '9': '0'}[c]
			b[i] = first
			if i == 0 {
				if first == '0' {
					first = '1'
				}
				return m.str(string(first) + string(b)), nil
			}
		case c >= 'a' && c < 'z' || c >= 'A' && c < 'Z' || c >= '0' && c < '9':
			b[i]++
			return m.str(string(b)), nil
		default:
			return Value{}, m.exceed(n, "succ of %s is not supported", v.Inspect())
		}
	}
	return m.str(""), nil
}
