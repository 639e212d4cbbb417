package expr

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of an evaluation and of an expression.
const (
	maxSteps = 100_000 // nodes visited, and elements and kilobytes looked at
	maxText  = 2 << 20 // bytes of one text; a log event is at most 1 MiB
	maxItems = 1 << 16 // elements of one array
	maxSpent = 1 << 25 // bytes of all texts and arrays that one evaluation makes
	maxDepth = 100     // nested parentheses, brackets, calls and strings
	maxCalls = 100     // nested calls of lambdas
)

// Error says what is wrong with an expression and where, or what its evaluation raised.
type Error struct {
	Expr  string // the whole expression
	Off   int    // offset of the construct in Expr, bytes
	Text  string // what is wrong with it, or the exception's message
	Class string // the exception's class; "" if a bound was hit or the expression is wrong
}

func (e *Error) Error() string {
	if at := strings.TrimSpace(e.Expr); e.Class == "" && e.Off > 0 && e.Off < len(e.Expr) && at != "" {
		return fmt.Sprintf("%s (at %q)", e.Text, clip(e.Expr[e.Off:]))
	}
	return e.Text
}

// Offset is where in the expression the mistake is, in bytes.
func (e *Error) Offset() int { return e.Off }

// clip shortens a text for a message.
func clip(s string) string {
	const most = 40
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// Special is how an evaluation ended.
type Special uint8

const (
	Text       Special = iota // with a value
	UseNil                    // by use_nil: the whole parameter is nil
	UseDefault                // by use_default: the parameter has its default
)

// The ways out of an evaluation that are no mistakes.
var (
	errUseNil     = errors.New("use_nil")
	errUseDefault = errors.New("use_default")
	errNext       = errors.New("next outside a block")
	errBreak      = errors.New("break outside a block or loop")
	errThrow      = errors.New("throw without catch")
)

// Env is the world that an expression sees. Functions may be nil: what needs them is then
// an error.
type Env struct {
	Lookup   func(name string) (string, bool)  // environment variables
	ReadFile func(name string) ([]byte, error) // File.read
	Now      func() time.Time                  // Time.now
	Random   func(b []byte)                    // fills b: rand, SecureRandom
	Location *time.Location                    // the local time zone; nil is UTC
	Hostname string                            // hostname, Socket.gethostname
	WorkerID string                            // worker_id; "" outside a worker
	PID      int                               // Process.pid
}

// Program is a compiled expression. It is immutable and may be used from any goroutine.
type Program struct {
	text     string
	body     node
	slots    int
	inits    []initial // variables that begin with a value of the event
	dynamics int       // regular expressions made while running
	mutates  bool      // it may change the record or what the record holds

	excess, skips atomic.Int32 // evaluations in a row that ran into a bound; how many are given up unseen from now on
}

// initial says that a variable begins with a value of the event.
type initial struct{ slot, subject int }

// Compile compiles the text of one "#{…}", without the braces, for a configuration file.
// The error is an *Error that names the construct that is wrong or not supported.
func Compile(text string) (*Program, error) {
	return compile(newParser(text))
}

// CompileTemplate compiles a template of record_transformer with enable_ruby. With typed, a
// template that is one ${…} gives the value inside; any other template is the inside of a
// Ruby string %Q[…] whose ${…} are interpolated, and gives a String. Offsets in errors
// count from the start of the Ruby text.
func CompileTemplate(text string, typed bool) (*Program, error) {
	if typed && strings.Count(text, "${") == 1 && strings.HasPrefix(text, "${") && strings.HasSuffix(text, "}") {
		text = text[len("${") : len(text)-1]
	} else {
		text = "%Q[" + strings.ReplaceAll(text, "${", "#{") + "]"
	}
	p := newParser(text)
	p.event = true
	return compile(p)
}

func compile(p *parser) (prog *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			prog, err = nil, p.fail(0, fmt.Sprintf("%s%v", broken, r))
		}
	}()
	body, err := p.program(tEOF)
	if err != nil {
		return nil, err
	}
	return &Program{text: p.src, body: body, slots: p.scope.max, inits: p.inits, dynamics: p.dynamics, mutates: p.mutates}, nil
}

// End finds the brace that closes an expression embedded in a double-quoted text: the
// offset of the first '}' in rest up to which the text is a complete expression, or -1.
func End(rest string) int {
	p := newParser(rest)
	if _, err := p.program(tOp); err == nil && p.isOp("}") {
		return p.tok.off
	}
	// Not an expression that we know. Find its end all the same, so that the message can
	// show the whole of it.
	return braceEnd(rest, 0)
}

// braceEnd finds the closing brace by matching braces outside strings.
func braceEnd(s string, nested int) int {
	depth := 0
	for i := 0; i < len(s) && nested < maxDepth; i++ {
		switch c := s[i]; c {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '"', '\'', '`':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' {
					i++
				} else if c != '\'' && strings.HasPrefix(s[i:], "#{") {
					n := braceEnd(s[i+2:], nested+1)
					if n < 0 {
						return -1
					}
					i += 2 + n
				}
			}
		}
	}
	return -1
}

// Mutates says whether the expression may change an object in place, the record say.
func (p *Program) Mutates() bool { return p.mutates }

// String is the expression as it was written.
func (p *Program) String() string { return p.text }

// Eval evaluates an expression of a configuration file. With a Special other than Text the
// value is nil. The error says what Ruby would have raised.
func (p *Program) Eval(env *Env) (Value, Special, error) {
	m := &Machine{}
	m.Begin(env)
	v, err := m.Run(p)
	switch {
	case err == nil:
		return v, Text, nil
	case errors.Is(err, errUseNil):
		return Value{}, UseNil, nil
	case errors.Is(err, errUseDefault):
		return Value{}, UseDefault, nil
	}
	return Value{}, Text, err
}
