package forward

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/internal/input/inputtest"
)

// script is a connection on which given bytes arrive in given pieces.
type script struct {
	net.Conn
	b     []byte
	piece func() int // nil: as much as fits
	out   bytes.Buffer
}

func (s *script) Read(b []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := min(len(b), len(s.b))
	if s.piece != nil {
		n = min(n, s.piece())
	}
	n = copy(b[:n], s.b)
	s.b = s.b[n:]
	return n, nil
}
func (s *script) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *script) Close() error                     { return nil }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1} }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// play sends a stream over a new Input and returns events, answers and the log.
func play(tb testing.TB, p Params, s *script) ([]string, string, *Input) {
	in := newTestInput(tb, p, Options{})
	in.notices.log = discard()
	in.log = discard()
	in.recent = NewRecent()
	rec := inputtest.NewRecorder(tb)
	in.SetEmitter(rec)
	in.serve(context.Background(), s)
	in.running.Wait()
	if n := in.mem.used.Load(); n != 0 {
		tb.Errorf("%d bytes are still accounted for", n)
	}
	return rec.Events(), s.out.String(), in
}

// TestSplit: however TCP cuts a stream, the same events and answers come out.
func TestSplit(t *testing.T) {
	long := strings.Repeat("x", 30_000)
	parts := [][]byte{
		messageOf("t", 5, kv{"n", 1}, kv{"chunk", "a"}),
		messageOf("t", et{7, 8}, kv{"n", 2}, kv{"chunk", "b"}),
		messageOf("u", 5, kv{"long", long}, nil),
		forwardOf("t", arr{et{5, 6}, kv{}}, kv{"a", kv{"b", arr{1, "c"}}}, kv{"chunk", "c"}),
		forwardOf("t", 1.5, kv{"a", 1}, kv{"chunk", "d"}),
		pack(arr{"t", bin(entries(arr{5, kv{"n", 3}}, arr{5, kv{"long", long}})), kv{"size", 2, "chunk", "e"}}),
		pack(arr{"t", bin(gzipOf(entries(arr{5, kv{"long", long}}))), kv{"compressed", "gzip", "chunk", "f"}}),
		pack(nil),
		pack("stray"),
		pack(arr{7, 8, 9}),
		pack(arr{"t", 5, kv{"deep", raw(strings.Repeat("\x91", 80) + "\x01")}, kv{"chunk", "g"}}),
	}
	limit := newSize(60_000)
	rapid.Check(t, func(rt *rapid.T) {
		var stream []byte
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(parts)-1), 1, 12).Draw(rt, "messages") {
			stream = append(stream, parts[i]...)
		}
		p := defaults()
		p.ChunkSizeLimit = limit
		wantEvents, wantAnswers, _ := play(t, p, &script{b: bytes.Clone(stream)})
		largest := rapid.SampledFrom([]int{1, 2, 5, 100, 5000, 50_000}).Draw(rt, "largest piece")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		gotEvents, gotAnswers, _ := play(t, p, &script{b: stream, piece: func() int { return 1 + rng.IntN(largest) }})
		if d := cmp.Diff(gotEvents, wantEvents); d != "" {
			rt.Fatalf("events in pieces- at once+\n%s", d)
		}
		if gotAnswers != wantAnswers {
			rt.Fatalf("answers %q in pieces, %q at once", gotAnswers, wantAnswers)
		}
	})
}

// TestHostile: a megabyte that claims to be much more costs a few megabytes at most, and
// not much time.
func TestHostile(t *testing.T) {
	const mega = 1 << 20
	fill := func(head string, with string) []byte {
		return append([]byte(head), bytes.Repeat([]byte(with), (mega-len(head))/len(with))...)
	}
	bomb := func(compress func(...string) string) []byte {
		return pack(arr{"t", bin(compress(strings.Repeat("\x92\x05\x80", 30*mega))), kv{"compressed", map[bool]string{true: "gzip", false: "zstd"}[compress("x")[0] == 0x1f]}})
	}
	limited := defaults()
	limited.DecompressionLimit = mega
	for name, c := range map[string]struct {
		stream []byte
		params Params
	}{
		"bin of 4 GiB":         {fill("\x92\xa1t\xc6\xff\xff\xff\xff", "x"), defaults()},
		"bin of 200 MiB":       {fill("\x92\xa1t\xc6\x0c\x80\x00\x00", "x"), defaults()},
		"list of 4 Gi entries": {fill("\x92\xa1t\xdd\xff\xff\xff\xff", "\x92\x05\x80"), defaults()},
		"nested arrays":        {fill("\x93\xa1t\x05", "\xdd\xff\xff\xff\xff"), defaults()},
		"nested maps":          {fill("\x93\xa1t\x05", "\xdf\xff\xff\xff\xff"), defaults()},
		"many nested arrays":   {fill("\x93\xa1t\x05", strings.Repeat("\xdd\x00\x0f\xff\xff", 40)), defaults()},
		"deep fixarrays":       {fill("\x93\xa1t\x05", "\x91"), defaults()},
		"long tag":             {fill("\x93\xdb\xff\xff\xff\xff", "t"), defaults()},
		"huge option map":      {fill("\x94\xa1t\x05\x80\xdf\xff\xff\xff\xff", "\xa1a\x01"), defaults()},
		"many tags":            {manyTags(mega), defaults()},
		"many chunk ids":       {manyChunks(mega), defaults()},
		"strays":               {fill("", "\x01"), defaults()},
		"empty arrays":         {fill("", "\x90"), defaults()},
		"reserved":             {fill("", "\xc1"), defaults()},
		"gzip bomb":            {bomb(gzipOf), limited},
		"zstd bomb":            {bomb(zstdOf), limited},
		"JSON nesting":         {fill("[\"t\",5,", "["), defaults()},
		"JSON string":          {fill("[\"t\",5,{\"a\":\"", "x"), defaults()},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{b: c.stream}
			in := newTestInput(t, c.params, Options{})
			in.notices.log, in.log = discard(), discard()
			in.recent = NewRecent()
			in.SetEmitter(null{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			in.serve(context.Background(), s)
			in.running.Wait()
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			cost := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d KiB allocated, %v", cost>>10, took)
			most := uint64(6 * mega)
			if name == "many chunk ids" {
				most *= 4 // 75000 of them: the memory of the process, filled once
			}
			if cost > most {
				t.Errorf("%d bytes cost %d bytes of allocations, want at most %d", len(c.stream), cost, most)
			}
			if in.mem.used.Load() != 0 {
				t.Error("memory is still accounted for")
			}
		})
	}
}

func manyTags(size int) (b []byte) {
	for i := 0; len(b) < size; i++ {
		b = append(b, pack(arr{strings.Repeat("t", i%600) + string(rune('a'+i%26)), 5, kv{}})...)
	}
	return b
}

func manyChunks(size int) (b []byte) {
	for i := 0; len(b) < size; i++ {
		b = append(b, pack(arr{"t", 5, kv{}, kv{"chunk", i}})...)
	}
	return b
}

// FuzzConn feeds arbitrary bytes, in arbitrary pieces. Whatever they are, batches are well
// formed (inputtest.Recorder looks), all memory is given back and everything ends.
func FuzzConn(f *testing.F) {
	for _, shape := range shapes {
		f.Add(shape("t", et{5, 6}, kv{"k", "v"}, kv{"chunk", "c"}), uint16(3))
	}
	f.Add([]byte(`["t",[[5,{"a":[1,2.5,null,true]}]],{"chunk":"x"}]`), uint16(1))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(2))
	f.Add(pack(arr{"t", arr{arr{arr{5, kv{}}, kv{"a", 1}}, 7, arr{1.5, kv{}}}, kv{"chunk", bin("c")}}), uint16(9))
	f.Add([]byte("\x16\x03\x01\x00\x05"), uint16(0))
	f.Add([]byte("\x92\xa1t\xdd\xff\xff\xff\xff\xc7\x01\x00\x00"), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		p := defaults()
		p.ChunkSizeLimit = newSize(1 << 20)
		p.DecompressionLimit = 1 << 20
		p.SourceAddressKey = map[bool]string{true: "addr"}[piece%2 == 1]
		s := &script{b: b}
		if piece > 0 {
			s.piece = func() int { return int(piece) }
		}
		play(t, p, s)
	})
}
