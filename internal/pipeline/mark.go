package pipeline

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"weir/internal/event"
)

// mark makes the Chunks of what a hold passes on. A message whose sender repeats it after a
// restart must not be left out because a part of it was stored, nor be stored twice as a
// whole because its last event was still held. So what comes out of a hold while it works
// off a batch is marked with how much of the beginning of the batch has gone on: the number
// of entries, and a check sum of their bytes. When the message comes again, a target that
// knows the mark does not get the events that consist of these entries only.
type mark struct {
	head [8]byte // names the message, the hold and which batch of the message
	ok   bool
	crc  *crc32.Table
}

// extent is a beginning of a batch.
type extent struct {
	entries, bytes int
	crc            uint32
}

// markOf makes the mark of a batch; without a Chunk there is none.
func (h *Hold) markOf(d *delivery) (m mark) {
	c := d.batch.Chunk
	if c.IsZero() {
		return m
	}
	b := append(append(c[:], h.o.ID...), 0)
	b = binary.BigEndian.AppendUint32(append(b, d.batch.Tag...), uint32(d.nth))
	sum := sha256.Sum256(b)
	copy(m.head[:], sum[:])
	m.ok, m.crc = true, h.crc
	return m
}

// chunk is the Chunk that says: so much has gone on.
func (m *mark) chunk(x extent) (c event.Chunk) {
	copy(c[:], m.head[:])
	binary.BigEndian.PutUint32(c[8:], uint32(x.entries))
	binary.BigEndian.PutUint32(c[12:], x.crc)
	return c
}

// at is the Chunk for the first entries of a batch of count entries; none for nothing.
func (m *mark) at(entries []byte, n, count int) event.Chunk {
	if !m.ok || n == 0 {
		return event.Chunk{}
	}
	x := extent{entries: n, bytes: len(entries)}
	if n < count {
		x.bytes = prefix(entries, n)
	}
	x.crc = crc32.Checksum(entries[:x.bytes], m.crc)
	return m.chunk(x)
}

// known finds how much of a batch a target has marked before a restart.
func (m *mark) known(entries []byte, known func(event.Chunk) bool) (most extent) {
	if !m.ok || known == nil {
		return most
	}
	x := extent{}
	for rest := entries; len(rest) > 0; rest = entries[x.bytes:] {
		_, n, err := event.Next(rest)
		if err != nil {
			break
		}
		x = extent{x.entries + 1, x.bytes + n, crc32.Update(x.crc, m.crc, rest[:n])}
		if known(m.chunk(x)) {
			most = x
		}
	}
	return most
}

// prefix is the length of the first n entries.
func prefix(entries []byte, n int) (size int) {
	for ; n > 0 && size < len(entries); n-- {
		_, next, err := event.Next(entries[size:])
		if err != nil {
			break
		}
		size += next
	}
	return size
}
