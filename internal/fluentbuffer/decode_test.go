package fluentbuffer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"weir/internal/event"
)

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestDecode(t *testing.T) {
	long := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "n"), strings.Repeat("x", 3*MaxBatch))
	for _, c := range []struct {
		name  string
		data  []byte
		want  string // events
		bad   uint64
		rest  error
		fails error
	}{
		{name: "standard", data: entries(1, 3), want: "meta:1 meta:2 meta:3"},
		{name: "own tags", data: cat(tagged("a", 1, 2), tagged("b", 3, 1), tagged("a", 4, 1)), want: "a:1 a:2 b:3 a:4"},
		{name: "mixed", data: cat(entries(1, 1), tagged("a", 2, 1), entries(3, 1)), want: "meta:1 a:2 meta:3"},
		{name: "gzip members", data: gz(entries(1, 2), entries(3, 1)), want: "meta:1 meta:2 meta:3"},
		{name: "zstd frames", data: zs(entries(1, 2), entries(3, 1)), want: "meta:1 meta:2 meta:3"},
		{name: "cut", data: entries(1, 3)[:len(entries(1, 3))-1], want: "meta:1 meta:2", rest: event.ErrShort},
		{name: "cut at first", data: entries(1, 1)[:3], rest: event.ErrShort},
		{name: "zeros behind", data: cat(entries(1, 2), make([]byte, 100)), want: "meta:1 meta:2", rest: ErrZeros},
		{name: "zeros", data: make([]byte, 4096), rest: ErrZeros},
		{name: "empty", rest: ErrEmpty},
		{name: "text", data: []byte("2024-01-01T00:00:00Z\ttag\t{}\n"), fails: ErrText},
		{name: "text in gzip", data: gz([]byte("{\"a\":1}\n")), fails: ErrText},
		{name: "bad values between", data: cat(entries(1, 1), []byte{0x92, 0xc0, 0x80, 0x05, 0x93, 0x01, 0x02, 0x80}, entries(2, 1)), want: "meta:1 meta:2", bad: 3},
		{name: "no type", data: cat(entries(1, 1), []byte{0xc1}, entries(2, 1)), want: "meta:1", rest: event.ErrType},
		{name: "claims", data: []byte{0x92, 0x01, 0xdf, 0xff, 0xff, 0xff, 0xff}, rest: event.ErrShort},
		{name: "long event", data: cat(entries(1, 1), event.AppendEntry(nil, 5, long), entries(2, 1)), want: "meta:1 meta:" + strings.Repeat("x", 3*MaxBatch) + " meta:2"},
		{name: "long tag", data: cat(entries(1, 1), tagged(strings.Repeat("t", maxTag+1), 1, 1)), want: "meta:1", bad: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole":     bytes.NewReader(c.data),
				"in halves": iotest.HalfReader(bytes.NewReader(c.data)),
			} {
				var g got
				res, err := Decode(r, "meta", g.emit)
				if !errors.Is(err, c.fails) || (err == nil) != (c.fails == nil) {
					t.Errorf("%s: error %v, want %v", how, err, c.fails)
				}
				if s := strings.Join(g, " "); s != c.want {
					t.Errorf("%s: events %.200s, want %.200s", how, s, c.want)
				}
				if res.Events != uint64(len(g)) || res.Bad != c.bad || !errors.Is(res.Rest, c.rest) || (res.Rest == nil) != (c.rest == nil) {
					t.Errorf("%s: %+v, want bad %d, rest %v", how, res, c.bad, c.rest)
				}
			}
		})
	}
}

// TestDecodeCutCompressed keeps what stood before the cut.
func TestDecodeCutCompressed(t *testing.T) {
	for name, data := range map[string][]byte{"gzip": gz(entries(1, 2), entries(3, 900)), "zstd": zs(entries(1, 2), entries(3, 900))} {
		var g got
		res, err := Decode(bytes.NewReader(data[:len(data)-20]), "", g.emit)
		if err != nil || res.Rest == nil || len(g) < 2 || g[0] != ":1" || g[1] != ":2" {
			t.Errorf("%s: %+v, %v, %d events", name, res, err, len(g))
		}
	}
}

// TestDecodeBatches are bounded, the same each time, and keep order.
func TestDecodeBatches(t *testing.T) {
	data := entries(1, 100_000)
	var sizes [2][]int
	for i := range sizes {
		var g got
		res, err := Decode(bytes.NewReader(data), "t", func(b event.Batch) error {
			sizes[i] = append(sizes[i], len(b.Entries))
			return g.emit(b)
		})
		if err != nil || !res.Whole() || len(g) != 100_000 || g[99_999] != "t:100000" {
			t.Fatalf("%+v, %v, %d events", res, err, len(g))
		}
	}
	if len(sizes[0]) < 3 || slices.Max(sizes[0]) > MaxBatch || !slices.Equal(sizes[0], sizes[1]) {
		t.Errorf("sizes %v and %v", sizes[0], sizes[1])
	}
}

func TestDecodeEndsWithEmit(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	_, err := Decode(bytes.NewReader(cat(tagged("a", 1, 1), tagged("b", 2, 1), tagged("c", 3, 1))), "", func(event.Batch) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestDecodeAnyCut compares with what is known to stand before any cut.
func TestDecodeAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "events")
		var data []byte
		var ends []int
		var want got
		for i := range n {
			tag := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tag")
			if tag == "" {
				data = append(data, entries(i, 1)...)
			} else {
				data = append(data, tagged(tag, i, 1)...)
			}
			ends = append(ends, len(data))
			want = append(want, fmt.Sprint(tag, ":", i))
		}
		cut := rapid.IntRange(1, len(data)).Draw(t, "cut")
		whole, _ := slices.BinarySearch(ends, cut+1)
		var g got
		res, err := Decode(bytes.NewReader(data[:cut]), "", g.emit)
		if err != nil || !slices.Equal(g, want[:whole]) {
			t.Fatalf("cut at %d: %v, %v, want %v", cut, g, err, want[:whole])
		}
		if atEnd := whole > 0 && ends[whole-1] == cut; atEnd != res.Whole() {
			t.Fatalf("cut at %d: %+v", cut, res)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range [][]byte{
		entries(1, 3), tagged("a", 1, 3), gz(entries(1, 2), entries(3, 1)), zs(tagged("b", 1, 2)), []byte("text\n"), make([]byte, 32),
		{0x92, 0x01, 0xdf, 0xff, 0xff, 0xff, 0xff}, {0x93, 0xdb, 0xff, 0xff, 0xff, 0xff}, {0xdc, 0x00}, {0x1f, 0x8b}, {0x28, 0xb5, 0x2f, 0xfd},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events := uint64(0)
		res, err := Decode(bytes.NewReader(data), "t", func(b event.Batch) error {
			events += uint64(b.Count)
			if count, first, last, _, err := event.Check(b.Entries); err != nil || count != b.Count || first != b.First || last != b.Last {
				t.Errorf("%d events, %v; batch %+v", count, err, b)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrText) || events != res.Events || err != nil && events > 0 {
			t.Errorf("%v, %d events, %+v", err, events, res)
		}
	})
}

func FuzzMeta(f *testing.F) {
	for _, m := range []meta{{tag: "t", created: 1, modified: 2}, {old: true, created: 1, modified: 2}, {noID: true}, {noTimes: true}} {
		f.Add(m.bytes())
	}
	f.Add([]byte{0xc1, 0, 0xff, 0xff, 0xff, 0xff, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Chunk
		if err := c.parseMeta(data); err == nil && (c.Created.Unix() <= 0 || c.Modified.Unix() <= 0) {
			t.Errorf("%+v", c)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := tagged("kubernetes.var.log.containers", int(rand.Uint32()%1000), 20_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(bytes.NewReader(data), "", func(event.Batch) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
