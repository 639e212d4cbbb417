package rx

import (
	"fmt"
	"strings"
	"testing"
)

// TestAppendAll has what Ruby's gsub gives with each match in brackets.
func TestAppendAll(t *testing.T) {
	for _, c := range []struct{ pattern, subject, want string }{
		{`x*`, "abc", "[]a[]b[]c[]"},
		{`a*`, "baaac", "[]b[aaa][]c[]"},
		{`\d+`, "a1b22", "a[1]b[22]"},
		{`^`, "a\nb", "[]a\n[]b"},
		{`^\s*`, "  a", "[  ]a"},
		{`(?<=a)b`, "abab", "a[b]a[b]"},
		{`b(?!c)`, "bcb", "bc[b]"},
		{`(?<!x)[[:word:]]*`, "é", "[é][]"},
		{`ä|ö`, "aäöb", "a[ä][ö]b"},
		{`z`, "abc", "abc"},
		{`a|`, "aba", "[a][]b[a][]"},
	} {
		re, err := Compile(c.pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := re.AppendAll(nil, []byte(c.subject), 100)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		at := 0
		for i := 0; i < len(all); i += 2 * len(re.Names()) {
			fmt.Fprintf(&b, "%s[%s]", c.subject[at:all[i]], c.subject[all[i]:all[i+1]])
			at = all[i+1]
		}
		b.WriteString(c.subject[at:])
		if b.String() != c.want {
			t.Errorf("/%s/ in %q: %q, want %q", c.pattern, c.subject, b.String(), c.want)
		}
	}
}

func TestAppendAllLimit(t *testing.T) {
	for _, pattern := range []string{`a`, `a*`, `(?<=b)a|a`} {
		re, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := re.AppendAll(nil, []byte(strings.Repeat("ab", 50)), 7)
		if err != nil || len(all) != 14 {
			t.Errorf("/%s/: %d numbers, %v", pattern, len(all), err)
		}
	}
}
