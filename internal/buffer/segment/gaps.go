package segment

import (
	"encoding/binary"

	"weir/internal/ledger"
)

// Flags beside a Drop's reason.
const (
	flagTold   = 1 << 7
	flagMiss   = 1 << 6
	reasonBits = flagMiss - 1
)

// classTold stands in a settle record for the class of a part: the Drop that begins at its
// Seq has been told.
const classTold = 0xfe

// MaxTags bounds how many tags of a Drop are told apart; the rest is told together under
// the empty tag.
const MaxTags = 4096

// Ended is how many events of the numbering d covers: all of them have ended.
func (d *Drop) Ended() uint64 {
	if d.End.Events < d.Start.Events {
		return 0
	}
	return d.End.Events - d.Start.Events
}

// Join adds the loss of e to d. If e begins where d ends, d covers its Seqs from now on.
func (d *Drop) Join(e *Drop) {
	if e.Start.Seq == d.End.Seq {
		d.End = e.End
	}
	d.Events += e.Events
	d.Tags = JoinTags(d.Tags, e.Tags)
}

// JoinTags adds the losses of more to list, within MaxTags.
func JoinTags(list, more []TagLoss) []TagLoss {
	var index map[string]int
	if len(list)*len(more) > 4096 {
		index = make(map[string]int, len(list))
		for i := range list {
			index[list[i].Tag] = i
		}
	}
	for _, t := range more {
		i := find(list, index, t.Tag)
		if i < 0 && len(list) >= MaxTags {
			t.Tag = ""
			i = find(list, index, "")
		}
		if i >= 0 {
			list[i].Add(&t)
			continue
		}
		if index != nil {
			index[t.Tag] = len(list)
		}
		list = append(list, t)
	}
	return list
}

func find(list []TagLoss, index map[string]int, tag string) int {
	if index != nil {
		if i, ok := index[tag]; ok {
			return i
		}
		return -1
	}
	for i := range list {
		if list[i].Tag == tag {
			return i
		}
	}
	return -1
}

// Add adds u, whatever its tag.
func (t *TagLoss) Add(u *TagLoss) {
	t.Events += u.Events
	t.Bytes += u.Bytes
	if u.First == 0 && u.Last == 0 {
		return // not known
	}
	if t.First == 0 && t.Last == 0 {
		t.First, t.Last = u.First, u.Last
	}
	t.First, t.Last = min(t.First, u.First), max(t.Last, u.Last)
}

// Miss makes the record of a Drop whose events were booked beside the buffer, with the sheet
// of all that was, in total, and its number in the door file. If target is not 0, d joins the Drop that begins there.
func (w *Builder) Miss(target uint64, d *Drop, door *ledger.Sheet, number uint64) []byte {
	w.begin(recMiss)
	w.b = binary.AppendUvarint(w.b, target)
	w.drop(d)
	w.sheet(door)
	w.b = binary.AppendUvarint(w.b, number)
	return w.Bytes()
}

// Join makes the record of a Drop that joins the one which begins at target.
func (w *Builder) Join(target uint64, d *Drop, number uint64) []byte {
	w.begin(recJoin)
	w.b = binary.AppendUvarint(w.b, target)
	w.drop(d)
	w.b = binary.AppendUvarint(w.b, number)
	return w.Bytes()
}

// Told adds to a record begun with BeginSettle that the Drop which begins at seq was told.
func (w *Builder) Told(seq uint64) {
	w.b = binary.AppendVarint(w.b, int64(seq-w.prev))
	w.prev = seq
	w.b = append(w.b, 0, 0, classTold, 0)
}

// numbered reads the number that may stand at the end of a record and notes that it is booked; false if the
// record makes no sense.
func (s *State) numbered(r *reader) bool {
	n := uint64(0)
	if len(r.b) > 0 {
		n = r.uvarint()
	}
	return !r.bad && (n == 0 || s.recorded(n))
}

func (s *State) applyMiss(body []byte) bool {
	r := &reader{b: body}
	target, d, door := r.uvarint(), r.drop(), ledger.Sheet{}
	door = r.sheet()
	if !d.Miss || !s.numbered(r) {
		return false
	}
	s.Door = door
	s.join(target, d)
	return true
}

func (s *State) applyJoin(body []byte) bool {
	r := &reader{b: body}
	target, d := r.uvarint(), r.drop()
	if d.Miss || !s.numbered(r) {
		return false
	}
	s.bookDrop(&d)
	s.join(target, d)
	return true
}

func (s *State) bookDrop(d *Drop) {
	s.Sheet.Add(ledger.Fate{Class: ledger.Dropped, Reason: d.Reason}, d.Events)
	s.Above += d.Events
}

// join adds d to the Drop that begins at target, or to the list.
func (s *State) join(target uint64, d Drop) {
	if target != 0 {
		for i := len(s.Drops) - 1; i >= 0; i-- {
			if t := &s.Drops[i]; t.Start.Seq == target && t.Reason == d.Reason && t.Miss == d.Miss {
				t.Join(&d)
				return
			}
		}
	}
	s.Drops = append(s.Drops, d)
	if len(s.Drops) > 4096+2*s.keptDrops {
		s.trim()
	}
}

// tell notes that the Drop which begins at seq has been told.
func (s *State) tell(seq uint64) {
	for i := len(s.Drops) - 1; i >= 0; i-- {
		if s.Drops[i].Start.Seq == seq {
			s.Drops[i].Told = true
		}
	}
}
