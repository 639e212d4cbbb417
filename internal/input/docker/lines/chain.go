package lines

import (
	"bytes"

	"weir/internal/input/docker/frame"
)

// engineChunk is the size of a chunk when no other is known: the engine's buffer.
const engineChunk = 16 << 10

// Bounds for what a frame claims.
const (
	maxID      = 128     // bytes of an id that are compared; the engine's has 64
	maxMissing = 1 << 16 // chunks of one gap that are counted
)

// chain is a line of one source whose end has not come. A source writes one line after the
// other, so it has never more than one of them: whatever else comes from it means that the
// rest of this line was dropped.
type chain struct {
	open    bool
	meta    bool   // with metadata; without, the chunk that is not partial is the last
	begun   bool   // the beginning of the line was given out or is missing: the rest begins no event
	id      []byte // of the line
	ordinal int32  // of the newest chunk; 0 if it did not say
	time    int64  // of the line: the engine gives all chunks the same
	text    text   // what is held of it
}

// chunk takes a part of a line.
func (l *Lines) chunk(now int64, c *chain, e *frame.Entry) {
	id := e.Meta.ID[:min(len(e.Meta.ID), maxID)]
	if c.open && (c.meta != e.HasMeta || !bytes.Equal(c.id, id)) {
		l.breakOff(now, e.Source)
	}
	missing := int64(e.Meta.Ordinal) - int64(c.ordinal) - 1
	if c.open && c.ordinal == 0 {
		missing = 0
	}
	if !c.open {
		c.open, c.meta, c.begun, c.time = true, e.HasMeta, false, e.TimeNano
		c.id = append(c.id[:0], id...)
	}
	if missing > 0 {
		l.gap(now, e, uint64(min(missing, maxMissing)))
	}
	c.ordinal = max(e.Meta.Ordinal, 0)
	l.grow(now, e.Source, e.Line)
	if e.HasMeta && e.Meta.Last {
		l.end(now, e.Source)
	}
}

// gap reports chunks that are missing before e.
func (l *Lines) gap(now int64, e *frame.Entry, missing uint64) {
	c := &l.chains[e.Source]
	l.part(now, e.Source, c.text.buf)
	c.text.reset()
	c.begun = true
	size := uint64(engineChunk)
	if !e.Meta.Last { // all but the last one are of the same size
		size = uint64(len(e.Line))
	}
	l.lost(e.Source, c.time, missing*size)
}

// breakOff ends a line whose end was dropped.
func (l *Lines) breakOff(now int64, s frame.Source) {
	time := l.chains[s].time
	l.end(now, s)
	l.lost(s, time, 0)
}

// lost reports a loss after all that came before it.
func (l *Lines) lost(s frame.Source, time int64, size uint64) {
	l.flush(l.join(s))
	l.o.Emit(Event{Source: s, TimeNano: time, Lost: 1, LostBytes: size})
}

// grow adds to an open line, and gives out what is more than an event.
func (l *Lines) grow(now int64, s frame.Source, more []byte) {
	c := &l.chains[s]
	c.text.add(now, more)
	from := 0
	for {
		to := c.text.over(from, l.o.EventSize)
		if to == from {
			break
		}
		l.part(now, s, c.text.buf[from:to])
		from = to
	}
	if from > 0 {
		c.text.drop(now, from)
	}
}

// part gives out a piece of an open line, the first bytes held of it, as the end of an event.
func (l *Lines) part(now int64, s frame.Source, piece []byte) {
	c := &l.chains[s]
	if len(piece) == 0 {
		return
	}
	if l.o.Begins == nil {
		l.plain(s, c.time, piece)
	} else {
		begins := !c.begun && l.begins(piece, &c.time)
		l.add(now, s, c.time, piece, begins, false)
		l.flush(l.join(s))
	}
	c.begun = true
}

// end takes what is held of an open line as its end.
func (l *Lines) end(now int64, s frame.Source) {
	c := &l.chains[s]
	l.line(now, s, c.time, c.text.buf, c.begun)
	c.text.reset()
	c.open, c.ordinal, c.id = false, 0, c.id[:0]
}
