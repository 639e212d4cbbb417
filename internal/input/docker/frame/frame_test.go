package frame_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/input/docker/frame"
)

const noon = 1_700_000_000_123_456_789

var id = []byte(strings.Repeat("ab12", 16))

// line is a frame as the engine writes it for a line.
func line(text string) []byte {
	return frame.Append(nil, &frame.Entry{Source: frame.Stdout, TimeNano: noon, Line: []byte(text)})
}

// chunk is a frame as the engine writes it for a part of a line.
func chunk(text string, ordinal int32, last bool) []byte {
	return frame.Append(nil, &frame.Entry{
		Source: frame.Stderr, TimeNano: noon, Line: []byte(text),
		Partial: true, HasMeta: true, Meta: frame.Meta{ID: id, Ordinal: ordinal, Last: last},
	})
}

// framed puts a length before a body.
func framed(body []byte) []byte {
	return append([]byte{byte(len(body) >> 24), byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

// fields makes a body: a field for each pair of a number and a value.
func fields(pairs ...any) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		num := protowire.Number(pairs[i].(int))
		switch v := pairs[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
		case uint32:
			b = protowire.AppendFixed32(protowire.AppendTag(b, num, protowire.Fixed32Type), v)
		case uint64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), v)
		}
	}
	return b
}

// TestEngineBytes compares with bytes put together by hand and with sizes that a real engine
// wrote, so that encoder and decoder cannot share a mistake.
func TestEngineBytes(t *testing.T) {
	want, _ := hex.DecodeString("00000019" + "0a06" + hex.EncodeToString([]byte("stdout")) + "10959a97ece39fe7cb17" + "1a05" + hex.EncodeToString([]byte("hello")))
	got := frame.Append(nil, &frame.Entry{Source: frame.Stdout, TimeNano: 1_700_000_000_123_456_789, Line: []byte("hello")})
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	if n := len(chunk(strings.Repeat("x", 16384), 1, false)); n != 4+16478 {
		t.Errorf("a chunk of 16384 bytes makes a frame of %d", n)
	}
}

func TestNext(t *testing.T) {
	whole := func(e frame.Entry) frame.Entry {
		if e.Name == nil {
			e.Name = []byte(e.Source.String())
		}
		if e.TimeNano == 0 {
			e.TimeNano = noon
		}
		return e
	}
	out, hi := frame.Stdout, []byte("hi")
	for name, c := range map[string]struct {
		block []byte
		state frame.State
		n     int // 0: all of the block, or none for garbage
		want  frame.Entry
	}{
		"line":                 {block: line("hi"), want: whole(frame.Entry{Source: out, Line: hi})},
		"blank line":           {block: line(""), want: whole(frame.Entry{Source: out})},
		"chunk":                {block: chunk("hi", 3, true), want: whole(frame.Entry{Source: frame.Stderr, Line: hi, Partial: true, HasMeta: true, Meta: frame.Meta{Last: true, ID: id, Ordinal: 3}})},
		"old engine":           {block: framed(fields(1, "stdout", 2, noon, 3, "hi", 4, 1)), want: whole(frame.Entry{Source: out, Line: hi, Partial: true})},
		"other source":         {block: framed(fields(1, "syslog", 2, noon, 3, "hi")), want: whole(frame.Entry{Name: []byte("syslog"), Line: hi})},
		"any order":            {block: framed(fields(5, fields(3, 2, 2, "id"), 3, "hi", 2, noon, 4, 1, 1, "stdout")), want: whole(frame.Entry{Source: out, Line: hi, Partial: true, HasMeta: true, Meta: frame.Meta{ID: []byte("id"), Ordinal: 2}})},
		"last one wins":        {block: framed(fields(1, "stderr", 1, "stdout", 2, 5, 2, noon, 3, "no", 3, "hi", 4, 1, 4, 0)), want: whole(frame.Entry{Source: out, Line: hi})},
		"metadata adds up":     {block: framed(fields(1, "stdout", 2, noon, 5, fields(2, "id", 3, 1), 5, fields(3, 2))), want: whole(frame.Entry{Source: out, HasMeta: true, Meta: frame.Meta{ID: []byte("id"), Ordinal: 2}})},
		"unknown fields":       {block: framed(fields(7, "x", 1, "stdout", 100, 7, 2, noon, 9, uint32(1), 3, "hi", 10, uint64(1), 5, fields(4, "x", 3, 1))), want: whole(frame.Entry{Source: out, Line: hi, HasMeta: true, Meta: frame.Meta{Ordinal: 1}})},
		"attributes":           {block: framed(fields(1, "stdout", 2, noon, 3, "hi", 6, fields(1, "k", 2, "v"), 6, "")), want: whole(frame.Entry{Source: out, Line: hi})},
		"negative ordinal":     {block: framed(fields(1, "stdout", 2, noon, 5, fields(3, -1))), want: whole(frame.Entry{Source: out, HasMeta: true, Meta: frame.Meta{Ordinal: -1}})},
		"no source":            {block: framed(fields(2, noon)), want: frame.Entry{TimeNano: noon}},
		"more behind it":       {block: append(line("hi"), "rest"...), n: len(line("hi")), want: whole(frame.Entry{Source: out, Line: hi})},
		"largest":              {block: line(strings.Repeat("x", frame.MaxFrame-4-22)), want: whole(frame.Entry{Source: out, Line: bytes.Repeat([]byte("x"), frame.MaxFrame-4-22)})},
		"nothing":              {block: nil, state: frame.More, n: 4},
		"half a length":        {block: []byte{0, 0x10}, state: frame.More, n: 4},
		"half an absurd one":   {block: []byte{0, 0x11}, state: frame.Garbage},
		"length alone":         {block: []byte{0, 0, 1, 0}, state: frame.More, n: 260},
		"cut in the line":      {block: line("hello")[:27], state: frame.More, n: 29},
		"too large":            {block: line(strings.Repeat("x", frame.MaxFrame-4-21))[:100], state: frame.Garbage},
		"absurd length":        {block: []byte("\xff\xff\xff\xff\x0a\x06stdout"), state: frame.Garbage},
		"zeros":                {block: make([]byte, 64), state: frame.Garbage},
		"text":                 {block: []byte("Hello, world"), state: frame.Garbage},
		"no time":              {block: framed(fields(1, "stdout", 3, "hi")), state: frame.Garbage},
		"negative time":        {block: framed(fields(1, "stdout", 2, -5, 3, "hi")), state: frame.Garbage},
		"source as a number":   {block: framed(fields(1, 5, 2, noon)), state: frame.Garbage},
		"more than true":       {block: framed(fields(2, noon, 4, 2)), state: frame.Garbage},
		"more than last":       {block: framed(fields(2, noon, 5, fields(1, 2))), state: frame.Garbage},
		"time as bytes":        {block: framed(fields(1, "stdout", 2, "x")), state: frame.Garbage},
		"metadata broken":      {block: framed(fields(1, "stdout", 2, noon, 5, "\x12\x7fx")), state: frame.Garbage},
		"line too long":        {block: framed([]byte("\x0a\x06stdout\x10\x05\x1a\x7fhi")), state: frame.Garbage},
		"line too long, cut":   {block: framed([]byte("\x0a\x06stdout\x10\x05\x1a\x7fhi"))[:17], state: frame.Garbage},
		"group":                {block: framed(append(fields(2, noon), 0x3b, 0x3c)), state: frame.Garbage},
		"endless varint":       {block: framed(append(fields(1, "stdout"), 0x10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1)), state: frame.Garbage},
		"a long way to say 1":  {block: framed(append(fields(2, noon), 0x8a, 0, 1, 'x')), state: frame.Garbage},
		"field number 0":       {block: framed(append(fields(2, noon), 0, 0)), state: frame.Garbage},
		"one byte more inside": {block: framed(append(fields(1, "stdout", 2, noon), 0x1a)), state: frame.Garbage},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []string{"", "abc"} {
				e, n, s := frame.Next(append([]byte(before), c.block...), len(before))
				want := c.n
				if want == 0 && c.state == frame.Whole {
					want = len(c.block)
				}
				if s != c.state || n != want {
					t.Fatalf("state %v, n %d; want %v, %d", s, n, c.state, want)
				}
				if !bytes.Equal(c.want.Line, e.Line) { // cmp is slow with large ones
					t.Fatalf("line %.100q", e.Line)
				}
				wanted := c.want
				e.Line, wanted.Line = nil, nil
				if d := cmp.Diff(wanted, e); d != "" {
					t.Fatal(d)
				}
			}
		})
	}
}

// TestEachPrefixIsMore: a frame that is not there yet is never taken for garbage.
func TestEachPrefixIsMore(t *testing.T) {
	for _, f := range [][]byte{
		line("hello"), line(""), chunk("hello", 1, true),
		framed(fields(7, "x", 1, "stdout", 1000, 7, 2, noon, 9, uint32(1), 3, "hi", 10, uint64(1), 6, "x", 5, fields(4, "x", 3, 1))),
	} {
		for i := range f {
			want := len(f)
			if i < 4 {
				want = 4
			}
			if e, n, s := frame.Next(f[:i], 0); s != frame.More || n != want || !cmp.Equal(e, frame.Entry{}) {
				t.Errorf("%d of %d bytes: %v, n %d, %+v", i, len(f), s, n, e)
			}
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	block := append(line("hello"), chunk("hello", 1, true)...)
	if n := testing.AllocsPerRun(100, func() {
		for at := 0; at < len(block); {
			_, n, s := frame.Next(block, at)
			if s != frame.Whole {
				t.Fatal(s)
			}
			at += n
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		f    []byte
	}{
		{"line130", line(strings.Repeat("x", 130-4-20))},
		{"chunk16k", chunk(strings.Repeat("x", 16384), 1, false)},
	} {
		b.Run(c.name, func(b *testing.B) {
			block := bytes.Repeat(c.f, 100)
			b.SetBytes(int64(len(c.f)))
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				_, n, s := frame.Next(block, at)
				if s != frame.Whole {
					b.Fatal(s)
				}
				if at += n; at == len(block) {
					at = 0
				}
			}
		})
	}
}

// BenchmarkResync is for a block in which everything may begin a frame and nothing does.
func BenchmarkResync(b *testing.B) {
	for _, c := range []struct {
		name  string
		block []byte
	}{
		{"zeros", make([]byte, 256<<10)},
		{"text", bytes.Repeat([]byte("Hello, "), 256<<10/7)},
		{"hostile", bytes.Repeat([]byte("\x00\x0f\x00\x00\x38\x00\x38\x00"), 256<<10/8)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.block)))
			for b.Loop() {
				frame.Resync(c.block)
			}
		})
	}
}

func ExampleNext() {
	block := append(line("first"), line("second")[:20]...)
	for at := 0; ; {
		e, n, s := frame.Next(block, at)
		if s != frame.Whole {
			fmt.Println(s)
			break
		}
		fmt.Printf("%s\n", e.Line)
		at += n
	}
	// Output:
	// first
	// more
}
