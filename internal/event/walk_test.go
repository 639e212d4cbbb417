package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
	"pgregory.net/rapid"
)

func TestSkip(t *testing.T) {
	long := func(head ...byte) []byte { return append(head, make([]byte, 300)...) }
	for _, c := range []struct {
		in   []byte
		want int
		err  error
	}{
		{[]byte{}, 0, ErrShort},
		{[]byte{0x7f, 0}, 1, nil},
		{[]byte{0xe0}, 1, nil},
		{[]byte{0xa3, 'a', 'b', 'c'}, 4, nil},
		{[]byte{0xa3, 'a', 'b'}, 0, ErrShort},
		{[]byte{0x80}, 1, nil},
		{[]byte{0x82, 1, 2, 3, 4, 5}, 5, nil},
		{[]byte{0x82, 1, 2, 3}, 0, ErrShort},
		{[]byte{0x92, 0x91, 1, 0x90}, 4, nil},
		{[]byte{0xc1}, 0, ErrType},
		{[]byte{0x92, 1, 0xc1}, 0, ErrType},
		{long(0xc4, 200), 202, nil}, {long(0xc5, 1, 0), 259, nil}, {long(0xc6, 0, 0, 1, 1), 262, nil},
		{long(0xc7, 8, 0), 11, nil}, {long(0xc8, 1, 0, 0), 260, nil}, {long(0xc9, 0, 0, 1, 0, 0), 262, nil},
		{long(0xca), 5, nil}, {long(0xcb), 9, nil}, {long(0xcc), 2, nil}, {long(0xcd), 3, nil}, {long(0xce), 5, nil}, {long(0xcf), 9, nil},
		{long(0xd0), 2, nil}, {long(0xd1), 3, nil}, {long(0xd2), 5, nil}, {long(0xd3), 9, nil},
		{long(0xd4), 3, nil}, {long(0xd5), 4, nil}, {long(0xd6), 6, nil}, {long(0xd7), 10, nil}, {long(0xd8), 18, nil},
		{long(0xd9, 200), 202, nil}, {long(0xda, 1, 0), 259, nil}, {long(0xdb, 0, 0, 1, 0), 261, nil},
		{long(0xdc, 0, 3), 6, nil}, {long(0xdd, 0, 0, 0, 3), 8, nil}, {long(0xde, 0, 3), 9, nil}, {long(0xdf, 0, 0, 0, 3), 11, nil},
		{[]byte{0xd9}, 0, ErrShort}, {[]byte{0xda, 0}, 0, ErrShort}, {[]byte{0xdb, 0, 0, 0}, 0, ErrShort},
		{[]byte{0xdc, 0}, 0, ErrShort}, {[]byte{0xdd, 0, 0, 0}, 0, ErrShort}, {[]byte{0xcb, 0}, 0, ErrShort},
		{[]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, 0, ErrShort},
		{[]byte{0xdb, 0xff, 0xff, 0xff, 0xff}, 0, ErrShort},
	} {
		if got, err := Skip(c.in, 0); got != c.want || err != c.err {
			t.Errorf("% x: got %d, %v; want %d, %v", c.in[:min(len(c.in), 8)], got, err, c.want, c.err)
		}
	}
}

func TestSkipDepth(t *testing.T) {
	for _, c := range []struct {
		depth int
		err   error
	}{{MaxDepth, nil}, {MaxDepth + 1, ErrDepth}} {
		b := append(bytes.Repeat([]byte{0x91}, c.depth), 1)
		if _, err := Skip(b, 0); err != c.err {
			t.Errorf("%d levels: %v, want %v", c.depth, err, c.err)
		}
	}
	empty := append(bytes.Repeat([]byte{0x91}, MaxDepth), 0x90)
	if _, err := Skip(empty, 0); err != nil {
		t.Errorf("an empty array inside %d levels: %v", MaxDepth, err)
	}
}

// TestHostile: whatever a megabyte claims, a walk allocates nothing and ends soon.
func TestHostile(t *testing.T) {
	const size = 1 << 20
	for name, b := range map[string][]byte{
		"nested arrays":    bytes.Repeat([]byte{0x91}, size),
		"nested maps":      bytes.Repeat([]byte{0x81}, size),
		"wide arrays":      bytes.Repeat([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, size/5),
		"wide maps":        bytes.Repeat([]byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xa0}, size/6),
		"entries":          bytes.Repeat([]byte{0x92, 1, 0xdf, 0xff, 0xff, 0xff, 0xff}, size/7),
		"metadata":         bytes.Repeat([]byte{0x92, 0x92, 1}, size/3),
		"a long string":    append([]byte{0x92, 1, 0x81, 0xa0, 0xdb, 0xff, 0xff, 0xff, 0xff}, make([]byte, size)...),
		"one wide array":   append([]byte{0x92, 1, 0x81, 0xa0, 0xdd, 0xff, 0xff, 0xff, 0xff}, make([]byte, size)...),
		"64 levels, again": bytes.Repeat(append([]byte{0x92, 1, 0x81}, bytes.Repeat([]byte{0x91}, MaxDepth)...), size/(MaxDepth+3)),
	} {
		dst := make([]byte, 0, 16<<20)
		path, err := ParsePath("$.a.b[0]")
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(5, func() {
			Skip(b, 0)
			if _, _, _, _, err := Check(b); err == nil {
				t.Errorf("%s: Check accepts it", name)
			}
			path.Find(b)
			AppendJSONEscaped(dst, b, &JSONOptions{DropEmpty: true})
			AppendText(dst, b)
		}); n > 4 { // the errors that Check wraps
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestNext(t *testing.T) {
	record := []byte{0x81, 0xa1, 'a', 1}
	fix8 := []byte{0xd7, 0, 0, 0, 0, 10, 0, 0, 0, 5}
	ext8 := []byte{0xc7, 8, 0, 0, 0, 0, 10, 0, 0, 0, 5}
	for _, c := range []struct {
		name string
		time []byte
		want Time
		err  error
	}{
		{"fixext8", fix8, Unix(10, 5), nil},
		{"ext8", ext8, Unix(10, 5), nil},
		{"uint32", []byte{0xce, 0xff, 0xff, 0xff, 0xff}, Unix(math.MaxUint32, 0), nil},
		{"fixint", []byte{7}, Unix(7, 0), nil},
		{"negative", []byte{0xff}, Unix(-1, 0), nil},
		{"int64", []byte{0xd3, 0, 0, 0, 0, 0, 0, 1, 0}, Unix(256, 0), nil},
		{"Fluent Bit", append(append([]byte{0x92}, fix8...), 0x80), Unix(10, 5), nil},
		{"Fluent Bit with metadata", append(append([]byte{0x92}, fix8...), 0x81, 0xa1, 'm', 0x91, 1), Unix(10, 5), nil},
		{"too large", []byte{0xcf, 0, 0, 0, 3, 0, 0, 0, 0}, 0, ErrTime},
		{"beyond int64", []byte{0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0}, 0, ErrTime},
		{"float", []byte{0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, 0, ErrTime},
		{"nil", []byte{0xc0}, 0, ErrTime},
		{"another ext", []byte{0xd7, 1, 0, 0, 0, 10, 0, 0, 0, 5}, 0, ErrTime},
		{"text", []byte{0xa1, '1'}, 0, ErrTime},
	} {
		b := append(append(append([]byte{0x92}, c.time...), record...), 0xff)
		e, n, err := Next(b)
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v, want %v", c.name, err, c.err)
			}
			continue
		}
		if err != nil || e.Time != c.want || n != len(b)-1 || !bytes.Equal(e.Record, record) {
			t.Errorf("%s: %v % x %d %v", c.name, e.Time, e.Record, n, err)
		}
		for cut := range len(b) - 1 {
			if _, _, err := Next(b[:cut]); err == nil {
				t.Errorf("%s: cut to %d bytes is accepted", c.name, cut)
			}
		}
	}
	for _, b := range [][]byte{{0x93, 1, 0x80, 0x80}, {0x91, 1}, {0x80}, {0x92, 0x93, 1, 0x80, 0x80, 0x80}} {
		if _, _, err := Next(b); err == nil {
			t.Errorf("% x is accepted", b)
		}
	}
}

func TestReaders(t *testing.T) {
	for _, c := range []struct {
		in  []byte
		n   int
		err error
	}{
		{nil, 0, ErrShort}, {[]byte{0x83}, 3, nil}, {[]byte{0xde, 1, 0}, 256, nil}, {[]byte{0xdf, 0, 1, 0, 0}, 65536, nil},
		{[]byte{0xde, 1}, 0, ErrShort}, {[]byte{0xdf, 1, 2, 3}, 0, ErrShort}, {[]byte{0x93}, 0, ErrShape}, {[]byte{0xc0}, 0, ErrShape},
	} {
		if n, next, err := MapHeader(c.in, 0); n != c.n || err != c.err || err == nil && next != len(c.in) {
			t.Errorf("MapHeader % x: %d, %d, %v", c.in, n, next, err)
		}
	}
	for _, c := range []struct {
		in   []byte
		want string
		err  error
	}{
		{nil, "", ErrShort}, {[]byte{0xa1, 'x'}, "x", nil}, {[]byte{0xa0}, "", nil}, {[]byte{0xd9, 1, 'x'}, "x", nil}, {[]byte{0xc4, 1, 'x'}, "x", nil},
		{[]byte{0xda, 0, 1, 'x'}, "x", nil}, {[]byte{0xc5, 0, 1, 'x'}, "x", nil}, {[]byte{0xdb, 0, 0, 0, 1, 'x'}, "x", nil}, {[]byte{0xc6, 0, 0, 0, 1, 'x'}, "x", nil},
		{[]byte{0xa2, 'x'}, "", ErrShort}, {[]byte{0xd9}, "", ErrShort}, {[]byte{0xda, 0}, "", ErrShort}, {[]byte{0xdb, 0, 0, 0}, "", ErrShort}, {[]byte{0xdb, 255, 255, 255, 255}, "", ErrShort}, {[]byte{1}, "", ErrShape},
	} {
		if s, next, err := Bytes(c.in, 0); string(s) != c.want || err != c.err || err == nil && next != len(c.in) {
			t.Errorf("Bytes % x: %q, %d, %v", c.in, s, next, err)
		}
	}
	// A container whose size is known only at its end.
	for _, n := range []int{0, 15, 16, 65536} {
		m := OpenMap(nil)
		for i := range n {
			m = AppendInt(AppendInt(m, int64(i)), 0)
		}
		m = CloseMap(m, 0, n)
		if got, _, err := MapHeader(m, 0); got != n || err != nil {
			t.Errorf("CloseMap(%d): %d, %v", n, got, err)
		}
		if end, err := Skip(m, 0); end != len(m) || err != nil {
			t.Errorf("%d: one value of %d bytes in %d, %v", n, end, len(m), err)
		}
	}
}

func TestCheck(t *testing.T) {
	record := []byte{0x81, 0xa1, 'a', 1}
	var b []byte
	for _, sec := range []int64{5, 3, 9, 4} {
		b = AppendEntry(b, Unix(sec, 1), record)
	}
	good := len(b)
	count, first, last, ok, err := Check(b)
	if count != 4 || first != Unix(3, 1) || last != Unix(9, 1) || ok != good || err != nil {
		t.Errorf("%d %d %d %d %v", count, first, last, ok, err)
	}
	for _, bad := range [][]byte{{0x92, 1, 0x90}, {0x92, 1, 0xa0}, {0x92, 1}, {0xc1}} {
		count, _, _, ok, err := Check(append(bytes.Clone(b), bad...))
		if count != 4 || ok != good || err == nil {
			t.Errorf("% x: %d entries, %d bytes, %v", bad, count, ok, err)
		}
	}
	if count, _, _, ok, err := Check(nil); count != 0 || ok != 0 || err != nil {
		t.Errorf("nothing: %d %d %v", count, ok, err)
	}
}

func TestTime(t *testing.T) {
	for _, c := range []struct {
		in              Time
		millis, seconds int64
	}{{Unix(1, 999_999_999), 1999, 1}, {Unix(-1, 0), -1000, -1}, {-1, -1, -1}, {Unix(5, 0), 5000, 5}} {
		if c.in.Millis() != c.millis || c.in.Seconds() != c.seconds {
			t.Errorf("%d: %d ms, %d s", c.in, c.in.Millis(), c.in.Seconds())
		}
	}
	now := time.Unix(1700000000, 123456789)
	if got := FromTime(now); got != Unix(1700000000, 123456789) || !got.Time().Equal(now) {
		t.Errorf("got %d", got)
	}
	back, n, err := ReadTime(AppendTime(nil, FromTime(now)), 0)
	if back != FromTime(now) || n != 10 || err != nil {
		t.Errorf("%d %d %v", back, n, err)
	}
}

// TestBuilders compares the builders with an independent writer.
func TestBuilders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := rapid.IntRange(0, 63).Draw(t, "shift")
		i := rapid.Int64().Draw(t, "int") >> shift
		u := rapid.Uint64().Draw(t, "uint") >> shift
		n := rapid.SampledFrom([]int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536}).Draw(t, "n")
		s := string(bytes.Repeat([]byte{'x'}, n))
		f := rapid.Float64().Draw(t, "float")
		for _, c := range []struct{ got, want []byte }{
			{AppendUint(nil, u), msgp.AppendUint64(nil, u)},
			{AppendFloat(nil, f), binary.BigEndian.AppendUint64([]byte{0xcb}, math.Float64bits(f))},
			{AppendStr(nil, s), msgp.AppendString(nil, s)},
			{AppendBin(nil, []byte(s)), msgp.AppendBytes(nil, []byte(s))},
			{AppendMapHeader(nil, n), msgp.AppendMapHeader(nil, uint32(n))},
			{AppendArrayHeader(nil, n), msgp.AppendArrayHeader(nil, uint32(n))},
			{AppendBool(nil, true), msgp.AppendBool(nil, true)}, {AppendBool(nil, false), msgp.AppendBool(nil, false)},
			{AppendNil(nil), msgp.AppendNil(nil)},
		} {
			if !bytes.Equal(c.got, c.want) {
				t.Fatalf("got % x, want % x", c.got[:min(len(c.got), 12)], c.want[:min(len(c.want), 12)])
			}
		}
		if v, rest, err := msgp.ReadInt64Bytes(AppendInt(nil, i)); v != i || len(rest) != 0 || err != nil {
			t.Fatalf("msgp reads %d, %v; want %d", v, err, i)
		}
		if v, next, ok := readInt(AppendInt(nil, i), 0); v != i || !ok || next != len(AppendInt(nil, i)) {
			t.Fatalf("readInt(%d) = %d, %d, %v", i, v, next, ok)
		}
	})
}

// FuzzCheck holds Check and Skip against msgp's own walk.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{0x92, 1, 0x81, 0xa1, 'a', 1})
	f.Add([]byte{0x92, 0x92, 0xd7, 0, 0, 0, 0, 10, 0, 0, 0, 5, 0x80, 0x80})
	f.Add(bytes.Repeat([]byte{0x92, 0xc7, 8, 0, 0, 0, 0, 10, 0, 0, 0, 5, 0x80}, 3))
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Add(AppendEntry(nil, 5, kubernetes(f)))
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := Skip(b, 0)
		rest, theirs := msgp.Skip(b)
		if err == nil && (theirs != nil || len(b)-len(rest) != end) {
			t.Fatalf("Skip says %d, msgp %d and %v", end, len(b)-len(rest), theirs)
		}
		if err != nil && theirs == nil && !errors.Is(err, ErrDepth) {
			t.Fatalf("Skip says %v, msgp has no complaint", err)
		}
		count, first, last, ok, err := Check(b)
		if err == nil && ok != len(b) || first > last {
			t.Fatalf("Check: %d bytes of %d, %v", ok, len(b), err)
		}
		n := 0
		for rest := b[:ok]; len(rest) > 0; n++ {
			e, k, err := Next(rest)
			if err != nil || e.Time < first || e.Time > last {
				t.Fatalf("Next on checked bytes: %v %v", e.Time, err)
			}
			rest = rest[k:]
		}
		if n != count {
			t.Fatalf("Check counts %d, Next %d", count, n)
		}
	})
}
