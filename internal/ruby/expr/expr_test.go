package expr

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func testEnv() *Env {
	vars := map[string]string{"X": "xv", "E": "", "N": "5", "HOST": "box.example.org"}
	return &Env{
		Lookup:   func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		Hostname: "box",
		WorkerID: "0",
		PID:      42,
		Now:      func() time.Time { return time.Unix(1800000000, 0) },
		Random:   func(b []byte) { clear(b) },
		ReadFile: func(name string) ([]byte, error) {
			if name == "/run/secrets/x" {
				return []byte("s3cret\n"), nil
			}
			return nil, os.ErrNotExist
		},
	}
}

// eval compiles and evaluates.
func eval(text string) (string, Special, error) {
	p, err := Compile(text)
	if err != nil {
		return "", Text, err
	}
	v, special, err := p.Eval(testEnv())
	return v.ToS(), special, err
}

// golden reads what Ruby made of expressions, a JSON array in each line; atLeast guards
// against a file that was cut.
func golden(t *testing.T, name string, atLeast int) (rows [][]*string) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var row []*string
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(rows) < atLeast || sc.Err() != nil {
		t.Fatalf("%s: only %d expressions (%v)", name, len(rows), sc.Err())
	}
	return rows
}

// TestGolden compares with what Ruby 3.1 made of the same expressions: [expression, text] or
// [expression, null, class of the exception].
func TestGolden(t *testing.T) {
	for _, row := range golden(t, "expressions.jsonl", 100) {
		text, want := *row[0], row[1]
		got, _, err := eval(text)
		switch {
		case want == nil && err == nil:
			t.Errorf("%s gives %q, Ruby raises %s", text, got, *row[2])
		case want != nil && unsupported[text] != "":
			if err == nil || !strings.Contains(err.Error(), unsupported[text]) {
				t.Errorf("%s: error %v, want one with %q", text, err, unsupported[text])
			}
		case want != nil && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != nil && got != *want:
			t.Errorf("%s gives %q, Ruby %q", text, got, *want)
		}
	}
}

// unsupported lists expressions that we refuse, and what the message names.
var unsupported = map[string]string{
	`nil.foo rescue 'r'`: "the method foo",
}

func TestContext(t *testing.T) {
	tests := []struct {
		text, want string
		special    Special
	}{
		{`'abc'.sub('b', '<\&\1\\\\>')`, `a<b\>c`, Text},
		{"hostname", "box", Text},
		{"Socket.gethostname", "box", Text},
		{"hostname == Socket.gethostname", "true", Text},
		{"worker_id", "0", Text},
		{"`hostname`.chomp", "box", Text},
		{"File.read('/run/secrets/x').strip", "s3cret", Text},
		{"IO.read('/run/secrets/x')", "s3cret\n", Text},
		{"File.read('/nope') rescue 'none'", "none", Text},
		{"use_nil", "", UseNil},
		{"use_default", "", UseDefault},
		{"use_nil()", "", UseNil},
		{"ENV['NOPE'] || use_nil", "", UseNil},
		{"ENV['X'] || use_nil", "xv", Text},
		{"\"a#{use_default}b\"", "", UseDefault},
		{"use_nil rescue 'x'", "", UseNil},
		{"", "", Text},
		{"Time.now.strftime('%Y-%m-%d')", "2027-01-15", Text},
		{"Time.now.to_i", "1800000000", Text},
		{"Process.pid", "42", Text},
		{"SecureRandom.uuid.length", "36", Text},
		{"IPAddr.new('::1').ipv6? ? \"[#{'::1'}]\" : '::1' rescue '::1'", "[::1]", Text},
		{"IPAddr.new('nope').ipv6? ? 'x' : 'y' rescue 'host'", "host", Text},
		{"File.open('/run/secrets/x').read", "s3cret\n", Text},
		{"File.open('/run/secrets/x', &:read)", "s3cret\n", Text},
		{"File.open('/run/secrets/x') { |f| f.read.strip }", "s3cret", Text},
		{"File.exist?('/nope') ? 1 : 2", "2", Text},
		{"Socket.gethostname.split('.')[0]", "box", Text},
		{"ENV['N'].to_i * 2", "10", Text},
		{"(a = 'x'; b = a + 'y'; b)", "xy", Text},
		{"'https://' + ENV.fetch('HOST') + ':' + ENV.fetch('PORT', '443')", "https://box.example.org:443", Text},
		{"ENV['HOST'].nil? ? 'a' : ENV['HOST'].split('.').last", "org", Text},
		{"ENV.fetch 'X'", "xv", Text},
		{"x = if ENV['X'] == 'xv' then 'yes' else 'no' end; x", "yes", Text},
		{"ENV['X'] ? :a : :b", "a", Text},
		{"ENV['X'] ? 1:2", "1", Text},
		{"%w[a b].include? 'a'", "true", Text},
		{"i = 5; begin; i += 1; end while i < 3; i", "6", Text},
		{"lambda { 'x_1' }.call", "x_1", Text},
		{"[[1, 2]].map { _1 + _2 }.first", "3", Text},
		{"(1..3).each_with_object({}) { |i, h| h[i] = i * i }[3]", "9", Text},
		{"-> do 3 end.call", "3", Text},
		{"[3, 4].each do |x| break x if x > 3 end", "4", Text},
		{"case 'b' when 'a' then 1 when 'b', 'c' then 2 else 3 end", "2", Text},
		{" ; ", "", Text},
	}
	for _, tt := range tests {
		got, special, err := eval(tt.text)
		if err != nil || got != tt.want || special != tt.special {
			t.Errorf("%s: %q, %d, %v; want %q, %d", tt.text, got, special, err, tt.want, tt.special)
		}
	}
}

// TestRefused has what the language lacks: the message names the construct and its place.
func TestRefused(t *testing.T) {
	tests := []struct {
		text string
		off  int
		want string
	}{
		{"foo_bar", 0, `undefined local variable or method "foo_bar"`},
		{"1 + Gem.path.to_i", 4, "Gem.path.to_i is not supported"},
		{"File.delete('x')", 0, "File.delete is not supported"},
		{"ENV.delete('x')", 0, "ENV.delete is not supported"},
		{"ENV['X'].frobnicate", 9, "the method frobnicate is not supported"},
		{"`rm -rf /`", 0, "running a command is not supported"},
		{"%x(ls)", 0, "this % literal is not supported"},
		{"system 'ls'", 0, "system is not supported: it runs a command"},
		{"eval('1')", 0, "eval is not supported: it runs computed code"},
		{"'a'.send(ENV['X'])", 4, "send is supported only with the literal name of a known method"},
		{"'a'.instance_eval('1')", 4, "the method instance_eval is not supported"},
		{"def x; end", 0, "def is not supported"},
		{"self.class", 0, "self is not supported"},
		{"'a'.x = 1", 4, "the method x is not supported"},
		{"'a'.size = 1", 4, "an assignment to size is not supported"},
		{"a", 0, `undefined local variable or method "a"`},
		{"require 'net/http'", 0, "this library is not supported"},
		{"'a' =~ /(/", 7, "regular expression"},
		{"if true; 1", 10, "expected end but found the end"},
		{"[1, 2", 5, "expected , or ]"},
		{"{'a' => 1", 9, "expected , or }"},
		{"case 1; end", 8, "expected when"},
		{"<<EOS", 0, "a here-document is not supported"},
		{"'abc", 0, "a string is not closed"},
		{"(1", 2, "expected ) but found the end"},
		{"1 2", 2, `expected the end of the expression but found "2"`},
		{"ENV['X'", 7, "expected , or ]"},
		{"true ? 1", 8, "expected the : of a ? b : c"},
		{"a b", 0, `undefined local variable or method "a"`},
		{"$x", 0, "the global variable $x is not supported"},
		{"$", 0, "unexpected character"},
		{"x.y { |a", 0, "undefined"},
		{"Foo::Bar", 0, "Foo::Bar is not supported"},
		{"ENV::X", 0, "ENV::X is not supported"},
		{"99999999999999999999", 0, "is not supported"},
		{strings.Repeat("(", 1000), 100, "nested too deeply"},
		{strings.Repeat(`"#{`, 1000), 0, "nested too deeply"},
	}
	for _, tt := range tests {
		_, err := Compile(tt.text)
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40s: error %v, want one with %q", tt.text, err, tt.want)
			continue
		}
		if tt.off > 0 && tt.off < 100 && e.Offset() != tt.off {
			t.Errorf("%.40s: offset %d, want %d", tt.text, e.Offset(), tt.off)
		}
	}
}

// TestBounds has expressions that would not end or would eat all memory.
func TestBounds(t *testing.T) {
	big := strings.Repeat("x", 1000)
	tests := []struct{ text, want string }{
		{"'" + big + "' * 100000", "longer than"},
		{"'a' * -1", "negative"},
		{"'" + strings.Repeat("a", 3000) + "'.gsub('a', '" + big + "')", "longer than"},
		{"a = '" + big + "'; " + strings.Repeat("a = a + a; ", 20) + "a", "longer than"},
		{"a = '" + big + "'; " + strings.Repeat(`a = "#{a}#{a}"; `, 20) + "a", "longer than"},
		{"a = [1]; " + strings.Repeat("a = a + a; ", 60) + "a", "elements"},
		{"'" + strings.Repeat("a", 100_000) + "'.split('')", "elements"},
		{"a = '" + strings.Repeat("x", 500_000) + "'; " + strings.Repeat("a.upcase; ", 100) + "a", "needs more"},
		{"9223372036854775807 + 1", "too large"},
		{"9223372036854775807 * 2", "too large"},
		{strings.Repeat("1;", maxSteps) + "1", "steps"},
		{"while true; 1; end", "steps"},
		{"loop { 1 }", "steps"},
		{"loop { begin; loop { 1 }; rescue Exception; 2; end }", "steps"},
		{"f = ->(n) { f.(n) }; f.(1)", "stack level too deep"},
		{"(1..100000000).map { |x| x }", "elements"},
		{"(1..60000).to_a.product rescue (1..60000).map { |x| (1..60000).to_a.include?(x) }", "product"},
		{"(1..60000).map { |x| (1..60000).to_a.include?(-x) }", "steps"},
		{"a = []; loop { a << 1 }", "s"},
		{"a = 'x'; loop { a << a }", "longer than"},
		{"a = [1]; a << a; a.to_json", "too deep"},
		{"a = [1]; 60.times { a = [a, a] }; a.to_json", "steps"},
		{"a = [1]; 60.times { a = [a, a] }; a == a.dup + []; a.flatten", "steps"},
		{"'%0999999999d' % 1", "longer than"},
		{"'a'.ljust(99999999)", "longer than"},
		{"Array.new(99999999, 1)", "elements"},
		{"h = {}; 200000.times { |i| h[i] = i }", "s"},
		{"('a' * 2000000).chars", "elements"},
	}
	for _, tt := range tests {
		if _, _, err := eval(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40s: error %v, want one with %q", tt.text, err, tt.want)
		}
	}
}

func TestEnd(t *testing.T) {
	tests := []struct {
		rest string
		want int
	}{
		{`ENV['X']}" # }`, 8},
		{` {}.to_s }x`, 10 - 1},
		{`'}'}"`, 3},
		{`"}#{'}'}"}"`, 9},
		{`a = {'x' => "}"}; a}`, 19},
		{`ENV.fetch('X') { 'd' }}`, 22},
		{`Gem.now.strftime('}')}`, 21}, // not supported, but its end is found
		{`foo { |x| "}" }}`, 15},
		{`'\'}'}`, 5},
		{`no end`, -1},
		{`"#{`, -1},
		{`}`, 0},
		{"x # }\n}", 4}, // as unknown as Ruby's own: a comment is not looked into
	}
	for _, tt := range tests {
		if got := End(tt.rest); got != tt.want {
			t.Errorf("End(%q) = %d, want %d", tt.rest, got, tt.want)
		}
	}
}

// TestMissingWorld evaluates with an empty Env.
func TestMissingWorld(t *testing.T) {
	for _, text := range []string{"ENV['X']", "File.read('x')"} {
		p, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Eval(&Env{}); err == nil || !strings.Contains(err.Error(), "not available here") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// TestErrorShowsPlace has the text that a user sees.
func TestErrorShowsPlace(t *testing.T) {
	_, err := Compile("ENV['A'] || Gem.now.strftime('%Y-%m-%d %H:%M:%S with a long tail')")
	want := `Gem.now.strftime is not supported (at "Gem.now.strftime('%Y-%m-%d %H:%M:%S with…")`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`ENV['X'] || "a#{1 + 2}"`, `ENV.fetch('A') { |k| k }`, `a = [1, {b: 2}]; a[0]`, `x ? y : z`, `"\u{41}\x41#{`, `%q(a(b))`, `1.5e3.to_s&.length`, `'a'.split(',')[0] if true`, `?a`, `{'a'=>1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n := End(text); n >= len(text) || n >= 0 && text[n] != '}' {
			t.Errorf("End(%q) = %d", text, n)
		}
		p, err := Compile(text)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Offset() < 0 || e.Offset() > len(text) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		v, _, err := p.Eval(testEnv())
		if err == nil {
			v.Inspect()
		}
	})
}
