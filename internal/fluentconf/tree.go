// Package fluentconf reads Fluentd's configuration grammar into a tree. It knows the
// grammar only: what a section or a parameter means is for others.
package fluentconf

import "fmt"

// Pos is a place in a file, counted from 1.
type Pos struct {
	File         string
	Line, Column int
}

// String is file:line:column, the form editors jump to.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Error is a mistake at a place.
type Error struct {
	Pos  Pos
	Text string // what is wrong
	Hint string // what to write instead; may be empty
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s: %s", e.Pos, e.Text)
	}
	return fmt.Sprintf("%s: %s; %s", e.Pos, e.Text, e.Hint)
}

// State says whether a value is a text or one of Fluentd's two special results of
// embedded Ruby.
type State uint8

const (
	Text       State = iota
	UseNil           // "#{use_nil}": the parameter is set to nil
	UseDefault       // "#{use_default}": the parameter has its default
)

// Value is the value of a parameter.
type Value struct {
	Text  string
	State State
	Pos   Pos
	Bare  bool // of the YAML form: a number or a boolean there, not a text; Text is JSON
	Wrong bool // the value has a mistake that has been reported; Text is what could be read of it
}

// Param is one `key value` line.
type Param struct {
	Key   string
	Value Value
	Pos   Pos
}

// Section is `<name arg> … </name>`; the root has no name.
type Section struct {
	Name     string
	Arg      string
	HasArg   bool
	Pos      Pos
	Params   []Param // in file order; a repeated key appears again, the last one counts
	Sections []*Section
}

// Get returns the last parameter with this key, or nil.
func (s *Section) Get(key string) *Param {
	for i := len(s.Params) - 1; i >= 0; i-- {
		if s.Params[i].Key == key {
			return &s.Params[i]
		}
	}
	return nil
}

// All returns the sub-sections of this name in file order.
func (s *Section) All(name string) []*Section {
	var out []*Section
	for _, c := range s.Sections {
		if c.Name == name {
			out = append(out, c)
		}
	}
	return out
}
