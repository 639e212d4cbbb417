package router

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustCompile(t *testing.T, pattern string) *Pattern {
	t.Helper()
	p, err := Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLookup(t *testing.T) {
	var tab Table[string, int]
	tab.AddFilter(mustCompile(t, "**"), "f0")
	tab.AddMatch(mustCompile(t, "a.**"), 1)
	tab.AddFilter(mustCompile(t, "b.*"), "f1")
	tab.AddFilter(mustCompile(t, "a.*"), "dead for a.*")
	tab.AddMatch(mustCompile(t, "b.** c"), 2)
	tab.AddMatch(mustCompile(t, "b.x"), 3)
	tests := []struct {
		tag     string
		filters []string
		match   int
		ok      bool
	}{
		{"a.b", []string{"f0"}, 1, true},
		{"b.x", []string{"f0", "f1"}, 2, true},
		{"b.x.y", []string{"f0"}, 2, true},
		{"c", []string{"f0"}, 2, true},
		{"d", []string{"f0"}, 0, false},
	}
	for _, tt := range tests {
		filters, match, ok := tab.Lookup(tt.tag)
		if !slices.Equal(filters, tt.filters) || match != tt.match || ok != tt.ok {
			t.Errorf("Lookup(%q) = %v, %d, %v; want %v, %d, %v", tt.tag, filters, match, ok, tt.filters, tt.match, tt.ok)
		}
	}
}

func TestShadowed(t *testing.T) {
	var tab Table[string, int]
	tab.AddMatch(mustCompile(t, "a.*"), 0)
	tab.AddMatch(mustCompile(t, "a.*"), 1) // same pattern
	tab.AddMatch(mustCompile(t, "x **"), 2)
	tab.AddFilter(mustCompile(t, "b"), "behind everything")
	tab.AddMatch(mustCompile(t, "**"), 4)
	want := []Shadow{{1, 0}, {3, 2}, {4, 2}}
	if got := tab.Shadowed(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var fine Table[string, int]
	fine.AddFilter(mustCompile(t, "**"), "f")
	fine.AddMatch(mustCompile(t, "a"), 0)
	fine.AddMatch(mustCompile(t, "**"), 1)
	if got := fine.Shadowed(); got != nil {
		t.Errorf("got %v, want none", got)
	}
}

// TestCoversIsCertain: what one pattern is said to cover it really takes.
func TestCoversIsCertain(t *testing.T) {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".", "*", "**", ".**", "**.", "{a,b}"}), 1, 5)
	rapid.Check(t, func(rt *rapid.T) {
		p := mustCompile(t, strings.Join(parts.Draw(rt, "p"), ""))
		q := mustCompile(t, strings.Join(parts.Draw(rt, "q"), ""))
		tag := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "."}), 0, 6).Draw(rt, "tag"), "")
		if p.covers(q) && q.Match(tag) && !p.Match(tag) {
			rt.Fatalf("%q is said to cover %q, but only the latter takes %q", p, q, tag)
		}
	})
}

func TestCovers(t *testing.T) {
	tests := []struct {
		p, q string
		want bool
	}{
		{"a.**", "a.b", true}, {"a.**", "a", true}, {"a.**", "a.b.**", true}, {"a.**", "a.**", true}, {"a.**", "a.*", true}, {"a.**", "a.b* a.c", true},
		{"a.**", "ab.**", false}, {"a.**", "a.b c", false}, {"a.**", "**", false}, {"a.**", "**.a", false}, {"a.*", "a.*.b", false}, {"a**", "ab.*", true},
		{"a.**", "a*", false}, {"{a,b}", "a", true}, {"/a.*/", "/a.*/ a", false}, {"**", "/x/", true},
	}
	for _, tt := range tests {
		if got := mustCompile(t, tt.p).covers(mustCompile(t, tt.q)); got != tt.want {
			t.Errorf("%q covers %q: %v, want %v", tt.p, tt.q, got, tt.want)
		}
	}
}
