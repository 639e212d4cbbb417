package parser

import (
	"strings"

	"weir/internal/event"
)

// csvFast is the csv parser that splits first and looks at quotes afterwards. It takes what
// csvParser refuses, and a line with fewer columns than keys makes fewer fields.
type csvFast struct{ columns }

// Parse implements Parser.
func (p *csvFast) Parse(r *Records, line []byte) error { return r.add(p.parse(r.buf, line)) }

func (p *csvFast) parse(dst, line []byte) (out []byte, t event.Time, hasTime bool, err error) {
	at, count := len(dst), 0
	out = event.OpenMap(dst)
	var parts []string
	if line = chomp(line); len(line) > 0 {
		parts = strings.Split(string(line), string(p.delimiter))
	}
	extra := 0 // where the columns beyond the keys begin: the last one gets nil as its key, as in Fluentd
	for len(parts) > 0 {
		switch {
		case count < len(p.keys):
			out = append(out, p.keys[count]...)
		case extra > 0:
			out, count = event.AppendNil(out[:extra]), count-1
		default:
			extra = len(out)
			out = event.AppendNil(out)
		}
		if parts[0] == "" {
			out, parts = event.AppendNil(out), parts[1:]
		} else {
			text, n := p.column(parts)
			out, parts = event.AppendStr(out, text), parts[n:]
		}
		count++
	}
	return p.rest.finish(dst, event.CloseMap(out, at, count))
}

// column makes the text of a column, which may have been split at delimiters between its
// quotes: it then is n parts.
func (p *csvFast) column(parts []string) (text string, n int) {
	const quote = `"`
	text, n = parts[0], 1
	begins, ends := strings.HasPrefix(text, quote), strings.HasSuffix(text, quote)
	switch quotes := strings.Count(text, quote); {
	case quotes == 0 || quotes < 3 && !begins:
		return text, 1
	case quotes == 1:
		for n < len(parts) {
			n++
			if strings.HasSuffix(parts[n-1], quote) {
				break
			}
		}
		text = strings.Join(parts[:n], string(p.delimiter))
		if len(text) < 2 {
			return "", n
		}
		return text[1 : len(text)-1], n
	case quotes == 2:
		if ends {
			return text[1 : len(text)-1], 1
		}
		return text, 1
	}
	if begins && ends {
		text = text[1 : len(text)-1]
	}
	return strings.ReplaceAll(text, quote+quote, quote), 1
}

// chomp takes one end of line off.
func chomp(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
		if n > 1 && b[n-2] == '\r' {
			b = b[:n-2]
		}
	} else if n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}
