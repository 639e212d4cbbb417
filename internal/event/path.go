package event

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrPath marks an error of ParsePath.
var ErrPath = errors.New("bad record accessor")

// Path says where in a record a value stands: Fluentd's record accessor, compiled. The
// zero Path is the empty key.
type Path struct {
	text  string
	first step
	rest  []step
}

// step is a key of a map or an index of an array.
type step struct {
	key     string
	index   int // negative counts from the end
	isIndex bool
}

// ParsePath compiles a record accessor: a plain key (dots included), $.a.b[0].c, or
// $['a.b']["c"][0]. An error wraps ErrPath and says what is wrong.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	var steps []step
	var err error
	switch {
	case strings.HasPrefix(text, "$."):
		steps, err = parseDots(text[2:])
	case strings.HasPrefix(text, "$["):
		steps, err = parseBrackets(text[1:])
	default:
		p.first.key = text
		return p, nil
	}
	if err != nil {
		return Path{}, fmt.Errorf("%w %q: %w", ErrPath, text, err)
	}
	p.first, p.rest = steps[0], steps[1:]
	return p, nil
}

// KeyPath is the path of one top-level key, whatever characters it has.
func KeyPath(key string) Path { return Path{text: key, first: step{key: key}} }

// parseDots reads a.b[0].c. As in Fluentd dots at the end do not count, and what stands
// between two others is an empty name.
func parseDots(text string) ([]step, error) {
	var steps []step
	if text = strings.TrimRight(text, "."); text == "" {
		return nil, errors.New("there is no name")
	}
	for part := range strings.SplitSeq(text, ".") {
		name, brackets := part, ""
		if open := strings.IndexByte(part, '['); open >= 0 {
			name, brackets = part[:open], part[open:]
		}
		if strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("the name %q has blanks; write $['…'] instead", name)
		}
		if name != "" || brackets == "" {
			steps = append(steps, step{key: name})
		}
		for brackets != "" {
			inside, rest, ok := strings.Cut(brackets[1:], "]")
			if !ok || rest != "" && rest[0] != '[' {
				return nil, fmt.Errorf("%q is not [number]", brackets)
			}
			n, err := strconv.Atoi(inside)
			if err != nil {
				return nil, fmt.Errorf("[%s] is not [number]; write $['…'] for a key", inside)
			}
			steps = append(steps, step{index: n, isIndex: true})
			brackets = rest
		}
	}
	return steps, nil
}

// parseBrackets reads ['a']["b"][0].
func parseBrackets(text string) ([]step, error) {
	var steps []step
	for text != "" {
		if text[0] != '[' {
			return nil, fmt.Errorf("%q stands where [ is expected", text)
		}
		text = text[1:]
		if text == "" {
			return nil, errors.New("nothing stands behind the last [")
		}
		if q := text[0]; q == '\'' || q == '"' {
			end := strings.Index(text[1:], string(q)+"]")
			if end < 0 {
				return nil, fmt.Errorf("the key that begins with %c has no %c] at its end", q, q)
			}
			steps = append(steps, step{key: text[1 : 1+end]})
			text = text[end+3:]
			continue
		}
		inside, rest, ok := strings.Cut(text, "]")
		n, err := strconv.Atoi(inside)
		if !ok || err != nil {
			return nil, fmt.Errorf("%q is neither a quoted key nor a number followed by ]", text)
		}
		steps = append(steps, step{index: n, isIndex: true})
		text = rest
	}
	return steps, nil
}

// String is the text that the path was compiled from.
func (p Path) String() string { return p.text }

// Key returns the key if the path is one top-level key.
func (p Path) Key() (key string, ok bool) {
	return p.first.key, len(p.rest) == 0 && !p.first.isIndex
}

// Find returns the raw msgpack value at the path. ok is false if there is none: a missing
// key, an index beyond the end, or something in between that is no container. It does not
// allocate; value points into record. Of a key that a map has twice the last one counts.
func (p Path) Find(record []byte) (value []byte, ok bool) {
	value, ok = p.first.find(record)
	for i := 0; ok && i < len(p.rest); i++ {
		value, ok = p.rest[i].find(value)
	}
	return value, ok
}

// Dig is Find with Ruby's difference: through says that there is no value because the way
// goes through something that is no container, or into an array by a name.
func (p Path) Dig(record []byte) (value []byte, ok, through bool) {
	value, ok = p.first.find(record)
	for i := 0; ok && i < len(p.rest); i++ {
		inside := value
		if value, ok = p.rest[i].find(inside); !ok {
			c := inside[0]
			return nil, false, c != 0xc0 && !IsMap(c) && (!isArray(c) || !p.rest[i].isIndex)
		}
	}
	return value, ok, false
}

func (s *step) find(b []byte) (value []byte, ok bool) {
	if !s.isIndex {
		return FindKey(b, s.key)
	}
	n, i, err := ArrayHeader(b, 0)
	if err != nil {
		return nil, false
	}
	at := s.index
	if at < 0 {
		at += n
	}
	if at < 0 || at >= n {
		return nil, false
	}
	if i, err = skip(b, i, at, 1); err != nil {
		return nil, false
	}
	end, err := skip(b, i, 1, 1)
	if err != nil {
		return nil, false
	}
	return b[i:end], true
}

// FindKey returns the raw value of a key of a map. ok is false if the map has no such key
// or record is no map. It does not allocate; value points into record. Of a key that the
// map has twice the last one counts.
func FindKey(record []byte, key string) (value []byte, ok bool) {
	n, i, err := MapHeader(record, 0)
	if err != nil {
		return nil, false
	}
	for ; n > 0; n-- {
		k, next, err := Bytes(record, i)
		if err != nil {
			if next, err = skip(record, i, 1, 1); err != nil {
				return value, ok
			}
		}
		end, err := skip(record, next, 1, 1)
		if err != nil {
			return value, ok
		}
		if len(k) == len(key) && string(k) == key && k != nil {
			value, ok = record[next:end], true
		}
		i = end
	}
	return value, ok
}

// FindPair looks among n keys with values, from b[i] on, for the first with this key; key and
// value are b[from:to]. What is malformed holds no key.
func FindPair(b []byte, i, n int, key []byte) (from, to int, ok bool) {
	for ; n > 0; n-- {
		k, value, err := Bytes(b, i)
		if err != nil {
			return 0, 0, false
		}
		end, err := Skip(b, value)
		if err != nil {
			return 0, 0, false
		}
		if bytes.Equal(k, key) {
			return i, end, true
		}
		i = end
	}
	return 0, 0, false
}
