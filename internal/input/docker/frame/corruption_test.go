package frame_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/input/docker/frame"
)

// read is a reader of a stream, which comes in steps of the given size, or at once. It gives
// the lines of all frames, and how many bytes it threw away.
func read(t *testing.T, stream []byte, step int) (lines []string, lost int) {
	t.Helper()
	var block []byte
	for len(stream) > 0 || len(block) > 0 {
		n := min(step, len(stream))
		if step == 0 {
			n = len(stream)
		}
		block, stream = append(block, stream[:n]...), stream[n:]
		at := 0
		for at < len(block) {
			e, n, s := frame.Next(block, at)
			if s == frame.More && len(stream) > 0 {
				break
			}
			if s == frame.Whole {
				lines = append(lines, string(e.Line))
				at += n
				continue
			}
			skip, ok := frame.Resync(block[at:])
			if skip < 1 || skip > len(block)-at {
				t.Fatalf("skip %d of %d", skip, len(block)-at)
			}
			lost += skip
			at += skip
			if _, _, s := frame.Next(block, at); ok && s == frame.Garbage {
				t.Fatalf("Resync found what Next does not take: %x", block[at:])
			}
		}
		block = block[at:]
	}
	return lines, lost
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func text(n int) string { return strings.Repeat("The quick brown fox. ", n/21+1)[:n] }

func TestCorruption(t *testing.T) {
	a, b, c, d := line("frame a: "+text(300)), line("frame b"), chunk("frame c", 1, false), line("frame d")
	odd := framed(fields(3, "odd", 6, fields(1, "k", 2, "v"), 2, noon, 1, "stderr"))
	inner := line("inner")
	outer := line("outer " + string(inner) + " and more")
	over := func(f []byte, length int) []byte {
		f = bytes.Clone(f)
		copy(f, []byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)})
		return f
	}
	for name, tc := range map[string]struct {
		stream []byte
		want   string
	}{
		"nothing wrong":                       {join(b, c, d), "frame b,frame c,frame d"},
		"zeros":                               {make([]byte, 5000), ""},
		"zeros before":                        {join(make([]byte, 5000), b, c), "frame b,frame c"},
		"zeros between":                       {join(b, make([]byte, 5000), c, d), "frame b,frame c,frame d"},
		"zeros after":                         {join(b, make([]byte, 5000)), "frame b"},
		"ones":                                {join(bytes.Repeat([]byte{255}, 5000), b, c), "frame b,frame c"},
		"text":                                {join([]byte(text(5000)), b, c), "frame b,frame c"},
		"text alone":                          {[]byte(text(5000)), ""},
		"length 0":                            {join(over(a, 0), b, c), "frame b,frame c"},
		"length 1":                            {join(over(a, 1), b, c), "frame b,frame c"},
		"length too small by 1":               {join(over(a, len(a)-5), b, c), "frame b,frame c"},
		"length too large by 1":               {join(over(a, len(a)-3), b, c), "frame b,frame c"},
		"length of two frames":                {join(over(a, len(a)+len(b)-4), b, c), "frame b,frame c"},
		"length larger than all":              {join(over(a, 100_000), b, c), "frame b,frame c"},
		"length largest":                      {join(over(a, frame.MaxFrame-4), b, c), "frame b,frame c"},
		"length beyond":                       {join(over(a, 1<<31), b, c), "frame b,frame c"},
		"two frames torn":                     {join(a[100:], b[:20], c, d), "frame c,frame d"},
		"two frames torn, one left":           {join(a[100:], b[:20], c), "frame c"},
		"two frames torn, the next swallowed": {join(a[40:], a[:100], c, d, b, b, b, b, b), "frame c,frame d,frame b,frame b,frame b,frame b,frame b"},
		"twice torn":                          {join(a[40:], b, c, a[50:], d, b), "frame b,frame c,frame d,frame b"},
		"torn, nothing follows":               {a[40:], ""},
		"torn, one follows":                   {join(a[40:], b), "frame b"},
		"torn, one follows and is torn":       {join(a[40:], b[:25]), ""},
		"unusual order":                       {join(a[40:], odd, odd), "odd,odd"},
		"unusual order, last":                 {join(a[40:], odd), "odd"},
		"frame in a frame":                    {join(outer, b), "outer " + string(inner) + " and more,frame b"},
		"frame in a frame, torn":              {join(outer[10:], b, c), "frame b,frame c"},
		"frame in a frame, torn, one follows": {join(outer[10:], b), "frame b"},
		"frame in a frame, torn, half one":    {join(outer[10:], b[:25]), ""},
		"frame stands alone":                  {join(a[40:], b, []byte("garbage to the end")), "frame b"},
		"half a frame in a line, torn":        {join(line("outer " + string(a[:100]) + " and more")[10:], b, c), "frame b,frame c"},
		"frame ends in zeros of another":      {join(line("x\x00\x00\x00\x00\x00")[25:], b, c), "frame b,frame c"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, lost := read(t, tc.stream, 0)
			if got := strings.Join(lines, ","); got != tc.want {
				t.Errorf("got  %q\nwant %q (lost %d bytes)", got, tc.want, lost)
			}
		})
	}
}

// TestTornAtEachByte loses the head or the tail of a frame, of each length.
func TestTornAtEachByte(t *testing.T) {
	for name, a := range map[string][]byte{
		"line": line("hello, world"), "chunk": chunk(text(300), 7, true), "binary": chunk(string(binary(1000)), 7, true),
	} {
		b, c := line("frame b"), chunk("frame c", 1, false)
		for cut := 1; cut < len(a); cut++ {
			lines, lost := read(t, join(a[cut:], b, c), 0)
			if got := strings.Join(lines, ","); got != "frame b,frame c" || lost != len(a)-cut {
				t.Fatalf("%s without its first %d bytes: %q, lost %d of %d", name, cut, got, lost, len(a)-cut)
			}
			// A frame without its end claims what comes after it. That can make a whole
			// frame by chance; but then those that follow are found.
			lines, lost = read(t, join(b, a[:cut], b, c, c, c, c), 0)
			if got := strings.Join(lines, ","); got != "frame b,frame b,frame c,frame c,frame c,frame c" || lost != cut {
				if cut < 22 || !strings.HasPrefix(got, "frame b,") || !strings.HasSuffix(got, ",frame c") {
					t.Fatalf("%s of %d bytes: %q, lost %d", name, cut, got, lost)
				}
			}
		}
	}
}

// TestInSteps has a stream come in pieces of each size: the end of a block is the end of
// nothing else.
func TestInSteps(t *testing.T) {
	b, c := line("frame b"), chunk("frame c", 1, false)
	stream := join(line(text(100))[50:], b, c, make([]byte, 40), b, c, b)
	for step := 1; step < len(stream); step++ {
		lines, _ := read(t, stream, step)
		if got := strings.Join(lines, ","); got != "frame b,frame c,frame b,frame c,frame b" {
			t.Errorf("steps of %d: %q", step, got)
		}
	}
}

// TestResyncSaysWhatToKeep: at the end of a block there may be the beginning of a frame.
func TestResyncSaysWhatToKeep(t *testing.T) {
	b := line("frame b")
	for n := 1; n < len(b); n++ {
		block := join([]byte("garbage"), b[:n])
		skip, ok := frame.Resync(block)
		if skip != len("garbage") || ok != (n >= 4+8) {
			t.Errorf("%d bytes of a frame: skip %d, %v", n, skip, ok)
		}
	}
	for _, s := range []string{"", "x", "garbage"} {
		if skip, ok := frame.Resync([]byte(s)); skip != len(s) || ok {
			t.Errorf("%q: skip %d, %v", s, skip, ok)
		}
	}
}

// TestPlausible has something that may be a frame between garbage and a true frame.
func TestPlausible(t *testing.T) {
	many := fields(1, "stdout", 2, noon)
	for range 100 {
		many = append(many, fields(6, "")...)
	}
	for name, c := range map[string]struct {
		body []byte
		want bool
	}{
		"line":              {fields(1, "stdout", 2, noon, 3, "x"), true},
		"in 1970":           {fields(1, "stdout", 2, 1, 3, "x"), true},
		"after 2200":        {fields(1, "stdout", 2, 7_258_118_400*1_000_000_001, 3, "x"), false},
		"before 1970":       {fields(1, "stdout", 2, -1, 3, "x"), false},
		"no time":           {fields(1, "stdout", 3, "hello"), false},
		"no source":         {fields(2, noon, 3, "hello"), false},
		"another source":    {fields(1, "syslog", 2, noon, 3, "x"), false},
		"two sources":       {fields(1, "syslog", 1, "stdout", 2, noon), false},
		"unknown field":     {fields(1, "stderr", 2, noon, 99, "x"), true},
		"unknown first":     {fields(99, "x", 2, noon, 1, "stderr"), true},
		"more than true":    {fields(1, "stdout", 2, noon, 4, 2), false},
		"ends in a field":   {append(fields(1, "stdout", 2, noon), 0x20), false},
		"ends in a key":     {append(fields(1, "stdout", 2, noon), 0xa0), false},
		"a lot of fields":   {many, false},
		"a lot of metadata": {fields(1, "stdout", 2, noon, 5, bytes.Repeat(fields(9, 1), 1000)), false},
	} {
		garbage := []byte("garbage")
		want := len(garbage)
		if !c.want {
			want += 4 + len(c.body)
		}
		if skip, ok := frame.Resync(join(garbage, framed(c.body), line("b"), line("c"))); skip != want || !ok {
			t.Errorf("%s: skip %d, %v; want %d", name, skip, ok, want)
		}
	}
	// At the end of a block less can be said.
	for name, c := range map[string]struct {
		rest string
		skip int
		ok   bool
	}{
		"source":            {"\x00\x00\x01\x00\x0a\x06stdout", 7, true},
		"half of it":        {"\x00\x00\x01\x00\x0a\x06std", 7, false},
		"half of another":   {"\x00\x00\x01\x00\x0a\x06sys", 16, false},
		"time":              {"\x00\x00\x01\x00\x10\x05", 7, true},
		"line first":        {"\x00\x00\x01\x00\x1a\x70abc", 7, false},
		"unknown first":     {"\x00\x00\x01\x00\x41abc", 15, false},
		"too small":         {"\x00\x00\x00\x09\x0a\x06st", 15, false},
		"odd truth":         {"\x00\x00\x01\x00\x20\x02", 13, false},
		"longer than frame": {"\x00\x00\x00\x0a\x1a\x70abc", 16, false},
	} {
		if skip, ok := frame.Resync([]byte("garbage" + c.rest)); skip != c.skip || ok != c.ok {
			t.Errorf("%s: skip %d, %v; want %d, %v", name, skip, ok, c.skip, c.ok)
		}
	}
}

func binary(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x>>24) & 0x83 // many zeros
	}
	return b
}

func seeds() [][]byte {
	a, b := line("hello"), chunk("hello", 1, true)
	return [][]byte{
		a, b, join(a[3:], b, a), join(a, b[:30], a), make([]byte, 64), []byte(text(100)), binary(100), line(string(join(a, b))), line(string(join(a, b)))[7:],
		framed(fields(7, "x", 1, "stdout", 1000, 7, 2, noon, 9, uint32(1), 3, "hi", 10, uint64(1), 6, "x", 5, fields(4, "x", 3, 1))),
		framed(fields(3, "hi", 2, noon, 1, "stderr", 5, fields(1, 1))),
	}
}

func FuzzNext(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		e, n, s := frame.Next(block, 0)
		switch s {
		case frame.Whole:
			if n < 6 || n > len(block) || e.TimeNano <= 0 || len(e.Line) > n || len(e.Meta.ID) > n {
				t.Fatalf("n %d of %d, %+v", n, len(block), e)
			}
			for i := range min(n, 300) {
				if _, _, s := frame.Next(block[:i], 0); s != frame.More {
					t.Fatalf("%d of %d bytes: %v", i, n, s)
				}
			}
			// What was understood can be written and is then understood in the same way.
			again := frame.Append(nil, &e)
			e2, n2, s2 := frame.Next(again, 0)
			e.Meta.ID = e.Meta.ID[:len(e.Meta.ID):len(e.Meta.ID)]
			if len(e.Name) == 0 {
				e2.Name = e.Name
			}
			if s2 != frame.Whole || n2 != len(again) || fmt.Sprintf("%+v", e) != fmt.Sprintf("%+v", e2) {
				t.Fatalf("%+v\n%v %+v", e, s2, e2)
			}
		case frame.More:
			if n <= len(block) && n != 4 || n > frame.MaxFrame {
				t.Fatalf("n %d of %d", n, len(block))
			}
		case frame.Garbage:
			if n != 0 {
				t.Fatal(n)
			}
		}
	})
}

func FuzzResync(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	good := line("a frame that is whole")
	f.Fuzz(func(t *testing.T, block []byte) {
		if len(block) == 0 {
			return
		}
		skip, ok := frame.Resync(block)
		if skip < 1 || skip > len(block) {
			t.Fatalf("skip %d of %d", skip, len(block))
		}
		if _, _, s := frame.Next(block, skip); s == frame.Garbage {
			t.Fatalf("Resync found (%v) what Next does not take: %x", ok, block[skip:])
		}
		// Two whole frames are found whatever is before them, unless that holds frames too.
		skip, ok = frame.Resync(join(block, good, good))
		if !ok || skip > len(block) {
			t.Fatalf("%v, skip %d of %d and two frames", ok, skip, len(block))
		}
		read(t, join(block, good, block, good), 0)
		read(t, join(block, good, block, good), 7)
	})
}
