package emulator

import (
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	const record = `{"level":"error","code":404,"ok":true,"none":null,"user":{"id":7,"tags":["a","b"]},"a.b":"dot","path":"/api/v1/orders"}`
	for _, tt := range []struct {
		pattern, message string
		want             bool
	}{
		{"", "anything", true},
		{"  ", "anything", true},
		{"ERROR", "an ERROR here", true},
		{"ERROR", "an error here", false},
		{"ERR", "an ERROR here", true},
		{"a b", "b then a", true},
		{"a zz", "b then a", false},
		{`"b then"`, "b then a", true},
		{`"then b"`, "b then a", false},
		{`"say \"hi\""`, `they say "hi"`, true},
		{"a -x", "a b", true},
		{"a -b", "a b", false},
		{`-"a b"`, "a b", false},
		{"-x", "a", true},
		{"?x ?b", "a b", true},
		{"?x ?y", "a b", false},
		{"a ?x", "a b", true},
		{"%[Ee]rror%", "error", true},
		{"%^er{2}or$%", "error!", false},
		{`{ $.level = "error" }`, record, true},
		{`{ $.level = error }`, record, true},
		{`{$.level="err*"}`, record, true},
		{`{ $.level = "*o*r" }`, record, true},
		{`{ $.level = "info" }`, record, false},
		{`{ $.level != "info" }`, record, true},
		{`{ $.missing != "info" }`, record, false},
		{`{ $.code = 404 }`, record, true},
		{`{ $.code >= 404 && $.code < 500 }`, record, true},
		{`{ $.code > 404 }`, record, false},
		{`{ $.code = 4* }`, record, true},
		{`{ $.user.id = 7.0 }`, record, true},
		{`{ $.user.tags[1] = "b" }`, record, true},
		{`{ $.user.tags[2] = "b" }`, record, false},
		{`{ $["a.b"] = "dot" }`, record, true},
		{`{ $.ok IS TRUE }`, record, true},
		{`{ $.ok IS FALSE }`, record, false},
		{`{ $.none IS NULL }`, record, true},
		{`{ $.nothing NOT EXISTS }`, record, true},
		{`{ $.none NOT EXISTS }`, record, false},
		{`{ ($.level = "info" || $.level = "error") && ($.code = 404) }`, record, true},
		{`{ $.level = "info" || $.level = "error" && $.code = 1 }`, record, false},
		{`{ $.path = %^/api/v[0-9]+/% }`, record, true},
		{`{ $.level = "error" }`, "plain text", false},
		{`{ $.level = "error" }`, record + "x", false},
	} {
		p, err := parsePattern(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		if got := p.match([]byte(tt.message)); got != tt.want {
			t.Errorf("%s on %q: %v", tt.pattern, tt.message, got)
		}
	}
}

func TestPatternRefusals(t *testing.T) {
	for pattern, want := range map[string]string{
		`a/b`:                                "Invalid filter pattern: Invalid character(s) in term 'a/b'",
		`""`:                                 `Invalid filter pattern: Invalid character(s) in term '""'`,
		`"a`:                                 "Unterminated quote",
		`a"b"`:                               "Invalid character(s)",
		`"a"b`:                               "Invalid character(s) in term 'b'",
		`-`:                                  "Invalid character(s)",
		`%a(b)%`:                             "Invalid character(s)",
		`%a`:                                 "Unterminated regular expression",
		`[a, b]`:                             "does not support patterns for space-delimited events",
		`{ $.a = 1`:                          "If a filter pattern starts with '{' it must end with '}'",
		`{ }`:                                "a field such as $.name is missing",
		`{ $.a }`:                            "an operator is missing",
		`{ $.a = }`:                          "a value is missing",
		`{ $.a < "x" }`:                      "needs a number",
		`{ ($.a = 1 }`:                       "missing ')'",
		`{ $.a = 1 $.b=2 }`:                  "unexpected text",
		`{ $.a[x] = 1 }`:                     "is not the number of an element",
		`{` + strings.Repeat("(", 100) + `}`: "too many parentheses",
	} {
		_, err := parsePattern(pattern)
		if err == nil || err.Type != "InvalidParameterException" || !strings.Contains(err.Message, want) {
			t.Errorf("%s: got %v, want …%s…", pattern, err, want)
		}
	}
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{`a "b" -c ?d %e%`, `{ $.a[0]["b"] = "c*" && ($.d >= 1 || $.e IS NULL) }`, `{$.a NOT EXISTS}`} {
		f.Add(s, `{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, pattern, message string) {
		if p, err := parsePattern(pattern); err == nil {
			p.match([]byte(message))
		}
	})
}
