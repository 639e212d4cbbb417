package forwardclient

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tinylib/msgp/msgp"
)

// Mode is how events are put into messages.
type Mode uint8

// The modes of the protocol. In Message mode a payload is one message per event.
const (
	Message Mode = iota
	Forward
	Packed
	Gzip
	Zstd
)

// String gives the name of the mode.
func (m Mode) String() string { return [...]string{"message", "forward", "packed", "gzip", "zstd"}[m] }

// Generator appends the record of event id to dst, as a msgpack map, and returns where in
// dst the IDLen decimal digits of the id stand, which must come once in the record.
type Generator func(dst []byte, id uint64) (out []byte, idAt int)

// IDLen is the number of digits of an id, with leading zeros.
const IDLen = 12

// Encoding says how to encode a payload. Events and Record are required.
type Encoding struct {
	Mode   Mode
	Tag    string
	Events int
	Record Generator
	First  uint64        // id of the first event
	Time   time.Time     // of the first event; zero: now
	Step   time.Duration // between events
	// Seconds sends times as integers, as Docker and older libraries do.
	Seconds bool
	// Metadata sends [[time, {}], record], as Fluent Bit does.
	Metadata bool
	Acks     bool
	JSON     bool // for Message and Forward
}

// Payload is one or more messages, encoded.
type Payload struct {
	Bytes  []byte
	Events int

	chunks []int // where the chunk ids stand in Bytes
	ids    []int // where the ids of the events stand; nil if compressed
	times  []int // where 8 bytes of EventTime stand; nil if compressed or in seconds
	step   time.Duration
}

// Messages is how many messages with a chunk id the payload has.
func (p *Payload) Messages() int { return len(p.chunks) }

// Renumber gives the events new ids from first on, and new times from t on. It costs a few
// nanoseconds an event. Compressed and JSON payloads cannot be renumbered, times in seconds
// stay.
func (p *Payload) Renumber(first uint64, t time.Time) {
	if len(p.ids) != p.Events {
		panic("forwardclient: this payload cannot be renumbered")
	}
	for i, at := range p.ids {
		putDecimal(p.Bytes[at:at+IDLen], first+uint64(i))
	}
	for _, at := range p.times {
		putTime(p.Bytes[at:], t)
		t = t.Add(p.step)
	}
}

// Encode makes a payload.
func (e Encoding) Encode() *Payload {
	p := &Payload{Events: e.Events, step: e.Step}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Mode == Message {
		for i := range e.Events {
			n := 3
			if e.Acks {
				n++
			}
			p.Bytes = msgp.AppendArrayHeader(p.Bytes, uint32(n))
			p.Bytes = msgp.AppendString(p.Bytes, e.Tag)
			e.event(p, i)
			e.option(p)
		}
	} else {
		e.list(p)
	}
	if e.JSON {
		e.toJSON(p)
	}
	return p
}

func (e *Encoding) list(p *Payload) {
	entries := &Payload{}
	for i := range e.Events {
		entries.Bytes = msgp.AppendArrayHeader(entries.Bytes, 2)
		e.event(entries, i)
	}
	options := e.Acks || e.Mode == Gzip || e.Mode == Zstd || e.Mode == Packed
	n := 2
	if options {
		n++
	}
	p.Bytes = msgp.AppendArrayHeader(p.Bytes, uint32(n))
	p.Bytes = msgp.AppendString(p.Bytes, e.Tag)
	body := entries.Bytes
	switch e.Mode {
	case Forward:
		p.Bytes = msgp.AppendArrayHeader(p.Bytes, uint32(e.Events))
	case Packed:
		p.Bytes = appendBinHeader(p.Bytes, len(body))
	case Gzip:
		body = gzipped(body)
		p.Bytes = appendBinHeader(p.Bytes, len(body))
	case Zstd:
		body = zstded(body)
		p.Bytes = appendBinHeader(p.Bytes, len(body))
	}
	if e.Mode == Forward || e.Mode == Packed {
		for _, at := range entries.ids {
			p.ids = append(p.ids, len(p.Bytes)+at)
		}
		for _, at := range entries.times {
			p.times = append(p.times, len(p.Bytes)+at)
		}
	}
	p.Bytes = append(p.Bytes, body...)
	if options {
		e.option(p)
	}
}

// event appends time and record of event i.
func (e *Encoding) event(p *Payload, i int) {
	t := e.Time.Add(time.Duration(i) * e.Step)
	if e.Metadata {
		p.Bytes = msgp.AppendArrayHeader(p.Bytes, 2)
	}
	if e.Seconds || e.JSON {
		p.Bytes = msgp.AppendInt64(p.Bytes, t.Unix())
	} else {
		p.Bytes = append(p.Bytes, 0xd7, 0)
		p.times = append(p.times, len(p.Bytes))
		p.Bytes = append(p.Bytes, make([]byte, 8)...)
		putTime(p.Bytes[len(p.Bytes)-8:], t)
	}
	if e.Metadata {
		p.Bytes = msgp.AppendMapHeader(p.Bytes, 0)
	}
	var at int
	p.Bytes, at = e.Record(p.Bytes, e.First+uint64(i))
	p.ids = append(p.ids, at)
}

func (e *Encoding) option(p *Payload) {
	n := 0
	if e.Mode != Message {
		n++
	}
	if e.Acks {
		n++
	}
	if e.Mode == Gzip || e.Mode == Zstd {
		n++
	}
	if n == 0 {
		return
	}
	p.Bytes = msgp.AppendMapHeader(p.Bytes, uint32(n))
	if e.Mode != Message {
		p.Bytes = msgp.AppendInt(msgp.AppendString(p.Bytes, "size"), e.Events)
	}
	if e.Acks {
		p.Bytes = msgp.AppendString(p.Bytes, "chunk")
		p.Bytes = msgp.AppendString(p.Bytes, strings.Repeat("0", chunkLen))
		p.chunks = append(p.chunks, len(p.Bytes)-chunkLen)
	}
	if e.Mode == Gzip || e.Mode == Zstd {
		p.Bytes = msgp.AppendString(msgp.AppendString(p.Bytes, "compressed"), e.Mode.String())
	}
}

// toJSON turns the messages of p into JSON text.
func (e *Encoding) toJSON(p *Payload) {
	var out bytes.Buffer
	var err error
	for rest := p.Bytes; len(rest) > 0; {
		if rest, err = msgp.UnmarshalAsJSON(&out, rest); err != nil {
			panic(fmt.Sprintf("forwardclient: encode JSON: %v", err))
		}
		out.WriteByte('\n')
	}
	p.Bytes, p.ids, p.times = out.Bytes(), nil, nil
	at, want := 0, []byte(`"chunk":"`)
	for i := range p.chunks {
		at += bytes.Index(p.Bytes[at:], want) + len(want)
		p.chunks[i] = at
	}
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = w.Write(b) // a bytes.Buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

func zstded(b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func appendBinHeader(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
}

func putTime(b []byte, t time.Time) {
	binary.BigEndian.PutUint32(b, uint32(t.Unix()))
	binary.BigEndian.PutUint32(b[4:], uint32(t.Nanosecond()))
}

func putDecimal(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = '0' + byte(v%10)
		v /= 10
	}
}

// Chunks is where the chunk ids stand in Bytes, 24 characters each.
func (p *Payload) Chunks() []int { return p.chunks }
