package segment

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"weir/internal/event"
	"weir/internal/ledger"
)

func doorOf(write uint64, gaps ...DoorGap) *Door {
	d := &Door{Log: 7, Gen: 3, Write: write, Gaps: gaps}
	d.Sheet.Admitted, d.Sheet.Filtered = 9, 9
	return d
}

func doorGap(number, seq, events uint64, tags ...string) DoorGap {
	g := DoorGap{Number: number, Drop: Drop{Start: Pos{Seq: seq}, End: Pos{Seq: seq + 1}, Events: events, Reason: ledger.DiskFull, Miss: true}}
	for _, t := range tags {
		g.Tags = append(g.Tags, TagLoss{Tag: t, Events: events / uint64(len(tags)), Bytes: 10, First: 1, Last: 2})
	}
	return g
}

// TestDoor: the newest good slot counts, whatever has become of the others.
func TestDoor(t *testing.T) {
	var file []byte
	ids := []event.Chunk{{1}, {2}}
	for i := range DoorSlots {
		door := doorOf(uint64(i+4), doorGap(uint64(i), 5, 6, "a", "b"))
		door.IDs = ids
		slot, whole := AppendDoor(nil, door)
		if !whole || len(slot) > DoorSlot {
			t.Fatal(whole, len(slot))
		}
		file = append(file, append(slot, make([]byte, DoorSlot-len(slot))...)...)
	}
	d, ok := ReadDoor(file)
	want := doorOf(6, doorGap(2, 5, 6, "a", "b"))
	want.Slot, want.IDs = 2, ids
	if !ok || !reflect.DeepEqual(&d, want) {
		t.Fatalf("%v %+v", ok, d)
	}
	file[2*DoorSlot+40]++
	if d, ok := ReadDoor(file); !ok || d.Write != 5 || d.Slot != 1 {
		t.Fatalf("%v %+v", ok, d)
	}
	for _, cut := range []int{0, 10, slotHead, DoorSlot - 1, DoorSlot + 1} {
		d, ok := ReadDoor(file[:cut])
		if ok != (cut >= DoorSlot-1) || ok && d.Write != 4 {
			t.Fatalf("%d bytes: %v %+v", cut, ok, d)
		}
	}
}

// TestDoorTooLarge: what does not fit loses its tags at first, and then its end.
func TestDoorTooLarge(t *testing.T) {
	long := string(bytes.Repeat([]byte{'x'}, 1500))
	slot, whole := AppendDoor(nil, doorOf(1, doorGap(1, 5, 6, long+"a", long+"b"), doorGap(2, 6, 7, long)))
	d, ok := ReadDoor(slot)
	if !whole || !ok || len(d.Gaps) != 2 || len(d.Gaps[0].Tags) != 1 || d.Gaps[0].Tags[0] != (TagLoss{Events: 6, Bytes: 20, First: 1, Last: 2}) {
		t.Fatalf("%v %v %+v", whole, ok, d)
	}
	var many []DoorGap
	for i := range uint64(1000) {
		many = append(many, doorGap(i, i, 1, fmt.Sprint("tag", i)))
	}
	slot, whole = AppendDoor(nil, doorOf(1, many...))
	if d, ok := ReadDoor(slot); whole || !ok || len(slot) > DoorSlot || len(d.Gaps) < 50 {
		t.Fatalf("%v %v %d bytes, %d gaps", whole, ok, len(slot), len(d.Gaps))
	}
}

// TestDoorIsBookedOnce: what the journal or a checkpoint has of the door file is not booked again.
func TestDoorIsBookedOnce(t *testing.T) {
	d := doorOf(1, doorGap(1, 5, 6, "a"), doorGap(2, 6, 7, "a"), doorGap(4, 7, 8, "a"))
	s := State{Log: 7, Gen: 3, Numbers: 5, Open: []uint64{2, 3}}
	s.Door.Admitted, s.Door.Filtered, s.Door.Delivered = 8, 8, 2
	left := s.Unrecorded(d)
	s.BookDoor(d)
	if len(left) != 1 || left[0].Number != 2 || s.Door.Admitted != 9+7 || s.Door.Filtered != 9 || s.Door.Delivered != 2 || s.Door.Dropped[ledger.DiskFull] != 7 {
		t.Fatalf("%+v %+v", left, s.Door)
	}
	for _, s := range []State{{Log: 8, Gen: 3, Numbers: 5}, {Log: 7, Gen: 4}} { // another log; a weir without numbers has gone on
		s.BookDoor(d)
		if s.Door != (ledger.Sheet{}) || s.Unrecorded(d) != nil {
			t.Fatalf("%+v", s)
		}
	}
	var w Builder
	journal := bytes.Clone(w.Snapshot(&State{Log: 7, Gen: 3, Mark: Pos{Seq: 1}, Numbers: 3, Open: []uint64{1}}))
	journal = append(journal, w.Miss(0, &left[0].Drop, &ledger.Sheet{}, 5)...)
	journal = append(journal, w.Drop(&Drop{Start: Pos{Seq: 1}, End: Pos{Seq: 2}}, 3)...)
	r, good, err := Replay(journal)
	if err != nil || good != len(journal) || r.Numbers != 6 || !reflect.DeepEqual(r.Open, []uint64{1, 4}) {
		t.Fatalf("%+v %d of %d %v", r, good, len(journal), err)
	}
}

func FuzzDoor(f *testing.F) {
	slot, _ := AppendDoor(nil, doorOf(1, doorGap(1, 5, 6, "a", "b"), doorGap(2, 6, 7)))
	f.Add(slot)
	f.Add(append(make([]byte, DoorSlot), slot...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, good := range []bool{false, true} {
			if good && len(b) >= slotHead { // the body behind a good checksum must not be believed either
				b = bytes.Clone(b[:min(len(b), DoorSlot)])
				copy(b, doorMagic)
				n := len(b) - slotHead
				b[8], b[9], b[10], b[11] = byte(n), byte(n>>8), 0, 0
				sum := slotSum(b)
				b[12], b[13], b[14], b[15] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
			}
			d, ok := ReadDoor(b)
			if !ok {
				continue
			}
			slot, whole := AppendDoor(nil, &d)
			again, ok := ReadDoor(slot)
			if len(slot) > DoorSlot || !ok || whole && len(again.Gaps) != len(d.Gaps) {
				t.Fatalf("%d bytes, %v, %d of %d gaps", len(slot), ok, len(again.Gaps), len(d.Gaps))
			}
			s := State{Log: d.Log, Gen: d.Gen}
			s.BookDoor(&d)
		}
	})
}
