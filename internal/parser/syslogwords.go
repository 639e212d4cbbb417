package parser

import (
	"bytes"

	"weir/internal/event"
)

// syslogWords reads RFC 3164 word by word.
type syslogWords struct {
	rest                *shared
	priority, colonless bool
	words               int  // of the time
	usual               bool // the time is written as in RFC 3164
}

func (p *syslogWords) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	var pri []byte
	if p.priority {
		i := bytes.IndexByte(line, '>')
		if i < 2 || line[0] != '<' {
			return dst, 0, false, errUnmatched
		}
		pri, line = line[1:i], line[i+1:]
	}
	const usual = 15 // bytes of a time
	if p.usual && (len(line) <= usual || line[usual] != ' ' && line[usual] != '.') {
		return dst, 0, false, errUnmatched
	}
	stamp, rest, ok := cutWords(line, p.words)
	if !ok {
		return dst, 0, false, errUnmatched
	}
	host, rest, ok := bytes.Cut(rest, space)
	if !ok {
		return dst, 0, false, errUnmatched
	}
	at, count := len(dst), 0
	out = event.OpenMap(dst)
	field := func(name string, text []byte) {
		out = event.AppendStr(event.AppendStr(out, name), text)
		count++
	}
	field("host", host)
	if p.priority {
		out = event.AppendInt(event.AppendStr(out, "pri"), leadingInt(pri))
		count++
	}
	ident, pid, message := p.program(rest)
	if ident != nil {
		field("ident", ident)
	}
	if pid != nil {
		field("pid", pid)
	}
	field("message", chomp(message))
	field("time", stamp)
	return p.rest.finish(dst, event.CloseMap(out, at, count))
}

// program takes the program's name and number off a message; nil where there is none.
func (p *syslogWords) program(rest []byte) (ident, pid, message []byte) {
	word, message, ok := bytes.Cut(rest, space)
	if !ok {
		return nil, nil, rest
	}
	ident = bytes.TrimSuffix(word, []byte(":"))
	if len(ident) == len(word) && !p.colonless {
		return nil, nil, rest
	}
	if i := bytes.IndexByte(ident, '['); i >= 0 && ident[len(ident)-1] == ']' {
		ident, pid = ident[:i], ident[i+1:len(ident)-1]
	}
	return ident, pid, message
}

var space = []byte(" ")

// cutWords takes n words off a line, and the space behind them.
func cutWords(line []byte, n int) (words, rest []byte, ok bool) {
	end := -1
	for range n {
		for end+1 < len(line) && line[end+1] == ' ' {
			end++
		}
		i := bytes.IndexByte(line[end+1:], ' ')
		if i < 0 {
			return nil, nil, false
		}
		end += 1 + i
	}
	return line[:end], line[end+1:], true
}

// syslogWordsNew reads RFC 5424 word by word. It takes more than the expression does: any
// number of structured elements, an empty message.
type syslogWordsNew struct {
	rest     *shared
	priority bool
	words    int // of the time
}

func (p *syslogWordsNew) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	var pri []byte
	if p.priority {
		i := bytes.IndexByte(line, '>')
		if i < 2 || line[0] != '<' {
			return dst, 0, false, errUnmatched
		}
		pri = line[1:i]
		var ok bool
		if _, line, ok = bytes.Cut(line[i:], space); !ok { // the version
			return dst, 0, false, errUnmatched
		}
	}
	stamp, line, ok := cutWords(line, p.words)
	if !ok {
		return dst, 0, false, errUnmatched
	}
	at, count := len(dst), 0
	out = event.OpenMap(dst)
	field := func(name string, text []byte) {
		out = event.AppendStr(event.AppendStr(out, name), text)
		count++
	}
	for _, name := range [...]string{"host", "ident", "pid", "msgid"} {
		word, rest, ok := bytes.Cut(line, space)
		if !ok {
			return dst, 0, false, errUnmatched
		}
		field(name, word)
		line = rest
	}
	if p.priority {
		out = event.AppendInt(event.AppendStr(out, "pri"), leadingInt(pri))
		count++
	}
	end := len(line) // of the structured data
	if i := bytes.Index(line, []byte("] ")); len(line) > 0 && line[0] == '-' {
		end = 1
	} else if i >= 0 {
		end = i + 1
	}
	field("extradata", bytes.ReplaceAll(line[:end], []byte(`\`), nil))
	if end < len(line) {
		field("message", chomp(line[end+1:]))
	}
	field("time", stamp)
	return p.rest.finish(dst, event.CloseMap(out, at, count))
}
