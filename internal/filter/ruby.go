package filter

import (
	"fmt"

	"weir/internal/event"
	"weir/internal/ruby/expr"
)

// ruby is a compiled template of enable_ruby.
type ruby struct {
	prog *expr.Program
	fast template // what prog does, if that needs no Ruby: nil otherwise
	text bool     // the value is a text, whatever the template gives
}

// ruby compiles a template of enable_ruby; nil after a mistake, which is noted.
func (c *compiler) ruby(text string, key bool) *ruby {
	p, err := expr.CompileTemplate(text, c.typecast && !key)
	if err != nil {
		c.d.Error(c.pos, fmt.Sprintf("record_transformer: the Ruby of %q: %v", text, err), "docs/fluentd-compat.md lists the Ruby that weir knows")
		return nil
	}
	r := &ruby{prog: p, text: key}
	c.mutates = c.mutates || p.Mutates()
	if parts, typed, ok := p.Simple(); ok {
		for _, p := range parts {
			r.fast = append(r.fast, simplePart(p))
			c.needsTag = c.needsTag || p.Kind == expr.PartTagPart || p.Kind == expr.PartTagPrefix || p.Kind == expr.PartTagSuffix
		}
		if len(parts) == 0 {
			r.fast = template{{kind: partText}}
		}
		r.text = r.text || !typed
	}
	return r
}

// constant is the text of a template without placeholders; ok is false if it has some.
func (r *ruby) constant() (text string, ok bool) {
	if len(r.fast) != 1 || r.fast[0].kind != partText {
		return "", false
	}
	return r.fast[0].text, true
}

func simplePart(p expr.Part) part {
	switch p.Kind {
	case expr.PartRecord:
		return part{kind: partPath, path: p.Path}
	case expr.PartTag:
		return part{kind: partTag}
	case expr.PartTagPart:
		return part{kind: partTagPart, n: p.N}
	case expr.PartTagPrefix:
		return part{kind: partTagPrefix, n: p.N}
	case expr.PartTagSuffix:
		return part{kind: partTagSuffix, n: p.N}
	case expr.PartHostname:
		return part{kind: partHostname}
	}
	return part{kind: partText, text: p.Text}
}

// findPath looks up record["a"]["b"]. found is nil for nil; ok is false if a value on the
// way is no map, so that Ruby has to say what comes of it.
func findPath(record []byte, path []string) (found []byte, ok bool) {
	for i, key := range path {
		v, is := event.FindKey(record, key)
		last := i == len(path)-1
		switch {
		case !is:
			return nil, last
		case last:
			return v, true
		case v[0]&0xf0 != 0x80 && v[0] != 0xde && v[0] != 0xdf:
			return nil, false
		}
		record = v
	}
	return nil, true
}

// rubyError is the message for an event whose template failed, as Fluentd words it.
func rubyError(p *expr.Program, err error) string {
	return fmt.Sprintf("failed to expand `%s` : error = %v", p, err)
}

// rubyRun is the evaluation of the templates for one event.
type rubyRun struct {
	s       *Scratch
	sub     *subject
	env     *expr.Env
	mutates bool // values are made first, in order, and written when all have been made
	begun   bool
	next    int    // of Scratch.results, in the second pass
	failure string // why the event fails
}

// value evaluates a template.
func (x *rubyRun) value(r *ruby) (expr.Value, bool) {
	if !x.begun {
		x.begun = true
		x.s.ruby.BeginEvent(x.env, expr.Subject{Tag: x.sub.tag, Time: x.sub.time, Record: x.sub.record}, !x.mutates)
	}
	v, err := x.s.ruby.Run(r.prog)
	if err != nil {
		x.failure = rubyError(r.prog, err)
	}
	return v, err == nil
}

// prepare evaluates all templates of a node in the order in which Fluentd does.
func (x *rubyRun) prepare(n *node) bool {
	if n.ruby != nil {
		if _, ok := n.ruby.constant(); ok {
			return true
		}
		v, ok := x.value(n.ruby)
		x.s.results = append(x.s.results, v)
		return ok
	}
	for i := range n.items {
		if n.kind == nodeMap && !x.prepare(&n.rubyKeys[i]) {
			return false
		}
		if !x.prepare(&n.items[i]) {
			return false
		}
	}
	return true
}

// append appends the value of a template as msgpack.
func (x *rubyRun) append(dst []byte, r *ruby) ([]byte, bool) {
	if text, ok := r.constant(); ok {
		return event.AppendStr(dst, text), true
	}
	if r.fast != nil && !x.mutates {
		if out, ok := x.quick(dst, r); ok {
			return out, true
		}
	}
	var v expr.Value
	if x.mutates {
		v = x.s.results[x.next]
		x.next++
	} else {
		var ok bool
		if v, ok = x.value(r); !ok {
			return dst, false
		}
	}
	if r.text {
		return event.AppendStr(dst, v.ToS()), true
	}
	out, err := x.s.ruby.Append(dst, v)
	if err != nil {
		x.failure = rubyError(r.prog, err)
		return dst, false
	}
	return out, true
}

// quick makes the value from raw msgpack; ok is false if that cannot be done.
func (x *rubyRun) quick(dst []byte, r *ruby) (out []byte, ok bool) {
	if !r.text {
		p := &r.fast[0]
		if p.kind != partPath {
			return p.appendValue(dst, x.sub, x.s), true
		}
		v, ok := findPath(x.sub.record, p.path)
		if !ok {
			return dst, false
		}
		if v == nil {
			return event.AppendNil(dst), true
		}
		return append(dst, v...), true
	}
	text := x.s.text[:0]
	for i := range r.fast {
		p := &r.fast[i]
		if p.kind != partPath {
			text = r.fast[i:i+1].appendText(text, x.sub)
			continue
		}
		v, ok := findPath(x.sub.record, p.path)
		if !ok {
			return dst, false
		}
		if v != nil {
			text = appendValueText(text, v)
		}
	}
	x.s.text = text
	return event.AppendStr(dst, text), true
}

// node appends the value of a node.
func (x *rubyRun) node(dst []byte, n *node) ([]byte, bool) {
	if n.ruby != nil {
		return x.append(dst, n.ruby)
	}
	ok := true
	switch n.kind {
	case nodeMap:
		at, count := len(dst), 0
		dst = event.OpenMap(dst)
		for i := range n.items {
			field := len(dst)
			if dst, ok = x.append(dst, n.rubyKeys[i].ruby); !ok {
				return dst, false
			}
			key, _, _ := event.Bytes(dst, field)
			// Two keys may have become one: the last value counts.
			if from, to, twice := event.FindPair(dst[:field], at+1, count, key); twice {
				dst = append(dst[:from], dst[to:]...)
				count--
			}
			if dst, ok = x.node(dst, &n.items[i]); !ok {
				return dst, false
			}
			count++
		}
		return event.CloseMap(dst, at, count), true
	case nodeArray:
		dst = event.AppendArrayHeader(dst, len(n.items))
		for i := range n.items {
			if dst, ok = x.node(dst, &n.items[i]); !ok {
				return dst, false
			}
		}
		return dst, true
	}
	return append(dst, n.raw...), true
}

// expandRuby puts the new fields of an event into s. It returns the record as the templates
// left it, and why the event fails, "" if it does not.
func (t *RecordTransformer) expandRuby(s *Scratch, sub *subject) (record []byte, failure string) {
	x := rubyRun{s: s, sub: sub, env: &t.ruby, mutates: t.mutates}
	s.Buf, s.fields, s.results = s.Buf[:0], s.fields[:0], s.results[:0]
	if t.mutates {
		for i := range t.values {
			if !x.prepare(&t.rubyKeys[i]) || !x.prepare(&t.values[i]) {
				return nil, x.failure
			}
		}
	}
	for i := range t.values {
		f := field{from: len(s.Buf)}
		var ok bool
		if s.Buf, ok = x.append(s.Buf, t.rubyKeys[i].ruby); !ok {
			return nil, x.failure
		}
		f.value = len(s.Buf)
		key, _, _ := event.Bytes(s.Buf, f.from)
		f.text = f.value - len(key)
		if s.Buf, ok = x.node(s.Buf, &t.values[i]); !ok {
			return nil, x.failure
		}
		f.end = len(s.Buf)
		if same := s.find(s.Buf[f.text:f.value]); same != nil {
			*same = f
			continue
		}
		s.fields = append(s.fields, f)
	}
	if t.mutates && s.ruby.Mutated() {
		return x.changed(sub.record)
	}
	return sub.record, ""
}

// changed writes the record with the values that templates changed in place. Fields that
// they added or deleted at the top do not count: Fluentd copies the record before.
func (x *rubyRun) changed(record []byte) ([]byte, string) {
	out := x.s.record[:0]
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return record, ""
	}
	out = event.AppendMapHeader(out, n)
	for range n {
		key, value, err := event.Bytes(record, i)
		if err != nil {
			if value, err = event.Skip(record, i); err != nil {
				return record, ""
			}
		}
		end, err := event.Skip(record, value)
		if err != nil {
			return record, ""
		}
		out = append(out, record[i:value]...)
		if v, ok := x.s.ruby.Changed(key); ok && key != nil {
			if out, err = x.s.ruby.Append(out, v); err != nil {
				return nil, err.Error()
			}
		} else {
			out = append(out, record[value:end]...)
		}
		i = end
	}
	x.s.record = out
	return out, ""
}
