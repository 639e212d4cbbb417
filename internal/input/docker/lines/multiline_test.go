package lines_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

var begin = regexp.MustCompile(`^[A-Z]`)

func TestMultiline(t *testing.T) {
	const most = lines.DefaultEventSize
	x := strings.Repeat("x", most)
	for name, c := range map[string]struct {
		do   func(b *bench)
		want string // with \n; "…" closes
	}{
		"awslogs: unmatched, then a match": {func(b *bench) { b.line("l1"); b.line("l2"); b.line("Match") }, "l1\nl2\n|Match\n"},
		"lines of an event":                {func(b *bench) { b.line("A"); b.line(" b"); b.line(" c"); b.line("D") }, "A\n b\n c\n|D\n"},
		"blank lines":                      {func(b *bench) { b.line("A"); b.line(""); b.line("c"); b.line(""); b.line("D") }, "A\n\nc\n\n|D\n"},
		"blank lines first":                {func(b *bench) { b.line(""); b.line(""); b.line("D") }, "\n\n|D\n"},
		"CR stays":                         {func(b *bench) { b.line("A\r"); b.line("b\r") }, "A\r\nb\r\n"},
		"both sources":                     {func(b *bench) { b.line("A"); b.errLine("e"); b.line("b"); b.errLine("F"); b.line("c") }, "A\ne\nb\n|err:F\nc\n"},
		"in chunks":                        {func(b *bench) { b.line("A"); b.chunk("i", 1, "b"); b.last("i", 2, "C"); b.line("D") }, "A\nbC\n|D\n"},
		"in chunks, matching":              {func(b *bench) { b.line("a"); b.chunk("i", 1, "B"); b.last("i", 2, "C"); b.line("d") }, "a\n|BC\nd\n"},
		"in chunks, CR LF":                 {func(b *bench) { b.chunk("i", 1, "B"); b.last("i", 2, "") }, "B\n"},
		"no end":                           {func(b *bench) { b.line("A"); b.chunk("i", 1, "b") }, "A\nb\n"},
		"other source's chunks meanwhile": {func(b *bench) {
			b.part(frame.Stderr, "i", 1, "E", false)
			b.line("A")
			b.part(frame.Stderr, "i", 2, "e", true)
			b.line("b")
		}, "A\n|err:Ee\nb\n"},
		"chunk missing":           {func(b *bench) { b.line("A"); b.chunk("i", 1, "b"); b.last("i", 3, "C"); b.line("d") }, "A\nb|lost 1/16384|C\nd\n"},
		"chunk missing, matching": {func(b *bench) { b.line("A"); b.chunk("i", 1, "B"); b.last("i", 3, "C"); b.line("d") }, "A\n|B|lost 1/16384|C\nd\n"},
		"head missing":            {func(b *bench) { b.line("A"); b.last("i", 2, "B"); b.line("c") }, "A\n|lost 1/16384|B\nc\n"},
		"end missing":             {func(b *bench) { b.line("A"); b.chunk("i", 1, "b"); b.line("c") }, "A\nb\n|lost 1/0|c\n"},
		"all that is left is LF":  {func(b *bench) { b.line("A"); b.last("i", 2, ""); b.line("c") }, "A\n|lost 1/16384|c\n"},
		"after one that was cut": {func(b *bench) {
			feed(b, frame.Stdout, "a"+x, 16384, true)
			b.chunk("i", 1, "B")
			b.last("i", 2, "c")
		}, "axxxx… 262118|x\n|Bc\n"},
		"exactly the limit":         {func(b *bench) { b.line(x); b.line("b"); b.line("c") }, "xxxxx… 262118|b\nc\n"},
		"exactly the limit, in two": {func(b *bench) { b.chunk("i", 1, x[1:]); b.last("i", 2, "x"); b.line("b") }, "xxxxx… 262118|b\n"},
		"1 less than the limit":     {func(b *bench) { b.line(x[1:]); b.line("b"); b.line("c") }, "xxxxx… 262118|b\nc\n"},
		"2 less than the limit":     {func(b *bench) { b.line(x[2:]); b.line(""); b.line("c") }, "xxxxx… 262118|c\n"},
		"no room for the last LF":   {func(b *bench) { b.line(x[2:]); b.line("b"); b.line("c") }, "xxxxx… 262117|b\nc\n"},
		"room to the last byte":     {func(b *bench) { b.line(x[3:]); b.line("b"); b.line("c") }, "xxxxx… 262118|c\n"},
		"more than the limit":       {func(b *bench) { b.line("a"); b.line(x + "B"); b.line("c") }, "a\n|xxxxx… 262118|B\nc\n"},
		"more, matching":            {func(b *bench) { b.line("a"); b.line("B" + x); b.line("c") }, "a\n|Bxxxx… 262118|x\nc\n"},
		"more, in chunks":           {func(b *bench) { b.line("a"); feed(b, frame.Stdout, "B"+x, 16384, true); b.line("c") }, "a\n|Bxxxx… 262118|x\nc\n"},
		"not UTF-8 counts 3": {func(b *bench) {
			b.line(strings.Repeat("\xff", most/3-1))
			b.line("b")
			b.line("cc")
		}, "\xff\xff\xff\xff\xff… 87374|cc\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(lines.Options{Begins: begin})
			c.do(b)
			if !b.Held() {
				t.Error("nothing is held")
			}
			b.Close()
			b.expect(t, c.want)
			if b.Held() || b.Due() != lines.Never {
				t.Error("something is held")
			}
		})
	}
}

func TestSeparateSources(t *testing.T) {
	b := start(lines.Options{Begins: begin, Separate: true})
	b.line("A")
	b.now++
	b.errLine("E")
	b.line("b")
	b.errLine("f")
	b.errLine("G")
	b.expect(t, "err:E\nf\n")
	b.Close()
	b.expect(t, "A\nb\n|err:G\n")
	b.errLine("x")
	b.now++
	b.line("y")
	b.Close()
	b.expect(t, "err:x\n|y\n")
}

func TestTimeIsThatOfTheFirstLine(t *testing.T) {
	b := start(lines.Options{Begins: begin})
	b.now = 1 * second
	b.line("A")
	b.now = 2 * second
	b.line("b")
	b.now = 3 * second
	b.line("C")
	b.now = 10 * second
	b.Flush(b.now)
	b.now = 3600 * second
	b.line("d") // awslogs gives this one the time of C
	b.Close()
	for i, want := range []int64{1, 3, 3600} {
		if b.out[i].Time != want*second {
			t.Errorf("%q: %d s, want %d", b.out[i].Message, b.out[i].Time/second, want)
		}
	}
}

func TestTimeOf(t *testing.T) {
	stamp := regexp.MustCompile(`^\d+ `)
	b := start(lines.Options{
		EventSize: 10, Begins: regexp.MustCompile(`^(\d+|x) `),
		TimeOf: func(line []byte) (int64, bool) {
			n, err := strconv.Atoi(strings.TrimSpace(string(stamp.Find(line))))
			return int64(n), err == nil
		},
	})
	b.now = 100
	b.line("8 before") // fills an event with its LF but for a byte
	b.line("9 first")
	b.line("c")
	b.line("x second") // no time
	b.line("7 third, longer than an event")
	b.line("more")
	b.line("another")
	b.chunk("i", 1, "6 four")
	b.chunk("i", 2, "th, long")
	b.last("i", 3, "er too")
	b.Close()
	want := []got{
		{Time: 8, Message: "8 before\n"}, {Time: 9, Message: "9 first\nc\n"}, {Time: 100, Message: "x second\n"},
		{Time: 7, Message: "7 third, l"}, {Time: 7, Message: "onger than"}, {Time: 7, Message: " an event\n"},
		{Time: 100, Message: "more\n"}, {Time: 100, Message: "another\n"},
		{Time: 6, Message: "6 fourth, "}, {Time: 6, Message: "longer too"},
	}
	for i := range want {
		want[i].Source = frame.Stdout
		if i >= len(b.out) || b.out[i] != want[i] {
			t.Fatalf("event %d\ngot  %+v\nwant %+v", i, b.out, want)
		}
	}
	if len(b.out) != len(want) {
		t.Errorf("%+v", b.out[len(want):])
	}
}

func TestFlushByAge(t *testing.T) {
	b := start(lines.Options{Begins: begin, FlushAfter: 15 * second})
	b.now = 100 * second
	b.line("A")
	b.now = 114 * second
	b.line("b")
	if b.Due() != 115*second {
		t.Errorf("due %d", b.Due())
	}
	b.Flush(115*second - 1)
	b.expect(t, "")
	b.Flush(115 * second)
	b.expect(t, "A\nb\n")
	if b.Held() || b.Due() != lines.Never {
		t.Error("something is left")
	}
	b.Flush(1000 * second)
	b.expect(t, "")
	b.line("c")
	b.Flush(b.now)
	b.expect(t, "")
	b.Flush(b.now - 1) // the clock stepped back
	b.expect(t, "c\n")
	b.line("E")
	b.Close()
	b.expect(t, "E\n")
}

// TestBacklogIsNotCut: lines that waited in the pipe are old when they come, but may go on
// in what is still in the pipe.
func TestBacklogIsNotCut(t *testing.T) {
	b := start(lines.Options{Begins: begin})
	b.now = 1000 * second
	old := frame.Entry{Source: frame.Stdout, TimeNano: 5 * second, Line: []byte("A")}
	b.Add(b.now, &old)
	b.Flush(b.now)
	old.Line = []byte("b")
	b.Add(b.now, &old)
	b.restart(t)
	if b.Due() != 0 {
		t.Errorf("due %d", b.Due())
	}
	b.now += 3600 * second // the plugin was away
	b.Flush(b.now)
	b.expect(t, "")
	if b.Due() != b.now+5*second {
		t.Errorf("due %d", b.Due())
	}
	old.Line = []byte("c")
	b.Add(b.now, &old)
	b.Flush(b.now + 5*second)
	if len(b.out) != 1 || b.out[0].Time != 5*second {
		t.Errorf("%+v", b.out)
	}
	b.expect(t, "A\nb\nc\n")
}
