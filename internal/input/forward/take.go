package forward

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"

	"weir/internal/event"
	"weir/internal/input"
)

// Sizes that decide what is put together into one batch.
const (
	smallEntries = 8 << 10   // larger messages are batches of their own, without a copy
	batchBytes   = 512 << 10 // a batch made of small messages is closed at this size
)

// pendingBatch collects consecutive small messages of one tag that have been received
// already. It never waits for more: when the read buffer is drained it is emitted.
type pendingBatch struct {
	batch   event.Batch
	chunked bool      // its messages have chunk ids
	count   int       // messages
	first   []byte    // chunk id of the first; empty if it proves nothing
	like    likeness  // of the first
	acks    *ackGroup // nil while there is nothing to answer
}

func (p *pendingBatch) trim() { p.batch.Entries = nil }

func (p *pendingBatch) add(tag string, entries []byte, count int, first, last event.Time) {
	b := &p.batch
	if b.Count == 0 {
		b.Tag, b.First, b.Last = tag, first, last
	}
	b.Entries = append(b.Entries, entries...)
	b.Count += count
	b.First = min(b.First, first)
	b.Last = max(b.Last, last)
}

// take brings one message on its way.
func (c *conn) take(work context.Context, m *message) error {
	c.messages++
	if w := c.set.warnMessage; w > 0 && m.size > w {
		if c.in.notices.may(kindSize) {
			c.in.notices.warn(kindSize, "forward: a message is larger than chunk_size_warn_limit",
				slog.String("peer", c.peer), slog.Int("bytes", m.size), slog.Int("limit", w))
		}
	}
	if m.tag == nil || m.mode == broken {
		c.in.n.invalid.Add(1)
		if c.in.notices.may(kindBroken) {
			c.in.notices.warn(kindBroken, "forward: ignored a message that is not [tag, …] with events",
				slog.String("peer", c.peer), slog.Int64("offset", c.offset+int64(c.r)))
		}
		return c.answerEmpty(work, m)
	}
	b := event.Batch{Tag: c.tags.name(m.tag), Entries: m.entries, Count: m.count, First: m.first, Last: m.last}
	if m.mode == packed {
		home, err := c.unpack(m, &b)
		if home != nil {
			defer c.in.mem.put(home)
		}
		if err != nil {
			return err
		}
	}
	m.likeness = likenessOf(&b) // as it came: what follows may write times of arrival
	keepZero := m.mode == packed && !c.set.skipInvalid
	if !m.clean || c.norm.addN > 0 || b.First.Seconds() <= 0 && b.Count > 0 && !keepZero {
		if err := c.normalise(m, &b, keepZero); err != nil {
			return err
		}
	}
	if b.Count == 0 {
		return c.answerEmpty(work, m)
	}
	return c.admit(work, m, b)
}

// unpack looks at packed entries, after decompressing them if need be. The block returned
// holds them and goes back when they have been emitted.
func (c *conn) unpack(m *message, b *event.Batch) (home *block, err error) {
	if m.codec != plain {
		b.Entries, home, err = c.in.inflate.inflate(m.codec, m.entries)
		if errors.Is(err, errMemory) {
			return nil, err
		}
		if err != nil {
			return nil, c.malformed(0, "cannot decompress a message", err)
		}
	}
	b.Count, b.First, b.Last, _, err = event.Check(b.Entries)
	m.clean = err == nil
	return home, nil
}

// normalise rewrites the entries of b.
func (c *conn) normalise(m *message, b *event.Batch, keepZero bool) error {
	if m.mode == single {
		c.single = append(append(c.single[:0], 0x92), b.Entries...)
		b.Entries = c.single
		m.mode = listed // from here on it is a list of one
	}
	n := &c.norm
	n.now, n.keepZero = event.FromTime(c.arrived), keepZero
	if err := n.run(b.Entries); err != nil {
		return c.malformed(0, "malformed msgpack among the events of a message", err)
	}
	if n.invalid > 0 {
		c.in.n.invalid.Add(uint64(n.invalid))
		if c.in.notices.may(kindInvalid) {
			c.in.notices.warn(kindInvalid, "forward: dropped invalid events", slog.String("peer", c.peer),
				slog.String("tag", b.Tag), slog.Int("events", n.invalid), slog.Any("reason", n.reason))
		}
	}
	b.Entries, b.Count, b.First, b.Last = n.out, n.count, n.first, n.last
	if cap(n.out) > keepBuffer {
		n.out = nil // b keeps it until it is emitted
	}
	return nil
}

// admit sends the events of one message on, alone or with those before it.
func (c *conn) admit(work context.Context, m *message, b event.Batch) error {
	var id chunkID
	known := m.chunk != nil && !ambiguous(m.chunk, b.First, b.Last)
	if known {
		id = c.in.recent.id(b.Tag, m.chunk, &m.likeness)
		if c.in.recent.begin(id) != fresh {
			return c.repeat(work, m, id)
		}
	}
	p := &c.batch
	size := len(b.Entries)
	alone := size > smallEntries
	if p.batch.Count > 0 && (alone || p.batch.Tag != b.Tag || p.chunked != (m.chunk != nil) || len(p.batch.Entries)+size >= batchBytes) {
		if err := c.flush(work); err != nil && c.refused == nil {
			return err
		}
	}
	p.chunked = m.chunk != nil
	if m.chunk != nil {
		c.noteAck(m.chunk)
		if known {
			p.acks.ids = append(p.acks.ids, id)
		}
	}
	if alone {
		if known {
			b.Chunk = c.lasting(b.Tag, m.chunk, &m.likeness)
		}
		if m.mode == single {
			c.single = append(append(c.single[:0], 0x92), b.Entries...)
			b.Entries = c.single
		}
		return c.emit(work, b)
	}
	if p.count++; p.count == 1 && known {
		p.first, p.like = append(p.first[:0], m.chunk...), m.likeness
	}
	if m.mode == single {
		p.batch.Entries = append(p.batch.Entries, 0x92)
	}
	p.add(b.Tag, b.Entries, b.Count, b.First, b.Last)
	return nil
}

// noteAck notes an answer that is due when the batch in hand is safe.
func (c *conn) noteAck(chunk []byte) {
	p := &c.batch
	if p.acks == nil {
		p.acks = c.in.groups.get()
		p.acks.arrived = c.arrived
	}
	p.acks.add(chunk, c.json)
}

// answerEmpty answers a message of which nothing goes on.
func (c *conn) answerEmpty(work context.Context, m *message) error {
	if m.chunk == nil {
		return nil
	}
	if c.batch.batch.Count > 0 && !c.batch.chunked {
		if err := c.flush(work); err != nil {
			return err
		}
	}
	c.noteAck(m.chunk)
	return nil
}

// repeat answers a message whose first copy came before, once that is safe.
func (c *conn) repeat(work context.Context, m *message, id chunkID) error {
	if err := c.flush(work); err != nil {
		return err
	}
	g := c.in.groups.get()
	g.repeat, g.arrived = true, c.arrived
	g.ids = append(g.ids, id)
	g.add(m.chunk, c.json)
	c.answer(work, g)
	return nil
}

// flush emits the pending batch.
func (c *conn) flush(work context.Context) error {
	p := &c.batch
	if p.batch.Count == 0 {
		if p.acks != nil { // answers without events
			c.answer(work, p.acks)
			p.acks = nil
		}
		return nil
	}
	b := p.batch
	if p.count == 1 && len(p.first) > 0 {
		b.Chunk = c.lasting(b.Tag, p.first, &p.like)
	}
	p.count, p.first = 0, p.first[:0]
	p.batch.Count, p.batch.Entries = 0, p.batch.Entries[:0]
	return c.emit(work, b)
}

// lasting is the Chunk of a message: unlike chunkID it is the same in every process, since
// buffers store it. Messages that were put together into one batch have none: they are
// small, and a sender who sends many at once repeats them in other company.
func (c *conn) lasting(tag string, chunk []byte, like *likeness) (id event.Chunk) {
	b := binary.BigEndian.AppendUint32(c.hash[:0], uint32(len(tag)))
	b = like.append(append(append(b, tag...), chunk...))
	sum := sha256.Sum256(b)
	c.hash = b
	copy(id[:], sum[:])
	return id
}

// emit hands a batch over and queues the answers that were noted for it.
func (c *conn) emit(work context.Context, b event.Batch) error {
	p := &c.batch
	g := p.acks
	p.acks = nil
	err := c.refused
	var receipt input.Receipt
	if err == nil {
		receipt, err = c.in.emit(work, b)
	}
	if err != nil {
		c.refuse(g, p.chunked, b, err)
		return c.refused
	}
	c.in.n.events.Add(uint64(b.Count))
	if g != nil {
		g.receipt = receipt
		g.receipt.Delivered = g.receipt.Delivered || c.set.ackDelivered
		c.answer(work, g)
	}
	return nil
}

// refuse books what was not taken.
func (c *conn) refuse(g *ackGroup, chunked bool, b event.Batch, err error) {
	c.refused = err
	if g != nil {
		c.in.recent.settle(g.ids, false)
		c.in.n.refused.Add(uint64(g.n))
		c.in.groups.put(g)
	}
	if !chunked {
		c.in.n.refused.Add(1)
		c.in.n.lost.Add(uint64(b.Count))
		c.in.lost(b)
	}
}
