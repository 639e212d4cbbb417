package fluentbuffer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/event"
)

// Bounds of what is kept in memory.
const (
	MaxBatch  = 512 << 10 // bytes of entries of a batch that is not one large event
	maxRecord = 64 << 20  // bytes of one event; Fluentd's chunk_limit_size keeps them below
	maxTag    = 65535     // what weir's buffer takes
	maxWindow = 64 << 20  // of a zstd frame
	firstRead = 64 << 10
)

var (
	// ErrText: the chunk holds text that an output has already formatted, as the chunks of
	// s3 and file do. There are no events in it that could be routed or formatted again.
	ErrText = errors.New("the chunk holds text that is formatted already, not events")
	// ErrZeros: what a power cut leaves of a file that was never synced.
	ErrZeros = errors.New("zero bytes where an event should begin")
	// ErrEvent: a value that is neither [time, record] nor [tag, time, record].
	ErrEvent = errors.New("not an event")
)

// Result says what a chunk held.
type Result struct {
	Events uint64 // handed out
	Bad    uint64 // whole values that are no events, skipped
	// Rest tells why the end of the chunk could not be read; nil if all of it was.
	Rest error
}

// Whole says that everything of the chunk was handed out.
func (r *Result) Whole() bool { return r.Bad == 0 && r.Rest == nil }

// Read hands out the events of a chunk; see Decode.
func (c *Chunk) Read(emit func(b event.Batch) error) (Result, error) {
	f, err := os.Open(c.Path)
	if err != nil {
		return Result{}, fmt.Errorf("read a chunk of Fluentd: %w", err)
	}
	defer f.Close()
	return Decode(f, c.Tag, emit)
}

// Decode reads a chunk's data, plain or as gzip members or zstd frames one behind the
// other, and hands out its events in order, in batches of about MaxBatch bytes of one tag,
// borrowed for the call. Events without a tag of their own get tag. The same data give the
// same batches.
//
// The error is emit's, or ErrText with nothing handed out. That the data end in the middle of an
// event or are damaged is no error but in the Result, behind what could be read.
func Decode(r io.Reader, tag string, emit func(b event.Batch) error) (Result, error) {
	in := bufio.NewReaderSize(r, firstRead)
	magic, err := in.Peek(4)
	if len(magic) == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = ErrEmpty
		}
		return Result{Rest: err}, nil
	}
	d := decoder{tag: tag, emit: emit, in: in}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(in)
		if err != nil {
			return Result{Rest: err}, nil
		}
		d.in = z
	case string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return Result{Rest: err}, nil
		}
		defer z.Close()
		d.in = z
	}
	err = d.run()
	return d.result, err
}

type decoder struct {
	in     io.Reader
	tag    string
	emit   func(b event.Batch) error
	buf    []byte // window over the data; grows with what has really come
	batch  event.Batch
	result Result
	begun  bool // something was an array: it is no text
}

func (d *decoder) run() error {
	d.buf = make([]byte, 0, firstRead)
	for {
		n, readErr := d.in.Read(d.buf[len(d.buf):cap(d.buf)])
		d.buf = d.buf[:len(d.buf)+n]
		// A value that is cut is only tried again with twice as much: the work stays linear.
		if len(d.buf) < cap(d.buf) && readErr == nil {
			continue
		}
		used, err := d.values()
		if err != nil {
			return err
		}
		left := copy(d.buf, d.buf[used:])
		d.buf = d.buf[:left]
		if readErr != nil || d.result.Rest != nil {
			return d.end(readErr)
		}
		if left > cap(d.buf)/2 {
			if left > maxRecord {
				d.result.Rest = fmt.Errorf("an event of more than %d bytes", maxRecord)
				return d.end(nil)
			}
			d.buf = append(make([]byte, 0, 2*cap(d.buf)), d.buf...)
		}
	}
}

// end hands out the last batch and notes why the rest, if any, is not read.
func (d *decoder) end(readErr error) error {
	switch {
	case d.result.Rest != nil:
	case readErr != nil && !errors.Is(readErr, io.EOF):
		d.result.Rest = fmt.Errorf("read compressed data: %w", readErr)
	case len(d.buf) > 0:
		d.result.Rest = event.ErrShort
	}
	return d.flush()
}

// values takes the whole values at the begin of the window; used is their size.
func (d *decoder) values() (used int, err error) {
	for used < len(d.buf) && d.result.Rest == nil {
		if d.buf[used] == 0 {
			d.result.Rest = ErrZeros
			break
		}
		if n, _, err := event.ArrayHeader(d.buf, used); err == nil && (n == 2 || n == 3) {
			d.begun = true
		} else if !d.begun && !errors.Is(err, event.ErrShort) {
			return used, ErrText
		}
		next, err := event.Skip(d.buf, used)
		if errors.Is(err, event.ErrShort) {
			break
		}
		if err != nil {
			d.result.Rest = err
			break
		}
		if err := d.value(d.buf[used:next]); err != nil {
			return used, err
		}
		used = next
	}
	return used, nil
}

// value takes one whole msgpack value.
func (d *decoder) value(v []byte) error {
	n, at, err := event.ArrayHeader(v, 0)
	if err != nil || n != 2 && n != 3 {
		d.result.Bad++
		return nil
	}
	own := []byte(nil)
	if n == 3 {
		if own, at, err = event.Bytes(v, at); err != nil || len(own) > maxTag {
			d.result.Bad++
			return nil
		}
	}
	b := &d.batch
	other := n == 3 && string(own) != b.Tag || n == 2 && d.tag != b.Tag
	if b.Count > 0 && (other || len(b.Entries)+len(v) > MaxBatch) {
		if err := d.flush(); err != nil {
			return err
		}
	}
	before := len(b.Entries)
	b.Entries = append(event.AppendArrayHeader(b.Entries, 2), v[at:]...)
	count, first, end, _, err := event.Check(b.Entries[before:])
	if err != nil || count != 1 {
		b.Entries = b.Entries[:before]
		d.result.Bad++
		return nil
	}
	if b.Count == 0 {
		b.First, b.Last = first, end
		if b.Tag = d.tag; n == 3 {
			b.Tag = string(own)
		}
	}
	b.First, b.Last = min(b.First, first), max(b.Last, end)
	b.Count++
	return nil
}

func (d *decoder) flush() error {
	b := &d.batch
	if b.Count == 0 {
		return nil
	}
	if err := d.emit(*b); err != nil {
		return err
	}
	d.result.Events += uint64(b.Count)
	*b = event.Batch{Entries: b.Entries[:0]}
	return nil
}
