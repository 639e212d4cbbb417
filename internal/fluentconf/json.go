package fluentconf

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"weir/internal/event"
)

// json reads a value that begins with '[' or '{': JSON that may span lines, with comments
// and embedded Ruby, and gives it in compact form.
func (p *parser) json() (Value, bool) {
	start := p.pos
	kind := "array"
	if p.text[start] == '{' {
		kind = "hash"
	}
	v := Value{Pos: p.at(start)}
	clean, ok, closed := p.jsonText(&v.State)
	if !ok {
		return Value{}, false
	}
	var err error
	if closed {
		v.Text, err = compact(clean)
	}
	if !closed || err != nil {
		if v.State != Text && closed {
			v.Text = ""
			return v, true
		}
		p.failAt(start, "a value that begins with [ or { is read as JSON; put another text in quotes", "got incomplete JSON %s configuration", kind)
		p.pos = start
		return Value{}, false
	}
	return v, true
}

// jsonText collects the text of a JSON value up to its last bracket, without comments and
// with embedded Ruby evaluated.
func (p *parser) jsonText(state *State) (text string, ok, closed bool) {
	var b strings.Builder
	ok = true
	depth, inString := 0, false
	for !p.eof() {
		c := p.text[p.pos]
		switch {
		case c == '#' && strings.HasPrefix(p.text[p.pos:], "#{"):
			t, st, good := p.embedded()
			ok = ok && good
			if st != Text {
				*state = st
			}
			if inString {
				t = escapeInString(t)
			}
			b.WriteString(t)
			continue
		case inString:
			if c == '\\' && p.pos+1 < len(p.text) {
				b.WriteByte(c)
				p.pos++
				c = p.text[p.pos]
			} else if c == '"' {
				inString = false
			}
		case c == '#':
			p.toLineEnd()
			continue
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
		b.WriteByte(c)
		p.pos++
		if depth == 0 {
			return b.String(), ok, true
		}
	}
	return "", ok, false
}

// escapeInString makes a text safe inside a JSON string when it is not already.
func escapeInString(s string) string {
	if json.Valid([]byte(`"` + s + `"`)) {
		return s
	}
	q := quoteJSON(s)
	return q[1 : len(q)-1]
}

// quoteJSON writes a JSON string as Ruby does: without escaping of <, > and &.
func quoteJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	q := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(q)
}

// compact parses JSON and writes it again without white space, as Ruby's JSON does: keys
// in order, the last of equal keys counts, floats in Ruby's form.
func compact(text string) (string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	if err := compactValue(d, &b); err != nil {
		return "", err
	}
	if _, err := d.Token(); err != io.EOF {
		return "", fmt.Errorf("more than one value")
	}
	return b.String(), nil
}

func compactValue(d *json.Decoder, b *strings.Builder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return compactArray(d, b)
		}
		return compactObject(d, b)
	case string:
		b.WriteString(quoteJSON(t))
	case json.Number:
		b.WriteString(rubyNumber(string(t)))
	case bool:
		b.WriteString(strconv.FormatBool(t))
	default:
		b.WriteString("null")
	}
	return nil
}

func compactArray(d *json.Decoder, b *strings.Builder) error {
	b.WriteByte('[')
	for i := 0; d.More(); i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := compactValue(d, b); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	_, err := d.Token()
	return err
}

func compactObject(d *json.Decoder, b *strings.Builder) error {
	var keys []string
	values := map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string) // the decoder admits nothing else here
		var v strings.Builder
		if err := compactValue(d, &v); err != nil {
			return err
		}
		if _, ok := values[key]; !ok {
			keys = append(keys, key)
		}
		values[key] = v.String()
	}
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoteJSON(k) + ":" + values[k])
	}
	b.WriteByte('}')
	_, err := d.Token()
	return err
}

// rubyNumber writes a JSON number as Ruby prints it: integers as they are, floats always
// with a fraction, with an exponent outside 1e-4 … 1e15.
func rubyNumber(n string) string {
	if !strings.ContainsAny(n, ".eE") {
		if n == "-0" {
			return "0"
		}
		return n
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil || math.IsInf(f, 0) {
		return n
	}
	return string(event.AppendFloatText(nil, f))
}
