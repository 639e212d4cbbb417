package expr

import "weir/internal/ruby/rx"

// node is a part of an expression's tree.
type node interface{ at() int }

type (
	// literal is a value that nobody can change: a number, a symbol, a regular expression.
	literal struct {
		off   int
		value Value
	}
	stringLiteral struct {
		off  int
		text string
	}
	interpolation struct {
		off   int
		parts []node
	}
	dynamicRegexp struct {
		off     int
		source  node
		options rx.Options
		flags   string
		slot    int // in Machine.dynamic
	}
	array struct {
		off   int
		items []node // of which some may be splats
	}
	splat struct {
		off   int
		value node
	}
	hash struct {
		off          int
		keys, values []node // a nil key: the value is a hash to merge
	}
	span struct {
		off       int
		from, to  node // nil: open
		exclusive bool
	}
	variable    struct{ off, slot int }
	eventValue  struct{ off, subject int }
	globalValue struct {
		off  int
		name string
	}
	assign struct {
		off, slot int
		value     node
	}
	// multiple is a, b = value.
	multiple struct {
		off   int
		slots []int
		rest  int // which of the slots takes the rest, -1 if none
		value node
	}
	// update is a op= b, for a variable (slot) or an element (target is a call of []).
	update struct {
		off    int
		slot   int
		target *call
		op     string
		apply  *call // the operator's call; receiver and argument are given
		set    *call // the call of []= of a target, likewise
		value  node
	}
	constant struct {
		off  int
		name string
	}
	// call is a method call; operators are calls too.
	call struct {
		off   int
		recv  node
		name  string
		args  []node
		splat bool // one of args is a splat
		block *block
		pass  node // &value as the block
		safe  bool // &.
		fns   *[kinds]*method
	}
	// constCall is a call on a constant.
	constCall struct {
		off   int
		recv  string
		name  string
		args  []node
		block *block
		fn    *classMethod
	}
	// function is a call without a receiver.
	function struct {
		off   int
		name  string
		args  []node
		block *block
		fn    *kernelMethod
	}
	block struct {
		off    int
		params []param
		body   node
		lo, hi int // the slots of its variables
		lambda bool
		symbol bool // it stands for &:name
	}
	lambda struct {
		off   int
		block *block
	}
	logic struct { // || and &&
		off         int
		left, right node
		or          bool
	}
	not struct {
		off int
		arg node
	}
	cond struct {
		off       int
		test      node
		then, els node // els may be nil
	}
	choice struct { // case
		off     int
		subject node // nil: the tests stand alone
		whens   []when
		els     node
	}
	loop struct {
		off  int
		test node
		not  bool // until
		body node
	}
	attempt struct { // begin … rescue … ensure
		off     int
		body    node
		rescues []rescue
		els     node
		ensure  node
	}
	jump struct { // next, break
		off   int
		brk   bool
		value node // may be nil
	}
	responds struct {
		off  int
		recv node
		fns  *[kinds]*method
	}
	sequence struct {
		off   int
		steps []node
	}
)

// param is a parameter of a block.
type param struct {
	slot  int
	rest  bool    // *name
	sub   []param // (a, b)
	deflt node    // may be nil
}

type when struct {
	tests []node
	body  node
}

type rescue struct {
	classes []node // none: StandardError
	slot    int    // of the variable for the exception, -1 if none
	body    node
}

func (n *literal) at() int       { return n.off }
func (n *stringLiteral) at() int { return n.off }
func (n *interpolation) at() int { return n.off }
func (n *dynamicRegexp) at() int { return n.off }
func (n *array) at() int         { return n.off }
func (n *splat) at() int         { return n.off }
func (n *hash) at() int          { return n.off }
func (n *span) at() int          { return n.off }
func (n *variable) at() int      { return n.off }
func (n *eventValue) at() int    { return n.off }
func (n *globalValue) at() int   { return n.off }
func (n *assign) at() int        { return n.off }
func (n *multiple) at() int      { return n.off }
func (n *update) at() int        { return n.off }
func (n *constant) at() int      { return n.off }
func (n *call) at() int          { return n.off }
func (n *constCall) at() int     { return n.off }
func (n *function) at() int      { return n.off }
func (n *block) at() int         { return n.off }
func (n *lambda) at() int        { return n.off }
func (n *logic) at() int         { return n.off }
func (n *not) at() int           { return n.off }
func (n *cond) at() int          { return n.off }
func (n *choice) at() int        { return n.off }
func (n *loop) at() int          { return n.off }
func (n *attempt) at() int       { return n.off }
func (n *jump) at() int          { return n.off }
func (n *responds) at() int      { return n.off }
func (n *sequence) at() int      { return n.off }
