// Package stdout writes events to the standard output, one line each.
package stdout

import (
	"context"
	"fmt"
	"io"
	"sync"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// full is the size in bytes at which a request takes no more.
const full = 1 << 20

// Formatter turns an event into bytes, a newline included. A Formatter may be used from
// any goroutine and copies what it needs.
type Formatter interface {
	Append(dst []byte, tag string, t event.Time, record []byte) []byte
}

// Options configures an Output. Both fields are required.
type Options struct {
	Writer    io.Writer // the output writes to it from one goroutine at a time and never closes it
	Formatter Formatter // the <format> section; Fluentd's default here is stdout
}

// Output is the stdout output. There is one lane, so that events of several tags are in the
// order in which they were accepted.
type Output struct {
	format Formatter

	mu sync.Mutex // guards w, so that lines stay whole
	w  io.Writer
}

var _ output.Output = (*Output)(nil)

// New makes an Output.
func New(o Options) *Output { return &Output{format: o.Formatter, w: o.Writer} }

// Scope is empty: nothing throttles.
func (o *Output) Scope() string { return "" }

// Close does nothing; the writer is not ours.
func (o *Output) Close() error { return nil }

// UsesTags implements output.Tagged.
func (o *Output) UsesTags() bool { return true }

// Splitter returns a Splitter with one lane.
func (o *Output) Splitter() output.Splitter { return splitter{} }

type splitter struct{}

var lane = []byte("stdout")

// Split makes one run of the whole batch.
func (splitter) Split(b event.Batch, add func(lane []byte, r output.Run)) {
	add(lane, output.Run{Len: len(b.Entries), Count: b.Count})
}

// Request returns a new, empty Request.
func (o *Output) Request() output.Request { return &request{o: o} }

type request struct {
	o     *Output
	tag   string
	buf   []byte
	sent  int // bytes of buf that the writer has taken
	count int // entries taken
	ended []output.Ended
}

// Reset starts a request.
func (r *request) Reset(string) {
	r.tag, r.buf, r.sent, r.count, r.ended = "", r.buf[:0], 0, 0, r.ended[:0]
}

// SetTag implements output.TagTaker.
func (r *request) SetTag(tag string) { r.tag = tag }

// Add formats entries until the request has about a mebibyte.
func (r *request) Add(b []byte, limit int) (entries, size int, isFull bool) {
	for size < len(b) && entries < limit {
		if len(r.buf) >= full {
			return entries, size, true
		}
		e, n, err := event.Next(b[size:])
		if err != nil { // cannot happen to checked entries; never stands in the way of what follows
			r.ended = append(r.ended, output.Ended{First: r.count, Count: limit - entries, Fate: ledger.Invalid.Fate()})
			r.count += limit - entries
			return limit, len(b), true
		}
		from := len(r.buf)
		r.buf = oneLine(r.o.format.Append(r.buf, r.tag, e.Time, e.Record), from)
		r.count++
		entries++
		size += n
	}
	return entries, size, len(r.buf) >= full
}

// oneLine makes what a formatter wrote behind b[:from] end with one newline, whatever its
// add_newline says: as in Fluentd, lines are for people here.
func oneLine(b []byte, from int) []byte {
	if n := len(b) - 1; n >= from && b[n] == '\n' {
		if n > from && b[n-1] == '\r' {
			b[n-1], b = '\n', b[:n]
		}
		return b
	}
	return append(b, '\n')
}

// Fill says how full the request is.
func (r *request) Fill() float64 { return min(1, float64(len(r.buf))/full) }

// Send writes what has not been written yet. Bytes that a failed write took are not
// written again, so that a reader sees no line twice.
func (r *request) Send(ctx context.Context) output.Result {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return failed(r.count, err)
	}
	for r.sent < len(r.buf) {
		n, err := r.o.w.Write(r.buf[r.sent:])
		r.sent += max(n, 0)
		if err != nil {
			return failed(r.count, err)
		}
		if n <= 0 {
			return failed(r.count, io.ErrShortWrite)
		}
	}
	return output.Result{Ended: r.ended, Bytes: len(r.buf)}
}

func failed(n int, err error) output.Result {
	return output.Result{Err: &output.Error{
		Kind: output.Unavailable,
		Op:   fmt.Sprintf("write %d events to the standard output", n),
		Hint: "see what reads the standard output of weir",
		Err:  err,
	}}
}
