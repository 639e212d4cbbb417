package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"weir/internal/fluentconf"
	"weir/internal/ruby/rx"
)

// Plugin holds the parameters that every plug-in has. Embed it.
type Plugin struct {
	Type     string `conf:"@type" alias:"type" doc:"name of the plug-in"`
	ID       string `conf:"@id" alias:"id" doc:"name of this instance in metrics, logs and buffer paths"`
	Label    string `conf:"@label" doc:"label that the events go to"`
	LogLevel string `conf:"@log_level" alias:"log_level" enum:"trace|debug|info|warn|error|fatal" doc:"log level of this instance"`
}

// OutputPlugin holds the parameters that every output has. Embed it, and give Buffer's
// parent section to ParseBuffer.
type OutputPlugin struct {
	Plugin
	SlowFlush     float64             `conf:"slow_flush_log_threshold" default:"20.0" doc:"seconds after which a flush is reported as slow"`
	TimeAsInteger bool                `conf:"time_as_integer" default:"false" doc:"accepted for compatibility: as in Fluentd it changes nothing where an output formats events itself, and all here do"`
	Buffer        *fluentconf.Section `section:"buffer" doc:"buffer of this output"`
	Secondary     *fluentconf.Section `section:"secondary" doc:"output for what the primary gave up"`
}

var (
	durationType   = reflect.TypeFor[time.Duration]()
	sizeType       = reflect.TypeFor[Size]()
	regexpType     = reflect.TypeFor[*rx.Regexp]()
	rawSectionType = reflect.TypeFor[*fluentconf.Section]()
)

// Decode fills the struct that into points to from s and notes every mistake in d. Fields
// whose parameter is absent or wrong get their default. A nil s is an empty section.
func Decode(s *fluentconf.Section, into any, d *Diagnostics) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: Decode into %T, want a pointer to a struct", into))
	}
	if s == nil {
		s = &fluentconf.Section{}
	}
	c := &decoder{s: s, d: d, params: map[string]bool{}, sections: map[string]bool{}}
	c.fields(v.Elem())
	c.unknown()
}

// decoder decodes one section.
type decoder struct {
	s        *fluentconf.Section
	d        *Diagnostics
	params   map[string]bool // keys that some field takes
	sections map[string]bool
}

func (c *decoder) fields(v reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			c.fields(v.Field(i))
		case f.Tag.Get("conf") != "":
			c.param(f, v.Field(i))
		case f.Tag.Get("section") != "":
			c.section(f, v.Field(i))
		case f.Tag.Get("arg") == "true":
			c.arg(f, v.Field(i))
		}
	}
}

// find looks a parameter up by its key and aliases and notes all as known.
func (c *decoder) find(f reflect.StructField) *fluentconf.Param {
	key := f.Tag.Get("conf")
	c.params[key] = true
	p := c.s.Get(key)
	for _, a := range strings.Split(f.Tag.Get("alias"), "|") {
		if a == "" {
			continue
		}
		c.params[a] = true
		if old := c.s.Get(a); p == nil && old != nil {
			p = old
		}
	}
	return p
}

func (c *decoder) param(f reflect.StructField, v reflect.Value) {
	key, def := f.Tag.Get("conf"), f.Tag.Get("default")
	if def != "" {
		// A default is the program's own text: it is known to be right by the tests.
		if err := convert(v, fluentconf.Value{Text: def}, f.Tag, nil); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", key, err))
		}
	}
	p := c.find(f)
	required := f.Tag.Get("required") == "true"
	if p == nil || p.Value.State == fluentconf.UseDefault {
		if required {
			c.missing(key, f)
		}
		return
	}
	if p.Value.Wrong { // that has been said: what would follow from it has not to be
		if v.Kind() == reflect.String && f.Tag.Get("enum") == "" {
			v.SetString(p.Value.Text)
		}
		return
	}
	if p.Value.State == fluentconf.UseNil {
		if required || def != "" {
			c.d.Error(p.Pos, fmt.Sprintf("parameter %s must not be nil", p.Key), "remove the line or give a value instead of use_nil")
		}
		return
	}
	report := c.d.Warn
	if c.d.StrictValues {
		report = c.d.Error
	}
	warn := func(text, hint string) { report(p.Value.Pos, p.Key+": "+text, hint) }
	if err := convert(v, p.Value, f.Tag, warn); err != nil {
		c.d.Error(p.Value.Pos, fmt.Sprintf("%s: %s", p.Key, err.text), err.hint)
		return
	}
	if err := checkMin(v, f.Tag.Get("min")); err != nil {
		c.d.Error(p.Value.Pos, fmt.Sprintf("%s: %s", p.Key, err.text), err.hint)
	}
}

func (c *decoder) missing(key string, f reflect.StructField) {
	hint := "add the line " + key + " VALUE"
	if doc := f.Tag.Get("doc"); doc != "" {
		hint += " (" + doc + ")"
	}
	if e := f.Tag.Get("enum"); e != "" {
		hint = "add the line " + key + " with one of " + strings.ReplaceAll(e, "|", ", ")
	}
	c.d.Error(c.s.Pos, fmt.Sprintf("%s needs the parameter %s", describe(c.s), key), hint)
}

// describe names a section in a message.
func describe(s *fluentconf.Section) string {
	if s.Name == "" {
		return "the configuration"
	}
	if s.Arg != "" {
		return fmt.Sprintf("<%s %s>", s.Name, s.Arg)
	}
	return "<" + s.Name + ">"
}

func (c *decoder) arg(f reflect.StructField, v reflect.Value) {
	if !c.s.HasArg {
		if f.Tag.Get("required") == "true" {
			c.d.Error(c.s.Pos, fmt.Sprintf("<%s> needs an argument", c.s.Name), f.Tag.Get("doc"))
		}
		return
	}
	if err := convert(v, fluentconf.Value{Text: c.s.Arg, Pos: c.s.Pos}, f.Tag, func(string, string) {}); err != nil {
		c.d.Error(c.s.Pos, fmt.Sprintf("argument of <%s>: %s", c.s.Name, err.text), err.hint)
	}
}

// section decodes the sub-sections of one name.
func (c *decoder) section(f reflect.StructField, v reflect.Value) {
	name := f.Tag.Get("section")
	c.sections[name] = true
	if name == "buffer" {
		for _, k := range flatBufferKeys() {
			c.params[k] = true
		}
	}
	all := c.s.All(name)
	if len(all) == 0 && f.Tag.Get("required") == "true" {
		c.d.Error(c.s.Pos, fmt.Sprintf("%s needs a section <%s>", describe(c.s), name), f.Tag.Get("doc"))
	}
	if len(all) > 1 && f.Type.Kind() != reflect.Slice {
		c.d.Error(all[1].Pos, fmt.Sprintf("section <%s> may stand only once in %s", name, describe(c.s)), fmt.Sprintf("the first one is at %s", all[0].Pos))
		all = all[:1]
	}
	switch {
	case f.Type == rawSectionType:
		if len(all) > 0 {
			v.Set(reflect.ValueOf(all[0]))
		}
	case f.Type.Kind() == reflect.Slice && f.Type.Elem() == rawSectionType:
		v.Set(reflect.ValueOf(all))
	case f.Type.Kind() == reflect.Slice:
		out := reflect.MakeSlice(f.Type, 0, len(all))
		for _, s := range all {
			out = reflect.Append(out, c.one(s, f.Type.Elem()))
		}
		v.Set(out)
	case f.Type.Kind() == reflect.Struct:
		// A section that always has values: absent means all defaults.
		var s *fluentconf.Section
		if len(all) > 0 {
			s = all[0]
		}
		Decode(s, v.Addr().Interface(), c.d)
	case len(all) > 0:
		v.Set(c.one(all[0], f.Type))
	}
}

// one decodes a section into a new struct of type t or *t.
func (c *decoder) one(s *fluentconf.Section, t reflect.Type) reflect.Value {
	ptr := t.Kind() == reflect.Pointer
	if ptr {
		t = t.Elem()
	}
	v := reflect.New(t)
	Decode(s, v.Interface(), c.d)
	if ptr {
		return v
	}
	return v.Elem()
}

// unknown reports what no field takes, and keys that stand twice.
func (c *decoder) unknown() {
	report := c.d.Warn
	if c.d.Strict {
		report = c.d.Error
	}
	seen := map[string]fluentconf.Pos{}
	for _, p := range c.s.Params {
		if first, ok := seen[p.Key]; ok && c.params[p.Key] {
			c.d.Warn(p.Pos, fmt.Sprintf("parameter %s stands twice, this one counts", p.Key), fmt.Sprintf("remove the one at %s", first))
		}
		seen[p.Key] = p.Pos
		if !c.params[p.Key] {
			report(p.Pos, fmt.Sprintf("parameter %s in %s is not used", p.Key, describe(c.s)), suggest(p.Key, c.params))
		}
	}
	for _, s := range c.s.Sections {
		if !c.sections[s.Name] {
			report(s.Pos, fmt.Sprintf("section <%s> in %s is not used", s.Name, describe(c.s)), suggest(s.Name, c.sections))
		}
	}
}

// Suggest asks whether a known name was meant, "did you mean x?", or gives "".
func Suggest(name string, known map[string]bool) string { return suggest(name, known) }

// suggest looks for the known name that is meant by a mistyped one.
func suggest(name string, known map[string]bool) string {
	best, dist := "", min(3, len(name)/3)+1
	for k := range known {
		if d := distance(name, k, dist); d < dist || d == dist && best != "" && k < best {
			best, dist = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// distance counts the edits (insert, delete, replace, swap of neighbours) from a to b; what
// is above limit is given as limit+1.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	older, old := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old = old, row
	}
	return min(old[len(b)], limit+1)
}
