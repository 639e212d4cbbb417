package fluentconf

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar is a YAML scalar as Ruby's YAML 1.1 library understands it.
type scalar struct {
	text  string // as Ruby's to_s gives it
	state State
	bare  bool // in JSON it stands without quotes: a number, true, false, null
	wrong bool // there was an error
}

// The forms of YAML 1.1 that Ruby's library knows.
var (
	yamlInt   = regexp.MustCompile(`^[-+]?(0|[1-9](_?[0-9]|,[0-9])*)$`)
	yamlOctal = regexp.MustCompile(`^[-+]?0[0-7_,]+$`)
	yamlBin   = regexp.MustCompile(`^[-+]?0b[01_,]+$`)
	yamlHex   = regexp.MustCompile(`^[-+]?0x[0-9a-fA-F_,]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?([0-9][0-9_,]*)?\.[0-9]*([eE][-+][0-9]+)?$`)
	yamlSixty = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9]){1,2}(\.[0-9_]*)?$`)
	yamlDate  = regexp.MustCompile(`^([0-9]{4})-(1[012]|0[0-9]|[0-9])-([12][0-9]|3[01]|0[0-9]|[0-9])$`)
	yamlTime  = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?([ \t]*(Z|[-+][0-9]{1,2}:?([0-9]{2})?))?$`)
)

func isNull(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0 &&
		(n.Value == "" || n.Value == "~" || strings.EqualFold(n.Value, "null"))
}

// scalar reads a scalar by its tag, or a plain one by its form.
func (y *yamlFile) scalar(n *yaml.Node, depth int) scalar {
	if !y.count(n, depth) {
		return scalar{}
	}
	if n.Kind != yaml.ScalarNode {
		y.fail(y.at(n), "a single value is to stand here", "write one text or number")
		return scalar{}
	}
	if n.Style&yaml.TaggedStyle != 0 {
		return y.tagged(n)
	}
	if isNull(n) {
		return scalar{state: UseNil, bare: true}
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return scalar{text: n.Value}
	}
	return y.plainScalar(n)
}

// tagged reads a scalar with a tag of its own.
func (y *yamlFile) tagged(n *yaml.Node) scalar {
	switch n.Tag {
	case "!fluent/s":
		return y.ruby(n)
	case "!fluent/json":
		return scalar{text: n.Value}
	case "!include":
		y.fail(y.at(n), "!include cannot stand here", "include where a section, a map or a list stands")
		return scalar{}
	case "!ruby/regexp", "!ruby/symbol", "!ruby/sym", "!!str", "!str", "!":
		return scalar{text: n.Value}
	case "!!int", "!!float", "!!bool", "!!null", "!!timestamp":
		return y.plainScalar(n)
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			y.fail(y.at(n), "the value is not base64", "remove the tag !!binary, or correct the text")
		}
		return scalar{text: string(data)}
	}
	y.fail(y.at(n), fmt.Sprintf("the tag %s is not supported", n.Tag), "the tags are !include, !fluent/s and !fluent/json")
	return scalar{}
}

// plainScalar reads an unquoted scalar.
func (y *yamlFile) plainScalar(n *yaml.Node) scalar {
	s := strings.TrimSpace(n.Value)
	switch strings.ToLower(s) {
	case "yes", "true", "on":
		return scalar{text: "true", bare: true}
	case "no", "false", "off":
		return scalar{text: "false", bare: true}
	case "", "~", "null":
		return scalar{state: UseNil, bare: true}
	case ".nan":
		return scalar{text: "NaN"}
	case ".inf", "+.inf":
		return scalar{text: "Infinity"}
	case "-.inf":
		return scalar{text: "-Infinity"}
	}
	if text, ok := yamlNumber(s); ok {
		if text != s && yamlOctal.MatchString(s) {
			y.warn(y.at(n), fmt.Sprintf("%s is an octal number in YAML: %s", s, text), fmt.Sprintf("write %q in quotes if the digits are meant", s))
		}
		return scalar{text: text, bare: true}
	}
	if len(s) <= 64 && yamlSixty.MatchString(s) {
		text := sixties(s)
		y.warn(y.at(n), fmt.Sprintf("%s is a number of base 60 in YAML: %s", s, text), "put it in quotes")
		return scalar{text: text, bare: true}
	}
	if m := yamlDate.FindStringSubmatch(s); m != nil {
		y.warn(y.at(n), s+" is a date in YAML", "put it in quotes")
		return scalar{text: fmt.Sprintf("%s-%02s-%02s", m[1], m[2], m[3])}
	}
	if yamlTime.MatchString(s) {
		y.warn(y.at(n), s+" is a time in YAML", "put it in quotes")
		return scalar{text: rubyTime(s)}
	}
	if len(s) > 1 && s[0] == ':' {
		s = strings.Trim(s[1:], `"'`) // a symbol
		return scalar{text: s}
	}
	return scalar{text: s}
}

// yamlNumber gives a number of YAML 1.1 in decimal, as Ruby prints it.
func yamlNumber(s string) (text string, ok bool) {
	if len(s) > 64 || !strings.ContainsRune("+-.0123456789", rune(s[0])) { // no parameter takes a longer one, and reading it is slow
		return "", false
	}
	digits := strings.NewReplacer("_", "", ",", "").Replace(s)
	base := 0
	switch {
	case yamlInt.MatchString(s):
		base = 10
	case yamlOctal.MatchString(s):
		base = 8
	case yamlBin.MatchString(s), yamlHex.MatchString(s):
		base = 0
	case yamlFloat.MatchString(s):
		if strings.Trim(digits, "+-.") == "" {
			return "", false
		}
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return "", false
		}
		text = strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return rubyNumber(text), true
	default:
		return "", false
	}
	v, good := new(big.Int).SetString(digits, base)
	if !good {
		return "", false
	}
	return v.String(), true
}

// sixties is a number of base 60 as Ruby's YAML reads it: the first part counts hours, also
// when there are only two.
func sixties(s string) string {
	sum := new(big.Rat)
	for i, part := range strings.Split(s, ":") {
		part = strings.TrimSuffix(strings.ReplaceAll(part, "_", ""), ".")
		if v, ok := new(big.Rat).SetString(part); ok {
			sum.Add(sum, v.Mul(v, big.NewRat([]int64{3600, 60, 1}[i], 1)))
		}
	}
	if !strings.Contains(s, ".") {
		return sum.Num().String()
	}
	f, _ := sum.Float64()
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return rubyNumber(text)
}

// rubyTime writes a YAML timestamp as Ruby's Time does; without a zone it is UTC.
func rubyTime(s string) string {
	s = strings.Join(strings.Fields(strings.NewReplacer("T", " ", "t", " ", "Z", "").Replace(s)), " ")
	for _, layout := range []string{"2006-1-2 15:4:5", "2006-1-2 15:4:5 -07:00", "2006-1-2 15:4:5 -0700", "2006-1-2 15:4:5 -07",
		"2006-1-2 15:4:5-07:00", "2006-1-2 15:4:5-0700", "2006-1-2 15:4:5-07"} {
		if t, err := time.Parse(layout, s); err == nil {
			if strings.ContainsAny(layout[len("2006-1-2 15:4:5"):], "-") {
				return t.Format("2006-01-02 15:04:05 -0700")
			}
			return t.Format("2006-01-02 15:04:05 UTC")
		}
	}
	return s
}

// ruby evaluates !fluent/s: the text is what stands between double quotes in Ruby.
func (y *yamlFile) ruby(n *yaml.Node) scalar {
	if !strings.ContainsAny(n.Value, "\\") && !strings.Contains(n.Value, "#{") {
		return scalar{text: n.Value}
	}
	code, ok := rubyLiteral(n.Value, y.src.End)
	if !ok {
		y.fail(y.at(n), "expected end of embedded code", "close it with }")
		return scalar{}
	}
	if y.src.Eval == nil {
		y.fail(y.at(n), "embedded code is not allowed in this file", "")
		return scalar{}
	}
	text, state, err := y.src.Eval(code, y.at(n))
	if err != nil {
		y.fail(y.at(n), fmt.Sprintf("cannot evaluate !fluent/s %q: %v", n.Value, err), "")
		return scalar{wrong: true}
	}
	return scalar{text: text, state: state}
}

// rubyLiteral puts a text into double quotes. Quotes outside of embedded code get a
// backslash.
func rubyLiteral(s string, end func(string) int) (string, bool) {
	if end == nil {
		end = firstBrace
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			b.WriteString(s[i : i+2])
			i++
		case s[i] == '\\': // the last character
			b.WriteString(`\\`)
		case s[i] == '"':
			b.WriteString(`\"`)
		case strings.HasPrefix(s[i:], "#{"):
			n := end(s[i+2:])
			if n < 0 || i+2+n >= len(s) {
				return "", false
			}
			b.WriteString(s[i : i+2+n+1])
			i += 2 + n
		default:
			b.WriteByte(s[i])
		}
	}
	b.WriteByte('"')
	return b.String(), true
}

// text gives a value as the text that the v1 form would hold: lists and maps are JSON.
func (y *yamlFile) text(n *yaml.Node, depth int) Value {
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!fluent/json" && y.count(n, depth) {
			if c, err := compact(n.Value); err == nil {
				return Value{Text: c}
			}
			return Value{Text: quoteJSON(n.Value)}
		}
		s := y.scalar(n, depth)
		if s.state != Text {
			s.text = ""
		}
		return Value{Text: s.text, State: s.state, Bare: s.bare && s.state == Text, Wrong: s.wrong}
	}
	var b strings.Builder
	y.json(&b, n, depth)
	return Value{Text: b.String()}
}

// json writes a value as JSON.
func (y *yamlFile) json(b *strings.Builder, n *yaml.Node, depth int) {
	n = y.value(n)
	switch n.Kind {
	case yaml.SequenceNode:
		if !y.count(n, depth) {
			return
		}
		b.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			y.json(b, c, depth+1)
		}
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, e := range y.entries(n, depth) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoteJSON(e.key) + ":")
			y.json(b, e.value, depth+1)
		}
		b.WriteByte('}')
	default:
		switch s := y.scalar(n, depth); {
		case s.state != Text:
			b.WriteString("null")
		case s.bare:
			b.WriteString(s.text)
		default:
			b.WriteString(quoteJSON(s.text))
		}
	}
}
