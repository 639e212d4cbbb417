package segment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"weir/internal/event"
	"weir/internal/ledger"
)

// Kinds of journal records.
const (
	recSnapshot = 1 // the whole state; the first record of every journal
	recSettle   = 2 // parts that ended
	recDrop     = 3 // a run of batches that was given up or found damaged
	recDoor     = 4 // what was booked without going through the buffer
	recMiss     = 5 // a gap of events lost before they could be appended
	recJoin     = 6 // likewise recDrop, joined with an earlier one
	recChunks   = 7 // ids of batches that were given up
)

// recordHead is length of the body, checksum of kind and body, kind.
const recordHead = 4 + 4 + 1

// maxRecord bounds a record's body. A snapshot of a million spans has some 8 MB.
const maxRecord = 256 << 20

// ErrJournal: the bytes are no valid journal record.
var ErrJournal = errors.New("settle journal is damaged")

// Part is what became of Count entries from First on of the batch Seq.
type Part struct {
	Seq          uint64
	First, Count uint32
	Fate         ledger.Fate
}

// TagLoss is how much of a tag was lost in a Drop.
type TagLoss struct {
	Tag           string
	Events, Bytes uint64
	First, Last   int64
}

// Drop is a run of batches [Start, End) of which what had not ended before, Events, ended
// as dropped for Reason.
type Drop struct {
	Start, End Pos
	Events     uint64
	Reason     ledger.Reason
	Tags       []TagLoss
	Miss       bool // they were never in the log, but booked beside it: Start and End count none of them
	Told       bool // somebody was told
}

// State is what the journal and the checkpoint remember: enough to book every event once.
type State struct {
	Log    uint64 // identity of the log
	Gen    uint64 // generation of the journal that this state heads or belongs to
	Mark   Pos    // everything before Mark.Seq has ended
	Next   Pos    // numbering when Sheet.Admitted was taken
	Stored Pos    // everything before it was stored
	// Above is how many events of batches at or behind the mark have ended.
	Above uint64
	Sheet ledger.Sheet // what went through the buffer
	Door  ledger.Sheet // what was booked beside it: filtered, refused
	Parts []Part       // what has ended at or behind the mark; fates are not kept (None)
	Drops []Drop       // likewise for whole runs
	// Chunks are the ids of the batches stored last, oldest first; at most MaxChunks are kept.
	// The journal has those that were given up since its beginning.
	Chunks []event.Chunk
	// Gaps that may be in the door file have numbers. Those below Numbers were given, and of
	// those Open are not booked in Sheet or Door.
	Numbers uint64
	Open    []uint64

	kept, keptDrops int // left by the last trim
}

// Builder makes journal records. The zero value is ready; Bytes is valid until the next
// call of a Begin method.
type Builder struct {
	b    []byte
	prev uint64
}

func (w *Builder) begin(kind byte) {
	w.b = append(w.b[:0], 0, 0, 0, 0, 0, 0, 0, 0, kind)
	w.prev = 0
}

// Bytes ends the record and returns it.
func (w *Builder) Bytes() []byte {
	binary.LittleEndian.PutUint32(w.b, uint32(len(w.b)-recordHead))
	binary.LittleEndian.PutUint32(w.b[4:], Sum(w.b[8:]))
	return w.b
}

func (w *Builder) pos(p Pos) {
	w.b = binary.AppendUvarint(w.b, p.Seq)
	w.b = binary.AppendUvarint(w.b, p.Events)
	w.b = binary.AppendUvarint(w.b, p.Bytes)
}

// BeginSettle starts a record of parts.
func (w *Builder) BeginSettle() { w.begin(recSettle) }

// Part adds a part to a record begun with BeginSettle.
func (w *Builder) Part(p Part) {
	w.b = binary.AppendVarint(w.b, int64(p.Seq-w.prev))
	w.prev = p.Seq
	w.b = binary.AppendUvarint(w.b, uint64(p.First))
	w.b = binary.AppendUvarint(w.b, uint64(p.Count))
	w.b = append(w.b, byte(p.Fate.Class), byte(p.Fate.Reason))
}

// Mark ends a settle record with the mark after it.
func (w *Builder) Mark(mark Pos) {
	// A part never has class 0xff, so this tells the mark from a part: it comes last and is
	// found from the end by its own length.
	at := len(w.b)
	w.pos(mark)
	w.b = append(w.b, byte(len(w.b)-at))
}

// Drop makes a drop record. number is that in the door file, 0 if it has none.
func (w *Builder) Drop(d *Drop, number uint64) []byte {
	w.begin(recDrop)
	w.drop(d)
	w.b = binary.AppendUvarint(w.b, number)
	return w.Bytes()
}

func (w *Builder) drop(d *Drop) {
	w.pos(d.Start)
	w.pos(d.End)
	w.b = binary.AppendUvarint(w.b, d.Events)
	flags := byte(d.Reason)
	if d.Miss {
		flags |= flagMiss
	}
	if d.Told {
		flags |= flagTold
	}
	w.b = append(w.b, flags)
	w.b = binary.AppendUvarint(w.b, uint64(len(d.Tags)))
	for _, t := range d.Tags {
		w.b = binary.AppendUvarint(w.b, uint64(len(t.Tag)))
		w.b = append(w.b, t.Tag...)
		w.b = binary.AppendUvarint(w.b, t.Events)
		w.b = binary.AppendUvarint(w.b, t.Bytes)
		w.b = binary.AppendVarint(w.b, t.First)
		w.b = binary.AppendVarint(w.b, t.Last)
	}
}

// Door makes a record of the sheet of what was booked beside the buffer, in total.
func (w *Builder) Door(s *ledger.Sheet) []byte {
	w.begin(recDoor)
	w.sheet(s)
	return w.Bytes()
}

func (w *Builder) sheet(s *ledger.Sheet) {
	for _, v := range [...]uint64{s.Admitted, s.Delivered, s.Filtered, s.Moved, uint64(len(s.Dropped))} {
		w.b = binary.AppendUvarint(w.b, v)
	}
	for i := range s.Dropped {
		w.b = binary.AppendUvarint(w.b, s.Dropped[i])
		w.b = binary.AppendUvarint(w.b, s.Rejected[i])
	}
}

// Snapshot makes the first record of a journal.
func (w *Builder) Snapshot(s *State) []byte {
	w.begin(recSnapshot)
	w.state(s)
	w.b = binary.AppendUvarint(w.b, uint64(len(s.Parts)))
	for _, p := range s.Parts {
		p.Fate = ledger.Fate{}
		w.Part(p)
	}
	w.b = binary.AppendUvarint(w.b, uint64(len(s.Drops)))
	for i := range s.Drops {
		w.drop(&s.Drops[i])
	}
	w.chunks(s.Chunks)
	w.numbers(s)
	return w.Bytes()
}

// state writes what snapshot and checkpoint have in common.
func (w *Builder) state(s *State) {
	w.b = append(w.b, Version)
	w.b = binary.LittleEndian.AppendUint64(w.b, s.Log)
	w.b = binary.AppendUvarint(w.b, s.Gen)
	w.pos(s.Mark)
	w.pos(s.Next)
	w.pos(s.Stored)
	w.b = binary.AppendUvarint(w.b, s.Above)
	w.sheet(&s.Sheet)
	w.sheet(&s.Door)
}

// reader takes a record's body apart. The first failure sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.bytes(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) pos() Pos { return Pos{Seq: r.uvarint(), Events: r.uvarint(), Bytes: r.uvarint()} }

func (r *reader) sheet() (s ledger.Sheet) {
	s.Admitted, s.Delivered, s.Filtered, s.Moved = r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
	n := r.uvarint()
	if n > uint64(len(s.Dropped)) {
		r.bad = true // reasons of a newer weir
		return s
	}
	for i := range n {
		s.Dropped[i], s.Rejected[i] = r.uvarint(), r.uvarint()
	}
	return s
}

func (r *reader) part(prev uint64) Part {
	p := Part{Seq: prev + uint64(r.varint())}
	first, count := r.uvarint(), r.uvarint()
	p.Fate = ledger.Fate{Class: ledger.Class(r.byte()), Reason: ledger.Reason(r.byte())}
	var s ledger.Sheet
	if first > 1<<32-1 || count > 1<<32-1 || p.Fate.Class > ledger.Moved && p.Fate.Class != classTold || int(p.Fate.Reason) >= len(s.Dropped) {
		r.bad = true
	}
	p.First, p.Count = uint32(first), uint32(count)
	return p
}

func (r *reader) drop() (d Drop) {
	d.Start, d.End = r.pos(), r.pos()
	d.Events = r.uvarint()
	flags := r.byte()
	d.Reason, d.Miss, d.Told = ledger.Reason(flags&reasonBits), flags&flagMiss != 0, flags&flagTold != 0
	var s ledger.Sheet
	if int(d.Reason) >= len(s.Dropped) || d.End.Seq < d.Start.Seq || d.End.Events < d.Start.Events ||
		d.Events > d.Ended() && !d.Miss {
		r.bad = true
	}
	n := r.uvarint()
	for i := uint64(0); i < n && !r.bad; i++ {
		t := TagLoss{Tag: string(r.bytes(r.uvarint()))}
		t.Events, t.Bytes, t.First, t.Last = r.uvarint(), r.uvarint(), r.varint(), r.varint()
		d.Tags = append(d.Tags, t)
	}
	return d
}

func (r *reader) state() (s State) {
	if v := r.byte(); v != Version {
		r.bad = true
		return s
	}
	if p := r.bytes(8); p != nil {
		s.Log = binary.LittleEndian.Uint64(p)
	}
	s.Gen = r.uvarint()
	s.Mark, s.Next, s.Stored = r.pos(), r.pos(), r.pos()
	s.Above = r.uvarint()
	s.Sheet, s.Door = r.sheet(), r.sheet()
	return s
}

// record returns the kind and body of the first record of b and its whole length.
func record(b []byte) (kind byte, body []byte, n int, err error) {
	if len(b) < recordHead {
		return 0, nil, 0, ErrJournal
	}
	size := binary.LittleEndian.Uint32(b)
	if size > maxRecord || int(size) > len(b)-recordHead {
		return 0, nil, 0, ErrJournal
	}
	n = recordHead + int(size)
	if binary.LittleEndian.Uint32(b[4:]) != Sum(b[8:n]) {
		return 0, nil, 0, ErrJournal
	}
	return b[8], b[recordHead:n], n, nil
}

// Replay reads a journal and returns the state that it leads to and how many bytes of it
// are good. Parts of batches before the mark are left out. It fails with ErrJournal only
// if the snapshot at the head cannot be read; a bad record behind it ends the replay, since
// that is what a cut-off write looks like.
func Replay(b []byte) (s State, good int, err error) {
	kind, body, n, err := record(b)
	if err != nil || kind != recSnapshot {
		return State{}, 0, fmt.Errorf("read the snapshot at its head: %w", ErrJournal)
	}
	r := &reader{b: body}
	s = r.state()
	prev := uint64(0)
	for i := r.uvarint(); i > 0 && !r.bad; i-- {
		p := r.part(prev)
		prev = p.Seq
		s.Parts = append(s.Parts, p)
	}
	for i := r.uvarint(); i > 0 && !r.bad; i-- {
		s.Drops = append(s.Drops, r.drop())
	}
	s.Chunks = r.chunks()
	r.numbers(&s)
	if r.bad {
		return State{}, 0, fmt.Errorf("read the snapshot at its head: %w", ErrJournal)
	}
	good = n
	for {
		kind, body, n, err := record(b[good:])
		if err != nil || !s.apply(kind, body) {
			break
		}
		good += n
	}
	s.trim()
	return s, good, nil
}

// apply changes s by one record; false means that the record makes no sense.
func (s *State) apply(kind byte, body []byte) bool {
	switch kind {
	case recSettle:
		return s.applySettle(body)
	case recDrop:
		r := &reader{b: body}
		d := r.drop()
		if !s.numbered(r) {
			return false
		}
		s.bookDrop(&d)
		s.join(0, d)
		return true
	case recMiss:
		return s.applyMiss(body)
	case recJoin:
		return s.applyJoin(body)
	case recChunks:
		return s.applyChunks(body)
	case recDoor:
		r := &reader{b: body}
		door := r.sheet()
		if r.bad {
			return false
		}
		s.Door = door
		return true
	}
	return false
}

func (s *State) applySettle(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	k := int(body[len(body)-1])
	if k+1 > len(body) {
		return false
	}
	tail := &reader{b: body[len(body)-1-k : len(body)-1]}
	mark := tail.pos()
	if tail.bad || len(tail.b) > 0 {
		return false
	}
	r := &reader{b: body[:len(body)-1-k]}
	at, prev := len(s.Parts), uint64(0)
	sheet, ended := s.Sheet, uint64(0)
	var told []uint64
	for len(r.b) > 0 {
		p := r.part(prev)
		if r.bad {
			s.Parts = s.Parts[:at]
			return false
		}
		prev = p.Seq
		if p.Fate.Class == classTold {
			told = append(told, p.Seq)
			continue
		}
		sheet.Add(p.Fate, uint64(p.Count))
		ended += uint64(p.Count)
		s.Parts = append(s.Parts, p)
	}
	s.Sheet = sheet
	s.Above += ended
	for _, seq := range told {
		s.tell(seq)
	}
	s.advance(mark)
	if len(s.Parts) > 4096+2*s.kept {
		s.trim() // bounds memory while a long journal is replayed
	}
	return true
}

// Advance moves the mark to where it is known to have been, and leaves out what lies before
// it.
func (s *State) Advance(mark Pos) {
	s.advance(mark)
	s.trim()
}

func (s *State) advance(mark Pos) {
	if mark.Seq > s.Mark.Seq {
		s.Above -= mark.Events - s.Mark.Events
		s.Mark = mark
	}
}

// trim leaves out what lies before the mark.
func (s *State) trim() {
	parts := s.Parts[:0]
	for _, p := range s.Parts {
		if p.Seq >= s.Mark.Seq {
			parts = append(parts, p)
		}
	}
	s.Parts, s.kept = parts, len(parts)
	drops := s.Drops[:0]
	for _, d := range s.Drops {
		if d.End.Seq > s.Mark.Seq {
			drops = append(drops, d)
		}
	}
	s.Drops, s.keptDrops = drops, len(drops)
}
