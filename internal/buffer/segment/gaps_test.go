package segment

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"weir/internal/ledger"
)

// TestReplayGaps is gaps that are told, joined and forgotten.
func TestReplayGaps(t *testing.T) {
	var w Builder
	journal := bytes.Clone(w.Snapshot(&State{Log: 1, Mark: Pos{Seq: 1}, Next: Pos{Seq: 1}}))
	add := func(rec []byte) { journal = append(journal, rec...) }
	at := func(seq, events uint64) Pos { return Pos{Seq: seq, Events: events} }
	var door ledger.Sheet
	miss := func(target uint64, from, to Pos, n uint64, tag string) {
		door.Admitted += n
		door.Dropped[ledger.WireLoss] += n
		add(w.Miss(target, &Drop{Start: from, End: to, Events: n, Reason: ledger.WireLoss, Miss: true,
			Tags: []TagLoss{{Tag: tag, Events: n, Bytes: 10, First: 5, Last: 7}}}, &door, 0))
	}
	miss(0, at(3, 10), at(4, 10), 2, "a")
	miss(3, at(4, 10), at(5, 10), 3, "b") // joins its neighbour
	miss(3, at(9, 40), at(9, 40), 4, "a") // joins it from afar
	add(w.Drop(&Drop{Start: at(5, 10), End: at(7, 20), Events: 8, Reason: ledger.BufferFull, Tags: []TagLoss{{Tag: "a", Events: 8}}}, 0))
	add(w.Join(5, &Drop{Start: at(7, 20), End: at(9, 40), Events: 20, Reason: ledger.BufferFull, Tags: []TagLoss{{Tag: "a", Events: 20}}}, 0))
	untold := len(journal)
	w.BeginSettle()
	w.Told(3)
	w.Part(Part{Seq: 2, First: 0, Count: 1})
	w.Mark(at(1, 0))
	add(w.Bytes())
	s, good, err := Replay(journal)
	if err != nil || good != len(journal) {
		t.Fatal(good, len(journal), err)
	}
	want := []Drop{
		{Start: at(3, 10), End: at(5, 10), Events: 9, Reason: ledger.WireLoss, Miss: true, Told: true,
			Tags: []TagLoss{{Tag: "a", Events: 6, Bytes: 20, First: 5, Last: 7}, {Tag: "b", Events: 3, Bytes: 10, First: 5, Last: 7}}},
		{Start: at(5, 10), End: at(9, 40), Events: 28, Reason: ledger.BufferFull, Tags: []TagLoss{{Tag: "a", Events: 28}}},
	}
	if !reflect.DeepEqual(s.Drops, want) || s.Door != door || s.Above != 29 || s.Sheet.Dropped[ledger.BufferFull] != 28 || len(s.Parts) != 1 {
		t.Fatalf("%+v", s)
	}
	if s, _, _ := Replay(journal[:untold]); s.Drops[0].Told || s.Above != 28 {
		t.Fatalf("%+v", s)
	}
}

// TestJoinTagsBounded is that many tags are told together in the end.
func TestJoinTagsBounded(t *testing.T) {
	list := func(from, to int) (l []TagLoss) {
		for i := from; i < to; i++ {
			l = append(l, TagLoss{Tag: fmt.Sprint(i), Events: 1, First: int64(i), Last: int64(i)})
		}
		return l
	}
	sum := JoinTags(list(0, 3000), list(2000, 6000))
	var n uint64
	for _, t := range sum {
		n += t.Events
	}
	if len(sum) > MaxTags+1 || n != 7000 {
		t.Fatal(len(sum), n)
	}
	if short := JoinTags(list(0, 2), list(1, 3)); len(short) != 3 || short[1].Events != 2 {
		t.Fatal(short)
	}
}
