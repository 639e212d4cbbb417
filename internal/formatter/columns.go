package formatter

import (
	"bytes"
	"slices"

	"weir/internal/config"
	"weir/internal/event"
)

// LTSVParams are the parameters of @type ltsv.
type LTSVParams struct {
	config.Plugin
	NewlineParams
	Delimiter      string `conf:"delimiter" doc:"text between fields; a tab if not set"`
	LabelDelimiter string `conf:"label_delimiter" default:":" doc:"text between label and value"`
	Replacement    string `conf:"replacement" doc:"text that takes the place of the delimiter inside values; a blank if not set"`
}

type ltsv struct {
	delimiter, replacement []byte
	label, end             string
}

func (b *builder) ltsv() Formatter {
	var p LTSVParams
	config.Decode(b.s, &p, b.d)
	f := &ltsv{delimiter: []byte(p.Delimiter), replacement: []byte(p.Replacement), label: p.LabelDelimiter, end: p.text()}
	if p.Delimiter == "" {
		f.delimiter = []byte{'\t'}
	}
	if b.s == nil || b.s.Get("replacement") == nil {
		f.replacement = []byte{' '}
	}
	return f
}

func (f *ltsv) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	n, i, _ := event.MapHeader(record, 0)
	for k := range n {
		value, end := next(record, i)
		if end == 0 {
			break
		}
		if k > 0 {
			dst = append(dst, f.delimiter...)
		}
		dst = event.AppendText(dst, record[i:value])
		dst = append(dst, f.label...)
		from := len(dst)
		dst = replaceAll(event.AppendText(dst, record[value:end]), from, f.delimiter, f.replacement)
		i = end
	}
	return append(dst, f.end...)
}

// next says where the value and the end of the field at record[i] are; 0 if it is damaged.
func next(record []byte, i int) (value, end int) {
	value, err := event.Skip(record, i)
	if err != nil {
		return 0, 0
	}
	if end, err = event.Skip(record, value); err != nil {
		return 0, 0
	}
	return value, end
}

// replaceAll replaces a text within b[from:].
func replaceAll(b []byte, from int, text, with []byte) []byte {
	for {
		at := bytes.Index(b[from:], text)
		if at < 0 {
			return b
		}
		b = slices.Replace(b, from+at, from+at+len(text), with...)
		from += at + len(with)
	}
}

// CSVParams are the parameters of @type csv.
type CSVParams struct {
	config.Plugin
	AddNewlineParams
	Fields      []string `conf:"fields" required:"true" doc:"fields to write, as record accessors"`
	Delimiter   string   `conf:"delimiter" default:"," doc:"text between fields; TAB is a tab"`
	ForceQuotes bool     `conf:"force_quotes" default:"true" doc:"put quotes around every field"`
}

type csv struct {
	paths     []event.Path
	delimiter []byte
	force     bool
	end       string
}

func (b *builder) csv() Formatter {
	var p CSVParams
	config.Decode(b.s, &p, b.d)
	f := &csv{delimiter: []byte(p.Delimiter), force: p.ForceQuotes}
	if p.AddNewline {
		f.end = "\n"
	}
	if p.Delimiter == `\t` || p.Delimiter == "TAB" {
		f.delimiter = []byte{'\t'}
	}
	for _, name := range p.Fields {
		if name == "" {
			b.d.Error(b.pos, "csv: fields has an empty name", "write fields a,b,c")
			continue
		}
		f.paths = append(f.paths, b.path("fields", name))
	}
	return f
}

func (f *csv) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	for i, path := range f.paths {
		if i > 0 {
			dst = append(dst, f.delimiter...)
		}
		v, ok := path.Find(record)
		null := !ok || v[0] == 0xc0
		if null && !f.force {
			continue
		}
		from := len(dst)
		if !null {
			dst = event.AppendText(dst, v)
		}
		if f.force || f.mustQuote(dst[from:]) {
			dst = replaceAll(dst, from, []byte(`"`), []byte(`""`))
			dst = append(slices.Insert(dst, from, '"'), '"')
		}
	}
	return append(dst, f.end...)
}

// mustQuote says whether a field needs quotes: if it is empty (a missing one is written
// without), or holds a delimiter, a quote or a line end.
func (f *csv) mustQuote(s []byte) bool {
	return len(s) == 0 || bytes.ContainsAny(s, "\"\r\n") || bytes.Contains(s, f.delimiter)
}

// TSVParams are the parameters of @type tsv.
type TSVParams struct {
	config.Plugin
	NewlineParams
	Keys      []string `conf:"keys" required:"true" doc:"fields to write"`
	Delimiter string   `conf:"delimiter" doc:"text between fields; a tab if not set"`
}

type tsv struct {
	keys           []string
	delimiter, end string
}

func (b *builder) tsv() Formatter {
	var p TSVParams
	config.Decode(b.s, &p, b.d)
	if p.Delimiter == "" {
		p.Delimiter = "\t"
	}
	return &tsv{p.Keys, p.Delimiter, p.text()}
}

func (f *tsv) Append(dst []byte, _ string, _ event.Time, record []byte) []byte {
	for i, key := range f.keys {
		if i > 0 {
			dst = append(dst, f.delimiter...)
		}
		if v, ok := event.FindKey(record, key); ok {
			dst = event.AppendText(dst, v)
		}
	}
	return append(dst, f.end...)
}
