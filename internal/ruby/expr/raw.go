package expr

import (
	"encoding/binary"
	"math"

	"weir/internal/event"
)

// fromRaw makes a value of msgpack. Maps and arrays are not looked into before they are
// used.
func (m *Machine) fromRaw(b []byte) Value {
	if len(b) == 0 {
		return Value{}
	}
	switch c := b[0]; {
	case c == 0xc0:
		return Value{}
	case c == 0xc2 || c == 0xc3:
		return boolValue(c == 0xc3)
	case c == 0xca && len(b) >= 5:
		return floatValue(float64(math.Float32frombits(binary.BigEndian.Uint32(b[1:]))))
	case c == 0xcb && len(b) >= 9:
		return Value{kind: Float, bits: binary.BigEndian.Uint64(b[1:])}
	case c == 0xcf && len(b) >= 9 && b[1] >= 0x80:
		return Value{kind: Uint, bits: binary.BigEndian.Uint64(b[1:])}
	case c <= 0x7f || c >= 0xe0 || c >= 0xcc && c <= 0xd3:
		return intValue(rawInt(b))
	}
	if s, _, err := event.Bytes(b, 0); err == nil {
		v := m.str(view(s))
		if b[0] >= 0xc4 && b[0] <= 0xc6 {
			v.s.enc = binaryText
		}
		return v
	}
	v := Value{kind: RawKind, o: m.objects.get()}
	v.o.raw = b
	if _, _, err := event.MapHeader(b, 0); err == nil {
		v.kind = HashKind
	} else if _, _, err := event.ArrayHeader(b, 0); err == nil {
		v.kind = ArrayKind
	}
	return v
}

// rawInt reads an integer that fits 64 bits.
func rawInt(b []byte) int64 {
	p := b[1:]
	switch c := b[0]; {
	case c <= 0x7f:
		return int64(c)
	case c >= 0xe0:
		return int64(int8(c))
	case c == 0xcc && len(p) >= 1:
		return int64(p[0])
	case c == 0xd0 && len(p) >= 1:
		return int64(int8(p[0]))
	case c == 0xcd && len(p) >= 2:
		return int64(binary.BigEndian.Uint16(p))
	case c == 0xd1 && len(p) >= 2:
		return int64(int16(binary.BigEndian.Uint16(p)))
	case c == 0xce && len(p) >= 4:
		return int64(binary.BigEndian.Uint32(p))
	case c == 0xd2 && len(p) >= 4:
		return int64(int32(binary.BigEndian.Uint32(p)))
	case len(p) >= 8:
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// open reads one level of a map or an array whose content is needed as values.
func (m *Machine) open(o *object) {
	raw := o.raw
	if raw == nil {
		return
	}
	o.raw = nil
	n, i, err := event.MapHeader(raw, 0)
	isMap := err == nil
	if !isMap {
		if n, i, err = event.ArrayHeader(raw, 0); err != nil {
			return
		}
	}
	if n > len(raw) {
		return // cannot be: it has passed Check
	}
	o.items = m.values.get(n)
	if isMap {
		o.keys = m.values.get(n)
	}
	k := 0
	for range n {
		var key Value
		if isMap {
			end, err := event.Skip(raw, i)
			if err != nil {
				break
			}
			key = m.fromRaw(raw[i:end])
			i = end
		}
		end, err := event.Skip(raw, i)
		if err != nil {
			break
		}
		v := m.fromRaw(raw[i:end])
		i = end
		if isMap {
			if at := find(o.keys[:k], key); at >= 0 {
				o.items[at] = v // the key comes twice: the last value counts
				continue
			}
			o.keys[k] = key
		}
		o.items[k] = v
		k++
	}
	o.items = o.items[:k]
	if isMap {
		o.keys = o.keys[:k]
	}
	if o == m.subjects[subjectRecord].o && m.have[subjectRecord] && m.original == nil {
		// Result and record share their values, not their fields: keep the first ones.
		m.original = m.values.get(2 * k)
		copy(m.original, o.keys)
		copy(m.original[k:], o.items)
	}
}

// items gives the elements of an Array.
func (m *Machine) items(v Value) []Value {
	m.open(v.o)
	return v.o.items
}

// Changed returns what became of a top-level field of the record when an expression changed
// the value inside it; ok is false if the field is as it was. The value shares its memory
// with the Machine.
func (m *Machine) Changed(key []byte) (v Value, ok bool) {
	if !m.mutated || m.original == nil {
		return Value{}, false
	}
	n := len(m.original) / 2
	for i, k := range m.original[:n] {
		if k.kind == String && k.s.s == string(key) {
			switch v = m.original[n+i]; v.kind {
			case String:
				return v, true
			case ArrayKind, HashKind:
				return v, v.o.raw == nil
			}
			return Value{}, false
		}
	}
	return Value{}, false
}

// Mutated says whether an expression changed a value in place since Begin.
func (m *Machine) Mutated() bool { return m.mutated }

// Append appends v as msgpack. A Time is written as its text, since msgpack as Fluentd
// speaks it has none; so is any other object. The error says that v nests too deeply.
func (m *Machine) Append(dst []byte, v Value) ([]byte, error) {
	return m.appendRaw(dst, v, 0)
}

func (m *Machine) appendRaw(dst []byte, v Value, depth int) ([]byte, error) {
	switch v.kind {
	case Nil:
		return event.AppendNil(dst), nil
	case Bool:
		return event.AppendBool(dst, v.bits != 0), nil
	case Int:
		return event.AppendInt(dst, v.int()), nil
	case Uint:
		return event.AppendUint(dst, v.bits), nil
	case Float:
		return event.AppendFloat(dst, v.float()), nil
	case String:
		if v.s.enc == binaryText {
			return event.AppendBin(dst, bytesOf(v.s.s)), nil
		}
		return event.AppendStr(dst, v.s.s), nil
	case Symbol:
		return event.AppendStr(dst, v.s.s), nil
	case ArrayKind, HashKind, RawKind:
		return m.appendContainer(dst, v, depth)
	}
	return event.AppendStr(dst, v.ToS()), nil
}

func (m *Machine) appendContainer(dst []byte, v Value, depth int) ([]byte, error) {
	if v.o.raw != nil {
		return append(dst, v.o.raw...), nil
	}
	if depth == event.MaxDepth || len(dst) > 8*maxText {
		return dst, &Error{Text: "the value nests too deeply", Class: "ArgumentError"}
	}
	var err error
	if v.kind == ArrayKind {
		dst = event.AppendArrayHeader(dst, len(v.o.items))
	} else {
		dst = event.AppendMapHeader(dst, len(v.o.items))
	}
	for i, x := range v.o.items {
		if v.kind == HashKind {
			if dst, err = m.appendRaw(dst, v.o.keys[i], depth+1); err != nil {
				return dst, err
			}
		}
		if dst, err = m.appendRaw(dst, x, depth+1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// json writes v as Ruby's own JSON does.
func (m *Machine) json(n node, v Value) (Value, error) {
	if wrong := m.jsonable(v, 0); wrong != "" {
		return Value{}, m.raise(n, "JSON::GeneratorError", "%s", wrong)
	}
	if err := m.charge(n, 0); err != nil {
		return Value{}, err
	}
	raw, err := m.appendRaw(m.scratch[:0], v, 0)
	m.scratch = raw[:0]
	if err != nil {
		return Value{}, m.raise(n, "JSON::NestingError", "nesting of 100 is too deep")
	}
	if err := m.checkText(n, len(raw)/2); err != nil {
		return Value{}, err
	}
	return m.str(string(event.AppendJSON(nil, raw, event.Gem))), nil
}

// malformed is Ruby's word for a text that is not UTF-8.
const malformed = "source sequence is illegal/malformed utf-8"

// jsonable says why JSON cannot express v; "" if it can.
func (m *Machine) jsonable(v Value, depth int) string {
	switch v.kind {
	case Float:
		if f := v.float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return "920: " + formatFloat(f) + " not allowed in JSON"
		}
	case String:
		if v.s.enc != latin1Text && !valid(v.s.s) {
			return malformed
		}
	case ArrayKind, HashKind:
		if v.o.raw != nil {
			if !validRaw(v.o.raw) {
				return malformed
			}
			return ""
		}
		if m.steps++; depth > event.MaxDepth || m.steps > maxSteps {
			return "" // refused later
		}
		for _, x := range v.o.items {
			if wrong := m.jsonable(x, depth+1); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// validRaw says whether all strings of a msgpack value are UTF-8. The heads of values that
// are no strings may look like wrong bytes, so it walks.
func validRaw(b []byte) bool {
	if s, _, err := event.Bytes(b, 0); err == nil {
		return valid(view(s))
	}
	n, i, err := event.MapHeader(b, 0)
	if err == nil {
		n *= 2
	} else if n, i, err = event.ArrayHeader(b, 0); err != nil {
		return true
	}
	for range n {
		end, err := event.Skip(b, i)
		if err != nil || !validRaw(b[i:end]) {
			return false
		}
		i = end
	}
	return true
}

// parseJSON reads a text as JSON.parse does.
func (m *Machine) parseJSON(n node, s string) (Value, error) {
	raw, used, err := event.AppendFromJSON(nil, bytesOf(s))
	if err == nil {
		for used < len(s) && (s[used] == ' ' || s[used] == '\n' || s[used] == '\t' || s[used] == '\r') {
			used++
		}
	}
	if err != nil || used < len(s) {
		rest := s
		if err == nil {
			rest = s[used:]
		}
		return Value{}, m.raise(n, "JSON::ParserError", "859: unexpected token at '%s'", rest)
	}
	m.spent += len(raw)
	return m.fromRaw(raw), nil
}

// symbolize turns the keys of all hashes inside v into symbols.
func (m *Machine) symbolize(v Value) {
	if v.kind != ArrayKind && v.kind != HashKind {
		return
	}
	m.open(v.o)
	for i := range v.o.keys {
		if k := &v.o.keys[i]; k.kind == String {
			k.kind = Symbol
		}
	}
	for _, x := range v.o.items {
		m.symbolize(x)
	}
}

// nanos makes a point in time of seconds and nanoseconds; ok is false beyond the years
// 1678 to 2262, which is what 64 bits of nanoseconds hold.
func nanos(sec, ns int64) (int64, bool) {
	const most = math.MaxInt64 / 1_000_000_000
	if sec >= most || sec <= -most {
		return 0, false
	}
	return sec*1e9 + ns, true
}
