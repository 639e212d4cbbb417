// Package stdin is the input that reads lines from standard input.
package stdin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/input"
	"weir/internal/parser"
)

// Params are the parameters of `<source> @type stdin`. Fluentd has no such input.
type Params struct {
	config.Plugin
	Tag   string              `conf:"tag" default:"stdin" doc:"tag of all events"`
	Parse *fluentconf.Section `section:"parse" doc:"how lines become records; @type none if not set"`
}

// Sizes.
const (
	blockSize  = 256 << 10 // of a read
	batchBytes = 512 << 10 // a batch is closed at this size
	// MaxLine is the longest line in bytes. A longer one becomes several events of this
	// size, one after the other.
	MaxLine = 1 << 20
)

// How long things may take when weir stops.
const (
	readGrace = time.Second           // reading goes on for what is in the pipe already
	idle      = 50 * time.Millisecond // nothing for so long: the pipe is empty
	emitGrace = 10 * time.Second      // then a full buffer has its way
)

// Options are what an Input needs besides its parameters.
type Options struct {
	Log *slog.Logger // required
	// Reader is what is read instead of os.Stdin. To be interrupted by the end of Run's
	// context it needs SetReadDeadline or Close, or be an *os.File; otherwise Run returns
	// with its next bytes.
	Reader io.Reader
}

// Input reads lines until the end of the file, or until its context ends. It may be run
// once.
type Input struct {
	log   *slog.Logger
	tag   string
	r     io.Reader
	parse parser.Parser
	plain parser.Parser // for lines that parse cannot read
	json  bool

	rest    []byte // of a line
	entries []byte
	records parser.Records
	count   int
	first   event.Time
	last    event.Time
	receipt input.Receipt
	bad     int // lines that could not be parsed
	warned  time.Time
}

var _ input.Input = (*Input)(nil)

// New makes an Input. The error names every mistake in p.
func New(p Params, o Options) (*Input, error) {
	var d config.Diagnostics
	in := &Input{log: o.Log, tag: p.Tag, r: o.Reader}
	in.parse = p.Check(&d)
	if len(d.Errors) > 0 {
		errs := make([]error, len(d.Errors))
		for i, e := range d.Errors {
			errs[i] = e
		}
		return nil, errors.Join(errs...)
	}
	in.plain = parser.NewNone(parser.NoneParams{MessageKey: "message"})
	in.json = p.Parse != nil && p.Parse.Get("@type") != nil && p.Parse.Get("@type").Value.Text == "json"
	if in.tag == "" {
		in.tag = "stdin"
	}
	if in.r == nil {
		in.r = os.Stdin
	}
	return in, nil
}

// Check notes what is wrong with the parameters as a whole, and returns the parser of
// lines, nil if there is a mistake.
func (p *Params) Check(d *config.Diagnostics) parser.Parser {
	return parser.New(p.Parse, "none", parser.Env{Location: time.Local, Now: time.Now}, d)
}

// Open does nothing: standard input is open.
func (in *Input) Open() error { return nil }

// Run reads until the end; see input.Input. The end of the file is an orderly end too.
//
// A buffer that refuses events is tried again until it takes them: meanwhile nothing is
// read, so that the writer of the pipe keeps its data.
func (in *Input) Run(ctx context.Context, e input.Emitter) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var limiter sync.WaitGroup
	limiter.Go(func() { limit(ctx, work, cancel) })
	defer limiter.Wait()
	defer cancel()
	src, err := newSource(ctx, in.r)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	defer src.close()
	block := make([]byte, blockSize)
	for {
		n, err := src.read(block)
		if n > 0 {
			in.lines(work, e, block[:n])
			in.flush(work, e)
		}
		if err != nil {
			if len(in.rest) > 0 {
				in.line(work, e, in.rest)
				in.flush(work, e)
			}
			if !errors.Is(err, io.EOF) && !errors.Is(err, errStopped) {
				return fmt.Errorf("read standard input: %w", err)
			}
			// Nobody waits for an answer, but whoever waits for Run may exit then. Places
			// are passed in order, so the last receipt covers all.
			_ = in.receipt.Wait(work)
			return nil
		}
	}
}

// limit ends work some time after ctx.
func limit(ctx, work context.Context, cancel context.CancelFunc) {
	select {
	case <-ctx.Done():
	case <-work.Done():
		return
	}
	t := time.NewTimer(readGrace + emitGrace)
	defer t.Stop()
	select {
	case <-t.C:
		cancel()
	case <-work.Done():
	}
}

// lines cuts b into lines.
func (in *Input) lines(work context.Context, e input.Emitter, b []byte) {
	for {
		i := bytes.IndexByte(b, '\n')
		switch {
		case i >= 0 && len(in.rest)+i <= MaxLine:
			line := b[:i]
			if len(in.rest) > 0 {
				in.rest = append(in.rest, line...)
				line = in.rest
			}
			in.line(work, e, line)
			in.rest = in.rest[:0]
			b = b[i+1:]
		case i < 0 && len(in.rest)+len(b) <= MaxLine:
			in.rest = append(in.rest, b...)
			return
		default: // longer than allowed, with or without its end in sight
			n := MaxLine - len(in.rest)
			in.rest = append(in.rest, b[:n]...)
			in.line(work, e, in.rest)
			in.rest = in.rest[:0]
			b = b[n:]
		}
	}
}

// line adds the events of a line to the batch. One that cannot be parsed, or not as a whole,
// is an event as it is.
func (in *Input) line(work context.Context, e input.Emitter, line []byte) {
	if in.json && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	in.records.Reset()
	err := in.parse.Parse(&in.records, line)
	for i := range in.records.Found {
		if f := &in.records.Found[i]; f.Err == nil {
			in.add(work, e, f)
		} else if err == nil {
			err = f.Err
		}
	}
	if err != nil {
		in.complain(err)
		in.records.Reset()
		if err := in.plain.Parse(&in.records, line); err == nil { // it takes anything
			in.add(work, e, &in.records.Found[0])
		}
	}
	in.records.Shrink(MaxLine)
}

// add adds one event to the batch.
func (in *Input) add(work context.Context, e input.Emitter, f *parser.Found) {
	t := f.Time
	if !f.HasTime {
		t = event.FromTime(time.Now())
	}
	if in.count == 0 || t < in.first {
		in.first = t
	}
	if in.count == 0 || t > in.last {
		in.last = t
	}
	in.count++
	in.entries = event.AppendEntry(in.entries, t, in.records.Record(f))
	if len(in.entries) >= batchBytes {
		in.flush(work, e)
	}
}

// complain says that lines cannot be parsed, at most once a minute.
func (in *Input) complain(err error) {
	in.bad++
	if now := time.Now(); now.Sub(in.warned) >= time.Minute {
		in.log.Warn("stdin: lines cannot be parsed and go on as they are, in the field message",
			slog.Int("lines", in.bad), slog.Any("reason", err))
		in.bad, in.warned = 0, now
	}
}

// flush emits the batch.
func (in *Input) flush(work context.Context, e input.Emitter) {
	if in.count == 0 {
		return
	}
	b := event.Batch{Tag: in.tag, Entries: in.entries, Count: in.count, First: in.first, Last: in.last}
	in.emit(work, e, b)
	in.count = 0
	if in.entries = in.entries[:0]; cap(in.entries) > 4*batchBytes {
		in.entries = nil
	}
}

func (in *Input) emit(work context.Context, e input.Emitter, b event.Batch) {
	pause := 20 * time.Millisecond
	for refused := false; ; {
		r, err := e.Emit(work, b)
		if err == nil {
			in.receipt = r
			if refused {
				in.log.Info("stdin: the buffer has room again")
			}
			return
		}
		if !errors.Is(err, input.ErrRefused) {
			in.log.Error("stdin: events are lost", slog.Int("events", b.Count), slog.Any("reason", err))
			e.Lost(b)
			return
		}
		if !refused {
			refused = true
			in.log.Warn("stdin: nothing is read until the buffer has room", slog.Any("reason", err))
		}
		select {
		case <-work.Done():
			e.Lost(b)
			return
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}
