package event

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// A slow, plain model of a record, drawn by rapid, written as msgpack by the builders and
// printed by a second, independent printer.

type (
	tree  any // nil, bool, int64, uint64, float64, string, bin, extv, []tree, pairs
	bin   string
	extv  struct{ data []byte } // a whole fixext8 or ext8 value
	pairs []pair
	pair  struct{ k, v tree }
)

func drawString(t *rapid.T, label string) string {
	switch rapid.IntRange(0, 4).Draw(t, label+" kind") {
	case 0:
		return rapid.StringMatching(`[a-z_.]{0,40}`).Draw(t, label)
	case 1:
		return string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, label))
	case 2:
		return rapid.String().Draw(t, label)
	case 3: // long plain runs around something special
		run := strings.Repeat("x", rapid.IntRange(0, 70).Draw(t, label+" run"))
		return run + rapid.SampledFrom([]string{"\"", "\\", "\x00", "\x1f", "\x7f", "\xff", "é", "日", "🚀", "\u2028", "\xed\xa0\x80", "\xed\x9f\xbf", "\xf0\x9f\x9a", "\xf0\x80\x80\x80", "\xf0\x90\x80\x80", "\xe0\x80\x80", "\xe0\xa0\x80", "\xf4\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xc0\x80", "\xf5\x80"}).Draw(t, label+" special") + run
	default:
		return strings.Repeat(rapid.SampledFrom([]string{"\x01", "\xc3", "\"", "\xf0\x90"}).Draw(t, label+" of"), rapid.IntRange(0, 40).Draw(t, label+" times"))
	}
}

func drawScalar(t *rapid.T) tree {
	switch rapid.IntRange(0, 9).Draw(t, "scalar") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.Uint64().Draw(t, "uint")
	case 4:
		return rapid.Float64().Draw(t, "float")
	case 5:
		return rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1e14, 1e15, 1e15 + 0.5, 1e16 - 2, 1e16, 9.9e-5, 1e-4, math.NaN(), math.Inf(1), math.Inf(-1), 1 << 62, 1 << 63, -1 << 63, 1e300}).Draw(t, "float")
	case 6:
		return bin(drawString(t, "bin"))
	case 7:
		return extv{AppendTime(nil, Time(rapid.Int64Range(0, math.MaxUint32).Draw(t, "time"))*1e9)}
	default:
		return drawString(t, "str")
	}
}

func drawTree(t *rapid.T, depth int) tree {
	switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		list := []tree{}
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			list = append(list, drawTree(t, depth-1))
		}
		return list
	case kind <= 2 && depth > 0:
		return drawMap(t, depth)
	}
	return drawScalar(t)
}

func drawMap(t *rapid.T, depth int) pairs {
	m := pairs{}
	for range rapid.SampledFrom([]int{0, 1, 2, 3, 4, 17}).Draw(t, "pairs") {
		var k tree = drawString(t, "key")
		if rapid.IntRange(0, 9).Draw(t, "odd key") == 0 {
			k = drawTree(t, depth-1)
		}
		m = append(m, pair{k, drawTree(t, depth-1)})
	}
	return m
}

// pack writes a tree as msgpack.
func pack(dst []byte, v tree) []byte {
	switch v := v.(type) {
	case nil:
		return AppendNil(dst)
	case bool:
		return AppendBool(dst, v)
	case int:
		return AppendInt(dst, int64(v))
	case int64:
		return AppendInt(dst, v)
	case uint64:
		return AppendUint(dst, v)
	case float64:
		return AppendFloat(dst, v)
	case string:
		return AppendStr(dst, v)
	case bin:
		return AppendBin(dst, []byte(v))
	case extv:
		return append(dst, v.data...)
	case []tree:
		dst = AppendArrayHeader(dst, len(v))
		for _, x := range v {
			dst = pack(dst, x)
		}
		return dst
	case pairs:
		dst = AppendMapHeader(dst, len(v))
		for _, p := range v {
			dst = pack(pack(dst, p.k), p.v)
		}
		return dst
	}
	panic(fmt.Sprintf("pack %T", v))
}

// slowScrub replaces each longest beginning of a character that does not go on, and each
// byte that cannot begin one.
func slowScrub(s string) string {
	var out strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			for k := 2; k <= 3 && k <= len(s); k++ {
				if !utf8.FullRuneInString(s[:k]) {
					n = k
				}
			}
		}
		out.WriteRune(r)
		s = s[n:]
	}
	return out.String()
}

// slowFloat places the point itself; only the digits are strconv's.
func slowFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	sign := ""
	if math.Signbit(f) {
		sign, f = "-", -f
	}
	if f == 0 {
		return sign + "0.0"
	}
	mant, e, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.Replace(mant, ".", "", 1)
	exp, _ := strconv.Atoi(e)
	switch {
	case exp < -4 || exp >= 15 && len(digits) <= exp+1:
		rest := digits[1:]
		if rest == "" {
			rest = "0"
		}
		return fmt.Sprintf("%s%s.%se%+03d", sign, digits[:1], rest, exp)
	case exp < 0:
		return sign + "0." + strings.Repeat("0", -exp-1) + digits
	case len(digits) <= exp+1:
		return sign + digits + strings.Repeat("0", exp+1-len(digits)) + ".0"
	}
	return sign + digits[:exp+1] + "." + digits[exp+1:]
}

// slowText is Ruby's to_s without going into String#inspect: the properties that use it
// draw no strings inside containers there.
func slowText(v tree) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return slowScrub(v)
	case bin:
		return slowScrub(string(v))
	case float64:
		return slowFloat(v)
	case extv:
		return fmt.Sprint(binary.BigEndian.Uint32(v.data[2:]))
	case []tree, pairs:
		return string(AppendText(nil, pack(nil, v)))
	}
	return fmt.Sprint(v)
}

// slowJSON prints a tree as JSON text.
func slowJSON(v tree, style JSONStyle, depth int, o *JSONOptions, path string, drop map[string]bool) string {
	var out strings.Builder
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return slowQuote(v, style)
	case bin:
		return slowQuote(string(v), style)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "null"
		}
		if n, acc := new(big.Float).SetFloat64(v).Int64(); style == Oj && acc == big.Exact {
			return strconv.FormatInt(n, 10) + ".0"
		}
		return slowFloat(v)
	case []tree:
		out.WriteString("[")
		sep := ""
		for i, x := range v {
			p := fmt.Sprintf("%s[%d]", path, i)
			if drop[p] || drop[fmt.Sprintf("%s[%d]", path, i-len(v))] {
				continue
			}
			out.WriteString(sep + slowJSON(x, style, depth+1, o, p, drop))
			sep = ","
		}
		return out.String() + "]"
	case pairs:
		out.WriteString("{")
		sep := ""
		for _, x := range v {
			p := path + "?"
			switch k := x.k.(type) {
			case string:
				p = path + "." + k
			case bin:
				p = path + "." + string(k)
			}
			empty := x.v == tree("") || x.v == tree(bin(""))
			if drop[p] || depth == 0 && o.DropEmpty && empty {
				continue
			}
			out.WriteString(sep + slowQuote(slowText(x.k), style) + ":" + slowJSON(x.v, style, depth+1, o, p, drop))
			sep = ","
		}
		return out.String() + "}"
	}
	return slowText(v)
}

func slowQuote(s string, style JSONStyle) string {
	return `"` + slowEscape(slowScrub(s), style) + `"`
}

func slowEscape(s string, style JSONStyle) string {
	var out strings.Builder
	for _, r := range s {
		if at := strings.IndexRune("\"\\\b\t\n\f\r", r); at >= 0 {
			out.WriteString(`\` + `"\btnfr`[at:at+1])
		} else if r < ' ' && style != Yajl {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else if r < ' ' {
			fmt.Fprintf(&out, `\u%04X`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
