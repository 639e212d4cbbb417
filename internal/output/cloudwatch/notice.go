package cloudwatch

import (
	"slices"
	"strconv"
	"strings"

	"weir/internal/event"
	"weir/internal/output"
)

// noEntry is the entry of an item that is a notice.
const noEntry = ^uint32(0)

// noticeHour is how far ahead of the clock a notice may stand for the sake of the events
// that it tells of: the service takes two hours.
const noticeHour = 60 * 60 * 1000

// notice is a line about lost events among those of a request. Its time depends on what is
// added behind it: place makes it an item when the request is complete.
type notice struct {
	text   []byte // escaped
	at     int    // it stands before items[at]
	last   int64  // time of the last lost event; 0: not known
	behind int64  // of the first event behind the loss that the stream has; 0: not known
	set    bool
	placed bool
	untold bool // it was refused
}

// Tell implements output.Teller.
func (r *request) Tell(n output.Notice) bool {
	return r.body.tell(&n, r.o.noticeJSON)
}

func (b *body) tell(n *output.Notice, asJSON bool) bool {
	m := &b.notice
	if m.set || b.pieces || len(b.items) > 0 && len(b.items) >= b.e.maxEvents {
		return false
	}
	if asJSON {
		b.scratch = appendNoticeJSON(b.scratch[:0], n)
	} else {
		b.scratch = appendNotice(b.scratch[:0], n)
	}
	text, size := event.AppendStringEscaped(m.text[:0], b.scratch)
	m.text = text
	if len(b.items) > 0 && b.size+size+eventOverhead > maxRequestBytes {
		return false
	}
	b.size += size + eventOverhead
	m.set, m.at, m.last, m.behind = true, len(b.items), n.Last.Millis(), n.Behind.Millis()
	return true
}

// place makes the notice an item. Its time is that of the event behind it, if that is not
// before the last lost one; otherwise that of the last lost one, but not before the event
// in front of it. What was lost before events that the stream has by now is told at their
// time, since a stream is read in order of time. It never takes the request out of what the service takes: now is the
// clock.
func (b *body) place(now int64) {
	m := &b.notice
	if !m.set || m.placed {
		return
	}
	m.placed = true
	t := m.last
	switch {
	case m.at == 0 && m.behind >= t && m.behind > 0 && (len(b.items) == 0 || b.items[0].ms >= m.behind):
		t = m.behind
	case len(b.items) == 0:
		t = max(t, now)
	case m.at < len(b.items) && b.items[m.at].ms >= t:
		t = b.items[m.at].ms
	case m.at > 0:
		t = max(t, b.items[m.at-1].ms)
	}
	if t > now+noticeHour {
		t = now // events from the future are no reason to stand there
	}
	if len(b.items) > 0 {
		t = min(max(t, b.hi-maxSpanMillis), b.lo+maxSpanMillis)
		b.buf = append(b.buf, ',')
	}
	off := len(b.buf)
	b.open(max(t, 0))
	b.buf = append(append(b.buf, m.text...), '"', '}')
	it := item{ms: max(t, 0), off: uint32(off), end: uint32(len(b.buf)), entry: noEntry}
	if m.at < len(b.items) || m.at > 0 && b.items[m.at-1].ms > it.ms {
		b.ordered = false // its bytes stand behind all others
	}
	b.items = slices.Insert(b.items, m.at, it)
}

// appendNotice writes the text form.
func appendNotice(dst []byte, n *output.Notice) []byte {
	dst = append(dst, "weir: "...)
	if n.Events == 0 { // of torn data only the bytes may be known
		dst = append(dst, "some events"...)
	} else {
		dst = strconv.AppendUint(dst, n.Events, 10)
		dst = append(dst, plural(n.Events, " event", " events")...)
	}
	if n.Bytes > 0 {
		dst = append(appendSize(append(dst, " ("...), n.Bytes), ')')
	}
	dst = append(dst, " missing"...)
	if known(n) {
		dst = appendMillis(append(dst, " between "...), n.First)
		dst = appendMillis(append(dst, " and "...), n.Last)
	}
	for i, r := range n.Reasons {
		if i == 0 {
			dst = append(dst, ": "...)
		} else {
			dst = append(dst, ", "...)
		}
		dst = append(dst, strings.ReplaceAll(r.Reason.String(), "_", " ")...)
		if r.Events > 0 {
			dst = strconv.AppendUint(append(dst, ' '), r.Events, 10)
		}
	}
	return dst
}

// appendNoticeJSON writes the JSON form.
func appendNoticeJSON(dst []byte, n *output.Notice) []byte {
	dst = append(dst, `{"weir":"loss","dropped_events":`...)
	dst = strconv.AppendUint(dst, n.Events, 10)
	if n.Bytes > 0 {
		dst = strconv.AppendUint(append(dst, `,"dropped_bytes":`...), n.Bytes, 10)
	}
	if known(n) {
		dst = append(appendMillis(append(dst, `,"first":"`...), n.First), '"')
		dst = append(appendMillis(append(dst, `,"last":"`...), n.Last), '"')
	}
	dst = append(dst, `,"reasons":{`...)
	for i, r := range n.Reasons {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), r.Reason.String()...), `":`...)
		dst = strconv.AppendUint(dst, r.Events, 10)
	}
	return append(dst, "}}"...)
}

func known(n *output.Notice) bool { return n.First != 0 || n.Last != 0 }

func plural(n uint64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// appendMillis writes a time as RFC 3339 in UTC with milliseconds.
func appendMillis(dst []byte, t event.Time) []byte {
	return t.Time().UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

// appendSize writes a size for people: units are powers of ten, with one decimal below ten
// of a unit and none above, rounded down.
func appendSize(dst []byte, n uint64) []byte {
	units := [...]string{" kB", " MB", " GB", " TB", " PB", " EB"}
	if n < 1000 {
		return append(strconv.AppendUint(dst, n, 10), plural(n, " byte", " bytes")...)
	}
	unit, u := uint64(1000), 0
	for u < len(units)-1 && n/unit >= 1000 {
		unit, u = unit*1000, u+1
	}
	dst = strconv.AppendUint(dst, n/unit, 10)
	if n/unit < 10 {
		dst = append(dst, '.', '0'+byte(n%unit/(unit/10)))
	}
	return append(dst, units[u]...)
}
