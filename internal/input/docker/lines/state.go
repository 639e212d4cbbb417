package lines

import (
	"encoding/binary"
	"errors"
	"fmt"

	"weir/internal/input/docker/frame"
)

// The state is a version byte and a record for each thing held: kind, place, flags, number,
// time, and two runs of bytes with their lengths before them. Numbers are varints.
const version = 1

const (
	kindChain = 1 // place: source; number: ordinal; bytes: id, text
	kindJoin  = 2 // place: which join; number: source; bytes: none, text
)

const (
	flagMeta = 1 << iota
	flagBegun
)

// Held says whether there is anything to keep with AppendState.
func (l *Lines) Held() bool {
	for i := range l.chains {
		if l.chains[i].open {
			return true
		}
	}
	return len(l.joins[0].text.buf) > 0 || len(l.joins[1].text.buf) > 0
}

// AppendState appends all that is held, for Restore. It is not longer than what is held and
// a few hundred bytes.
func (l *Lines) AppendState(dst []byte) []byte {
	dst = append(dst, version)
	for i := range l.chains {
		c := &l.chains[i]
		if !c.open {
			continue
		}
		flags := byte(0)
		if c.meta {
			flags |= flagMeta
		}
		if c.begun {
			flags |= flagBegun
		}
		dst = append(dst, kindChain, byte(i), flags)
		dst = appendRecord(dst, uint64(c.ordinal), c.time, c.id, c.text.buf)
	}
	for i := range l.joins {
		j := &l.joins[i]
		if len(j.text.buf) == 0 {
			continue
		}
		dst = append(dst, kindJoin, byte(i), 0)
		dst = appendRecord(dst, uint64(j.source), j.time, nil, j.text.buf)
	}
	return dst
}

func appendRecord(dst []byte, number uint64, time int64, id, text []byte) []byte {
	dst = binary.AppendUvarint(dst, number)
	dst = binary.AppendVarint(dst, time)
	dst = binary.AppendUvarint(dst, uint64(len(id)))
	dst = append(dst, id...)
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// Restore sets what is held to what AppendState wrote. It keeps no part of state. The options
// should be the same, but nothing is lost if they are not. How long something is held is
// measured anew from the next Flush on, so that what waits in the pipe can still be
// joined to it. After an error nothing is held.
func (l *Lines) Restore(state []byte) error {
	*l = Lines{o: l.o}
	if err := l.restore(state); err != nil {
		*l = Lines{o: l.o}
		return fmt.Errorf("reading the state of incomplete lines: %w", err)
	}
	return nil
}

var errDamaged = errors.New("it is damaged")

func (l *Lines) restore(b []byte) error {
	if len(b) == 0 {
		return errDamaged
	}
	if b[0] != version {
		return fmt.Errorf("it has version %d, this program reads %d", b[0], version)
	}
	for b = b[1:]; len(b) > 0; {
		if len(b) < 3 {
			return errDamaged
		}
		kind, place, flags := b[0], int(b[1]), b[2]
		r, rest, ok := readRecord(b[3:])
		if !ok {
			return errDamaged
		}
		b = rest
		switch {
		case kind == kindChain && place < len(l.chains) && !l.chains[place].open:
			l.chains[place] = chain{
				open: true, meta: flags&flagMeta != 0, begun: flags&flagBegun != 0,
				id: append([]byte(nil), r.id...), ordinal: int32(r.number & (1<<31 - 1)), time: r.time, text: held(r.text),
			}
		case kind == kindJoin && place < len(l.joins) && len(l.joins[place].text.buf) == 0 && r.number < frame.Sources:
			l.joins[place] = join{source: frame.Source(r.number), time: r.time, size: Size(r.text), text: held(r.text)}
		default:
			return errDamaged
		}
	}
	return nil
}

func held(b []byte) text { return text{buf: append([]byte(nil), b...), since: unknown} }

type record struct {
	number   uint64
	time     int64
	id, text []byte
}

func readRecord(b []byte) (r record, rest []byte, ok bool) {
	var n int
	if r.number, n = binary.Uvarint(b); n <= 0 {
		return r, nil, false
	}
	b = b[n:]
	if r.time, n = binary.Varint(b); n <= 0 {
		return r, nil, false
	}
	b = b[n:]
	if r.id, b, ok = readBytes(b); !ok || len(r.id) > maxID {
		return r, nil, false
	}
	r.text, b, ok = readBytes(b)
	return r, b, ok
}

func readBytes(b []byte) (v, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
