package fluentconf

import (
	"errors"
	"fmt"
	"strings"
)

// reserved lists the keys with '@' that mean something.
func reserved(key string) bool {
	return key == "@type" || key == "@id" || key == "@label" || key == "@log_level"
}

// strictAt lists the sections in which another key with '@' is a mistake.
func strictAt(section string) bool {
	return section == "match" || section == "source" || section == "filter" || section == "system"
}

// line reads `key value`, `key` or an include.
func (p *parser) line() {
	start := p.pos
	atRoot := len(p.stack) == 1 // of this file: an included file counts as a root
	key, ok := p.key()
	if !ok {
		p.nextLine(start)
		return
	}
	behind := p.pos
	p.skipSpace(false)
	if key == "@include" || atRoot && key == "include" {
		if key == "include" {
			p.warn(p.at(start), "'include' without '@' is deprecated", "write @include")
		}
		p.include(start, strings.Contains(p.text[behind:p.pos], "\n"))
		return
	}
	prm := Param{Key: key, Pos: p.at(start)}
	// A key alone has the value "". What separates key and value may be any white space
	// except a newline.
	if p.eof() || strings.Contains(p.text[behind:p.pos], "\n") {
		prm.Value.Pos = p.at(behind)
		p.add(prm)
		return
	}
	if strings.HasPrefix(key, "@") && !reserved(key) {
		const rule = "'@' is the system reserved prefix. Don't use '@' prefix parameter in the configuration: "
		if atRoot || strictAt(p.top().Name) {
			p.failAt(start, "only @type, @id, @label and @log_level exist", "%s%s", rule, key)
			p.skipValue()
			return
		}
		p.warn(prm.Pos, fmt.Sprintf("'@' is the system reserved prefix: %s works in a nested section for now, Fluentd may refuse it later", key), "")
	}
	val, ok := p.value()
	if !ok {
		if val.Pos.Line > 0 { // it is whole, but for what it says: nobody need miss the parameter
			prm.Value = val
			prm.Value.Wrong = true
			p.add(prm)
		}
		p.nextLine(max(start, p.lineStart(p.pos)))
		return
	}
	if !p.lineEnd() {
		p.failAt(p.pos, "after a quoted or JSON value only a comment may follow; quote the whole value", "expected end of line")
		p.nextLine(p.pos)
		return
	}
	prm.Value = val
	p.add(prm)
}

func (p *parser) add(prm Param) {
	s := p.top()
	s.Params = append(s.Params, prm)
}

func (p *parser) lineStart(off int) int {
	return strings.LastIndexByte(p.text[:off], '\n') + 1
}

// skipValue passes over the value of a refused key, which may span lines.
func (p *parser) skipValue() {
	before := len(p.errs)
	start := p.pos
	if _, ok := p.value(); !ok || !p.lineEnd() {
		p.nextLine(start)
	}
	p.errs = p.errs[:before]
}

// key reads a key: a quoted text or a run of non-blank characters.
func (p *parser) key() (string, bool) {
	if c := p.text[p.pos]; c == '"' || c == '\'' {
		v, ok := p.quoted()
		return v.Text, ok
	}
	start := p.pos
	for !p.eof() && !isSpace(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos], true
}

// value reads a value up to, not including, the end of its line.
func (p *parser) value() (Value, bool) {
	switch p.text[p.pos] {
	case '"', '\'':
		return p.quoted()
	case '[', '{':
		return p.json()
	}
	return p.plain(), true
}

// plain reads an unquoted value: the rest of the line without a comment, trimmed.
func (p *parser) plain() Value {
	start := p.pos
	v := Value{Pos: p.at(start)}
	p.toLineEnd()
	line := p.text[start:p.pos]
	end := len(line)
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && isBlank(line[i-1]) {
			end = i
			break
		}
	}
	v.Text = strings.TrimRight(line[:end], " \t")
	if end < len(line) && v.Text[0] == '/' && !strings.HasSuffix(v.Text, "/") {
		p.warn(p.at(start+end), "a regular expression is cut off here: ' #' begins a comment", "put the expression in single quotes, or write [ ]# or \\x23")
	}
	if strings.Contains(v.Text, "#{") && !strings.Contains(v.Text, "${") { // in ${…} it is Ruby's own
		p.warn(v.Pos, "#{…} is not evaluated outside double quotes", "put the value in double quotes")
	}
	return v
}

// quoted reads a quoted text including its quotes. On a mistake the position stands where
// it was found.
func (p *parser) quoted() (Value, bool) {
	if p.text[p.pos] == '"' {
		return p.doubleQuoted()
	}
	return p.singleQuoted()
}

func (p *parser) singleQuoted() (Value, bool) {
	start := p.pos
	p.pos++
	var b strings.Builder
	for !p.eof() {
		c := p.text[p.pos]
		switch {
		case c == '\'':
			p.pos++
			return Value{Text: b.String(), Pos: p.at(start)}, true
		case c == '\\' && p.pos+1 < len(p.text) && (p.text[p.pos+1] == '\'' || p.text[p.pos+1] == '\\'):
			b.WriteByte(p.text[p.pos+1])
			p.pos += 2
			continue
		case c == '\n':
			p.failAt(start, "close it with ' on the same line, or use double quotes for a text of several lines", "unexpected end of line in a single quoted string")
			p.pos = start
			return Value{}, false
		}
		b.WriteByte(c)
		p.pos++
	}
	p.failAt(start, "close it with '", "unexpected end of file in a single quoted string")
	p.pos = start
	return Value{}, false
}

func (p *parser) doubleQuoted() (Value, bool) {
	start := p.pos
	v := Value{Pos: p.at(start)}
	ok := true
	p.pos++
	var b strings.Builder
	for !p.eof() {
		c := p.text[p.pos]
		switch {
		case c == '"':
			p.pos++
			if v.State == Text {
				v.Text = b.String()
			}
			return v, ok
		case c == '\\' && p.pos+1 < len(p.text):
			ok = p.escape(&b) && ok
		case c == '#' && strings.HasPrefix(p.text[p.pos:], "#{"):
			text, state, good := p.embedded()
			ok = ok && good
			if p.eof() {
				break
			}
			if state == UseNil || v.State == Text {
				v.State = state
			}
			b.WriteString(text)
		default:
			b.WriteByte(c)
			p.pos++
		}
	}
	p.failAt(start, `close it with "`, "unexpected end of file in a double quoted string")
	p.pos = start
	return Value{}, false
}

// escape reads a backslash sequence of a double-quoted text.
func (p *parser) escape(b *strings.Builder) bool {
	c := p.text[p.pos+1]
	at := p.pos
	p.pos += 2
	switch c {
	case '\n':
		return true // joins two lines
	case '\r':
		if p.pos < len(p.text) && p.text[p.pos] == '\n' {
			p.pos++
		}
		return true
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'f':
		c = '\f'
	case 'b':
		c = '\b'
	case '0':
		c = 0
	default:
		if isName(c) && c != '_' {
			p.failAt(at, fmt.Sprintf(`write a regular expression without quotes or in single quotes; for a backslash in double quotes write \\%c`, c), "unexpected back-slash escape character '%c'", c)
			return false
		}
	}
	b.WriteByte(c)
	return true
}

// embedded reads and evaluates "#{…}".
func (p *parser) embedded() (string, State, bool) {
	at := p.pos
	p.pos += len("#{")
	rest := p.text[p.pos:]
	find := p.src.End
	if find == nil {
		find = firstBrace
	}
	n := find(rest)
	if n < 0 || n >= len(rest) {
		p.failAt(at, "close it with }", "expected end of embedded code")
		p.pos = len(p.text)
		return "", Text, false
	}
	p.pos += n + 1
	if p.src.Eval == nil {
		p.failAt(at, "", "embedded code is not allowed in this file")
		return "", Text, false
	}
	text, state, err := p.src.Eval(rest[:n], p.at(at+len("#{")))
	if err != nil {
		off := 0
		if e, ok := errors.AsType[interface {
			error
			Offset() int
		}](err); ok {
			off = min(max(e.Offset(), 0), n)
		}
		p.failAt(at+len("#{")+off, "", "cannot evaluate #{%s}: %v", strings.TrimSpace(rest[:n]), err)
		return "", Text, false
	}
	return text, state, true
}

// firstBrace stands in for Source.End.
func firstBrace(s string) int { return strings.IndexByte(s, '}') }
