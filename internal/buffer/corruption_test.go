package buffer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"testing"

	"weir/internal/buffer/segment"
	"weir/internal/ledger"
	"weir/internal/vfs/vfstest"
)

// corpus is a closed buffer of three segments with two frames each, of two batches each.
// Nothing has ended.
type corpus struct {
	fs      *vfstest.FS
	o       Options
	batches int
	files   []string
	frames  map[string][]int64 // offsets in each file, and its length
}

func newCorpus(tb testing.TB) *corpus {
	c := &corpus{fs: vfstest.New(), frames: map[string][]int64{}}
	c.o = testOptions(tb, c.fs, "q")
	c.o.Segment, c.o.Limit = minSegment, 1<<20
	b := mustOpen(tb, c.o)
	ctx := context.Background()
	for c.batches < 12 {
		for i := range 2 {
			t := batchOf("app", c.batches+i, 3, 60)
			if err := b.Reserve(ctx, t); err != nil {
				tb.Fatal(err)
			}
		}
		// Both in one frame: the committer is only told afterwards.
		b.mu.Lock()
		for range 2 {
			t := batchOf("app", c.batches, 3, 60)
			b.commit(&t)
			c.batches++
		}
		b.mu.Unlock()
		if err := b.Flush(ctx); err != nil {
			tb.Fatal(err)
		}
		if c.batches == 4 || c.batches == 8 {
			b.mu.Lock()
			b.tail = nil
			b.mu.Unlock()
		}
	}
	if err := b.Close(ctx); err != nil {
		tb.Fatal(err)
	}
	f, err := listFiles(c.fs, "q")
	if err != nil {
		tb.Fatal(err)
	}
	for _, first := range f.segments {
		name := path.Join("q", segmentName(first))
		c.files = append(c.files, name)
		data := c.fs.Contents(name)
		off := int64(0)
		for off < int64(len(data)) {
			h, err := segment.ParseHeader(data[off:], 0)
			if err != nil {
				tb.Fatal(err)
			}
			c.frames[name] = append(c.frames[name], off)
			off += h.Size()
		}
		c.frames[name] = append(c.frames[name], off)
	}
	if len(c.files) != 3 || len(c.frames[c.files[0]]) != 3 {
		tb.Fatalf("the corpus has another shape: %v", c.frames)
	}
	return c
}

// result is what a damaged buffer gave.
type result struct {
	got      map[int]bool // batches read back
	lost     uint64       // events told of in gaps
	gapped   map[int]bool
	dropped  uint64 // events booked as dropped{damaged}
	admitted uint64
	openErr  error
}

// readAllOf opens a copy, reads all of it, and checks what must hold whatever the damage:
// order, contents, balance.
func (c *corpus) readAllOf(tb testing.TB, fs *vfstest.FS) result {
	tb.Helper()
	r := result{got: map[int]bool{}, gapped: map[int]bool{}}
	o := c.o
	o.FS, o.Book = fs, &ledger.Book{}
	b, err := Open(o)
	if err != nil {
		r.openErr = err
		return r
	}
	ctx := context.Background()
	mustBalance(tb, b)
	if err := b.Seal(ctx); err != nil {
		tb.Fatal(err)
	}
	last := Seq(0)
	for {
		k, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			tb.Fatal(err)
		}
		mustBalance(tb, b)
		if g := k.Gap; g != nil {
			r.lost += g.Events
			for s := g.First; s <= g.Last; s++ {
				r.gapped[int(s)-1] = true
			}
			if g.First != last+1 {
				tb.Fatalf("gap %+v after %d", g, last)
			}
			last = g.Last
		}
		var parts []Part
		for _, it := range k.Items() {
			want := batchOf("app", int(it.Seq)-1, 3, 60)
			if it.Seq != last+1 || it.Batch.Tag != want.Tag || !bytes.Equal(it.Batch.Entries, want.Entries) {
				tb.Fatalf("batch %d after %d, or false contents", it.Seq, last)
			}
			last = it.Seq
			r.got[int(it.Seq)-1] = true
			parts = append(parts, Part{Seq: it.Seq, Span: Span{0, 3}, Fate: ledger.Fate{Class: ledger.Delivered}})
		}
		k.Release()
		if err := b.Settle(parts); err != nil {
			tb.Fatal(err)
		}
	}
	mustBalance(tb, b)
	sheet := o.Book.Sheet()
	r.dropped, r.admitted = sheet.Dropped[ledger.Damaged], sheet.Admitted
	if s := b.Stats(); s.PendingEvents != 0 || sheet.Delivered != uint64(3*len(r.got)) {
		tb.Fatalf("%+v %+v", s, sheet)
	}
	if err := b.Close(ctx); err != nil {
		tb.Fatal(err)
	}
	return r
}

// check asserts that exactly the batches of the frames in lost are missing, and told of.
func (c *corpus) check(tb testing.TB, r result, lost ...int) {
	tb.Helper()
	if r.openErr != nil {
		tb.Fatal(r.openErr)
	}
	gone := map[int]bool{}
	for _, f := range lost {
		gone[2*f], gone[2*f+1] = true, true
	}
	for i := range c.batches {
		if r.got[i] == gone[i] {
			tb.Fatalf("batch %d: read %v; lost frames %v, got %v", i, r.got[i], lost, r.got)
		}
	}
	if want := uint64(3 * len(gone)); r.dropped != want || r.lost != want || r.admitted != uint64(3*c.batches) {
		tb.Fatalf("booked %d, told of %d, admitted %d; lost are %d of %d", r.dropped, r.lost, r.admitted, want, 3*c.batches)
	}
}

// frameAt tells which frame of the corpus the byte off of file i is in.
func (c *corpus) frameAt(i int, off int64) int {
	n := 2 * i
	if off >= c.frames[c.files[i]][1] {
		n++
	}
	return n
}

// TestFlipEveryByte: one flipped bit anywhere loses the frame that it is in and nothing
// else, and the books say so.
func TestFlipEveryByte(t *testing.T) {
	c := newCorpus(t)
	for i, name := range c.files {
		data := c.fs.Contents(name)
		step := 1
		if testing.Short() {
			step = 5
		}
		for off := 0; off < len(data); off += step {
			fs := c.fs.Clone()
			bad := bytes.Clone(data)
			bad[off] ^= 1 << (off % 8)
			fs.Damage(name, bad)
			c.check(t, c.readAllOf(t, fs), c.frameAt(i, int64(off)))
		}
	}
}

// TestCutEverywhere: a file cut anywhere loses the frames that are not whole.
func TestCutEverywhere(t *testing.T) {
	c := newCorpus(t)
	for i, name := range c.files {
		data := c.fs.Contents(name)
		step := 1
		if testing.Short() {
			step = 5
		}
		for off := 0; off < len(data); off += step {
			fs := c.fs.Clone()
			fs.Damage(name, data[:off])
			lost := []int{2*i + 1}
			if c.frameAt(i, int64(off)) == 2*i {
				lost = append(lost, 2*i)
			}
			c.check(t, c.readAllOf(t, fs), lost...)
		}
	}
}

// TestKeptFiles damages checkpoint and journal at every byte: no batch may be lost, none
// may be false, and the balance holds; what had been settled may come again.
func TestKeptFiles(t *testing.T) {
	c := newCorpus(t)
	names, err := c.fs.List("q")
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range names {
		name := path.Join("q", base)
		if path.Ext(name) == segmentExt || base == spareName {
			continue
		}
		data := c.fs.Contents(name)
		step := 1
		if testing.Short() {
			step = 5
		}
		for off := 0; off < len(data); off += step {
			fs := c.fs.Clone()
			bad := bytes.Clone(data)
			bad[off] ^= 0x10
			fs.Damage(name, bad)
			c.check(t, c.readAllOf(t, fs))
			if off%16 == 0 {
				fs = c.fs.Clone()
				fs.Damage(name, data[:off])
				c.check(t, c.readAllOf(t, fs))
			}
		}
	}
}

// TestCorruptions are damages that have a name.
func TestCorruptions(t *testing.T) {
	c := newCorpus(t)
	first, middle, last := c.files[0], c.files[1], c.files[2]
	second := func(name string) int64 { return c.frames[name][1] }
	change := func(name string, f func(b []byte) []byte) func(*vfstest.FS) {
		return func(fs *vfstest.FS) { fs.Damage(name, f(fs.Contents(name))) }
	}
	for _, tc := range []struct {
		name   string
		damage func(fs *vfstest.FS)
		lost   []int
	}{
		{"nothing", func(*vfstest.FS) {}, nil},
		{"a segment is missing", func(fs *vfstest.FS) { _ = fs.Remove(middle) }, []int{2, 3}},
		{"the first segment is missing", func(fs *vfstest.FS) { _ = fs.Remove(first) }, []int{0, 1}},
		{"the last segment is missing", func(fs *vfstest.FS) { _ = fs.Remove(last) }, []int{4, 5}},
		{"a segment is empty", change(middle, func([]byte) []byte { return nil }), []int{2, 3}},
		{"a segment is zeros", change(middle, func(b []byte) []byte { return make([]byte, len(b)) }), []int{2, 3}},
		{"the last segment is zeros", change(last, func(b []byte) []byte { return make([]byte, len(b)) }), []int{4, 5}},
		{"zeros behind the last frame", change(last, func(b []byte) []byte { return append(b, make([]byte, 700)...) }), nil},
		{"zeros behind a segment", change(first, func(b []byte) []byte { return append(b, make([]byte, 700)...) }), nil},
		{"half a header at the end", change(last, func(b []byte) []byte { return append(b, b[:50]...) }), nil},
		{"the last frame twice", change(last, func(b []byte) []byte { return append(b, b[second(last):]...) }), nil},
		{"an old frame behind the last", change(last, func(b []byte) []byte { return append(b, b[:second(last)]...) }), nil},
		{"a header that claims a gigabyte", change(middle, func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[56:], 1<<30)
			return b
		}), []int{2}},
		{"a whole header and no payload", change(last, func(b []byte) []byte { return b[:second(last)+segment.HeaderSize] }), []int{5}},
		{"the first frame of the last segment", change(last, func(b []byte) []byte { clear(b[:second(last)]); return b }), []int{4}},
		{"a segment of another log", change(middle, func(b []byte) []byte {
			h, _ := segment.ParseHeader(b, 0)
			h.Log++
			segment.PutHeader(b, &h)
			return b
		}), []int{2}},
		{"a frame hidden in a damaged payload", change(middle, func(b []byte) []byte {
			// An event that carries the bytes of a frame, with another log's identity.
			h, _ := segment.ParseHeader(b, 0)
			h.Log++
			segment.PutHeader(b[200:], &h)
			return b
		}), []int{2}},
		{"both kept files are missing", func(fs *vfstest.FS) {
			f, _ := listFiles(fs, "q")
			_ = fs.Remove("q/" + checkpointName)
			for _, g := range f.journals {
				_ = fs.Remove("q/" + journalName(g))
			}
		}, nil},
		{"a file that is not ours", func(fs *vfstest.FS) { fs.Damage("q/notes.txt", []byte("keep me")) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := c.fs.Clone()
			tc.damage(fs)
			c.check(t, c.readAllOf(t, fs), tc.lost...)
			if string(fs.Contents("q/notes.txt")) != "keep me" && tc.name == "a file that is not ours" {
				t.Fatal("a foreign file was touched")
			}
		})
	}
}

// TestNewerVersion: a buffer of a newer weir is refused, not cut.
func TestNewerVersion(t *testing.T) {
	c := newCorpus(t)
	fs := c.fs.Clone()
	name := c.files[2]
	b := fs.Contents(name)
	b[4] = segment.Version + 1
	binary.LittleEndian.PutUint32(b[92:], segment.Sum(b[:92]))
	fs.Damage(name, b)
	if r := c.readAllOf(t, fs); !errors.Is(r.openErr, segment.ErrVersion) {
		t.Fatalf("opened: %v", r.openErr)
	}
	if !bytes.Equal(fs.Contents(name), b) {
		t.Fatal("it was changed")
	}
}
