package expr

import (
	"fmt"
	"strings"
	"time"
	"unsafe"

	"weir/internal/event"
	"weir/internal/ruby/rx"
	"weir/internal/ruby/timefmt"
)

// Machine evaluates programs, one at a time, and owns the memory of their values: what Run
// returned is valid until the next Begin. The zero Machine is ready for Begin.
type Machine struct {
	env   *Env
	local *time.Location
	prog  *Program

	vars    []Value
	args    []Value // arguments of the calls under way, a stack
	steps   int
	spent   int // bytes of texts and arrays made so far
	calls   int // of lambdas under way
	last    *match
	raised  *Error // that a rescue is busy with
	thrown  Value  // what next, break and throw carry
	tag     Value  // of a throw
	dynamic []dynamic

	subject  Subject
	subjects [subjectCount]Value
	have     [subjectCount]bool
	pure     bool
	mutated  bool
	original []Value // values of the record when it was first read
	layouts  map[string]*timefmt.Layout

	texts   slab[text]
	objects slab[object]
	extras  slab[extra]
	values  values
	scratch []byte
}

// Subject is the event whose template is evaluated. The bytes and the parts are borrowed
// until the next Begin.
type Subject struct {
	Tag    string
	Time   event.Time
	Record []byte // a msgpack map that has passed event.Check
}

// The variables of a template.
const (
	subjectTag = iota
	subjectTagParts
	subjectTagPrefix
	subjectTagSuffix
	subjectTime
	subjectRecord
	subjectHostname
	subjectCount
)

// subjectNames gives their names.
var subjectNames = [subjectCount]string{"tag", "tag_parts", "tag_prefix", "tag_suffix", "time", "record", "hostname"}

// dynamic is a regular expression with interpolation, as it was last compiled.
type dynamic struct {
	text string
	re   *pattern
}

// slabSize is how many objects are allocated at once.
const slabSize = 64

// slab hands out zeroed objects and takes them all back at once.
type slab[T any] struct {
	chunks [][]T
	n      int
}

func (s *slab[T]) get() *T {
	c, i := s.n/slabSize, s.n%slabSize
	if c == len(s.chunks) {
		s.chunks = append(s.chunks, make([]T, slabSize))
	}
	s.n++
	p := &s.chunks[c][i]
	var zero T
	*p = zero
	return p
}

// keepChunks is how many chunks stay allocated between events.
const keepChunks = 64

func (s *slab[T]) reset() {
	if len(s.chunks) > keepChunks {
		clear(s.chunks[keepChunks:])
		s.chunks = s.chunks[:keepChunks]
	}
	s.n = 0
}

// values hands out slices of Values.
type values struct{ block []Value }

const valuesBlock = 1024

// get returns n nil Values.
func (v *values) get(n int) []Value {
	if n > valuesBlock/4 {
		return make([]Value, n)
	}
	if len(v.block)+n > cap(v.block) {
		v.block = make([]Value, 0, valuesBlock)
	}
	at := len(v.block)
	v.block = v.block[:at+n]
	out := v.block[at : at+n : at+n]
	clear(out)
	return out
}

// Begin forgets all values and sets the world for the runs that follow.
func (m *Machine) Begin(env *Env) {
	if m.env != env {
		// A local zone that is UTC is still none in Ruby: it prints +0000.
		m.env, m.local = env, env.Location
		if m.local == nil || m.local == time.UTC {
			m.local = time.FixedZone("UTC", 0)
		}
	}
	m.texts.reset()
	m.objects.reset()
	m.extras.reset()
	m.values.block = m.values.block[:0]
	m.last, m.thrown, m.tag = nil, Value{}, Value{}
	m.pure, m.mutated, m.original = false, false, nil
	m.have = [subjectCount]bool{}
	m.subject = Subject{}
}

// BeginEvent is Begin for the templates of one event. A change that one of them makes to
// the record is seen by the next ones. pure promises that none of them Mutates: then parts
// of the record need not be the same objects whenever they are looked up.
func (m *Machine) BeginEvent(env *Env, s Subject, pure bool) {
	m.Begin(env)
	m.subject, m.pure = s, pure
}

// broken begins the text of an error for which the interpreter itself is to blame.
const broken = "a defect of weir in this expression: "

// Run evaluates a program. The error is an *Error that says what Ruby would have raised. A
// panic becomes one too: a defect here must cost one event, not the process.
func (m *Machine) Run(p *Program) (v Value, err error) {
	m.prog = p
	if p.unseen() {
		return Value{}, m.exceed(p.body, "given up unseen, as the last %d evaluations ran into a bound", maxExcess)
	}
	defer func() {
		if r := recover(); r != nil {
			v, err = Value{}, m.exceed(p.body, "%s%v", broken, r)
		}
		p.ended(err)
	}()
	m.steps, m.spent, m.calls, m.args, m.last = 0, 0, 0, m.args[:0], nil
	if cap(m.vars) < p.slots {
		m.vars = make([]Value, p.slots)
	}
	m.vars = m.vars[:p.slots]
	clear(m.vars)
	for len(m.dynamic) < p.dynamics {
		m.dynamic = append(m.dynamic, dynamic{})
	}
	for _, i := range p.inits {
		m.vars[i.slot] = m.subjectValue(i.subject)
	}
	v, err = m.eval(p.body)
	switch err {
	case errNext, errBreak, errThrow:
		return Value{}, m.raise(p.body, "LocalJumpError", "%v", err)
	}
	return v, err
}

// An expression that runs into its bounds each time costs milliseconds each time: after
// maxExcess in a row it is tried again only every maxUnseen events.
const (
	maxExcess = 16
	maxUnseen = 100
)

// unseen says whether this evaluation is to be given up at once.
func (p *Program) unseen() bool { return p.excess.Load() >= maxExcess && p.skips.Add(-1) >= 0 }

// ended notes how an evaluation ended.
func (p *Program) ended(err error) {
	e, ok := err.(*Error)
	switch {
	case ok && e.Class == "":
		if p.excess.Add(1) >= maxExcess {
			p.skips.Store(maxUnseen)
		}
	case p.excess.Load() > 0:
		p.excess.Store(0)
	}
}

// subjectValue makes a variable of the event when it is first used.
func (m *Machine) subjectValue(i int) Value {
	if m.have[i] {
		return m.subjects[i]
	}
	s := &m.subject
	var v Value
	switch i {
	case subjectTag:
		v = m.str(s.Tag)
	case subjectHostname:
		v = m.str(m.env.Hostname)
	case subjectTime:
		v = m.timeValue(int64(s.Time), m.local)
	case subjectRecord:
		v = m.fromRaw(s.Record)
	default:
		v = m.tagParts(i)
	}
	m.subjects[i], m.have[i] = v, true
	return v
}

// tagParts makes tag_parts, tag_prefix or tag_suffix. As in Ruby's split, empty parts at
// the end do not count.
func (m *Machine) tagParts(i int) Value {
	tag := strings.TrimRight(m.subject.Tag, ".")
	if tag == "" {
		return m.array(nil)
	}
	items := m.values.get(strings.Count(tag, ".") + 1)
	from := 0
	for k := range items {
		to := len(tag)
		if n := strings.IndexByte(tag[from:], '.'); n >= 0 {
			to = from + n
		}
		switch i {
		case subjectTagPrefix:
			items[k] = m.str(tag[:to])
		case subjectTagSuffix:
			items[k] = m.str(tag[from:])
		default:
			items[k] = m.str(tag[from:to])
		}
		from = to + 1
	}
	return m.array(items)
}

func (m *Machine) str(s string) Value {
	t := m.texts.get()
	t.s = s
	return Value{kind: String, s: t}
}

func (m *Machine) symbol(s string) Value {
	v := m.str(s)
	v.kind = Symbol
	return v
}

func (m *Machine) array(items []Value) Value {
	o := m.objects.get()
	o.items = items
	return Value{kind: ArrayKind, o: o}
}

func (m *Machine) hash() Value { return Value{kind: HashKind, o: m.objects.get()} }

func (m *Machine) timeValue(ns int64, loc *time.Location) Value {
	o := m.objects.get()
	o.loc = loc
	return Value{kind: TimeKind, bits: uint64(ns), o: o}
}

func (m *Machine) constValue(name string) Value {
	v := m.str(name)
	v.kind = ConstKind
	return v
}

// withExtra makes an object of a rare class.
func (m *Machine) withExtra(k Kind) (Value, *extra) {
	o := m.objects.get()
	o.x = m.extras.get()
	return Value{kind: k, o: o}, o.x
}

// view makes a string of bytes without copying them. The bytes belong to the event under
// evaluation, which nobody changes before the next Begin.
func view(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// bytesOf is the reverse, for callers that only read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// raise makes the error of a node: what Ruby would raise.
func (m *Machine) raise(n node, class, format string, args ...any) error {
	return &Error{Expr: m.prog.text, Off: n.at(), Text: fmt.Sprintf(format, args...), Class: class}
}

// exceed makes the error of a bound, which no rescue catches.
func (m *Machine) exceed(n node, format string, args ...any) error {
	return m.raise(n, "", format, args...)
}

// charge counts steps for work that is not evaluating nodes.
func (m *Machine) charge(n node, steps int) error {
	if m.steps += steps; m.steps > maxSteps {
		return m.exceed(n, "the expression takes more than %d steps", maxSteps)
	}
	return nil
}

// checkText refuses a text before it is made.
func (m *Machine) checkText(n node, size int) error {
	if size > maxText || size < 0 {
		return m.exceed(n, "the text is longer than %d bytes", maxText)
	}
	return nil
}

// checkItems refuses an array before it is made.
func (m *Machine) checkItems(n node, count int) error {
	if count > maxItems || count < 0 {
		return m.exceed(n, "the array has more than %d elements", maxItems)
	}
	return nil
}

// valueSize is what an element of an array takes, about.
const valueSize = 40

// spend books a value that was made.
func (m *Machine) spend(n node, v Value) error {
	switch v.kind {
	case String:
		if len(v.s.s) > maxText {
			return m.checkText(n, len(v.s.s))
		}
		m.spent += len(v.s.s)
	case ArrayKind, HashKind:
		m.spent += len(v.o.items) * valueSize
	}
	if m.spent > maxSpent {
		return m.exceed(n, "the expression needs more than %d bytes", maxSpent)
	}
	return nil
}

// pattern is a regular expression with the flags that it was written with.
type pattern struct {
	re    *rx.Regexp
	flags string
}
