// Package expr compiles and evaluates the Ruby expressions that stand in Fluentd
// configurations: "#{…}" in values, and ${…} in the records of record_transformer. It knows
// a subset: no processes, no files unless the caller gives a reader, no eval, no calls by a
// computed name. What is not known is an error when the expression is compiled.
//
// A Program is a tree with its local variables resolved to slots and its methods resolved
// to functions. A Machine evaluates it and owns all memory that values take; records are
// read from raw msgpack, level by level and only where an expression looks. Evaluation
// counts its steps and the size of what it builds, so that no expression runs away.
//
// # Where things are
//
// From the outside: expr.go (Compile, Program, Error, bounds), machine.go (Machine: one event,
// memory, exceptions, budgets), simple.go (templates that need no Ruby), raw.go (records and JSON in and out).
//
// Text to tree: lex.go (tokens), literal.go (texts, regexps, %w, escapes), parse.go (statements,
// operators), primary.go (operands, names, method calls), args.go (arguments, blocks),
// assign.go, control.go (if, case, while, begin), node.go (the nodes).
//
// Tree to value: eval.go, call.go (methods found and called, blocks), value.go, equal.go
// (==, keys, order), inspect.go (inspect and to_s), lacking.go (what is refused, and not raised).
//
// Methods, by class: object.go (all classes, nil, booleans, Symbol, Proc, URI), number.go,
// bits.go, counting.go (times, upto, step), rounding.go, precise.go (logarithms and powers to the last bit),
// string.go (tables, operators, comparing), stringedit.go (upcase, chomp, tr, delete, scrub: a text of a
// text), stringslice.go (by place: index, slice, insert, chars, ljust), stringsplit.go (split, scan, lines),
// stringnumber.go (to_i, to_f), stringsucc.go, stringencoding.go (ord, encode, unpack), format.go (sprintf),
// array.go, arrayindex.go, arrayshape.go, hash.go, range.go, enum.go and enumsort.go (what they share),
// match.go and matchplace.go (Regexp, MatchData, sub), time.go, eventtime.go, errors.go (exceptions).
//
// What has no receiver: kernel.go (puts, format, Integer()), const.go (ENV, File, JSON, Math),
// library.go (Digest, SecureRandom, CGI, URI, Base64), address.go (IPAddr).
//
// # A new method
//
// Put it into the table of its class, beside its like. It gets arguments in the number that the table
// says, of any class: check them with need or intArg, and raise what Ruby raises with Machine.raise;
// what Ruby can and this package cannot is Machine.exceed. A value that grows with the input is paid for
// with charge, checkText or checkItems before it is made. A method that changes its receiver sets
// Machine.mutated, and mutating in call.go knows its name; TestEveryMethod tells you what you forgot.
// Add lines to testdata/templates.txt and record with testdata/templates.rb what Ruby makes of them.
package expr
