package segment

import (
	"encoding/binary"

	"weir/internal/event"
)

// MaxChunks is how many Chunks a State keeps: they fit a slot of the checkpoint.
const MaxChunks = 128

// Chunks makes the record of ids of batches whose segment was given up.
func (w *Builder) Chunks(list []event.Chunk) []byte {
	w.begin(recChunks)
	w.chunks(list)
	return w.Bytes()
}

// chunks writes the last MaxChunks of list.
func (w *Builder) chunks(list []event.Chunk) {
	list = list[max(0, len(list)-MaxChunks):]
	w.b = binary.AppendUvarint(w.b, uint64(len(list)))
	for i := range list {
		w.b = append(w.b, list[i][:]...)
	}
}

// chunks reads a list; without any bytes it is empty, as before there were Chunks.
func (r *reader) chunks() (list []event.Chunk) {
	if len(r.b) == 0 {
		return nil
	}
	n := r.uvarint()
	if n > MaxChunks {
		r.bad = true
	}
	for i := uint64(0); i < n && !r.bad; i++ {
		var c event.Chunk
		copy(c[:], r.bytes(uint64(len(c))))
		list = append(list, c)
	}
	return list
}

func (s *State) applyChunks(body []byte) bool {
	r := &reader{b: body}
	list := r.chunks()
	if r.bad {
		return false
	}
	s.Chunks = append(s.Chunks, list...)
	if n := len(s.Chunks) - MaxChunks; n > 0 {
		s.Chunks = append(s.Chunks[:0:0], s.Chunks[n:]...)
	}
	return true
}
