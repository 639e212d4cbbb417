package segment

import (
	"encoding/binary"
	"fmt"

	"weir/internal/event"
)

// batchHead is the fixed part of a batch in a payload: length of the entries, count,
// first and last time, length of the tag.
const batchHead = 4 + 4 + 8 + 8 + 2

// hasChunk is the bit of the tag's length which says that a Chunk follows the tag.
const hasChunk = 1 << 15

// MaxTag is the longest tag that a batch can have, in bytes.
const MaxTag = hasChunk - 1

// BatchSize is how many bytes AppendBatch adds for t.
func BatchSize(t *event.Batch) int {
	n := batchHead + len(t.Tag) + len(t.Entries)
	if !t.Chunk.IsZero() {
		n += len(t.Chunk)
	}
	return n
}

// AppendBatch appends t to a payload. The tag is at most MaxTag bytes long.
func AppendBatch(dst []byte, t *event.Batch) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(t.Entries)))
	dst = le.AppendUint32(dst, uint32(t.Count))
	dst = le.AppendUint64(dst, uint64(t.First))
	dst = le.AppendUint64(dst, uint64(t.Last))
	if t.Chunk.IsZero() {
		dst = le.AppendUint16(dst, uint16(len(t.Tag)))
		dst = append(dst, t.Tag...)
	} else {
		dst = le.AppendUint16(dst, uint16(len(t.Tag)|hasChunk))
		dst = append(dst, t.Tag...)
		dst = append(dst, t.Chunk[:]...)
	}
	return append(dst, t.Entries...)
}

// Batch is a batch within a payload. Tag points into it.
type Batch struct {
	Tag         []byte
	Off, Len    int // of the entries within the payload
	Count       int
	First, Last event.Time
	Chunk       event.Chunk // zero if it has none
}

// NextBatch reads the batch at off of a payload and returns where the next one begins.
// It fails with ErrPayload if the bytes are no batch; a payload that passed CheckPayload
// always is a run of batches.
func NextBatch(payload []byte, off int) (Batch, int, error) {
	if off < 0 || len(payload)-off < batchHead {
		return Batch{}, 0, fmt.Errorf("read batch at %d: %w", off, ErrPayload)
	}
	le := binary.LittleEndian
	p := payload[off:]
	n, tag := int(le.Uint32(p)), int(le.Uint16(p[24:]))
	var chunk event.Chunk
	mark := 0
	if tag&hasChunk != 0 {
		tag, mark = tag&^hasChunk, len(chunk)
	}
	if n > MaxPayload || len(p)-batchHead < n+tag+mark {
		return Batch{}, 0, fmt.Errorf("read batch at %d: %w", off, ErrPayload)
	}
	copy(chunk[:mark], p[batchHead+tag:])
	body := off + batchHead + tag + mark
	return Batch{
		Chunk: chunk,
		Tag:   p[batchHead : batchHead+tag : batchHead+tag],
		Off:   body,
		Len:   n,
		Count: int(le.Uint32(p[4:])),
		First: event.Time(le.Uint64(p[8:])),
		Last:  event.Time(le.Uint64(p[16:])),
	}, body + n, nil
}

// CheckBatches walks a whole payload and compares its sums with the header.
func CheckBatches(h *Header, payload []byte) error {
	var batches, events, bytes uint64
	for off := 0; off < len(payload); {
		t, next, err := NextBatch(payload, off)
		if err != nil {
			return err
		}
		batches++
		events += uint64(t.Count)
		bytes += uint64(t.Len)
		off = next
	}
	if batches != uint64(h.Batches) || events != uint64(h.Events) || bytes != uint64(h.EntryBytes) {
		return fmt.Errorf("%d batches, %d events, %d bytes where the header says %d, %d, %d: %w",
			batches, events, bytes, h.Batches, h.Events, h.EntryBytes, ErrPayload)
	}
	return nil
}
