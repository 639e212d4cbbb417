package placeholder

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/event"
	"weir/internal/ruby/timefmt"
)

// Compile reads a template. It always returns one; with an error among the problems it
// must not be used.
func Compile(text string, o Options) (*Template, []Problem) {
	c := compiler{o: o, t: &Template{text: text, climbs: climbs(text), time: newWindows(o.Location, o.Timekey)}}
	c.readKeys()
	c.timed = o.Timekey > 0 || o.EventTime
	c.split(text)
	c.checkTime()
	c.checkUnused()
	return c.t, c.problems
}

type compiler struct {
	o        Options
	t        *Template
	problems []Problem
	tagKey   bool
	keys     []string // chunk keys but tag and time
	used     []string // those of them that the text uses
	timed    bool     // % means time
	sawID    bool
	finest   timefmt.Unit
}

func (c *compiler) warn(text, hint string) {
	c.problems = append(c.problems, Problem{Warning: true, Text: text, Hint: hint})
}

func (c *compiler) err(text, hint string) {
	c.problems = append(c.problems, Problem{Text: text, Hint: hint})
}

// refuse is an error where Fluentd checks, else a warning.
func (c *compiler) refuse(text, hint string) {
	c.problems = append(c.problems, Problem{Warning: !c.o.Strict, Text: text, Hint: hint})
}

func (c *compiler) readKeys() {
	for _, k := range c.o.ChunkKeys {
		switch k {
		case "tag":
			c.tagKey = true
		case "time":
		default:
			c.keys = append(c.keys, k)
		}
	}
}

// plainKey and placeholderKey say which characters may stand in a chunk key and in ${…}.
func plainKey(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.' || b == '@'
}

func placeholderKey(b byte) bool { return plainKey(b) || b == '$' }

func allIn(s string, in func(byte) bool) bool {
	for i := range len(s) {
		if !in(s[i]) {
			return false
		}
	}
	return true
}

// split cuts the text into parts. It is one pass: what a placeholder brings in is never
// looked at again.
func (c *compiler) split(text string) {
	begin := 0
	for i := 0; i < len(text); {
		open := strings.Index(text[i:], "${")
		if open < 0 {
			break
		}
		open += i
		end := strings.IndexByte(text[open:], '}')
		if end < 0 {
			break
		}
		end += open
		inside := text[open+2 : end]
		if nested := strings.LastIndex(inside, "${"); nested >= 0 {
			i = open + 2 + nested // the inner one is the placeholder
			continue
		}
		if p, ok := c.placeholder(inside); ok {
			c.plain(text[begin:open], false)
			c.add(p)
			begin = end + 1
		}
		i = end + 1
	}
	c.plain(text[begin:], true)
}

func (c *compiler) add(p part) {
	if p.kind == literal && p.text == "" {
		return
	}
	c.t.parts = append(c.t.parts, p)
	c.t.uses[p.kind] = true
}

// plain adds text between placeholders.
func (c *compiler) plain(text string, last bool) {
	if !c.timed || !strings.Contains(text, "%") {
		c.add(part{kind: literal, text: text})
		return
	}
	l, err := timefmt.Compile(text)
	for cut := len(text); err != nil && !last && errors.Is(err, timefmt.ErrIncomplete) && cut > 0; {
		// A % before ${ is no directive, and so stands for itself.
		cut = strings.LastIndexByte(text[:cut], '%')
		if l, err = timefmt.Compile(text[:cut]); err == nil {
			c.addLayout(l)
			c.add(part{kind: literal, text: text[cut:]})
			return
		}
	}
	switch {
	case errors.Is(err, timefmt.ErrIncomplete):
		c.err(fmt.Sprintf("%q ends in the middle of a time placeholder", c.t.text), "write %% for a percent sign")
	case err != nil:
		c.err(err.Error(), "")
	default:
		c.addLayout(l)
	}
}

func (c *compiler) addLayout(l *timefmt.Layout) {
	if l.Granularity() == timefmt.Never && !l.ShowsZone() {
		c.add(part{kind: literal, text: string(l.Append(nil, time.Time{}))})
		return
	}
	c.finest = max(c.finest, l.Granularity())
	c.t.time.show(l)
	c.add(part{kind: layout, layout: l})
}

// placeholder reads the inside of ${…}. Without ok it is plain text.
func (c *compiler) placeholder(inside string) (p part, ok bool) {
	p.text = inside
	if inside == "chunk_id" && (!c.sawID || c.o.Direct) {
		c.sawID = true
		p.kind = chunkID
		return p, true
	}
	if isTag, n, whole := tagIndex(inside); isTag {
		if !c.tagKey && !c.o.Direct {
			c.refuse(fmt.Sprintf("${%s} stays as it is, because tag is no chunk key", inside), "write <buffer tag>, with the other chunk keys behind a comma")
			return p, false
		}
		p.kind, p.index = tagPart, n
		if whole {
			p.kind = wholeTag
		}
		return p, true
	}
	if slices.Contains(c.keys, inside) || c.o.Direct && (inside != "" && allIn(inside, placeholderKey) || strings.HasPrefix(inside, "$")) {
		return c.field(p)
	}
	return c.unknown(p)
}

func (c *compiler) field(p part) (part, bool) {
	path, err := event.ParsePath(p.text)
	if err != nil {
		c.err(fmt.Sprintf("${%s}: %v", p.text, err), "")
		return p, false
	}
	if !slices.Contains(c.keys, p.text) && (p.text == "hostname" || p.text == "worker_id") {
		c.warn(fmt.Sprintf("${%s} reads the field %s of the record", p.text, p.text), fmt.Sprintf(`if you mean this machine's, write "#{%s}" in double quotes`, p.text))
	}
	c.used = append(c.used, p.text)
	p.kind, p.path = field, path
	return p, true
}

// unknown is a placeholder that is none here. As in Fluentd it vanishes if there are
// chunk keys, and else stays as it is.
func (c *compiler) unknown(p part) (part, bool) {
	named := p.text != "" && allIn(p.text, placeholderKey)
	fate := "stays as it is"
	if named && len(c.keys) > 0 {
		fate = "becomes the empty text"
	}
	if hint := hintFor(p.text); named || hint != "" {
		if hint == "" {
			hint = fmt.Sprintf("make it a chunk key: <buffer %s>", p.text)
		}
		c.refuse(fmt.Sprintf("${%s} %s, because it is no chunk key", p.text, fate), hint)
	}
	p.kind, p.text = literal, ""
	return p, named && len(c.keys) > 0
}

// hintFor says what people mean who write what belongs elsewhere.
func hintFor(inside string) string {
	switch {
	case inside == "hostname" || inside == "worker_id":
		return fmt.Sprintf(`write "#{%s}" in double quotes: it is filled in when the file is read`, inside)
	case inside == "chunk_id":
		return "only the first ${chunk_id} is filled in"
	case strings.HasPrefix(inside, "tag_parts["):
		return "here write ${tag[n]}"
	case strings.HasPrefix(inside, "tag_prefix[") || strings.HasPrefix(inside, "tag_suffix["):
		return "here only ${tag} and ${tag[n]} are known"
	case inside == "time" || inside == "time_slice":
		return "write the time as %Y%m%d and make time a chunk key"
	case strings.HasPrefix(inside, "record["):
		return "name the field only: ${field}, or ${$.outer.inner}"
	case strings.HasPrefix(inside, "$["):
		return "write the accessor with dots: ${$.outer.inner}"
	case strings.HasPrefix(inside, "ENV["):
		return `write "#{ENV['NAME']}" in double quotes`
	}
	return ""
}

// tagIndex reads tag, tag[n] and tag[-n].
func tagIndex(inside string) (is bool, n int, whole bool) {
	rest, ok := strings.CutPrefix(inside, "tag")
	if !ok {
		return false, 0, false
	}
	if rest == "" {
		return true, 0, true
	}
	if len(rest) < 3 || rest[0] != '[' || rest[len(rest)-1] != ']' {
		return false, 0, false
	}
	digits := rest[1 : len(rest)-1]
	if d := strings.TrimPrefix(digits, "-"); d == "" || !allIn(d, func(b byte) bool { return b >= '0' && b <= '9' }) {
		return false, 0, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits {
		n = math.MaxInt // 01 and -0 name no part in Fluentd
	}
	return true, n, false
}

// spans are how long each unit lasts, at least.
var spans = [...]time.Duration{
	timefmt.Year: 365 * 24 * time.Hour, timefmt.Month: 28 * 24 * time.Hour, timefmt.Week: 7 * 24 * time.Hour,
	timefmt.Day: 24 * time.Hour, timefmt.Hour: time.Hour, timefmt.Minute: time.Minute, timefmt.Second: time.Second,
	timefmt.Subsecond: time.Millisecond,
}

func (c *compiler) checkTime() {
	key := c.o.Timekey
	if key == 0 {
		if !c.timed && looksTimed(c.t.text) {
			c.refuse(fmt.Sprintf("the time placeholders in %q stay as they are, because time is no chunk key", c.t.text), "write <buffer time> with a timekey")
		}
		return
	}
	switch {
	case c.finest == timefmt.Never && c.o.Strict:
		c.err(fmt.Sprintf("%q has no time placeholders, but time is a chunk key", c.t.text), fmt.Sprintf("add what tells windows of %v apart, or take time out of <buffer>", key))
	case c.finest == timefmt.Never:
	case c.o.Strict && spans[c.finest] > key:
		c.err(fmt.Sprintf("%q shows no more than the %v, which does not tell windows of %v apart", c.t.text, c.finest, key), "add a finer time placeholder, or make timekey longer")
	case c.finest >= timefmt.Hour && !tells(spans[c.finest], key):
		c.warn(fmt.Sprintf("%q shows the %v, but always that of the start of a window of %v", c.t.text, c.finest, key), "make timekey shorter if the time of the events is meant")
	}
}

// tells says whether windows begin at different values of the unit, so that showing it
// tells something.
func tells(unit, timekey time.Duration) bool {
	next := unit // the next coarser unit
	switch unit {
	case time.Millisecond:
		next = time.Second
	case time.Second:
		next = time.Minute
	case time.Minute:
		next = time.Hour
	case time.Hour:
		next = 24 * time.Hour
	}
	return timekey%next != 0
}

// looksTimed finds what is almost certainly meant as a time.
func looksTimed(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '%' {
			continue
		}
		j := i + 1
		for j < len(text)-1 && (text[j] == '-' || text[j] == '_' || text[j] == '0') {
			j++
		}
		if strings.IndexByte("YmdHMSFTjs", text[j]) >= 0 {
			return true
		}
		if text[j] == '%' {
			i = j
		}
	}
	return false
}

func (c *compiler) checkUnused() {
	if !c.o.Strict {
		return
	}
	if c.tagKey && !c.t.UsesTag() {
		c.err(fmt.Sprintf("tag is a chunk key, but %q has no ${tag}", c.t.text), "add it, or take tag out of <buffer>")
	}
	for _, k := range c.keys {
		if !slices.Contains(c.used, k) {
			c.err(fmt.Sprintf("%s is a chunk key, but %q has no ${%s}", k, c.t.text, k), fmt.Sprintf("add it, or take %s out of <buffer>", k))
		}
	}
}
