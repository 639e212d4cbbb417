package cloudwatch

import (
	"bytes"
	"math"
	"strconv"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// Injector puts fields into a record: an <inject> section. It may be used from any
// goroutine.
type Injector interface {
	AppendRecord(dst []byte, tag string, t event.Time, record []byte) []byte
}

// Formatter writes the message of an event as text: a <format> section
// where there is one. It must be usable from several goroutines.
type Formatter interface {
	// Append appends the message for a record (a msgpack map) to dst.
	Append(dst []byte, tag string, t event.Time, record []byte) []byte
}

// encoding is how events become messages. It is immutable and shared by all requests.
type encoding struct {
	json      event.JSONOptions
	keys      []event.Path
	inject    Injector       // nil: nothing is put into records
	formatter Formatter      // nil: keys, or JSON
	drop      *event.PathSet // removed before the formatter sees the record
	dropEmpty bool           // likewise
	trim      bool
	maxChars  int // 0: no limit
	maxEvents int
	oversize  oversize
	first     *firstRecord // nil: nothing is wanted of the first record
}

// item is one log event of a request under construction.
type item struct {
	ms       int64
	off, end uint32 // of its JSON object within body
	entry    uint32 // the entry it came from, by order of Add
}

// body builds the logEvents of one request. Entries are encoded as they come; if they turn
// out not to be in order of time, wire puts them in order, stably.
type body struct {
	e       *encoding
	tag     string
	buf     []byte // the head, then the events' objects separated by commas
	head    int    // length of the head
	scratch []byte
	record  []byte // with what inject puts in
	items   []item
	entries int            // taken since reset
	size    int            // bytes as the service counts them
	lo, hi  int64          // smallest and largest time
	second  int64          // whose digits stamp ends with
	stamp   []byte         // {"timestamp": and these digits
	ordered bool           // items are in order of time
	pieces  bool           // the items are pieces of one oversize entry, each a request of its own
	ended   []output.Ended // entries that will not be sent
	notice  notice         // about lost events
	group   groupSettings  // from the first record
}

// maxTaken bounds the entries of a request when many of them end without being sent.
const maxTaken = 1 << 16

// keepCapacity is the largest buffer that a request keeps for its next use.
const keepCapacity = 3 << 20

func (b *body) reset(group, stream string) {
	if cap(b.buf) > keepCapacity {
		b.buf = nil
	}
	if cap(b.scratch) > keepCapacity {
		b.scratch = nil
	}
	b.tag = ""
	b.buf = append(b.buf[:0], `{"logGroupName":"`...)
	b.buf, _ = event.AppendStringEscaped(b.buf, []byte(group))
	b.buf = append(b.buf, `","logStreamName":"`...)
	b.buf, _ = event.AppendStringEscaped(b.buf, []byte(stream))
	b.buf = append(b.buf, `","logEvents":[`...)
	b.head = len(b.buf)
	b.items = b.items[:0]
	b.ended = b.ended[:0]
	b.entries, b.size, b.lo, b.hi = 0, 0, 0, 0
	b.ordered, b.pieces = true, false
	b.group = groupSettings{}
	b.notice = notice{text: b.notice.text[:0]}
}

// full says that the body takes nothing more, however small.
func (b *body) full() bool {
	n := len(b.items)
	if b.notice.set {
		n++
	}
	return b.pieces || n >= b.e.maxEvents || b.entries >= maxTaken
}

// fill says how close to its limits the body is, from 0 to 1.
func (b *body) fill() float64 {
	if b.pieces {
		return 1
	}
	return max(float64(b.size)/maxRequestBytes, float64(len(b.items))/float64(b.e.maxEvents))
}

// end takes an entry that ends with fate f and is not sent.
func (b *body) end(f ledger.Fate) {
	if k := len(b.ended); k > 0 && b.ended[k-1].Fate == f && b.ended[k-1].First+b.ended[k-1].Count == b.entries {
		b.ended[k-1].Count++
	} else {
		b.ended = append(b.ended, output.Ended{First: b.entries, Count: 1, Fate: f})
	}
	b.entries++
}

// add implements output.Request.Add.
func (b *body) add(in []byte, limit int) (entries, size int, full bool) {
	for entries < limit && size < len(in) {
		if b.full() {
			return entries, size, true
		}
		ev, n, err := event.Next(in[size:])
		if err != nil {
			// Cannot happen with entries that passed event.Check. Where the next one begins
			// cannot be known: the rest counts as one.
			b.end(ledger.Invalid.Fate())
			return entries + 1, len(in), false
		}
		ms := ev.Time.Millis()
		if ms < 0 {
			b.end(ledger.TooOld.Fate()) // the service knows no time before 1970
		} else if !b.one(ev, ms) {
			return entries, size, true
		}
		entries++
		size += n
	}
	return entries, size, b.full()
}

// one encodes an entry, or reports false and leaves the body as it was if it does not fit
// beside the others.
func (b *body) one(ev event.Entry, ms int64) bool {
	lo, hi := ms, ms
	if len(b.items) > 0 {
		lo, hi = min(b.lo, ms), max(b.hi, ms)
		if hi-lo > maxSpanMillis {
			return false
		}
	}
	start := len(b.buf)
	if len(b.items) > 0 {
		b.buf = append(b.buf, ',')
	}
	off := len(b.buf)
	b.open(ms)
	text := len(b.buf)
	n := b.message(ev)
	if b.e.maxChars > 0 && n > b.e.maxChars {
		end, bytes := cut(b.buf[text:], b.e.maxChars, math.MaxInt)
		b.buf, n = b.buf[:text+end], bytes
	}
	switch {
	case n == 0:
		b.buf = b.buf[:start]
		b.end(ledger.Empty.Fate())
		return true
	case b.size+n+eventOverhead > maxRequestBytes:
		if len(b.items) > 0 || b.notice.set {
			b.buf = b.buf[:start]
			return false
		}
		if b.e.oversize == dropLarge {
			b.buf = b.buf[:start]
			b.end(ledger.Oversize.Fate())
			return true
		}
		b.large(ms, off, text)
	default:
		b.close(ms, off, n)
	}
	if b.e.first != nil && !b.group.set {
		b.group = b.e.first.read(b.tag, ev)
	}
	b.lo, b.hi = lo, hi
	b.entries++
	return true
}

// open begins the object of an event. The digits of the second are kept, since the next
// event mostly has the same; ms is not negative.
func (b *body) open(ms int64) {
	sec, frac := ms/1000, ms%1000
	if sec != b.second || len(b.stamp) == 0 {
		b.second = sec
		b.stamp = append(b.stamp[:0], `{"timestamp":`...)
		if sec > 0 { // a number must not begin with zeros
			b.stamp = strconv.AppendInt(b.stamp, sec, 10)
		}
	}
	b.buf = append(b.buf, b.stamp...)
	if sec == 0 {
		b.buf = strconv.AppendInt(b.buf, frac, 10)
		b.buf = append(b.buf, `,"message":"`...)
		return
	}
	b.buf = append(b.buf, '0'+byte(frac/100), '0'+byte(frac/10%10), '0'+byte(frac%10),
		',', '"', 'm', 'e', 's', 's', 'a', 'g', 'e', '"', ':', '"')
}

func (b *body) close(ms int64, off, n int) {
	b.buf = append(b.buf, '"', '}')
	if k := len(b.items); k > 0 && b.items[k-1].ms > ms {
		b.ordered = false
	}
	b.items = append(b.items, item{ms: ms, off: uint32(off), end: uint32(len(b.buf)), entry: uint32(b.entries)})
	b.size += n + eventOverhead
}

// message appends the event's message, escaped, and returns how many bytes it has without
// the escaping: those are what the service counts.
func (b *body) message(ev event.Entry) int {
	var n int
	record := ev.Record
	if b.e.inject != nil {
		b.record = b.e.inject.AppendRecord(b.record[:0], b.tag, ev.Time, record)
		record = b.record
	}
	switch e := b.e; {
	case e.formatter != nil:
		b.scratch = b.scratch[:0]
		if e.drop != nil || e.dropEmpty {
			b.scratch = appendStripped(b.scratch, record, e.drop, e.dropEmpty)
			record = b.scratch
		}
		from := len(b.scratch)
		b.scratch = e.formatter.Append(b.scratch, b.tag, ev.Time, record)
		text := b.scratch[from:]
		if e.trim {
			text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
		}
		b.buf, n = event.AppendStringEscaped(b.buf, text)
	case e.keys != nil:
		n = b.joined(record)
	default:
		b.buf, n = event.AppendJSONEscaped(b.buf, record, &e.json)
	}
	return n
}

// joined appends the values of message_keys, joined by a space; what is missing or empty
// leaves no space behind.
func (b *body) joined(record []byte) int {
	total := 0
	for i := range b.e.keys {
		v, ok := b.e.keys[i].Find(record)
		if !ok {
			continue
		}
		start := len(b.buf)
		if total > 0 {
			b.buf = append(b.buf, ' ')
		}
		text := len(b.buf)
		var n int
		if b.buf, n = event.AppendTextEscaped(b.buf, v); n == 0 {
			b.buf = b.buf[:start]
			continue
		}
		total += n + text - start
	}
	if b.e.trim && total > 0 && bytes.HasSuffix(b.buf, []byte(`\n`)) && escapes(b.buf, len(b.buf)-2) {
		b.buf = b.buf[:len(b.buf)-2]
		total--
	}
	return total
}

// escapes reports whether the backslash at s[i] begins an escape, that is, whether an even
// number of backslashes stands before it.
func escapes(s []byte, i int) bool {
	n := 0
	for i > 0 && s[i-1] == '\\' {
		i--
		n++
	}
	return n%2 == 0
}

// large cuts or splits an event that exceeds what the service takes. Its escaped text is
// b.buf[text:], its object begins at off, and the body is otherwise empty.
func (b *body) large(ms int64, off, text int) {
	switch b.e.oversize {
	case truncateLarge:
		end, n := cut(b.buf[text:], math.MaxInt, maxMessageBytes-len(truncationMark))
		b.buf = append(b.buf[:text+end], truncationMark...)
		b.close(ms, off, n+len(truncationMark))
	case splitLarge:
		b.scratch = append(b.scratch[:0], b.buf[text:]...)
		b.buf = b.buf[:off]
		b.pieces = true
		for rest := b.scratch; len(rest) > 0; {
			end, n := cut(rest, math.MaxInt, maxMessageBytes)
			if len(b.items) > 0 {
				b.buf = append(b.buf, ',')
				off = len(b.buf)
			}
			b.open(ms)
			b.buf = append(b.buf, rest[:end]...)
			b.close(ms, off, n)
			rest = rest[end:]
		}
	}
}

// cut finds the longest beginning of an escaped JSON text that has at most chars
// characters and maxBytes bytes once it is unescaped, without splitting a character or an
// escape. It returns where it ends and its number of unescaped bytes.
func cut(s []byte, chars, maxBytes int) (end, n int) {
	for i := 0; i < len(s) && chars > 0; chars-- {
		width, bytes := 1, 1
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && s[i+1] == 'u':
			width = 6
			if r, err := strconv.ParseUint(string(s[i+2:min(i+6, len(s))]), 16, 16); err == nil && r >= 0x80 {
				bytes = 2
				if r >= 0x800 {
					bytes = 3
				}
			}
		case c == '\\':
			width = 2
		case c >= 0xf0:
			width, bytes = 4, 4
		case c >= 0xe0:
			width, bytes = 3, 3
		case c >= 0xc0:
			width, bytes = 2, 2
		}
		if n+bytes > maxBytes {
			break
		}
		i += width
		n += bytes
		end = min(i, len(s))
	}
	return end, n
}
