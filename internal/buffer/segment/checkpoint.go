package segment

import (
	"encoding/binary"
	"errors"
)

// SlotSize is the length of one of the checkpoint file's two slots. A slot is written as a
// whole while the other one stays as it is, so that one of them is always good.
const SlotSize = 4096

const slotMagic = "weirckpt"

// slotHead is magic, length of the body, checksum of length, write number and body; write
// number.
const slotHead = 8 + 4 + 4 + 8

// ErrCheckpoint: no slot of the checkpoint can be read.
var ErrCheckpoint = errors.New("checkpoint is damaged")

// Checkpoint is the durable summary: the state without parts and drops, and how much of
// the journal was durable with it.
type Checkpoint struct {
	State
	Write   uint64 // counts writes; the higher slot is the newer one
	Journal int64  // bytes of the journal of generation Gen that were durable
}

// AppendSlot appends a slot, padded to SlotSize. Slot Write%2 is the place for it.
func AppendSlot(dst []byte, c *Checkpoint) []byte {
	at := len(dst)
	dst = append(dst, slotMagic...)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, c.Write)
	w := &Builder{b: dst}
	w.state(&c.State)
	w.b = binary.AppendUvarint(w.b, uint64(c.Journal))
	w.chunks(c.Chunks)
	w.numbers(&c.State)
	dst = w.b
	slot := dst[at:]
	binary.LittleEndian.PutUint32(slot[8:], uint32(len(slot)-slotHead))
	binary.LittleEndian.PutUint32(slot[12:], slotSum(slot))
	for len(dst)-at < SlotSize {
		dst = append(dst, 0)
	}
	return dst
}

func slotSum(slot []byte) uint32 {
	return Sum(slot[:12]) ^ Sum(slot[16:])
}

// ReadCheckpoint takes the newer good slot of a checkpoint file. worn tells that a slot
// which was once written cannot be read. It fails with ErrCheckpoint if none is good.
func ReadCheckpoint(b []byte) (c Checkpoint, worn bool, err error) {
	found := false
	for i := range 2 {
		if len(b) < (i+1)*SlotSize {
			worn = worn || len(b) > i*SlotSize
			break
		}
		slot := b[i*SlotSize : (i+1)*SlotSize]
		s, ok := readSlot(slot)
		switch {
		case ok && (!found || s.Write > c.Write):
			c, found = s, true
		case !ok && !empty(slot):
			worn = true
		}
	}
	if !found {
		return Checkpoint{}, worn, ErrCheckpoint
	}
	return c, worn, nil
}

func empty(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func readSlot(slot []byte) (c Checkpoint, ok bool) {
	if string(slot[:8]) != slotMagic {
		return c, false
	}
	n := binary.LittleEndian.Uint32(slot[8:])
	if n > SlotSize-slotHead {
		return c, false
	}
	slot = slot[:slotHead+n]
	if binary.LittleEndian.Uint32(slot[12:]) != slotSum(slot) {
		return c, false
	}
	c.Write = binary.LittleEndian.Uint64(slot[16:])
	r := &reader{b: slot[slotHead:]}
	c.State = r.state()
	c.Journal = int64(r.uvarint())
	c.Chunks = r.chunks()
	r.numbers(&c.State)
	return c, !r.bad && c.Journal >= 0
}
