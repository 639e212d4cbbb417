package forward

import (
	"errors"

	"weir/internal/event"
)

// What can be wrong with an event, beyond what package event says.
var (
	errTail     = errors.New("the last event is cut off")
	errNoEntry  = errors.New("an event is not [time, record]")
	errNoRecord = errors.New("a record is not a map")
)

// normaliser rewrites entries that are not yet as a batch wants them, or that get more
// keys on the way.
type normaliser struct {
	now      event.Time // for events without a time
	keepZero bool       // leave a time of 0 as it is
	add      []byte     // keys and values to put into each record, concatenated; may be empty
	addN     int        // how many pairs add holds

	out         []byte
	count       int
	first, last event.Time
	invalid     int
	reason      error // why the last invalid event was
}

// run reads the entries of src and leaves those that are valid, rewritten where needed,
// in n.out. It fails only where the rest of src cannot be told apart.
func (n *normaliser) run(src []byte) error {
	n.out, n.count, n.invalid, n.reason = n.out[:0], 0, 0, nil
	for i := 0; i < len(src); {
		end, err := skip(src, i)
		if errors.Is(err, errMore) {
			n.drop(errTail)
			return nil
		}
		if err != nil {
			return err
		}
		n.entry(src[i:end])
		i = end
	}
	return nil
}

func (n *normaliser) drop(reason error) {
	n.invalid++
	n.reason = reason
}

// entry takes one complete value.
func (n *normaliser) entry(e []byte) {
	if !isArray(e[0]) {
		n.drop(errNoEntry)
		return
	}
	elements, i, err := event.ArrayHeader(e, 0)
	if err != nil || elements < 2 {
		n.drop(errNoEntry)
		return
	}
	start := i
	t, ok := n.time(e, i)
	if !ok {
		n.drop(event.ErrTime)
		return
	}
	if i, err = skip(e, start); err != nil {
		n.drop(err)
		return
	}
	end, err := event.Skip(e, i)
	if err != nil {
		n.drop(err)
		return
	}
	record := e[i:end]
	if !isMap(record[0]) {
		n.drop(errNoRecord)
		return
	}
	n.accept(t, record)
}

// time reads the time at e[i:], which may be [time, metadata], nil or 0.
func (n *normaliser) time(e []byte, i int) (event.Time, bool) {
	if isArray(e[i]) {
		elements, j, err := event.ArrayHeader(e, i)
		if err != nil || elements == 0 {
			return 0, false
		}
		i = j
	}
	if e[i] == 0xc0 {
		return n.now, true
	}
	t, _, err := event.ReadTime(e, i)
	if err != nil {
		return 0, false
	}
	if t.Seconds() == 0 && !n.keepZero {
		return n.now, true
	}
	return t, true
}

func (n *normaliser) accept(t event.Time, record []byte) {
	if n.count == 0 || t < n.first {
		n.first = t
	}
	if n.count == 0 || t > n.last {
		n.last = t
	}
	n.count++
	n.out = append(n.out, 0x92)
	n.out = appendTime(n.out, t)
	if n.addN == 0 {
		n.out = append(n.out, record...)
		return
	}
	n.out = n.appendWith(n.out, record)
}

// appendTime writes EventTime where that can hold t, else whole seconds: EventTime counts
// unsigned 32-bit seconds.
func appendTime(dst []byte, t event.Time) []byte {
	if s := t.Seconds(); s < 0 || s > 1<<32-1 {
		return event.AppendInt(dst, s)
	}
	return event.AppendTime(dst, t)
}

// appendWith appends record with the pairs of n.add in it. Like a Ruby hash, a key that is
// there already gets the new value and keeps its place.
func (n *normaliser) appendWith(dst, record []byte) []byte {
	pairs, start, err := event.MapHeader(record, 0)
	if err != nil {
		return append(dst, record...)
	}
	extra := 0
	for i, k := 0, 0; k < n.addN; k++ {
		key, val, next := pair(n.add, i)
		if _, found := findKey(record, start, pairs, n.add[key:val]); !found {
			extra++
		}
		i = next
	}
	dst = event.AppendMapHeader(dst, pairs+extra)
	for i, k := start, 0; k < pairs; k++ {
		key, val, next := pair(record, i)
		dst = append(dst, record[key:val]...)
		if j, found := findKey(n.add, 0, n.addN, record[key:val]); found {
			_, v, e := pair(n.add, j)
			dst = append(dst, n.add[v:e]...)
		} else {
			dst = append(dst, record[val:next]...)
		}
		i = next
	}
	for i, k := 0, 0; k < n.addN; k++ {
		key, val, next := pair(n.add, i)
		if _, found := findKey(record, start, pairs, n.add[key:val]); !found {
			dst = append(dst, n.add[key:next]...)
		}
		i = next
	}
	return dst
}

// pair finds the bounds of the key and the value at b[i:], which are known to be whole.
func pair(b []byte, i int) (key, val, end int) {
	val, _ = skip(b, i)
	end, _ = skip(b, val)
	return i, val, end
}

// findKey looks for a key with the text of want among pairs of b from start on.
func findKey(b []byte, start, pairs int, want []byte) (at int, found bool) {
	w, _, err := event.Bytes(want, 0)
	if err != nil {
		return 0, false
	}
	for i, k := start, 0; k < pairs; k++ {
		key, val, end := pair(b, i)
		if s, _, err := event.Bytes(b[key:val], 0); err == nil && string(s) == string(w) {
			return i, true
		}
		i = end
	}
	return 0, false
}

// addPair puts one more pair into what is added to each record.
func (n *normaliser) addPair(key, value string) {
	n.add = event.AppendStr(n.add, key)
	n.add = event.AppendStr(n.add, value)
	n.addN++
}
