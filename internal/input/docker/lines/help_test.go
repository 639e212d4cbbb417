package lines_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

// second is in the unit of all times here.
const second = 1_000_000_000

// got is an event whose message outlives Emit.
type got struct {
	Source  frame.Source
	Time    int64
	Message string
	Lost    uint64
	Bytes   uint64
}

// bench is a Lines under test and what came out of it.
type bench struct {
	*lines.Lines
	out  []got
	opts lines.Options
	now  int64
}

func start(o lines.Options) *bench {
	b := &bench{opts: o}
	b.opts.Emit = func(e lines.Event) {
		b.out = append(b.out, got{e.Source, e.TimeNano, string(e.Message), e.Lost, e.LostBytes})
	}
	b.Lines = lines.New(b.opts)
	return b
}

// line adds a line of stdout that has come at b.now.
func (b *bench) line(text string) {
	b.Add(b.now, &frame.Entry{Source: frame.Stdout, TimeNano: b.now, Line: []byte(text)})
}

func (b *bench) errLine(text string) {
	b.Add(b.now, &frame.Entry{Source: frame.Stderr, TimeNano: b.now, Line: []byte(text)})
}

// chunk adds a part of a line of stdout.
func (b *bench) chunk(id string, ordinal int32, text string) {
	b.part(frame.Stdout, id, ordinal, text, false)
}

func (b *bench) last(id string, ordinal int32, text string) {
	b.part(frame.Stdout, id, ordinal, text, true)
}

func (b *bench) part(s frame.Source, id string, ordinal int32, text string, last bool) {
	b.Add(b.now, &frame.Entry{
		Source: s, TimeNano: b.now, Line: []byte(text), Partial: true,
		HasMeta: true, Meta: frame.Meta{ID: []byte(id), Ordinal: ordinal, Last: last},
	})
}

// restart kills the Lines and goes on with another one.
func (b *bench) restart(t testing.TB) {
	t.Helper()
	state := b.AppendState([]byte("before"))[len("before"):]
	held := b.Held()
	b.Lines = lines.New(b.opts)
	if err := b.Restore(state); err != nil {
		t.Fatal(err)
	}
	clear(state)
	if b.Held() != held {
		t.Fatalf("held %v before, %v after", held, b.Held())
	}
}

// take gives what came out since the last time, as text. Long messages are shortened.
func (b *bench) take() string {
	var s []string
	for _, e := range b.out {
		if e.Lost > 0 {
			s = append(s, fmt.Sprintf("lost %d/%d", e.Lost, e.Bytes))
			continue
		}
		m := e.Message
		if len(m) > 60 {
			m = fmt.Sprintf("%s… %d", m[:5], len(m))
		}
		if e.Source == frame.Stderr {
			m = "err:" + m
		}
		s = append(s, m)
	}
	b.out = nil
	return strings.Join(s, "|")
}

func (b *bench) expect(t testing.TB, want string) {
	t.Helper()
	if g := b.take(); g != want {
		t.Errorf("got  %q\nwant %q", g, want)
	}
}

// feed adds a line in the way of the engine.
func feed(b *bench, s frame.Source, line string, size int, meta bool) {
	for _, e := range cutLines(s, b.now, []string{line}, size, meta, false) {
		b.Add(b.now, &e)
	}
}

// cutLines writes lines in the way of the engine: what is not shorter than a chunk in several
// frames, with metadata or, as old engines, without. With open the last line lacks its LF.
func cutLines(s frame.Source, time int64, all []string, size int, meta, open bool) (out []frame.Entry) {
	for i, line := range all {
		end := !open || i < len(all)-1
		e := frame.Entry{Source: s, TimeNano: time}
		if len(line) >= size {
			e.Partial, e.HasMeta = true, meta
			if meta {
				e.Meta.ID = fmt.Appendf(nil, "%v %d", s, i)
			}
			for ; len(line) >= size; line = line[size:] {
				e.Meta.Ordinal++
				e.Line = []byte(line[:size])
				out = append(out, e)
			}
			e.Meta.Ordinal++
			e.Meta.Last, e.Partial = end, meta
		}
		if line != "" || end {
			e.Line = []byte(line)
			out = append(out, e)
		}
	}
	return out
}
