package expr

import (
	"testing"
)

// TestDifferential compares with what Ruby 3.1 made of expressions that were put together at
// random of its methods and awkward arguments: [expression, inspect] or [expression, null,
// class of the exception]; testdata/templates.rb records that and more. What the language lacks
// is not among them.
func TestDifferential(t *testing.T) {
	for _, row := range golden(t, "differential.jsonl", 1500) {
		text := *row[0]
		p := newParser(text)
		p.event = true
		prog, err := compile(p)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		m := &Machine{}
		m.BeginEvent(templateEnv(), templateSubject(t), !prog.Mutates())
		v, err := m.Run(prog)
		switch e, _ := err.(*Error); {
		case row[1] == nil && (e == nil || e.Class != *row[2]):
			t.Errorf("%s gives %s, %v; Ruby raises %s", text, v.Inspect(), err, *row[2])
		case row[1] != nil && err != nil:
			t.Errorf("%s: %v, Ruby gives %s", text, err, *row[1])
		case row[1] != nil && v.Inspect() != *row[1]:
			t.Errorf("%s gives %s, Ruby %s", text, v.Inspect(), *row[1])
		}
	}
}
