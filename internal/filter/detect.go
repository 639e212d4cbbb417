package filter

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/config"
	"weir/internal/event"
)

// DetectParams are the parameters of @type detect_exceptions, but for those that are about
// tags.
type DetectParams struct {
	Message       string         `conf:"message" doc:"field with the lines; without it message, else log"`
	Languages     []string       `conf:"languages" doc:"java, js, csharp, python, go, ruby, php, dart or all, which is what it is without it"`
	FlushInterval *time.Duration `conf:"multiline_flush_interval" doc:"after so long a trace goes on as far as it has come; without it the next line ends it"`
	LineBreaks    bool           `conf:"force_line_breaks" default:"false" doc:"put line breaks between lines that have none"`
	MaxLines      int            `conf:"max_lines" default:"1000" doc:"lines of a trace; 0: any number"`
	MaxBytes      int            `conf:"max_bytes" default:"0" doc:"characters of a trace; 0: any number"`
	Stream        string         `conf:"stream" doc:"events with different values of this field are kept apart; so are those of different tags in any case"`
}

// Detect makes one event of the lines of a stack trace.
type Detect struct {
	p     DetectParams
	langs []language
	wait  time.Duration
}

// NewDetect builds a Detect. Mistakes are noted in d; the result is then nil.
func NewDetect(p DetectParams, env Env, d *config.Diagnostics) *Detect {
	before := len(d.Errors)
	c := &Detect{p: p}
	if len(p.Languages) == 0 {
		p.Languages = []string{"all"}
	}
	names, seen := languageNames(), map[language]bool{}
	for _, name := range p.Languages {
		langs, ok := names[strings.ToLower(name)]
		if !ok {
			d.Error(env.Pos, fmt.Sprintf("detect_exceptions: language %q is not known", name), "write java, js, csharp, python, go, ruby, php, dart or all")
		}
		for _, l := range langs {
			if !seen[l] {
				seen[l] = true
				c.langs = append(c.langs, l)
			}
		}
	}
	if p.FlushInterval == nil || *p.FlushInterval <= 0 {
		d.Warn(env.Pos, "detect_exceptions: without multiline_flush_interval a trace waits for the next line of its stream, and its acknowledgement too",
			"add for example multiline_flush_interval 1s")
	} else {
		c.wait = *p.FlushInterval
	}
	if len(d.Errors) > before {
		return nil
	}
	return c
}

// Hold implements Holder.
func (c *Detect) Hold(tag string) *Held { return newHeld(tag, c, false) }

// Wait implements Holder.
func (c *Detect) Wait() time.Duration { return c.wait }

// take implements keeper.
func (c *Detect) take(h *Held) {
	for src := h.in.Entries; len(src) > 0; h.index++ {
		e, n, err := event.Next(src)
		if err != nil {
			return // cannot be: they have passed Check
		}
		c.one(h, e, src[:n])
		src = src[n:]
	}
}

// line finds the field with the line of a record. ok is false if there is none with a text.
func (c *Detect) line(g *group, record []byte) (field string, text []byte, ok bool) {
	names := [...]string{"message", "log"}
	fields := names[:]
	switch {
	case c.p.Message != "":
		names[0] = c.p.Message
		fields = names[:1]
	case g != nil:
		names[0] = g.field // what was found first counts for all of it
		fields = names[:1]
	}
	for _, field = range fields {
		v, found := event.FindKey(record, field)
		if !found {
			continue
		}
		text, _, err := event.Bytes(v, 0)
		return field, text, err == nil
	}
	return "", nil, false
}

func (c *Detect) one(h *Held, e event.Entry, whole []byte) {
	stream := h.s.parsed[:0]
	if c.p.Stream != "" {
		if v, ok := event.FindKey(e.Record, c.p.Stream); ok {
			stream = append(stream, v...)
		}
		h.s.parsed = stream
	}
	var g *group
	if h.oldest != nil {
		g = h.group(stream)
	}
	field, text, ok := c.line(g, e.Record)
	if !ok {
		if g != nil {
			c.finish(h, g)
		}
		h.pass(e.Time, whole)
		return
	}
	if g != nil && c.p.MaxBytes > 0 && g.size+utf8.RuneCount(text) > c.p.MaxBytes {
		c.finish(h, g)
		g = nil
	}
	at := outside
	if g != nil {
		at = g.state
	}
	where := at.update(c.langs, text)
	if g != nil && (where == noTrace || where == traceBegin) {
		c.finish(h, g)
		g = nil
	}
	if g == nil && (where == noTrace || where == traceEnd) {
		h.pass(e.Time, whole)
		return
	}
	if g == nil {
		g = h.open(stream, e)
		g.field = field
	}
	c.add(h, g, text)
	g.state = at
	if where == traceEnd || c.p.MaxLines > 0 && g.lines == c.p.MaxLines || g.large() {
		c.finish(h, g)
	}
}

// add appends a line to a trace.
func (c *Detect) add(h *Held, g *group, text []byte) {
	before := len(g.text)
	g.size += utf8.RuneCount(text)
	if c.p.LineBreaks && g.lines > 0 && bytes.IndexByte(text, '\n') < 0 {
		g.text = append(g.text, '\n')
		g.size++
	}
	g.text = append(g.text, text...)
	h.own(g, len(g.text)-before)
}

// finish lets a trace go on: the first event, with the text of all.
func (c *Detect) finish(h *Held, g *group) {
	if g.lines > 1 {
		h.out.Entries = event.AppendEntryHeader(h.out.Entries, g.time)
		h.out.Entries = replaced(h.out.Entries, g.record, g.field, g.text, nil)
	} else {
		h.out.Entries = event.AppendEntry(h.out.Entries, g.time, g.record)
	}
	h.passed(g.time, g)
	h.end(g)
}

// late implements keeper: what there is of a trace goes on like others.
func (c *Detect) late(h *Held, g *group, _ event.Time, _ bool) { c.finish(h, g) }
