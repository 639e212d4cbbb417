package buffer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// Info describes a buffer's directory.
type Info struct {
	Dir      string
	Segments []SegmentInfo
	Mark     Seq    // everything up to here has ended
	Stored   Seq    // the last batch in the files
	Pending  uint64 // events that have not ended, by the numbering of the frames
	Sheet    ledger.Sheet
	Problems []string // damage, in words; empty when all is well
	Unknown  []string // files that are not the buffer's
	Aside    int      // damaged pieces that were kept aside
}

// SegmentInfo describes a segment file.
type SegmentInfo struct {
	Name            string
	Bytes           int64
	First, Last     Seq
	Frames, Batches uint64
	Events          uint64
	Min, Max        event.Time // of its events
	Accepted        time.Time  // when the first of it was accepted
	Unfinished      int64      // bytes behind the last whole frame: a write under way, or cut off by a crash
}

// Inspect reads a buffer's directory without changing anything or taking its lock; it may
// be in use. With payloads every checksum is verified, otherwise only those of the headers.
func Inspect(fs vfs.FS, dir string, payloads bool) (Info, error) {
	info := Info{Dir: dir}
	k, f, err := peek(fs, dir)
	if err != nil {
		return info, fmt.Errorf("inspect buffer %s: %w", dir, err)
	}
	if k.damage != "" {
		info.Problems = append(info.Problems, k.damage+" damaged")
	}
	info.Unknown, info.Aside, info.Sheet = f.unknown, f.aside, k.state.Sheet
	if k.found {
		info.Mark = Seq(k.state.Mark.Seq - 1)
	}
	w := walker{fs: fs, dir: dir, log: k.state.Log, payloads: payloads, pos: k.state.Mark, drops: k.state.Drops}
	for i, first := range f.segments {
		next := uint64(1<<64 - 1)
		if i+1 < len(f.segments) {
			next = f.segments[i+1]
		}
		s, err := w.segment(first, next, nil)
		if errors.Is(err, os.ErrNotExist) {
			continue // finished and removed meanwhile
		}
		if err != nil {
			return info, fmt.Errorf("inspect buffer %s: %w", dir, err)
		}
		info.Segments = append(info.Segments, s)
	}
	info.Problems = append(info.Problems, w.problems...)
	if w.end.Seq > 0 {
		info.Stored = Seq(w.end.Seq - 1)
		from := k.state.Mark
		if !k.found {
			from = w.begin
		}
		if p := int64(w.end.Events) - int64(from.Events) - int64(k.state.Above); p > 0 {
			info.Pending = uint64(p)
		}
	}
	return info, nil
}

// Dump calls fn with every batch in the files from seq on that can be read, in order. The
// batch is borrowed until fn returns; an error of fn ends the dump. Like Inspect it
// changes nothing.
func Dump(fs vfs.FS, dir string, from Seq, fn func(seq Seq, t event.Batch) error) error {
	k, f, err := peek(fs, dir)
	if err != nil {
		return fmt.Errorf("dump buffer %s: %w", dir, err)
	}
	w := walker{fs: fs, dir: dir, log: k.state.Log, payloads: true}
	for i, first := range f.segments {
		next := uint64(1<<64 - 1)
		if i+1 < len(f.segments) {
			next = f.segments[i+1]
		}
		if next <= uint64(from) {
			continue
		}
		_, err := w.segment(first, next, func(seq Seq, t event.Batch) error {
			if seq < from {
				return nil
			}
			return fn(seq, t)
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("dump buffer %s: %w", dir, err)
		}
	}
	return nil
}

// peek reads what the directory remembers. Its owner may be replacing the journal: look
// again then.
func peek(fs vfs.FS, dir string) (k kept, f files, err error) {
	for range 5 {
		if f, err = listFiles(fs, dir); err != nil {
			return k, f, err
		}
		if k, err = loadKept(fs, dir, &f); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return k, f, err
}

// walker goes through segments in order.
type walker struct {
	fs       vfs.FS
	dir      string
	log      uint64
	payloads bool
	pos      segment.Pos // what is expected next; Seq 0: anything
	begin    segment.Pos // of the first frame
	end      segment.Pos // behind the last good frame
	drops    []segment.Drop
	problems []string
	d        segment.Decompressor
	stored   []byte
	payload  []byte
}

func (w *walker) problem(name string, off int64, what string, args ...any) {
	if len(w.problems) < 1000 {
		w.problems = append(w.problems, fmt.Sprintf("%s at %d: %s", name, off, fmt.Sprintf(what, args...)))
	}
}

// segment walks the segment that begins with first and gives its batches to fn.
func (w *walker) segment(first, next uint64, fn func(Seq, event.Batch) error) (SegmentInfo, error) {
	name := segmentName(first)
	s := SegmentInfo{Name: name, First: Seq(first)}
	f, err := w.fs.Open(path.Join(w.dir, name))
	if err != nil {
		return s, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return s, err
	}
	s.Bytes, s.Unfinished = size, size
	for off := int64(0); off < size; {
		h, err := segment.ReadHeader(f, off, size, w.log)
		if err != nil && !errors.Is(err, segment.ErrShort) && !errors.Is(err, segment.ErrHeader) {
			return s, fmt.Errorf("read %s at %d: %w", name, off, err)
		}
		if err != nil {
			at, found, ok, err := segment.FindHeader(f, off+1, size, w.log, w.end.Seq)
			if err != nil {
				return s, err
			}
			if !ok {
				break
			}
			w.problem(name, off, "%d bytes are no frame", at-off)
			off, h = at, found
		}
		if h.Start.Seq >= next {
			s.Unfinished = size - off
			return s, nil // written again to the next segment
		}
		if err := w.frame(f, name, off, &h, fn); err != nil {
			return s, err
		}
		s.add(&h)
		off += h.Size()
		s.Unfinished = size - off
	}
	return s, nil
}

func (s *SegmentInfo) add(h *segment.Header) {
	if s.Frames == 0 || event.Time(h.Min) < s.Min {
		s.Min = event.Time(h.Min)
	}
	if s.Frames == 0 || event.Time(h.Max) > s.Max {
		s.Max = event.Time(h.Max)
	}
	if s.Frames == 0 {
		s.Accepted = time.Unix(0, h.Accepted)
	}
	s.Frames++
	s.Batches += uint64(h.Batches)
	s.Events += uint64(h.Events)
	s.Last = Seq(h.End().Seq - 1)
}

// frame checks one frame and its place in the numbering.
func (w *walker) frame(f io.ReaderAt, name string, off int64, h *segment.Header, fn func(Seq, event.Batch) error) error {
	if w.begin.Seq == 0 {
		w.begin = h.Start
	}
	for _, d := range w.drops {
		if w.pos.Seq > 0 && d.Start.Seq <= w.pos.Seq && w.pos.Seq < d.End.Seq {
			w.pos = d.End // given up and booked
		}
	}
	// A hole without events is where a gap stood that was told.
	if w.pos.Seq > 0 && h.Start.Seq > w.pos.Seq && h.Start.Events != w.pos.Events {
		w.problem(name, off, "%d batches (%d events) before this frame are missing", h.Start.Seq-w.pos.Seq, h.Start.Events-w.pos.Events)
	}
	w.pos, w.end = h.End(), h.End()
	if !w.payloads {
		return nil
	}
	if cap(w.stored) < int(h.Stored) {
		w.stored = make([]byte, h.Stored)
	}
	stored := w.stored[:h.Stored]
	if n, err := f.ReadAt(stored, off+segment.HeaderSize); n < len(stored) {
		return fmt.Errorf("read %s at %d: %w", name, off, err)
	}
	err := segment.CheckPayload(h, stored)
	if err == nil {
		w.payload, err = w.d.Decompress(h, w.payload[:0], stored)
	}
	if err == nil {
		err = segment.CheckBatches(h, w.payload)
	}
	if err != nil {
		w.problem(name, off, "%v; batches %d to %d, %d events", err, h.Start.Seq, h.End().Seq-1, h.Events)
		return nil
	}
	if fn == nil {
		return nil
	}
	seq := Seq(h.Start.Seq)
	for at := 0; at < len(w.payload); seq++ {
		t, next, err := segment.NextBatch(w.payload, at)
		if err != nil {
			return err
		}
		b := event.Batch{Tag: string(t.Tag), Entries: w.payload[t.Off : t.Off+t.Len], Count: t.Count, First: t.First, Last: t.Last}
		if err := fn(seq, b); err != nil {
			return err
		}
		at = next
	}
	return nil
}
