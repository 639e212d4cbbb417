package buffer

import (
	"fmt"

	"weir/internal/buffer/segment"
)

// View is the entries of a Ref, in memory until Release.
type View struct {
	Bytes []byte
	f     *frame
	b     *Buffer
}

// Release gives the memory back; Bytes must not be used any more.
func (v *View) Release() {
	if v.f != nil {
		v.b.pool.release(v.f)
		v.f, v.Bytes = nil, nil
	}
}

// wholeFrame is the payload size up to which a frame is read back as a whole even for a
// few entries: the others are wanted soon, and its checksum can be verified.
const wholeFrame = 64 << 10

// View finds the entries of a reference that have not all ended. It fails with ErrGone if
// their frame is not waiting any more, with ErrDamaged if its bytes on disk have changed
// since Next read them (the caller settles them as dropped, reason Damaged), or with the
// file system's error.
func (b *Buffer) View(r Ref) (View, error) {
	b.mu.Lock()
	h := b.window.find(uint64(r.Frame))
	if h == nil || h.start.Seq != uint64(r.Frame) || h.drop != nil || b.finished || uint64(r.Off)+uint64(r.Len) > uint64(h.raw) {
		b.mu.Unlock()
		return View{}, fmt.Errorf("view batch %d of buffer %s: %w", r.Seq, b.o.Dir, ErrGone)
	}
	if f := h.mem; f != nil {
		f.refs.Add(1)
		b.mu.Unlock()
		return View{Bytes: f.payload()[r.Off : r.Off+r.Len : r.Off+r.Len], f: f, b: b}, nil
	}
	s, off := h.seg, h.off
	hdr := segment.Header{Start: h.start, Stored: h.stored, Raw: h.raw, Sum: h.sum, Codec: h.codec}
	if err := b.openFile(s); err != nil {
		b.mu.Unlock()
		return View{}, fmt.Errorf("view batch %d of buffer %s: %w", r.Seq, b.o.Dir, err)
	}
	s.refs++
	b.mu.Unlock()
	v, err := b.viewCold(r, &hdr, s, off)
	b.mu.Lock()
	b.unref(s)
	if h := b.window.find(uint64(r.Frame)); err == nil && v.f.hdr.Raw > 0 && h != nil && h.start.Seq == uint64(r.Frame) {
		b.mem.read(v.f, h)
	}
	b.mu.Unlock()
	if err != nil {
		return View{}, fmt.Errorf("view batch %d of buffer %s in %s at %d: %w", r.Seq, b.o.Dir, s.name, off, err)
	}
	return v, nil
}

// viewCold reads a reference from disk: the whole frame where that is cheap, or else just
// its bytes. mu is not held.
func (b *Buffer) viewCold(r Ref, h *segment.Header, s *segmentFile, off int64) (View, error) {
	if h.Codec == segment.Plain && h.Stored > wholeFrame && r.Len < h.Stored/4 {
		f := b.pool.get(segment.HeaderSize + int(r.Len))
		f.buf = f.buf[:segment.HeaderSize+int(r.Len)]
		if n, err := s.file.ReadAt(f.payload(), off+segment.HeaderSize+int64(r.Off)); n < int(r.Len) {
			b.pool.release(f)
			return View{}, err
		}
		return View{Bytes: f.payload(), f: f, b: b}, nil
	}
	f := b.pool.get(segment.HeaderSize + int(h.Raw))
	if err := b.load(f, s, off, h); err != nil {
		b.pool.release(f)
		return View{}, err
	}
	f.hdr, f.seg, f.off = *h, s, off
	return View{Bytes: f.payload()[r.Off : r.Off+r.Len : r.Off+r.Len], f: f, b: b}, nil
}
