package expr

import (
	"math"
	"net/netip"
	"net/url"
	"time"
)

// Kind is the class of a Value.
type Kind uint8

// The classes. Their order is that of kindNames and of the table of methods.
const (
	Nil Kind = iota
	Bool
	Int
	Uint // an Integer from 2^63 on: carried and printed, not computed with
	Float
	String
	Symbol
	ArrayKind
	HashKind
	RangeKind
	RegexpKind
	MatchKind
	TimeKind
	ProcKind
	ErrorKind
	ConstKind // a class or module
	URIKind
	AddressKind // an IPAddr
	RawKind     // a msgpack ext: carried, not understood
	kinds
)

var kindNames = [kinds]string{"NilClass", "boolean", "Integer", "Integer", "Float", "String", "Symbol", "Array", "Hash",
	"Range", "Regexp", "MatchData", "Time", "Proc", "StandardError", "Class", "URI::Generic", "IPAddr", "Object"}

// String is Ruby's name of the class.
func (k Kind) String() string { return kindNames[k] }

// Value is a Ruby value. The zero Value is nil. Strings, arrays and hashes are references:
// copies of the Value see changes.
type Value struct {
	kind Kind
	bits uint64  // Bool: 0 or 1; Int, Uint: the number; Float: its bits; Time: ns since 1970; Range: 1 if its end does not belong to it
	s    *text   // String, Symbol, the name of a constant
	o    *object // the other classes
}

// encoding of a String, as far as it matters.
type encoding uint8

const (
	utf8Text encoding = iota
	binaryText
	latin1Text
)

type text struct {
	s   string
	enc encoding
}

// object holds what the classes beyond scalars need.
type object struct {
	items []Value        // elements of an Array, values of a Hash, the two ends of a Range
	keys  []Value        // of a Hash, in order of insertion
	raw   []byte         // an Array or Hash that was not looked into yet, or an ext: msgpack
	loc   *time.Location // of a Time
	x     *extra
}

// extra holds what is rare.
type extra struct {
	re    *pattern
	match *match
	proc  *block
	err   *Error
	uri   *url.URL
	ip    netip.Prefix
	deflt Value // what a Hash gives for a missing key
}

func boolValue(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.bits = 1
	}
	return v
}

func intValue(n int64) Value { return Value{kind: Int, bits: uint64(n)} }

func floatValue(f float64) Value { return Value{kind: Float, bits: math.Float64bits(f)} }

// Kind is the class of v.
func (v Value) Kind() Kind { return v.kind }

// IsNil says whether v is nil.
func (v Value) IsNil() bool { return v.kind == Nil }

func (v Value) int() int64 { return int64(v.bits) }

func (v Value) float() float64 { return math.Float64frombits(v.bits) }

// text is the text of a String, a Symbol or the name of a constant, "" for the rest.
func (v Value) text() string {
	if v.s == nil {
		return ""
	}
	return v.s.s
}

// Truthy says whether v counts as true: all but nil and false.
func (v Value) Truthy() bool { return v.kind != Nil && !(v.kind == Bool && v.bits == 0) }

// number says whether v is an Integer or a Float that can be computed with.
func (v Value) number() bool { return v.kind == Int || v.kind == Float }

func (v Value) asFloat() float64 {
	switch v.kind {
	case Int:
		return float64(v.int())
	case Uint:
		return float64(v.bits)
	}
	return v.float()
}

// class is the name of the class of v.
func (v Value) class() string {
	switch v.kind {
	case Bool:
		if v.bits != 0 {
			return "TrueClass"
		}
		return "FalseClass"
	case ErrorKind:
		return v.o.x.err.Class
	case RawKind:
		if _, ok := v.eventTime(); ok {
			return "Fluent::EventTime"
		}
	}
	return kindNames[v.kind]
}

// time is the point in time of a Time, in its zone.
func (v Value) time() time.Time { return time.Unix(0, v.int()).In(v.o.loc) }
