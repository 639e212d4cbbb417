package router

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/ruby/rx"

	"pgregory.net/rapid"
)

// TestGoldenPatterns has what Fluentd's own matcher said of these tags.
func TestGoldenPatterns(t *testing.T) {
	tests := []struct{ pattern, yes, no string }{
		{"a.*", "a.b a.", "a a.b.c"},
		{"a.**", "a a.b a.b.c a.", "ab"},
		{"**.c", "c a.c a.b.c", "ac"},
		{"a.**.c", "a.c a.b.c a.b.d.c", "ac"},
		{"**", "a", ""},
		{"*", "a", "a.b"},
		{"a**", "a ab a.b", "b"},
		{"a*", "a ab", "a.b"},
		{"*.**", "a a.b", ""},
		{"kubernetes.var.log.containers.**nginx**", "kubernetes.var.log.containers.nginx-1.log kubernetes.var.log.containers.a.nginx.log", "kubernetes.var.log.nginx"},
		{"{a,b}.c", "a.c b.c", "c.c"},
		{"a.{b,c.**}", "a.b a.c a.c.d", "a.b.d"},
		{"{a,b", "a b", "c"},
		{"a}", "a}", "a"},
		{"a,b", "a,b", "a b"},
		{"a.b c.*", "a.b c.d", "a.c"},
		{`/a\.(b|c)/`, "a.b", "a.bd xa.b"},
		{`a\.b`, "a.b", "axb"},
		{"a-b_c", "a-b_c", "a"},
		{"a/b", "a/b", "a"},
		{"A.*", "A.x", "a.x"},
		{"**.a.**", "a x.a x.a.y", "xa"},
		// Ours, by the same rules.
		{"", "a a.b", ""},
		{"a b **", "x.y", ""},
		{"a.", "a", "a. ab"},
		{`a\*b`, "a*b", "axb"},
		{"a?", "a?", "ab a"},
		{"[a]", "[a]", "a"},
		{"a.{b.{c,d},e}.f", "a.b.c.f a.b.d.f a.e.f", "a.b.f a.c.f"},
		{"a{,b}", "a ab", "abb"},
		{"日*.本", "日.本 日x.本", "本.本"},
		{"a.*.c", "a.b.c a..c", "a.c a.b.b.c"},
		{"**a**", "a xax x.a.y", "x"},
		// Fluentd puts no group around the expression: \Aapp|db\Z.
		{`/app|db/`, "app app.x x.db", "x"},
	}
	for _, tt := range tests {
		p, err := Compile(tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		for _, tag := range strings.Fields(tt.yes) {
			if !p.Match(tag) {
				t.Errorf("%q does not match %q", tt.pattern, tag)
			}
		}
		for _, tag := range strings.Fields(tt.no) {
			if p.Match(tag) {
				t.Errorf("%q matches %q", tt.pattern, tag)
			}
		}
	}
}

// TestEmptyAndNewline has the tags that strings.Fields cannot hold.
func TestEmptyAndNewline(t *testing.T) {
	tests := []struct {
		pattern, tag string
		want         bool
	}{
		{"**", "", true}, {"*", "", true}, {"*.**", "", true}, {"a.b", "a.b\n", true}, {"a.b", "a.b\n\n", false},
		{"a.**", "a.b\n", true}, {"a.**", "a.b\nc", false}, {"a.*", "a.b\nc", true}, {"**.c", "x\n.c", false}, {"**.c", "c\n", true}, {"/a.b/", "a.b\n", true},
	}
	for _, tt := range tests {
		p, err := Compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tt.tag); got != tt.want {
			t.Errorf("%q on %q: %v, want %v", tt.pattern, tt.tag, got, tt.want)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, pattern := range []string{"/a b/", "/abc", "/", "/(/", strings.Repeat("{", 50)} {
		if _, err := Compile(pattern); !errors.Is(err, ErrPattern) {
			t.Errorf("%q: error %v, want ErrPattern", pattern, err)
		}
	}
}

// translate gives the regular expression that Fluentd makes of a glob, as the golden
// vectors show it. It is written apart from the compiler on purpose.
func translate(pat string) string {
	var b strings.Builder
	b.WriteString(`\A`)
	dot, open := false, 0
	for i := 0; i < len(pat); i++ {
		if strings.HasPrefix(pat[i:], "**") {
			if dot {
				b.WriteString(`(?![^\.])`)
				dot = false
			}
			i++
			if strings.HasPrefix(pat[i+1:], ".") {
				b.WriteString(`(?:.*\.|\A)`)
				i++
			} else {
				b.WriteString(`.*`)
			}
			continue
		}
		if dot {
			b.WriteString(`\.`)
			dot = false
		}
		switch c := pat[i]; {
		case c == '.':
			dot = true
		case c == '*':
			b.WriteString(`[^\.]*`)
		case c == '{':
			b.WriteString(`(?:`)
			open++
		case c == '}' && open > 0:
			b.WriteString(`)`)
			open--
		case c == ',' && open > 0:
			b.WriteString(`|`)
		case c == '\\':
			if i++; i < len(pat) {
				b.WriteString(`\` + pat[i:i+1])
			}
		default:
			b.WriteString(`\x` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
		}
	}
	return b.String() + strings.Repeat(")", open) + `\Z`
}

// TestAgainstTranslation compares the matcher with the regular expression that Fluentd
// would use.
func TestAgainstTranslation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".", "*", "**", ".**", "**.", "{", ",", "}", "-", `\.`}), 1, 9).Draw(t, "pattern"), "")
		tag := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".", "-", "\n", ",", "}", "a.b"}), 0, 8).Draw(t, "tag"), "")
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.All() {
			return
		}
		re, err := rx.Compile(translate(pattern), rx.Options{})
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		if got, want := p.Match(tag), re.Match([]byte(tag)); got != want {
			t.Fatalf("%q on %q: %v, but /%s/ says %v", pattern, tag, got, re, want)
		}
	})
}

// TestLongTag passes the size up to which no memory is needed.
func TestLongTag(t *testing.T) {
	p, err := Compile("a.{b,c}.**.z*")
	if err != nil {
		t.Fatal(err)
	}
	long := "a.c." + strings.Repeat("x.", 5000) + "zz"
	if !p.Match(long) || p.Match(long+".y") {
		t.Error("a long tag is matched wrongly")
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"a.**", "{a,b.{c,d}}.*", "/a|b/ c", `\`, "**.**.**", "{{{", "日.*"} {
		f.Add(s, "a.b.c")
	}
	f.Fuzz(func(t *testing.T, pattern, tag string) {
		p, err := Compile(pattern)
		if err != nil {
			if !errors.Is(err, ErrPattern) {
				t.Errorf("%q: %v", pattern, err)
			}
			return
		}
		p.Match(tag)
	})
}

func BenchmarkMatch(b *testing.B) {
	const tag = "kubernetes.var.log.containers.api-6d4cf56db6-x2v9k_production_api.log"
	for _, pattern := range []string{"**", "kubernetes.**", "kubernetes.var.log.containers.*", "**.log", "kubernetes.**nginx**", "{docker,kubernetes}.**.log", "app.**"} {
		p, err := Compile(pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(pattern, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Match(tag)
			}
		})
	}
}
