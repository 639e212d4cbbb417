package stdin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/input"
	"weir/internal/input/inputtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(typ string) *fluentconf.Section {
	return &fluentconf.Section{Name: "parse", Params: []fluentconf.Param{{Key: "@type", Value: fluentconf.Value{Text: typ}}}}
}

func newInput(tb testing.TB, p Params, r io.Reader, log io.Writer) *Input {
	tb.Helper()
	if p.Tag == "" {
		p.Tag = "in"
	}
	in, err := New(p, Options{Log: slog.New(slog.NewTextHandler(log, nil)), Reader: r})
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

// read runs an Input to the end of r.
func read(tb testing.TB, p Params, r io.Reader) (events []string, log string) {
	var out bytes.Buffer
	rec := inputtest.NewRecorder(tb)
	if err := newInput(tb, p, r, &out).Run(context.Background(), rec); err != nil {
		tb.Errorf("Run: %v", err)
	}
	return rec.Events(), out.String()
}

func TestLines(t *testing.T) {
	const at = "in 946684800.000000000 "
	for _, tt := range []struct {
		name  string
		parse *fluentconf.Section
		text  string
		want  []string
		log   string
	}{
		{"nothing", nil, "", nil, ""},
		{"lines", nil, "a\nb\n", []string{`{"message":"a"}`, `{"message":"b"}`}, ""},
		{"no end", nil, "a\nb", []string{`{"message":"a"}`, `{"message":"b"}`}, ""},
		{"empty lines count", nil, "\n\na", []string{`{"message":""}`, `{"message":""}`, `{"message":"a"}`}, ""},
		{"carriage returns stay", nil, "a\r\n", []string{`{"message":"a\r"}`}, ""},
		{"any bytes", nil, "\xff\x00\n", []string{`{"message":"` + "\uFFFD" + `\u0000"}`}, ""},
		{"none", parse("none"), "{}\n", []string{`{"message":"{}"}`}, ""},
		{"json", parse("json"), `{"a":1,"b":[null]}` + "\n\n" + `{"a":2}`, []string{`{"a":1,"b":[null]}`, `{"a":2}`}, ""},
		{"json arrays", parse("json"), `[{"a":1},{"a":2}]` + "\n[]\n" + `{"a":3}`, []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}, ""},
		{"half an array", parse("json"), `[{"a":1},7,8]` + "\n" + `{"a":2}`, []string{`{"a":1}`, `{"message":"[{\"a\":1},7,8]"}`, `{"a":2}`}, "cannot be parsed"},
		{"json goes wrong", parse("json"), "{\"a\":1}\nplain\n[1]\n{\"a\":2}\n", []string{`{"a":1}`, `{"message":"plain"}`, `{"message":"[1]"}`, `{"a":2}`}, "cannot be parsed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, log := read(t, Params{Parse: tt.parse}, strings.NewReader(tt.text))
				var want []string
				for _, w := range tt.want {
					want = append(want, at+w)
				}
				if d := cmp.Diff(got, want); d != "" {
					t.Errorf("got- want+\n%s", d)
				}
				if (tt.log == "") != (log == "") || !strings.Contains(log, tt.log) || strings.Count(log, "\n") > 1 {
					t.Errorf("log %q, want one line with %q", log, tt.log)
				}
			})
		})
	}
}

func TestJSONTime(t *testing.T) {
	got, _ := read(t, Params{Parse: parse("json")}, strings.NewReader(`{"time":1700000000.5,"a":1}`))
	if d := cmp.Diff(got, []string{`in 1700000000.500000000 {"a":1}`}); d != "" {
		t.Error(d)
	}
}

func TestConfigMistakes(t *testing.T) {
	if _, err := New(Params{Parse: parse("grok")}, Options{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "grok") {
		t.Errorf("error %v", err)
	}
	var p Params
	var d config.Diagnostics
	config.Decode(nil, &p, &d)
	if p.Tag != "stdin" {
		t.Errorf("tag %q", p.Tag)
	}
}

// pieces hands out a text in pieces of sizes that next says.
type pieces struct {
	b    []byte
	next func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.b[:min(len(p.b), p.next())])
	p.b = p.b[n:]
	return n, nil
}

// TestSplit compares with a plain split of the text, long lines included.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 5), rapid.SampledFrom([]int{blockSize, MaxLine - 1, MaxLine, MaxLine + 1, 2 * MaxLine})), 1, 5).Draw(rt, "lengths")
		var text []byte
		var want []int
		for i, n := range lengths {
			text = append(text, bytes.Repeat([]byte{'a' + byte(i)}, n)...)
			if i < len(lengths)-1 || rapid.Bool().Draw(rt, "ends") {
				text = append(text, '\n')
			} else if n == 0 {
				break
			}
			for ; n > MaxLine; n -= MaxLine {
				want = append(want, MaxLine)
			}
			want = append(want, n)
		}
		size := rapid.SampledFrom([]int{1000, blockSize - 1, blockSize, MaxLine}).Draw(rt, "piece")
		events, _ := read(t, Params{}, &pieces{text, func() int { return size }})
		var got []int
		for _, e := range events {
			got = append(got, len(e)-strings.Index(e, `{`)-len(`{"message":""}`))
		}
		if d := cmp.Diff(got, want); d != "" {
			rt.Fatalf("lengths, got- want+\n%s", d)
		}
	})
}

func TestReadError(t *testing.T) {
	rec := inputtest.NewRecorder(t)
	r := io.MultiReader(strings.NewReader("a\nb"), failing{})
	err := newInput(t, Params{}, r, io.Discard).Run(t.Context(), rec)
	if err == nil || !strings.Contains(err.Error(), "cable pulled") {
		t.Errorf("Run: %v", err)
	}
	if n := len(rec.Events()); n != 2 {
		t.Errorf("%d events, want what came before the error", n)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("cable pulled") }

// TestGivesUp: a buffer that refuses for ever does not hold up the end.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := inputtest.NewRecorder(t)
		rec.RefuseAll()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- newInput(t, Params{}, strings.NewReader("a\n"), io.Discard).Run(ctx, rec) }()
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("Run returned %v though nothing told it to stop", err)
		default:
		}
		start := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != readGrace+emitGrace {
			t.Errorf("stopped after %v", d)
		}
		if n := len(rec.LostEvents()); n != 1 {
			t.Errorf("%d events booked as lost, want 1", n)
		}
	})
}

// TestContract runs the suite over all ways in which reading is interrupted.
func TestContract(t *testing.T) {
	subject := func(t *testing.T, r io.Reader, w io.WriteCloser) inputtest.Subject {
		t.Cleanup(func() { _ = w.Close() })
		return inputtest.Subject{
			Input: newInput(t, Params{}, r, io.Discard), Keeps: true,
			Send: func(texts ...string) { fmt.Fprintln(w, strings.Join(texts, "\n")) },
			End:  func() { _ = w.Close() },
		}
	}
	pipe := func(t *testing.T) (*os.File, *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r, w
	}
	t.Run("file", func(t *testing.T) {
		inputtest.Run(t, func(t *testing.T) inputtest.Subject {
			r, w := pipe(t)
			return subject(t, r, w)
		})
	})
	t.Run("blocking file", func(t *testing.T) {
		inputtest.Run(t, func(t *testing.T) inputtest.Subject {
			r, w := pipe(t)
			_ = r.Fd() // makes it blocking, as standard input is
			return subject(t, r, w)
		})
	})
	t.Run("deadlines", func(t *testing.T) {
		inputtest.Run(t, func(t *testing.T) inputtest.Subject {
			r, w := net.Pipe()
			return subject(t, r, w)
		})
	})
	t.Run("close", func(t *testing.T) {
		inputtest.Run(t, func(t *testing.T) inputtest.Subject {
			r, w := io.Pipe()
			return subject(t, r, w)
		})
	})
}

func BenchmarkLines(b *testing.B) {
	line := []byte(strings.Repeat("x", 255) + "\n")
	text := bytes.Repeat(line, 1000)
	for _, typ := range []string{"none", "json"} {
		b.Run(typ, func(b *testing.B) {
			if typ == "json" {
				text = bytes.Repeat([]byte(`{"log":"`+strings.Repeat("x", 230)+`","stream":"out"}`+"\n"), 1000)
			}
			left := b.N/1000 + 1
			r := readerFunc(func(p []byte) (int, error) {
				if left--; left < 0 {
					return 0, io.EOF
				}
				return copy(p, text), nil
			})
			in := newInput(b, Params{Parse: parse(typ)}, r, io.Discard)
			b.SetBytes(int64(len(text)) / 1000)
			b.ReportAllocs()
			if err := in.Run(context.Background(), null{}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// null takes everything.
type null struct{}

func (null) Emit(context.Context, event.Batch) (input.Receipt, error) { return input.Receipt{}, nil }
func (null) Lost(event.Batch)                                         {}
