// Package event knows what a log event looks like on its way through weir: a run of
// msgpack entries in the form in which the client sent them. It walks, looks up,
// rewrites and prints them without ever decoding a record to Go values, which is both
// the fast and the safe way: a hostile megabyte of msgpack that claims nested arrays
// can cost gigabytes once decoded.
//
// The package is pure: no goroutine, no clock, no I/O, no logger. A time is written in the
// local zone where Ruby does so.
package event

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Time is a point in time in nanoseconds since the Unix epoch. EventTime on the wire
// has unsigned 32-bit seconds, so every wire time fits.
type Time int64

// Unix makes a Time of whole seconds and nanoseconds.
func Unix(sec int64, nsec int64) Time { return Time(sec*1e9 + nsec) }

// FromTime converts a time.Time.
func FromTime(t time.Time) Time { return Time(t.UnixNano()) }

// Millis is the time in milliseconds, rounded down. CloudWatch Logs counts in these.
func (t Time) Millis() int64 {
	ms := int64(t) / 1e6
	if int64(t)%1e6 < 0 {
		ms--
	}
	return ms
}

// Seconds is the time in whole seconds, rounded down.
func (t Time) Seconds() int64 {
	s := int64(t) / 1e9
	if int64(t)%1e9 < 0 {
		s--
	}
	return s
}

// Time converts to a time.Time in UTC.
func (t Time) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// Batch is a run of events of one tag.
//
// A Batch is borrowed: whoever receives one in a call may read it until that call
// returns and must copy what it wants to keep. Nobody changes the bytes of a Batch that
// was handed over.
type Batch struct {
	Tag string
	// Entries holds Count concatenated msgpack arrays [time, record] or, as Fluent Bit
	// sends them, [[time, metadata], record]. They have passed Check.
	Entries []byte
	Count   int
	// First and Last are the smallest and the largest event time in Entries.
	First, Last Time
	// Chunk identifies the message that the batch came in, if its sender repeats a message
	// which was not acknowledged and marks the repeat as such; else zero. A buffer keeps it,
	// so that a repeat is recognised after a restart too.
	Chunk Chunk
}

// Chunk stands for a message of a sender: a hash of what the sender calls it. The same
// message has the same Chunk in every process.
type Chunk [16]byte

// IsZero says that there is none.
func (c Chunk) IsZero() bool { return c == Chunk{} }

// Entry is one event of a Batch. Its slices point into the batch.
type Entry struct {
	Time   Time
	Record []byte // a msgpack map
}

// Next reads the first entry of b, which must have passed Check, and returns it with the
// number of bytes it takes. It returns an error instead of panicking if b is damaged.
func Next(b []byte) (Entry, int, error) {
	var e Entry
	if len(b) < 3 || b[0] != 0x92 {
		return nextSlow(b)
	}
	i := 1
	switch {
	case b[1] == 0xd7 && len(b) > 11 && b[2] == 0: // EventTime as fixext8
		e.Time = Unix(int64(binary.BigEndian.Uint32(b[3:])), int64(binary.BigEndian.Uint32(b[7:])))
		i = 11
	case b[1] == 0xce && len(b) > 6: // seconds as uint32
		e.Time = Unix(int64(binary.BigEndian.Uint32(b[2:])), 0)
		i = 6
	default:
		return nextSlow(b)
	}
	end, err := Skip(b, i)
	if err != nil {
		return Entry{}, 0, err
	}
	e.Record = b[i:end]
	return e, end, nil
}

func nextSlow(b []byte) (Entry, int, error) {
	n, i, err := ArrayHeader(b, 0)
	if err != nil {
		return Entry{}, 0, fmt.Errorf("read entry: %w", err)
	}
	if n != 2 {
		return Entry{}, 0, fmt.Errorf("read entry: an entry has %d elements instead of [time, record]", n)
	}
	t, i, err := readEntryTime(b, i)
	if err != nil {
		return Entry{}, 0, err
	}
	end, err := Skip(b, i)
	if err != nil {
		return Entry{}, 0, fmt.Errorf("read record: %w", err)
	}
	return Entry{Time: t, Record: b[i:end]}, end, nil
}

// readEntryTime reads a time, or Fluent Bit's [time, metadata].
func readEntryTime(b []byte, i int) (Time, int, error) {
	if i < len(b) && isArray(b[i]) {
		n, j, err := ArrayHeader(b, i)
		if err != nil {
			return 0, 0, fmt.Errorf("read time: %w", err)
		}
		if n != 2 {
			return 0, 0, fmt.Errorf("read time: an array of %d elements instead of [time, metadata]", n)
		}
		t, j, err := ReadTime(b, j)
		if err != nil {
			return 0, 0, err
		}
		j, err = Skip(b, j)
		if err != nil {
			return 0, 0, fmt.Errorf("read metadata: %w", err)
		}
		return t, j, nil
	}
	return ReadTime(b, i)
}

// ReadTime reads an EventTime (ext type 0, 8 bytes, as fixext8 or ext8) or an integer
// count of seconds at b[i:]. Anything else, floats and nil included, is ErrTime.
func ReadTime(b []byte, i int) (Time, int, error) {
	if i >= len(b) {
		return 0, 0, ErrShort
	}
	switch c := b[i]; {
	case c == 0xd7:
		if len(b)-i < 10 {
			return 0, 0, ErrShort
		}
		if b[i+1] != 0 {
			return 0, 0, ErrTime
		}
		return wireTime(b[i+2:]), i + 10, nil
	case c == 0xc7:
		if len(b)-i < 11 {
			return 0, 0, ErrShort
		}
		if b[i+1] != 8 || b[i+2] != 0 {
			return 0, 0, ErrTime
		}
		return wireTime(b[i+3:]), i + 11, nil
	default:
		sec, j, ok := readInt(b, i)
		if !ok {
			return 0, 0, ErrTime
		}
		if sec > maxSeconds || sec < -maxSeconds {
			return 0, 0, ErrTime
		}
		return Unix(sec, 0), j, nil
	}
}

// maxSeconds keeps Time from overflowing: it is in the year 2262.
const maxSeconds = 9_223_372_035

func wireTime(b []byte) Time {
	return Unix(int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:])))
}

// AppendTime appends t as an EventTime in fixext8 form.
func AppendTime(dst []byte, t Time) []byte {
	sec := t.Seconds()
	dst = append(dst, 0xd7, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(sec))
	return binary.BigEndian.AppendUint32(dst, uint32(int64(t)-sec*1e9))
}
