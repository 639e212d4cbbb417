package lines_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
)

// genLine makes lines in which chunks and limits fall on runes, halves of runes and others.
func genLine() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "B", "é", "😃", "\xff", "\xf0\x9f", "�", "\r", " "}), 0, 30).Draw(t, "runes"), "")
	})
}

// TestModel: whatever the lines, the chunks, the order in which the frames of both sources
// come and where the process is killed, each source gives back its lines.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 3, 4, 5, 7, 16, 100, 100_000}).Draw(t, "limit")
		pattern := rapid.SampledFrom([]string{"", "^[aB]", "é", "^$"}).Draw(t, "pattern")
		separate := rapid.Bool().Draw(t, "separate")
		var from [][]frame.Entry
		want := map[frame.Source][]string{}
		for _, s := range []frame.Source{frame.Stdout, frame.Stderr} {
			all := rapid.SliceOfN(genLine(), 0, 8).Draw(t, "lines")
			size := rapid.SampledFrom([]int{1, 2, 3, 5, 16, 1000}).Draw(t, "chunk")
			open := rapid.Bool().Draw(t, "open")
			from = append(from, cutLines(s, 5, all, size, rapid.Bool().Draw(t, "meta"), open))
			if open && len(all) > 0 && all[len(all)-1] == "" {
				all = all[:len(all)-1] // nothing without an end is nothing
			}
			want[s] = all
		}
		o := lines.Options{EventSize: limit, Separate: separate}
		if pattern != "" {
			o.Begins = regexp.MustCompile(pattern)
		}
		b := start(o)
		for {
			from = slices.DeleteFunc(from, func(w []frame.Entry) bool { return len(w) == 0 })
			if len(from) == 0 {
				break
			}
			w := &from[rapid.IntRange(0, len(from)-1).Draw(t, "source")]
			b.Add(5, &(*w)[0])
			*w = (*w)[1:]
			if rapid.IntRange(0, 4).Draw(t, "kill") == 0 {
				state := b.AppendState(nil)
				b.Lines = lines.New(b.opts)
				if err := b.Restore(state); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.Close()
		for _, e := range b.out {
			if size := lines.Size([]byte(e.Message)); size > limit && utf8.RuneCountInString(e.Message) > 1 || len(e.Message) == 0 {
				t.Fatalf("%q counts %d, limit %d", e.Message, size, limit)
			}
		}
		if pattern == "" {
			for s, all := range want {
				compare(t, b.out, s, plainModel(all, limit))
			}
		} else if separate {
			for s, all := range want {
				compare(t, b.out, s, multilineModel(o.Begins, all, limit))
			}
		}
	})
}

func compare(t *rapid.T, out []got, s frame.Source, want []string) {
	var have []string
	for _, e := range out {
		if e.Lost > 0 {
			t.Fatalf("lost: %+v", e)
		}
		if e.Source == s {
			have = append(have, e.Message)
		}
	}
	if !slices.Equal(have, want) {
		t.Fatalf("%v\ngot  %q\nwant %q", s, have, want)
	}
}

// plainModel says what becomes of whole lines.
func plainModel(all []string, limit int) (out []string) {
	for _, line := range all {
		out = append(out, divide(line, limit)...)
	}
	return out
}

// divide cuts a line rune by rune.
func divide(line string, limit int) (out []string) {
	piece, size := "", 0
	for len(line) > 0 {
		r, n := utf8.DecodeRuneInString(line)
		w := n
		if r == utf8.RuneError && n == 1 {
			w = 3
		}
		if size+w > limit && piece != "" {
			out = append(out, piece)
			piece, size = "", 0
		}
		piece, line, size = piece+line[:n], line[n:], size+w
	}
	if piece != "" {
		out = append(out, piece)
	}
	return out
}

// multilineModel is awslogs' rule with its faults mended, over whole lines.
func multilineModel(begins lines.Matcher, all []string, limit int) (out []string) {
	held := ""
	flush := func() {
		if held != "" {
			out = append(out, held)
		}
		held = ""
	}
	for _, line := range all {
		pieces := divide(line, limit)
		if len(pieces) == 0 {
			pieces = []string{""}
		}
		for i, p := range pieces {
			last := i == len(pieces)-1
			if last && lines.Size([]byte(p)) < limit {
				p += "\n"
			}
			if i == 0 && begins.Match([]byte(pieces[0])) || lines.Size([]byte(held+p)) > limit {
				flush()
			}
			held += p
			if !last {
				flush()
			}
		}
	}
	flush()
	return out
}

// TestModelOfLosses drops frames: nothing that came is lost, and what did not come is told.
func TestModelOfLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,12}`), 1, 6).Draw(t, "lines")
		frames := cutLines(frame.Stdout, 5, all, 3, true, false)
		b := start(lines.Options{})
		var kept strings.Builder
		dropped := 0
		for i := range frames {
			e := &frames[i]
			if e.Partial && rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				dropped++
				continue
			}
			b.Add(5, e)
			kept.Write(e.Line)
		}
		b.Close()
		var out strings.Builder
		lost := 0
		for _, e := range b.out {
			out.WriteString(e.Message)
			lost += int(e.Lost)
		}
		if out.String() != kept.String() {
			t.Fatalf("got  %q\nwant %q", out.String(), kept.String())
		}
		if lost > dropped {
			t.Fatalf("%d lost, but %d dropped", lost, dropped)
		}
	})
}
