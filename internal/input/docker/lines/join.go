package lines

import "weir/internal/input/docker/frame"

// join is a multi-line event that may still grow.
type join struct {
	source frame.Source // of its first line
	time   int64        // of the event
	size   int          // of text, as Size counts
	text   text
}

// join gives the place where lines of a source are joined.
func (l *Lines) join(s frame.Source) *join {
	if l.o.Separate && s == frame.Stderr {
		return &l.joins[1]
	}
	return &l.joins[0]
}

// line takes a line, or what is left of one that has begun.
func (l *Lines) line(now int64, s frame.Source, time int64, line []byte, begun bool) {
	if l.o.Begins == nil {
		l.plain(s, time, line)
		return
	}
	if begun && len(line) == 0 {
		return
	}
	n := l.piece(line)
	begins := !begun && l.begins(line[:n], &time)
	for n < len(line) {
		l.add(now, s, time, line[:n], begins, false)
		l.flush(l.join(s))
		line, begins = line[n:], false
		n = l.piece(line)
	}
	l.add(now, s, time, line, begins, true)
}

// begins says whether a line begins an event, and sets the time of that.
func (l *Lines) begins(line []byte, time *int64) bool {
	if !l.o.Begins.Match(line) {
		return false
	}
	if l.o.TimeOf != nil {
		if t, ok := l.o.TimeOf(line); ok {
			*time = t
		}
	}
	return true
}

// add puts a line that is not larger than an event into the event of its source, or into a
// new one. lf ends it with LF; but one that fills an event alone gets none.
func (l *Lines) add(now int64, s frame.Source, time int64, line []byte, begins, lf bool) {
	j := l.join(s)
	size := Size(line)
	lf = lf && size < l.o.EventSize
	if lf {
		size++
	}
	if begins || j.size+size > l.o.EventSize {
		l.flush(j)
	}
	if len(j.text.buf) == 0 {
		j.source, j.time = s, time
	}
	j.text.add(now, line)
	if lf {
		j.text.add(now, newline)
	}
	j.size += size
}

var newline = []byte{'\n'}

// flush gives out a joined event.
func (l *Lines) flush(j *join) {
	if len(j.text.buf) == 0 {
		return
	}
	l.plain(j.source, j.time, j.text.buf)
	j.text.reset()
	j.size = 0
}

// plain gives out a text as one event, or as several if it is too large. An empty one is none:
// the service takes no empty events.
func (l *Lines) plain(s frame.Source, time int64, text []byte) {
	for len(text) > 0 {
		n := l.piece(text)
		l.o.Emit(Event{Source: s, TimeNano: time, Message: text[:n]})
		text = text[n:]
	}
}
