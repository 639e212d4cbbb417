package docker

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"
	"slices"
	"unicode/utf8"

	"weir/internal/event"
	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

const (
	maxParts = 16 // of one draft; with two tags 32 batches, well below what a Spool remembers
	maxTags  = 2
)

// draft collects what one look at a pipe, or one flush, gives: encoded events, a batch for
// each tag, and losses at their places. A loss ends a part: batches hold the events of one
// part only, so that what came before the loss is stored before it is booked.
type draft struct {
	tags  []string
	enc   [maxTags][]byte // entries of all parts
	open  [maxTags]span   // of the part that grows
	part  int
	text  []byte // scratch of emit
	steps []step
	ready []event.Batch // the batches of steps, once finish was called
}

// span is a run of entries in enc[tag].
type span struct {
	tag, part   int
	off, end    int
	count       int
	first, last event.Time
}

// step is a batch to put, or with events > 0 a loss to book.
type step struct {
	span
	batch         int // in ready
	events, bytes uint64
	id            event.Chunk // of a loss
}

func (d *draft) reset(tags []string) {
	d.tags, d.part = tags, 0
	d.steps, d.ready = d.steps[:0], d.ready[:0]
	for i := range d.enc {
		d.enc[i] = d.enc[i][:0]
		d.open[i] = span{tag: i}
	}
}

// expect makes room for what so many bytes of a pipe give, most likely.
func (d *draft) expect(n int) {
	if cap(d.enc[0]) < n {
		d.enc[0] = make([]byte, 0, 1<<bits.Len(uint(n)))
	}
}

// trim gives back memory of unusual size before the draft is kept for later.
func (d *draft) trim() {
	for i := range d.enc {
		if cap(d.enc[i]) > 2*maxBlock {
			d.enc[i] = nil
		}
	}
	clear(d.ready[:cap(d.ready)])
}

func (d *draft) tagOf(s frame.Source) int {
	if s == frame.Stderr {
		return len(d.tags) - 1
	}
	return 0
}

// emit takes what package lines gives out.
func (d *draft) emit(e lines.Event) {
	tag, t := d.tagOf(e.Source), wireTime(e.TimeNano)
	if e.Lost > 0 {
		d.lose(tag, e.Lost, e.LostBytes, t)
		return
	}
	message := e.Message
	if !utf8.Valid(message) {
		d.text = lines.AppendUTF8(d.text[:0], message)
		message = d.text
	}
	d.enc[tag] = appendEntry(d.enc[tag], t, message)
	s := &d.open[tag]
	if s.count == 0 {
		s.first, s.last = t, t
	}
	s.count++
	s.first, s.last = min(s.first, t), max(s.last, t)
}

// lose puts a loss at this place, or with the one before if there are too many. A zero time
// is not known.
func (d *draft) lose(tag int, events, bytes uint64, t event.Time) {
	if d.part < 2*maxParts-1 {
		d.cut()
	}
	for i := len(d.steps) - 1; i >= 0; i-- {
		last := &d.steps[i]
		if last.events == 0 && d.part < 2*maxParts-1 {
			break
		}
		if last.events == 0 || last.tag != tag {
			continue
		}
		last.events, last.bytes = last.events+events, last.bytes+bytes
		if t != 0 {
			last.last = max(last.last, t)
			if last.first == 0 || t < last.first {
				last.first = t
			}
		}
		return
	}
	d.steps = append(d.steps, step{span: span{tag: tag, part: d.part, first: t, last: t}, events: events, bytes: bytes})
	d.part++
}

// cut ends the part.
func (d *draft) cut() {
	for i := range d.tags {
		s := &d.open[i]
		if s.count > 0 {
			s.part, s.end = d.part, len(d.enc[i])
			d.steps = append(d.steps, step{span: *s})
		}
		*s = span{tag: i, off: len(d.enc[i])}
	}
}

// full says that nothing more should be added before what is there was stored.
func (d *draft) full() bool { return d.part >= maxParts }

// finish makes the batches, and gives ids of what is called sum and has size bytes.
func (d *draft) finish(size int, sum *digest) {
	d.cut()
	for i := range d.steps {
		s := &d.steps[i]
		if s.events > 0 {
			s.id = chunkOf(size, sum, byte(firstLoss+s.part))
			continue
		}
		s.batch = len(d.ready)
		d.ready = append(d.ready, event.Batch{
			Tag: d.tags[s.tag], Entries: d.enc[s.tag][s.off:s.end], Count: s.count, First: s.first, Last: s.last,
			Chunk: chunkOf(size, sum, byte(s.tag*maxParts*2+s.part)),
		})
	}
}

// drop leaves out what is stored already: batches and losses that are known, and the losses before
// the last of these. finish must have been called.
func (d *draft) drop(known map[event.Chunk]struct{}) {
	seen := false
	for i := len(d.steps) - 1; i >= 0; i-- {
		s := &d.steps[i]
		id := s.id
		if s.events == 0 {
			id = d.ready[s.batch].Chunk
		}
		_, out := known[id]
		seen = seen || out
		if out || seen && s.events > 0 {
			d.steps = slices.Delete(d.steps, i, i+1)
		}
	}
}

// wireTime keeps a time within what an entry can hold: 1970 to 2106.
func wireTime(nano int64) event.Time {
	return event.Time(min(max(nano, 0), (1<<32)*1e9-1))
}

// appendEntry appends the event [t, {"m": message}].
func appendEntry(dst []byte, t event.Time, message []byte) []byte {
	dst = event.AppendTime(append(dst, 0x92), t)
	dst = append(dst, 0x81, 0xa1, 'm')
	switch n := len(message); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = append(dst, 0xda, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, message...)
}

// digest is a hash of a run of bytes of a pipe, and of the pipe's name.
type digest [sha256.Size]byte

// Which batch, or what else, a chunk stands for; below firstLoss a batch of a draft, from there on
// a loss.
const (
	firstLoss  = maxTags * maxParts * 2
	endLoss    = firstLoss + maxParts*2 + maxTags
	wholeBlock = 0xff
)

// chunkOf names something that comes from size bytes with a hash.
func chunkOf(size int, sum *digest, which byte) (c event.Chunk) {
	binary.BigEndian.PutUint32(c[:], uint32(size))
	copy(c[4:], sum[:])
	c[15] = which
	return c
}

// sizeOf is the size in a chunk.
func sizeOf(c event.Chunk) int { return int(binary.BigEndian.Uint32(c[:])) }

// namer hashes for one session.
type namer struct {
	h   hash.Hash
	key string
}

func newNamer(key string) namer { return namer{sha256.New(), key} }

func (n namer) sum(b []byte) (d digest) {
	n.h.Reset()
	n.h.Write([]byte(n.key))
	n.h.Write(b)
	n.h.Sum(d[:0])
	return d
}

// flush names what is given out of what was held in generation gen.
func (n namer) flush(gen uint64) digest {
	return n.sum(binary.BigEndian.AppendUint64([]byte("held"), gen))
}

// find looks for the block at the beginning of raw that a process which was killed had
// looked at and stored, in whole or in part, and gives its size, or 0.
func (n namer) find(raw []byte, known map[event.Chunk]struct{}) int {
	var sizes []int
	for c := range known {
		if size := sizeOf(c); size > 0 && size <= len(raw) {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	n.h.Reset()
	n.h.Write([]byte(n.key))
	at := 0
	for _, size := range slices.Compact(sizes) {
		n.h.Write(raw[at:size])
		at = size
		var d digest
		n.h.Sum(d[:0])
		for which := range endLoss {
			if _, ok := known[chunkOf(size, &d, byte(which))]; ok {
				return size
			}
		}
	}
	return 0
}
