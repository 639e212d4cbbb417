package segment

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/ledger"
)

// frameOf makes a stored frame of n batches that begins at start.
func frameOf(tb testing.TB, start Pos, n int, codec string) ([]byte, Header) {
	tb.Helper()
	var payload []byte
	h := Header{Log: 77, Start: start, Batches: uint32(n), Min: 5, Max: 9, Accepted: 1}
	for i := range n {
		b := event.Batch{Tag: "app.web", Entries: bytes.Repeat([]byte{0x92, 1, 0x80}, 3+i), Count: 3 + i, First: 5, Last: 9}
		payload = AppendBatch(payload, &b)
		h.Events += uint32(b.Count)
		h.EntryBytes += uint32(len(b.Entries))
	}
	c, err := NewCompressor(codec)
	if err != nil {
		tb.Fatal(err)
	}
	h.Raw = uint32(len(payload))
	stored := payload
	if p, ok := c.Compress(nil, payload); ok {
		stored, h.Codec = p, c.Codec()
	}
	h.Stored, h.Sum = uint32(len(stored)), Sum(stored)
	out := make([]byte, HeaderSize)
	PutHeader(out, &h)
	return append(out, stored...), h
}

func TestFrameRoundTrip(t *testing.T) {
	for _, codec := range []string{"", "gzip", "zstd"} {
		b, want := frameOf(t, Pos{Seq: 7, Events: 100, Bytes: 2000}, 20, codec)
		got, err := ReadHeader(bytes.NewReader(b), 0, int64(len(b)), 77)
		if err != nil || got != want {
			t.Fatalf("%s: got %+v, want %+v, %v", codec, got, want, err)
		}
		if err := CheckPayload(&got, b[HeaderSize:]); err != nil {
			t.Fatal(err)
		}
		payload, err := new(Decompressor).Decompress(&got, nil, b[HeaderSize:])
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckBatches(&got, payload); err != nil {
			t.Fatal(err)
		}
		if codec != "" && got.Codec == Plain {
			t.Fatal("not compressed")
		}
		if end := got.End(); end.Seq != 27 || end.Events != 100+uint64(got.Events) {
			t.Fatalf("%+v", end)
		}
	}
}

// TestReadHeader is what each damage of a header or its file gives.
func TestReadHeader(t *testing.T) {
	good, _ := frameOf(t, Pos{Seq: 1}, 2, "")
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	resum := func(f func(h *Header)) []byte {
		return edit(func(b []byte) {
			h, _ := ParseHeader(b, 0)
			f(&h)
			PutHeader(b, &h)
		})
	}
	for _, tc := range []struct {
		name string
		file []byte
		want error
	}{
		{"good", good, nil},
		{"end of file", nil, io.EOF},
		{"half a header", good[:HeaderSize-1], ErrHeader},
		{"a header without its payload", good[:HeaderSize], ErrShort},
		{"one byte short", good[:len(good)-1], ErrShort},
		{"zeros", make([]byte, 200), ErrHeader},
		{"flipped magic", edit(func(b []byte) { b[0] ^= 1 }), ErrHeader},
		{"flipped count", edit(func(b []byte) { b[40] ^= 1 }), ErrHeader},
		{"flipped checksum", edit(func(b []byte) { b[93] ^= 1 }), ErrHeader},
		{"a newer version", edit(func(b []byte) {
			b[4] = Version + 1
			s := Sum(b[:92])
			b[92], b[93], b[94], b[95] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
		}), ErrVersion},
		{"another log", resum(func(h *Header) { h.Log = 78 }), ErrHeader},
		{"no batches", resum(func(h *Header) { h.Batches = 0 }), ErrHeader},
		{"more entries than payload", resum(func(h *Header) { h.EntryBytes = h.Raw + 1 }), ErrHeader},
		{"beyond the largest payload", resum(func(h *Header) { h.Raw, h.Stored = MaxPayload+1, MaxPayload+1 }), ErrHeader},
		{"plain of two lengths", resum(func(h *Header) { h.Raw++ }), ErrHeader},
		{"a length beyond the file", resum(func(h *Header) { h.Raw, h.Stored = 1<<20, 1<<20 }), ErrShort},
	} {
		_, err := ReadHeader(bytes.NewReader(tc.file), 0, int64(len(tc.file)), 77)
		if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestFindHeader finds a frame behind any amount of junk, at every offset around the edges
// of its window, and never an old one or one of another log.
func TestFindHeader(t *testing.T) {
	frame, want := frameOf(t, Pos{Seq: 9}, 1, "")
	other := bytes.Clone(frame)
	h := want
	h.Log++
	PutHeader(other, &h)
	old, _ := frameOf(t, Pos{Seq: 2}, 1, "")
	for _, n := range []int{0, 1, 95, 96, 97, 1000, 64<<10 - HeaderSize - 1, 64<<10 - HeaderSize, 64<<10 - 4, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200_000} {
		junk := bytes.Repeat([]byte("weirweir weir"), n/13+1)[:n]
		file := append(append(append(bytes.Clone(other), old...), junk...), frame...)
		off, got, ok, err := FindHeader(bytes.NewReader(file), 0, int64(len(file)), 77, 3)
		if err != nil || !ok || got != want || off != int64(len(file)-len(frame)) {
			t.Fatalf("%d bytes of junk: %d %v %v", n, off, ok, err)
		}
		if _, _, ok, _ := FindHeader(bytes.NewReader(file), off+1, int64(len(file)), 77, 3); ok {
			t.Fatal("found another one")
		}
	}
}

func drawState(t *rapid.T) State {
	pos := func(name string) Pos {
		return Pos{Seq: rapid.Uint64Range(1, 1<<40).Draw(t, name), Events: rapid.Uint64Range(0, 1<<40).Draw(t, name), Bytes: rapid.Uint64().Draw(t, name)}
	}
	s := State{Log: rapid.Uint64().Draw(t, "log"), Gen: rapid.Uint64().Draw(t, "gen"), Mark: pos("mark"), Next: pos("next"), Stored: pos("stored"), Above: rapid.Uint64().Draw(t, "above")}
	s.Sheet.Delivered = rapid.Uint64().Draw(t, "delivered")
	s.Sheet.Dropped[ledger.Damaged] = rapid.Uint64().Draw(t, "damaged")
	s.Door.Rejected[ledger.Invalid] = rapid.Uint64().Draw(t, "invalid")
	for range rapid.IntRange(0, 5).Draw(t, "parts") {
		s.Parts = append(s.Parts, Part{Seq: s.Mark.Seq + rapid.Uint64Range(0, 1000).Draw(t, "seq"), First: rapid.Uint32().Draw(t, "first"), Count: rapid.Uint32().Draw(t, "count")})
	}
	for i := range rapid.IntRange(0, MaxChunks).Draw(t, "chunks") {
		s.Chunks = append(s.Chunks, event.Chunk{byte(i), byte(i >> 8), 1})
	}
	for range rapid.IntRange(0, 3).Draw(t, "drops") {
		d := Drop{Start: s.Mark, Reason: ledger.BufferFull, Events: rapid.Uint64Range(0, 50).Draw(t, "events")}
		d.End = Pos{Seq: d.Start.Seq + 5, Events: d.Start.Events + 50}
		d.Told = rapid.Bool().Draw(t, "told")
		if rapid.Bool().Draw(t, "miss") {
			d.Miss, d.End.Events = true, d.Start.Events
		}
		if rapid.Bool().Draw(t, "tags") {
			d.Tags = []TagLoss{{Tag: rapid.String().Draw(t, "tag"), Events: 3, Bytes: 4, First: -5, Last: 6}}
		}
		s.Drops = append(s.Drops, d)
	}
	return s
}

func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawState(t)
		var w Builder
		rec := bytes.Clone(w.Snapshot(&want))
		got, good, err := Replay(append(rec, 1, 2, 3))
		got.kept, got.keptDrops = 0, 0
		if err != nil || good != len(rec) || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v, %v", got, want, err)
		}
		c := Checkpoint{State: want, Write: rapid.Uint64().Draw(t, "write"), Journal: rapid.Int64Range(0, 1<<62).Draw(t, "journal")}
		c.Parts, c.Drops = nil, nil
		slot := AppendSlot(nil, &c)
		if len(slot) != SlotSize {
			t.Fatal(len(slot))
		}
		back, worn, err := ReadCheckpoint(slot)
		if err != nil || worn || !reflect.DeepEqual(back, c) {
			t.Fatalf("got %+v, want %+v, %v", back, c, err)
		}
	})
}

func TestReplay(t *testing.T) {
	var w Builder
	journal := bytes.Clone(w.Snapshot(&State{Log: 1, Mark: Pos{Seq: 1}, Next: Pos{Seq: 1}}))
	settle := func(mark Pos, parts ...Part) {
		w.BeginSettle()
		for _, p := range parts {
			w.Part(p)
		}
		w.Mark(mark)
		journal = append(journal, w.Bytes()...)
	}
	ok := ledger.Fate{Class: ledger.Delivered}
	settle(Pos{Seq: 1}, Part{Seq: 3, First: 0, Count: 4, Fate: ok})
	settle(Pos{Seq: 2, Events: 5}, Part{Seq: 1, First: 0, Count: 5, Fate: ledger.TooOld.Fate()})
	cut := len(journal)
	journal = append(journal, w.Drop(&Drop{Start: Pos{Seq: 5, Events: 20}, End: Pos{Seq: 8, Events: 30}, Events: 10, Reason: ledger.BufferFull}, 0)...)
	s, good, err := Replay(journal)
	if err != nil || good != len(journal) || s.Mark != (Pos{Seq: 2, Events: 5}) || s.Above != 14 || len(s.Parts) != 1 || s.Parts[0].Seq != 3 || len(s.Drops) != 1 ||
		s.Sheet.Delivered != 4 || s.Sheet.Rejected[ledger.TooOld] != 5 || s.Sheet.Dropped[ledger.BufferFull] != 10 {
		t.Fatalf("%+v %d %v", s, good, err)
	}
	// A record that was not written as a whole is not there.
	for n := cut; n < len(journal); n++ {
		if s, good, err := Replay(journal[:n]); err != nil || good != cut || s.Above != 4 || len(s.Drops) != 0 {
			t.Fatalf("cut at %d: %+v %d %v", n, s, good, err)
		}
	}
}

// TestCheckpointSlots: the newer good slot counts, whatever happens to the other one.
func TestCheckpointSlots(t *testing.T) {
	slot := func(n uint64) []byte {
		return AppendSlot(nil, &Checkpoint{Write: n, State: State{Mark: Pos{Seq: n}}})
	}
	old, young := slot(4), slot(5)
	file := append(bytes.Clone(old), young...)
	if c, worn, err := ReadCheckpoint(file); err != nil || worn || c.Write != 5 {
		t.Fatal(c, worn, err)
	}
	for off := range SlotSize {
		bad := bytes.Clone(file)
		bad[SlotSize+off] ^= 0x40
		c, _, err := ReadCheckpoint(bad)
		if err != nil || c.Write != 4 && !reflect.DeepEqual(c.Mark, Pos{Seq: 5}) {
			t.Fatalf("byte %d: %+v %v", off, c, err)
		}
	}
	if _, _, err := ReadCheckpoint(file[:SlotSize-1]); !errors.Is(err, ErrCheckpoint) {
		t.Fatal(err)
	}
}

func FuzzFrames(f *testing.F) {
	a, _ := frameOf(f, Pos{Seq: 1}, 2, "")
	b, _ := frameOf(f, Pos{Seq: 3, Events: 7}, 3, "zstd")
	g, _ := frameOf(f, Pos{Seq: 3, Events: 7}, 30, "gzip")
	f.Add(append(bytes.Clone(a), b...))
	f.Add(append(bytes.Clone(g), a[:40]...))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, size := bytes.NewReader(file), int64(len(file))
		var d Decompressor
		for off := int64(0); off < size; {
			h, err := ReadHeader(r, off, size, 0)
			if err != nil {
				at, found, ok, _ := FindHeader(r, off+1, size, 0, 0)
				if !ok {
					break
				}
				if at <= off {
					t.Fatal("no progress")
				}
				off, h = at, found
			}
			stored := file[off+HeaderSize : off+h.Size()]
			if CheckPayload(&h, stored) == nil && h.Raw < 1<<20 {
				if p, err := d.Decompress(&h, nil, stored); err == nil && len(p) != int(h.Raw) {
					t.Fatalf("%d bytes instead of %d", len(p), h.Raw)
				}
			}
			_ = CheckBatches(&h, stored)
			off += h.Size()
		}
		for off := 0; off < len(file); {
			_, next, err := NextBatch(file, off)
			if err != nil {
				break
			}
			off = next
		}
	})
}

func FuzzJournal(f *testing.F) {
	var w Builder
	f.Add(bytes.Clone(w.Snapshot(&State{Mark: Pos{Seq: 1}, Parts: []Part{{Seq: 5, Count: 2}}, Drops: []Drop{{End: Pos{Seq: 4}, Tags: []TagLoss{{Tag: "x"}}}}})))
	f.Add(AppendSlot(nil, &Checkpoint{Write: 3, State: State{Chunks: []event.Chunk{{1}, {2}}}}))
	gap := Drop{Start: Pos{Seq: 4}, End: Pos{Seq: 5}, Events: 9, Reason: ledger.WireLoss, Miss: true, Tags: []TagLoss{{Tag: "x", Events: 9}}}
	clone := func(rec []byte) []byte { return bytes.Clone(rec[recordHead:]) }
	for _, seed := range [][]byte{clone(w.Miss(0, &gap, &ledger.Sheet{}, 0)), clone(w.Miss(4, &gap, &ledger.Sheet{}, 7)), clone(w.Join(4, &Drop{Start: Pos{Seq: 1}, End: Pos{Seq: 4}}, 3)), clone(w.Chunks([]event.Chunk{{1}, {2}}))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, good, err := Replay(b); err == nil {
			if good > len(b) {
				t.Fatal(good)
			}
			for _, p := range s.Parts {
				if p.Seq < s.Mark.Seq {
					t.Fatalf("a part before the mark: %+v", s)
				}
			}
		}
		_, _, _ = ReadCheckpoint(b)
		// The body behind a good checksum must not be believed either.
		var s State
		for kind := byte(0); kind < 8; kind++ {
			s.apply(kind, b)
		}
		r := &reader{b: b}
		r.state()
	})
}

func BenchmarkSum(b *testing.B) {
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(buf)))
	for range b.N {
		Sum(buf)
	}
}
