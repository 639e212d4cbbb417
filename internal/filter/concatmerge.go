package filter

import (
	"bytes"
	"cmp"
	"slices"

	"weir/internal/event"
)

// merged appends the record that a group becomes: the fields of record, which ends the
// group, overwritten by those of the group's first event, with the text of all in the key's
// place and without the fields in remove.
func (c *Concat) merged(dst, record []byte, g *group, remove map[string]bool) []byte {
	text := g.text
	if c.mode == byMetadata && (sortByOrdinal(g.parts) || c.sep != "") {
		text = joinParts(g, c.sep)
	}
	return c.merge(dst, record, g.record, text, remove)
}

// sortByOrdinal puts parts in order, and says whether they were not.
func sortByOrdinal(parts []piece) (changed bool) {
	by := func(a, b piece) int { return cmp.Compare(a.ordinal, b.ordinal) }
	if slices.IsSortedFunc(parts, by) {
		return false
	}
	slices.SortStableFunc(parts, by)
	return true
}

func joinParts(g *group, sep string) (text []byte) {
	for i, p := range g.parts {
		if i > 0 {
			text = append(text, sep...)
		}
		text = append(text, g.text[p.start:p.end]...)
	}
	return text
}

func (c *Concat) merge(dst, record, first, text []byte, remove map[string]bool) []byte {
	if c.latest == "" && sameKeys(record, first) {
		return replaced(dst, first, c.p.Key, text, remove)
	}
	var order []string
	values := map[string][]byte{}
	note := func(name string, field []byte) {
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = field
	}
	eachField(record, note)
	eachField(first, func(name string, field []byte) {
		if name != c.latest || values[name] == nil {
			note(name, field)
		}
	})
	at, n := len(dst), 0
	dst = event.OpenMap(dst)
	for _, name := range order {
		if remove[name] {
			continue
		}
		n++
		if name == c.p.Key {
			dst = event.AppendStr(event.AppendStr(dst, name), text)
		} else {
			dst = append(dst, values[name]...)
		}
	}
	return event.CloseMap(dst, at, n)
}

// eachField calls do for each field of a record: its name, and key and value together.
// A key that is no text is named by its bytes, with a zero byte in front.
func eachField(record []byte, do func(name string, field []byte)) {
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return
	}
	for range n {
		key, value, err := event.Bytes(record, i)
		name := string(key)
		if err != nil {
			if value, err = event.Skip(record, i); err != nil {
				return
			}
			name = "\x00" + string(record[i:value])
		}
		end, err := event.Skip(record, value)
		if err != nil {
			return
		}
		do(name, record[i:end])
		i = end
	}
}

// sameKeys says whether two records have the same keys in the same order.
func sameKeys(a, b []byte) bool {
	n, i, err := event.MapHeader(a, 0)
	m, j, err2 := event.MapHeader(b, 0)
	if err != nil || err2 != nil || n != m {
		return false
	}
	for range n {
		k, err := event.Skip(a, i)
		l, err2 := event.Skip(b, j)
		if err != nil || err2 != nil || !bytes.Equal(a[i:k], b[j:l]) {
			return false
		}
		if i, err = event.Skip(a, k); err != nil {
			return false
		}
		if j, err = event.Skip(b, l); err != nil {
			return false
		}
	}
	return true
}

// replaced appends a record with text as the value of key, without the fields in remove.
func replaced(dst, record []byte, key string, text []byte, remove map[string]bool) []byte {
	n, i, err := event.MapHeader(record, 0)
	if err != nil {
		return dst
	}
	at, count, run := len(dst), n, i
	dst = event.OpenMap(dst)
	for range n {
		name, value, err := event.Bytes(record, i)
		if err != nil {
			if value, err = event.Skip(record, i); err != nil {
				break
			}
			name = nil
		}
		end, err := event.Skip(record, value)
		if err != nil {
			break
		}
		switch {
		case name != nil && remove[string(name)]:
			dst = append(dst, record[run:i]...)
			count--
			run = end
		case name != nil && string(name) == key:
			dst = append(dst, record[run:value]...)
			dst = event.AppendStr(dst, text)
			run = end
		}
		i = end
	}
	dst = append(dst, record[run:i]...)
	return event.CloseMap(dst, at, count)
}
