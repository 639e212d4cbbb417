// Package segment knows the bytes of a buffer's files: frames of batches in segment
// files, the settle journal and the checkpoint. docs/buffer-format.md draws them.
//
// Everything here is a function of bytes: no goroutine, no clock, no file names, no
// logger. Nothing it reads is trusted: each structure has a checksum, and no length is
// believed before its checksum has been verified.
package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Sizes and limits of the format.
const (
	// HeaderSize is the length of a frame header.
	HeaderSize = 96
	// MaxPayload bounds a frame's payload, stored or decompressed (1 GiB); it keeps every
	// offset within a frame in 32 bits.
	MaxPayload = 1 << 30
	// Version is the format written and read.
	Version = 1
)

// What can be wrong with a frame.
var (
	// ErrHeader: there is no valid frame header here.
	ErrHeader = errors.New("no valid frame header")
	// ErrShort: the file ends within the frame.
	ErrShort = errors.New("frame is cut off by the end of the file")
	// ErrPayload: the payload does not match its checksum or its header.
	ErrPayload = errors.New("frame payload is damaged")
	// ErrVersion: a frame written by a newer weir.
	ErrVersion = errors.New("frame was written by a newer version of weir")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of the format: CRC-32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Pos is a place in the numbering of a buffer: the Seq of the next batch, and how many
// events and bytes of entries were admitted before it.
type Pos struct{ Seq, Events, Bytes uint64 }

// Codec says how a payload is stored.
type Codec uint8

// Codecs.
const (
	Plain Codec = iota
	Gzip
	Zstd
)

// Header describes a frame.
type Header struct {
	Log        uint64 // identity of the log; a header with another one is not ours
	Start      Pos    // numbering before the frame; Start.Seq is its first batch
	Batches    uint32
	Events     uint32
	EntryBytes uint32 // sum of the lengths of the batches' entries
	Raw        uint32 // payload length as batches
	Stored     uint32 // payload length as stored behind the header
	Sum        uint32 // checksum of the stored payload
	Codec      Codec
	Min, Max   int64 // smallest and largest event time, ns since 1970
	Accepted   int64 // when the first batch was accepted, ns since 1970
}

// End is the numbering behind the frame.
func (h *Header) End() Pos {
	return Pos{
		Seq:    h.Start.Seq + uint64(h.Batches),
		Events: h.Start.Events + uint64(h.Events),
		Bytes:  h.Start.Bytes + uint64(h.EntryBytes),
	}
}

// Size is the length of the whole frame in its file.
func (h *Header) Size() int64 { return HeaderSize + int64(h.Stored) }

const magic = "weir"

// PutHeader writes h into dst[:HeaderSize].
func PutHeader(dst []byte, h *Header) {
	le := binary.LittleEndian
	_ = dst[HeaderSize-1]
	copy(dst, magic)
	dst[4], dst[5], dst[6], dst[7] = Version, byte(h.Codec), 0, 0
	le.PutUint64(dst[8:], h.Log)
	le.PutUint64(dst[16:], h.Start.Seq)
	le.PutUint64(dst[24:], h.Start.Events)
	le.PutUint64(dst[32:], h.Start.Bytes)
	le.PutUint32(dst[40:], h.Batches)
	le.PutUint32(dst[44:], h.Events)
	le.PutUint32(dst[48:], h.EntryBytes)
	le.PutUint32(dst[52:], h.Raw)
	le.PutUint32(dst[56:], h.Stored)
	le.PutUint32(dst[60:], h.Sum)
	le.PutUint64(dst[64:], uint64(h.Min))
	le.PutUint64(dst[72:], uint64(h.Max))
	le.PutUint64(dst[80:], uint64(h.Accepted))
	le.PutUint32(dst[88:], 0)
	le.PutUint32(dst[92:], Sum(dst[:92]))
}

// ParseHeader reads a header of the log with identity log; log 0 takes any. It fails with
// ErrHeader or ErrVersion.
func ParseHeader(b []byte, log uint64) (Header, error) {
	if len(b) < HeaderSize || string(b[:4]) != magic {
		return Header{}, ErrHeader
	}
	le := binary.LittleEndian
	if le.Uint32(b[92:]) != Sum(b[:92]) {
		return Header{}, ErrHeader
	}
	if b[4] != Version {
		return Header{}, fmt.Errorf("%w: format %d", ErrVersion, b[4])
	}
	h := Header{
		Log:        le.Uint64(b[8:]),
		Start:      Pos{Seq: le.Uint64(b[16:]), Events: le.Uint64(b[24:]), Bytes: le.Uint64(b[32:])},
		Batches:    le.Uint32(b[40:]),
		Events:     le.Uint32(b[44:]),
		EntryBytes: le.Uint32(b[48:]),
		Raw:        le.Uint32(b[52:]),
		Stored:     le.Uint32(b[56:]),
		Sum:        le.Uint32(b[60:]),
		Codec:      Codec(b[5]),
		Min:        int64(le.Uint64(b[64:])),
		Max:        int64(le.Uint64(b[72:])),
		Accepted:   int64(le.Uint64(b[80:])),
	}
	if h.Raw > MaxPayload || h.Stored > MaxPayload || h.Batches == 0 || h.EntryBytes > h.Raw ||
		(log != 0 && h.Log != log) || (h.Codec == Plain && h.Raw != h.Stored) {
		return Header{}, ErrHeader
	}
	return h, nil
}

// ReadHeader reads the header at off of a file of size bytes and checks that the file
// holds the whole frame. It fails with ErrHeader, ErrVersion, ErrShort or the reader's
// error; io.EOF if off is the end. With ErrShort the header is valid and returned.
func ReadHeader(r io.ReaderAt, off, size int64, log uint64) (Header, error) {
	if off >= size {
		return Header{}, io.EOF
	}
	if size-off < HeaderSize {
		return Header{}, ErrHeader
	}
	var b [HeaderSize]byte
	if n, err := r.ReadAt(b[:], off); n < HeaderSize {
		return Header{}, fmt.Errorf("read frame header at %d: %w", off, err)
	}
	h, err := ParseHeader(b[:], log)
	if err != nil {
		return Header{}, err
	}
	if h.Size() > size-off {
		return h, ErrShort
	}
	return h, nil
}

// FindHeader looks for the first valid header at or behind from whose first Seq is at
// least seq. The log's identity makes sure that bytes inside an event which look like a
// frame are not taken for one. ok is false if there is none.
func FindHeader(r io.ReaderAt, from, size int64, log, seq uint64) (off int64, h Header, ok bool, err error) {
	const window = 64 << 10
	buf := make([]byte, window+HeaderSize)
	for from+HeaderSize <= size {
		n := int(min(int64(len(buf)), size-from))
		if k, err := r.ReadAt(buf[:n], from); k < n {
			return 0, Header{}, false, fmt.Errorf("look for a frame behind %d: %w", from, err)
		}
		for i := 0; i < window; {
			k := bytes.Index(buf[i:n], []byte(magic))
			if k < 0 || i+k >= window {
				break
			}
			i += k
			if n-i >= HeaderSize {
				h, err := ParseHeader(buf[i:n], log)
				if err == nil && h.Start.Seq >= seq && h.Size() <= size-from-int64(i) {
					return from + int64(i), h, true, nil
				}
			}
			i++
		}
		from += window
	}
	return 0, Header{}, false, nil
}

// CheckPayload compares stored payload bytes with the header.
func CheckPayload(h *Header, stored []byte) error {
	if len(stored) != int(h.Stored) || Sum(stored) != h.Sum {
		return ErrPayload
	}
	return nil
}
