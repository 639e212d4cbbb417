package s3

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// A lane is an object under construction: its key with marks, then markEnd, then the parts
// of its metadata that depend on the event, then what else the chunk keys say, each with
// markEnd behind it. Events that Fluentd would put into different chunks are in different
// lanes, whether or not the key shows that.

// splitter finds the lane of each event. It remembers the last one, since neighbouring
// events mostly go to one object.
type splitter struct {
	o    *Output
	lane []byte // of the run being made; nil if its key was refused
	next []byte
	text []byte
	fate ledger.Reason // of the key worked out last
	was  ledger.Reason // of the run being made
}

// Splitter implements output.Output.
func (o *Output) Splitter() output.Splitter { return &splitter{o: o} }

// usesRecord says whether the lane depends on the record.
func (o *Output) usesRecord() bool {
	for _, t := range o.templates {
		if t.UsesRecord() {
			return true
		}
	}
	return false
}

// window is the time span around at in which the lane stays the same.
func (o *Output) window(at event.Time) (start, end event.Time) {
	start, end = o.templates[0].Window(at)
	for _, t := range o.templates[1:] {
		s, e := t.Window(at)
		start, end = max(start, s), min(end, e)
	}
	return start, end
}

// Split implements output.Splitter. A key that would lead out of its directory, or that is
// too long, ends the events as rejected, bad name.
func (s *splitter) Split(b event.Batch, add func(lane []byte, r output.Run)) {
	if b.Count == 0 {
		return
	}
	perRecord := s.o.perRecord
	if start, end := s.o.window(b.First); !perRecord && start <= b.Last && b.Last < end {
		s.lane, s.was = s.find(s.lane, placeholder.Context{Tag: b.Tag, Time: b.First})
		s.give(add, output.Run{Len: len(b.Entries), Count: b.Count})
		return
	}
	run, seen := output.Run{}, 0
	var from, until event.Time // when the lane is s.lane, if only time matters
	for off := 0; off < len(b.Entries); {
		e, n, err := event.Next(b.Entries[off:])
		if err != nil { // cannot happen to checked entries; never stands in the way of the others
			s.give(add, run)
			add(nil, output.Run{Off: off, Len: len(b.Entries) - off, Count: b.Count - seen, Fate: ledger.Invalid.Fate()})
			return
		}
		if seen == 0 || perRecord || e.Time < from || e.Time >= until {
			s.next, s.fate = s.find(s.next, placeholder.Context{Tag: b.Tag, Time: e.Time, Record: e.Record})
			if run.Count > 0 && (s.fate != s.was || !bytes.Equal(s.next, s.lane)) {
				s.give(add, run)
				run = output.Run{Off: off}
			}
			s.lane, s.next, s.was = s.next, s.lane, s.fate
			from, until = s.o.window(e.Time)
		}
		run.Count++
		run.Len += n
		off += n
		seen++
	}
	s.give(add, run)
}

func (s *splitter) give(add func([]byte, output.Run), r output.Run) {
	switch {
	case r.Count == 0:
	case s.was != ledger.None:
		r.Fate = ledger.Fate{Class: ledger.Rejected, Reason: s.was}
		add(nil, r)
	default:
		add(s.lane, r)
	}
}

// find writes the lane of an event over dst.
func (s *splitter) find(dst []byte, c placeholder.Context) ([]byte, ledger.Reason) {
	f := &s.o.key
	dst, _, err := f.template.AppendPath(dst[:0], c)
	if err == nil && !utf8.Valid(dst) {
		dst = bytes.ToValidUTF8(dst, []byte("\uFFFD")) // S3 takes nothing else in a key
	}
	switch {
	case err != nil || len(dst)+f.grow > maxKey:
		return dst[:0], ledger.BadName
	case len(dst) == 0:
		return dst, ledger.NoName
	}
	dst = append(dst, markEnd...)
	for _, t := range s.o.templates[1:] {
		s.text, _ = t.Append(s.text[:0], c)
		dst = appendHeader(dst, s.text)
		dst = append(dst, markEnd...)
	}
	return dst, ledger.None
}

// appendHeader appends text in which what cannot stand in a header is a blank. Marks stay.
func appendHeader(dst, text []byte) []byte {
	for i, c := range text {
		isMark := c == 0 && bytes.HasPrefix(text[i:], []byte(markIndex))
		if c < ' ' && !isMark || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// laneParts takes a lane apart into its key and the texts of the metadata.
func (o *Output) laneParts(lane string, meta []string) (key string, out []string) {
	key, rest, _ := strings.Cut(lane, markEnd)
	for range o.metaNames {
		var text string
		text, rest, _ = strings.Cut(rest, markEnd)
		meta = append(meta, text)
	}
	return key, meta
}
