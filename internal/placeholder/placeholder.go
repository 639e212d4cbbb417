// Package placeholder expands names: log groups and streams, file paths, object keys. It
// knows Fluentd's buffer placeholders
//
//	${tag}  ${tag[1]}  ${tag[-1]}  ${field}  ${$.a.b[0]}  ${chunk_id}  %Y-%m-%d
//
// with Fluentd's rules about which of them work under which chunk keys, and one extension
// of ours (Options.Direct): names that read the tag and the record without chunk keys.
//
// The package is pure: no goroutine, no clock, no I/O, no logger. Expanding allocates
// nothing but what dst needs to grow.
package placeholder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/event"
	"weir/internal/ruby/timefmt"
)

// Options says what a template may use.
type Options struct {
	// ChunkKeys are the words of the buffer section: tag, time, and record accessors.
	ChunkKeys []string
	// Timekey is the length of the time windows; above 0 exactly when "time" is a chunk
	// key. The whole text is then a strftime layout that shows the start of the window, and
	// a percent sign is written %%. Otherwise percent signs mean nothing.
	Timekey time.Duration
	// Location is timekey_zone; nil is UTC.
	Location *time.Location
	// Direct lets ${…} read the tag and the record without a chunk key. For destinations
	// whose names may differ from event to event.
	Direct bool
	// EventTime makes the text a strftime layout even without Timekey; it then shows the
	// event's own time. Never set it for a parameter that Fluentd knows: a % that Fluentd
	// leaves alone has to stay.
	EventTime bool
	// Strict makes errors out of what Fluentd's own checks for the file output refuse:
	// placeholders without their chunk key, chunk keys without their placeholder, and a
	// time layout too coarse to tell the windows apart. Without Strict the first is a
	// warning and the others are silent.
	Strict bool
}

// Problem is something wrong with a template.
type Problem struct {
	Warning bool   // legal, but probably not meant; otherwise it must stop the start
	Text    string // what is wrong
	Hint    string // what to write instead; may be empty
}

// Context is what a template is expanded with.
type Context struct {
	Tag     string
	Time    event.Time // of the event
	Record  []byte     // a msgpack map; may be nil unless UsesRecord
	ChunkID [16]byte   // written as 32 hex digits
}

// ErrUnsafePath is returned, wrapped, by AppendPath for a value that would lead out of the
// configured directory.
var ErrUnsafePath = errors.New("value is not safe in a path")

// Kinds of parts.
const (
	literal = iota
	layout  // text with strftime directives
	wholeTag
	tagPart
	field
	chunkID
)

type part struct {
	kind   uint8
	index  int // of a tagPart; negative counts from the end
	text   string
	path   event.Path
	layout *timefmt.Layout
}

// Template is a compiled name. It is immutable and may be used from any goroutine.
type Template struct {
	text   string
	parts  []part
	time   windows
	uses   [chunkID + 1]bool
	climbs int // .. steps in the text itself
}

// String is the text that the template was compiled from.
func (t *Template) String() string { return t.text }

// Static says whether the name is always the same.
func (t *Template) Static() bool {
	return !t.UsesTag() && !t.UsesTime() && !t.UsesRecord() && !t.UsesChunkID()
}

// UsesTag says whether the name depends on the tag.
func (t *Template) UsesTag() bool { return t.uses[wholeTag] || t.uses[tagPart] }

// UsesTime says whether the name depends on the event's time.
func (t *Template) UsesTime() bool { return t.uses[layout] }

// UsesRecord says whether the name depends on the record.
func (t *Template) UsesRecord() bool { return t.uses[field] }

// UsesChunkID says whether the name depends on Context.ChunkID.
func (t *Template) UsesChunkID() bool { return t.uses[chunkID] }

// Append appends the name for c to dst. missing says that a placeholder had no value (a
// field that the record lacks or that is nil, a tag part out of range) and stands as the
// empty text, as in Fluentd.
func (t *Template) Append(dst []byte, c Context) (out []byte, missing bool) {
	out, missing, _ = t.append(dst, &c, nil)
	return out, missing
}

// AppendPath is Append for names in a file system and for object keys, where the sender
// of an event must not choose the directory: a value from the tag or the record that
// begins with a slash or a backslash, holds a zero byte or makes a .. step is refused with
// ErrUnsafePath, and dst is returned as it was. What the template's own text says is the
// user's business.
func (t *Template) AppendPath(dst []byte, c Context) (out []byte, missing bool, err error) {
	out, missing, unsafe := t.append(dst, &c, unsafeValue)
	if unsafe != nil {
		return dst, false, fmt.Errorf("expand ${%s} in %q to %q: %w", unsafe.text, t.text, out[len(dst):], ErrUnsafePath)
	}
	if path := out[len(dst):]; climbs(path) > t.climbs { // values that are harmless alone, such as two dots from two fields
		return dst, false, fmt.Errorf("expand %q to %q: %w", t.text, path, ErrUnsafePath)
	}
	return out, missing, nil
}

// append appends the name up to the first part whose value is refused, if there is one.
func (t *Template) append(dst []byte, c *Context, refuse func(value []byte) bool) (out []byte, missing bool, refused *part) {
	var at time.Time
	if t.uses[layout] {
		at = t.time.shown(c.Time)
	}
	for i := range t.parts {
		p := &t.parts[i]
		switch p.kind {
		case literal:
			dst = append(dst, p.text...)
		case layout:
			dst = p.layout.Append(dst, at)
		default:
			from := len(dst)
			var ok bool
			if dst, ok = p.value(dst, c); !ok {
				missing = true
			}
			if refuse != nil && p.kind != chunkID && refuse(dst[from:]) {
				return dst, missing, p
			}
		}
	}
	return dst, missing, nil
}

func unsafeValue(v []byte) bool {
	return len(v) > 0 && (v[0] == '/' || v[0] == '\\') || slices.Contains(v, 0) || climbs(v) > 0
}

// climbs counts the .. steps of a path.
func climbs[T string | []byte](path T) int {
	n, begin := 0, 0
	for i := 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' || path[i] == '\\' {
			if i-begin == 2 && path[begin] == '.' && path[begin+1] == '.' {
				n++
			}
			begin = i + 1
		}
	}
	return n
}

// value appends what a placeholder stands for; ok is false if there is nothing.
func (p *part) value(dst []byte, c *Context) (out []byte, ok bool) {
	switch p.kind {
	case wholeTag:
		return append(dst, c.Tag...), true
	case tagPart:
		s, ok := partOf(c.Tag, p.index)
		return append(dst, s...), ok
	case chunkID:
		return hex.AppendEncode(dst, c.ChunkID[:]), true
	default:
		v, ok := p.path.Find(c.Record)
		if !ok || len(v) == 0 || v[0] == 0xc0 {
			return dst, false
		}
		return event.AppendText(dst, v), true
	}
}

// partOf gives the n-th part of a tag between dots, from the end if n is negative. As in
// Ruby's split, empty parts at the end do not count.
func partOf(tag string, n int) (string, bool) {
	for len(tag) > 0 && tag[len(tag)-1] == '.' {
		tag = tag[:len(tag)-1]
	}
	if tag == "" {
		return "", false
	}
	if n < 0 {
		for end := len(tag); ; {
			dot := end - 1
			for dot >= 0 && tag[dot] != '.' {
				dot--
			}
			if n++; n == 0 {
				return tag[dot+1 : end], true
			}
			if dot < 0 {
				return "", false
			}
			end = dot
		}
	}
	for begin := 0; ; n-- {
		end := begin
		for end < len(tag) && tag[end] != '.' {
			end++
		}
		if n == 0 {
			return tag[begin:end], true
		}
		if end == len(tag) {
			return "", false
		}
		begin = end + 1
	}
}

// Window gives the time span [start, end) around at in which the time in the name stays
// the same: the timekey window, or without one the layout's finest unit, a day at most.
// For a template without time it is all of time.
func (t *Template) Window(at event.Time) (start, end event.Time) {
	if !t.uses[layout] {
		return minTime, maxTime
	}
	return t.time.around(at)
}

// SameTime says whether two events certainly have the same time in their names.
func (t *Template) SameTime(a, b event.Time) bool {
	start, end := t.Window(a)
	return start <= b && b < end
}
