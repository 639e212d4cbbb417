package cloudwatch

import (
	"bytes"
	"strings"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// laneSep separates the parts of a lane's name: group and stream. What comes of several tags
// into one stream is in one lane, in the order in which it was accepted.
const laneSep = 0

// LaneNames takes a lane of this output apart.
func LaneNames(lane string) (group, stream string) {
	group, stream, _ = strings.Cut(lane, "\x00")
	return group, stream
}

// isLane says whether a lane is a group, NUL, and a stream.
func isLane(lane string) bool {
	group, stream, found := strings.Cut(lane, "\x00")
	return found && group != "" && stream != "" && strings.IndexByte(stream, laneSep) < 0
}

// tagSplitter is for batches whose tag is their lane.
type tagSplitter struct{}

// Split implements output.Splitter.
func (tagSplitter) Split(b event.Batch, add func(lane []byte, r output.Run)) {
	r := output.Run{Len: len(b.Entries), Count: b.Count}
	switch {
	case b.Count == 0:
	case !isLane(b.Tag):
		r.Fate = ledger.NoName.Fate()
		add(nil, r)
	default:
		add([]byte(b.Tag), r)
	}
}

// splitter finds the lane of each event. It remembers the last names, since neighbouring
// events mostly go to one place.
type splitter struct {
	group, stream *namer
	perRecord     bool
	perTime       bool
	inject        Injector // nil: names do not depend on what it puts in
	record        []byte   // with that

	raw, last []byte // both names and whether they are missing, before checking: of this event, of the last one
	rawCut    int    // where the group's name ends in raw
	lastCut   int    // and in last
	valid     bool   // last is one
	lane      []byte // made of last; empty if it has none
	fate      ledger.Fate
}

func (o *Output) newSplitter() *splitter {
	s := &splitter{group: &o.group, stream: &o.stream}
	s.perRecord = s.group.perRecord() || s.stream.perRecord()
	s.perTime = s.group.perTime() || s.stream.perTime()
	if s.perRecord {
		s.inject = o.encoding.inject
	}
	return s
}

// Split implements output.Splitter.
func (s *splitter) Split(b event.Batch, add func(lane []byte, r output.Run)) {
	if b.Count == 0 {
		return
	}
	if !s.perRecord && (!s.perTime || s.sameTime(b.First, b.Last)) {
		s.find(b.Tag, event.Entry{Time: b.First})
		s.give(add, output.Run{Len: len(b.Entries), Count: b.Count})
		return
	}
	run := output.Run{}
	end := 0
	for count := 0; count < b.Count; count++ {
		e, n, err := event.Next(b.Entries[end:])
		if err != nil {
			// Cannot happen with a batch that passed Check. What is left is in no lane.
			s.give(add, run)
			add(nil, output.Run{Off: end, Len: len(b.Entries) - end, Count: b.Count - count, Fate: ledger.Invalid.Fate()})
			return
		}
		if s.changed(b.Tag, e) {
			s.give(add, run)
			run = output.Run{Off: end}
			s.adopt()
		}
		run.Len += n
		run.Count++
		end += n
	}
	s.give(add, run)
}

func (s *splitter) give(add func([]byte, output.Run), r output.Run) {
	switch {
	case r.Count == 0:
	case len(s.lane) == 0:
		r.Fate = s.fate
		add(nil, r)
	default:
		add(s.lane, r)
	}
}

func (s *splitter) sameTime(a, b event.Time) bool {
	return (!s.group.perTime() || s.group.template.SameTime(a, b)) && (!s.stream.perTime() || s.stream.template.SameTime(a, b))
}

func (s *splitter) find(tag string, e event.Entry) {
	if s.changed(tag, e) {
		s.adopt()
	}
}

// changed puts the names of e into raw and reports whether they differ from the last.
func (s *splitter) changed(tag string, e event.Entry) bool {
	record := e.Record
	if s.inject != nil {
		s.record = s.inject.AppendRecord(s.record[:0], tag, e.Time, record)
		record = s.record
	}
	raw, noGroup := s.group.append(s.raw[:0], tag, e.Time, record)
	s.rawCut = len(raw)
	raw, noStream := s.stream.append(raw, tag, e.Time, record)
	var missing byte
	if noGroup {
		missing |= 1
	}
	if noStream {
		missing |= 2
	}
	s.raw = append(raw, missing)
	return !s.valid || s.rawCut != s.lastCut || !bytes.Equal(s.raw, s.last)
}

// adopt makes raw the last names and works out their lane.
func (s *splitter) adopt() {
	s.raw, s.last, s.lastCut = s.last, s.raw, s.rawCut
	s.valid = true
	missing := s.last[len(s.last)-1]
	names := s.last[:len(s.last)-1]
	var why, whyStream ledger.Reason
	s.lane, why = s.group.finish(s.lane[:0], names[:s.lastCut], missing&1 != 0)
	s.lane = append(s.lane, laneSep)
	s.lane, whyStream = s.stream.finish(s.lane, names[s.lastCut:], missing&2 != 0)
	if why == ledger.None {
		why = whyStream
	}
	if why != ledger.None {
		s.lane, s.fate = s.lane[:0], why.Fate()
		return
	}
}
