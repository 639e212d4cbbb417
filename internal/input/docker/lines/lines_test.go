package lines_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

// TestSize and TestCut are the table of awslogs.
func TestSize(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "Hello": 5, "\x00\x01\x1b\x7f": 4, "😃": 4, "\xff\xff\xff\xff": 12, "He\xff\xffo": 9, "\xf0\x9f": 6, "�": 3, "é": 2,
	} {
		if got := lines.Size([]byte(s)); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s           string
		limit, want int
	}{
		{"Hello", 6, 5}, {"Hello", 5, 5}, {"Hello", 2, 2}, {"Hello", 0, 0}, {"", 0, 0},
		{"😃", 3, 0}, {"😃", 4, 4}, {"a😃", 4, 1}, {"a\xff", 2, 1}, {"a\xff", 3, 1}, {"a\xff", 4, 2}, {"\xf0\x9f", 5, 1},
	} {
		if got := lines.Cut([]byte(c.s), c.limit); got != c.want {
			t.Errorf("%q, %d: %d, want %d", c.s, c.limit, got, c.want)
		}
	}
}

func TestPlain(t *testing.T) {
	b := start(lines.Options{})
	b.line("one")
	b.line("")
	b.line("tty\r")
	b.errLine("two")
	b.line("\r")
	b.expect(t, "one|tty\r|err:two|\r")
	if b.Held() || b.Due() != lines.Never {
		t.Error("something is held")
	}
	b.now = 5
	b.line("x")
	if b.out[0].Time != 5 {
		t.Errorf("time %d", b.out[0].Time)
	}
}

// TestSplit is the table of awslogs, for lines that come in one frame and in chunks.
func TestSplit(t *testing.T) {
	const most = lines.DefaultEventSize
	x, emoji := strings.Repeat("x", most), "😃"
	for name, c := range map[string]struct {
		line string
		want []int
	}{
		"limit":           {x, []int{most}},
		"limit and 1":     {x + "B", []int{most, 1}},
		"262145":          {strings.Repeat("x", 262_145), []int{262_118, 27}},
		"three":           {x + x + "B", []int{most, most, 1}},
		"not UTF-8":       {strings.Repeat("\xff", most/3) + "\xfd", []int{most / 3, 1}},
		"not UTF-8, less": {strings.Repeat("\xff", most/3), []int{most / 3}},
		"emoji":           {strings.Repeat(emoji, most/4+1), []int{most / 4 * 4, 4}},
		"odd emoji":       {"x" + strings.Repeat(emoji, most/4), []int{1 + most/4*4, 0}[:1]},
		"odd emojis":      {"xxx" + strings.Repeat(emoji, most/4), []int{3 + (most/4-1)*4, 4}},
		"cut rune at end": {x[:most-1] + "\xf0\x9f", []int{most - 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 30, 16384, 5000, 1001} {
				for _, pattern := range []lines.Matcher{nil, regexp.MustCompile("never")} {
					b := start(lines.Options{Begins: pattern})
					b.now = 7
					feed(b, frame.Stdout, c.line, size, true)
					b.Close()
					var all string
					for i, e := range b.out {
						m := strings.TrimSuffix(e.Message, "\n")
						if i >= len(c.want) || len(m) != c.want[i] || e.Time != 7 || lines.Size([]byte(e.Message)) > most {
							t.Fatalf("chunks of %d, event %d of %d: %d bytes, time %d", size, i, len(b.out), len(m), e.Time)
						}
						all += m
					}
					if all != c.line || len(b.out) != len(c.want) {
						t.Fatalf("chunks of %d: %d events of %d bytes", size, len(b.out), len(all))
					}
				}
			}
		})
	}
}

func TestChunks(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(b *bench)
		want string
	}{
		"three":                        {func(b *bench) { b.chunk("a", 1, "x"); b.chunk("a", 2, "y"); b.last("a", 3, "z") }, "xyz"},
		"multiple of the chunk's size": {func(b *bench) { b.chunk("a", 1, "x"); b.last("a", 2, "") }, "x"},
		"nothing but the end":          {func(b *bench) { b.last("a", 1, "") }, ""},
		"end of stream":                {func(b *bench) { b.chunk("a", 1, "x"); b.chunk("a", 2, "y"); b.Close() }, "xy"},
		"both ends of stream": {func(b *bench) {
			b.now = 2
			b.chunk("a", 1, "x")
			b.now = 1
			b.part(frame.Stderr, "b", 1, "y", false)
			b.Close()
		}, "err:y|x"},
		"interleaved": {func(b *bench) {
			b.chunk("a", 1, "x")
			b.part(frame.Stderr, "b", 1, "1", false)
			b.errLine("no")
			b.chunk("a", 2, "y")
			b.last("a", 3, "z")
		}, "err:1|lost 1/0|err:no|xyz"},
		"both long": {func(b *bench) {
			b.chunk("a", 1, "x")
			b.part(frame.Stderr, "b", 1, "1", false)
			b.chunk("a", 2, "y")
			b.part(frame.Stderr, "b", 2, "2", true)
			b.last("a", 3, "z")
		}, "err:12|xyz"},
		"lines meanwhile":   {func(b *bench) { b.chunk("a", 1, "x"); b.errLine("e"); b.last("a", 2, "y") }, "err:e|xy"},
		"one missing":       {func(b *bench) { b.chunk("a", 1, "xx"); b.chunk("a", 3, "zz"); b.last("a", 4, "!") }, "xx|lost 1/2|zz!"},
		"two missing":       {func(b *bench) { b.chunk("a", 1, "xx"); b.chunk("a", 4, "zz"); b.last("a", 5, "!") }, "xx|lost 1/4|zz!"},
		"missing in places": {func(b *bench) { b.chunk("a", 1, "xx"); b.chunk("a", 3, "zz"); b.last("a", 5, "!") }, "xx|lost 1/2|zz|lost 1/16384|!"},
		"head missing":      {func(b *bench) { b.chunk("a", 2, "yy"); b.last("a", 3, "z") }, "lost 1/2|yyz"},
		"all but the end":   {func(b *bench) { b.last("a", 3, "z") }, "lost 1/32768|z"},
		"all but LF":        {func(b *bench) { b.last("a", 3, "") }, "lost 1/32768"},
		"end missing":       {func(b *bench) { b.chunk("a", 1, "x"); b.line("next") }, "x|lost 1/0|next"},
		"end missing, line": {func(b *bench) { b.chunk("a", 1, "x"); b.chunk("b", 1, "y"); b.last("b", 2, "z") }, "x|lost 1/0|yz"},
		"end and head":      {func(b *bench) { b.chunk("a", 1, "x"); b.last("b", 2, "z") }, "x|lost 1/0|lost 1/16384|z"},
		"no ordinals":       {func(b *bench) { b.chunk("a", 0, "x"); b.chunk("a", 0, "y"); b.last("a", 7, "z") }, "xyz"},
		"ordinal again":     {func(b *bench) { b.chunk("a", 1, "x"); b.chunk("a", 1, "y"); b.last("a", 2, "z") }, "xyz"},
		"absurd ordinal":    {func(b *bench) { b.chunk("a", 1, "x"); b.last("a", 1<<31-1, "z") }, fmt.Sprintf("x|lost 1/%d|z", 16384<<16)},
		"negative ordinal":  {func(b *bench) { b.chunk("a", 1, "x"); b.chunk("a", -5, "y"); b.last("a", 3, "z") }, "xyz"},
		"metadata and none": {func(b *bench) {
			b.chunk("", 1, "x")
			b.Add(0, &frame.Entry{Source: frame.Stdout, Line: []byte("y"), Partial: true})
			b.line("z")
		}, "x|lost 1/0|yz"},
		"old engine": {func(b *bench) {
			feed(b, frame.Stdout, "xxyyz", 2, false)
			feed(b, frame.Stdout, "xx", 2, false)
			b.line("next")
		}, "xxyyz|xx|next"},
		"old engine, both": {func(b *bench) {
			b.Add(0, &frame.Entry{Source: frame.Stdout, Line: []byte("xx"), Partial: true})
			b.Add(0, &frame.Entry{Source: frame.Stdout, Line: []byte("yy"), Partial: true})
			b.errLine("e")
			b.line("z")
		}, "err:e|xxyyz"},
		"rune cut by the chunks": {func(b *bench) { b.chunk("a", 1, "x\xf0\x9f"); b.last("a", 2, "\x98\x83") }, "x😃"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(lines.Options{})
			c.do(b)
			b.expect(t, c.want)
			if b.Close(); len(b.out) > 0 || b.Held() {
				t.Errorf("left: %v", b.out)
			}
		})
	}
}

// TestLossHasItsTime: a notice says from when to when.
func TestLossHasItsTime(t *testing.T) {
	b := start(lines.Options{})
	b.now = 3
	b.chunk("a", 1, "x")
	b.now = 9
	b.line("next")
	if e := b.out[1]; e.Lost != 1 || e.Time != 3 || e.Message != "" {
		t.Errorf("%+v", e)
	}
}

// TestChunksAreGivenOutInTime: a line whose end does not come is not held for ever.
func TestChunksAreGivenOutInTime(t *testing.T) {
	b := start(lines.Options{ChunksAfter: 60 * second})
	b.now = second
	b.chunk("a", 1, "x")
	if b.Due() != 61*second {
		t.Errorf("due %d", b.Due())
	}
	b.Flush(61*second - 1)
	b.expect(t, "")
	b.Flush(61 * second)
	b.expect(t, "x")
	if !b.Held() || b.Due() != lines.Never {
		t.Errorf("held %v, due %d", b.Held(), b.Due())
	}
	b.restart(t)
	b.chunk("a", 2, "y")
	b.last("a", 3, "z")
	b.expect(t, "yz")
	b.chunk("a", 1, "x")
	b.Flush(-second) // the clock stepped back
	b.expect(t, "x")
	b.last("a", 2, "")
	b.expect(t, "")
}

// TestMemoryIsBounded has a line that never ends.
func TestMemoryIsBounded(t *testing.T) {
	for _, pattern := range []lines.Matcher{nil, regexp.MustCompile("^BEGIN")} {
		b := start(lines.Options{EventSize: 1000, Begins: pattern})
		total := 0
		for i := range 10_000 {
			b.chunk("a", int32(i+1), strings.Repeat("\xffé", 33))
			b.part(frame.Stderr, "b", int32(i+1), "y", false)
			for _, e := range b.out {
				total += len(e.Message)
			}
			b.out = nil
			if n := len(b.AppendState(nil)); n > 3*1000+500 {
				t.Fatalf("%d bytes are held", n)
			}
		}
		if total < 990_000 {
			t.Errorf("%d bytes came out", total)
		}
	}
}

func TestIDIsBounded(t *testing.T) {
	b := start(lines.Options{})
	long := strings.Repeat("i", 100_000)
	b.chunk(long, 1, "x")
	if n := len(b.AppendState(nil)); n > 300 {
		t.Errorf("%d bytes of state", n)
	}
	b.restart(t)
	b.last(long, 2, "y")
	b.expect(t, "xy")
}

func TestPlainAllocatesNothing(t *testing.T) {
	l := lines.New(lines.Options{Emit: func(lines.Event) {}})
	e := frame.Entry{Source: frame.Stdout, TimeNano: 1, Line: []byte("hello")}
	if n := testing.AllocsPerRun(100, func() { l.Add(1, &e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	chunk := frame.Entry{Source: frame.Stderr, TimeNano: 1, Line: make([]byte, 16384), Partial: true, HasMeta: true, Meta: frame.Meta{ID: []byte("id"), Ordinal: 1}}
	last := chunk
	last.Meta.Ordinal, last.Meta.Last = 2, true
	if n := testing.AllocsPerRun(100, func() { l.Add(1, &chunk); l.Add(1, &last) }); n != 0 {
		t.Errorf("%v allocations for chunks", n)
	}
}

func TestAppendUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", "é😃": "é😃", "a\xffb": "a\ufffdb", "\xf0\x9f\x98": "\ufffd\ufffd\ufffd", "\xed\xa0\x80x": "\ufffd\ufffd\ufffdx",
	} {
		got := string(lines.AppendUTF8([]byte("-"), []byte(in)))
		if got != "-"+want {
			t.Errorf("%q: %q, want %q", in, got, "-"+want)
		}
		if len(got)-1 != lines.Size([]byte(in)) {
			t.Errorf("%q: Size says %d, it has %d", in, lines.Size([]byte(in)), len(got)-1)
		}
	}
}
