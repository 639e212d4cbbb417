package rx

import (
	"bufio"
	"encoding/json"
	"errors"
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
	var re *Regexp
	var err error
	var last vector
	for _, v := range readVectors(t, "random.jsonl") {
		if v.pattern != last.pattern || v.flags != last.flags {
			re, err = Compile(v.pattern, v.options())
		}
		last = v
		switch {
		case known(v) == "taken":
		case v.failure != "":
			if err == nil {
				t.Errorf("/%s/ is compiled, Ruby says %s", v.pattern, v.failure)
			}
		case err != nil:
			// What becomes of \1 within group 1 is too strange to be copied.
			if !strings.Contains(err.Error(), "inside its own group") {
				t.Errorf("%v", err)
			}
		default:
			check(t, re, v)
		}
	}
}

func TestParseLiteral(t *testing.T) {
	tests := []struct {
		text, pattern string
		yes, no       string
	}{
		{"/a/", "a", "a", "A"},
		{"/a/i", "a", "A", "b"},
		{"/a.b/im", "a.b", "A\nB", "ab"},
		{"/a.b/", "a.b", "axb", "a\nb"},
		{"/a.b/mi", "a.b", "a\nB", "ab"},
		{"a.b", "a.b", "axb", "AXB"},
		{"^x$", "^x$", "y\nx\nz", "xx"},
		{"/a", "", "anything", ""},
		{"/a/b/", "a/b", "a/b", "ab"},
		{"/a/x", "a", "a", "b"},
		{"//", "", "anything", ""},
		{"/", "", "anything", ""},
		{"/ab", "", "anything", ""},
	}
	for _, tt := range tests {
		re, err := ParseLiteral(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if re.String() != tt.pattern || !re.Match([]byte(tt.yes)) || tt.no != "" && re.Match([]byte(tt.no)) {
			t.Errorf("%q: pattern %q, %q %v, %q %v", tt.text, re, tt.yes, re.Match([]byte(tt.yes)), tt.no, re.Match([]byte(tt.no)))
		}
	}
	for _, text := range []string{"/abc", "/a/abc", "/é/abc"} {
		if _, err := ParseLiteral(text); err == nil {
			t.Errorf("%q is taken, want the closing slash missed", text)
		}
	}
}

// TestRefused has constructs that we lack: the message must name them.
func TestRefused(t *testing.T) {
	tests := []struct{ pattern, want string }{
		{`a\Gb`, `\G is not supported at offset 1`},
		{`\K`, `\K is not supported`},
		{`\X`, `\X is not supported`},
		{`(?~a)`, "absence operator"},
		{`(a)?(?(1)b|c)`, "conditional"},
		{`(?<a>b)\g<a>`, `\g`},
		{`\p{InCyrillic}`, "{InCyrillic}"},
		{`(a\1)`, "inside its own group"},
		{`(?<n>a)|(?<n>b)\k<n>`, "several groups"},
		{strings.Repeat("(", 300), "nested too deeply"},
		{strings.Repeat("[", 300), "nested too deeply"},
		{"a\xff", "not valid UTF-8"},
	}
	for _, tt := range tests {
		_, err := Compile(tt.pattern, Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("/%s/: error %v, want one with %q", tt.pattern, err, tt.want)
		}
	}
}

// TestNames has the rule that groups without a name do not count beside named ones.
func TestNames(t *testing.T) {
	tests := []struct {
		pattern string
		want    []string
	}{
		{`a`, []string{""}},
		{`(a)(b)`, []string{"", "", ""}},
		{`(?<x>a)(b)(?'y'c)`, []string{"", "x", "y"}},
		{`(?<x>a)|(?<x>b)`, []string{"", "x", "x"}},
	}
	for _, tt := range tests {
		re, err := Compile(tt.pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(re.Names(), tt.want) {
			t.Errorf("/%s/: names %q, want %q", tt.pattern, re.Names(), tt.want)
		}
	}
}

// TestEngines fixes which expressions run in linear time: the ones that log configurations
// are full of must.
func TestEngines(t *testing.T) {
	tests := []struct {
		pattern string
		linear  bool
	}{
		{`^(?<host>[^ ]*) [^ ]* (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>[^\"]*?)(?: +\S*)?)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>[^\"]*)" "(?<agent>[^\"]*)")?$`, true},
		{`^(?<time>.+) (?<stream>stdout|stderr)( (?<logtag>.))? (?<log>.*)$`, true},
		{`(?i)error|[[:alpha:]&&[^b]]+`, true},
		{`(?<!a)b`, false},
		{`(a)\1`, false},
		{`a++b`, false},
		{`a\Z`, false},     // only for subjects that end in a newline
		{`\bfoo\b`, false}, // only for subjects beyond ASCII
	}
	for _, tt := range tests {
		re, err := Compile(tt.pattern, Options{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if re.Linear() != tt.linear {
			t.Errorf("/%s/: linear %v", tt.pattern, re.Linear())
		}
	}
}

// TestTimeout has an expression that backtracks without end.
func TestTimeout(t *testing.T) {
	re, err := Compile(`^(?=.)(\w+\s?)+$`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	subject := []byte(strings.Repeat("a", 60) + "!")
	if _, err := re.AppendSubmatchIndex(nil, subject); !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v, want ErrTimeout", err)
	}
	if re.Match(subject) || re.FindSubmatchIndex(subject) != nil || re.Timeouts() != 3 {
		t.Errorf("a match that takes too long counts as none; %d time-outs", re.Timeouts())
	}
}

// TestInvalidUTF8 feeds every engine wrong bytes.
func TestInvalidUTF8(t *testing.T) {
	subject := []byte("a\xffb\xe3\x81z")
	for _, pattern := range []string{`a(.)b(..)z`, `a(.)b(?=.)(..)z`, `(\W+)`, `\bz`} {
		re, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if loc := re.FindSubmatchIndex(subject); loc == nil {
			t.Errorf("/%s/ does not match", pattern)
		}
	}
	re, err := Compile(`a(.)b(?=.)(..)z`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := re.FindSubmatchIndex(subject), []int{0, 6, 1, 2, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`^(?<a>[^ ]*) \d+$`, `[a-z&&[^b]]`, `(?i)x(?-i:y)|z`, `\u{41 42}+`, `(?<=a|b)c++\1`, `[[:^alpha:]\w-]`, `\xE3\x81\x82`, `a{,2}?{3}`, "(?x) a # b\n c"} {
		f.Add(s, 0, []byte("ab c"))
	}
	f.Fuzz(func(t *testing.T, pattern string, flags int, subject []byte) {
		if len(subject) > 1000 || len(pattern) > 200 {
			return
		}
		re, err := Compile(pattern, Options{IgnoreCase: flags&1 != 0, DotAll: flags&2 != 0, Extended: flags&4 != 0})
		if err != nil {
			return
		}
		loc := re.FindSubmatchIndex(subject)
		if loc != nil && len(loc) != 2*len(re.Names()) {
			t.Fatalf("/%s/: %d offsets for %d groups", pattern, len(loc), len(re.Names()))
		}
		for i := 0; i < len(loc); i += 2 {
			if (loc[i] < 0) != (loc[i+1] < 0) || loc[i] > loc[i+1] || loc[i+1] > len(subject) {
				t.Fatalf("/%s/ on %q: offsets %v", pattern, subject, loc)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	line := []byte(`192.168.0.1 - - [28/Feb/2013:12:00:00 +0900] "GET /index.html HTTP/1.1" 200 777 "-" "Opera/12.0"`)
	for name, pattern := range map[string]string{
		"apache2":   `^(?<host>[^ ]*) [^ ]* (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<method>\S+)(?: +(?<path>[^\"]*?)(?: +\S*)?)?" (?<code>[^ ]*) (?<size>[^ ]*)(?: "(?<referer>[^\"]*)" "(?<agent>[^\"]*)")?$`,
		"lookahead": `^(?<host>[^ ]*) (?!x)[^ ]* (?<user>[^ ]*)`,
	} {
		re, err := Compile(pattern, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]int, 0, 32)
			for b.Loop() {
				if dst, err = re.AppendSubmatchIndex(dst[:0], line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
