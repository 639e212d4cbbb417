package rx

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// vector is one line of the golden files: [pattern, flags, subject, result], recorded from
// Ruby 3.1. flags: 1 i, 2 x, 4 m. The result is a list of byte offsets, null for no match,
// or a text that begins with "error:".
type vector struct {
	pattern string
	flags   int
	subject string
	loc     []int
	failure string
}

func readVectors(t testing.TB, name string) []vector {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []vector
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var row [4]json.RawMessage
		var v vector
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatalf("%s: %q: %v", name, sc.Text(), err)
		}
		for i, p := range []any{&v.pattern, &v.flags, &v.subject} {
			if err := json.Unmarshal(row[i], p); err != nil {
				t.Fatal(err)
			}
		}
		if json.Unmarshal(row[3], &v.failure) != nil || v.failure == "" {
			if err := json.Unmarshal(row[3], &v.loc); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func (v vector) options() Options {
	return Options{IgnoreCase: v.flags&1 != 0, Extended: v.flags&2 != 0, DotAll: v.flags&4 != 0}
}

// known lists the differences from Ruby that the package's documentation admits: what is
// refused, and what Ruby refuses and we take.
func known(v vector) string {
	refused := []string{`\G`, `\K`, `\X`, `(?~`, `(?(`, `\g<`, `\c\`, `[a-[b]]`, `\k<1+0>`, `InBasicLatin`, `In_Basic_Latin`, `\p{Emoji}`}
	for _, r := range refused {
		if strings.Contains(v.pattern, r) && v.pattern != `[\X]` && v.failure == "" {
			return "refused"
		}
	}
	if strings.HasPrefix(v.failure, "error: invalid pattern in look-behind") {
		return "taken" // look-behind of any length
	}
	if v.flags&1 != 0 && (strings.Contains(v.pattern, "ß") || strings.Contains(v.subject, "ß")) {
		return "differs" // one letter as two
	}
	return ""
}

func TestSemantics(t *testing.T) {
	for _, v := range readVectors(t, "semantics.jsonl") {
		re, err := Compile(v.pattern, v.options())
		switch k := known(v); {
		case k == "refused":
			if err == nil {
				t.Errorf("/%s/ is compiled, want it refused", v.pattern)
			}
			continue
		case k == "taken":
			if err != nil {
				t.Errorf("/%s/: %v", v.pattern, err)
			}
			continue
		case k == "differs":
			continue
		case v.failure != "":
			if err == nil {
				t.Errorf("/%s/ is compiled, Ruby says %s", v.pattern, v.failure)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		check(t, re, v)
	}
}

// check compares with the recorded result, and the two engines with each other.
func check(t *testing.T, re *Regexp, v vector) {
	t.Helper()
	if got := re.FindSubmatchIndex([]byte(v.subject)); !slices.Equal(got, v.loc) {
		t.Errorf("/%s/ flags %d on %q (quick %v)\n got %v\nwant %v", v.pattern, v.flags, v.subject, re.quick([]byte(v.subject)), got, v.loc)
	}
	if got := re.Match([]byte(v.subject)); got != (v.loc != nil) {
		t.Errorf("/%s/ flags %d on %q: Match gives %v, want %v", v.pattern, v.flags, v.subject, got, v.loc != nil)
	}
}

// TestRandomPatterns compares generated patterns and subjects with Ruby.
func TestRandomPatterns(t *testing.T) {
	for _, v := range readVectors(t, "random.jsonl") {
		re, err := Compile(v.pattern, v.options())
		switch {
		case known(v) == "taken":
		case v.failure != "":
			if err == nil {
				t.Errorf("/%s/ is compiled, Ruby says %s", v.pattern, v.failure)
			}
		case err != nil:
			t.Errorf("%v", err)
		default:
			check(t, re, v)
		}
	}
}
