package lines_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

// full is a Lines that holds all there can be.
func full() *bench {
	b := start(lines.Options{Begins: begin, Separate: true})
	b.now = 7
	b.line("A")
	b.line("b")
	b.errLine("E")
	b.chunk("one", 1, "c")
	b.part(frame.Stderr, "two", 1, "F", false)
	b.Add(b.now, &frame.Entry{Source: frame.Other, TimeNano: 8, Line: []byte("o"), Partial: true})
	return b
}

func TestRestart(t *testing.T) {
	b := full()
	b.restart(t)
	b.now = 99
	b.last("one", 2, "D")
	b.part(frame.Stderr, "two", 2, "G", true)
	b.Add(b.now, &frame.Entry{Source: frame.Other, TimeNano: 9, Line: []byte("p")})
	b.line("Z")
	b.Close()
	for _, e := range b.out {
		if want := map[bool]int64{true: 99, false: 7}[e.Message == "Z\n"]; e.Time != want {
			t.Errorf("%q has time %d, want %d", e.Message, e.Time, want)
		}
	}
	b.expect(t, "err:E\n|A\nb\ncD\nop\n|err:FG\n|Z\n")
}

func TestNothingHeld(t *testing.T) {
	b := start(lines.Options{})
	b.line("x")
	state := b.AppendState(nil)
	if len(state) > 4 || b.Held() {
		t.Errorf("%d bytes of state, held %v", len(state), b.Held())
	}
	b.restart(t)
	b.expect(t, "x")
}

// TestDamagedState: an error, and nothing is held.
func TestDamagedState(t *testing.T) {
	good := full().AppendState(nil)
	for n := range good {
		b := start(lines.Options{})
		b.chunk("a", 1, "x")
		if err := b.Restore(good[:n]); err == nil {
			// Records end somewhere; up to there all is well.
			if again := b.AppendState(nil); !bytes.Equal(again, good[:n]) {
				t.Errorf("%d bytes: %x", n, again)
			}
		} else if b.Held() || b.Due() != lines.Never {
			t.Errorf("%d bytes: %v, but something is held", n, err)
		}
	}
	for name, state := range map[string][]byte{
		"empty":         {},
		"version":       append([]byte{9}, good[1:]...),
		"twice":         append(bytes.Clone(good), good[1:]...),
		"kind":          {1, 7, 0, 0, 0, 0, 0, 0},
		"place":         {1, 1, 3, 0, 0, 0, 0, 0},
		"source":        {1, 2, 0, 0, 3, 0, 0, 1, 'x'},
		"absurd length": {1, 1, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127},
	} {
		if err := start(lines.Options{}).Restore(state); err == nil || !strings.HasPrefix(err.Error(), "reading the state of incomplete lines: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRestoreWithOtherOptions: what is held comes out all the same.
func TestRestoreWithOtherOptions(t *testing.T) {
	state := full().AppendState(nil)
	b := start(lines.Options{EventSize: 2})
	if err := b.Restore(state); err != nil {
		t.Fatal(err)
	}
	b.Flush(1)
	b.line("x")
	b.expect(t, "c|A\n|b\n|lost 1/0|x")
	b.Flush(1 + 5*second)
	b.expect(t, "err:E\n")
	b.Close()
	b.expect(t, "err:F|o")
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(nil), uint8(0))
	f.Add(full().AppendState(nil), uint8(1))
	f.Add([]byte{1, 2, 0, 0, 2, 0, 0, 1, 'x'}, uint8(2))
	f.Add([]byte{1, 1, 1, 3, 255, 255, 255, 255, 15, 1, 2, 'i', 'd', 3, 0xff, 'x', 'y'}, uint8(3))
	f.Fuzz(func(t *testing.T, state []byte, how uint8) {
		b := start(options(how))
		if err := b.Restore(state); err != nil {
			if b.Held() {
				t.Fatal("held after an error")
			}
			return
		}
		// What is held survives another time, and comes out.
		again := b.AppendState(nil)
		if err := b.Restore(again); err != nil || !bytes.Equal(b.AppendState(nil), again) {
			t.Fatalf("%v\n%x\n%x", err, again, b.AppendState(nil))
		}
		b.Flush(1)
		b.chunk("id", 9, "more")
		b.errLine("E")
		b.Flush(b.Due())
		b.Close()
		if b.Held() || b.Due() != lines.Never {
			t.Fatal("held after Close")
		}
		for _, e := range b.out {
			if len(e.Message) > len(state)+4 || (e.Message == "") != (e.Lost > 0) {
				t.Fatalf("%+v", e)
			}
		}
	})
}

// options gives one of some.
func options(how uint8) lines.Options {
	o := lines.Options{EventSize: []int{0, 1, 4, 10}[how&3], Separate: how&4 != 0}
	if how&8 != 0 {
		o.Begins = begin
	}
	return o
}

// FuzzFrames feeds any frames. All bytes of their lines come out, in order for each source.
func FuzzFrames(f *testing.F) {
	var block []byte
	for i, s := range []frame.Source{frame.Stdout, frame.Stderr, frame.Other} {
		for j, line := range []string{"A", "", "b\xff\xff", "😃😃😃"} {
			e := frame.Entry{Source: s, TimeNano: int64(j + 1), Line: []byte(line), Partial: (i+j)%2 == 0, HasMeta: j > 1}
			e.Meta = frame.Meta{ID: []byte{byte(i)}, Ordinal: int32(j), Last: j == 3}
			block = frame.Append(block, &e)
		}
	}
	for how := range 16 {
		f.Add(block, uint8(how))
	}
	f.Add(bytes.Repeat(block, 3), uint8(3))
	f.Fuzz(func(t *testing.T, block []byte, how uint8) {
		b := start(options(how))
		var in, out [frame.Sources]string
		for at := 0; ; {
			e, n, s := frame.Next(block, at)
			if s != frame.Whole {
				break
			}
			at += n
			in[e.Source] += string(e.Line)
			b.now = e.TimeNano
			b.Add(e.TimeNano, &e)
			if n%7 == 0 {
				b.Flush(e.TimeNano)
			}
			if n%5 == 0 {
				b.restart(t)
			}
		}
		b.Close()
		for _, e := range b.out {
			if (e.Message == "") != (e.Lost > 0) {
				t.Fatalf("%+v", e)
			}
			out[e.Source] += e.Message
		}
		if b.opts.Begins != nil {
			// Sources may share events, and lines get LFs.
			in[0], out[0] = in[0]+in[1]+in[2], out[0]+out[1]+out[2]
			if len(strings.ReplaceAll(in[0], "\n", "")) != len(strings.ReplaceAll(out[0], "\n", "")) {
				t.Fatalf("%q\n%q", in, out)
			}
			return
		}
		if in != out {
			t.Fatalf("%q\n%q", in, out)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	line := bytes.Repeat([]byte("2026-11-30 "), 10)[:100]
	chunk := frame.Entry{Source: frame.Stdout, TimeNano: 1, Line: make([]byte, 16384), Partial: true, HasMeta: true, Meta: frame.Meta{ID: bytes.Repeat([]byte("x"), 64)}}
	for _, c := range []struct {
		name string
		o    lines.Options
		e    frame.Entry
	}{
		{"plain", lines.Options{}, frame.Entry{Source: frame.Stdout, TimeNano: 1, Line: line}},
		{"multiline", lines.Options{Begins: regexp.MustCompile(`^\d{4}-`)}, frame.Entry{Source: frame.Stdout, TimeNano: 1, Line: line}},
		{"multiline-each-joined", lines.Options{Begins: never{}}, frame.Entry{Source: frame.Stdout, TimeNano: 1, Line: line}},
		{"chunk16k", lines.Options{}, chunk},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := 0
			c.o.Emit = func(e lines.Event) { n += len(e.Message) }
			l := lines.New(c.o)
			b.SetBytes(int64(len(c.e.Line)))
			b.ReportAllocs()
			for b.Loop() {
				l.Add(1, &c.e)
			}
		})
	}
}

// never is a pattern that costs nothing.
type never struct{}

func (never) Match([]byte) bool { return false }
