package filter

import (
	"bytes"
	"strconv"

	"weir/internal/event"
)

// take implements keeper. The rules, odd ones included, are those of Fluentd's concat: an
// event that ends a group gives it its own time and those of its fields that the first
// event lacks.
func (c *Concat) take(h *Held) {
	if ownLog(h.tag) {
		for src := h.in.Entries; len(src) > 0; h.index++ {
			e, n, err := event.Next(src)
			if err != nil {
				return
			}
			h.pass(e.Time, src[:n])
			src = src[n:]
		}
		return
	}
	for src := h.in.Entries; len(src) > 0; h.index++ {
		e, n, err := event.Next(src)
		if err != nil {
			return // cannot be: they have passed Check
		}
		whole := src[:n]
		src = src[n:]
		value, ok := event.FindKey(e.Record, c.p.Key)
		if !ok {
			h.pass(e.Time, whole)
			continue
		}
		a := arrival{e: e, whole: whole, value: value}
		switch c.mode {
		case byLines:
			c.byLines(h, &a)
		case byRegexp:
			c.byRegexp(h, &a)
		case byPartialKey:
			c.byPartialKey(h, &a)
		case byMetadata:
			c.byMetadata(h, &a)
		case byCRI:
			c.byCRI(h, &a)
		}
	}
}

// ownLog says whether a tag is that of the program's own log, which concat leaves alone.
func ownLog(tag string) bool {
	switch tag {
	case "fluent.trace", "fluent.debug", "fluent.info", "fluent.warn", "fluent.error", "fluent.fatal":
		return true
	}
	return false
}

// arrival is the event under way.
type arrival struct {
	e     event.Entry
	whole []byte
	value []byte // of the key
}

// stream is the identity of the stream that an event belongs to; it lives in s.parsed.
func (c *Concat) stream(h *Held, record []byte, id []byte) []byte {
	b := h.s.parsed[:0]
	if c.p.Stream != "" {
		if v, ok := event.FindKey(record, c.p.Stream); ok {
			b = appendJoined(b, v)
		}
	}
	b = append(b, id...)
	h.s.parsed = b
	return b
}

// appendJoined is a value as Ruby's join and interpolation write it.
func appendJoined(dst, v []byte) []byte {
	if s, _, err := event.Bytes(v, 0); err == nil {
		return append(dst, s...)
	}
	return event.AppendText(dst, v)
}

// add puts an event into its group, which it opens if there is none.
func (c *Concat) add(h *Held, g *group, stream []byte, a *arrival) *group {
	before := 0
	if g == nil {
		g = h.open(stream, a.e)
	} else {
		before = len(g.text)
		if c.mode != byMetadata {
			g.text = append(g.text, c.sep...)
		}
	}
	c.text(h, g, before, a)
	return g
}

// text notes the text of an event in its group.
func (c *Concat) text(h *Held, g *group, before int, a *arrival) {
	at, cost := len(g.text), 0
	g.text = appendJoined(g.text, a.value)
	if c.mode == byMetadata {
		g.parts = append(g.parts, piece{ordinalOf(a.e.Record, c.ordinal), at, len(g.text)})
		cost = pieceCost
	}
	h.own(g, len(g.text)-before+cost)
}

// restart ends a group and begins the next one of its stream with an event.
func (c *Concat) restart(h *Held, g *group, a *arrival) {
	h.again(g, a.e)
	c.text(h, g, 0, a)
}

// ordinalOf is the number of a part, as Ruby's to_i reads it.
func ordinalOf(record []byte, key string) int64 {
	v, ok := event.FindKey(record, key)
	if !ok {
		return 0
	}
	var buf [32]byte
	text := appendJoined(buf[:0], v)
	end := 0
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		end++
	}
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, _ := strconv.ParseInt(string(text[:end]), 10, 64)
	return n
}

// complete lets what a group has become go on; the event that ends it is under way. The
// group is not ended yet.
func (c *Concat) complete(h *Held, g *group, a *arrival) {
	t := a.e.Time
	if c.p.FirstTimestamp {
		t = g.time
	}
	if g.lines == 1 && len(c.remove) == 0 && bytes.Equal(g.record, a.e.Record) && isStr(a.value) {
		h.out.Entries = event.AppendEntry(h.out.Entries, t, g.record)
	} else {
		h.out.Entries = event.AppendEntryHeader(h.out.Entries, t)
		h.out.Entries = c.merged(h.out.Entries, a.e.Record, g, c.remove)
	}
	h.passed(t, g)
}

// isStr says whether a value is a str.
func isStr(v []byte) bool { return v[0]&0xe0 == 0xa0 || v[0] >= 0xd9 && v[0] <= 0xdb }

// fail makes an error of the event under way.
func (a *arrival) fail(h *Held, message string) {
	h.s.fail(h.tag, a.whole, message)
	h.out.Failed++
}

func (c *Concat) byLines(h *Held, a *arrival) {
	stream := c.stream(h, a.e.Record, nil)
	g := c.add(h, h.group(stream), stream, a)
	if g.lines >= c.lines || g.large() {
		c.complete(h, g, a)
		h.end(g)
	}
}

func (c *Concat) byMetadata(h *Held, a *arrival) {
	if _, ok := event.FindKey(a.e.Record, c.indicator); !ok {
		h.pass(a.e.Time, a.whole)
		return
	}
	id, _ := event.FindKey(a.e.Record, c.id)
	h.s.record = appendJoined(h.s.record[:0], id)
	stream := c.stream(h, a.e.Record, h.s.record)
	g := c.add(h, h.group(stream), stream, a)
	last, _ := event.FindKey(a.e.Record, c.final)
	if isText(last, "true") || g.large() {
		c.complete(h, g, a)
		h.end(g)
	}
}

// isText says whether a value is this string.
func isText(v []byte, want string) bool {
	if len(v) == 0 {
		return false
	}
	s, _, err := event.Bytes(v, 0)
	return err == nil && string(s) == want
}

func (c *Concat) byCRI(h *Held, a *arrival) {
	v, ok := event.FindKey(a.e.Record, c.p.CRIKey)
	if !ok {
		a.fail(h, "the field "+c.p.CRIKey+" is missing")
		return
	}
	tag, _, err := event.Bytes(v, 0)
	if err != nil {
		a.fail(h, "the field "+c.p.CRIKey+" is no text")
		return
	}
	if i := bytes.IndexByte(tag, ':'); i >= 0 {
		tag = tag[:i]
	}
	stream := c.stream(h, a.e.Record, nil)
	g := c.add(h, h.group(stream), stream, a)
	if string(tag) == "F" || g.large() {
		c.complete(h, g, a)
		h.end(g)
	}
}

func (c *Concat) byPartialKey(h *Held, a *arrival) {
	v, ok := event.FindKey(a.e.Record, c.p.PartialKey)
	if !ok {
		h.pass(a.e.Time, a.whole)
		return
	}
	last := !isText(v, *c.p.PartialValue)
	stream := c.stream(h, a.e.Record, nil)
	g := h.group(stream)
	size := sizeOf(h.s, a.e.Record)
	filled := 0
	if g != nil {
		filled = g.size
	}
	if filled+size <= int(c.p.BufferLimit) {
		g = c.add(h, g, stream, a)
		g.size += size
	} else if g = c.overflow(h, g, stream, a, last); g == nil {
		return
	}
	if last || g.large() {
		c.complete(h, g, a)
		h.end(g)
	}
}

// overflow acts when a group has more than buffer_limit_size. It returns the group that the
// event under way is in, nil if it is in none.
func (c *Concat) overflow(h *Held, g *group, stream []byte, a *arrival, last bool) *group {
	switch c.p.BufferOverflow {
	case "truncate":
		if g == nil {
			a.fail(h, "a part is larger than buffer_limit_size")
			return nil
		}
		c.complete(h, g, a)
		h.end(g)
		h.out.Filtered++
		return nil
	case "drop":
		if g != nil {
			h.out.Filtered += g.lines
			h.end(g)
		}
		if last {
			a.fail(h, "the parts are larger than buffer_limit_size")
		} else {
			h.out.Filtered++
		}
		return nil
	case "new":
		if g != nil {
			c.complete(h, g, a)
			c.restart(h, g, a)
		} else {
			g = c.add(h, nil, stream, a)
		}
		g.size = sizeOf(h.s, a.e.Record)
		return g
	}
	return c.add(h, g, stream, a)
}

// sizeOf is what Fluentd counts of a record: the bytes of its keys and of its values as text.
func sizeOf(s *Scratch, record []byte) (size int) {
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return 0
	}
	for range 2 * n {
		end, err := event.Skip(record, i)
		if err != nil {
			return size
		}
		if text, _, err := event.Bytes(record, i); err == nil {
			size += len(text)
		} else {
			s.text = event.AppendText(s.text[:0], record[i:end])
			size += len(s.text)
		}
		i = end
	}
	return size
}

func (c *Concat) byRegexp(h *Held, a *arrival) {
	text, _, err := event.Bytes(a.value, 0)
	if err != nil && a.value[0] != 0xc0 {
		a.fail(h, "the field "+c.p.Key+" is no text")
		return
	}
	match := err == nil // nothing matches nil
	stream := c.stream(h, a.e.Record, nil)
	g := h.group(stream)
	first := match && c.start != nil && c.start.Match(text)
	switch {
	case first && g != nil:
		c.complete(h, g, a)
		c.restart(h, g, a)
	case first:
		g = c.add(h, nil, stream, a)
	}
	last := match && c.last != nil && c.last.Match(text)
	switch {
	case first && !last:
	case first:
		c.complete(h, g, a)
		h.end(g)
	case last:
		g = c.add(h, g, stream, a)
		c.complete(h, g, a)
		h.end(g)
	case g == nil && c.start != nil:
		h.pass(a.e.Time, a.whole)
	case g == nil || c.continuous == nil || match && c.continuous.Match(text):
		if g = c.add(h, g, stream, a); g.large() {
			c.complete(h, g, a)
			h.end(g)
		}
	default:
		c.complete(h, g, a)
		if c.p.FirstTimestamp { // so it is in Fluentd: the line that does not belong gets that time too
			h.out.Entries = event.AppendEntry(h.out.Entries, g.time, a.e.Record)
			h.passed(g.time, nil)
		} else {
			h.pass(a.e.Time, a.whole)
		}
		h.end(g)
	}
}

// late implements keeper: a group goes on without an event that would end it.
func (c *Concat) late(h *Held, g *group, now event.Time, final bool) {
	t := now
	if c.p.FirstTimestamp || final {
		t = g.time
	}
	h.out.Entries = event.AppendEntryHeader(h.out.Entries, t)
	h.out.Entries = c.merged(h.out.Entries, g.record, g, nil) // Fluentd removes no field then
	h.passed(t, g)
	h.end(g)
}
