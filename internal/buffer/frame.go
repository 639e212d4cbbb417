package buffer

import (
	"sync"
	"sync/atomic"

	"weir/internal/buffer/segment"
	"weir/internal/event"
)

// frame is the memory of one frame: its header and its payload as batches. Whoever keeps
// a pointer to it holds a reference; the last release gives the memory back.
type frame struct {
	hdr  segment.Header
	buf  []byte // room for the header as stored, then the payload
	refs atomic.Int32
	ids  []event.Chunk // of the last batches that have one
	seg  *segmentFile  // where it is stored
	off  int64

	// The list of frames in memory; guarded by Buffer.mu.
	prev, next *frame
	listed     bool
	held       *held // set while the reader has handed it out
}

func (f *frame) payload() []byte { return f.buf[segment.HeaderSize:] }

func (f *frame) empty() bool { return f.hdr.Batches == 0 }

// add copies t into the frame, whose buffer has room for it.
func (f *frame) add(t *event.Batch) {
	h := &f.hdr
	if h.Batches == 0 || int64(t.First) < h.Min {
		h.Min = int64(t.First)
	}
	if h.Batches == 0 || int64(t.Last) > h.Max {
		h.Max = int64(t.Last)
	}
	f.buf = segment.AppendBatch(f.buf, t)
	h.Batches++
	h.Events += uint32(t.Count)
	h.EntryBytes += uint32(len(t.Entries))
}

// note remembers the id of a batch.
func (f *frame) note(c event.Chunk) {
	f.ids = appendChunks(f.ids, segment.MaxChunks, c)
}

// appendChunks appends to a list of which the last limit are wanted.
func appendChunks(list []event.Chunk, limit int, more ...event.Chunk) []event.Chunk {
	if len(list)+len(more) > 2*limit && len(list) > limit {
		list = list[:copy(list, list[len(list)-limit:])]
	}
	return append(list, more...)
}

// pool recycles frames by size class, so that a small frame never pins a large buffer.
// The classes grow by four from 16 KiB; larger buffers are left to the collector.
type pool struct{ classes [5]sync.Pool }

const smallest = 16 << 10

func classSize(i int) int { return smallest << (2 * i) }

// get returns a frame with one reference, len(buf) = HeaderSize and room for size bytes in
// all.
func (p *pool) get(size int) *frame {
	class := 0
	for class < len(p.classes) && classSize(class) < size {
		class++
	}
	var f *frame
	if class < len(p.classes) {
		f, _ = p.classes[class].Get().(*frame)
		size = classSize(class)
	}
	if f == nil {
		f = &frame{buf: make([]byte, segment.HeaderSize, size)}
	}
	f.buf = f.buf[:segment.HeaderSize]
	f.hdr = segment.Header{}
	f.ids = f.ids[:0]
	f.refs.Store(1)
	return f
}

func (p *pool) put(f *frame) {
	f.seg, f.held = nil, nil
	for i := range p.classes {
		if cap(f.buf) == classSize(i) {
			p.classes[i].Put(f)
			return
		}
	}
}

func (p *pool) release(f *frame) {
	if f.refs.Add(-1) == 0 {
		p.put(f)
	}
}

// grow gives f's buffer room for n more bytes.
func (p *pool) grow(f *frame, n int) {
	need := len(f.buf) + n
	if need <= cap(f.buf) {
		return
	}
	g := p.get(need)
	g.buf = append(g.buf[:0], f.buf...)
	f.buf, g.buf = g.buf, f.buf
	p.put(g)
}

// memory is the list of frames that can be read without the disk: first those that the
// reader has handed out, least recently used first, then, from unread on, those that it
// will come to next, without a hole. All fields are guarded by Buffer.mu.
type memory struct {
	pool        *pool
	limit, size int64
	head, tail  *frame
	unread      *frame
}

func (m *memory) insert(f, before *frame) {
	f.refs.Add(1)
	f.listed = true
	f.next = before
	if before == nil {
		f.prev, m.tail = m.tail, f
	} else {
		f.prev, before.prev = before.prev, f
	}
	if f.prev == nil {
		m.head = f
	} else {
		f.prev.next = f
	}
	m.size += int64(cap(f.buf))
}

// remove takes f off the list.
func (m *memory) remove(f *frame) {
	if !f.listed {
		return
	}
	if m.unread == f {
		m.unread = f.next
	}
	if f.prev == nil {
		m.head = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		m.tail = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.prev, f.next, f.listed = nil, nil, false
	if f.held != nil {
		f.held.mem = nil
		f.held = nil
	}
	m.size -= int64(cap(f.buf))
	m.pool.release(f)
}

// room makes room for n bytes by forgetting frames that were handed out already.
func (m *memory) room(n int64) bool {
	for m.size+n > m.limit && m.head != nil && m.head != m.unread {
		m.remove(m.head)
	}
	return m.size+n <= m.limit
}

// stored offers a frame that was just stored; readerAt is the Seq that the reader wants
// next. It is kept only if the reader will find everything before it in memory too.
func (m *memory) stored(f *frame, readerAt uint64) {
	if m.unread == nil && f.hdr.Start.Seq != readerAt {
		return
	}
	if m.unread != nil && m.tail.hdr.End().Seq != f.hdr.Start.Seq {
		return
	}
	if !m.room(int64(cap(f.buf))) {
		return
	}
	m.insert(f, nil)
	if m.unread == nil {
		m.unread = f
	}
}

// read offers a frame that came from disk for h.
func (m *memory) read(f *frame, h *held) {
	if h.mem != nil || !m.room(int64(cap(f.buf))) {
		return
	}
	m.insert(f, m.unread)
	f.held, h.mem = h, f
}
