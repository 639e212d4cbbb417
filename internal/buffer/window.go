package buffer

import (
	"math/bits"
	"sort"

	"weir/internal/buffer/segment"
)

// held is a frame, or a run of batches that was given up, which the reader has passed and
// whose events have not all ended before it. Guarded by Buffer.mu.
type held struct {
	start, end segment.Pos
	accepted   int64
	left       uint64   // events that have not ended
	low        uint64   // every event before it has ended
	starts     []uint32 // index of each batch's first event, and the total; empty for a given-up run
	done       []uint64 // a bit for each event that has ended

	seg    *segmentFile
	off    int64
	stored uint32 // length of the payload in its file
	raw    uint32
	sum    uint32
	codec  segment.Codec
	mem    *frame // its bytes, if they are in memory

	drop   *drop // for a given-up run
	untold bool  // it has not been told
}

// init makes h the record of the frame f, with nothing ended.
func (h *held) init(f *frame) {
	hd := &f.hdr
	starts, done := h.starts[:0], h.done[:0]
	*h = held{start: hd.Start, end: hd.End(), accepted: hd.Accepted, left: uint64(hd.Events),
		seg: f.seg, off: f.off, stored: hd.Stored, raw: hd.Raw, sum: hd.Sum, codec: hd.Codec}
	for range (hd.Events + 63) / 64 {
		done = append(done, 0)
	}
	h.starts, h.done = starts, done
}

// batch returns the range of event indexes of a batch.
func (h *held) batch(seq uint64) (from, to uint64, ok bool) {
	i := seq - h.start.Seq
	if seq < h.start.Seq || i+1 >= uint64(len(h.starts)) {
		return 0, 0, false
	}
	return uint64(h.starts[i]), uint64(h.starts[i+1]), true
}

// mark sets the bits [from, to) and tells whether none of them was set; if one was,
// nothing changes.
func (h *held) mark(from, to uint64) bool {
	if h.count(from, to) != 0 {
		return false
	}
	for i := from; i < to; {
		n := min(64-i%64, to-i)
		h.done[i/64] |= (^uint64(0) >> (64 - n)) << (i % 64)
		i += n
	}
	h.left -= to - from
	return true
}

// count counts the bits set in [from, to).
func (h *held) count(from, to uint64) uint64 {
	var c int
	for i := from; i < to; {
		n := min(64-i%64, to-i)
		c += bits.OnesCount64(h.done[i/64] & ((^uint64(0) >> (64 - n)) << (i % 64)))
		i += n
	}
	return uint64(c)
}

// spans appends the runs of ended events of the batch that are [from, to), counted from
// its first entry.
func (h *held) spans(dst []Span, from, to uint64) []Span {
	for i := from; i < to; {
		if h.done[i/64]&(1<<(i%64)) == 0 {
			i++
			continue
		}
		j := i + 1
		for j < to && h.done[j/64]&(1<<(j%64)) != 0 {
			j++
		}
		dst = append(dst, Span{First: uint32(i - from), Count: uint32(j - i)})
		i = j
	}
	return dst
}

// advance moves low to the first event that has not ended and returns the position of its
// batch.
func (h *held) advance() segment.Pos {
	total := h.end.Events - h.start.Events
	for h.low < total {
		w := ^h.done[h.low/64] >> (h.low % 64)
		if w != 0 {
			h.low = min(total, h.low+uint64(bits.TrailingZeros64(w)))
			break
		}
		h.low = (h.low/64 + 1) * 64
	}
	i := sort.Search(len(h.starts), func(i int) bool { return uint64(h.starts[i]) > h.low }) - 1
	return segment.Pos{
		Seq:    h.start.Seq + uint64(i),
		Events: h.start.Events + uint64(h.starts[i]),
		Bytes:  h.start.Bytes, // of the frame: near enough for a gauge
	}
}

// window holds what the reader has passed and the mark has not, in order.
type window struct {
	list []*held
	head int
	free []*held
}

func (w *window) front() *held {
	if w.head == len(w.list) {
		return nil
	}
	return w.list[w.head]
}

func (w *window) push(h *held) { w.list = append(w.list, h) }

func (w *window) back() *held {
	if w.head == len(w.list) {
		return nil
	}
	return w.list[len(w.list)-1]
}

// pop takes the front off.
func (w *window) pop() {
	h := w.list[w.head]
	w.list[w.head] = nil
	w.head++
	if w.head == len(w.list) {
		w.list, w.head = w.list[:0], 0
	} else if w.head > 64 && w.head > len(w.list)/2 {
		n := copy(w.list, w.list[w.head:])
		clear(w.list[n:])
		w.list, w.head = w.list[:n], 0
	}
	h.mem, h.seg, h.drop = nil, nil, nil
	if len(w.free) < 64 {
		w.free = append(w.free, h)
	}
}

// take returns an unused record.
func (w *window) take() *held {
	if k := len(w.free); k > 0 {
		h := w.free[k-1]
		w.free = w.free[:k-1]
		return h
	}
	return &held{}
}

// find returns the record that seq lies in, or nil.
func (w *window) find(seq uint64) *held {
	list := w.list[w.head:]
	i, j := 0, len(list)
	for i < j {
		m := int(uint(i+j) >> 1)
		if list[m].start.Seq <= seq {
			i = m + 1
		} else {
			j = m
		}
	}
	if i == 0 || seq >= list[i-1].end.Seq {
		return nil
	}
	return list[i-1]
}

// ended counts the events of the window that have ended.
func (w *window) ended() (n uint64) {
	for _, h := range w.list[w.head:] {
		n += h.end.Events - h.start.Events - h.left
	}
	return n
}
