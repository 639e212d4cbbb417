package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"
	"pgregory.net/rapid"
)

func TestFromJSON(t *testing.T) {
	for _, c := range []struct {
		src  string
		want tree
		n    int // 0: all
	}{
		{`null`, nil, 0}, {` true`, true, 0}, {"\r\n\tfalse ", false, 8}, {`0`, 0, 0}, {`-0`, 0, 0}, {`12 34`, 12, 2}, {`-129`, -129, 0}, {`00`, 0, 1}, {`-01`, 0, 2},
		{`18446744073709551615`, uint64(math.MaxUint64), 0}, {`-9223372036854775808`, math.MinInt64, 0},
		{`18446744073709551616`, 18446744073709551616.0, 0}, {`-9223372036854775809`, -9223372036854775809.0, 0},
		{`1.5`, 1.5, 0}, {`1e3`, 1000.0, 0}, {`1E-2]`, 0.01, 4}, {`1e999`, math.Inf(1), 0}, {`-1e999`, math.Inf(-1), 0}, {`0.1e+1`, 1.0, 0},
		{`""`, "", 0}, {`"a" x`, "a", 3}, {`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t", 0}, {`"\u00e9\u65e5\ud83d\ude80\u0000"`, "é日🚀\x00", 0},
		{`"\ud83d"`, "\uFFFD", 0}, {`"\ud83dx"`, "\uFFFDx", 0}, {`"\ud83d\n"`, "\uFFFD\n", 0}, {`"\ud83d\u0041"`, "\uFFFDA", 0}, {`"\ude80"`, "\uFFFD", 0}, {`"\ud83d\ue000\ud83d\uffff"`, "\uFFFD\ue000\uFFFD\uffff", 0},
		{`"\ud83d\ud83d\ude80"`, "\uFFFD🚀", 0}, {"\"raw \xff\x01\t\"", "raw \xff\x01\t", 0},
		{`[]`, []tree{}, 0}, {` [ 1 , [ ] , { } ] `, []tree{1, []tree{}, pairs{}}, 18}, {`{"b":1, "a" : {"c":[2]}}{`, pairs{{"b", 1}, {"a", pairs{{"c", []tree{2}}}}}, 24},
		{`{"a":1,"b":2,"a":3}`, pairs{{"a", 3}, {"b", 2}}, 0}, {`{"a":1,"\u0061":{"x":1,"x":2}}`, pairs{{"a", pairs{{"x", 2}}}}, 0},
		{`{"":1,"":2}`, pairs{{"", 2}}, 0},
	} {
		got, n, err := AppendFromJSON([]byte("before"), []byte(c.src))
		if c.n == 0 {
			c.n = len(c.src)
		}
		if want := pack([]byte("before"), c.want); !bytes.Equal(got, want) || n != c.n || err != nil {
			t.Errorf("%s: got % x, %d, %v; want % x, %d", c.src, got[6:], n, err, want[6:], c.n)
		}
	}
}

func TestFromJSONErrors(t *testing.T) {
	for _, c := range []struct {
		src  string
		want error
	}{
		{"", ErrShort}, {"  ", ErrShort}, {"tru", ErrShort}, {"-", ErrShort}, {"1.", ErrShort}, {"1e", ErrShort}, {"1e+", ErrShort}, {`"`, ErrShort}, {`"\`, ErrShort},
		{`"\u12`, ErrShort}, {`"\ud83d`, ErrShort}, {`"\ud83d\`, ErrShort}, {`"\ud83d\u`, ErrShort}, {"[", ErrShort}, {"[1", ErrShort}, {"[1,", ErrShort}, {"{", ErrShort}, {`{"a"`, ErrShort}, {`{"a":`, ErrShort}, {`{"a":1`, ErrShort}, {`{"a":1,`, ErrShort},
		{"x", ErrJSON}, {"trux", ErrJSON}, {"[01]", ErrJSON}, {"-x", ErrJSON}, {"1.x", ErrJSON}, {"1ex", ErrJSON}, {"+1", ErrJSON}, {".5", ErrJSON}, {"NaN", ErrJSON}, {`"\x"`, ErrJSON}, {`"\u12g4"`, ErrJSON},
		{`"\ud83d\uzzzz"`, ErrJSON}, {"[1 2]", ErrJSON}, {"[,1]", ErrJSON}, {"[1,]", ErrJSON}, {"{1:2}", ErrJSON}, {`{"a" 1}`, ErrJSON}, {`{"a":1 "b"}`, ErrJSON}, {`{"a":1,}`, ErrJSON}, {`{,}`, ErrJSON}, {"]", ErrJSON}, {"'a'", ErrJSON},
		{strings.Repeat("[", MaxDepth+1) + "1", ErrDepth}, {strings.Repeat(`{"a":`, MaxDepth+1) + "1", ErrDepth},
	} {
		got, n, err := AppendFromJSON([]byte("before"), []byte(c.src))
		if !errors.Is(err, c.want) || n != 0 || string(got) != "before" {
			t.Errorf("%s: %q, %d, %v, want %v", c.src, got, n, err, c.want)
		}
	}
	if _, _, err := AppendFromJSON(nil, []byte(strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth))); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
}

// TestFromJSONKeys draws objects with many repeated keys against a plain model.
func TestFromJSONKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		kinds := rapid.IntRange(1, 400).Draw(t, "kinds")
		var src []string
		var want pairs
		for i := range n {
			k := fmt.Sprint(strings.Repeat("k", i%40), rapid.IntRange(0, kinds).Draw(t, "key"))
			v := strings.Repeat("v", i)
			src = append(src, fmt.Sprintf("%q:%q", k, v))
			found := false
			for j := range want {
				if want[j].k == tree(k) {
					want[j].v, found = v, true
				}
			}
			if !found {
				want = append(want, pair{k, v})
			}
		}
		got, _, err := AppendFromJSON([]byte("before"), []byte("{"+strings.Join(src, ",")+"}"))
		if want := pack([]byte("before"), want); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got % x, %v\nwant % x", got, err, want)
		}
	})
}

// TestFromJSONManyKeys: nothing but keys takes linear time; at quadratic time this test
// would run for minutes.
func TestFromJSONManyKeys(t *testing.T) {
	const n = 300_000
	src := []byte{'{'}
	for i := range n {
		src = fmt.Appendf(src, `"key%d":1,`, i%(n/2))
	}
	src[len(src)-1] = '}'
	got, _, err := AppendFromJSON(nil, src)
	if count, _, _ := MapHeader(got, 0); count != n/2 || err != nil {
		t.Errorf("%d keys, %v", count, err)
	}
}

// FuzzFromJSON holds the reader against encoding/json: what that accepts we accept, with
// the same value, and what we write is one whole msgpack value.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{kubernetesRecord, `[1,-2.5e3,"a\u00e9\ud83d\ude80",null,{"a":1,"a":[]}]`, `{"a":`, `"\ud83d"`, `1e999`, `[[[]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, n, err := AppendFromJSON(nil, src)
		if err == nil {
			if end, err := Skip(got, 0); err != nil || end != len(got) || n > len(src) {
				t.Fatalf("%q: %d bytes of %d are a value: %v", src, end, len(got), err)
			}
			for cut := range n - 1 {
				if _, m, err := AppendFromJSON(nil, src[:cut]); err == nil && m == n {
					t.Fatalf("%q is accepted at %d bytes already", src, cut)
				} else if err != nil && !errors.Is(err, ErrShort) {
					t.Fatalf("%q: cut to %d bytes it is not short but %v", src, cut, err)
				}
			}
		}
		d := json.NewDecoder(bytes.NewReader(src))
		d.UseNumber()
		var want any
		if d.Decode(&want) != nil || errors.Is(err, ErrDepth) {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v, but encoding/json reads %v", src, err, want)
		}
		// encoding/json repairs text while it reads, we do when we write.
		back, _, err := msgp.ReadIntfBytes(got)
		if err != nil {
			t.Fatalf("%q: msgp: %v", src, err)
		}
		if !same(want, back) {
			t.Fatalf("%q: got %#v, want %#v", src, back, want)
		}
	})
}

func same(want, got any) bool {
	switch want := want.(type) {
	case json.Number:
		f, _ := want.Float64()
		switch got := got.(type) {
		case float64:
			return got == f
		default:
			return fmt.Sprint(got) == want.String() || want.String() == "-0"
		}
	case string:
		s, ok := got.(string)
		return ok && strings.ToValidUTF8(s, "\uFFFD") == strings.ToValidUTF8(want, "\uFFFD") || ok && len([]rune(s)) == len([]rune(want))
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !same(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok || len(m) < len(want) {
			return false
		}
		for k, v := range m {
			if w, ok := want[string([]rune(k))]; ok && len(m) == len(want) && !same(w, v) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, got)
}
