package expr

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// receivers are expressions of every class that has methods.
var receivers = [kinds][]string{
	Nil: {"nil"}, Bool: {"true"}, Int: {`record["n"]`, "-7"}, Uint: {"18446744073709551615"}, Float: {`record["f"]`, "(0.0 / 0)"},
	String: {`record["s"]`, `"aä\n\xff1"`, `""`}, Symbol: {":ab"}, ArrayKind: {`record["arr"]`, "[3, 1, 2]", "[]"}, HashKind: {`record["h"]`, "{}"},
	RangeKind: {"(1..3)"}, RegexpKind: {"/a(b)?/"}, MatchKind: {`"ab".match(/a(b)?/)`}, TimeKind: {"Time.at(0)"}, ProcKind: {"lambda { |a| a }"},
	ErrorKind: {`RuntimeError.new("x")`}, ConstKind: {"String"}, URIKind: {`URI.parse("http://h/p")`}, AddressKind: {`IPAddr.new("10.0.0.0/8")`}, RawKind: {"time"},
}

// callText writes a call of x as Ruby has it; "" if it has none with these arguments.
func callText(name string, args []string, block string) string {
	switch {
	case name == "[]":
		return "x[" + strings.Join(args, ", ") + "]"
	case name == "[]=" && len(args) > 1:
		return "x[" + strings.Join(args[1:], ", ") + "] = " + args[0]
	case name[0] >= 'a' && name[0] <= 'z':
		return "x." + name + "(" + strings.Join(args, ", ") + ")" + block
	case len(args) == 1 && block == "" && name != "!" && name != "~" && !strings.HasSuffix(name, "@"):
		return "x " + name + " " + args[0]
	}
	return ""
}

// TestEveryMethod calls each method of each class with ordinary and with awkward arguments.
// None may break the interpreter. One that changes its receiver must set Machine.mutated, and
// mutating must know its name: otherwise the change would be lost, or be seen by others.
func TestEveryMethod(t *testing.T) {
	t.Parallel()
	pool := []string{"nil", "-1", "1", "99", "2.5", `"a"`, `record["s"]`, `record["arr"]`, `{ "a" => 1 }`, "/[a-z]/", "(0..1)", ":a", "true"}
	var lists [][]string
	for i, a := range pool {
		lists = append(lists, []string{a})
		if i%2 == 0 {
			lists = append(lists, []string{a, pool[(i*5+2)%len(pool)]})
		}
	}
	lists = append(lists, nil, []string{`"a"`, "1", "2"})
	env, subject := templateEnv(), templateSubject(t)
	calls := 0
	for k := range kinds {
		if len(receivers[k]) == 0 {
			t.Errorf("no receiver of class %s", k)
		}
		table := maps.Clone(objectTable)
		maps.Copy(table, methods[k])
		for _, name := range slices.Sorted(maps.Keys(table)) {
			for _, recv := range receivers[k] {
				for _, args := range lists {
					for _, block := range []string{"", " { |a, b| a }"} {
						if len(args) > 1 && block != "" {
							continue
						}
						if call := callText(name, args, block); call != "" {
							calls += callOne(t, env, subject, recv, call)
						}
					}
				}
			}
		}
	}
	if calls < 10_000 {
		t.Errorf("only %d calls were compiled", calls)
	}
}

func callOne(t *testing.T, env *Env, subject Subject, recv, call string) int {
	t.Helper()
	text := "x = " + recv + "; before = x.inspect; begin; " + call + "; rescue StandardError; end; before == x.inspect"
	p := newParser(text)
	p.event = true
	prog, err := compile(p)
	if err != nil {
		if strings.Contains(err.Error(), broken) {
			t.Error(err)
		}
		return 0
	}
	m := &Machine{}
	m.BeginEvent(env, subject, !prog.Mutates())
	same, err := m.Run(prog)
	switch changed := err == nil && !same.Truthy(); {
	case err != nil && strings.Contains(err.Error(), broken):
		t.Error(err)
	case changed && !m.Mutated() && !strings.HasPrefix(recv, "Time"): // a time is no part of a record
		t.Errorf("%s of %s changes its receiver and does not set Machine.mutated", call, recv)
	case (changed || m.Mutated()) && !prog.Mutates():
		t.Errorf("%s of %s changes its receiver, and mutating does not know the name", call, recv)
	}
	return 1
}
