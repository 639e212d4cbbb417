package segment

import (
	"encoding/binary"
	"slices"

	"weir/internal/event"
	"weir/internal/ledger"
)

// DoorSlot is the length of one of the DoorSlots slots of a door file. A slot is written in
// place, within one page, so that it can be written while the disk is full.
const (
	DoorSlot  = 4096
	DoorSlots = 3
)

const doorMagic = "weirdoor"

// MaxLostIDs is how many ids of losses a door file keeps.
const MaxLostIDs = 32

// maxOpen bounds how far the numbers of gaps may run ahead.
const maxOpen = 1 << 16

// DoorGap is a Drop that the journal may not have. Number tells whether it does: see
// State.Recorded.
type DoorGap struct {
	Number uint64
	Target uint64 // Seq of the Drop that it joins, or 0
	Drop
}

// Door is what must survive a kill and may not be in the journal.
type Door struct {
	Log   uint64       // identity of the log
	Gen   uint64       // of the journal when it was written
	Write uint64       // counts writes; the highest good slot counts
	Sheet ledger.Sheet // what was booked beside the buffer, without Gaps
	Gaps  []DoorGap
	IDs   []event.Chunk // of what was lost last, MaxLostIDs at most
	Slot  int           // where it was read
}

// AppendDoor appends a slot. If d does not fit, ids and tags are left out at first, and then the last gaps: whole is
// false then.
func AppendDoor(dst []byte, d *Door) (slot []byte, whole bool) {
	at := len(dst)
	for _, tags := range []bool{true, false} {
		for _, ids := range [][]event.Chunk{d.IDs, nil} {
			dst = appendDoor(dst[:at], d, len(d.Gaps), tags, ids)
			if len(dst)-at <= DoorSlot {
				return dst, true
			}
		}
	}
	for n := len(d.Gaps) - 1; len(dst)-at > DoorSlot && n >= 0; n-- {
		dst = appendDoor(dst[:at], d, n, false, nil)
	}
	return dst, false
}

func appendDoor(dst []byte, d *Door, gaps int, tags bool, ids []event.Chunk) []byte {
	at := len(dst)
	dst = append(dst, doorMagic...)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, d.Write)
	dst = append(dst, Version)
	dst = binary.LittleEndian.AppendUint64(dst, d.Log)
	w := &Builder{b: dst}
	w.b = binary.AppendUvarint(w.b, d.Gen)
	w.sheet(&d.Sheet)
	w.b = binary.AppendUvarint(w.b, uint64(gaps))
	for i := range d.Gaps[:gaps] {
		g := &d.Gaps[i]
		w.b = binary.AppendUvarint(w.b, g.Number)
		w.b = binary.AppendUvarint(w.b, g.Target)
		if tags {
			w.drop(&g.Drop)
			continue
		}
		few := g.Drop
		few.Tags = few.sum()
		w.drop(&few)
	}
	w.chunks(ids)
	slot := w.b[at:]
	binary.LittleEndian.PutUint32(slot[8:], uint32(len(slot)-slotHead))
	binary.LittleEndian.PutUint32(slot[12:], slotSum(slot))
	return w.b
}

// sum adds up the tags of d under the empty one.
func (d *Drop) sum() []TagLoss {
	if len(d.Tags) == 0 {
		return nil
	}
	var all [1]TagLoss
	for i := range d.Tags {
		all[0].Add(&d.Tags[i])
	}
	return all[:]
}

// ReadDoor takes the newest good slot of a door file; false if there is none.
func ReadDoor(b []byte) (d Door, ok bool) {
	for i := 0; i < DoorSlots && len(b) >= slotHead; i++ {
		if s, good := readDoor(b[:min(len(b), DoorSlot)]); good && (!ok || s.Write > d.Write) {
			d, ok = s, true
			d.Slot = i
		}
		b = b[min(len(b), DoorSlot):]
	}
	return d, ok
}

func readDoor(slot []byte) (d Door, ok bool) {
	n := binary.LittleEndian.Uint32(slot[8:])
	if string(slot[:8]) != doorMagic || int64(n) > int64(len(slot)-slotHead) {
		return d, false
	}
	slot = slot[:slotHead+n]
	if binary.LittleEndian.Uint32(slot[12:]) != slotSum(slot) {
		return d, false
	}
	d.Write = binary.LittleEndian.Uint64(slot[16:])
	r := &reader{b: slot[slotHead:]}
	if r.byte() != Version {
		return d, false
	}
	if p := r.bytes(8); p != nil {
		d.Log = binary.LittleEndian.Uint64(p)
	}
	d.Gen = r.uvarint()
	d.Sheet = r.sheet()
	for i := r.uvarint(); i > 0 && !r.bad; i-- {
		d.Gaps = append(d.Gaps, DoorGap{Number: r.uvarint(), Target: r.uvarint(), Drop: r.drop()})
	}
	if len(r.b) > 0 { // else an earlier weir wrote it
		d.IDs = r.chunks()
	}
	return d, !r.bad
}

// Recorded tells whether the journal has booked the gap of this number.
func (s *State) Recorded(n uint64) bool { return n < s.Numbers && !slices.Contains(s.Open, n) }

// recorded notes that the journal has booked a gap; false if the number makes no sense.
func (s *State) recorded(n uint64) bool {
	if n < s.Numbers {
		s.Open = slices.DeleteFunc(s.Open, func(x uint64) bool { return x == n })
		return true
	}
	if n-s.Numbers+uint64(len(s.Open)) > maxOpen {
		return false
	}
	for ; s.Numbers < n; s.Numbers++ {
		s.Open = append(s.Open, s.Numbers)
	}
	s.Numbers = n + 1
	return true
}

// numbers writes Numbers and Open; they stand behind the chunks.
func (w *Builder) numbers(s *State) {
	w.b = binary.AppendUvarint(w.b, s.Numbers)
	w.b = binary.AppendUvarint(w.b, uint64(len(s.Open)))
	for _, n := range s.Open {
		w.b = binary.AppendUvarint(w.b, s.Numbers-n)
	}
}

// numbers reads what the method of Builder writes; without any bytes there are none.
func (r *reader) numbers(s *State) {
	if len(r.b) == 0 {
		return
	}
	s.Numbers = r.uvarint()
	n := r.uvarint()
	for i := uint64(0); i < n && !r.bad; i++ {
		back := r.uvarint()
		r.bad = r.bad || back == 0 || back > s.Numbers
		s.Open = append(s.Open, s.Numbers-back)
	}
}

// fresh tells whether d speaks of the same time as s.
func (s *State) fresh(d *Door) bool {
	// A weir that knows no numbers may have gone on since.
	return d.Log == s.Log && (s.Numbers > 0 || d.Gen == s.Gen)
}

// BookDoor adds to the sheets of s what d has and s does not. What it is about is left to the caller: Unrecorded.
func (s *State) BookDoor(d *Door) {
	if !s.fresh(d) {
		return
	}
	raise(&s.Door, &d.Sheet)
	for i := range d.Gaps {
		switch g := &d.Gaps[i]; {
		case s.Recorded(g.Number):
		case g.Miss:
			s.Door.Admitted += g.Events
			s.Door.Add(ledger.Fate{Class: ledger.Dropped, Reason: g.Reason}, g.Events)
		default:
			s.bookDrop(&g.Drop)
		}
	}
}

// Unrecorded lists the gaps of d that s does not have.
func (s *State) Unrecorded(d *Door) (list []DoorGap) {
	if !s.fresh(d) {
		return nil
	}
	for _, g := range d.Gaps {
		if !s.Recorded(g.Number) {
			list = append(list, g)
		}
	}
	return list
}

// raise makes each count of s at least that of t.
func raise(s, t *ledger.Sheet) {
	s.Admitted, s.Delivered = max(s.Admitted, t.Admitted), max(s.Delivered, t.Delivered)
	s.Filtered, s.Moved = max(s.Filtered, t.Filtered), max(s.Moved, t.Moved)
	for i := range s.Dropped {
		s.Dropped[i], s.Rejected[i] = max(s.Dropped[i], t.Dropped[i]), max(s.Rejected[i], t.Rejected[i])
	}
}

// Place adds a gap of which the sheets know already to the Drop that it joins, which it returns; nil if
// that is not there.
func (s *State) Place(g *DoorGap) *Drop {
	for i := len(s.Drops) - 1; i >= 0 && g.Target != 0; i-- {
		if t := &s.Drops[i]; t.Start.Seq == g.Target && t.Reason == g.Reason && t.Miss == g.Miss && !t.Told {
			t.Join(&g.Drop)
			return t
		}
	}
	return nil
}
