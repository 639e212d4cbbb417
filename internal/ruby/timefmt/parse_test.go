package timefmt

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

func jst() *time.Location { return time.FixedZone("JST", 9*3600) }

func january() time.Time { return time.Unix(1704067200, 0) }

// TestParseGolden compares with what Ruby's Time.strptime made of the same texts.
func TestParseGolden(t *testing.T) {
	f, err := os.Open("testdata/strptime.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); n++ {
		var row []any
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		layout, text := row[0].(string), row[1].(string)
		p, err := CompileParser(layout)
		if err != nil {
			t.Errorf("%s: %v", layout, err)
			continue
		}
		m, ok := p.Parse([]byte(text), jst(), january)
		if row[2] == nil {
			if ok {
				t.Errorf("%s: %q gives %v, Ruby refuses it", layout, text, m)
			}
			continue
		}
		off := m.Offset
		if !m.Zoned {
			off = 9 * 3600
		}
		if want := [3]int64{int64(row[2].(float64)), int64(row[3].(float64)), int64(row[4].(float64))}; !ok || [3]int64{m.Sec, m.Nsec, int64(off)} != want {
			t.Errorf("%s: %q gives %v %v, Ruby %v", layout, text, m, ok, want)
		}
	}
	if n < 50 {
		t.Errorf("only %d texts", n)
	}
}

func TestParseAny(t *testing.T) {
	for _, l := range append(isoLayouts, anyLayouts...) {
		if l == nil {
			t.Fatal("a layout does not compile")
		}
	}
	for text, want := range map[string]int64{
		"2023-11-14T22:13:20Z": 1700000000, "2023-11-14 22:13:20 +0000": 1700000000, "2023-11-15 07:13:20": 1700000000, " 14/Nov/2023:22:13:20 +0000 ": 1700000000,
		"Tue, 14 Nov 2023 22:13:20 GMT": 1700000000, "2023-11-15": 1699974000, "nonsense": -1, "": -1,
	} {
		m, ok := ParseAny([]byte(text), jst(), january)
		if ok != (want >= 0) || ok && m.Sec != want {
			t.Errorf("%q: %v %v, want %d", text, m, ok, want)
		}
	}
}

func TestParseAllocates(t *testing.T) {
	p, err := CompileParser("%Y-%m-%dT%H:%M:%S.%N%z")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("2023-11-14T22:13:20.123456789+09:00")
	if n := testing.AllocsPerRun(100, func() { p.Parse(text, nil, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParseAny wants a moment within the years that can be written, or none.
func FuzzParseAny(f *testing.F) {
	for _, s := range []string{"2020-01-02 3:04:05 PM", "Thu Jan 2 2020", "R02.01.02", "20200102T030405Z", "1/2/2020", "2020-002", "02.01.20 1:2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, ok := ParseAny(text, jst(), january); ok && (m.Nsec < 0 || m.Nsec > 999999999 || m.Sec > 253402387200) {
			t.Errorf("%q: %+v", text, m)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("%Y-%m-%dT%H:%M:%S.%N%z", []byte("2023-11-14T22:13:20.123456789+09:00"))
	f.Add("%b %e %l:%M %p", []byte("Nov 14 10:13 PM"))
	f.Add("%s%L", []byte("1700000000123"))
	f.Add("%j%Y%C", []byte("3662023"))
	f.Fuzz(func(t *testing.T, layout string, text []byte) {
		p, err := CompileParser(layout)
		if err != nil {
			return
		}
		m, ok := p.Parse(text, jst(), january)
		if ok && (m.Nsec < 0 || m.Nsec > 999_999_999) {
			t.Errorf("%q %q: %v", layout, text, m)
		}
	})
}
